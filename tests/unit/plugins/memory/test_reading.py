"""Messages as a compacting model reads them (docs/behaviour.md#compaction-reading)."""

import json
from datetime import timedelta, timezone
from typing import Any

import pytest

from layover.plugins.memory.learns.text.reading import (
    MAX_ITEMS,
    MAX_KEYS,
    MAX_STRING,
    MAX_TEXT,
    MAX_VALUE,
    cut,
    plain,
    render_value,
    transcript,
)
from layover.values.message import NOTICE, DataPart, FilePart, ReasoningPart, Role, TextPart
from support.worlds.observations import EVIL, TEN, answered, called, message, said


@pytest.mark.parametrize(
    "blob",
    [
        "data:image/png;base64," + "iVBORw0K" * 100,
        "DATA:text/plain;charset=utf-8;base64,aGVsbG8=",
        "aB3/" * 200 + "==",
        "deadbeef42" * 40,
        ("aB3d" * 19 + "\n") * 30,
    ],
)
def test_blobs_are_left_out(blob: str) -> None:
    for text in (f"before {blob} after", f"{blob} after"):
        found = plain(text, 500)
        assert "data left out" in found
        assert found.endswith("after")
        assert len(found) < 120
    assert "data left out" in render_value({"file": blob})


def test_bytes_are_left_out() -> None:
    assert render_value({"a": b"\0" * 9}) == '{"a": "[data left out: 9 bytes]"}'


@pytest.mark.parametrize(
    "text",
    [
        "https://host.test/" + "a-long-path/" * 30,
        "-" * 400,
        "word" * 60,
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "the data: url scheme",
    ],
)
def test_what_is_merely_long_is_no_blob(text: str) -> None:
    assert plain(text, 1_000) == text


@pytest.mark.parametrize(
    "value",
    [
        {"password": "hunter2", "user": "ann"},
        {"nested": [{"apiKey": ["hunter2"]}]},
        json.dumps({"authorization": "hunter2"}),
        "login with password: hunter2",
        "x" * 300 + " eyJhbGciOiJIUzI1NiJ9." + "hunter2" * 60 + ".c2ln",
    ],
)
def test_secrets_are_redacted(value: Any) -> None:
    seen = value if isinstance(value, str) else json.dumps(value)
    for lines in (transcript([called(value)]), transcript([answered("raw", seen)])):
        assert "hunter2" not in "".join(lines)
        assert "[redacted]" in "".join(lines)


def test_a_secret_at_the_cut_is_redacted_whole() -> None:
    for before in range(MAX_STRING // 2, MAX_STRING + 40):
        text = "word " * (before // 5) + "sk-" + "hunter2x" * 5 + " word" * 500
        assert "hunter" not in plain(text, MAX_STRING)


def test_nothing_in_a_message_begins_a_line_or_closes_the_block() -> None:
    evil = message(
        TextPart(text=EVIL),
        FilePart(name=EVIL, mime_type=EVIL),
        role=Role.USER,
    )
    lines = transcript([evil, called({EVIL: EVIL}, name=EVIL), called(EVIL), answered(EVIL)])
    assert len(lines) == 5
    for line in lines:
        assert line.startswith("[2026-11-21 10:00] ")
        assert len(line.splitlines()) == 1
        assert "<" not in line
        assert ">" not in line


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        True,
        float("nan"),
        [10**5_000],
        "",
        pytest.param("[" * 50_000, id="deep list"),
        pytest.param('{"a": ' * 50_000, id="deep object"),
        ["\ud800\0"],
    ],
)
def test_odd_values_are_shown_somehow(value: Any) -> None:
    assert len(render_value(value)) <= MAX_VALUE
    "".join(transcript([called(value), answered(value)])).encode()


def test_a_structure_without_end_is_cut() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert render_value(endless) == '[[[[[[[["…"]]]]]]]]'


def test_strings_lists_objects_and_values_have_limits() -> None:
    text = render_value({"text": "a" * 100 + "b" * 1_000 + "c" * 100})
    assert len(json.loads(text)["text"]) <= MAX_STRING
    assert text.startswith('{"text": "aaaa')
    assert text.endswith('cccc"}')
    assert len(render_value("a b " * 1_000)) <= MAX_STRING
    assert json.loads(render_value(list(range(90)))) == [*range(MAX_ITEMS), "… 70 more"]
    keys = json.loads(render_value({str(n): n for n in range(90)}))
    assert len(keys) == MAX_KEYS + 1
    assert keys["…"] == "50 more"
    assert len(render_value(["word " * 90] * 9)) == MAX_VALUE
    assert len(transcript([said("word " * 5_000)])[0]) <= MAX_TEXT + 40


def test_what_is_cut_keeps_head_and_tail() -> None:
    assert cut("abc", 3) == "abc"
    text = cut("a" * 500 + "b" * 500, 100)
    assert len(text) == 100
    assert text.startswith("a" * 40)
    assert text.endswith("b" * 25)
    assert "900 characters left out" in text


def test_messages_that_no_model_sees_are_left_out() -> None:
    hidden = message(DataPart(name="n", data={"x": 1}), role=Role.CUSTOM)
    thought = message(ReasoningPart(text="hm"), DataPart(name="n", data=1), role=Role.ASSISTANT)
    assert transcript([hidden, thought, said(" \n"), said("custom", Role.CUSTOM)]) == []


def test_each_part_is_a_line_with_its_time_and_who_it_is_from() -> None:
    lines = transcript(
        [
            message(FilePart(file_id="f", name="a.pdf", mime_type="application/pdf")),
            said("Where is\nA-1003?"),
            said("Let me look.", Role.ASSISTANT),
            called({"order": "A-1003"}),
            answered({"raw": 1}, "delivered"),
            answered(["x"]),
            answered("NotFound: A-1", is_error=True),
        ]
    )
    assert lines == [
        "[2026-11-21 10:00] user attached a file: a.pdf (application/pdf)",
        "[2026-11-21 10:00] user: Where is\\nA-1003?",
        "[2026-11-21 10:00] assistant: Let me look.",
        '[2026-11-21 10:00] assistant called find: {"order": "A-1003"}',
        "[2026-11-21 10:00] tool find answered: delivered",
        '[2026-11-21 10:00] tool find answered: ["x"]',
        "[2026-11-21 10:00] tool find failed: NotFound: A-1",
    ]


def test_speakers_are_called_what_the_agent_calls_them() -> None:
    names = {"user": "Customer", "tool": "Desk"}
    turn = [said("Hello"), said("Hi", Role.ASSISTANT), called({}), answered("x")]
    assert [line.split("] ")[1] for line in transcript(turn, names)] == [
        "Customer: Hello",
        "assistant: Hi",
        "assistant called find: {}",
        "Desk find answered: x",
    ]


def test_times_are_utc() -> None:
    at = TEN.astimezone(timezone(timedelta(hours=14)))
    assert transcript([said("x", at=at)]) == ["[2026-11-21 10:00] user: x"]


def test_the_end_of_a_sub_agent_in_the_background_is_read() -> None:
    parts = (DataPart(name=NOTICE, data={}), TextPart(text="it has ended"))
    assert len(transcript([message(*parts, role=Role.CUSTOM)])) == 1
