"""Packages of an index that a deployment brings for the agents: the layer's, and their requirements."""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from layover.project import ProjectInvalid, text_of

LAYOVER = "layover"
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_FILE = re.compile(r"(?:-r|--requirement)[ =]?\s*(\S+)")
_FILE_OF_INPUTS = re.compile(r"(?:-[rc]|--requirement|--constraint)[ =]?\s*(\S+)")


@dataclass(frozen=True)
class Supply:
    """The packages of a deployment. `names`: normal names of distributions. `is_all`: there is nothing else,
    because all of them are known here with what they need themselves."""

    names: frozenset[str]
    is_all: bool

    def has(self, module: str) -> bool | None:
        """Return whether a module can be imported there; None: that is not known here."""
        if module in sys.stdlib_module_names or normal(module) in self.names:
            return True
        distributions = distributions_of(module)
        if distributions & self.names:
            return True
        return False if distributions and self.is_all else None


def supply_of(requirements: Iterable[Path], lock: Path) -> Supply:
    """Return what the layer, by its lock, and these requirements bring."""
    pinned = {
        normal(match[1]) for line in requirements_in(lock) if (match := _REQUIREMENT.match(line))
    }
    waiting: list[tuple[str, frozenset[str]]] = []
    is_all = True
    for line in (line for file in requirements for line in requirements_in(file)):
        match = _REQUIREMENT.match(line)
        # A path, a URL or an option of pip brings what only pip knows.
        if match is None or re.match(r"[\w+]+://|[./]", line):
            is_all = False
        else:
            waiting.append((match[1], _extras(match[2])))
    names: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (normal(name), extras) in names:
            continue
        names.add((normal(name), extras))
        needed = _needs(name, extras)
        is_all = is_all and needed is not None
        waiting += needed or ()
    return Supply(frozenset({*pinned, *(name for name, _ in names), LAYOVER}), is_all)


def of_extra(extra: str) -> list[str]:
    """Return the requirements of one of Layover's extras, as pip reads them."""
    requirements = (metadata.requires(LAYOVER) or []) if _is_installed(LAYOVER) else []
    return [
        each.partition(";")[0].strip() for each in requirements if extra in _EXTRA.findall(each)
    ]


def normal(name: str) -> str:
    """Return the name by which indexes know a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_in(requirement: str) -> str:
    """Return the normal name that a requirement begins with."""
    match = _REQUIREMENT.match(requirement)
    return normal(match[1]) if match else ""


def distributions_of(module: str) -> frozenset[str]:
    """Return the normal names of the distributions that have a module here; none if it is not installed."""
    return frozenset(map(normal, _installed().get(module, ())))


def missing_here(requirements: Path) -> list[str]:
    """Return the requirements that this environment does not have, or has in another version than they
    pin."""
    return [each for each in requirements_in(requirements) if _is_missing(each)]


def _is_missing(requirement: str) -> bool:
    match = _REQUIREMENT.match(requirement)
    if match is None or ";" in requirement:
        # A path, an option, or for other machines only: pip knows.
        return False
    if not _is_installed(match[1]):
        return True
    pin = re.match(r"\s*===?\s*([^\s,*;]+)\s*$", requirement[match.end() :])
    return pin is not None and metadata.version(match[1]) != pin[1]


@cache
def _installed() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())


def _is_installed(name: str) -> bool:
    return next(iter(metadata.distributions(name=name)), None) is not None


def _needs(name: str, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]] | None:
    """Return what a distribution needs with these extras; None if it is not installed here."""
    if not _is_installed(name):
        return None
    needs: list[tuple[str, frozenset[str]]] = []
    for each in metadata.requires(name) or []:
        conditions, match = set(_EXTRA.findall(each)), _REQUIREMENT.match(each)
        if match is not None and (not conditions or conditions & extras):
            needs.append((match[1], _extras(match[2])))
    return needs


def _extras(text: str | None) -> frozenset[str]:
    return frozenset(each.strip() for each in (text or "").split(",") if each.strip())


def requirements_in(file: Path) -> Iterator[str]:
    """Yield the requirements of a file, and of those that it names; none of one that cannot be read, of which
    pip will tell."""
    for line in _lines(file):
        if match := _FILE.match(line):
            yield from requirements_in(file.parent / match[1])
        elif not line.startswith(("--", "-c")):
            yield line


def inputs_in(file: Path) -> Iterator[str]:
    """Yield all that decides what a file of requirements brings: its lines, options among them, and those of
    the requirements and constraints that it names."""
    for line in _lines(file):
        yield line
        if match := _FILE_OF_INPUTS.match(line):
            yield from inputs_in(file.parent / match[1])


def _lines(file: Path) -> Iterator[str]:
    try:
        text = text_of(file).replace("\\\n", " ")
    except ProjectInvalid:
        return
    for line in (each.partition(" #")[0].strip() for each in text.splitlines()):
        if line and not line.startswith("#"):
            yield line
