"""Cursors of lists: those that a list gave out are read, all others refused."""

import base64
import json
from typing import Any

import pytest

from layover.errors import InvalidRequest
from layover.values.cursor import MAX_CURSOR, decode_cursor, encode_cursor


def cursor(*fields: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "made_up",
    [
        "",
        "~",
        "\ud800",
        "x" * (MAX_CURSOR + 1),
        cursor("runs", "a"),
        cursor("usage"),
        cursor("usage", "a", "b"),
        cursor("usage", 5),
        cursor("usage", ["a"]),
        cursor("usage", "a\x00"),
        cursor("usage", "\ud800"),
        base64.urlsafe_b64encode(b'["usage",' + b"9" * 3_000 + b"]").decode(),
    ],
)
def test_cursor_that_no_list_gave_out_is_refused(made_up: str) -> None:
    with pytest.raises(InvalidRequest, match="the cursor is not one of this list"):
        decode_cursor("usage", made_up)


@pytest.mark.parametrize("fields", [("a",), ("a", None, "\u00e9\U0001f600")])
def test_cursor_of_a_list_is_read_as_it_was_made(fields: tuple[str | None, ...]) -> None:
    made = encode_cursor("usage", *fields)
    assert decode_cursor("usage", made, len(fields)) == [*fields]
