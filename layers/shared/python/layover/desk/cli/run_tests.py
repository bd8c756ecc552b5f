"""`layover test`: pytest over the tests of a project."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from layover.desk.cli.agents_packages import install_missing
from layover.project import Project

NO_TESTS = 5
"""Exit code of pytest that found no test."""
_NEEDED = ("pytest", "pytest_asyncio")


def missing() -> list[str]:
    """Return the packages that are not installed, of those that run tests."""
    return [name for name in _NEEDED if find_spec(name) is None]


def command_of(project: Project, arguments: Sequence[str], folder: Path) -> list[str]:
    """Return the command, which runs in the project's folder. `arguments`: pytest's; the paths among them are
    relative to `folder`, and without any the project's tests run."""
    pytest_arguments = [_absolute(each, folder) for each in arguments]
    places = (
        []
        if any(Path(each.partition("::")[0]).is_absolute() for each in pytest_arguments)
        else [os.path.relpath(project.tests, project.root)]
    )
    options = ["--rootdir", str(project.root), "--asyncio-mode", "auto"]
    return [sys.executable, "-m", "pytest", *options, *pytest_arguments, *places]


def variables_of(project: Project, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the process, which finds the agents as a function does."""
    path = inherited.get("PYTHONPATH", "")
    folders = dict.fromkeys((str(project.agents.folder), str(project.root)))
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, (*folders, path)))}


def run(project: Project, arguments: Sequence[str]) -> int:
    """Run the tests, and return pytest's exit code."""
    if names := missing():
        text = f"the tests need {' and '.join(names)}: pip install 'layover[local]'"
        print(f"layover: {text}", file=sys.stderr)
        return 1
    install_missing(project)
    command = command_of(project, arguments, Path.cwd())
    print(f"project {project.root}: {' '.join(command[1:])}", flush=True)
    code = subprocess.run(
        command, cwd=project.root, env=variables_of(project, os.environ), check=False
    ).returncode
    if code == NO_TESTS:
        print(f"layover: no test was found: write one in {project.tests}", file=sys.stderr)
    return code


def _absolute(argument: str, folder: Path) -> str:
    """Return a path, or pytest's `FILE::TEST`, as an absolute one; anything else as it is."""
    place, separator, test = argument.partition("::")
    path = folder / place
    if argument.startswith("-") or not path.exists():
        return argument
    return f"{path}{separator}{test}"
