"""JSON as models write it: with the line breaks and the backslashes of its strings as they are."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.values.json_answer import escape_raw, json_beginning, json_candidates, read_json
from layover.values.prompt import RequestedCall

RAW = '{"text": "Buy:\n- milk\n\t- whole", "n": [1, 2]}'
MEANT = {"text": "Buy:\n- milk\n\t- whole", "n": [1, 2]}
HEX = re.compile(r"\\u[0-9a-fA-F]{4}")


def lenient(text: str) -> tuple[bool, Any]:
    try:
        return True, json.loads(text, strict=False)
    except ValueError:
        return False, None


def strict(text: str) -> tuple[bool, Any]:
    try:
        return True, json.loads(text)
    except ValueError:
        return False, None


def doubled(text: str) -> str:
    """The text with each backslash that begins no escape twice: one after the other, from the left."""
    done, at = "", 0
    while at < len(text):
        if text[at] != "\\":
            done, at = done + text[at], at + 1
        elif HEX.match(text, at):
            done, at = done + text[at : at + 6], at + 6
        elif text[at + 1 : at + 2] in tuple('"\\/bfnrt'):
            done, at = done + text[at : at + 2], at + 2
        else:
            done, at = done + "\\\\", at + 1
    return done


@given(st.text(alphabet='{}[]",:\\\n\t\r\x01ntu0a 1(', max_size=30))
def test_exactly_the_text_that_lacks_nothing_but_escapes_becomes_json(text: str) -> None:
    for each in (text, f'{{"a": "{text}"}}'):
        reads, value = lenient(each)
        if reads:
            assert strict(escape_raw(each)) == (True, value)
        elif strict(escape_raw(each))[0]:
            assert strict(escape_raw(each)) == lenient(doubled(each))


@pytest.mark.parametrize(
    ("string", "meant"),
    [
        (r"\sigma", r"\sigma"),
        (r"\( x \) \\ \\d \"\/", r"\( x \) \ \d " + '"/'),
        (r"\sigma \frac{1}{2} \beta \rho", r"\sigma \frac{1}{2} \beta \rho"),
        (r"\underbrace \u00e9 \u12", "\\underbrace \u00e9 \\u12"),
        (r"C:\Users\ada", r"C:\Users\ada"),
        ("\\d+\n\\.", "\\d+\n\\."),
        (r"\d\n\n1.\t\(\nThe", "\\d\n\n1.\t\\(\nThe"),
        (r"\ud83d!", "\ufffd!"),
        (r"\udc4d \ud83d\ud83d\udc4d", "\ufffd \ufffd\U0001f44d"),
        (r"\\ud83d", r"\ud83d"),
    ],
)
def test_backslashes_and_halves_of_characters_are_read_as_they_were_meant(
    string: str, meant: str
) -> None:
    assert read_json(f'{{"a": "{string}"}}') == {"a": meant}


@pytest.mark.parametrize("string", [r"C:\Users\new", r"\sigma \times", "\\\n", "\\d \0"])
def test_a_string_that_may_be_meant_in_two_ways_is_refused(string: str) -> None:
    with pytest.raises(ValueError, match="line"):
        read_json(f'{{"a": "{string}"}}')


@pytest.mark.parametrize("string", [r"\frac{1}{2} \text \n", r"a\b \right"])
def test_a_string_that_is_json_is_read_as_json(string: str) -> None:
    assert read_json(f'"{string}"') == json.loads(f'"{string}"')


@pytest.mark.parametrize("rest", ["\\u00", "\\ud83d", "\\ud83d\\", "\\ud83d\\udc", "\\"])
def test_beginning_of_an_escape_waits_for_its_rest(rest: str) -> None:
    assert read_json('{"a": "\\d ' + rest, "trailing-strings") == {"a": r"\d "}


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner), max_leaves=5))
def test_what_is_json_stays_as_it_is(value: Any) -> None:
    for text in (json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
        assert escape_raw(text) == text


@pytest.mark.parametrize("text", [RAW, f"```json\n{RAW}\n```", f"Here:\n{RAW}\nBye"])
def test_answer_in_any_surroundings_is_read(text: str) -> None:
    assert MEANT in [strict(each)[1] for each in json_candidates(text)]


@pytest.mark.parametrize("text", ['{"a": "b\n', '{"a\n": ', '{"a": "b\\', '{"a": "\n\\'])
def test_beginning_of_an_answer_stays_a_beginning(text: str) -> None:
    with pytest.raises(ValueError, match="EOF"):
        read_json(text)


def test_beginning_of_an_answer_shows_its_breaks() -> None:
    assert read_json(json_beginning(RAW[:20]), "trailing-strings") == {"text": RAW[10:20]}


def test_arguments_of_a_call_are_json_whoever_made_it() -> None:
    call = RequestedCall(id="", name="note", args=RAW)
    assert json.loads(call.args) == MEANT
    assert RequestedCall(id="", name="note", args='{"a": "\n').args == '{"a": "\\u000a'


def test_what_is_not_json_otherwise_is_refused() -> None:
    for text in (RAW[:-1] + "]", '{"a": "\0"}', "{text: \n}", '{"a": "\\\n"}'):
        with pytest.raises(ValueError, match="line"):
            read_json(text)
