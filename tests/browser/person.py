"""A person at the console: their actions, and the errors in their pages."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import (
    APIResponse,
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    Route,
)

from support.system.system import eventually

Json = dict[str, Any]
WAIT_MS = 60_000
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""In it, the page draws what it got before."""
_OFFLINE = "net::ERR_"
"""The browser's error for a connection that a test cut; and for an answer that is a problem."""
_FIELDS = {"groups": "Groups, for approvers", "scopes": "Scopes (operate"}
"""Labels of the form that signs in."""
_EXPECTED = (_OFFLINE, "the server responded with a status of 404")


class Delay:
    """Answers of the server that the page does not get until `end()`: they say what was true when they were
    made."""

    def __init__(self, page: Page, method: str, path: str, times: int | None = None) -> None:
        """`path`: a regular expression of URLs. `times`: so many requests alone; None: all until the end."""
        self._page = page
        self._method = method
        self._kept: list[tuple[Route, APIResponse]] | None = []
        page.route(re.compile(path), self._keep, times=times)

    def begun(self) -> None:
        """Block until an answer is kept back."""
        eventually(lambda: self._page.evaluate("true") and self._kept)

    def end(self) -> None:
        """Deliver what was kept back, and keep nothing any more."""
        kept, self._kept = self._kept or [], None
        for route, answer in kept:
            route.fulfill(response=answer)
        self._page.evaluate(TWO_FRAMES)

    def _keep(self, route: Route) -> None:
        if self._kept is None or route.request.method != self._method:
            route.continue_()
        else:
            self._kept.append((route, route.fetch()))


class Person:
    """One user in one browser, with any number of tabs. `name` may have groups and scopes:
    `bea;groups=finance;scopes=operate`."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        name: str,
        pictures: Path,
        access: Json | None = None,
        refusals: Sequence[int] = (),
        **settings: Any,
    ) -> None:
        """`access`: what the API says of how to sign in, if that is no local name. `refusals`: further
        statuses that a test is about."""
        self.name = name
        self.url = url
        self.faults: list[str] = []
        self.hosts: set[str] = set()
        self._pictures = pictures
        size = {"width": 1200, "height": 800}
        self.browser = browser.new_context(**{"viewport": size, "locale": "en-GB"} | settings)
        self.browser.set_default_timeout(WAIT_MS)
        self._expected = (*_EXPECTED, *(f"responded with a status of {each}" for each in refusals))
        if access is not None:
            self.browser.route("**/.well-known/layover", lambda route: route.fulfill(json=access))
        self.page = self.tab()

    def leave(self) -> None:
        """Close everything."""
        self.browser.close()

    def tab(self, path: str = "") -> Page:
        """One more tab of the same browser."""
        page = self.browser.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", self._asked)
        page.goto(f"{self.url}/{path}")
        return page

    def sign_in(self) -> "Person":
        """By name, groups and scopes, through the form."""
        name, *more = self.name.split(";")
        self.page.get_by_label("Your name").fill(name)
        if more:
            self.page.get_by_text("Groups and scopes").click()
        for kind, _, values in (each.partition("=") for each in more):
            self.page.get_by_label(_FIELDS[kind]).fill(values)
        self.page.get_by_role("button", name="Continue").click()
        self.page.locator("nav.side").wait_for(state="attached")
        return self

    def open(self, page: str) -> None:
        """Another page of the console (`t/THREAD`), without loading it anew."""
        self.page.evaluate("(page) => { location.hash = `#/${page}`; }", page)

    @property
    def thread(self) -> str:
        """The page of the open thread: `t/THREAD`."""
        return self.page.url.partition("#/")[2]

    def begin(self, text: str, agent: str = "support") -> None:
        """A new thread with this message."""
        self.page.get_by_role("radio", name=agent, exact=False).first.check(force=True)
        self.say(text)
        self.page.wait_for_url("**/#/t/*")

    def say(self, text: str) -> None:
        """A message."""
        box = self.page.get_by_role("textbox", name="Message")
        box.fill(text)
        box.press("Enter")

    def card(self, text: str, page: Page | None = None) -> Locator:
        """The waiting call that shows this text. An approver's inbox has those of other tests, too."""
        return (page or self.page).locator(".card", has_text=text)

    def button(self, name: str, page: Page | Locator | None = None) -> Locator:
        """The button of exactly this name."""
        return (page or self.page).get_by_role("button", name=name, exact=True)

    def sees(self, text: str, page: Page | None = None) -> None:
        """Block until the page shows it."""
        (page or self.page).get_by_text(text).first.wait_for()

    def answered(self) -> None:
        """Block until an answer is complete."""
        self.button("Regenerate").last.wait_for()

    def picture(self, name: str, page: Page | None = None) -> None:
        """Keep what the page looks like."""
        self._pictures.mkdir(parents=True, exist_ok=True)
        (page or self.page).screenshot(path=self._pictures / f"{name}.png")

    def findings(self, axe: str, page: Page | None = None) -> list[str]:
        """Return axe's findings in what the page shows."""
        page = page or self.page
        page.evaluate(axe)
        violations = page.evaluate("axe.run().then((result) => result.violations)")
        return [
            f"{each['id']}: {node['html'][:200]}" for each in violations for node in each["nodes"]
        ]

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(
            e in message.text for e in self._expected
        ):
            self.faults.append(message.text)

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme != "blob":
            self.hosts.add(parts.netloc)
