"""Accounts at other services: the page to which a service sends the browser back, the list, and a call that
waits for one. The browser plays the routes of the API, whose own tests say what they answer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from browser.conftest import Enter
from browser.person import Json, Person
from support.providers.oidc import Deployment
from support.providers.openai import call, say
from support.system.system import System, unique

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
BACK = "connected/github?code=c0de&state=st4te"
GITHUB: Json = {
    "name": "github",
    "status": "connected",
    "scopes": ["repo", "read:user"],
    "granted": ["repo", "read:user"],
    "agents": ["clerk"],
    "connected_at": "2026-01-01T10:00:00Z",
    "refreshed_at": None,
}
BEGUN = """localStorage.setItem("layover.proofs",
  JSON.stringify([["st4te", "pr00f"]]))"""
"""What a browser keeps that has begun the consent of BACK."""
BROUGHT = {"code": "c0de", "state": "st4te", "connection": "github", "proof": "pr00f"}
MARKUP = "<img src=x onerror=alert(1)>"


class Api:
    """The routes of connections. `settles`: answers to the posts of a consent, one after the other; the last
    one holds."""

    def __init__(self, person: Person) -> None:
        self.settles: list[tuple[int, Json]] = [(200, GITHUB)]
        self.items: list[Json] = []
        self.authorize_url = "http://127.0.0.1:9/authorize"
        self.got: list[tuple[str, str, Any, str]] = []
        person.browser.route("**/me/consents", self._consent)
        person.browser.route("**/me/connections**", self._connections)
        person.browser.route(
            "http://127.0.0.1:9/**", lambda route: route.fulfill(body="the service's page")
        )

    def _note(self, route: Route) -> None:
        request = route.request
        place = request.url.partition("/me/")[2]
        who = request.headers.get("authorization", "")
        self.got.append((request.method, place, json.loads(request.post_data or "null"), who))

    def _consent(self, route: Route) -> None:
        self._note(route)
        status, body = self.settles.pop(0) if len(self.settles) > 1 else self.settles[0]
        route.fulfill(status=status, json=body)

    def _connections(self, route: Route) -> None:
        self._note(route)
        if route.request.method == "GET":
            route.fulfill(json={"items": self.items})
        elif route.request.method == "POST":
            route.fulfill(json={"authorize_url": self.authorize_url})
        else:
            self.items = [{**each, "status": "missing"} for each in self.items]
            route.fulfill(status=204)

    def consents(self) -> list[tuple[Any, str]]:
        """Return what was posted to settle a consent, and by whom."""
        return [(body, who) for _, place, body, who in self.got if place == "consents"]


def problem(status: int, kind: str, detail: str) -> tuple[int, Json]:
    return status, {"type": f"urn:layover:problem:{kind}", "title": kind, "detail": detail}


def lands(person: Person, path: str = BACK) -> None:
    """A service sends the browser back that began."""
    person.page.add_init_script(BEGUN)
    person.page.goto(f"{person.url}/{path}")


def leaves_no_secret(person: Person) -> None:
    assert "c0de" not in person.page.url
    assert "st4te" not in person.page.url
    person.page.go_back()
    assert "c0de" not in person.page.url


# Back from the service


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (problem(404, "not-found", "there is no such request"), "another person began it"),
        (problem(409, "connection-refused", "refused"), "It was not completed"),
    ],
)
def test_consent_that_is_not_taken_says_what_to_do_and_is_asked_once(
    enter: Enter, axe: str, answer: tuple[int, Json], text: str
) -> None:
    ann = enter(refusals=[409]).sign_in()
    api = Api(ann)
    api.settles = [answer]
    lands(ann)
    ann.sees(text)
    ann.page.get_by_role("heading", name="Nothing was connected").wait_for()
    assert ann.findings(axe) == []
    ann.picture(f"connected-{answer[0]}")
    ann.page.reload()
    ann.sees("Nothing left to do here")
    assert len(api.consents()) == 1
    ann.page.get_by_role("link", name="Connections").click()
    ann.sees("No agent works with an account of yours")


def test_server_that_does_not_answer_may_be_asked_again(enter: Enter) -> None:
    ann = enter(refusals=[502]).sign_in()
    api = Api(ann)
    api.settles = [problem(502, "x", "The service did not answer."), (200, GITHUB)]
    lands(ann)
    ann.sees("The service did not answer.")
    ann.button("Try again").click()
    ann.page.get_by_role("heading", name="github is connected").wait_for()
    ann.sees("You can close this page.")
    assert [body for body, _ in api.consents()] == [BROUGHT] * 2


def test_person_who_declines_at_the_service_is_told_that_nothing_was_connected(
    enter: Enter, axe: str
) -> None:
    """It needs no sign-in: there is nothing to settle."""
    ann = enter()
    api = Api(ann)
    lands(ann, "connected/github?error=access_denied&error_description=No+thanks&state=st4te")
    ann.page.get_by_role("heading", name="Nothing was connected").wait_for()
    ann.sees("You did not allow it")
    ann.sees("It said: access_denied: No thanks")
    assert ann.findings(axe) == []
    assert ann.page.url == f"{ann.url}/#/connected"
    assert api.got == []


def test_words_of_a_service_are_text_and_no_more_than_a_line_or_two(enter: Enter) -> None:
    ann = enter()
    Api(ann)
    long = f"{MARKUP}{'x' * 5_000}"
    lands(ann, f"connected/github?error=server_error&error_description={long}&code=c&state=s")
    said = ann.page.get_by_text("It said:")
    said.wait_for()
    text = said.inner_text()
    assert MARKUP in text
    assert len(text) < 250
    assert ann.page.locator("img").count() == 0
    assert ann.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    "path",
    ["connected/github", "connected/github?code=c0de", "connected/github?state=st4te&code="],
)
def test_address_without_a_consent_asks_nobody(enter: Enter, path: str) -> None:
    ann = enter().sign_in()
    api = Api(ann)
    lands(ann, path)
    ann.sees("Nothing left to do here")
    assert api.consents() == []


def test_consent_is_settled_as_its_user_and_leaves_the_address(enter: Enter, axe: str) -> None:
    ann = enter().sign_in()
    api = Api(ann)
    lands(ann)
    ann.page.get_by_role("heading", name="github is connected").wait_for()
    ann.sees("You can close this page.")
    assert ann.page.url == f"{ann.url}/#/connected"
    assert ann.findings(axe) == []
    ann.picture("connected")
    assert api.consents() == [(BROUGHT, f"Bearer dev:{ann.name}")]
    assert ann.page.evaluate("Object.values(sessionStorage).join()").count("c0de") == 0
    ann.page.get_by_role("link", name="Conversations").click()
    ann.page.get_by_role("heading", name="Who should answer?").wait_for()
    leaves_no_secret(ann)


def test_consent_that_this_browser_did_not_begin_asks_its_person_first(
    enter: Enter, axe: str
) -> None:
    """Somebody may have sent them here, with an account of theirs."""
    ann = enter().sign_in()
    api = Api(ann)
    ann.page.goto(f"{ann.url}/{BACK}&iss=https://github.com")
    ann.page.get_by_role("heading", name="Connect github?").wait_for()
    ann.sees("This was not begun in this browser.")
    assert ann.findings(axe) == []
    assert api.consents() == []
    assert "c0de" not in ann.page.url
    ann.button("Connect").click()
    ann.page.get_by_role("heading", name="github is connected").wait_for()
    [(body, _)] = api.consents()
    assert body == {
        "code": "c0de",
        "state": "st4te",
        "connection": "github",
        "iss": "https://github.com",
    }


def test_less_than_was_wanted_is_said(enter: Enter) -> None:
    ann = enter().sign_in()
    Api(ann).settles = [(200, {**GITHUB, "status": "more", "granted": ["repo"]})]
    lands(ann)
    ann.sees("The service allowed less than agents want.")


def test_page_is_calm_in_the_dark_and_on_a_phone(enter: Enter, axe: str) -> None:
    ann = enter(color_scheme="dark", **PHONE).sign_in()
    Api(ann)
    lands(ann)
    ann.page.get_by_role("heading", name="github is connected").wait_for()
    assert ann.findings(axe) == []
    assert ann.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ann.picture("connected-phone")


def test_person_without_a_name_signs_in_first_and_the_consent_waits(enter: Enter) -> None:
    ann = enter()
    api = Api(ann)
    lands(ann)
    ann.sees("Sign in to complete the connection.")
    assert "c0de" not in ann.page.url
    assert api.consents() == []
    ann.page.get_by_label("Your name").fill(ann.name)
    ann.button("Continue").click()
    ann.page.get_by_role("heading", name="github is connected").wait_for()
    assert api.consents() == [(BROUGHT, f"Bearer dev:{ann.name}")]


def test_token_that_is_refused_asks_to_sign_in_and_the_consent_is_kept(enter: Enter) -> None:
    ann = enter(refusals=[401]).sign_in()
    api = Api(ann)
    api.settles = [problem(401, "unauthenticated", "no"), (200, GITHUB)]
    lands(ann)
    ann.sees("Your sign-in has ended.")
    ann.page.get_by_label("Your name").fill(ann.name)
    ann.button("Continue").click()
    ann.page.get_by_role("heading", name="github is connected").wait_for()
    assert len(api.consents()) == 2


# With a provider of sign-ins


@pytest.fixture
def provider() -> Iterator[Deployment]:
    """A provider that makes each sign-in a user of the system."""
    with Deployment() as running:
        running.tokens_begin = f"dev:{unique('ann')};groups=g"
        yield running
        assert running.wrong == []


def at_the_door(enter: Enter, provider: Deployment) -> Person:
    access = {"issuer": provider.issuer, "client_id": "people", "scope": "layover/use"}
    return enter(access={**access, "stream_url": None})


def test_sign_in_goes_by_itself_to_the_consoles_own_address_and_back(
    enter: Enter, provider: Deployment
) -> None:
    """A tab that the conversation opened has no tokens, and the provider knows one address."""
    ann = at_the_door(enter, provider)
    api = Api(ann)
    lands(ann)
    ann.page.get_by_role("heading", name="github is connected").wait_for()
    assert provider.places == [f"{ann.url}/"]
    assert api.consents() == [(BROUGHT, f"Bearer {provider.token}")]
    assert ann.page.url == f"{ann.url}/#/connected"


def test_declined_sign_in_ends_there_and_the_consent_waits(
    enter: Enter, provider: Deployment
) -> None:
    ann = at_the_door(enter, provider)
    api = Api(ann)
    provider.denies = True
    lands(ann)
    ann.sees("The sign-in was not completed")
    assert api.consents() == []
    provider.denies = False
    ann.button("Try again").click()
    ann.button("Sign in").click()
    ann.page.get_by_role("heading", name="github is connected").wait_for()
    assert len(api.consents()) == 1


# The list


def test_address_that_no_browser_may_be_sent_to_is_not_followed(enter: Enter) -> None:
    ann = enter().sign_in()
    api = Api(ann)
    api.items = [{**GITHUB, "status": "missing", "granted": None, "connected_at": None}]
    ann.open("connections")
    for address in ("javascript:alert(1)", "http://service.test/", "data:text/html,x", "", None):
        api.authorize_url = address  # type: ignore[assignment]
        ann.button("Connect").click()
        ann.page.get_by_role("alert").get_by_text("no page that a browser may open").wait_for()
        assert ann.page.url == f"{ann.url}/#/connections"
        ann.button("Connect").wait_for()


def test_each_state_has_its_words_and_what_can_be_done(enter: Enter, axe: str) -> None:
    ann = enter().sign_in()
    Api(ann).items = [
        GITHUB,
        {**GITHUB, "name": "gitlab", "status": "missing", "granted": None, "connected_at": None},
        {**GITHUB, "name": "drive", "status": "expired"},
        {**GITHUB, "name": "mail", "status": "more", "granted": None},
        {**GITHUB, "name": "old", "agents": [], "scopes": []},
    ]
    ann.open("connections")
    seen = {}
    for name in ("github", "gitlab", "drive", "mail", "old"):
        card = ann.page.get_by_role("region", name=name)
        card.wait_for()
        seen[name] = card.get_by_role("button").all_inner_texts()
    assert seen == {
        "github": ["Disconnect"],
        "gitlab": ["Connect"],
        "drive": ["Connect again", "Disconnect"],
        "mail": ["Allow more", "Disconnect"],
        "old": ["Disconnect"],
    }
    ann.sees("No agent uses it any more")
    ann.sees("The service takes the access no more.")
    assert ann.findings(axe) == []
    ann.picture("connections")


def test_connecting_leads_to_the_service_and_disconnecting_asks_first(enter: Enter) -> None:
    ann = enter().sign_in()
    api = Api(ann)
    api.items = [GITHUB]
    answers = iter([False, True])
    ann.page.on("dialog", lambda box: box.accept() if next(answers) else box.dismiss())
    ann.page.get_by_role("link", name="Connections").click()
    ann.button("Disconnect").click()
    assert [method for method, *_ in api.got if method == "DELETE"] == []
    ann.button("Disconnect").click()
    ann.button("Connect").click()
    ann.page.wait_for_url("http://127.0.0.1:9/authorize")
    methods = [(method, place) for method, place, *_ in api.got if method != "GET"]
    assert methods == [("DELETE", "connections/github"), ("POST", "connections/github")]


# A call that waits for an account


def drawn(
    modules: Page, mine: bool = True, address: str | None = "https://github.com/login?state=s"
) -> list[str]:
    """Draw a call that waits, and return what the page posts, as it grows. `address`: of the service's
    page, as the API answers it."""
    posts: list[str] = []

    def take(route: Route) -> None:
        posts.append(f"{route.request.url.partition('.test')[2]} {route.request.post_data}")
        route.fulfill(json={"authorize_url": address})

    modules.context.route("https://github.com/**", lambda route: route.fulfill(body="consent"))
    modules.route("http://console.test/me/**", take)
    modules.route("http://console.test/runs/**", take)
    pending = {
        "run_id": "run_1",
        "tool_call_id": "call_1",
        "tool_name": "star",
        "agent_path": ["clerk"],
        "attempt": 2,
        "kind": "connect",
        "args": {"repository": "a/b"},
        "payload": {
            "connection": "github",
            "scopes": ["repo"],
        },
    }
    modules.evaluate(
        """async ([pending, mine]) => {
          const { Decision } = await import("/decision.js");
          const { html, paint } = await import("/dom.js");
          paint(html`<${Decision} pending=${pending} mine=${mine} />`, document.getElementById("app"));
        }""",
        [pending, mine],
    )
    return posts


@pytest.mark.parametrize("address", ["javascript:alert(1)", "http://github.com/", None])
def test_call_whose_page_no_browser_may_open_leads_nowhere(
    modules: Page, address: str | None
) -> None:
    drawn(modules, address=address)
    modules.get_by_role("button", name="Connect").click()
    modules.get_by_text("no page that a browser may open").wait_for()
    assert modules.url == "http://console.test/"


def test_call_of_another_persons_run_cannot_be_connected_here(modules: Page) -> None:
    drawn(modules, mine=False)
    assert modules.get_by_role("link").count() == 0
    assert modules.get_by_role("button").count() == 0
    modules.get_by_text("Only the person for whom the agent works").wait_for()


def test_page_of_the_service_is_asked_for_when_it_is_wanted_and_learns_nothing(
    modules: Page,
) -> None:
    posts = drawn(modules)
    modules.get_by_text("clerk wants to work with your github account").wait_for()
    assert posts == []
    with modules.expect_popup() as opened:
        modules.get_by_role("button", name="Connect").click()
    opened.value.wait_for_url("https://github.com/login?state=s")
    assert opened.value.evaluate("[opener, document.referrer]") == [None, ""]
    assert posts == ["/me/connections/github {}"]
    with modules.expect_request("**/runs/run_1/tool-calls/call_1/deny") as denied:
        modules.get_by_role("button", name="Not now").click()
    assert denied.value.post_data == '{"attempt":2}'


# From end to end: the service, the system and the browser are real


def test_person_connects_an_account_in_a_new_tab_and_the_call_goes_on(
    enter: Enter, system: System
) -> None:
    ann = enter().sign_in()
    text = system.brain.plan(call("star", order="of a lamp"), say("It is starred."))
    ann.begin(text, "stargazer")
    ann.sees("stargazer wants to work with your hub account")
    with ann.page.expect_popup() as opened:
        ann.button("Connect").click()
    opened.value.get_by_role("heading", name="hub is connected").wait_for()
    assert "code=" not in opened.value.url
    ann.sees("It is starred.")
    ann.page.get_by_role("link", name="Connections").click()
    ann.sees("Connected.")
    ann.page.on("dialog", lambda box: box.accept())
    ann.button("Disconnect").click()
    ann.sees("Not connected.")
