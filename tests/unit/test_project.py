"""`layover.toml`: where it is found, and what it may say."""

import json
from codecs import BOM_UTF16_BE
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from layover.project import FILE, AgentsModule, ProjectInvalid, find, parse_agents, read, text_of
from support import project_schema


def written(root: Path, text: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / FILE).write_text(text, "utf-8")
    return root


def refused(root: Path, text: str) -> str:
    with pytest.raises(ProjectInvalid) as caught:
        read(written(root, text))
    return str(caught.value).replace(f"{root / FILE}", "FILE")


def test_without_a_project_nothing_is_found(tmp_path: Path) -> None:
    assert find(tmp_path) is None


def test_project_is_found_from_any_folder_below_and_the_nearest_wins(tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    written(outer, "")
    assert (project := find(written(outer, "") / "a")) is not None
    assert project.root == outer
    below = written(inner, "agents = 'mine'") / "b" / "c"
    below.mkdir(parents=True)
    assert (project := find(below)) is not None
    assert (project.root, project.agents) == (inner, AgentsModule(inner, "mine"))


def test_project_is_found_behind_a_link_to_one_of_its_folders(tmp_path: Path) -> None:
    root = written(tmp_path / "shop", "")
    (root / "agents").mkdir()
    (tmp_path / "link").symlink_to(root / "agents")
    assert (project := find(tmp_path / "link")) is not None
    assert project.root == root.resolve()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("agnets = 'a'", "FILE: no setting 'agnets': did you mean 'agents'?"),
        ("[dev]\nprt = 1", "FILE: [dev]: no setting 'prt': did you mean 'port'?"),
        ("[deploy]\nstge = 'a'", "FILE: [deploy]: no setting 'stge': did you mean 'stage'?"),
        ("[dev]\nport = 70000", "FILE: dev.port must be less than or equal to 65535, not 70000"),
        ("[dev.timeouts]\nturn = 0", "FILE: dev.timeouts.turn must be greater than 0, not 0"),
        ("[stages]\nprod = 3", "FILE: stages.prod must be a valid dictionary, not 3"),
        ("name = 'My Shop'", "FILE: name"),
        ("name = 'aws-shop'", "FILE: name cannot be 'aws-shop': Cognito refuses names with aws"),
        ("nmae = 'shop'", "FILE: no setting 'nmae': did you mean 'name'?"),
        ("id = 'a b'", "FILE: id"),
        ("agents = 'a b'", "FILE: agents must name a module, like agents, shop.agents or src/"),
        ("agents = ''", "FILE: agents must name a module"),
        ("agents = 'layover'", "FILE: agents cannot be 'layover': that module is Layover's own"),
        ("agents = '../agents'", "FILE: agents must be in the project, not in ..: move it there"),
        ("agents = '/agents'", "FILE: agents must be in the project, not in /: move it there"),
        ("[stages.Prod]", "FILE: stages: 'Prod' cannot name a stage: write up to 16 of a-z"),
        ("agents =", "FILE is not TOML: "),
        ("a = 1\na = 2", "FILE is not TOML: "),
    ],
)
def test_wrong_setting_is_refused_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    assert refused(tmp_path, text).startswith(why)


def test_every_wrong_setting_is_told_at_once(tmp_path: Path) -> None:
    assert len(refused(tmp_path, "x = 1\n[dev]\nport = -1").splitlines()) == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_file_is_read_as_the_mark_at_its_beginning_says(tmp_path: Path, encoding: str) -> None:
    mark = BOM_UTF16_BE if encoding == "utf-16-be" else b""
    (tmp_path / FILE).write_bytes(mark + "# \xe4\r\nagents = 'mine'\r\n".encode(encoding))
    assert read(tmp_path).agents == AgentsModule(tmp_path.resolve(), "mine")
    assert text_of(tmp_path / FILE) == "# \xe4\nagents = 'mine'\n"


@pytest.mark.parametrize(
    "content", [b"agents = '\xe4'", b"\xff\xfea", "agents = 'x'".encode("utf-16-le")]
)
def test_file_that_is_not_utf_8_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ProjectInvalid, match="save it as UTF-8"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("text", "folder", "name"),
    [
        ("agents", ".", "agents"),
        ("shop.agents", ".", "shop.agents"),
        ("src/agents", "src", "agents"),
        ("./src/agents.py", "src", "agents"),
        ("./agents", ".", "agents"),
        ("src/agents/", "src", "agents"),
        ("src/agents/__init__.py", "src", "agents"),
        ("functions/user_agents/", "functions", "user_agents"),
    ],
)
def test_agents_are_a_module_with_or_without_its_folder(text: str, folder: str, name: str) -> None:
    assert parse_agents(text) == AgentsModule(Path(folder), name)


def test_mistyped_stage_is_refused_where_stages_are_listed(tmp_path: Path) -> None:
    project = read(written(tmp_path, "[stages.prod]\nretain = true\n[stages.dev]"))
    assert project.stage("prod") == {"retain": True}
    with pytest.raises(ProjectInvalid, match=r"no \[stages.prdo\]: did you mean 'prod'\?"):
        project.stage("prdo")
    assert read(written(tmp_path, "")).stage("any") == {}


def test_schema_is_the_one_of_the_code_and_takes_what_the_code_takes() -> None:
    assert project_schema.FILE.read_text() == project_schema.text()
    schema = json.loads(project_schema.text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    assert not validator.is_valid({"stages": {"dev": {"retian": True}}})
    assert not validator.is_valid({"dev": {"port": "8787"}})
    assert validator.is_valid({"agents": "agents", "stages": {"dev": {"retain": False}}})
