"""The packages of the agents are installed here as on AWS."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from layover.desk.cli.agents_packages import install_missing
from layover.project import FILE, Project, read


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "agents").mkdir()
    (tmp_path / FILE).write_text("")
    return read(tmp_path)


def installed(project: Project | None, code: int = 0) -> list[list[str]]:
    """The commands that were run."""
    commands: list[list[str]] = []

    def run(command: Sequence[str]) -> int:
        commands.append(list(command))
        return code

    install_missing(project, run)
    return commands


def test_package_that_cannot_be_installed_is_said_and_stops_nothing(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "agents" / "requirements.txt").write_text("no-such-distribution>=1\n")
    assert len(installed(project, 1)) == 1
    told = capsys.readouterr()
    assert told.out == "installing agents/requirements.txt: no-such-distribution>=1\n"
    assert "run pip install -r agents/requirements.txt" in told.err


def test_what_is_missing_is_installed_from_the_file_of_the_deployment(project: Project) -> None:
    file = project.root / "agents" / "requirements.txt"
    file.write_text("no-such-distribution\npydantic\n")
    (command,) = installed(project)
    assert command[-2:] == ["--requirement", str(file)]


@pytest.mark.parametrize("text", ["", "# nothing\n", "pydantic\nboto3>=1\n"])
def test_nothing_is_installed_where_all_is_there(text: str, project: Project) -> None:
    (project.root / "agents" / "requirements.txt").write_text(text)
    assert installed(project) == []


def test_agents_without_requirements_and_no_project_need_nothing(project: Project) -> None:
    assert installed(project) == installed(None) == []


def test_requirements_are_next_to_the_package_that_is_deployed(tmp_path: Path) -> None:
    (tmp_path / "src" / "shop").mkdir(parents=True)
    (tmp_path / "src" / "shop" / "requirements.txt").touch()
    (tmp_path / FILE).write_text('agents = "src/shop.agents"\n')
    assert read(tmp_path).requirements == tmp_path / "src" / "shop" / "requirements.txt"
