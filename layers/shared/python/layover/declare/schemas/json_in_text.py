"""Values that do not fit their schema, as the model meant them: lists and objects as the text of their JSON,
and empty texts for nothing (docs/behaviour.md#tool-schemas)."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from layover.values.json_answer import read_json
from layover.values.text import sanitise

Path = Sequence[int | str]
Fitted = TypeVar("Fitted")
_NOTHING: Any = object()
"""Stands for what is left out."""


def read_texts(value: Any, check: Callable[[Any], Fitted], error: ValidationError) -> Fitted:
    """Return what `check` makes of a decoded value, or of a text of JSON, if what did not fit is read as it
    was meant: the text of a list or an object as that, and an empty text or null of a field as left out.
    Raises `error`, of what the model wrote, so that it can mend that."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    again = _mended(_decoded(value), [problem["loc"] for problem in problems])
    if again is _NOTHING:
        raise error
    try:
        return check(again)
    except ValidationError as still:
        with contextlib.suppress(ValidationError):
            return read_texts(again, check, still)
    raise error


def _decoded(value: Any) -> Any:
    try:
        return read_json(sanitise(value)) if isinstance(value, str) else value
    except ValueError:
        return None


def _mended(value: Any, places: Iterable[Path]) -> Any:
    """Return the value with what stands at these places as it was meant; `_NOTHING` if all of it is meant as
    it is. `places`: where the value does not fit its schema, so that a text that may be a text stays one."""
    mended = value
    for place in places:
        path, written = _value_at(mended, place)
        meant = _meant(written, is_field=bool(path) and isinstance(path[-1], str))
        if meant is not written:
            mended = _replaced(mended, path, meant)
    return _NOTHING if mended is value else mended


def _meant(written: Any, *, is_field: bool) -> Any:
    if is_field and (written is None or (isinstance(written, str) and not written.strip())):
        return _NOTHING
    if not isinstance(written, str) or written.strip()[:1] not in ("[", "{"):
        return written
    try:
        return read_json(written)
    except ValueError:
        return written


def _value_at(value: Any, place: Path) -> tuple[Path, Any]:
    """Return the value at a place with its path. Parts of the place that name an alternative of a union, and
    no key, are passed over."""
    path: list[int | str] = []
    for part in place:
        if _has(value, part):
            value = value[part]
            path.append(part)
    return path, value


def _has(value: Any, part: int | str) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def _replaced(whole: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    copy: Any = list(whole) if isinstance(whole, list) else dict(whole)
    copy[path[0]] = _replaced(whole[path[0]], path[1:], value)
    if copy[path[0]] is _NOTHING:
        del copy[path[0]]
    return copy
