"""Writes docs/reference/models.md: what works with each provider, and how that is known.

PYTHONPATH=tests:. .venv/bin/python -m support.models_page
"""

from pathlib import Path

from layover.cli.models.table import FEATURES, MEANINGS, SUPPORT, Support

PAGE = "docs/reference/models.md"
HEAD = """# Models

This page lists what works with each provider, how that is known, and what Layover changes or leaves out.
`layover models` says what a deployment can reach. `tests/support/models_page.py` generates this page from
`layover.cli.models.table`; tests hold the adapters to the same table.

A model can take over a thread from any other one in these tables, at any step: fakes of all of them, which
refuse what breaks their public rules, take each other's histories in random conversations. A server that is
not listed is asked by Chat Completions, and without an optional field once it has refused it.
"""


def page() -> str:
    """Return the text of the page."""
    marks = "\n".join(f"- **{known}**: {meaning}." for known, meaning in MEANINGS.items())
    return "\n".join([HEAD, f"{marks}\n", _features(), _differences(), _addresses()])


def _features() -> str:
    head = f"| provider | {' | '.join(FEATURES)} |\n| --- {'| --- ' * len(FEATURES)}|\n"
    rows = "".join(f"| {s.title} | {' | '.join(s.known[f] for f in FEATURES)} |\n" for s in SUPPORT)
    return f"## What works\n\n{head}{rows}"


def _differences() -> str:
    rows = "".join(
        f"| {s.title} | {_fields(s)} | {s.mends or '-'} | {s.checked} |\n" for s in SUPPORT
    )
    return (
        "## Differences\n\n`left out`: what a process does not send again after one refusal. "
        "What a model cannot\nread of a thread is [named instead](../behaviour.md#refused-content).\n\n"
        f"| provider | left out | on the wire | checked |\n| --- | --- | --- | --- |\n{rows}"
    )


def _fields(support: Support) -> str:
    return ", ".join(f if f == "files" else f"`{f}`" for f in support.left_out) or "-"


def _addresses() -> str:
    rows = "".join(
        f"| {s.title} | `{s.example}` | {_code(s.base_url)} | {_code(s.key)} |\n" for s in SUPPORT
    )
    return (
        "## Names and addresses\n\nA provider with an address is one of "
        "[`LAYOVER_PROVIDERS`](configuration.md); its key is in a variable or a parameter of your choice.\n\n"
        f"| provider | a model | address | usual variable |\n| --- | --- | --- | --- |\n{rows}"
    )


def _code(text: str) -> str:
    return f"`{text}`" if text else "-"


if __name__ == "__main__":
    (Path(__file__).parents[2] / PAGE).write_text(page(), "utf-8")
