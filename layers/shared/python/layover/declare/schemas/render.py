"""Results and errors as JSON and as text for a model."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import AliasChoices, RootModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from layover.values.base import TOO_DEEP, too_deep
from layover.values.message import FilePart
from layover.values.text import sanitise

MAX_PROBLEM = 2_000
"""Characters of the error in an answer: names of fields may be the model's, and long."""
_MAX_ERRORS = 10
_NAMELESS = re.compile(r"<.* at 0x[0-9a-fA-F]+>", re.DOTALL)
"""Python's text for a thing that says nothing about itself."""


def jsonable(value: Any) -> Any:
    """Return a value as the journal, events and lists keep it: only what JSON can express.

    Models and dataclasses become objects, dates ISO text, bytes base64, NaN and infinities null,
    unknown types their `str`. NUL and lone surrogates, which no database takes, become U+FFFD.
    Raises ValueError for a value that contains itself, is nested deeper than 100 levels, or has a thing
    of which `str` tells nothing but its address."""
    plain = from_json(_to_json(value))
    if too_deep(plain):
        raise ValueError(TOO_DEEP)
    return plain


def as_taken(value: Any, dumped: Any) -> Any:
    """Return what `dumped`, the JSON of a value by its aliases, is by the names under which the fields of its
    models are taken: those of their schemas."""
    if isinstance(value, RootModel):
        return as_taken(value.root, dumped)
    if isinstance(dumped, dict) and hasattr(type(value), "__pydantic_fields__"):
        return _model_as_taken(value, dumped)
    if not isinstance(value, Collection) or not isinstance(dumped, dict | list):
        return dumped
    inner = list(value.values() if isinstance(value, Mapping) else value)
    if len(inner) != len(dumped):
        return dumped
    if isinstance(dumped, list):
        return [as_taken(each, its) for each, its in zip(inner, dumped, strict=True)]
    items = zip(inner, dumped.items(), strict=True)
    return {key: as_taken(each, its) for each, (key, its) in items}


def _model_as_taken(value: Any, dumped: dict[str, Any]) -> dict[str, Any]:
    fields = type(value).__pydantic_fields__
    names = {info.serialization_alias or name: name for name, info in fields.items()}
    return {
        _name_taken(fields.get(name), name): as_taken(getattr(value, name, None), its)
        for name, its in ((names.get(key, key), its) for key, its in dumped.items())
    }


def _name_taken(info: FieldInfo | None, name: str) -> str:
    alias = info.validation_alias if info is not None else None
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return next((choice for choice in choices if isinstance(choice, str)), name)


def as_text(value: Any) -> str:
    """Return a value as a model reads it: a string bare, anything else as JSON."""
    return sanitise(value) if isinstance(value, str) else _to_json(value).decode()


@dataclass(frozen=True)
class Parts:
    """A result whose raw form is not what the model gets. `raw`: what events and lists keep of it. `parts`:
    what the model gets. `files`: those that a text among the parts names. `is_error`: whether the tool
    failed."""

    raw: Any
    parts: Sequence[str | FilePart]
    files: Sequence[FilePart] = ()
    is_error: bool = False


def _to_json(value: Any) -> bytes:
    try:
        text = to_json(value, fallback=_as_str, bytes_mode="base64", inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeEncodeError):
        plain = to_jsonable_python(value, fallback=_as_str, bytes_mode="base64")
        return to_json(_clean(plain), inf_nan_mode="null")
    return to_json(_clean(from_json(text))) if b"\\u0000" in text else text


def _as_str(value: Any) -> str:
    text = str(value)
    if _NAMELESS.fullmatch(text):
        # `<Order object at 0x7f...>` would be a success that tells a model nothing.
        raise ValueError(
            f"a value of type {type(value).__name__} has no JSON form: give text, numbers, lists, dicts, "
            "pydantic models or dataclasses"
        )
    return text


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return sanitise(value)
    if isinstance(value, list):
        return [_clean(v) for v in value]
    if isinstance(value, dict):
        return {sanitise(str(k)): _clean(v) for k, v in value.items()}
    return value


def json_text(value: Any) -> str:
    """Return JSON of arguments or of a decision's data (models of the author's too), for validation."""
    return json.dumps(value, default=to_jsonable_python)


def format_error(error: BaseException) -> str:
    """Return `{ErrorName}: {message}`, as a model reads the failure of a tool
    (docs/behaviour.md#tool-errors)."""
    return f"{type(error).__name__}: {message_of(error)}"


def message_of(error: BaseException) -> str:
    """Return an error's message, safe to store; a ValidationError's without the values that were given."""
    if isinstance(error, ValidationError):
        return describe(error)
    try:
        return sanitise(str(error)) or "(no message)"
    except Exception:  # an error whose own __str__ fails must not hide itself
        return "(no message)"


def describe(error: ValidationError) -> str:
    """Return `field: what is wrong; ...`, with neither links nor the values that were given."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    problem_lines = [_problem(p["loc"], p["msg"]) for p in problems[:_MAX_ERRORS]]
    if len(problems) > _MAX_ERRORS:
        problem_lines.append(f"and {len(problems) - _MAX_ERRORS} more")
    return sanitise("; ".join(problem_lines))


def _problem(location: tuple[int | str, ...], message: str) -> str:
    return f"{'.'.join(map(str, location))}: {message}" if location else message


def invalid_input(error: ValidationError) -> str:
    """Return the error that a model reads for arguments that do not fit."""
    return f"Invalid tool input: {describe(error)}"


def invalid_suspend_payload(error: ValidationError) -> str:
    """Return the error that a model reads if a tool suspends with another payload than it declared."""
    return f"Invalid suspend payload: {describe(error)}"
