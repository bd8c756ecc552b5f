"""Answers of models that work in the background."""

import json
import time
from typing import Any

import pytest

from layover.plugins.memory.learns.text.answers import json_object, numbers_of, objects
from support.examples import share


@pytest.mark.parametrize("answer", ['{"a": 1}', 'Sure {so}:\n```json\n{"a": 1}\n```', '{{{"a": 1}'])
def test_an_object_is_found_whatever_stands_around_it(answer: str) -> None:
    assert json_object(answer) == {"a": 1}


@pytest.mark.parametrize("answer", ["{", '{"a":', '{"', "[{"])
def test_an_answer_of_braces_alone_is_none_and_takes_no_time(answer: str) -> None:
    began = time.process_time()
    assert json_object(answer * (100_000 // share(4))) is None
    assert time.process_time() - began < 30


ONE, TWO = {"content": "one", "ids": ["a", "b"]}, {"content": "two, {2} [2]", "ids": []}
BOTH = {"entries": [ONE, TWO]}


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps(BOTH),
        f"Here you are:\n```json\n{json.dumps(BOTH, indent=2)}\n```\nAnything else?",
        f"{json.dumps(BOTH)}\n- `content`: one finding that stands on its own",
        f'{json.dumps(BOTH)}\n{{"entries": [{{"content": "from the example"}}]}}',
        f'The turn {{"turn": []}} teaches: {json.dumps(BOTH)}',
        f'{{"answer": {json.dumps(BOTH)}}}',
        f'<think>{{"entries": []}} or rather</think>{json.dumps(BOTH)}',
        json.dumps([ONE, TWO]),
        f"```\n{json.dumps([ONE, TWO])}\n```",
        f"\ufeff{json.dumps(BOTH)}<|im_end|>\n<|im_start|>user\n{{",
    ],
)
def test_the_object_that_was_asked_for_is_found_among_whatever_else(answer: str) -> None:
    assert json_object(answer, "entries") == BOTH


WHOLE = json.dumps(BOTH)


@pytest.mark.parametrize("end", range(len(WHOLE)))
def test_an_answer_that_was_cut_has_the_elements_that_are_whole_and_no_part_of_another(
    end: int,
) -> None:
    elements = objects(json_object(WHOLE[:end], "entries"), "entries")
    first, second = (WHOLE.index(json.dumps(each)) + len(json.dumps(each)) for each in (ONE, TWO))
    assert elements == [ONE, TWO][: (end >= first) + (end >= second)]


def test_texts_in_a_list_that_was_cut_are_whole() -> None:
    answer = '{"merge": [{"ids": ["c"], "text": "x"}], "drop": ["obs_1", "obs_2", "obs_'
    whole = {"merge": [{"ids": ["c"], "text": "x"}], "drop": ["obs_1", "obs_2"]}
    assert json_object(answer, "drop", "merge") == whole
    assert json_object(answer[: answer.index(', "drop')], "drop", "merge") == {
        "merge": whole["merge"]
    }


def test_what_broke_off_behind_words_or_in_a_fence_is_found_as_well() -> None:
    cut = WHOLE[: WHOLE.index("two")]
    for before in ("Sure:\n", "```json\n", "the turn {so} says\n", "<think>{</think>"):
        assert json_object(before + cut, "entries") == {"entries": [ONE]}


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "entries",
        "{",
        '{"entries"',
        '{"turn": [{"content": "x"}',
        '{"other": [{"a": 1}], "more": ',
        "[1, 2]",
        '["entries"]',
    ],
)
def test_an_answer_without_what_was_asked_for_is_none(answer: str) -> None:
    assert json_object(answer, "entries") is None


@pytest.mark.parametrize(
    "answer",
    ["[", "{", '{"a":', '{"', "[{", '"\\', '{"entries": [{"a": "', '{"entries":[', "\\", '{"a":1,'],
)
def test_an_answer_without_end_takes_no_time(answer: str) -> None:
    began = time.process_time()
    json_object(answer * (400_000 // share(4) // len(answer)), "entries")
    assert time.process_time() - began < 30


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        ([3, "1", 3, " 2 "], (3, 1, 2)),
        (4, (4,)),
        ("4", (4,)),
        (None, ()),
        ([True, None, -1, 2.5, "one", "٢", {}, [5]], ()),
        (["9" * 5_000, 7], (7,)),
        (list(range(900)), tuple(range(50))),
    ],
)
def test_numbers_are_read_as_a_list_a_number_or_a_text(
    value: Any, numbers: tuple[int, ...]
) -> None:
    assert numbers_of(value) == numbers


def test_line_breaks_may_stand_in_texts_as_they_are() -> None:
    raw = '{"entries": [{"content": "one\n\ttwo"}, {"content": "thr'
    assert json_object(raw.rpartition(",")[0] + "]}") == {"entries": [{"content": "one\n\ttwo"}]}
    assert json_object(raw, "entries") == {"entries": [{"content": "one\n\ttwo"}]}
