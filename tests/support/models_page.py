"""Writes docs/reference/models.md: what works with each provider, and how that is known.

PYTHONPATH=tests:. .venv/bin/python -m support.models_page
"""

from pathlib import Path
from textwrap import fill

from layover.desk.cli.models.table import FEATURES, MEANINGS, SUPPORT, Support

PAGE = "docs/reference/models.md"
HEAD = """# Models

This page lists what works with each provider, how that is known, and what Layover changes or leaves out.
`layover models` says what a deployment can reach. `tests/support/models_page.py` generates this page from
`layover.desk.cli.models.table`; tests hold the adapters to the same table.

A model can take over a thread from any other one in these tables, at any step: fakes of all of them, which
refuse what breaks their public rules, take each other's histories in random conversations. A server that is
not listed is asked by Chat Completions, and without an optional field once it has refused it.
"""


WIDTH = 118
MARKS = {"recorded": "R", "documented": "D", "fake": "F", "unknown": "?", "no": "-"}


def page() -> str:
    """Return the text of the page."""
    marks = [
        f"- **{MARKS[evidence]}**, {evidence}: {meaning}." for evidence, meaning in MEANINGS.items()
    ]
    return "\n".join([HEAD, *marks, "", _features(), _differences(), _addresses()])


def _features() -> str:
    head = f"| provider | {' | '.join(FEATURES)} |\n| --- {'| --- ' * len(FEATURES)}|\n"
    rows = [" | ".join(MARKS[s.evidence[f]] for f in FEATURES) for s in SUPPORT]
    body = "".join(f"| {s.title} | {row} |\n" for s, row in zip(SUPPORT, rows, strict=True))
    return f"## What works\n\n{head}{body}"


def _differences() -> str:
    intro = (
        "What a model cannot read of a thread is [named instead](../behaviour.md#refused-content). "
        "A field that is left out was refused once: the process does not send it to that model again."
    )
    items = [f"- **{s.title}** ({s.checked}): {s.mends}.{_fields(s)}" for s in SUPPORT]
    return f"## Differences\n\n{_fill(intro)}\n\n{_list(items)}"


def _fields(support: Support) -> str:
    names = ", ".join(f if f == "files" else f"`{f}`" for f in support.left_out)
    return f" Left out: {names}." if names else ""


def _addresses() -> str:
    intro = (
        "A provider with an address is one of [`LAYOVER_PROVIDERS`](configuration.md). Its key is in a "
        "variable or a parameter of your choice; the list names the usual variable."
    )
    items = [f"- **{s.title}**: `{s.example}`{_code(s.base_url)}{_code(s.key)}." for s in SUPPORT]
    return f"## Names and addresses\n\n{_fill(intro)}\n\n{_list(items)}"


def _code(text: str) -> str:
    return f", `{text}`" if text else ""


def _list(items: list[str]) -> str:
    return "".join(f"{_fill(item)}\n" for item in items)


def _fill(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    (Path(__file__).parents[2] / PAGE).write_text(page(), "utf-8")
