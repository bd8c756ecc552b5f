"""The page of the Python API: which names and members it shows, and whether the built site has them.

`make docs` runs it as a script, in the environment that builds the site: it imports nothing else."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "python-api.md"
BUILT = ROOT / "build" / "site" / "reference" / "python-api" / "index.html"
_SHOWN = re.compile(r"^::: (?P<name>\S+)\n(?P<options>(?: {4}.*\n)*)", re.MULTILINE)
_MEMBERS = re.compile(r"\bmembers:\s*\[(.*?)\]", re.DOTALL)
_UNREAD = re.compile(r"\b(?:Args|Keyword Args|Example):|```")
"""Marks of a docstring's sections and examples. The generator puts others in their place."""


@dataclass(frozen=True)
class Shown:
    """A name that the page shows. `members`: those that it lists; None: all public ones."""

    name: str
    members: tuple[str, ...] | None


def shown_names(page: str) -> list[Shown]:
    """Return what the page shows, in order."""
    found = []
    for match in _SHOWN.finditer(page + "\n"):
        listed = _MEMBERS.search(match["options"])
        members = tuple(re.findall(r"\w+", listed[1])) if listed else None
        found.append(Shown(match["name"], members))
    return found


def unrendered(page: str, html: str) -> list[str]:
    """Return what the page names and the built one does not have, and sections that came out as text."""
    ids = set(re.findall(r'\bid="([\w.]+)"', html))
    named = [
        name
        for shown in shown_names(page)
        for name in (shown.name, *(f"{shown.name}.{member}" for member in shown.members or ()))
    ]
    missing = [f"{name} is not there" for name in named if name not in ids]
    text = re.sub(r"<pre\b.*?</pre>", "", html, flags=re.DOTALL)
    return missing + [f"{mark!r} is shown as text" for mark in sorted(set(_UNREAD.findall(text)))]


if __name__ == "__main__":
    if problems := unrendered(PAGE.read_text("utf-8"), BUILT.read_text("utf-8")):
        sys.exit(f"{BUILT.relative_to(ROOT)}: " + "; ".join(problems))
