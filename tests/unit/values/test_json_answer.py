"""JSON as models write it: with the line breaks of its strings as they are."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.values.json_answer import escape_raw, json_beginning, json_candidates, read_json
from layover.values.prompt import RequestedCall

RAW = '{"text": "Buy:\n- milk\n\t- whole", "n": [1, 2]}'
MEANT = {"text": "Buy:\n- milk\n\t- whole", "n": [1, 2]}


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


@given(st.text(alphabet='{}[]",:\\\n\t\r\x01ntu0a 1', max_size=30))
def test_exactly_the_text_that_lacks_nothing_but_escapes_becomes_json(text: str) -> None:
    assert strict(escape_raw(text)) == lenient(text)
    assert strict(escape_raw(f'{{"a": "{text}"}}')) == lenient(f'{{"a": "{text}"}}')


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
