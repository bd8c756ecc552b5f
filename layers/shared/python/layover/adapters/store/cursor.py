"""Cursors of lists: where the next page begins, opaque to callers."""

import base64
import binascii
import json

from layover.errors import InvalidRequest


def encode_cursor(depth: int) -> str:
    """The cursor behind the message at this depth of its path."""
    return base64.urlsafe_b64encode(json.dumps({"d": depth}).encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> int:
    """The depth behind which the page begins; -1 without a cursor. Raises InvalidRequest."""
    if cursor is None:
        return -1
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        depth = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))["d"]
    except (ValueError, binascii.Error, TypeError, KeyError, RecursionError) as error:
        raise InvalidRequest(
            "this cannot be a cursor", [{"loc": ["query", "cursor"], "msg": "malformed"}]
        ) from error
    if type(depth) is not int or not 0 <= depth < 2**31 - 1:
        raise InvalidRequest(
            "this cannot be a cursor", [{"loc": ["query", "cursor"], "msg": "malformed"}]
        )
    return depth
