"""Lists and objects that a model wrote as the text of their JSON (docs/behaviour.md#tool-schemas)."""

from collections.abc import Iterable, Sequence
from typing import Any

from layover.values.json_answer import read_json

Path = Sequence[int | str]


def decode_texts(args: Any, places: Iterable[Path]) -> Any:
    """Return the arguments with the texts at these places decoded; None if none of them is the JSON of a list
    or an object. `places`: where the arguments do not fit their schema, so that a text that may be a text
    stays one."""
    decoded, changed = args, False
    for place in places:
        path, text = _text_at(decoded, place)
        value = _list_or_object(text)
        if value is not None:
            decoded, changed = _replaced(decoded, path, value), True
    return decoded if changed else None


def _text_at(args: Any, place: Path) -> tuple[Path, Any]:
    """Return the value at a place with its path. Parts of the place that name an alternative of a union, and
    no key, are passed over."""
    value, path = args, []
    for part in place:
        if _has(value, part):
            value = value[part]
            path.append(part)
    return path, value


def _has(value: Any, part: int | str) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def _list_or_object(text: Any) -> Any:
    if not isinstance(text, str) or text.strip()[:1] not in ("[", "{"):
        return None
    try:
        return read_json(text)
    except ValueError:
        return None


def _replaced(args: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    whole: Any = list(args) if isinstance(args, list) else dict(args)
    whole[path[0]] = _replaced(args[path[0]], path[1:], value)
    return whole
