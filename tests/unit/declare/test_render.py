"""Anything that a tool may return or raise becomes JSON and text that every store takes."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from layover.declare.schemas.render import as_text, format_error, jsonable
from support.worlds.runs import nested


@dataclass
class Point:
    x: int


class Odd:
    def __str__(self) -> str:
        return "odd one"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\0b", "a\ufffdb"),
        ("\ud800 alone", "\ufffd alone"),
        ({"k\0": ["\udfff"]}, {"k\ufffd": ["\ufffd"]}),
        (float("nan"), None),
        ([float("inf")], [None]),
        (b"\xff", "_w=="),
        (Odd(), "odd one"),
        ({1: "a", (2, 3): "b"}, {"1": "a", "2,3": "b"}),
        (Point(1), {"x": 1}),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        ("\U0001f600", "\U0001f600"),
        (None, None),
    ],
)
def test_any_value_becomes_json(value: Any, expected: Any) -> None:
    assert jsonable(value) == expected


class Silent:
    """Says nothing about itself."""


async def coroutine() -> None:
    """Return nothing."""


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Silent(), "Silent"),
        ([{"order": Silent()}], "Silent"),
        ({Silent(): 1}, "Silent"),
        (lambda: 1, "function"),
        ([object()], "object"),
        (["a\0b", Silent()], "Silent"),
        (["\ud800", Silent()], "Silent"),
    ],
)
def test_a_thing_that_says_nothing_but_its_address_is_an_error(value: Any, kind: str) -> None:
    for render in (jsonable, as_text):
        with pytest.raises(ValueError, match=f"a value of type {kind} has no JSON form: give text"):
            render(value)


def test_a_coroutine_that_nobody_awaited_is_an_error() -> None:
    forgotten = coroutine()
    with pytest.raises(ValueError, match="a value of type coroutine has no JSON form"):
        jsonable(forgotten)
    forgotten.close()


def test_text_that_looks_like_an_address_stays() -> None:
    assert jsonable("<Order object at 0x7f>") == "<Order object at 0x7f>"


def test_a_value_that_contains_itself_is_an_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match=r"[Cc]ircular"):
        jsonable(loop)


@pytest.mark.parametrize("levels", [101, 195, 201, 5_000])
def test_a_value_that_is_nested_deeper_than_100_levels_is_an_error(levels: int) -> None:
    assert jsonable(nested(100)) == nested(100)
    with pytest.raises(ValueError, match=r"deeper|depth|recursion"):
        jsonable(nested(levels))


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.text(st.sampled_from("\0a\ud800\udc00"))
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(ANYTHING)
def test_json_text_holds_neither_nul_nor_surrogates(value: Any) -> None:
    text = json.dumps(jsonable(value), allow_nan=False, ensure_ascii=False)
    assert "\\u0000" not in text.replace("\\\\", "")
    text.encode()
    as_text(value).encode()
    assert jsonable(jsonable(value)) == jsonable(value)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("too much"), "ValueError: too much"),
        (KeyError("id"), "KeyError: 'id'"),
        (TimeoutError(), "TimeoutError: (no message)"),
        (Mute(), "Mute: (no message)"),
        (ValueError("\ud800\0"), "ValueError: \ufffd\ufffd"),
    ],
)
def test_errors_have_a_name_and_a_message(error: Exception, said: str) -> None:
    assert format_error(error) == said


def test_a_validation_error_inside_a_tool_has_no_link_and_no_value() -> None:
    class Model(BaseModel):
        password: int

    with pytest.raises(ValidationError) as caught:
        Model.model_validate({"password": "hunter2"})
    said = format_error(caught.value)
    assert said.startswith("ValidationError: password: ")
    assert "hunter2" not in said
    assert "http" not in said
