"""Writes docs/llms.txt: the pages of the documentation in a form that a language model reads in one go.

PYTHONPATH=tests:. .venv/bin/python -m support.llms
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = DOCS / "llms.txt"
HEAD = """# Layover

> A serverless runtime for LLM agents, in Python, on AWS. Step Functions drives a run, DynamoDB has a journal
> of every step, and a run may wait for a person for up to a year. `make dev` runs the same system on one
> machine.

Not released. Python 3.11 or newer; agents are Python, front ends may be anything. `layover` exports what
authors write (`Agent`, `tool`, `Memory`, `Approval`), `layover.testing` what tests need (`ScriptedModel`,
`call`, `say`). Only what these pages say is built.
"""
ENOUGH = 60
"""Characters of a page's first sentences that say what it is about."""
_ENTRY = re.compile(r"^( +)- (?P<title>.+?): ?(?P<page>[\w/-]+\.md)?$")


def text() -> str:
    """Return the text of the file."""
    lines = [HEAD]
    for title, page in _entries():
        lines.append(
            f"- [{title}]({_address(page)}): {_about(page)}" if page else f"\n## {title}\n"
        )
    return "\n".join(lines) + "\n"


def _entries() -> Iterator[tuple[str, str]]:
    """Yield titles and pages of the navigation, in order; a part of it has no page."""
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    yield "Start", ""
    for line in navigation.splitlines():
        if not (entry := _ENTRY.match(line)):
            return
        yield entry["title"].strip('"'), entry["page"] or ""


def _address(page: str) -> str:
    """Return where the site has the page, relative to this file."""
    return "./" if page == "index.md" else page.removesuffix(".md") + "/"


def _about(page: str) -> str:
    """Return the first sentences of a page's text."""
    body = (DOCS / page).read_text("utf-8")
    blocks = (b.strip() for b in re.split(r"\n\s*\n", body))
    prose = next(b for b in blocks if b and not b.startswith(("#", "<", "|", "```", "!", "-")))
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose.split()))
    plain = plain.replace("**", "").replace("*", "")
    sentences = re.split(r"(?<=[.!?])\s", plain)
    said = sentences.pop(0)
    while sentences and len(said) < ENOUGH:
        said = f"{said} {sentences.pop(0)}"
    return said.rstrip(":")


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
