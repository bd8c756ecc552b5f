"""`layover synth`, `deploy` and `destroy`: what they need is said before they begin."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    MissingDependencyException,
    NoCredentialsError,
    SSOTokenLoadError,
)

from layover.desk import shipped
from layover.desk.cli.deploy import needs
from layover.desk.cli.deploy.machine import Account, Machine, NoAccount, account_of
from layover.desk.cli.deploy.request import Request, RequestInvalid, request_of
from layover.desk.cli.deploy.run import main
from layover.project import FILE, Project, ProjectInvalid, read

ROOT = Path(__file__).parents[4]
HERE = Account("123456789012", "eu-west-1", "27")


@dataclass
class FakeMachine(Machine):
    """A machine that has everything, unless it is told otherwise."""

    node: str = "v22.1.0"
    programs: tuple[str, ...] = ("node", "npx")
    packages: tuple[str, ...] = ("aws_cdk", "pip")
    terminal: bool = True
    where: Account | NoAccount = HERE
    asked: list[str] = field(default_factory=list)
    problem: str | None = None

    def import_agents(self, project: Project, variables: Mapping[str, str]) -> str | None:
        missing = re.search(r"KeyError: '(\w+)'$", self.problem or "")
        return None if missing and missing[1] in variables else self.problem

    def program(self, name: str) -> str | None:
        return name if name in self.programs else None

    def output(self, *command: str) -> str:
        return self.node

    def has_package(self, name: str) -> bool:
        return name in self.packages

    def has_terminal(self) -> bool:
        return self.terminal

    def account(self, profile: str | None, region: str | None, qualifier: str) -> Account:
        self.asked.append(qualifier)
        if isinstance(self.where, NoAccount):
            raise self.where
        return self.where


@dataclass
class Recorder:
    """Runs nothing. `codes`: exit codes by a word of the command."""

    codes: Mapping[str, int] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)
    folders: set[Path] = field(default_factory=set)

    def __call__(self, command: Sequence[str], folder: Path, _: Mapping[str, str]) -> int:
        self.commands.append(list(command))
        self.folders.add(folder)
        return next((code for word, code in self.codes.items() if word in command), 0)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with an app."""
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra" / "app.py").touch()
    (tmp_path / FILE).write_text("")
    return read(tmp_path)


def taken(
    project: Project, command: Any, machine: FakeMachine, run: Recorder, **options: Any
) -> int:
    request = request_of(command, project, **{"stage": None, **options})
    return main(request, machine, run, lambda _: "fetched")


# What is needed


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        (FakeMachine(programs=("npx",)), "node: install Node 20 or newer"),
        (FakeMachine(node=""), "node: install Node 20 or newer"),
        (FakeMachine(node="v18.20.1"), "node: v18.20.1 is too old: install Node 20"),
        (FakeMachine(programs=("node",)), "cdk: npx is missing"),
        (FakeMachine(packages=("pip",)), "packages: pip install 'layover[cdk]'"),
        (FakeMachine(packages=("aws_cdk",)), "pip: this environment has no pip"),
        (FakeMachine(where=NoAccount("sign in")), "credentials: sign in"),
        (FakeMachine(terminal=False), "terminal: add --yes"),
        (
            FakeMachine(where=Account("1", "eu-west-1", "")),
            f"bootstrap: once for this account and region: npx --yes aws-cdk@{needs.CDK} bootstrap "
            "aws://1/eu-west-1",
        ),
    ],
)
def test_what_is_missing_is_said_and_nothing_is_begun(
    project: Project, machine: FakeMachine, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Recorder()
    assert taken(project, "deploy", machine, run) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[0].startswith(f"missing  {told}")
    assert errors[1:] == ["layover: nothing was begun"]
    assert run.commands == []


def test_all_that_is_missing_is_said_at_once(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "infra" / "app.py").unlink()
    nothing = FakeMachine(
        programs=(), packages=(), terminal=False, where=NoAccount("no AWS credentials")
    )
    assert taken(project, "deploy", nothing, Recorder()) == 1
    told = [line.split()[1] for line in capsys.readouterr().err.splitlines()[:-1]]
    assert told == ["node:", "cdk:", "app:", "packages:", "pip:", "terminal:", "credentials:"]


def test_synthesis_asks_for_no_credentials_and_no_terminal(project: Project) -> None:
    machine = FakeMachine(terminal=False, where=NoAccount("none"))
    assert taken(project, "synth", machine, Recorder()) == 0
    assert machine.asked == []


def test_environment_without_pip_is_told_how_to_get_it_before_a_synthesis(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of uv, Poetry and PDM have none."""
    run = Recorder()
    assert taken(project, "synth", FakeMachine(packages=("aws_cdk",)), run) == 1
    told = capsys.readouterr().err
    for way in ("uv pip install pip", f"{sys.executable} -m ensurepip", "uv tool install --with"):
        assert way in told
    assert run.commands == []


def test_destruction_needs_no_bootstrap(project: Project) -> None:
    machine = FakeMachine(where=Account("1", "eu-west-1", ""))
    assert taken(project, "destroy", machine, Recorder()) == 0


NAME = "@aws-cdk/core:bootstrapQualifier"
ACME = {"context": {NAME: "acme42"}}
HOME = "home/.cdk.json"


@pytest.mark.parametrize(
    ("files", "options", "qualifier"),
    [
        ({}, {}, "hnb659fds"),
        ({"cdk.json": ACME}, {}, "acme42"),
        ({"cdk.context.json": {NAME: "kept"}}, {}, "kept"),
        ({"cdk.json": ACME, "cdk.context.json": {NAME: "kept"}}, {}, "acme42"),
        ({HOME: ACME}, {}, "acme42"),
        ({HOME: ACME, "cdk.json": {"context": {NAME: "shop"}}}, {}, "shop"),
        ({"cdk.json": ACME}, {"context": [f"{NAME}=line"]}, "line"),
        ({"cdk.json": ACME}, {"more": ["--context", f"{NAME}=line"]}, "line"),
        ({"cdk.json": ACME}, {"more": [f"--context={NAME}=line"]}, "line"),
        ({"cdk.json": {"context": {NAME: ""}}}, {}, "hnb659fds"),
        ({"cdk.json": ["no object"]}, {"more": ["-c", NAME]}, "hnb659fds"),
    ],
)
def test_bootstrap_is_looked_for_by_the_qualifier_that_the_cdk_takes(
    files: dict[str, Any],
    options: dict[str, Any],
    qualifier: str,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Policies of companies forbid the standard one."""
    (project.root / "home").mkdir()
    monkeypatch.setenv("HOME", str(project.root / "home"))
    for name, content in files.items():
        (project.root / name).write_text(f"\ufeff{json.dumps(content)}", "utf-8")
    machine = FakeMachine(where=Account("1", "eu-west-1", ""))
    assert taken(project, "deploy", machine, Recorder(), **options) == 1
    assert machine.asked == [qualifier]
    own = f" --qualifier {qualifier} --toolkit-stack-name CDKToolkit-{qualifier} aws://1/eu-west-1"
    told = capsys.readouterr().err
    assert (own in told) is (qualifier != "hnb659fds")
    assert (f"{NAME} in cdk.json" in told) is (qualifier == "hnb659fds")


@pytest.mark.parametrize(
    "code",
    [
        "stack = Stack(app, 'shop', synthesizer=DefaultStackSynthesizer(qualifier='acme42'))",
        "stack = Stack(app, 'shop', synthesizer=CliCredentialsStackSynthesizer())",
        "app = App(context={'@aws-cdk/core:bootstrapQualifier': 'acme42'})",
    ],
)
@pytest.mark.parametrize("file", ["app.py", "stacks/shop.py"])
def test_app_that_chooses_its_bootstrap_by_code_is_begun(
    code: str, file: str, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """The CDK asks for what the app names once that is known."""
    place = project.root / "infra" / file
    place.parent.mkdir(exist_ok=True)
    place.write_text(code)
    machine = FakeMachine(where=Account("1", "eu-west-1", ""))
    assert taken(project, "deploy", machine, Recorder()) == 0
    assert "ok       bootstrap: the app's own code says which" in capsys.readouterr().out


def test_bootstrap_that_may_not_be_looked_at_stops_nothing(project: Project) -> None:
    machine = FakeMachine(where=Account("1", "eu-west-1", None))
    assert taken(project, "deploy", machine, Recorder()) == 0


def test_certificates_that_cannot_be_fetched_end_it_with_where_to_put_them(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: Path) -> str:
        raise OSError("bring that file")

    run = Recorder()
    request = request_of("synth", project, stage=None)
    assert main(request, FakeMachine(), run, refuse) == 1
    assert "missing  certificates: bring that file" in capsys.readouterr().err
    assert run.commands == []


def test_account_and_stage_are_said_before_anything_is_done(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    assert taken(project, "deploy", FakeMachine(), Recorder({"deploy": 7}), stage="prod") == 7
    told = capsys.readouterr()
    assert told.out.splitlines()[0] == f"project {project.root}, stage prod"
    assert "ok       credentials: account 123456789012, region eu-west-1" in told.out
    assert told.err == "layover deploy: the first deployment failed, see above\n"


# What the agents need

LACKING: dict[str, tuple[str, str, str]] = {
    "a secret": ('from layover import secret\nKEY = secret("SHOP_KEY")', "", "lacks SHOP_KEY: "),
    "a secret of a connection": (
        'from layover import Connection, secret\nConnection("b", client_secret=secret("BANK"))',
        "",
        "lacks BANK: ",
    ),
    "a variable at import": ('import os\nURL = os.environ["URL_"]', "", "lacks URL_: "),
    "a variable of a tool": ('import os\ndef f(): os.environ["URL_"]', "", "lacks URL_: "),
    "a variable without a default": (
        'import os\ndef f(): return os.getenv("URL_")',
        "",
        "may lack URL_: ",
    ),
    "a variable that the import tells": ("", "", "lacks DEEP_URL: "),
    "a variable of .env": ("", "", "may lack SHOP_MODE: "),
    "the client of tool servers": (
        'from layover import mcp\nmcp("https://a.example/mcp")',
        "",
        "lacks mcp: ",
    ),
    "a server": ('from layover import mcp\nmcp("http://localhost/mcp")', "", "lacks localhost: "),
    "a package": ("import yaml", "", "lacks pyyaml: "),
    "a module of the project": ("import shop_lib", "", "lacks shop_lib: "),
    "packages of traces": (
        "",
        'otlp_endpoint = "https://a.example"',
        "lacks opentelemetry-proto: ",
    ),
    "a channel's secret": (
        "",
        'channels = { finance = [{ slack = "#payouts" }] }',
        "missing  settings: channels need SLACK_BOT_TOKEN",
    ),
}
"""By what is lacking: the code of agents, settings of the stage, and what is said."""


def agents_that_lack(what: str, project: Project) -> Project:
    code, settings, _ = LACKING[what]
    texts = {
        FILE: f"[stages.dev]\n{settings}\n",
        "infra/app.py": "settings = Settings.from_context(context)\n",
        "agents/__init__.py": f"{code}\n",
        "shop_lib.py": "",
        ".env": "SHOP_MODE=never-said\n" if what == "a variable of .env" else "",
    }
    for name, text in texts.items():
        (project.root / name).parent.mkdir(exist_ok=True)
        (project.root / name).write_text(text)
    return read(project.root)


def importing(what: str) -> FakeMachine:
    deep = what == "a variable that the import tells"
    return FakeMachine(problem="agents/a.py:1: KeyError: 'DEEP_URL'" if deep else None)


@pytest.mark.parametrize("what", LACKING)
def test_synthesis_names_what_the_stage_lacks(
    what: str, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    said, run = LACKING[what][2], Recorder()
    lacking = agents_that_lack(what, project)
    code = taken(lacking, "synth", importing(what), run)
    told = capsys.readouterr()
    lines = (told.out + told.err).splitlines()
    if said.startswith("missing"):
        assert (code, run.commands) == (1, [])
        assert [line for line in lines if line.startswith(said)]
    else:
        assert (code, len(run.commands)) == (0, 1)
        named = [line for line in lines if " lack" in line]
        assert [line for line in named if line.startswith(f"dev {said}")]
        assert "never-said" not in "".join(lines)


@pytest.mark.parametrize(
    "what", [name for name, (*_, said) in LACKING.items() if not said.startswith("may")]
)
def test_deployment_that_is_certain_to_fail_is_not_begun(
    what: str, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Recorder()
    assert taken(agents_that_lack(what, project), "deploy", importing(what), run) == 1
    told = capsys.readouterr().err
    assert LACKING[what][2] in told
    assert told.endswith("layover: nothing was begun\n")
    assert run.commands == []


def test_deployment_that_may_do_without_goes_on(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = agents_that_lack("a variable without a default", project)
    assert taken(lacking, "deploy", FakeMachine(), Recorder()) == 0
    told = capsys.readouterr()
    assert "dev may lack URL_: " in told.out
    assert told.err == ""


def test_stack_that_is_taken_down_needs_nothing_of_its_agents(project: Project) -> None:
    assert taken(agents_that_lack("a secret", project), "destroy", FakeMachine(), Recorder()) == 0


def test_settings_of_the_command_line_and_of_cdk_json_count(project: Project) -> None:
    """As the app gets them."""
    (project.root / FILE).write_text("[stages.prod]\n")
    (project.root / "infra" / "app.py").write_text("Settings.from_context(context)\n")
    context = {"context": {"sign_up": True}}
    (project.root / "cdk.json").write_text(json.dumps(context))
    own, run = read(project.root), Recorder()
    assert taken(own, "synth", FakeMachine(), run, stage="prod") == 1
    more = ["-c", "daily_tokens=9"]
    assert taken(own, "synth", FakeMachine(), run, stage="prod", more=more) == 0


# What is done


def steps(run: Recorder) -> list[str]:
    """Return each command, without the paths of this machine."""
    python = f"{sys.executable} -m"
    return [" ".join(each).replace(python, "python -m") for each in run.commands]


CDK = f"npx --yes aws-cdk@{needs.CDK}"
APP = "--app python -m layover.desk.cdk.app infra.app"


def test_template_is_built_and_written(project: Project) -> None:
    run = Recorder()
    assert taken(project, "synth", FakeMachine(), run) == 0
    assert steps(run) == [f"{CDK} synth {APP} --quiet -c stage=dev"]
    assert run.folders == {project.root}


def test_checkout_is_built_first(project: Project) -> None:
    assert shipped.CHECKOUT is not None
    run = Recorder({"layover.desk.cdk.build": 3})
    assert taken(replace(project, root=shipped.CHECKOUT), "synth", FakeMachine(), run) == 3
    assert steps(run) == ["python -m layover.desk.cdk.build"]


def test_deployment_is_checked_first_and_a_known_stack_is_deployed_once(project: Project) -> None:
    run = Recorder({"--new": 1})
    options = {"stage": "prod", "context": ["retain=false"], "profile": "p", "region": "r"}
    assert taken(project, "deploy", FakeMachine(), run, **options, yes=True) == 0
    given = "-c stage=prod -c retain=false --profile p --region r"
    assert steps(run) == [
        f"python -m layover.desk.cdk.preflight {given}",
        f"python -m layover.desk.cdk.preflight --new {given}",
        f"{CDK} deploy {APP} --require-approval never {given}",
    ]


def test_new_stack_is_deployed_without_protection_and_then_protected(project: Project) -> None:
    run = Recorder()
    assert taken(project, "deploy", FakeMachine(), run, more=["--no-rollback"]) == 0
    assert steps(run)[-2:] == [
        f"{CDK} deploy {APP} -c stage=dev -c protection=false --no-rollback",
        f"{CDK} deploy {APP} -c stage=dev --no-rollback",
    ]


@pytest.mark.parametrize(
    ("word", "code", "count"),
    [
        ("layover.desk.cdk.preflight", 4, 1),
        ("deploy", 5, 3),
        ("deploy", -2, 3),
    ],
)
def test_first_step_that_fails_is_the_last(
    project: Project, word: str, code: int, count: int
) -> None:
    run = Recorder({word: code})
    assert taken(project, "deploy", FakeMachine(), run) == (code if code > 0 else 1)
    assert len(run.commands) == count


def test_differences_are_shown_without_a_terminal_or_a_bootstrap_and_change_nothing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = FakeMachine(terminal=False, where=Account("1", "eu-west-1", ""))
    run = Recorder()
    assert taken(project, "diff", machine, run, stage="prod") == 0
    assert steps(run) == [f"{CDK} diff {APP} -c stage=prod"]
    assert "layover diff: what a deployment of stage prod would change" in capsys.readouterr().out


def test_stack_of_another_project_is_not_taken_down(project: Project) -> None:
    run = Recorder({"--owner": 1})
    assert taken(project, "destroy", FakeMachine(), run, yes=True) == 1
    assert steps(run) == ["python -m layover.desk.cdk.preflight --owner -c stage=dev"]


@pytest.mark.parametrize(("command", "count"), [("deploy", 1), ("destroy", 1)])
def test_whoever_takes_a_stack_over_says_so_to_the_check(
    command: str, count: int, project: Project
) -> None:
    run = Recorder()
    assert taken(project, command, FakeMachine(), run, yes=True, take_over=True) == 0
    assert len([each for each in run.commands if "--take-over" in each]) == count


def test_destruction_asks_unless_it_is_told_not_to(project: Project) -> None:
    run = Recorder()
    assert taken(project, "destroy", FakeMachine(), run) == 0
    assert taken(project, "destroy", FakeMachine(), run, yes=True) == 0
    asking, unasked = (each for each in steps(run) if "destroy" in each)
    assert "--force" not in asking
    assert "--force" in unasked


def test_command_line_of_the_project_itself_is_taken(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project.root / "node_modules"
    for path in (folder / "aws-cdk" / "package.json", folder / ".bin" / "cdk"):
        path.parent.mkdir(parents=True)
        path.write_text('{"version": "2.9.9"}')
    run = Recorder()
    assert taken(project, "synth", FakeMachine(programs=("node",)), run) == 0
    assert run.commands[-1][0] == str(folder / ".bin" / "cdk")
    assert "ok       cdk: 2.9.9, in node_modules" in capsys.readouterr().out


def test_pinned_command_line_is_the_one_that_this_repository_locks() -> None:
    package = json.loads((ROOT / "package.json").read_text())
    assert package["devDependencies"]["aws-cdk"] == needs.CDK


# The request


def test_project_sets_what_the_command_line_does_not(tmp_path: Path) -> None:
    text = "[deploy]\nstage = 'test'\nprofile = 'p'\nregion = 'r'\n[stages.test]\n[stages.prod]"
    (tmp_path / FILE).write_text(text)
    project = read(tmp_path)
    assert request_of("deploy", project, stage=None) == Request(
        "deploy", project, "test", profile="p", region="r"
    )
    given = request_of("deploy", project, stage="prod", profile="q", region="s")
    assert (given.stage, given.profile, given.region) == ("prod", "q", "s")
    with pytest.raises(ProjectInvalid, match="did you mean 'prod'"):
        request_of("deploy", project, stage="prdo")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"context": ["retain"]}, "-c retain: write NAME=VALUE"),
        ({"stage": "dev", "context": ["stage=prod"]}, "one stage at a time, not dev and prod"),
        ({"stage": ""}, "the stage is empty"),
        ({"context": ["stage="]}, "the stage is empty"),
        ({"more": ["--app", "x"]}, "leave --app out"),
        ({"more": ["--app=x"]}, "leave --app out"),
    ],
)
def test_wrong_command_line_is_refused(project: Project, options: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestInvalid) as caught:
        request_of("deploy", project, **{"stage": None, **options})
    assert why in str(caught.value)


def test_stage_may_be_named_as_a_setting(project: Project) -> None:
    request = request_of("deploy", project, stage=None, context=["stage=prod", "retain=false"])
    assert request.arguments == ["-c", "stage=prod", "-c", "retain=false"]


# The account


class FakeSession:
    """A boto3 session whose calls fail as they are told."""

    def __init__(
        self,
        identity: Exception | None = None,
        bootstrap: str | Exception = "27",
        region: Any = "r",
    ) -> None:
        self.region_name = region
        self._identity, self._bootstrap = identity, bootstrap

    def get_credentials(self) -> object | None:
        if isinstance(self._identity, MissingDependencyException):
            raise self._identity
        return None if isinstance(self._identity, NoCredentialsError) else object()

    def client(self, service: str, config: Any) -> Any:
        not_found = type("ParameterNotFound", (Exception,), {})

        def get_caller_identity() -> dict[str, str]:
            if self._identity is not None:
                raise self._identity
            return {"Account": "1"}

        def get_parameter(Name: str) -> Any:
            assert Name == "/cdk-bootstrap/acme42/version"
            if self._bootstrap == "":
                raise not_found
            if isinstance(self._bootstrap, Exception):
                raise self._bootstrap
            return {"Parameter": {"Value": self._bootstrap}}

        return SimpleNamespace(
            get_caller_identity=get_caller_identity,
            get_parameter=get_parameter,
            exceptions=SimpleNamespace(ParameterNotFound=not_found),
        )


def error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code}}, "GetCallerIdentity")


@pytest.mark.parametrize(
    ("session", "told"),
    [
        (FakeSession(region=None), "no AWS region: set `region` under [deploy]"),
        (FakeSession(NoCredentialsError(), region=None), "or AWS_REGION; no AWS credentials: sign"),
        (FakeSession(NoCredentialsError()), "aws sso login"),
        (FakeSession(error("ExpiredToken")), "have expired: sign in again"),
        (FakeSession(error("InvalidClientTokenId")), "refuses the credentials (InvalidClientTok"),
        (FakeSession(SSOTokenLoadError(error_msg="x")), "cannot be used (SSOTokenLoadError)"),
        (FakeSession(SSOTokenLoadError(error_msg="of ann")), "SSO Token: of ann Otherwise sign in"),
        (FakeSession(MissingDependencyException(msg="pip install x")), "pip install x"),
        (FakeSession(MissingDependencyException(msg="pip install y"), region=None), "y Otherwise"),
    ],
)
def test_credentials_that_lead_nowhere_are_told_with_what_to_do(
    session: FakeSession, told: str
) -> None:
    with pytest.raises(NoAccount) as caught:
        account_of(session, needs.QUALIFIER)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "version"), [("27", "27"), ("", ""), (error("AccessDeniedException"), None)]
)
def test_bootstrap_is_looked_at(answer: str | Exception, version: str | None) -> None:
    assert account_of(FakeSession(bootstrap=answer), "acme42") == Account("1", "r", version)
