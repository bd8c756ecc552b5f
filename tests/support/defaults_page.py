"""Writes docs/reference/defaults.md: every default that is declared in the code.

PYTHONPATH=tests:. .venv/bin/python -m support.defaults_page
"""

import inspect
from collections.abc import Iterable
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, get_overloads

from pydantic import BaseModel

import layover
from layover.desk.cdk.settings import TUNED, Settings
from layover.plugins.people.channels import CHANNELS
from layover.values.deployment.environment import Environment

PAGE = "docs/reference/defaults.md"
HEAD = """# Defaults

This page lists every default of an option. [Configuration](configuration.md) says what an option means, and
what applies if it is `None`. A cell with the name of a variable means the default of that variable.
`tests/support/defaults_page.py` generates this page from the code, and a test compares the two.
"""
OPTIONS = (
    *("Agent", "ModelSettings", "Limits", "@tool", "Approval", "Memory", "TokenBuffer"),
    *("ObservationalMemory", "RollingSummary", "SemanticRecall", "EpisodicMemory", "WorkingMemory"),
    *("NodeMemory", "RedactPII", "MaxLength", "BlockTopics", "DetectInjection"),
)
UNITS = (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("min", timedelta(minutes=1)))
_REQUIRED = inspect.Parameter.empty

Row = tuple[str, Any]


def page() -> str:
    """Return the text of the page."""
    tables = [
        _section("Variables", "variable", _variables()),
        _section("Settings of a stage", "setting", _stage()),
        _functions(),
        *(_section(f"`{name}`", "option", _options(name)) for name in OPTIONS),
    ]
    return "\n".join([HEAD, *tables])


def _section(title: str, head: str, rows: Iterable[Row]) -> str:
    lines = [f"| `{name}` | {_shown(value)} |\n" for name, value in rows]
    return f"## {title}\n\n| {head} | default |\n| --- | --- |\n{''.join(lines)}"


def _variables() -> Iterable[Row]:
    yield from ((field.alias, field.get_default()) for field in _fields(Environment))
    yield from (pair for channel in CHANNELS for pair in channel.variables.items())


def _fields(model: type[BaseModel]) -> Iterable[Any]:
    return model.model_fields.values()


def _stage() -> Iterable[Row]:
    """Return the settings; one that is None where a function reads a variable has the variable's name."""
    for name, field in Settings.model_fields.items():
        if name == "functions":
            continue
        value = field.get_default(call_default_factory=True)
        yield name, _Variable(TUNED[name]) if name in TUNED and value is None else value


def _functions() -> str:
    """Return the table of the setting `functions`."""
    rows = "".join(
        f"| `{name}` | {each.memory_mib} | {_duration(each.timeout)} |\n"
        for name, each in Settings().functions.items()
    )
    return (
        f"## Functions of a stage\n\n| function | MiB | time limit |\n| --- | --- | --- |\n{rows}"
    )


def _options(name: str) -> Iterable[Row]:
    if name == "ModelSettings":
        fields = layover.ModelSettings.model_fields.items()
        return [(n, f.get_default(call_default_factory=True)) for n, f in fields]
    made = get_overloads(layover.tool)[1] if name == "@tool" else getattr(layover, name)
    return [(p.name, p.default) for p in inspect.signature(made).parameters.values()]


class _Variable(str):
    """The name of a variable whose default holds."""


def _shown(value: Any) -> str:
    if value is _REQUIRED:
        return "required"
    if isinstance(value, _Variable):
        return f"`{value}`"
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, Enum):
        return f"`{value.value!r}`"
    return f"`{value!r}`"


def _duration(value: timedelta) -> str:
    for unit, one in UNITS:
        if value >= one and not value % one:
            number = value // one
            return f"{number} {unit}{'s' if number > 1 and unit != 'min' else ''}"
    return f"{value.total_seconds():g} s"


if __name__ == "__main__":
    (Path(__file__).parents[2] / PAGE).write_text(page(), "utf-8")
