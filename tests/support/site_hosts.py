"""Whether pages of the built site load anything from another host.

`make docs` runs it as a script, in the environment that builds the site: it imports nothing else."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
NEEDED = ("javascripts/diagrams.js", "javascripts/mermaid.min.js", "llms.txt")
_LOADS = re.compile(
    r"<(?:script|img|iframe|source|video)\b[^>]*?\bsrc=[\"']?([^\"'\s>]+)", re.IGNORECASE
)
_LINKS = re.compile(r"<link\b[^>]*>", re.IGNORECASE)
_FETCHED = re.compile(r"\brel=[\"']?[^\"'>]*(?:stylesheet|icon|preload|preconnect)", re.IGNORECASE)
_HREF = re.compile(r"\bhref=[\"']?([^\"'\s>]+)", re.IGNORECASE)
_ABSOLUTE = re.compile(r"(?:https?:)?//", re.IGNORECASE)


def loaded_from_elsewhere(html: str) -> list[str]:
    """Return the addresses on other hosts that a browser fetches to show this page; links are none."""
    links = [link for link in _LINKS.findall(html) if _FETCHED.search(link)]
    named = _LOADS.findall(html) + [m[1] for link in links if (m := _HREF.search(link))]
    return [address for address in named if _ABSOLUTE.match(address)]


if __name__ == "__main__":
    problems = [f"{name} is missing" for name in NEEDED if not (SITE / name).is_file()]
    for page in sorted(SITE.rglob("*.html")):
        foreign = loaded_from_elsewhere(page.read_text("utf-8"))
        problems += [f"{page.relative_to(SITE)} loads {address}" for address in foreign]
    if problems:
        sys.exit("; ".join(problems))
