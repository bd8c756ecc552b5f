"""The releases of Layover that meet in a project: this installation, the project's pin, the data on this
machine, and what is deployed."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layover.desk import shipped
from layover.desk.cli.client import USAGE, ApiError
from layover.desk.local import newest_release
from layover.desk.shipped import order
from layover.project import DeploySettings, Project, ProjectInvalid, text_of

if TYPE_CHECKING:
    from layover.desk.cdk.deployed import Deployed

PINS = "requirements.txt"
_PIN = re.compile(r"layover\s*(?:\[[^\]]*\])?\s*===?\s*([^\s;#,\\*]+)\s*(?:$|[;#\\\s])", re.I)


@dataclass(frozen=True)
class Releases:
    """Versions; None where there is none. `place`: of the data, as a user names it. `stage`: of what is
    deployed."""

    installed: str
    pinned: str | None = None
    data: str | None = None
    deployed: str | None = None
    place: str = ""
    stage: str = ""

    def check(self) -> str:
        """Return what is the same or older, in words. Raises ApiError for what this release must not touch,
        and for what another machine would do differently, with what to do."""
        if wrong := list(self._problems()):
            raise ApiError("; ".join(wrong), 1)
        return "; ".join([f"{self.installed} is installed", *self._facts()])

    def _problems(self) -> Iterator[str]:
        this = f"{self.installed} is installed"
        if self._is_newer(self.data):
            yield (
                f"{self.data} has used the data in {self.place}, and {this}, which may not know what it "
                f"wrote: pip install 'layover[local]=={self.data}', or begin with another folder "
                "(layover dev --data)"
            )
        if self._is_newer(self.deployed):
            yield (
                f"{self.deployed} is deployed as {self.stage}, and {this}, which `layover deploy` refuses: "
                f"pip install 'layover[local,cdk]=={self.deployed}', and pin it in {PINS}"
            )
        if self.pinned is not None and self.pinned != self.installed:
            yield (
                f"{PINS} pins {self.pinned}, and {this}: pip install -r {PINS}, or pin {self.installed}"
            )

    def _facts(self) -> Iterator[str]:
        if self.pinned is not None:
            yield f"{PINS} pins it"
        if self.data is not None:
            same = self.data == self.installed
            todo = "" if same else ", and the next `layover dev` moves it to this one"
            yield f"the data in {self.place} is of {self.data}{todo}"
        if self.stage:
            if self.deployed is None:
                yield f"nothing that tells its release is deployed as {self.stage}"
            else:
                same = self.deployed == self.installed
                todo = "" if same else ", and `layover deploy` brings this one"
                yield f"{self.deployed} is deployed as {self.stage}{todo}"

    def _is_newer(self, version: str | None) -> bool:
        return version is not None and order(version) > order(self.installed)


def pinned(root: Path) -> str | None:
    """Return the version that the project pins; None if it pins none, or leaves a choice."""
    lines = requirement_lines(root / PINS)
    return next((match[1] for line in lines if (match := _PIN.match(line.strip()))), None)


def requirement_lines(file: Path) -> list[str]:
    """Return the lines of requirements, whose encoding is what pip takes it for; none if it cannot be
    read."""
    try:
        return text_of(file).splitlines()
    except ProjectInvalid:
        return []


def releases(
    project: Project | None, stage: str | None, client: Callable[..., Any] | None = None
) -> Releases:
    """Look at all of them. `stage`: of the deployment; None looks at none. `client`: like that of a boto3
    Session, if not of the project's profile and region. Raises ApiError."""
    installed = shipped.release()
    system = None if stage is None else system_of(project, stage, client)[1]
    deployed = None if system is None else system.release
    if project is None:
        return Releases(installed, deployed=deployed, stage=stage or "")
    place = project.settings.dev.data
    data = newest_release.read(project.root / place)
    return Releases(
        installed, pinned(project.root), data, deployed=deployed, place=place, stage=stage or ""
    )


def system_of(
    project: Project | None, stage: str, client: Callable[..., Any] | None = None
) -> tuple[str, "Deployed | None"]:
    """Return the name of a stage's system (`shop-dev`), and the system; None if it is not deployed. `client`:
    as in `releases`. Raises ApiError."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    from layover.desk.cdk.deployed import find
    from layover.desk.cdk.settings import Settings

    try:
        root = None if project is None else project.root
        settings = Settings.from_context({"stage": stage}, root=root)
        if client is None:
            at = project.settings.deploy if project is not None else DeploySettings()
            client = boto3.Session(profile_name=at.profile, region_name=at.region).client
        return settings.prefix, find(settings.prefix, client("cloudformation"))
    except ValueError as error:
        raise ApiError(str(error), USAGE) from error
    except (BotoCoreError, ClientError) as error:
        raise ApiError(f"what is deployed as {stage} was not looked at: {error}", 1) from error
