"""A run's events as AG-UI's, from recorded lists of events."""

from itertools import chain
from typing import Any

from layover.plugins.fronts.protocols.ag_ui import AgUiRun
from layover.values.message import TextPart
from layover.values.runs.event import ErrorEvent, Event, MessageEvent, ReasoningDelta, TurnEnd
from layover.values.runs.run import DecisionKind, ErrorInfo, Status
from unit.plugins.fronts.protocols.test_ui_messages import (
    AT,
    asks,
    decided,
    ends,
    finish,
    message,
    runs,
    start,
    text,
)


def run() -> AgUiRun:
    return AgUiRun("thread of mine", "run of mine", "run_1")


def events(*given: Event, of: AgUiRun | None = None) -> list[dict[str, Any]]:
    return list(chain.from_iterable(map((of or run()).events, given)))


def types(found: list[dict[str, Any]]) -> list[str]:
    return [e["type"] for e in found]


def test_a_run_has_the_ids_that_the_client_gave() -> None:
    ids = {"threadId": "thread of mine", "runId": "run of mine"}
    (begun,) = run().begin()
    assert begun.items() >= {"type": "RUN_STARTED", **ids}.items()
    ended = events(finish())[-1]
    assert ended.items() >= {"type": "RUN_FINISHED", **ids}.items()
    assert ended["outcome"] == {"type": "success"}


def test_a_step_holds_its_texts_and_calls() -> None:
    done = message(TextPart(text="Hello"))
    end = TurnEnd(step=1, message=done, tool_results=(), **AT)
    thought = ReasoningDelta(step=1, text="hm", **AT)
    found = events(start(), thought, text("Hello"), MessageEvent(message=done, **AT), end)
    assert types(found) == [
        "STEP_STARTED",
        *("REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        "STEP_FINISHED",
    ]


def test_a_call_comes_with_its_result() -> None:
    found = events(start(), runs("c", {"a": 1}), ends("c", {"b": 2}))
    assert types(found)[1:] == [
        *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT")
    ]
    assert (found[2]["delta"], found[4]["content"]) == ('{"a":1}', '{"b":2}')


def test_a_run_that_waits_ends_with_interrupts_and_goes_on_in_its_step() -> None:
    waiting = run()
    asked = events(start(), asks("c", attempt=2), of=waiting)
    assert types(asked)[-1] == "TOOL_CALL_END"
    assert [e["type"] for e in waiting.go_on()] == ["STEP_STARTED"]
    closed, ended = waiting.rest()
    assert closed["type"] == "STEP_FINISHED"
    assert ended["outcome"]["type"] == "interrupt"
    (interrupt,) = ended["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["toolCallId"]) == ("2:run_1:c", "c")
    assert interrupt["metadata"]["pending"]["args"] == {"amount": 5}
    assert interrupt["message"] == "refund waits for a person"


def test_what_was_decided_interrupts_no_more() -> None:
    waiting = run()
    events(asks("c1"), asks("c2"), decided("c1", DecisionKind.DENIED), of=waiting)
    assert set(waiting.view.waiting) == {"c2"}
    found = events(ends("c1", "denied", True), of=waiting)
    assert types(found) == ["TOOL_CALL_RESULT"]


def test_a_failed_run_ends_with_its_error_alone() -> None:
    error = ErrorEvent(error=ErrorInfo(type="ModelError", message="no"), **AT)
    assert types(events(start(), error, finish(Status.FAILED))) == [
        *("STEP_STARTED", "STEP_FINISHED", "RUN_ERROR")
    ]


def test_a_cancelled_run_is_cancelled() -> None:
    assert events(finish(Status.CANCELLED))[-1]["outcome"] == {"type": "cancelled"}


def test_a_step_that_begins_again_ends_first() -> None:
    assert types(events(start(), text("a"), start())) == [
        *("STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        *("STEP_FINISHED", "STEP_STARTED"),
    ]
