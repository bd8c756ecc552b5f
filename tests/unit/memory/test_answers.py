"""Answers of models that work in the background."""

import time

import pytest

from layover.memory.text.answers import json_object


@pytest.mark.parametrize("answer", ['{"a": 1}', 'Sure {so}:\n```json\n{"a": 1}\n```', '{{{"a": 1}'])
def test_an_object_is_found_whatever_stands_around_it(answer: str) -> None:
    assert json_object(answer) == {"a": 1}


@pytest.mark.parametrize("answer", ["{", '{"a":', '{"', "[{"])
def test_an_answer_of_braces_alone_is_none_and_takes_no_time(answer: str) -> None:
    began = time.process_time()
    assert json_object(answer * 100_000) is None
    assert time.process_time() - began < 30
