"""What agents do inside a run: sub-agents in their calls, and reasoning."""

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator

from browser.conftest import Enter
from browser.person import Person
from support.providers.openai import call, calls, say
from support.system.system import Brain, unique

AGAIN = "it was asked again"


def nested(person: Person) -> Locator:
    return person.page.get_by_role("region", name="sub-agent deputy")


@pytest.fixture
def hold() -> Iterator[threading.Event]:
    """Keeps an answer back until the test, or its end, lets it go."""
    event = threading.Event()
    yield event
    event.set()


def test_sub_agent_that_is_called_twice_was_not_asked_again(
    enter: Enter, brain: Brain, hold: threading.Event
) -> None:
    first, second = unique("brief"), unique("brief")
    brain.brief(first, call("look_up", order="A-1"), say("First report."))
    brain.brief(second, call("look_up", order="A-2"), say("Second report."))
    ann = enter().sign_in()
    ann.begin(
        brain.plan(
            call("deputy", input=f"[[{first}]] look"),
            call("deputy", input=f"[[{second}]] look"),
            say("Both looked.", hold=hold),
        ),
        "torture",
    )
    for _ in ("as it comes", "as it is stored"):
        nested(ann).nth(1).get_by_text("Second report.").wait_for()
        nested(ann).nth(0).get_by_text("First report.").wait_for()
        for n in (0, 1):
            assert nested(ann).nth(n).locator("summary", has_text="look_up").count() == 1
        assert ann.page.get_by_text(AGAIN).count() == 0
        hold.set()
        ann.sees("Both looked.")
        ann.answered()
    ann.picture("sub-agents")


def test_sub_agents_side_by_side_speak_each_in_its_call(
    enter: Enter, brain: Brain, hold: threading.Event
) -> None:
    marks = [unique("brief"), unique("brief")]
    for mark, word in zip(marks, ("alpha", "beta"), strict=True):
        brain.brief(mark, say(" ".join(f"{word}{n}" for n in range(20))))
    ann = enter().sign_in()
    both = calls(*(("deputy", {"input": f"[[{m}]] look"}, f"{m}-{unique('call')}") for m in marks))
    ann.begin(brain.plan(both, say("Both looked.", hold=hold)), "torture")
    ann.sees("Both")
    for _ in ("as it comes", "as it is stored"):
        nested(ann).nth(1).get_by_text("beta19").wait_for()
        nested(ann).nth(0).get_by_text("alpha19").wait_for()
        assert "beta" not in nested(ann).nth(0).inner_text()
        assert "alpha" not in nested(ann).nth(1).inner_text()
        assert nested(ann).count() == 2
        hold.set()
        ann.sees("Both looked.")
        ann.answered()
    ann.button("Timeline").click()
    ann.sees("deputy, Step 1")
    assert ann.page.get_by_text("broke off").count() == 0


def test_call_of_a_sub_agent_is_decided_where_it_stands(enter: Enter, brain: Brain) -> None:
    mark = unique("brief")
    brain.brief(mark, call("refund", order="A-1"), say("Paid it."))
    ann = enter().sign_in()
    ann.begin(brain.plan(call("deputy", input=f"[[{mark}]] pay"), say("It is paid.")), "torture")
    nested(ann).get_by_role("heading", name="Allow deputy \u203a refund?").wait_for()
    ann.button("Timeline").click()  # It is there while the run waits.
    ann.sees("Waiting for a decision: refund")
    ann.button("Approve").click()
    nested(ann).get_by_text("Paid it.").wait_for()
    ann.answered()
    ann.sees("Waiting for a decision: refund, approved")


def test_reasoning_is_folded(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(say("It is late.", reasoning="The clock says ten.")))
    ann.answered()
    thought = ann.page.locator("details", has_text="Reasoning")
    assert not thought.get_by_text("The clock says ten.").is_visible()
    thought.locator("summary").click()
    thought.get_by_text("The clock says ten.").wait_for()
