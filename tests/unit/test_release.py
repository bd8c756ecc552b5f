"""Requirements of a release: `.ci/notes` takes its notes from the changelog, and only from a matching one."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGELOG = """# Changelog

## Unreleased

- Not yet.

## 0.2.0 - 2026-02-01

- Second.

## 0.1.0 - 2026-01-01

- First.
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project of version 0.2.0."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "notes", tmp_path / ".ci")
    package = tmp_path / "layers" / "shared" / "python" / "layover"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "pyproject.toml").write_text('version = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def notes(checkout: Path, version: str) -> subprocess.CompletedProcess[str]:
    command = [str(checkout / ".ci" / "notes"), version]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version_that_the_project_does_not_have_is_refused(checkout: Path) -> None:
    refused = notes(checkout, "0.1.0")
    assert refused.returncode != 0
    assert "pyproject.toml" in refused.stderr


def test_version_that_the_package_does_not_have_is_refused(checkout: Path) -> None:
    (checkout / "layers/shared/python/layover/__init__.py").write_text('__version__ = "0.1.0"\n')
    assert notes(checkout, "0.2.0").returncode != 0


def test_release_without_a_section_in_the_changelog_is_refused(checkout: Path) -> None:
    changelog = checkout / "CHANGELOG.md"
    changelog.write_text(CHANGELOG.replace("## 0.2.0 - 2026-02-01", "## Soon"))
    refused = notes(checkout, "0.2.0")
    assert refused.returncode != 0
    assert "CHANGELOG.md" in refused.stderr


def test_notes_are_the_section_of_the_release_alone(checkout: Path) -> None:
    answer = notes(checkout, "0.2.0")
    assert answer.returncode == 0
    assert answer.stdout.strip() == "- Second."


def test_changes_go_under_unreleased() -> None:
    headings = [
        line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")
    ]
    assert headings[0] == "## Unreleased"
