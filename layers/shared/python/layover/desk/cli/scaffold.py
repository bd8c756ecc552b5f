"""`layover init`: the files of a new project, from the templates next to this module."""

import hashlib
import json
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path

from layover.desk import shipped
from layover.desk.cli.releases import PINS, requirement_lines
from layover.desk.failures import CommandFailed
from layover.errors import unknown_name
from layover.project import FILE, MAX_NAME, NAME, RESERVED

TEMPLATES = Path(__file__).parent / "templates"
COMMON = "common"
"""The folder of the files that every template has."""
_DOT = "dot-"
"""Beginning of names that have a dot in the project: git and hatch would follow `.gitignore` here."""
_TRY = "try.md"
"""First words to the template's agents, which go into the README."""
APP = "python3 -m infra.app"


class NotMade(CommandFailed):
    """No project was made. The message says why, and what to do."""

    exit_code = 1


@dataclass(frozen=True)
class Made:
    """The paths that were written, and those that were there before with the template's lines that they
    lack and the project needs, relative to the project. `name`: what every name on AWS begins with."""

    name: str
    written: tuple[str, ...]
    left: Mapping[str, Sequence[str]]


def template_names() -> list[str]:
    """Return the names that `--template` takes."""
    return sorted(p.name for p in TEMPLATES.iterdir() if p.is_dir() and p.name != COMMON)


def make_project(root: Path, template: str) -> Made:
    """Write the files of a project that are not there yet. `layover.toml` comes last, so that what was
    interrupted can be run again. Raises NotMade."""
    if template not in template_names():
        raise NotMade(f"{unknown_name('template', template, template_names())}")
    if (root / FILE).exists():
        raise NotMade(f"{root} is a project already: nothing was changed")
    title = root.resolve().name
    name_on_aws = project_name(title)
    texts = dict(_texts(title, name_on_aws, template))
    texts[FILE] = texts.pop(FILE)
    written: list[str] = []
    left: dict[str, Sequence[str]] = {}
    for name, text in texts.items():
        try:
            if _write(root / name, text):
                written.append(name)
            else:
                left[name] = _lacking(root / name, name, text)
        except OSError as error:
            raise NotMade(
                f"{error.filename or root / name} cannot be written ({error.strerror}): "
                f"{len(written)} files of the project are there; mend this and run the command again"
            ) from error
    return Made(name_on_aws, tuple(written), left)


def project_name(title: str) -> str:
    """Return the beginning of the names on AWS for a project in a folder of this name: `my-shop` of
    `My Shop`. What had to be cut or left out is told by the end, so that two projects are not one."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    name = words
    while any(word in name for word in RESERVED):
        name = re.sub("|".join(RESERVED), "", name)
    name = re.sub(r"-+", "-", name).strip("-").lstrip("0123456789-")
    # Umlauts and capitals are left to readers; letters that are gone are not.
    is_whole = name == words and len(name) <= MAX_NAME and not _has_other_letters(title)
    if is_whole and re.fullmatch(NAME, name):
        return name
    mark = hashlib.sha256(title.encode()).hexdigest()[:4]
    return "-".join(filter(None, (name[: MAX_NAME - 5].strip("-") or "agents", mark)))


def _has_other_letters(title: str) -> bool:
    """Return whether a title has letters that are not Latin: no name on AWS can have them."""
    return any(c.isalpha() and not unicodedata.normalize("NFKD", c)[0].isascii() for c in title)


def _texts(title: str, name: str, template: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of every file."""
    words = {
        "__NAME__": title,
        "__PREFIX__": name,
        "__ID__": secrets.token_hex(6),
        "__VERSION__": version("layover"),
        "__TRY__": (TEMPLATES / template / _TRY).read_text("utf-8").strip(),
    }
    for folder in (TEMPLATES / template, TEMPLATES / COMMON):
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != _TRY):
            if path.suffix == ".pyc":
                continue
            text = path.read_text("utf-8")
            for word, value in words.items():
                text = text.replace(word, value)
            parts = path.relative_to(folder).parts
            yield "/".join(_name_of(part) for part in parts), text
    flags = json.loads(shipped.SHIPPED.flags.read_text("utf-8"))
    yield "cdk.json", json.dumps(flags | {"app": APP}, indent=2) + "\n"


def _name_of(part: str) -> str:
    return f".{part.removeprefix(_DOT)}" if part.startswith(_DOT) else part


def _write(path: Path, text: str) -> bool:
    """Write a file that is not there. Return false if it is: also a link that leads nowhere."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = path.open("x", encoding="utf-8", newline="\n")
    except FileExistsError:
        return False
    try:
        with file:
            file.write(text)
    except OSError:
        # A part of a file would be left as it is by the next try.
        with suppress(OSError):
            path.unlink()
        raise
    return True


def _lacking(path: Path, name: str, text: str) -> Sequence[str]:
    """Return the lines of the template that the project cannot do without, and that this file lacks."""
    has = _NEEDED.get(name)
    if has is None:
        return ()
    mine: list[str] = []
    if name == PINS:
        mine = requirement_lines(path)
    else:
        # Git and Python read UTF-8 only.
        with suppress(OSError):
            mine = path.read_text("utf-8-sig", errors="replace").splitlines()
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [line for line in lines if not has(mine, line)]


def _ignores(lines: Sequence[str], name: str) -> bool:
    """Return whether git ignores a file of this name: the last pattern that fits decides."""
    fits = (
        each
        for each in map(str.strip, lines)
        if fnmatch(name.strip("/"), each.lstrip("!/").removeprefix("**/").rstrip("/"))
    )
    return next((not each.startswith("!") for each in reversed(list(fits))), False)


def _requires(lines: Sequence[str], requirement: str) -> bool:
    """Return whether a line names the package with its extras, in whatever version."""
    *own, needed = (
        set(re.findall(r"[\w.-]+", re.split("[=<>~!;@#]", each)[0]))
        for each in (*lines, requirement)
    )
    return any(names >= needed for names in own)


_NEEDED: Mapping[str, Callable[[Sequence[str], str], bool]] = {
    ".gitignore": _ignores,
    PINS: _requires,
    "infra/app.py": lambda mine, line: not line.startswith("Layover(") or line[:8] in "".join(mine),
}
"""The check of each file of which the project needs single lines."""
