"""Threads while other things happen: another thread is opened, an answer is late, another tab is at work."""

from browser.conftest import Enter
from browser.person import Delay
from support.providers.openai import call, say
from support.system.system import Brain, unique


def test_message_stays_in_its_thread_while_another_one_is_opened(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(say("First answer.")))
    ann.answered()
    first = ann.thread
    ann.open("new")
    ann.begin(brain.plan(say("Second answer.")))
    ann.answered()
    second = ann.thread
    ann.open(first)
    ann.sees("First answer.")
    late = Delay(ann.page, "POST", "/runs$")
    ann.say(brain.plan(say("Third answer."), text="only for the first"))
    late.begun()
    ann.open(second)
    ann.sees("Second answer.")
    with ann.page.expect_response("**/threads?*"):
        late.end()
    assert ann.page.get_by_text("only for the first").count() == 0
    assert ann.button("Stop").count() == 0
    ann.open(first)
    ann.sees("Third answer.")


def test_new_thread_does_not_take_the_place_of_a_page_that_was_opened_meanwhile(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    late = Delay(ann.page, "POST", "/runs$")
    ann.page.get_by_role("radio", name="support", exact=False).first.check(force=True)
    ann.say(brain.plan(say("Hello.")))
    late.begun()
    ann.open("usage")
    ann.page.get_by_role("heading", name="Usage").wait_for()
    with ann.page.expect_response("**/threads?*"):
        late.end()
    assert ann.thread == "usage"


def test_late_reload_takes_away_neither_the_next_message_nor_its_approval(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(say("First answer.")))
    ann.answered()
    late = Delay(ann.page, "GET", "/messages")
    ann.say(brain.plan(say("Second answer.")))
    late.begun()
    refund = call("refund", order_id=unique(), amount=60)
    ann.say(brain.plan(refund, say("Third answer."), text="asked meanwhile"))
    ann.button("Approve").wait_for()
    late.end()
    assert ann.page.get_by_text("asked meanwhile").is_visible()
    ann.button("Approve").click()
    ann.sees("Third answer.")
    ann.sees("asked meanwhile")
