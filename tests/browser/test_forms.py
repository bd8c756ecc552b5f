"""What a person types: answers to calls, and corrections of what agents remember."""

from collections.abc import Iterator

import pytest

from browser.conftest import Enter
from support.providers.openai import call, say
from support.system.system import Brain, System, eventually, unique

LEARNED = "The user's lamp is red."
ENTRIES = "/memory/entries?agent=scholar"


@pytest.fixture
def learned(brain: Brain, system: System) -> Iterator[str]:
    """The name of a user of whom the agent `scholar` has learned one thing."""
    evidence = "my lamp is red"
    entry = (
        f'{{"entries": [{{"content": "{LEARNED}", "source": "user_assertion",'
        f' "evidence": "{evidence}"}}]}}'
    )
    brain.provider.respond_with(lambda _: say(entry), task="extractor")
    name = unique("ann")
    caller = system.caller(name)
    caller.ask(caller.thread("scholar"), brain.plan(say("Noted."), text=evidence))
    eventually(lambda: caller.get(ENTRIES)["items"])
    yield name
    brain.provider.respond_with(lambda _: say('{"entries": []}'), task="extractor")


def test_entry_is_corrected_in_its_place(
    enter: Enter, system: System, learned: str, axe: str
) -> None:
    ann = enter(learned, refusals=[422]).sign_in()
    ann.open("memory")
    ann.page.get_by_label("Agent", exact=True).select_option("scholar")
    ann.sees(LEARNED)
    ann.button(f"Correct: {LEARNED}").click()
    box = ann.page.get_by_label("Corrected entry")
    assert box.input_value() == LEARNED
    assert ann.findings(axe) == []
    box.fill("...")
    ann.button("Save").click()
    ann.page.get_by_role("alert").wait_for()
    box.press("Escape")
    ann.page.get_by_role("button", name=f"Correct: {LEARNED}").and_(
        ann.page.locator(":focus")
    ).wait_for()
    ann.page.keyboard.press("Enter")
    box.fill("The lamp is blue.")
    ann.button("Save").click()
    ann.button("Correct: The lamp is blue.").and_(ann.page.locator(":focus")).wait_for()
    (entry,) = system.caller(learned).get(ENTRIES)["items"]
    assert entry["content"] == "The lamp is blue."


def test_memory_of_a_thread_says_that_it_can_only_be_read(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(say("Hello.")), "keeper")
    ann.answered()
    ann.button("What this thread remembers").click()
    ann.sees("Only the agent changes these notes.")


def test_required_field_is_not_sent_empty(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(call("book", key=unique()), say("Booked.")))
    ann.button("Send answer").click()
    ann.sees("This is needed.")
    field = ann.page.get_by_role("textbox", name="slot")
    assert field.get_attribute("aria-invalid") == "true"
    assert field.evaluate("(field) => field === document.activeElement")
    field.fill("10:00")
    ann.button("Send answer").click()
    ann.answered()


def test_question_is_declined_and_until_then_what_was_typed_stays(
    enter: Enter, brain: Brain, axe: str
) -> None:
    ann = enter().sign_in()
    text = brain.plan(call("book", key=unique()), say("Then not."))
    ann.begin(text)
    slot = ann.page.get_by_role("textbox", name="slot")
    slot.fill("10:00")
    ann.button("Decline").click()
    ann.page.get_by_label("Reason optional").and_(ann.page.locator(":focus")).wait_for()
    assert ann.findings(axe) == []
    ann.page.keyboard.press("Escape")
    ann.button("Decline").and_(ann.page.locator(":focus")).wait_for()
    assert slot.input_value() == "10:00"
    ann.page.keyboard.press("Enter")
    ann.page.get_by_label("Reason optional").fill("too private")
    ann.picture("form-decline")
    ann.button("Decline to answer").click()
    ann.answered()
    ann.page.locator(".call .note", has_text=f"denied by {ann.name}: too private").wait_for()
    said = str(brain.requests(text)[-1].body["messages"])
    assert "A person declined to answer" in said
    assert "too private" in said


def test_argument_may_be_emptied_where_a_call_is_edited(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    text = brain.plan(call("refund", order_id="A-1", amount=60), say("Done."))
    ann.begin(text)
    ann.button("Edit").click()
    ann.page.get_by_label("order_id").fill("")
    ann.button("Approve with changes").click()
    ann.answered()
    assert "paid 60 for " in str(brain.requests(text)[-1].body["messages"])


def test_owner_who_may_not_decide_is_told_who_can(enter: Enter, brain: Brain) -> None:
    ann = enter(f"{unique('ann')};groups=finance").sign_in()
    order = unique()
    ann.begin(brain.plan(call("wire", order=order), say("Sent.")), "torture")
    ann.sees("You cannot decide about your own run. A member of finance can.")
    assert ann.button("Approve").count() == 0
    assert ann.button("Deny").count() == 0
    ann.open("inbox")
    ann.page.get_by_role("heading", name="Inbox", exact=True).wait_for()
    ann.sees("Nothing waits for you")
    assert ann.page.locator(".badge").count() == 0


def test_owner_who_has_voted_is_told_so_and_may_change_the_vote(enter: Enter, brain: Brain) -> None:
    ann = enter(f"{unique('ann')};groups=finance").sign_in()
    bea = enter(f"{unique('bea')};groups=finance").sign_in()
    amount = 90_000 + int(unique(""))
    ann.begin(brain.plan(call("pay_by_two", amount=amount), say("Paid.")), "treasurer")
    ann.button("Approve").click()
    for _ in ("as it was answered", "as it is loaded"):
        ann.sees("Your approval is recorded. More are needed.")
        ann.sees("1 of 2 approvals of these arguments given")
        assert ann.button("Approve").count() == 0
        ann.page.reload()
    ann.button("Change your vote").click()
    ann.button("Edit").click()
    ann.page.get_by_label("amount").fill("7")
    ann.button("Approve with changes").click()
    ann.sees("approved with other arguments (amount: 7)")
    inbox = bea.tab("#/inbox")
    card = bea.card(str(amount), inbox)
    bea.sees("approved with other arguments (amount: 7)", inbox)
    bea.button("Use these arguments", card).click()
    bea.button("Approve with changes", card).click()
    ann.answered()
    assert ann.page.locator(".call ins").all_inner_texts() == ["7"]


def test_reason_that_a_rule_requires_is_marked(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    bea = enter(f"{unique('bea')};groups=finance").sign_in()
    amount = 90_000 + int(unique(""))
    ann.begin(brain.plan(call("pay_explained", amount=amount), say("Paid.")), "treasurer")
    ann.sees("Needs finance")
    inbox = bea.tab("#/inbox")
    card = bea.card(str(amount), inbox)
    reason = card.get_by_label("Reason required")
    reason.wait_for()
    bea.button("Approve", card).click()  # Nothing is sent without it.
    assert reason.evaluate("(field) => field.validity.valueMissing")
    reason.fill("it is due")
    bea.button("Approve", card).click()
    ann.answered()
    ann.sees("it is due")


def test_agent_that_was_just_saved_can_be_chosen(enter: Enter) -> None:
    ann = enter()
    found: list[dict[str, object]] = []
    served = {"items": found, "next_cursor": None}
    ann.page.route("**/agents?*", lambda route: route.fulfill(json=served))
    ann.page.clock.install()
    ann.page.reload()
    ann.sign_in()
    ann.sees("No agents are served yet")
    found.append({"name": "newcomer", "model": "openai/fake-1", "tools": []})
    ann.page.clock.fast_forward(16_000)
    ann.page.get_by_role("radio", name="newcomer").wait_for(state="attached")
