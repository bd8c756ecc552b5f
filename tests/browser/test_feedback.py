"""Thumbs below an answer: what a user thinks of it, kept, replaced and taken back."""

import threading

import pytest
from playwright.sync_api import Dialog, Locator, Page, expect

from browser.conftest import Enter
from browser.person import TWO_FRAMES, Delay, Person
from support.providers.openai import call, fail, say
from support.system.system import Brain, System, eventually

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
HOSTILE = '<img src=x onerror="document.title=1">'


def thumb(person: Person, name: str, page: Page | None = None) -> Locator:
    return person.button(f"{name} answer", page).last


def pressed(person: Person, page: Page | None = None) -> list[str | None]:
    """Whether the thumbs of the last answer are pressed: up, down."""
    return [thumb(person, name, page).get_attribute("aria-pressed") for name in ("Good", "Bad")]


def kept(person: Person, system: System) -> list[tuple[float, str | None]]:
    """The scores and comments that the server has of this user."""
    operator = system.caller("olga;scopes=operate")
    page = operator.get("/feedback?limit=100")
    return [(e["score"], e["comment"]) for e in page["items"] if e["owner"] == person.name]


def answered(enter: Enter, brain: Brain, **settings: object) -> Person:
    """A user with an answer."""
    ann = enter(**settings).sign_in()
    ann.begin(brain.plan(say("Order A-1002 is shipped.")))
    ann.answered()
    return ann


def test_answer_that_is_not_over_takes_no_thumb(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    hold = threading.Event()
    ann.begin(brain.plan(say("one two three four five six seven", hold=hold)))
    ann.sees("one two")
    assert ann.button("Good answer").count() == 0
    hold.set()
    ann.answered()
    assert ann.button("Good answer").count() == 1
    ann.say(brain.plan(call("refund", order_id="A-1", amount=60), say("Done.")))
    ann.button("Approve").wait_for()
    assert ann.button("Good answer").count() == 1


def test_thumb_that_cannot_be_kept_says_so_and_is_not_pressed(enter: Enter, brain: Brain) -> None:
    ann = answered(enter, brain, refusals=[500])
    problem = {"status": 500, "json": {"detail": "No disk is left."}}
    ann.page.route("**/feedback", lambda route: route.fulfill(**problem), times=1)
    thumb(ann, "Bad").click()
    ann.page.get_by_role("alert").get_by_text("No disk is left.").wait_for()
    assert pressed(ann) == ["false", "false"]
    thumb(ann, "Bad").click()
    ann.sees("You found it bad")
    assert ann.page.get_by_role("alert").count() == 0


def test_thumb_is_kept_replaced_and_taken_back(enter: Enter, brain: Brain, system: System) -> None:
    ann = answered(enter, brain)
    thumb(ann, "Bad").click()
    ann.sees("You found it bad")
    assert pressed(ann) == ["false", "true"]
    eventually(lambda: kept(ann, system), lambda found: found == [(-1, None)])
    thumb(ann, "Good").click()
    ann.sees("You found it good")
    assert pressed(ann) == ["true", "false"]
    ann.page.reload()
    ann.sees("You found it good")
    assert pressed(ann) == ["true", "false"]
    # Pressed again, it is taken back.
    thumb(ann, "Good").click()
    ann.page.get_by_text("You found it good").wait_for(state="detached")
    assert pressed(ann) == ["false", "false"]
    assert kept(ann, system) == []
    ann.page.reload()
    ann.answered()
    assert pressed(ann) == ["false", "false"]


def test_comment_is_kept_as_text_and_stays_with_another_thumb(
    enter: Enter, brain: Brain, system: System, axe: str
) -> None:
    ann = answered(enter, brain)
    thumb(ann, "Bad").click()
    ann.button("Say why").click()
    ann.page.get_by_label("Comment").fill(f"  {HOSTILE}\nIt is another order. ")
    assert ann.findings(axe) == []
    ann.picture("feedback-form")
    # Another thumb leaves what is being written.
    for name in ("Good", "Bad"):
        thumb(ann, name).click()
        expect(thumb(ann, name)).to_have_attribute("aria-pressed", "true")
    ann.button("Save").click()
    ann.sees(HOSTILE)
    assert ann.page.locator(".opinion img").count() == 0
    ann.picture("feedback")
    assert ann.findings(axe) == []
    comment = f"{HOSTILE}\nIt is another order."
    thumb(ann, "Good").click()
    ann.sees("You found it good")
    eventually(lambda: kept(ann, system), lambda found: found == [(1, comment)])
    ann.button("Change the comment").click()
    ann.page.get_by_label("Comment").fill(" ")
    ann.button("Save").click()
    ann.button("Say why").wait_for()
    eventually(lambda: kept(ann, system), lambda found: found == [(1, None)])


@pytest.mark.parametrize("sure", [False, True])
def test_comment_is_not_lost_without_a_question(enter: Enter, brain: Brain, sure: bool) -> None:
    ann = answered(enter, brain)
    thumb(ann, "Bad").click()
    ann.button("Say why").click()
    ann.page.get_by_label("Comment").fill("Too long.")
    ann.button("Save").click()
    ann.sees("Too long.")
    questions: list[str] = []

    def answer(dialog: Dialog) -> None:
        questions.append(dialog.message)
        if sure:
            dialog.accept()
        else:
            dialog.dismiss()

    ann.page.on("dialog", answer)
    ann.button("Take back").click()
    if sure:
        ann.page.get_by_text("Too long.").wait_for(state="detached")
    ann.page.evaluate(TWO_FRAMES)
    assert pressed(ann) == ["false", "false" if sure else "true"]
    assert "Your comment will be deleted" in questions[0]


def test_score_of_another_front_end_is_told_as_it_is(
    enter: Enter, brain: Brain, system: System
) -> None:
    ann = answered(enter, brain)
    caller = system.caller(ann.name)
    [run] = caller.get(f"/threads/{ann.thread.removeprefix('t/')}/runs")["items"]
    for score, thumbs in ((0.5, ["true", "false"]), (0, ["false", "false"])):
        caller.want(200, "POST", f"/runs/{run['id']}/feedback", {"score": score})
        ann.page.reload()
        ann.sees(f"Your score: {score}, from -1 to 1")
        assert pressed(ann) == thumbs


def test_each_answer_has_its_own_thumbs_also_a_failed_one(enter: Enter, brain: Brain) -> None:
    ann = answered(enter, brain)
    thumb(ann, "Good").click()
    ann.sees("You found it good")
    ann.say(brain.plan(fail(400)))
    eventually(lambda: ann.page.evaluate("true") and ann.button("Bad answer").count() == 2)
    assert pressed(ann) == ["false", "false"]
    thumb(ann, "Bad").click()
    ann.sees("You found it bad")
    assert ann.page.get_by_text("You found it good").count() == 1


def test_list_that_was_read_before_a_thumb_does_not_undo_it(enter: Enter, brain: Brain) -> None:
    ann = answered(enter, brain)
    late = Delay(ann.page, "GET", r"/threads/[^/]+/runs", times=1)
    ann.page.evaluate("dispatchEvent(new Event('online'))")
    other = ann.tab(f"#/{ann.thread}")
    ann.button("Good answer", other).wait_for()
    caller_says = brain.plan(say("Another answer."))
    other.get_by_role("textbox", name="Message").fill(caller_says)
    other.get_by_role("textbox", name="Message").press("Enter")
    late.begun()
    ann.button("Good answer").first.click()
    ann.sees("You found it good")
    late.end()
    ann.sees("Another answer.")
    ann.sees("You found it good")
    assert ann.button("Good answer").first.get_attribute("aria-pressed") == "true"


def test_thumbs_are_given_by_keyboard_on_a_phone(enter: Enter, brain: Brain, axe: str) -> None:
    ann = answered(enter, brain, **PHONE, color_scheme="dark")
    thumb(ann, "Bad").focus()
    ann.page.keyboard.press("Space")
    ann.button("Say why").wait_for()
    assert thumb(ann, "Bad").evaluate("(at) => at === document.activeElement")
    ann.button("Say why").focus()
    ann.page.keyboard.press("Enter")
    focused = "document.activeElement.tagName + ' ' + document.activeElement.textContent"
    assert str(ann.page.evaluate(focused)).startswith("TEXTAREA")
    ann.page.keyboard.press("Escape")
    assert ann.page.evaluate(focused) == "BUTTON Say why"
    ann.page.keyboard.press("Enter")
    ann.page.keyboard.type("Too short.")
    ann.page.keyboard.press("Tab")
    ann.page.keyboard.press("Enter")
    ann.sees("Too short.")
    eventually(lambda: ann.page.evaluate(focused), lambda at: at == "BUTTON Change the comment")
    ann.picture("feedback-phone")
    ann.page.on("dialog", lambda dialog: dialog.accept())
    ann.button("Take back").focus()
    ann.page.keyboard.press("Enter")
    ann.page.get_by_text("Too short.").wait_for(state="detached")
    assert thumb(ann, "Good").evaluate("(at) => at === document.activeElement")
    ann.page.keyboard.press("Space")
    ann.sees("You found it good")
    assert ann.findings(axe) == []
    assert ann.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
