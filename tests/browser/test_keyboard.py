"""The console by keyboard alone: nothing in here clicks or sets the focus."""

from browser.conftest import Enter
from browser.person import Person
from support.providers.openai import call, say
from support.system.system import Brain, eventually, unique

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
MANY = 60
"""More presses of Tab than any page takes."""
_NAME = """() => {
  const at = document.activeElement;
  const label = at.labels?.[0]?.textContent || at.getAttribute("aria-label") || at.textContent;
  return at.tagName === "BODY" ? "" : `${at.tagName.toLowerCase()} ${label.trim()}`;
}"""


def place(person: Person) -> str:
    """Return element and name of what has the keyboard; empty if nothing has it."""
    return str(person.page.evaluate(_NAME))


def press(person: Person, *keys: str) -> None:
    for key in keys:
        person.page.keyboard.press(key)


def go_to(person: Person, name: str, key: str = "Tab") -> None:
    """Press Tab until what has this name has the keyboard."""
    for _ in range(MANY):
        if place(person).startswith(name):
            return
        press(person, key)
    raise AssertionError(f"{key} never leads to {name!r}; at last: {place(person)!r}")


def arrives(person: Person, name: str) -> None:
    """Block until this has the keyboard."""
    eventually(lambda: place(person), lambda at: at.startswith(name))


def begin(person: Person, text: str) -> None:
    """Sign in, choose the agent `support`, and send the message."""
    go_to(person, "input Your name")
    person.page.keyboard.type(person.name)
    press(person, "Enter")
    person.page.get_by_role("radio").first.wait_for(state="attached")
    press(person, "Tab")
    go_to(person, "a Skip")
    press(person, "Enter")
    arrives(person, "main")
    press(person, "Tab")
    while person.page.evaluate("document.activeElement.value") != "support":
        press(person, "ArrowDown")
    go_to(person, "textarea Message")
    person.page.keyboard.type(text)
    press(person, "Enter")
    person.page.wait_for_url("**/#/t/*")


def test_decision_keeps_the_place_of_the_keyboard(enter: Enter, brain: Brain) -> None:
    ann = enter()
    refunds = (call("refund", order_id="A-2", amount=amount) for amount in (60, 50))
    begin(ann, brain.plan(*refunds, say("Done.")))
    ann.button("Approve").wait_for()
    go_to(ann, "button Edit", "Shift+Tab")
    press(ann, "Enter")
    arrives(ann, "input order_id")
    go_to(ann, "button Back")
    press(ann, "Enter")
    arrives(ann, "button Edit")
    go_to(ann, "button Deny")
    press(ann, "Enter")
    arrives(ann, "input Reason")
    ann.page.keyboard.type("it never broke")
    press(ann, "Enter")
    ann.button("Approve").wait_for()  # The second call.
    arrives(ann, "summary refund")
    go_to(ann, "button Approve")
    press(ann, "Enter")
    ann.answered()
    ann.sees("Done.")
    assert place(ann).startswith("summary refund")
    press(ann, "Enter")
    ann.sees("paid 50 for A-2")


def test_decision_in_the_inbox_leads_to_the_next_one(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    orders = [unique(), unique()]
    for order in orders:
        ann.open("new")
        ann.begin(brain.plan(call("refund", order_id=order, amount=60), say("Done.")))
        ann.button("Approve").wait_for()
    ann.open("inbox")
    ann.button("Approve").nth(1).wait_for()
    go_to(ann, "button Approve")
    press(ann, "Enter")
    ann.button("Approve").nth(1).wait_for(state="detached")
    arrives(ann, f"section Pay 60 euros back for {orders[1]}")
    go_to(ann, "button Approve")
    press(ann, "Enter")
    ann.sees("Nothing waits for you")
    arrives(ann, "main")


def test_menu_of_a_phone_takes_the_keyboard_and_gives_it_back(enter: Enter) -> None:
    ann = enter(**PHONE).sign_in()
    ann.page.get_by_role("radio").first.wait_for(state="attached")
    go_to(ann, "button Open the menu")
    press(ann, "Enter")
    arrives(ann, "button Close the menu")
    press(ann, "Escape")
    arrives(ann, "button Open the menu")
    press(ann, "Enter")
    arrives(ann, "button Close the menu")
    go_to(ann, "a Usage")
    press(ann, "Enter")
    ann.page.get_by_role("heading", name="Usage", exact=True).wait_for()
    arrives(ann, "main")
