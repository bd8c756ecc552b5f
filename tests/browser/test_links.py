"""The page at which a link decides, in Chromium, on a phone."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from browser.conftest import PICTURES
from browser.person import Person
from layover.values.decision import Risk
from layover.values.runs.run import CallState, SuspensionKind
from layover.values.runs.views import Run
from support.worlds.link_site import LinkSite
from support.worlds.linked import ANNA, BEA, CARL, FINANCE

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DARK = {**PHONE, "color_scheme": "dark"}
Open = Callable[..., Person]


@pytest.fixture(scope="module")
def served() -> Iterator[LinkSite]:
    with LinkSite().serve() as site:
        yield site


@pytest.fixture
def site(served: LinkSite) -> LinkSite:
    """The module's site, with the people who are usually there."""
    served.world.configure()
    return served


@pytest.fixture
def follow(chromium: Browser, site: LinkSite) -> Iterator[Open]:
    """`follow(path)` opens a link in a browser of its own. At the end nothing may have failed in any page,
    and no page may have asked another host."""
    people: list[Person] = []

    def open_link(path: str, *, refusals: Any = (409, 404, 422), **settings: Any) -> Person:
        device: dict[str, Any] = {**PHONE, **settings}
        person = Person(chromium, site.url, "", PICTURES, refusals=refusals, **device)
        people.append(person)
        person.page.goto(f"{site.url}{path}")
        return person

    yield open_link
    for person in people:
        person.leave()
        assert person.faults == []
        assert {url for url in person.hosts if not url.startswith("127.0.0.1:")} == set()


def fits(page: Page) -> bool:
    """Return whether nothing is wider than the phone."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def waits(site: LinkSite, run: Run) -> bool:
    call = site.call_of(run)
    return call.state is CallState.WAITING and call.decision is None


def test_page_shows_whose_link_it_is_and_decides_nothing_by_itself(
    follow: Open, site: LinkSite, axe: str
) -> None:
    run, [path] = site.asked(FINANCE, risk=Risk.HIGH)
    for settings, name in ((PHONE, "link"), (DARK, "link-dark")):
        bea = follow(path, **settings)
        bea.sees("This link is for bea@example.com only. If that is not you, close this page.")
        bea.sees("high risk")
        bea.sees("ann@example.com")
        bea.sees("o1")
        assert fits(bea.page)
        assert bea.findings(axe) == []
        bea.picture(name)
        bea.page.reload()
        bea.button("Approve").wait_for()
    assert waits(site, run)


def test_page_loads_little_of_the_console(follow: Open, site: LinkSite) -> None:
    _, [path] = site.asked()
    bea = follow("/decide/none")
    files: list[str] = []
    bea.page.on("request", lambda request: files.append(request.url.rpartition("/")[2]))
    bea.page.goto(f"{site.url}{path}")
    bea.button("Approve").wait_for()
    assert "app.js" not in files
    assert "marked.esm.js" not in files
    assert "decide.js" in files


def test_call_is_approved_and_the_page_says_so_from_then_on(
    follow: Open, site: LinkSite, axe: str
) -> None:
    run, [path] = site.asked()
    bea = follow(path)
    bea.button("Approve").click()
    bea.sees("You approved it.")
    assert site.call_of(run).decision.via == "link"
    assert bea.findings(axe) == []
    bea.picture("link-approved")
    bea.page.reload()
    bea.sees("You approved it.")
    assert bea.button("Approve").count() == 0


def test_denial_asks_for_the_reason_that_is_required(
    follow: Open, site: LinkSite, axe: str
) -> None:
    run, [path] = site.asked(FINANCE.model_copy(update={"reason_required": True}))
    bea = follow(path)
    bea.button("Deny").click()
    bea.button("Deny the call").click()
    assert waits(site, run)
    bea.page.get_by_label("Reason required").fill("It was paid before.")
    assert bea.findings(axe) == []
    bea.picture("link-deny")
    bea.button("Deny the call").click()
    bea.sees("You denied it.")
    assert site.call_of(run).decision.reason == "It was paid before."


def test_call_is_decided_by_keyboard_alone(follow: Open, site: LinkSite) -> None:
    run, [path] = site.asked()
    bea = follow(path)
    bea.button("Deny").wait_for()
    for _ in range(20):
        if bea.page.evaluate("document.activeElement.textContent") == "Deny":
            break
        bea.page.keyboard.press("Tab")
    bea.page.keyboard.press("Enter")
    bea.page.get_by_label("Reason").and_(bea.page.locator(":focus")).wait_for()
    bea.page.keyboard.type("no")
    bea.page.keyboard.press("Enter")
    bea.sees("You denied it.")
    bea.page.locator("main:focus").wait_for()
    assert site.call_of(run).decision.reason == "no"


def test_arguments_are_edited_with_the_tools_schema(follow: Open, site: LinkSite) -> None:
    run, [path] = site.asked()
    bea = follow(path)
    bea.button("Edit").click()
    bea.page.get_by_label("amount").fill("lots")
    bea.button("Approve with changes").click()
    bea.sees("This is not a number.")
    bea.page.get_by_label("amount").fill("20")
    bea.button("Approve with changes").click()
    bea.sees("You approved it.")
    assert site.call_of(run).decision.args["amount"] == 20


def test_call_that_waits_for_input_has_a_form(follow: Open, site: LinkSite, axe: str) -> None:
    run, [path] = site.asked(None, ANNA, kind=SuspensionKind.INPUT)
    ann = follow(path)
    ann.button("Send answer").wait_for()
    assert ann.findings(axe) == []
    ann.button("Send answer").click()
    ann.sees("This is needed.")
    ann.page.get_by_label("slot").fill("9:00")
    ann.picture("link-form")
    ann.button("Send answer").click()
    ann.sees("You answered it.")
    assert site.call_of(run).decision.data == {"slot": "9:00"}


def test_call_that_waits_for_input_is_declined(follow: Open, site: LinkSite, axe: str) -> None:
    run, [path] = site.asked(None, ANNA, kind=SuspensionKind.INPUT)
    ann = follow(path)
    ann.button("Decline").click()
    ann.page.get_by_label("Reason").fill("private")
    assert fits(ann.page)
    assert ann.findings(axe) == []
    ann.button("Decline to answer").click()
    ann.sees("You declined to answer.")
    assert site.call_of(run).decision.reason == "private"
    ann.page.reload()
    ann.sees("You declined to answer.")


def test_two_people_make_a_quorum_by_their_links(follow: Open, site: LinkSite) -> None:
    quorum = FINANCE.model_copy(update={"quorum": 2})
    run, [first, second] = site.asked(quorum, BEA, CARL)
    bea, carl = follow(first), follow(second)
    bea.button("Approve").click()
    bea.sees("Your approval is recorded. More are needed.")
    bea.sees("1 of 2 approvals")
    bea.picture("link-quorum")
    assert waits(site, run)
    carl.page.reload()
    carl.sees("bea@example.com approved")
    carl.button("Approve").click()
    carl.sees("You approved it.")
    bea.page.reload()
    bea.sees("Carl@example.com approved it.")


def test_decision_that_another_made_meanwhile_is_shown_and_not_replaced(
    follow: Open, site: LinkSite
) -> None:
    run, [first, second] = site.asked(FINANCE, BEA, CARL)
    bea, carl = follow(first), follow(second)
    carl.button("Approve").wait_for()
    bea.button("Deny").click()
    bea.button("Deny the call").click()
    bea.sees("You denied it.")
    carl.button("Approve").click()
    carl.sees("Bea@example.com denied it.")
    assert site.call_of(run).decision.kind == "denied"


def test_expired_call_says_so(follow: Open, site: LinkSite) -> None:
    now = site.world.clock.now()
    _, [path] = site.asked(FINANCE, expires_at=now + timedelta(hours=2))
    site.world.clock.advance(timedelta(hours=2))
    bea = follow(path)
    bea.sees("Nobody decided in time.")
    assert bea.page.get_by_role("button").count() == 0


def test_link_that_does_not_work_says_nothing_of_anybody(
    follow: Open, site: LinkSite, axe: str
) -> None:
    _, [path] = site.asked()
    stranger = follow(path[:-4])
    stranger.sees("This link does not work")
    assert stranger.findings(axe) == []
    assert "example.com" not in (stranger.page.text_content("body") or "")
    stranger.picture("link-none")


def test_link_that_asks_for_a_sign_in_leads_to_the_console(follow: Open, site: LinkSite) -> None:
    run, [path] = site.asked()
    site.world.configure(sign_in=True)
    bea = follow(path)
    bea.sees("bea@example.com")
    link = bea.page.get_by_role("link", name="Open the console")
    assert link.get_attribute("href") == f"../#/inbox/{run.id}/c1"
    assert bea.page.get_by_role("button").count() == 0
    link.click()
    bea.page.wait_for_url(f"{site.url}/#/inbox/{run.id}/c1")


def test_lost_connection_is_told_and_the_decision_made_when_it_is_back(
    follow: Open, site: LinkSite
) -> None:
    run, [path] = site.asked()
    bea = follow(path)
    bea.button("Approve").wait_for()
    bea.browser.set_offline(True)
    bea.button("Approve").click()
    bea.sees("No answer from the server. Check your connection.")
    bea.picture("link-offline")
    bea.browser.set_offline(False)
    bea.button("Approve").click()
    bea.sees("You approved it.")
    assert not waits(site, run)


HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> \u202egnp.exe " + "W" * 300


def test_text_of_a_model_is_text(follow: Open, site: LinkSite) -> None:
    _, [path] = site.asked()
    bea = follow("/decide/none")

    def answer(route: Any) -> None:
        reply = route.fetch()
        if "json" not in reply.headers["content-type"]:
            route.fulfill(response=reply)
            return
        page = {**reply.json(), "summary": HOSTILE, "agent": HOSTILE, "args": {HOSTILE: HOSTILE}}
        route.fulfill(response=reply, json=page)

    bea.page.route("**/decide/**", answer)
    bea.page.on("dialog", lambda dialog: bea.faults.append(dialog.message))
    bea.page.goto(f"{site.url}{path}")
    bea.sees("<script>alert(2)</script>")
    assert fits(bea.page)
    assert bea.page.locator("#app script, #app img").count() == 0
    bea.picture("link-hostile")


def test_account_reads_as_it_is_sent(follow: Open, site: LinkSite) -> None:
    _, [path] = site.asked()
    bea = follow("/decide/none")
    account = {
        "to_account": "DE89 3704 \u202e2147\u202c 00",
        "no\u200bte": "x\n\nNeeds: nothing more",
    }

    def answer(route: Any) -> None:
        reply = route.fetch()
        if "json" not in reply.headers["content-type"]:
            route.fulfill(response=reply)
            return
        route.fulfill(
            response=reply, json={**reply.json(), "summary": "Pay\u202e 9", "args": account}
        )

    bea.page.route("**/decide/**", answer)
    bea.page.goto(f"{site.url}{path}")
    bea.sees("DE89 3704 ‹U+202E›2147‹U+202C› 00")
    text = bea.page.locator("#app").inner_text()
    assert "Pay‹U+202E› 9" in text
    assert "no‹U+200B›te" in text
    assert "x⏎\n⏎\nNeeds: nothing more" in text
    assert "\u202e" not in text
    bea.picture("link-hidden-characters")
