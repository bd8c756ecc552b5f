"""A run as it is shown: whether it waits for a person, and nothing of it is at work."""

from typing import Any

import pytest

from layover.plugins.fronts.protocols.run_view import RunView
from layover.values.runs.event import Event, TurnStart
from layover.values.runs.run import DecisionKind
from unit.plugins.fronts.protocols.test_ui_messages import AT, asks, decided, ends, runs


def within(call: str, event: Event, *names: str) -> Event:
    """Return the event of the sub-agent that works in this call."""
    place = {"agent_path": ("top", *(names or ("desk",))), "parent_tool_call_id": call}
    return event.model_copy(update=place)


def waits(*events: Event) -> bool:
    view = RunView("run_1")
    for event in events:
        view.apply(event)
    return view.waits


STEP = TurnStart(step=1, **AT)
DESK = (runs("d1", {}), within("d1", STEP))
"""A sub-agent works in the call `d1`."""


def test_a_run_waits_once_a_call_of_its_sub_agent_does() -> None:
    assert not waits(*DESK)
    assert waits(*DESK, within("d1", asks("p1")))


@pytest.mark.parametrize(
    "more",
    [
        [runs("c1", {})],
        [runs("d2", {})],
        [runs("d2", {}), within("d2", STEP)],
        [within("d1", runs("l1", {}))],
        [within("d1", decided("p1", DecisionKind.APPROVED))],
        [within("d1", runs("e1", {})), within("e1", STEP, "desk", "aide")],
    ],
    ids=[
        "a call of the run's own",
        "a sub-agent that has not begun",
        "one that asks its model",
        "another call of the same sub-agent",
        "the call, once it is decided",
        "a sub-agent below it",
    ],
)
def test_a_run_does_not_wait_while_anything_of_it_is_at_work(more: list[Any]) -> None:
    assert not waits(*DESK, within("d1", asks("p1")), *more)


def test_a_run_waits_however_deep_its_sub_agents_are() -> None:
    deep = [within("d1", runs("e1", {})), within("e1", STEP, "desk", "aide")]
    assert waits(*DESK, *deep, within("e1", asks("p1"), "desk", "aide"))
    both = [runs("d2", {}), within("d2", STEP), within("d2", asks("p2"))]
    assert waits(*DESK, *deep, within("e1", asks("p1"), "desk", "aide"), *both)


def test_a_run_waits_again_after_a_call_beside_it_has_ended() -> None:
    beside = [runs("c1", {}), ends("c1", 1)]
    assert waits(*DESK, within("d1", asks("p1")), *beside)
