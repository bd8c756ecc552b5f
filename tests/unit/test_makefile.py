"""`make dev` and `make test` set up what the agents of the checkout need."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copy(MAKEFILE, tmp_path)
    for name in ("dev.lock", "test.lock"):
        (tmp_path / "requirements").mkdir(exist_ok=True)
        (tmp_path / "requirements" / name).touch()
    for name in ("pyproject.toml", "package.json", "package-lock.json"):
        (tmp_path / name).touch()
    (tmp_path / "functions" / "user_agents").mkdir(parents=True)
    (tmp_path / ".venv").mkdir()
    for name in ("pyvenv.cfg", ".dev-stamp", ".test-stamp"):
        (tmp_path / ".venv" / name).touch()
    return tmp_path


def planned(checkout: Path, target: str) -> str:
    """Return the commands that make would run, whatever the make above this test was given."""
    command = ["make", "--dry-run", "--directory", str(checkout), target]
    own = {
        k: v for k, v in os.environ.items() if k not in ("ARGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    return subprocess.run(command, capture_output=True, text=True, check=True, env=own).stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize("target", ["dev", "test", "test-agents"])
def test_packages_of_the_agents_are_installed_beside_the_lock(checkout: Path, target: str) -> None:
    assert "requirements.txt" not in planned(checkout, target)
    (checkout / "functions" / "user_agents" / "requirements.txt").write_text("iniconfig\n")
    plan = planned(checkout, target)
    assert "-r functions/user_agents/requirements.txt -c .venv/" in plan


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_the_tests_of_the_agents_run_without_the_houses_own(checkout: Path) -> None:
    assert planned(checkout, "test-agents").splitlines()[1:-1] == [".venv/bin/layover test "]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_a_first_start_says_what_it_does(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    (checkout / "requirements" / "dev.lock").write_text("one==1\ntwo==2\n")
    said = [line for line in planned(checkout, "dev").splitlines() if line.startswith("echo ")]
    assert [line.split()[1].strip('"') for line in said] == ["Setting", "Installing", "Installing"]
    assert "Layover itself" in said[-1]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize("command", ["dev", "demo", "synth", "deploy", "destroy"])
def test_commands_of_make_are_those_of_the_package(checkout: Path, command: str) -> None:
    last = planned(checkout, command).splitlines()[-2]
    assert last.split() == [".venv/bin/layover", command]


FINDING = "agents.py:1: error: wrong"
UNSTARTED = "Cannot connect to build worker(s): 1"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize(
    ("together", "one", "said"),
    [
        (f"echo '{FINDING}'; exit 1", f"echo '{FINDING}'; exit 1", [FINDING]),
        (f"echo '{UNSTARTED}' >&2; exit 1", "echo Success", ["Success"]),
        ("echo Success", "echo Twice", ["Success"]),
    ],
)
def test_findings_of_types_are_printed_once(
    checkout: Path, together: str, one: str, said: list[str]
) -> None:
    binaries = checkout / ".venv" / "bin"
    binaries.mkdir()
    for name in ("ruff", "mypy", "lint-imports"):
        types = f'case "$*" in "-n 2") {together};; *) {one};; esac'
        (binaries / name).write_text(f"#!/bin/sh\n{types if name == 'mypy' else ':'}\n")
        (binaries / name).chmod(0o755)
    command = ["make", "--silent", "--directory", str(checkout), "check"]
    own = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    assert ended.stdout.splitlines() == said
    assert (ended.returncode == 0) == (said == ["Success"])
    assert UNSTARTED not in ended.stderr
