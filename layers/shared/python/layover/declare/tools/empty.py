"""Empty results that say what they mean: a small model reads `[]` as a reason to ask again, and again."""

from collections.abc import Callable, Mapping
from typing import Any


def note_if_empty(note: str) -> Callable[[Any], Any]:
    """Return a `to_model_output` for a tool that may find nothing. If its result is empty, the model reads
    `note`: in an object as the field `note`, else as it is. The result itself keeps its shape.

    A result is empty if it is None, an empty text or list, or an object whose every value is."""

    def output(result: Any) -> Any:
        if not _is_empty(result):
            return result
        return {**result, "note": note} if isinstance(result, Mapping) else note

    return output


def _is_empty(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_empty(each) for each in value.values())
    return value is None or (isinstance(value, str | list | tuple) and not value)
