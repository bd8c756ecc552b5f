"""Server-sent events, read as the HTML standard has them read."""

import json

import pytest

from layover.clock import ManualClock
from layover.plugins.fronts.protocols.sse import (
    HEARTBEAT,
    data_frames,
    event_frame,
    last_seq,
    named_frame,
)
from layover.values.runs.event import TextDelta

NOW = ManualClock().now()


def read(stream: bytes) -> list[dict[str, str]]:
    """The fields of each event."""
    blocks = stream.decode().split("\n\n")[:-1]
    lines = [[line.partition(": ") for line in block.split("\n")] for block in blocks]
    return [{name: value for name, _, value in each if name} for each in lines]


def test_an_event_has_its_seq_its_type_and_itself() -> None:
    text = "a\nb\r\u2028ü: data: x\n\nid: 7"
    event = TextDelta(seq=3, run_id="run_1", at=NOW, step=1, text=text)
    (found,) = read(event_frame(event))
    assert (found["id"], found["event"]) == ("3", "text-delta")
    assert json.loads(found["data"]) == json.loads(event.model_dump_json())


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_data_is_one_line_for_clients_that_split_as_texts_are_split(character: str) -> None:
    text = f"a{character}ü"
    event = TextDelta(seq=3, run_id="run_1", at=NOW, step=1, text=text)
    for frame in (
        event_frame(event),
        named_frame("run", event.model_dump_json()),
        data_frames([text]),
    ):
        (line,) = [each for each in frame.decode().splitlines() if each.startswith("data: ")]
        found = json.loads(line[6:])
        assert (found if isinstance(found, str) else found["text"]) == text


def test_what_is_no_event_has_no_id() -> None:
    assert read(named_frame("run", "{}")) == [{"event": "run", "data": "{}"}]


def test_a_heartbeat_is_a_comment() -> None:
    assert HEARTBEAT.startswith(b":")
    assert read(HEARTBEAT) == [{}]


@pytest.mark.parametrize("given", [None, "", "x", "-1", "1.5", "٣", "1" * 40])
def test_what_is_no_seq_is_not_taken_for_one(given: str | None) -> None:
    assert last_seq(given) is None


def test_the_last_seq_is_read() -> None:
    assert last_seq(" 12 ") == 12
