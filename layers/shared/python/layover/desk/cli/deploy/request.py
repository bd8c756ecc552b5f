"""One command about a project's stack, as its user gave it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from layover.project import DeploySettings, Project

Command = Literal["synth", "diff", "deploy", "destroy"]
_APP_OPTIONS = ("--app", "-a")


class RequestInvalid(ValueError):
    """The command line is wrong. The message says what to write."""


@dataclass(frozen=True)
class Request:
    """A command about one stage. `context`: further settings, as NAME=VALUE. `yes`: nothing is asked.
    `take_over`: a stack that does not tell its project is this one's. `more`: arguments of the CDK's command
    line, as they are."""

    command: Command
    project: Project
    stage: str
    context: tuple[str, ...] = ()
    profile: str | None = None
    region: str | None = None
    yes: bool = False
    take_over: bool = False
    more: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """The settings and the account, as the CDK's command line and the checks before it take them."""
        context = [word for each in (f"stage={self.stage}", *self.context) for word in ("-c", each)]
        profile = ["--profile", self.profile] if self.profile else []
        region = ["--region", self.region] if self.region else []
        return [*context, *profile, *region]


def request_of(
    command: Command,
    project: Project,
    *,
    stage: str | None,
    context: Sequence[str] = (),
    profile: str | None = None,
    region: str | None = None,
    yes: bool = False,
    take_over: bool = False,
    more: Sequence[str] = (),
) -> Request:
    """Return the request, with what the project sets where the command line says nothing. Raises
    RequestInvalid, and ProjectInvalid for a stage that the project does not list."""
    standard: DeploySettings = project.settings.deploy
    if wrong := next((each for each in context if "=" not in each), None):
        raise RequestInvalid(f"-c {wrong}: write NAME=VALUE")
    stages = {each.partition("=")[2] for each in context if each.startswith("stage=")}
    stages |= {stage} if stage is not None else set()
    if len(stages) > 1:
        raise RequestInvalid(f"one stage at a time, not {' and '.join(sorted(stages))}")
    if "" in stages:
        # A variable of a pipeline that is not set would deploy the default stage.
        raise RequestInvalid("the stage is empty: name one, or leave --stage out")
    name = next(iter(stages), standard.stage)
    others = tuple(each for each in context if not each.startswith("stage="))
    if any(each.partition("=")[0] in _APP_OPTIONS for each in more):
        raise RequestInvalid("the app is `app` under [deploy] of layover.toml: leave --app out")
    project.stage(name)
    return Request(
        command=command,
        project=project,
        stage=name,
        context=others,
        profile=profile or standard.profile,
        region=region or standard.region,
        yes=yes,
        take_over=take_over,
        more=tuple(more),
    )
