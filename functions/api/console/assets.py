"""The files of the console in the form in which they are sent: our own modules as one file, libraries as
published."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
_SCRIPT = "text/javascript; charset=utf-8"
MODULES = (
    "names",
    "strings",
    "numbers",
    "seen",
    "dom",
    "api",
    "session",
    "markdown",
    "events",
    "forms",
    "files",
    "scopes",
    "connections",
    "decision",
    "calls",
    "timeline",
    "branches",
    "feedback",
    "conversation",
    "chat",
    "columns",
    "inbox",
    "operate",
    "operated",
    "operations",
    "audit",
    "memory",
    "usage",
    "differences",
    "evaluation",
    "evals",
    "app",
)
"""The modules in the order of their imports. Each further file would be a request, and on a cold start a
function, so they are sent as one file, with names that are unique among all modules."""
DECIDE_MODULES = (
    "names",
    "strings",
    "numbers",
    "seen",
    "dom",
    "api",
    "events",
    "forms",
    "scopes",
    "decision",
    "decide",
)
"""The modules of the page at which a link decides: no more of the console than it needs."""
LIBRARIES = ("preact.mjs", "hooks.mjs", "htm.mjs", "marked.esm.js")
_IMPORT = re.compile(r"^import \{[^}]*\} from \"\./(?!vendor/)[^\"]+\";\n", re.MULTILINE)
_LIBRARY = re.compile(r"^(import .* from \"\./)vendor/", re.MULTILINE)
_NAMES = re.compile(r"^export \{[^}]*\};\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?function|const|class)", re.MULTILINE)


@dataclass(frozen=True)
class Asset:
    """One file of the page, in UTF-8."""

    content_type: str
    text: str


@cache
def assets() -> dict[str, Asset]:
    """Return all files that the page loads, by name."""
    libraries = {name: Asset(_SCRIPT, _read(f"vendor/{name}")) for name in LIBRARIES}
    return {
        **libraries,
        "app.js": Asset(_SCRIPT, _joined(MODULES)),
        "decide.js": Asset(_SCRIPT, _joined(DECIDE_MODULES)),
        "console.css": Asset("text/css; charset=utf-8", _read("page/console.css")),
        "icon.svg": Asset("image/svg+xml", _read("page/icon.svg")),
    }


@cache
def version() -> str:
    """Return a version that changes whenever a file of the page does: files under it never change."""
    digest = hashlib.sha256()
    for name, asset in sorted(assets().items()):
        digest.update(f"{name} {hashlib.sha256(asset.text.encode()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def page(root: str) -> str:
    """Return the page itself. `root`: the address of `/`, relative to that of the page."""
    return _page("index", f"{root}console/{version()}")


def decide_page() -> str:
    """Return the page at which a link decides."""
    return _page("decide", f"../console/{version()}")


def _page(name: str, files: str) -> str:
    """Return a page with the head that all have. `files`: the address of its files, relative to it."""
    text = _read(f"page/{name}.html").replace("{head}", _read("page/head.html").strip())
    return text.replace("{files}", files)


def _joined(modules: Sequence[str]) -> str:
    """Return these modules as one file, without the imports among them. Libraries are imported once."""
    heads: dict[str, None] = {}
    bodies = []
    for name in modules:
        source = _LIBRARY.sub(r"\1", _NAMES.sub("", _IMPORT.sub("", _read(f"page/{name}.js"))))
        lines = source.split("\n")
        heads |= dict.fromkeys(line for line in lines if line.startswith("import "))
        body = "\n".join(line for line in lines if not line.startswith("import "))
        bodies.append(f"// {name}.js\n{_EXPORT.sub('', body).strip()}\n")
    return "\n".join([*heads, *bodies])


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
