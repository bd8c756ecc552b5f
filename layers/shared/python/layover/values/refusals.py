"""Pydantic's errors in the words of other declarations: the setting, what it has to be, and what it is."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from layover.errors import nearest, unknown_name

_WORDS = re.compile(r"'([^']*)'")
_CHOICES = frozenset({"literal_error", "enum"})
_MAX_SHOWN = 80


def refusal(where: str, error: Mapping[str, Any], choices: Iterable[str] = ()) -> str:
    """Return one of `ValidationError.errors()` as a sentence about `where`. `choices`: the fields that can be
    set there. A message of our own stays as it is, and the value of a field that does not exist is left out:
    they may have secrets in them."""
    if error["type"] == "extra_forbidden":
        owner, _, name = where.rpartition(".")
        return f"{owner}: {unknown_name('option', name, choices)}"
    if error["type"] == "value_error":
        message = error["msg"].removeprefix("Value error, ")
        return f"{where}: {message}" if where and not message.startswith(where) else message
    value, message = error["input"], error["msg"]
    if error["type"] in _CHOICES and (near := nearest(value, _WORDS.findall(message))) is not None:
        return f"{where} cannot be {value!r}: did you mean {near!r}?"
    text = repr(value)
    value_text = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    expected = message.removeprefix("Input should ")
    return (
        f"{where} must {expected}, not {value_text}"
        if expected != message
        else f"{where}: {message}, not {value_text}"
    )
