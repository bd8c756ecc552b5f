"""Server-sent events, read as the HTML standard has them read."""

import json

import pytest

from layover.clock import ManualClock
from layover.plugins.fronts.protocols.sse import HEARTBEAT, event_frame, last_seq, named_frame
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
