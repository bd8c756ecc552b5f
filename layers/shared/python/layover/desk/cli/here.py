"""The project that a command is run in."""

from pathlib import Path

from layover.desk.failures import CommandFailed
from layover.project import FILE, Project, ProjectInvalid, find

INIT = "`layover init NAME` makes a project"


def current() -> Project | None:
    """Return the project of the current folder, if it is in one. An invalid one ends the command."""
    try:
        return find(Path.cwd())
    except ProjectInvalid as error:
        raise CommandFailed(str(error)) from error


def required() -> Project:
    """Return the project of the current folder. Without one the command ends."""
    project = current()
    if project is None:
        raise CommandFailed(f"no {FILE} in {Path.cwd()} or above it: {INIT}")
    return project


def local_url() -> str:
    """Return the address of `layover dev` of this project, or of any."""
    project = current()
    port = project.settings.dev.port if project is not None else 0
    return f"http://127.0.0.1:{port or 8787}"
