"""What `layover dev` serves: options win over the environment, and that over `layover.toml`."""

from datetime import timedelta
from pathlib import Path

import pytest

from layover.desk.cli.serve_options import NoAgents, Options, settings_of
from layover.desk.failures import CommandFailed
from layover.desk.local.settings import Settings, child_variables
from layover.project import FILE, Project, find

TOML = """
agents = "src/shop_agents"
[dev]
port = 9000
data = "kept"
origins = ["https://shop.example/"]
[dev.timeouts]
turn = 5
api = 6
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project, and the command in a folder of it."""
    (tmp_path / FILE).write_text(TOML)
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path / "docs")
    monkeypatch.delenv("LAYOVER_AGENTS", raising=False)
    found = find(Path.cwd())
    assert found is not None
    return found


def test_settings_are_those_of_the_project_from_any_folder(project: Project) -> None:
    settings = settings_of(project, Options())
    assert (settings.port, settings.agents) == (9000, "shop_agents")
    assert settings.data == project.root / "kept"
    assert settings.origins == ("https://shop.example",)
    assert settings.timeout("turn") == timedelta(seconds=5)


def test_options_win(project: Project) -> None:
    five = timedelta(seconds=50)
    given = Options(0, "mine", Path("here"), {"turn": five}, ("http://x",))
    settings = settings_of(project, given)
    assert (settings.port, settings.agents, settings.data) == (0, "mine", Path("here"))
    assert settings.origins == ("https://shop.example", "http://x")
    assert settings.timeouts == {"turn": five, "api": timedelta(seconds=6)}


def test_environment_and_env_file_of_the_project_win_over_its_settings(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / ".env").write_text("LAYOVER_AGENTS=of_the_file\n")
    assert settings_of(project, Options()).agents == "of_the_file"
    monkeypatch.setenv("LAYOVER_AGENTS", "of_the_shell")
    assert settings_of(project, Options()).agents == "of_the_shell"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_env_file_is_read_as_windows_writes_it(project: Project, encoding: str) -> None:
    text = "LAYOVER_AGENTS=of_the_file\r\n# Schl\xfcssel\r\n"
    (project.root / ".env").write_bytes(text.encode(encoding))
    assert settings_of(project, Options()).agents == "of_the_file"


def test_env_file_in_a_code_page_ends_the_command_with_its_name(project: Project) -> None:
    (project.root / ".env").write_bytes("A=1\n# Schl\xfcssel\n".encode("cp1252"))
    with pytest.raises(CommandFailed, match=r"\.env is not UTF-8: save it as UTF-8"):
        settings_of(project, Options())


def test_folder_that_is_called_env_holds_no_variables(project: Project) -> None:
    (project.root / ".env").mkdir()
    assert settings_of(project, Options()).agents == "shop_agents"


def test_functions_find_the_agents_and_the_projects_other_modules(project: Project) -> None:
    path = child_variables(settings_of(project, Options()), {}, {})["PYTHONPATH"].split(":")
    assert path[-2:] == [str(project.root / "src"), str(project.root)]


def test_agents_of_the_command_line_are_found_from_where_it_is(project: Project) -> None:
    settings = settings_of(project, Options(agents="../other/agents.py"))
    assert settings.agents == "agents"
    assert settings.agents_folder is not None
    assert settings.agents_folder.resolve() == project.root / "other"


@pytest.mark.parametrize("agents", ["a b", "", "layover", "./"])
def test_agents_that_are_no_module_are_refused_with_what_to_write(
    project: Project, agents: str
) -> None:
    with pytest.raises(NoAgents, match=r"--agents: agents (must name a module|cannot be)"):
        settings_of(project, Options(agents=agents))


def test_checkout_without_a_project_serves_its_own_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAYOVER_AGENTS", raising=False)
    settings = settings_of(None, Options())
    assert (settings.agents, settings.project) == (None, None)
    assert settings.data == tmp_path / Settings().data


def test_installation_without_a_project_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAYOVER_AGENTS", raising=False)
    with pytest.raises(NoAgents, match=r"no layover.toml in .*: `layover init NAME` makes"):
        settings_of(None, Options(), is_checkout=False)
    assert settings_of(None, Options(agents="mine"), is_checkout=False).agents == "mine"
