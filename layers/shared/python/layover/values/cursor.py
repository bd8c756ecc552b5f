"""Opaque cursors of lists. A cursor names its list, so that another list refuses it."""

import base64
import binascii
import json

from layover.errors import InvalidRequest
from layover.keys import MAX_SORT_KEY
from layover.values.text import sanitise

MAX_CURSOR = 4096
"""Characters."""


def bad_cursor() -> InvalidRequest:
    """Return the error for a cursor that no list gave out."""
    error = {"loc": ["query", "cursor"], "msg": "not a cursor of this list", "type": "cursor"}
    return InvalidRequest("the cursor is not one of this list", [error])


def encode_cursor(kind: str, *fields: str | None) -> str | None:
    """Return a cursor of this kind; None if every field is None (the last page)."""
    if all(field is None for field in fields):
        return None
    text = json.dumps([kind, *fields], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(kind: str, cursor: str | None, count: int = 1) -> list[str | None]:
    """Return the fields of a cursor; all None without a cursor. Raises InvalidRequest."""
    if cursor is None:
        return [None] * count
    try:
        if len(cursor) > MAX_CURSOR:
            raise ValueError
        text = cursor + "=" * (-len(cursor) % 4)
        fields = json.loads(base64.b64decode(text, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError) as error:
        raise bad_cursor() from error
    if not isinstance(fields, list) or len(fields) != count + 1 or fields[0] != kind:
        raise bad_cursor()
    if not all(
        field is None or (isinstance(field, str) and _is_storable(field)) for field in fields
    ):
        raise bad_cursor()
    return fields[1:]


def _is_storable(text: str) -> bool:
    """Return whether a store could have the text: it has no NUL and no lone surrogate, and is not longer than
    a key by which DynamoDB sorts."""
    return sanitise(text) == text and len(text.encode()) <= MAX_SORT_KEY


def decode_cursor_field(kind: str, cursor: str | None) -> str | None:
    """Return the only field of a cursor."""
    return decode_cursor(kind, cursor)[0]
