"""The packages of the agents, in the environment that runs them here: as the deployment brings them."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import invalidate_caches
from importlib.util import find_spec

from layover.desk.cdk.distributions import missing_here
from layover.desk.cli.uv import find_uv
from layover.project import Project

Run = Callable[[Sequence[str]], int]
"""Runs a command in this terminal, and returns its exit code."""


def run_here(command: Sequence[str]) -> int:
    """Run it in this terminal."""
    return subprocess.run(command, check=False).returncode


def install_missing(project: Project | None, run: Run = run_here) -> None:
    """Install what the requirements of the agents name and this environment lacks. What cannot be installed
    is said, with what to do: the import of the agents may do without it."""
    file = None if project is None else project.requirements
    missing = [] if file is None else missing_here(file)
    if project is None or file is None or not missing:
        return
    path = file.relative_to(project.root).as_posix()
    print(f"installing {path}: {', '.join(missing)}", flush=True)
    installer = _installer()
    if installer is None or run([*installer, "--requirement", str(file)]):
        text = f"{path} is not installed, see above: run pip install -r {path} in this environment"
        print(f"layover: {text}", file=sys.stderr, flush=True)
    invalidate_caches()


def _installer() -> list[str] | None:
    """Return pip, or uv for an environment without it; None if there is neither."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = find_uv()
    return None if uv is None else [*uv, "pip", "install", "--quiet", "--python", sys.executable]
