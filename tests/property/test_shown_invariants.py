"""Whatever events come, and wherever an answer begins or ends: what is shown is well formed, and has no end
before its beginning."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.api.routes_ag_ui import AgUiFrames
from functions.api.routes_chat import UiFrames
from layover.desk.cli.chat.answer import Answer
from layover.plugins.fronts.chat.answers import Translation
from layover.plugins.fronts.protocols.ag_ui import AgUiRun
from layover.plugins.fronts.protocols.ui_messages import UiMessage
from layover.values.runs.event import LoggedEvent
from support.examples import examples
from support.logs import LOGS, Json, Log
from support.logs.pictures import Screen

logs = st.sampled_from(LOGS)


@st.composite
def some_events(draw: st.DrawFn) -> tuple[Log, list[int]]:
    """Return a log, and the places of some of its events, in order: others were lost on the way."""
    log = draw(logs)
    lost = draw(st.sets(st.integers(0, len(log.items) - 1), max_size=6))
    end = draw(st.integers(0, len(log.items)))
    return log, [n for n in range(end) if n not in lost]


def check_chunks(chunks: list[Json]) -> None:
    """Check that each text is open while it grows, and each call known before its outcome."""
    text: str | None = None
    known: set[str] = set()
    for chunk in chunks:
        kind = chunk["type"]
        if kind in ("text-start", "reasoning-start"):
            assert text is None
            text = chunk["id"]
        elif kind in ("text-delta", "reasoning-delta"):
            assert text == chunk["id"]
        elif kind in ("text-end", "reasoning-end"):
            assert text == chunk["id"]
            text = None
        elif kind == "tool-input-available":
            known.add(chunk["toolCallId"])
        elif kind.startswith("tool-output-") or kind == "tool-approval-request":
            assert chunk["toolCallId"] in known
    assert text is None


def check_ag_ui(events: list[Json]) -> None:
    """Check the same of AG-UI's events."""
    text: str | None = None
    known: set[str] = set()
    for event in events:
        kind = event["type"]
        if kind in ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START"):
            assert text is None
            text = event["messageId"]
        elif kind in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
            assert text == event["messageId"]
        elif kind in ("TEXT_MESSAGE_END", "REASONING_MESSAGE_END"):
            assert text == event["messageId"]
            text = None
        elif kind == "TOOL_CALL_START":
            assert event["toolCallId"] not in known
            known.add(event["toolCallId"])
        elif kind == "TOOL_CALL_RESULT":
            assert event["toolCallId"] in known
    assert text is None


@examples(200)
@given(some_events())
def test_an_answer_is_well_formed_whatever_is_missing(given: tuple[Log, list[int]]) -> None:
    log, kept = given
    for end in ("rest", "break_off"):
        events, more = [log.events[n] for n in kept], () if end == "rest" else ("it ends",)
        message, run = UiMessage(log.run_id, "t"), AgUiRun("t", "r", log.run_id)
        chunks = [chunk for event in events for chunk in message.chunks(event)]
        check_chunks([*chunks, *getattr(message, end)(*more)])
        said = [each for event in events for each in run.events(event)]
        check_ag_ui([*said, *getattr(run, end)(*more)])


def translations(log: Log) -> list[Translation]:
    return [UiFrames(UiMessage(log.run_id, "t")), AgUiFrames(AgUiRun("t", "r", log.run_id))]


@examples(100)
@given(logs, st.data())
def test_an_answer_that_goes_on_says_what_one_from_the_beginning_says(
    log: Log, data: st.DataObject
) -> None:
    """The events before it are read in silence: whoever follows later reads the same end."""
    after = data.draw(st.integers(0, len(log.items)))
    events: list[LoggedEvent] = log.events
    for whole, later in zip(translations(log), translations(log), strict=True):
        said = [whole.frames(event) for event in events]
        for event in events[:after]:
            later.frames(event)
        assert [later.frames(event) for event in events[after:]] == said[after:]
        assert whole.waits == later.waits


PLACES = ("agent_path", "parent_tool_call_id", "tool_call_id", "step", "usage")
"""Fields that a server leaves out, if anything, and never cuts."""


@examples(200)
@given(some_events(), st.data())
def test_the_terminal_shows_events_of_any_server(
    given: tuple[Log, list[int]], data: st.DataObject
) -> None:
    """Fields may be missing, or have values that nobody knows here."""
    log, kept = given
    answer = Answer(Screen())
    for n in kept:
        event: Json = dict(log.items[n])
        for name in data.draw(
            st.sets(st.sampled_from(sorted(event.keys() - {"type"})), max_size=3)
        ):
            other: Any = data.draw(st.sampled_from([None, "…", {"_truncated": True}]))
            event[name] = None if name in PLACES else other
        answer.show(event)


@pytest.mark.parametrize("kind", sorted({event["type"] for log in LOGS for event in log.items}))
@pytest.mark.parametrize("other", [None, "…", {"_truncated": True}], ids=str)
def test_the_terminal_shows_each_event_without_any_of_its_fields(kind: str, other: Any) -> None:
    """One field at a time, behind the events before it."""
    log = next(log for log in LOGS if any(event["type"] == kind for event in log.items))
    place = next(n for n, event in enumerate(log.items) if event["type"] == kind)
    for name in log.items[place].keys() - {"type"}:
        answer = Answer(Screen())
        for event in log.items[:place]:
            answer.show(dict(event))
        answer.show({**log.items[place], name: None if name in PLACES else other})
