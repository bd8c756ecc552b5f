"""`layover init`: the files of a new project, and that they work."""

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from layover import __version__
from layover.desk import shipped
from layover.desk.cdk.distributions import requirements_in
from layover.desk.cdk.settings import Settings
from layover.desk.cli.scaffold import NotMade, make_project, project_name, template_names
from layover.desk.evals.read import parse_cases
from layover.desk.evals.write import with_case
from layover.project import DeploySettings, DevSettings, ProjectSettings, find, read
from support.commands import call

ROOT = Path(__file__).parents[4]
LAYOVER = Path(sys.executable).with_name("layover")
FILES = {
    *(
        "README.md",
        "agents/__init__.py",
        "agents/requirements.txt",
        "cdk.json",
        "infra/app.py",
        "layover.toml",
    ),
    *("pyproject.toml", "requirements.txt", "tests/test_agents.py"),
    *(".env.example", ".gitignore", ".github/workflows/agents.yml"),
}
"""Those that every template has."""
AGENTS = {"empty": "assistant", "research": "researcher", "support": "support"}
"""The agent of each template, whose cases are in a file of its name."""
TEMPLATES = tuple(AGENTS)
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LAYOVER_PROVIDERS", "LAYOVER_AGENTS")


@pytest.fixture(autouse=True)
def no_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """A uv on the path of this machine would ask an index for the first lock."""
    folders = os.environ["PATH"].split(os.pathsep)
    without = [each for each in folders if not (Path(each) / "uv").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(without))


def files_made(template: str) -> set[str]:
    return FILES | {f"evals/{AGENTS[template]}.yaml"}


def files_of(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def started(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal, as a pipeline does."""
    return subprocess.run(
        [LAYOVER, *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# It overwrites nothing


def test_file_that_is_there_is_left_as_it_is_and_said(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    mine = {"README.md": b"mine", ".gitignore": b"", "agents/__init__.py": b"# mine"}
    for name, content in mine.items():
        (tmp_path / name).write_bytes(content)
    made = make_project(tmp_path, "support")
    assert set(made.left) == mine.keys()
    assert set(made.written) == files_made("support") - mine.keys()
    assert {name: (tmp_path / name).read_bytes() for name in mine} == mine


def test_link_that_leads_nowhere_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / ".env.example").symlink_to(tmp_path / "elsewhere")
    assert make_project(tmp_path, "support").left == {".env.example": ()}
    assert not (tmp_path / "elsewhere").exists()


IGNORED = (".env", ".venv/", ".layover/", ".pytest_cache/", "__pycache__/")
BUILT = ("build/", "cdk.out/", "node_modules/")
PIN = f"layover[local,cdk]=={__version__}"
OF_AGENTS = "-r agents/requirements.txt"


@pytest.mark.parametrize(
    ("name", "mine", "lacks"),
    [
        (".gitignore", "node_modules/\n*.log\n", (*IGNORED, *BUILT[:2])),
        (".gitignore", "\ufeff.env\r\n/.layover/\r\n", (".venv/", *IGNORED[3:], *BUILT)),
        (".gitignore", ".env*\n!.env.example\n.layover\n.*cache\n**/.venv\n__*\n", BUILT),
        (".gitignore", ".*\n!.env\n", (".env", "__pycache__/", *BUILT)),
        (".gitignore", "# .env\n.env.local\nsecrets.env\n", (*IGNORED, *BUILT)),
        (".gitignore", "*\n", ()),
        ("requirements.txt", "httpx==0.28.1\n", (PIN, OF_AGENTS)),
        ("requirements.txt", f"layover-extras[cdk,local]\n{OF_AGENTS}\n", (PIN,)),
        ("requirements.txt", f"layover[local]\n{OF_AGENTS}\n", (PIN,)),
        ("requirements.txt", "# layover[local,cdk]\n", (PIN, OF_AGENTS)),
        (
            "requirements.txt",
            "httpx\nlayover[cdk, local, otel] ~= 0.1  # as elsewhere\n",
            (OF_AGENTS,),
        ),
        (
            "infra/app.py",
            "app = App()\n",
            ('Layover(stack, "Agents", agents="agents", settings=settings)',),
        ),
        ("infra/app.py", "Layover(stack, 'Shop', agents='shop', settings=settings)\n", ()),
        ("README.md", "mine", ()),
    ],
)
def test_file_that_is_left_is_said_with_the_lines_that_the_project_needs(
    name: str, mine: str, lacks: tuple[str, ...], tmp_path: Path
) -> None:
    """The user's .gitignore without `.env` gives the key to git."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(mine.encode())
    todo = f"; add to it: {'  '.join(lacks)}" if lacks else ""
    said = call(tmp_path, "init", ".").stdout.splitlines()
    assert f"left  {name}, which was there before{todo}" in said


@pytest.mark.parametrize(
    ("name", "mine", "lacks"),
    [
        ("requirements.txt", f"layover[local, cdk]\r\n{OF_AGENTS}\r\n", ()),
        ("requirements.txt", "httpx\r\n", (PIN, OF_AGENTS)),
        (".gitignore", ".env\r\n", (*IGNORED, *BUILT)),
    ],
)
def test_file_of_powershell_counts_as_the_program_that_needs_it_reads_it(
    name: str, mine: str, lacks: tuple[str, ...], tmp_path: Path
) -> None:
    """Pip reads UTF-16 by its mark; Git takes it for bytes, and ignores nothing."""
    (tmp_path / name).write_bytes(mine.encode("utf-16"))
    todo = f"; add to it: {'  '.join(lacks)}" if lacks else ""
    said = call(tmp_path, "init", ".").stdout.splitlines()
    assert f"left  {name}, which was there before{todo}" in said


def test_project_is_never_made_twice(tmp_path: Path) -> None:
    make_project(tmp_path, "support")
    (tmp_path / "agents" / "__init__.py").unlink()
    before = files_of(tmp_path)
    with pytest.raises(NotMade, match="is a project already: nothing was changed"):
        make_project(tmp_path, "support")
    assert files_of(tmp_path) == before


def test_place_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("")
    with pytest.raises(NotMade, match=r"cannot be written \((File exists|Not a directory)\)"):
        make_project(tmp_path / "shop", "support")


def test_what_was_interrupted_can_be_run_again(tmp_path: Path) -> None:
    """`layover.toml` is written last: without it there is no project yet."""
    (tmp_path / "tests").write_text("in the way")
    with pytest.raises(NotMade, match="run the command again"):
        make_project(tmp_path, "support")
    assert find(tmp_path) is None
    (tmp_path / "tests").unlink()
    make_project(tmp_path, "support")
    assert files_of(tmp_path).keys() == files_made("support")


def test_unknown_template_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(NotMade, match="no template 'suport': did you mean 'support'"):
        make_project(tmp_path / "shop", "suport")
    assert not (tmp_path / "shop").exists()


def test_command_asks_nothing_without_a_terminal_and_says_what_it_did(tmp_path: Path) -> None:
    first = started(tmp_path, "init", "my shop", "--template", "research")
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert {line.removeprefix("made  my shop/") for line in lines[:-3]} == files_made("research")
    assert lines[-3].startswith("lock  not made: `pip install uv && layover lock`")
    assert lines[-2] == "name  my-shop: the stack of a stage is my-shop-STAGE"
    assert lines[-1] == "next: cd 'my shop' && layover test && layover dev"
    again = call(tmp_path, "init", "my shop")
    assert (again.returncode, again.stdout) == (1, "")
    assert "is a project already" in again.stderr


def test_empty_name_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    """A variable of a script that is not set would fill the current folder."""
    ended = call(tmp_path, "init", "")
    assert ended.returncode == 2
    assert "NAME is empty" in ended.stderr
    assert files_of(tmp_path) == {}


# What it makes


@pytest.fixture(params=TEMPLATES)
def template(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def project(template: str, tmp_path: Path) -> Path:
    make_project(tmp_path / "my-shop", template)
    return tmp_path / "my-shop"


def test_these_templates_are_there() -> None:
    assert template_names() == list(TEMPLATES)


def test_no_word_of_the_template_is_left(project: Path, template: str) -> None:
    texts = {name: content.decode() for name, content in files_of(project).items()}
    assert texts.keys() == files_made(template)
    assert [name for name, text in texts.items() if re.search(r"__[A-Z]+__", text)] == []
    assert texts["README.md"].startswith("# my-shop\n")
    assert f"layover[local,cdk]=={__version__}" in texts["requirements.txt"]
    assert [line for text in texts.values() for line in text.splitlines() if len(line) > 120] == []


async def test_tests_of_the_template_pass(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agents, tests = types.ModuleType("agents"), types.ModuleType("test_agents")
    monkeypatch.setitem(sys.modules, "agents", agents)
    exec((project / "agents" / "__init__.py").read_text(), agents.__dict__)
    exec((project / "tests" / "test_agents.py").read_text(), tests.__dict__)
    names = [name for name in vars(tests) if name.startswith("test_")]
    for name in names:
        result = vars(tests)[name]()
        assert inspect.isawaitable(result)
        await result
    assert names


def test_cases_of_the_template_hold_as_made_without_a_key(
    project: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a folder of the project: `layover.toml` names the agents, and the file its agent."""
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    name = AGENTS[template]
    ended = call(project / "evals", "eval", f"{name}.yaml")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"^([23]) of \1 cases held, ", ended.stdout, re.M)
    assert f"`layover eval evals/{name}.yaml`" in (project / "README.md").read_text()


def test_cases_of_the_template_fail_once_the_agent_pays_without_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    make_project(tmp_path, "support")
    agents = tmp_path / "agents" / "__init__.py"
    agents.write_text(agents.read_text().replace("@tool(needs_approval=True)", "@tool"))
    ended = call(tmp_path, "eval", "evals/support.yaml")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "failed  a refund that a person denies is not paid" in ended.stdout
    assert "2 of 3 cases held" in ended.stdout


def test_a_case_of_a_run_goes_behind_those_of_the_template(project: Path, template: str) -> None:
    file = project / "evals" / f"{AGENTS[template]}.yaml"
    text = file.read_text()
    longer = with_case(text, file, AGENTS[template], {"name": "a run", "input": "Hi", "expect": {}})
    assert longer.startswith(text)
    assert parse_cases(longer, file).cases[-1].name == "a run"


def test_settings_are_the_defaults_and_each_has_a_comment(project: Path) -> None:
    text = (project / "layover.toml").read_text()
    settings = read(project).settings
    assert settings.name == "my-shop"
    assert re.fullmatch("[0-9a-f]{12}", settings.id)
    own: dict[str, Any] = {"stages": {}, "name": None, "id": ""}
    assert settings.model_copy(update=own) == ProjectSettings()
    for model in (ProjectSettings, DevSettings, DeploySettings):
        for name in fields_of(model):
            assert re.search(rf"^#[^\n]*\n(# )?{name} = ", text, re.M) or f"{name}]" in text, name
    assert tomllib.loads(text)["dev"]["timeouts"] == {}


def fields_of(model: type[BaseModel]) -> list[str]:
    sections = ("dev", "deploy", "stages", "profile", "region")
    return [name for name in model.model_fields if name not in sections]


def test_stages_are_settings_that_a_deployment_takes(project: Path) -> None:
    stages: Mapping[str, Mapping[str, Any]] = read(project).settings.stages
    assert stages.keys() == {"dev", "prod"}
    for stage, values in stages.items():
        Settings.model_validate({"stage": stage, **values})
    commented = re.findall(r"^# ([a-z_]+) = ", (project / "layover.toml").read_text(), re.M)
    known = {*Settings.model_fields, *DeploySettings.model_fields, "turn"}
    assert [name for name in commented if name not in known] == []


def test_app_of_the_stack_is_about_ten_lines(project: Path) -> None:
    lines = (project / "infra" / "app.py").read_text().splitlines()
    code = [line for line in lines if line and not line.startswith(("#", '"""'))]
    assert len(code) <= 10
    assert 'Layover(stack, "Agents", agents="agents", settings=settings)' in code


def test_flags_of_the_cdk_are_the_ones_that_the_stack_is_tested_with(project: Path) -> None:
    made, tested = (
        json.loads(p.read_text()) for p in (project / "cdk.json", shipped.SHIPPED.flags)
    )
    assert made == {**tested, "app": "python3 -m infra.app"}


def test_workflow_tests_everything_and_deploys_with_a_role_and_without_a_key(project: Path) -> None:
    text = (project / ".github" / "workflows" / "agents.yml").read_text()
    workflow = yaml.safe_load(text)
    test, deploy = workflow["jobs"]["test"], workflow["jobs"]["deploy"]
    assert workflow["permissions"] == {"contents": "read"}
    assert {"run": "layover test"} in test["steps"]
    assert deploy["needs"] == "test"
    assert deploy["permissions"]["id-token"] == "write"
    assert "refs/heads/main" in deploy["if"]
    assert {"run": "layover deploy --yes"} in deploy["steps"]
    assert "secrets." not in text


def workflow_of(project: Path) -> dict[str, Any]:
    text = (project / ".github" / "workflows" / "agents.yml").read_text()
    workflow: dict[str, Any] = yaml.safe_load(text)
    return workflow


def test_jobs_that_have_a_role_install_only_files_with_known_hashes(project: Path) -> None:
    jobs = workflow_of(project)["jobs"]
    with_role = [job for job in jobs.values() if "id-token" in job.get("permissions", {})]
    assert len(with_role) == len(jobs) - 1
    for job in with_role:
        commands = [step.get("run", "") for step in job["steps"]]
        installs = [command for command in commands if "pip install" in command]
        assert installs == ["pip install --require-hashes -r requirements.lock"]
    assert "\n   layover lock\n" in (project / "README.md").read_text()


@pytest.mark.parametrize("is_locked", [False, True])
def test_job_of_the_tests_installs_the_lock_once_there_is_one(
    is_locked: bool, project: Path
) -> None:
    (script,) = (
        step["run"]
        for step in workflow_of(project)["jobs"]["test"]["steps"]
        if "pip install" in step.get("run", "")
    )
    if is_locked:
        (project / "requirements.lock").touch()
    said = 'pip() { echo pip "$@"; }\nlayover() { echo layover "$@"; }\n'
    run = ["/bin/sh", "-c", said + script]
    output = subprocess.run(run, cwd=project, capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == (
        ["pip install --require-hashes -r requirements.lock", "layover lock --check"]
        if is_locked
        else ["pip install -r requirements.txt"]
    )


def test_pull_request_shows_what_would_change_by_a_role_of_its_own(project: Path) -> None:
    """The code of the request runs there, so the role that deploys is not given to it."""
    diff = workflow_of(project)["jobs"]["diff"]
    assert "github.event_name == 'pull_request'" in diff["if"]
    assert "head.repo.full_name == github.repository" in diff["if"]
    text = yaml.safe_dump(diff)
    assert "layover diff" in text
    assert "vars.AWS_DIFF_ROLE" in text
    assert "vars.AWS_ROLE" not in text
    readme = (project / "README.md").read_text()
    assert (
        "`repo:OWNER/REPOSITORY:pull_request` | `sts:AssumeRole` on `cdk-*-lookup-role-*`" in readme
    )


def test_prod_is_deployed_after_dev_behind_an_environment(project: Path) -> None:
    """GitHub makes an environment that is not there, and lets everything pass it."""
    prod = workflow_of(project)["jobs"]["prod"]
    assert (prod["needs"], prod["environment"]) == ("deploy", "prod")
    assert prod["if"] == "vars.AWS_PROD_ROLE != ''"
    assert {"run": "layover deploy --stage prod --yes"} in prod["steps"]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("shop", "shop"),
        ("My Shop", "my-shop"),
        ("tidy.agents_2", "tidy-agents-2"),
        ("Müller Läden", "muller-laden"),
        ("x" * 20, "x" * 20),
    ],
)
def test_name_on_aws_is_that_of_the_folder(folder: str, name: str) -> None:
    assert project_name(folder) == name


@pytest.mark.parametrize(
    "folders",
    [
        ("customer-support-agents-eu", "customer-support-agents-us", "customer-support-agents"),
        ("日本", "東京", "2", ".."),
        ("aws-helper", "helper", "Amazon helper", "aawsws-helper"),
        ("2shop", "3shop", "店shop", "shop"),
        ("Straße", "strae"),
    ],
)
def test_folders_of_which_names_are_cut_have_names_of_their_own(folders: tuple[str, ...]) -> None:
    names = {project_name(each) for each in folders}
    assert len(names) == len(folders)
    for name in names:
        assert Settings.of({"name": name}).name == name
        assert ProjectSettings(name=name).name == name


def test_packages_of_the_agents_are_installed_with_the_project(project: Path) -> None:
    """By pip, by the workflow and into the lock."""
    assert "-r agents/requirements.txt" in (project / "requirements.txt").read_text().splitlines()
    own = read(project)
    assert own.requirements == own.root / "agents" / "requirements.txt"
    assert list(requirements_in(own.root / "agents" / "requirements.txt")) == []


def test_actions_of_the_workflow_are_pinned_as_this_repository_pins_them(project: Path) -> None:
    """A tag can be moved, and a job that may deploy runs what it names."""
    text = (project / ".github" / "workflows" / "agents.yml").read_text()
    own = "".join(p.read_text() for p in (ROOT / ".github" / "workflows").glob("*.yml"))
    used = re.findall(r"uses: (\S+)@(\S+) # (v\S+)$", text, re.M)
    assert len(used) == text.count("uses: ")
    for action, commit, release in used:
        assert re.fullmatch(r"[0-9a-f]{40}", commit)
        if f"{action}@" in own:
            assert f"{action}@{commit} # {release}" in own


def test_keys_are_never_committed(project: Path) -> None:
    assert ".env" in (project / ".gitignore").read_text().splitlines()
    keys = re.findall(r"^[A-Z_]*KEY=(.*)$", (project / ".env.example").read_text(), re.M)
    assert keys == [""]


# `layover test`


def test_tests_run_from_a_folder_of_the_project_and_only_those_named(tmp_path: Path) -> None:
    make_project(tmp_path, "support")
    (tmp_path / "pyproject.toml").unlink()  # `layover test` needs no settings of pytest
    ended = started(tmp_path / "tests", "test", "test_agents.py::test_a_denial_pays_nothing", "-q")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith(f"project {tmp_path}: -m pytest ")
    assert "1 passed" in ended.stdout


def test_tests_outside_of_a_project_are_refused_with_what_to_do(tmp_path: Path) -> None:
    ended = call(tmp_path, "test")
    assert ended.returncode == 2
    assert "no layover.toml in" in ended.stderr
    assert "layover init NAME" in ended.stderr
