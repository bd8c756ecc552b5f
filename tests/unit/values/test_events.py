"""Batches of events that another version wrote."""

import json
from typing import Any

import pytest

from layover.clock import ManualClock
from layover.plugins.fronts.protocols import sse
from layover.values.runs.event import (
    EventPage,
    TextDelta,
    ToolCallDecided,
    UnknownEvent,
    load_events,
)

AT = "2026-01-01T00:00:00.000000Z"
DELTA = {"type": "text-delta", "at": AT, "step": 1, "text": "Hello"}
LATER = {"type": "call-handed-up", "at": AT, "tool_call_id": "c1", "to": {"name": "bea"}}


def batch(*events: dict[str, Any]) -> str:
    return json.dumps(events)


def test_an_event_of_an_unknown_type_takes_no_other_with_it() -> None:
    first, unknown, last = load_events(batch(DELTA, LATER, DELTA), "run_1", 7)
    assert first == TextDelta(at=ManualClock().now(), step=1, text="Hello", seq=7, run_id="run_1")
    assert isinstance(unknown, UnknownEvent)
    assert (unknown.seq, unknown.run_id, unknown.type, last.seq) == (8, "run_1", LATER["type"], 9)


def test_an_unknown_event_is_answered_with_the_fields_that_it_came_with() -> None:
    (unknown,) = load_events(batch(LATER), "run_1", 1)
    numbered = {"seq": 1, "run_id": "run_1", **LATER}
    assert unknown.model_dump(mode="json") == numbered
    page = EventPage(items=(unknown,), last_seq=1, done=False)
    assert json.loads(page.model_dump_json())["items"] == [numbered]
    assert sse.event_frame(unknown).startswith(b"id: 1\nevent: call-handed-up\ndata: {")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "tool-call-decided", "tool_call_id": "c1", "decided_by": "ann"},
        {
            "type": "tool-call-decided",
            "tool_call_id": "c1",
            "decided_by": "ann",
            "decision": "postponed",
        },
        {"type": "message", "message": {"content": [{"type": "hologram"}]}},
    ],
    ids=["a field less", "a new value", "a new part"],
)
def test_an_event_of_a_known_type_that_cannot_be_read_is_unknown(event: dict[str, Any]) -> None:
    (found,) = load_events(batch({"at": AT, **event}), "run_1", 1)
    assert isinstance(found, UnknownEvent)
    assert found.type == event["type"]


def test_an_unknown_field_is_passed_over() -> None:
    (found,) = load_events(
        batch(
            {
                "type": "tool-call-decided",
                "at": AT,
                "tool_call_id": "c1",
                "decision": "approved",
                "decided_by": "ann",
                "mood": "calm",
            }
        ),
        "run_1",
        1,
    )
    assert isinstance(found, ToolCallDecided)
    assert "mood" not in found.model_dump()
