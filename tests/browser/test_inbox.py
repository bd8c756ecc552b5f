"""The inbox: everything that a person may decide, and each request at an address of its own."""

import re
from typing import Any

import pytest
from playwright.sync_api import Dialog, Page

from browser.conftest import Enter
from browser.person import Person
from browser.test_keyboard import arrives, press
from support.providers.openai import call, say
from support.system.system import Brain, eventually, unique

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
NOT_THERE = "There is no such request for you"


def asks(person: Person, brain: Brain, amount: int = 60, agent: str = "support") -> str:
    """Have a run of this person wait for a refund. Return the order's name."""
    order = unique()
    person.open("new")
    person.begin(brain.plan(call("refund", order_id=order, amount=amount), say("Done.")), agent)
    person.button("Approve").wait_for()
    return order


def wires(person: Person, brain: Brain) -> str:
    """Have a run of this person wait for two of finance. Return the order's name."""
    order = unique()
    person.open("new")
    person.begin(brain.plan(call("wire", order=order), say("Sent.")), "torture")
    person.sees("Needs 2 of finance")
    return order


def denies(person: Person, order: str) -> None:
    """Have an approver end what others would still find in their lists."""
    inbox = person.tab("#/inbox")
    person.button("Deny", person.card(order, inbox)).click()
    person.button("Deny the call", inbox).click()
    person.card(order, inbox).wait_for(state="detached")


def address_of(person: Person, order: str, inbox: Page) -> str:
    """The address of a waiting call, as the list has it: `#/inbox/RUN/CALL`."""
    link = person.card(order, inbox).get_by_role("link", name="Open request")
    return str(link.get_attribute("href"))


def titles(page: Page) -> list[str]:
    """The titles of the cards, from top to bottom."""
    return page.locator(".inbox .card .title").all_inner_texts()


def refund_of(order: str, amount: int = 60) -> str:
    return f"Pay {amount} euros back for {order}"


def test_address_of_anothers_request_tells_nothing(enter: Enter, brain: Brain) -> None:
    ann, bob = enter().sign_in(), enter().sign_in()
    order = asks(ann, brain)
    address = address_of(ann, order, ann.tab("#/inbox"))
    page = bob.tab(address)
    bob.sees(NOT_THERE, page)
    said = page.locator("main").inner_text()
    missing = bob.tab("#/inbox/run_none/call_none")
    bob.sees(NOT_THERE, missing)
    assert missing.locator("main").inner_text() == said
    assert order not in (page.text_content("body") or "")
    bob.picture("request-not-there", page)


def test_request_that_somebody_decided_meanwhile_says_what_was_decided(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    bea = enter(f"{unique('bea')};groups=finance").sign_in()
    cid = enter(f"{unique('cid')};groups=finance").sign_in()
    order = wires(ann, brain)
    inbox = bea.tab("#/inbox")
    address = address_of(bea, order, inbox)
    bea.button("Deny", bea.card(order, inbox)).click()
    inbox.get_by_label("Reason").fill("we owe nothing")
    bea.button("Deny the call", inbox).click()
    bea.card(order, inbox).wait_for(state="detached")
    for person in (ann, cid):
        page = person.tab(address)
        person.sees("This request is over", page)
        person.sees(f"denied by {bea.name.partition(';')[0]}", page)
        person.sees("we owe nothing", page)
        assert page.get_by_role("button", name="Approve").count() == 0
        person.picture(f"request-over-{'owner' if person is ann else 'approver'}", page)
    assert page.get_by_role("link", name="Open thread").count() == 0


def test_link_to_a_request_asks_to_sign_in_and_comes_back_to_it(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    order = wires(ann, brain)
    first = enter(f"{unique('bea')};groups=finance").sign_in()
    address = address_of(first, order, first.tab("#/inbox"))
    bea = enter(f"{unique('bea')};groups=finance")
    bea.page.goto(f"{bea.url}/{address}")
    bea.sees("Sign in to see the request.")
    bea.picture("request-sign-in")
    bea.sign_in()
    bea.sees("A request waits")
    bea.sees(order)
    bea.picture("request")
    bea.button("Approve").click()
    bea.sees("Your approval is recorded. More are needed.")
    cid = enter(f"{unique('cid')};groups=finance")
    cid.page.goto(f"{cid.url}/{address}")
    cid.sign_in()
    cid.sees("1 of 2 approvals of these arguments given")
    cid.button("Approve").click()
    cid.sees(f"approved by {cid.name.partition(';')[0]}")
    # Whoever still has it open is told without a click.
    bea.sees("This request is over")


def test_owner_who_may_not_decide_sees_who_can(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    order = wires(ann, brain)
    bea = enter(f"{unique('bea')};groups=finance").sign_in()
    page = ann.tab(address_of(bea, order, bea.tab("#/inbox")))
    ann.sees("You cannot decide about your own run. A member of finance can.", page)
    assert ann.button("Approve", page).count() == 0
    denies(bea, order)


def test_highest_risk_comes_first_and_then_what_waits_longest(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    low, first, second = asks(ann, brain, 5), asks(ann, brain), asks(ann, brain, 70)
    inbox = ann.tab("#/inbox")
    ann.sees(refund_of(first), inbox)
    assert titles(inbox) == [refund_of(first), refund_of(second, 70), refund_of(low, 5)]
    groups = inbox.locator(".inbox h2").all_inner_texts()
    assert [text.split("\u00a0")[0].strip() for text in groups] == ["High risk 2", "Low risk 1"]
    ann.picture("inbox-risks", inbox)


def test_filters_are_in_the_address_and_may_match_nothing(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    low, high = asks(ann, brain, 5), asks(ann, brain)
    inbox = ann.tab("#/inbox?risk=high")
    ann.sees(refund_of(high), inbox)
    assert titles(inbox) == [refund_of(high)]
    inbox.get_by_label("Risk", exact=True).select_option("low")
    eventually(lambda: titles(inbox), lambda found: found == [refund_of(low, 5)])
    assert inbox.url.endswith("#/inbox?risk=low")
    inbox.reload()
    ann.sees(refund_of(low, 5), inbox)
    inbox.get_by_label("Asked for").select_option(label="you")
    eventually(lambda: inbox.url, lambda url: url.endswith(f"?risk=low&owner={ann.name}"))
    nothing = ann.tab("#/inbox?risk=medium&tool=%3Cb%3E")
    ann.sees("No waiting call is like that", nothing)
    ann.picture("inbox-no-match", nothing)
    ann.button("Show all 2", nothing).click()
    ann.sees(refund_of(high), nothing)


def test_keys_move_open_and_decide_only_after_a_question(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    orders = [asks(ann, brain), asks(ann, brain, 70), asks(ann, brain, 80)]
    ann.open("inbox")
    ann.sees(refund_of(orders[2], 80))
    questions: list[str] = []
    agreed = [False, True]

    def answer(dialog: Dialog) -> None:
        questions.append(dialog.message)
        (dialog.accept if agreed[len(questions) - 1] else dialog.dismiss)()

    ann.page.on("dialog", answer)
    ann.page.locator("main").focus()
    press(ann, "a")  # No card has the focus.
    press(ann, "j", "j")
    arrives(ann, f"section {refund_of(orders[1], 70)}")
    press(ann, "k")
    arrives(ann, f"section {refund_of(orders[0])}")
    press(ann, "a")
    assert ann.card(orders[0]).count() == 1
    press(ann, "a")
    ann.card(orders[0]).wait_for(state="detached")
    assert questions == [f"Approve \u201c{refund_of(orders[0])}\u201d?"] * 2
    arrives(ann, f"section {refund_of(orders[1], 70)}")
    press(ann, "d")
    arrives(ann, "input Reason")
    ann.page.keyboard.type("jack and dad")  # Letters in a field are letters.
    press(ann, "Enter")
    ann.card(orders[1]).wait_for(state="detached")
    arrives(ann, f"section {refund_of(orders[2], 80)}")
    press(ann, "Enter")
    ann.sees("A request waits")
    assert re.search(r"#/inbox/[^/]+/[^/]+$", ann.page.url)


def test_keys_decline_a_question_and_never_send_its_form(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(call("book", key=unique()), say("Then not.")))
    ann.button("Decline").wait_for()
    ann.open("inbox")
    ann.page.get_by_role("textbox", name="slot").fill("10:00")
    ann.page.locator("main").focus()
    press(ann, "j", "a")
    assert ann.page.get_by_role("textbox", name="slot").input_value() == "10:00"
    press(ann, "d")
    arrives(ann, "input Reason")
    ann.page.keyboard.type("no")
    press(ann, "Enter")
    ann.sees("Nothing waits for you")


def test_calls_of_one_kind_are_decided_together_after_a_question(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    orders = [asks(ann, brain), asks(ann, brain, 70), asks(ann, brain, 80)]
    ann.open("inbox")
    ann.page.get_by_label(f"Select: {refund_of(orders[0])}").check()
    ann.button("Select all 3 of refund").click()
    ann.sees("3 selected")
    questions: list[str] = []

    def answer(dialog: Dialog) -> None:
        questions.append(dialog.message)
        (dialog.accept if len(questions) > 1 else dialog.dismiss)()

    ann.page.on("dialog", answer)
    ann.button("Approve 3").click()
    assert questions[0].splitlines()[0] == "Approve 3 calls?"
    assert all(order in questions[0] for order in orders)
    assert ann.page.locator(".inbox .card .title").count() == 3
    ann.button("Approve 3").click()
    ann.sees("Nothing waits for you")


def test_request_that_arrives_is_told_in_the_title_and_where_other_pages_are_open(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    bea = enter(f"{unique('bea')};groups=finance").sign_in()
    bea.open("usage")
    bea.page.get_by_role("heading", name="Usage", exact=True).wait_for()
    before = bea.page.title()
    order = wires(ann, brain)
    told = bea.page.locator(".arrivals")
    told.get_by_text("new request").wait_for()
    assert bea.page.title() != before
    assert re.match(r"\(\d+\) Layover", bea.page.title())
    bea.picture("arrival")
    bea.button("Later").click()
    assert told.inner_text() == ""
    # Whoever asked has the request before their eyes.
    assert ann.page.locator(".arrivals").inner_text() == ""
    denies(bea, order)


def test_lists_that_cannot_be_read_are_told_and_tried_again(enter: Enter) -> None:
    ann = enter(refusals=[500]).sign_in()
    fault = {"status": 500, "title": "Fault", "detail": "the table is away"}
    ann.page.route(
        re.compile(r"/approvals(\?|$)"), lambda route: route.fulfill(status=500, json=fault)
    )
    ann.open("inbox")
    ann.page.reload()
    ann.sees("the table is away")
    assert ann.page.get_by_text("Nothing waits for you").count() == 0
    ann.picture("inbox-error")
    ann.page.unroute(re.compile(r"/approvals(\?|$)"))
    ann.button("Try again").click()
    ann.sees("Nothing waits for you")


@pytest.mark.parametrize(
    "look",
    [{"color_scheme": "light"}, {"color_scheme": "dark"}, PHONE | {"color_scheme": "dark"}],
    ids=["light", "dark", "phone"],
)
def test_every_state_is_clean_to_axe_and_fits(
    enter: Enter, brain: Brain, axe: str, look: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    ann = enter(**look).sign_in()
    states: dict[str, Page] = {"none": ann.tab("#/inbox")}
    ann.sees("Nothing waits for you", states["none"])
    order = asks(ann, brain)
    asks(ann, brain, 5)
    states["list"] = ann.tab("#/inbox")
    ann.sees(refund_of(order), states["list"])
    address = address_of(ann, order, states["list"])
    states["one"] = ann.tab(address)
    ann.button("Approve", states["one"]).wait_for()
    states["gone"] = ann.tab("#/inbox/run_none/c1")
    ann.sees(NOT_THERE, states["gone"])
    found = {}
    for state, page in states.items():
        found[state] = ann.findings(axe, page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), state
        ann.picture(f"inbox-{state}-{name}", page)
    ann.button("Approve", states["one"]).click()
    ann.sees("This request is over", states["one"])
    found["over"] = ann.findings(axe, states["one"])
    ann.picture(f"inbox-over-{name}", states["one"])
    assert {state: findings for state, findings in found.items() if findings} == {}
