"""Checks of an author's declarations. Each raises DefinitionError, which says what was expected."""

import re
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from pydantic.errors import PydanticUserError

from layover.errors import DefinitionError, nearest

_MAX_SHOWN = 80
_UNKNOWN_TYPE = re.compile(r"core schema for <class '([^']+)'>")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools that every provider accepts, and of agents, which may become such tools."""


NO_SCHEMA = (PydanticUserError, TypeError, NameError, KeyError)
"""The errors that pydantic raises for a type without a JSON schema."""


def fail(what: str, expected: str, value: object, hint: str = "") -> DefinitionError:
    """Return the error to raise for an unexpected value. `hint`: the end of the message."""
    return DefinitionError(f"{what} must be {expected}, not {_repr(value)}{hint}")


def _repr(value: object) -> str:
    """Return an author's value for a message: plain ones as they are, anything else by its kind and name."""
    if value is None or isinstance(value, str | int | float | list | tuple | dict | timedelta):
        text = repr(value)
        return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    kind = "a class" if isinstance(value, type) else "a function" if callable(value) else ""
    kind = kind or f"of type {type(value).__name__}"
    return f"{name} ({kind})" if isinstance(name, str) else f"something {kind}"


def no_schema(error: Exception) -> str:
    """Return the reason why a type of the author's has no JSON schema."""
    text = getattr(error, "message", None) or str(error)
    if unknown := _UNKNOWN_TYPE.search(text):
        name = unknown[1].rpartition(".")[2]
        return f"{name} has none: make it a pydantic model, a dataclass or a TypedDict"
    if getattr(error, "code", None) == "class-not-fully-defined":
        return "a name in its type hints is not defined where it is declared"
    if isinstance(error, KeyError):
        return f"$ref {error.args[0]!r} leads nowhere: give the whole schema in its place"
    return text.splitlines()[0]


def whole(what: str, value: Any, *, least: int = 1) -> None:
    """Check an int of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise fail(what, f"a whole number of at least {least}", value)


def whole_or_none(what: str, value: Any, *, least: int = 1) -> None:
    """Check None, or an int of at least `least`."""
    if value is not None:
        whole(what, value, least=least)


def number(what: str, value: Any, *, above: float | None = None, to: float | None = None) -> None:
    """Check a number in `above < value <= to` (without `above`: 0 <= value)."""
    low = "at least 0" if above is None else f"above {above:g}"
    expected = f"a number {low}" + ("" if to is None else f" and at most {to:g}")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise fail(what, expected, value)
    enough = value >= 0 if above is None else value > above
    if not enough or (to is not None and value > to):
        raise fail(what, expected, value)


def flag(what: str, value: Any) -> None:
    """Check True or False."""
    if not isinstance(value, bool):
        raise fail(what, "True or False", value)


def one_of(what: str, value: Any, allowed: Collection[str], or_else: str | None = None) -> None:
    """Check one of a few words. `or_else`: the other kind of value that is possible there."""
    if isinstance(value, str) and value in allowed:
        return
    if (near := nearest(value, allowed)) is not None:
        raise DefinitionError(f"{what} cannot be {_repr(value)}: did you mean {near!r}?")
    expected = [*map(repr, sorted(allowed)), *filter(None, [or_else])]
    raise fail(what, " or ".join(expected), value)


def text_or_none(what: str, value: Any) -> None:
    """Check None, or a string that is not blank."""
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise fail(what, "a text that is not empty", value)


def models(what: str, value: Any) -> tuple[str | None, tuple[str, ...], dict[str, Any]]:
    """Return a model's name, None, or a list of names as the first, those that it falls back to, and the
    objects among them by their names."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        if value is None or isinstance(value, str):
            text_or_none(what, value)
            return value, (), {}
        own = _own_model(what, value)
        return own, (), {own: value}
    objects: dict[str, Any] = {}
    names: list[str] = []
    for each in value or [None]:
        if each is None:
            raise fail(what, "a name, a model or a list of them", value)
        if isinstance(each, str):
            text_or_none(what, each)
            names.append(each)
        else:
            names.append(_own_model(what, each))
            objects[names[-1]] = each
    if len(set(names)) < len(names):
        hint = ": give one of the models another name" if objects else ""
        raise fail(what, "a list that has each name once", names, hint)
    return names[0], tuple(names[1:]), objects


def _own_model(what: str, model: Any) -> str:
    """Return the name of a model that an author has brought."""
    expected = (
        "a name, or an object with a `name` and an async method `complete` (layover.models.Model)"
    )
    own = getattr(model, "name", None)
    if isinstance(model, type) or not callable(getattr(model, "complete", None)):
        raise fail(what, expected, model)
    if not isinstance(own, str) or not own.strip():
        raise fail(what, expected, model, f", whose name is {_repr(own)}")
    return own


def name(what: str, value: Any) -> str:
    """Return the name of a tool or of an agent."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise fail(what, "1 to 64 letters, digits, '_' or '-'", value)
    return value


def duration(what: str, value: Any, *, most: timedelta | None = None) -> timedelta | None:
    """Return None, or a duration above zero as a timedelta; seconds are converted."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number(what, value, above=0, to=timedelta.max.total_seconds())
        value = timedelta(seconds=value)
    if not isinstance(value, timedelta) or value <= timedelta(0):
        raise fail(what, "a time above zero (seconds or a timedelta)", value)
    if most is not None and value > most:
        raise fail(what, f"at most {most}", value)
    return value
