"""A conversation for whoever reads it and writes in it: what is on the screen, and what the page says."""

import json
import threading
from typing import Any

from playwright.sync_api import Page

from browser.conftest import Enter
from browser.test_modules import AT, asks, drawn, message
from support.providers.openai import call, say
from support.system.system import Brain, System, unique

LONG = " ".join(f"word{n}" for n in range(1, 41))
TALL = "\n\n".join(f"Paragraph {n}." for n in range(60))
TABLE = "| Item | Price |\n|:--|--:|\n| lamp | 42 |\n| a very long name | 7 |"
HEBREW = "שלום, מה מצב ההזמנה?"


def scroll_up(page: Page) -> None:
    page.locator(".transcript").evaluate("(box) => { box.scrollTop = 0; }")
    page.get_by_role("button", name="Newest").wait_for()


def end_is_visible(page: Page) -> bool:
    return bool(
        page.locator(".transcript").evaluate(
            "(box) => box.scrollHeight - box.scrollTop - box.clientHeight < 5"
        )
    )


def test_message_and_request_that_come_after_scrolling_up_are_seen(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(say(TALL)))
    ann.answered()
    scroll_up(ann.page)
    ann.button("Newest").click()
    ann.button("Newest").wait_for(state="detached")
    assert end_is_visible(ann.page)
    scroll_up(ann.page)
    hold = threading.Event()
    refund = call("refund", order_id=unique(), amount=60)
    ann.say(brain.plan(say(TALL, hold=hold), text="a question"))
    ann.page.get_by_text("a question").wait_for()
    ann.button("Newest").wait_for(state="detached")
    assert end_is_visible(ann.page)
    hold.set()
    ann.button("Regenerate").nth(1).wait_for()
    ann.say(brain.plan(refund, say("Done."), text="pay"))
    ann.button("Approve").wait_for()
    ann.page.locator(".transcript").evaluate("(box) => { box.scrollTop = 0; }")
    ann.button("A request waits below").click()
    ann.button("A request waits below").wait_for(state="detached")
    ann.picture("newest")


def test_escape_leaves_the_edit_of_a_message_and_of_a_call(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(say("Hello."), text="first words"))
    ann.answered()
    ann.button("Edit and ask again").click()
    box = ann.page.get_by_role("textbox", name="Message")
    assert "first words" in box.input_value()
    box.press("Escape")
    ann.page.get_by_text("This starts a new branch from here.").wait_for(state="detached")
    assert box.input_value() == ""
    ann.say(brain.plan(call("refund", order_id=unique(), amount=60), say("Done.")))
    for mode, field in (("Edit", "amount"), ("Deny", "Reason")):
        ann.button(mode).click()
        ann.page.get_by_label(field).press("Escape")
        ann.button("Approve").wait_for()


def test_message_that_cannot_be_sent_yet_is_told_and_kept(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    hold = threading.Event()
    ann.begin(brain.plan(say(LONG, hold=hold)))
    ann.sees("word20")
    ann.say("and the next one")
    ann.sees("The answer is under way. Your message stays here")
    hold.set()
    ann.answered()
    assert ann.page.get_by_role("textbox", name="Message").input_value() == "and the next one"
    assert ann.page.get_by_text("The answer is under way").count() == 0


def test_half_answer_that_was_stopped_is_still_there_after_a_reload(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    hold = threading.Event()
    ann.begin(brain.plan(say(LONG, hold=hold)))
    ann.sees("word20")
    ann.button("Stop").click()
    ann.sees("Cancelled.")
    hold.set()
    ann.page.reload()
    ann.sees("Cancelled.")
    ann.sees("word20")


def test_text_runs_in_the_direction_of_its_language(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(say(f"{HEBREW}\n\nThe second paragraph."), text=HEBREW))
    ann.answered()
    direction = "(place) => getComputedStyle(place).direction"
    # What a test asks begins with a word of ours.
    assert ann.page.locator(".typed").first.get_attribute("dir") == "auto"
    paragraphs = ann.page.locator(".prose p")
    assert [p.evaluate(direction) for p in paragraphs.all()] == ["rtl", "ltr"]
    ann.page.get_by_role("textbox", name="Message").fill(HEBREW)
    assert ann.page.get_by_role("textbox", name="Message").evaluate(direction) == "rtl"
    ann.picture("hebrew")


def test_table_keeps_its_alignment(modules: Page) -> None:
    app = drawn(modules, TABLE)
    cells = app.locator("th, td").all()
    assert [cell.get_attribute("class") for cell in cells] == ["at-left", "at-right"] * 3


def test_code_table_and_answer_are_copied(enter: Enter, brain: Brain) -> None:
    ann = enter(permissions=["clipboard-read", "clipboard-write"]).sign_in()
    answer = f"Here:\n\n```\nlayover dev\n```\n\n{TABLE}"
    ann.begin(brain.plan(say(answer)))
    ann.answered()
    table = "Item\tPrice\nlamp\t42\na very long name\t7"
    for name, copied in (
        ("Copy the code", "layover dev"),
        ("Copy the table", table),
        ("Copy the answer", answer),
    ):
        ann.button(name).click()
        ann.button("Copied").wait_for()
        assert ann.page.evaluate("navigator.clipboard.readText()") == copied
        ann.button("Copied").wait_for(state="detached")
    ann.picture("copy")


def test_arguments_that_are_no_object_are_one_line(modules: Page) -> None:
    line = modules.evaluate(
        """async ([events]) => {
          const { Blocks } = await import("/calls.js");
          const { applyEvent, newView } = await import("/events.js");
          const { html, paint } = await import("/dom.js");
          const view = newView();
          for (const event of events) applyEvent(view, event);
          const app = document.getElementById("app");
          paint(html`<${Blocks} blocks=${view.blocks} />`, app);
          return app.querySelector(".brief").textContent;
        }""",
        [[message({**asks("c1"), "args": '{"a": 1'})]],
    )
    assert line == '{"a": 1'


def test_open_wait_lasts_until_now(modules: Page) -> None:
    events: list[dict[str, Any]] = [
        {"type": "turn-start", "step": 1, "at": AT},
        {"type": "tool-call-suspended", "tool_call_id": "c1", "tool_name": "refund", "at": AT},
    ]
    spans = modules.evaluate(
        """async (events) => (await import("/timeline.js"))
          .spansOf(events, Date.parse(events[0].at) + 7200000)
          .filter((span) => span.kind === "wait").map((span) => [span.open, span.to - span.from])""",
        events,
    )
    assert spans == [[True, 7_200_000]]


def test_threads_are_listed_by_day_and_searched(enter: Enter, system: System) -> None:
    name = unique("ann")
    caller = system.caller(name)
    for n in range(9):
        caller.call("POST", "/threads", {"agent": "support", "title": f"Order {n} of a lamp"})
    ann = enter(name).sign_in()
    threads = ann.page.locator(".threads li")
    threads.nth(8).wait_for()
    assert ann.page.locator(".side h3").all_inner_texts() == ["Today"]
    box = ann.page.get_by_role("searchbox", name="Search the titles")
    box.fill("LAMP 7")
    threads.nth(1).wait_for(state="detached")
    assert threads.inner_text() == "Order 7 of a lamp"
    box.fill("chair")
    ann.sees("No title has these words.")
    ann.picture("search")


def test_day_of_a_thread_is_named(modules: Page) -> None:
    names = modules.evaluate(
        """async (days) => {
          const { threadDay } = await import("/dom.js");
          return days.map((day) => threadDay(day, new Date("2026-03-15T09:00:00")));
        }""",
        [
            "2026-03-15T00:01",
            "2026-03-14T23:59",
            "2026-03-09T12:00",
            "2026-02-20T12:00",
            "2025-12-31T12:00",
        ],
    )
    assert names == ["Today", "Yesterday", "Last 7 days", "February", "December 2025"]


def test_list_of_many_threads_leaves_the_places_where_they_are(
    enter: Enter, system: System
) -> None:
    name = unique("ann")
    caller = system.caller(name)
    for _ in range(40):
        caller.thread()
    ann = enter(name).sign_in()
    ann.page.locator(".threads li").nth(39).wait_for()
    ann.page.locator(".side .list").evaluate("(list) => { list.scrollTop = list.scrollHeight; }")
    link = ann.page.get_by_role("link", name="Inbox").first.bounding_box()
    assert link is not None
    assert link["y"] > 0
    ann.picture("many-threads")


def test_thread_without_a_title_has_one_name_in_the_list_and_above_it(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(call("refund", order_id=unique(), amount=60), say("Done.")))
    ann.button("Approve").wait_for()
    listed = ann.page.locator(".thread-title").first.inner_text()
    assert ann.page.get_by_role("heading", level=1).inner_text() == listed


def test_what_the_server_refuses_of_a_form_is_at_its_field(enter: Enter, brain: Brain) -> None:
    ann = enter(refusals=[422]).sign_in()
    ann.begin(brain.plan(call("send_parcel"), say("Sent.")), "treasurer")
    ann.button("Send answer").wait_for()
    form = ann.page.locator(".decision form")
    assert form.get_by_role("group", name="to").get_by_label("street").count() == 1
    ann.button("Send answer").click()
    ann.sees("This is needed.")
    form.get_by_label("street").fill("Lane")
    form.get_by_label("number").fill("0")
    form.get_by_label("size").select_option("small")
    form.get_by_label("kind").select_option("gift")
    form.get_by_label("on", exact=True).fill("2026-12-01")
    form.get_by_label("weight").fill("0.7")
    form.get_by_label("items").fill("lamp")
    ann.button("Send answer").click()
    wrong = form.locator(".wrong")
    texts = ["At least 5 characters.", "At least 1.", "Less than 0.5.", "At least 2."]
    wrong.nth(3).wait_for()
    assert wrong.all_inner_texts() == texts
    ann.picture("form-limits")
    form.get_by_label("street").fill("Long Lane")
    form.get_by_label("number").fill("1")
    form.get_by_label("weight").fill("0.3")
    form.get_by_label("items").fill("lamp\n\n shelf ")
    problem = {
        "status": 422,
        "title": "Wrong",
        "detail": "the data does not fit",
        "errors": [{"loc": ["body", "data", "to", "street"], "msg": "there is no such street"}],
    }
    ann.page.route("**/resume", lambda route: route.fulfill(status=422, json=problem), times=1)
    ann.button("Send answer").click()
    ann.sees("there is no such street")
    assert wrong.all_inner_texts() == ["there is no such street"]
    field = form.get_by_label("street")
    assert field.evaluate("(field) => field === document.activeElement")
    assert ann.page.get_by_role("alert").count() == 0
    with ann.page.expect_request("**/resume") as sent:
        ann.button("Send answer").click()
    data = json.loads(sent.value.post_data or "")["data"]
    assert data["to"] == {"street": "Long Lane", "number": 1}
    assert data["items"] == ["lamp", "shelf"]
    ann.answered()
