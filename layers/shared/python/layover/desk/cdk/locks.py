"""Locks of a project: one version of each package that its requirements bring, and the hashes of its files.

`layover lock` makes them, next to the requirements. The first lines of a lock tell what it was made of."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from layover.desk.cdk.distributions import inputs_in
from layover.desk.shipped import SHIPPED
from layover.project import Project, ProjectInvalid, text_of

REQUIREMENTS = "requirements.txt"
"""The file, in a project's folder, of what it needs on a developer's machine and in its pipeline."""
_MADE_OF = re.compile(r"^# sha256:([0-9a-f]{64})$", re.M)


def lock_of(requirements: Path) -> Path:
    """Return the place of the lock of these requirements, whether or not it is there."""
    return requirements.with_suffix(".lock")


def requirements_of(project: Project) -> list[Path]:
    """Return the files of requirements that are locked: the project's first, then those of its agents, which
    a deployment installs for Lambda."""
    own, of_agents = project.root / REQUIREMENTS, project.requirements
    files = [*([own] if own.is_file() else []), *([of_agents] if of_agents else [])]
    return list(dict.fromkeys(files))


def head(requirements: Path) -> str:
    """Return the first lines of the lock of these requirements."""
    return (
        f"# Made by `layover lock` of {requirements.name} and of the versions in Layover's layer:\n"
        f"# sha256:{_digest(requirements)}\n# Run it again when one of them changes.\n"
    )


def problem(requirements: Path) -> str | None:
    """Return why the lock of these requirements cannot be installed in their place; None if it fits them."""
    lock = lock_of(requirements)
    if not lock.is_file():
        return f"{lock.name} is missing"
    try:
        made_of = _MADE_OF.search(text_of(lock))
    except ProjectInvalid:
        made_of = None
    if made_of is None:
        return f"{lock.name} does not tell what it was made of"
    if made_of[1] != _digest(requirements):
        return f"{lock.name} was made of other requirements, or for another release of Layover"
    return None


def problems(project: Project) -> Iterator[tuple[Path, str]]:
    """Yield the requirements whose lock does not fit, with the reason; none in a project without any lock."""
    files = requirements_of(project)
    if any(lock_of(each).is_file() for each in files):
        yield from ((each, why) for each in files if (why := problem(each)) is not None)


def _digest(requirements: Path) -> str:
    """Return a hash of what decides about a lock. Comments do not, and neither do the ends of lines."""
    inputs = (*inputs_in(requirements), SHIPPED.lock.read_text("utf-8"))
    return hashlib.sha256("\n".join(inputs).encode()).hexdigest()
