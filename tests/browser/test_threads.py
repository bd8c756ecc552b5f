"""Threads while other things happen: another thread is opened, an answer is late, another tab is at work."""

import threading

from playwright.sync_api import FilePayload, Page, Route

from browser.conftest import Enter
from browser.person import TWO_FRAMES, Delay
from support.providers.openai import call, say
from support.system.system import Brain, System, unique

LOOK = 16_000
"""Milliseconds after which the page has looked at the threads again."""


def move_clock(page: Page) -> None:
    """Load the page anew, with a clock that the test moves."""
    page.clock.install()
    page.reload()


def look_again(page: Page) -> None:
    """Have the page read the list of threads again."""
    with page.expect_response("**/threads?*"):
        page.clock.fast_forward(LOOK)
    page.evaluate(TWO_FRAMES)


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
    ann.page.get_by_role("heading", name="Usage", exact=True).wait_for()
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
    assert ann.page.get_by_text("Second answer.").is_visible()
    late.end()
    assert ann.page.get_by_text("asked meanwhile").is_visible()
    assert ann.page.get_by_text("Second answer.").is_visible()
    ann.button("Regenerate").nth(1).wait_for()  # What is stored of the second answer is there, too.
    ann.button("Approve").click()
    ann.sees("Third answer.")
    ann.sees("asked meanwhile")


def test_branch_that_was_chosen_last_is_the_one_that_is_shown(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan([say("First answer."), say("Second answer."), say("Third answer.")]))
    ann.answered()
    for n in (2, 3):
        ann.button("Regenerate").click()
        ann.sees(f"{n} of {n}")
    ann.button("Earlier answer").click()
    ann.sees("Second answer.")
    late = Delay(ann.page, "GET", "/messages", times=1)
    ann.button("Earlier answer").click()
    late.begun()
    ann.button("Later answer").click()
    ann.sees("Third answer.")
    late.end()
    assert ann.page.get_by_text("3 of 3").is_visible()
    assert ann.page.get_by_text("First answer.").count() == 0


def test_older_threads_stay_in_the_list_when_it_is_read_again(enter: Enter, system: System) -> None:
    name = unique("ann")
    caller = system.caller(name)
    for _ in range(52):
        caller.thread()
    ann = enter(name, refusals=[500])
    move_clock(ann.page)
    ann.sign_in()
    threads = ann.page.locator(".threads li")
    ann.page.route(
        "**/threads?limit=100*", lambda route: route.fulfill(status=500, json={}), times=1
    )
    ann.button("Older threads").click()
    ann.page.get_by_role("alert").wait_for()
    assert threads.count() == 50
    ann.button("Older threads").click()
    threads.nth(51).wait_for()
    look_again(ann.page)
    assert threads.count() == 52


def test_error_of_one_thread_is_not_shown_in_another(enter: Enter, brain: Brain) -> None:
    ann = enter(refusals=[409]).sign_in()
    ann.begin(brain.plan(say("First answer.")))
    ann.answered()
    first = ann.thread
    ann.open("new")
    ann.begin(brain.plan(say("Second answer.")))
    ann.answered()
    refusal = {"status": 409, "title": "Busy", "detail": "not now"}
    ann.page.route("**/runs", lambda route: route.fulfill(status=409, json=refusal), times=1)
    ann.say("again")
    ann.sees("not now")
    ann.open(first)
    ann.sees("First answer.")
    assert ann.page.get_by_role("alert").count() == 0


def test_second_tab_shows_the_run_that_the_first_one_began(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(say("First answer.")))
    ann.answered()
    other = ann.tab(f"#/{ann.thread}")
    move_clock(other)
    ann.sees("First answer.", other)
    hold = threading.Event()
    ann.say(brain.plan(say("Second answer.", hold=hold), text="asked in the first tab"))
    ann.sees("Second")
    look_again(other)
    ann.sees("asked in the first tab", other)
    assert ann.button("Stop", other).is_visible()
    hold.set()
    ann.sees("Second answer.", other)
    ann.button("Stop", other).wait_for(state="hidden")
    ann.say(brain.plan(say("Third answer.")))
    ann.sees("Third answer.")
    ann.answered()
    look_again(other)  # The run began and ended between two looks.
    ann.sees("Third answer.", other)


def test_run_that_cannot_be_followed_is_told_and_tried_again(enter: Enter, brain: Brain) -> None:
    ann = enter(refusals=[403]).sign_in()
    ann.begin(brain.plan(say("First answer.")))
    ann.answered()
    refusal = {"status": 403, "title": "Forbidden", "detail": "no events for you"}

    def refuse(route: Route) -> None:
        route.fulfill(status=403, json=refusal)

    ann.page.route("**/events?*", refuse)
    hold = threading.Event()
    ann.say(brain.plan(say("Second answer.", hold=hold)))
    ann.sees("no events for you")
    assert ann.button("Stop").count() == 0
    ann.page.unroute("**/events?*")
    ann.button("Try again").click()
    ann.button("Stop").wait_for()
    hold.set()
    ann.sees("Second answer.")
    ann.answered()
    assert ann.page.get_by_text("no events for you").count() == 0


def test_malformed_address_is_a_thread_that_is_not_there(enter: Enter) -> None:
    ann = enter(refusals=[400]).sign_in()
    ann.open("t/%")
    ann.page.get_by_role("alert").wait_for()
    ann.page.get_by_role("link", name="New thread").click()
    ann.page.get_by_role("heading", name="Who should answer?").wait_for()


def test_fault_of_the_page_is_told_and_leaves_the_way_to_other_pages(enter: Enter) -> None:
    ann = enter().sign_in()
    wrong = {"items": [None], "next_cursor": None}
    ann.page.route("**/usage?*", lambda route: route.fulfill(json=wrong))
    ann.open("usage")
    ann.sees("Something in this page failed.")
    ann.page.get_by_role("link", name="New thread").click()
    ann.page.get_by_role("heading", name="Who should answer?").wait_for()


def test_file_that_cannot_be_opened_is_told(enter: Enter, brain: Brain) -> None:
    ann = enter(refusals=[500]).sign_in()
    file: FilePayload = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"}
    ann.page.locator("input[type=file]").set_input_files(file)
    ann.page.locator(".files li").wait_for()
    ann.page.get_by_text("is being sent").wait_for(state="hidden")
    ann.begin(brain.plan(say("I read it.")))
    ann.answered()
    gone = {"status": 500, "title": "Fault", "detail": "the file is away"}
    ann.page.route("**/files/*", lambda route: route.fulfill(status=500, json=gone))
    ann.button("notes.txt").click()
    ann.sees("the file is away")
