"""The stand-in model learns what was said, word for word."""

import json
from typing import Any

import pytest

from layover.desk.local.model.background import entries

FAULT = "My lamp flickers whenever I dim it below 30 percent."


def learned(*texts: str, known: tuple[str, ...] = (), role: str = "user") -> list[str]:
    asked = {"profile": None, "known": known, "turn": [{"role": role, "text": t} for t in texts]}
    found = json.loads(entries([{"role": "user", "content": json.dumps(asked)}]))["entries"]
    assert all(e["evidence"] == e["content"] for e in found)
    return [e["content"] for e in found]


@pytest.mark.parametrize("messages", [[], [{}], [{"content": "no json"}], [{"content": "[1]"}]])
def test_a_request_that_it_cannot_read_teaches_nothing(messages: Any) -> None:
    assert json.loads(entries(messages)) == {"entries": []}


@pytest.mark.parametrize(
    "text",
    [
        "Where is my order A-1002?",
        "Why does my lamp flicker whenever I dim it?",
        "Please refund 60 euros for order A-1003.",
        "It fails.",
        "Book a table for 4 people tomorrow",
    ],
)
def test_questions_and_wishes_teach_nothing(text: str) -> None:
    assert learned(text) == []


def test_a_fault_is_learned_word_for_word_without_what_stands_around_it() -> None:
    assert learned(f"Good morning. {FAULT} Can you help?") == [FAULT]


def test_a_number_with_a_point_ends_no_sentence() -> None:
    text = "The import of version 2.5.1 fails every night"
    assert learned(text) == [text]


def test_what_is_known_or_said_by_the_assistant_is_not_learned() -> None:
    assert learned(FAULT, known=(FAULT,)) == []
    assert learned(FAULT, role="assistant") == []
