"""One system for the session, one Chromium for a module; every user has a browser of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route

from browser.person import Person
from functions.api.console.assets import FOLDER
from support.chromium import launch
from support.kills.accounts import accounts
from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.system import Brain, System, unique

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "console"
"""The folder for the tests' screenshots."""
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

Enter = Callable[..., Person]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright."""
    with launch() as browser:
        yield browser


@pytest.fixture(scope="session")
def brain() -> Iterator[Brain]:
    """The provider, and what it is to answer."""
    with FakeOpenAI() as provider:
        yield Brain(provider)


@pytest.fixture(scope="session")
def system(brain: Brain) -> Iterator[System]:
    """The session's system."""
    with folder("browser") as data, accounts(data), System(data, brain) as running:
        yield running


@pytest.fixture
def enter(chromium: Browser, system: System) -> Iterator[Enter]:
    """`enter("ann")` opens the console as that user, in a browser of their own. At the end nothing may have
    failed in any page, and no page may have asked another host."""
    people: list[Person] = []

    def open_console(name: str = "", **settings: Any) -> Person:
        person = Person(chromium, system.url, name or unique("ann"), PICTURES, **settings)
        people.append(person)
        return person

    yield open_console
    for person in people:
        person.leave()
    for person in people:
        assert person.faults == []
        assert {url for url in person.hosts if not url.startswith("127.0.0.1:")} == set()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    if not AXE.exists():
        pytest.skip("there is no axe-core here: npm ci")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture
def modules(chromium: Browser) -> Iterator[Page]:
    """An empty page that imports the console's modules one by one, and refuses markup from text as it
    does: `modules.evaluate("import('/dom.js').then((dom) => ...)")`."""
    page = chromium.new_page()
    page.route("http://console.test/**", _serve)
    page.goto("http://console.test/")
    yield page
    page.close()


def _serve(route: Route) -> None:
    path = urlsplit(route.request.url).path
    if path == "/":
        policy = {
            "content-security-policy": "require-trusted-types-for 'script'",
            "referrer-policy": "no-referrer",
        }
        route.fulfill(content_type="text/html", headers=policy, body='<div id="app"></div>')
        return
    file = FOLDER / path[1:] if path.startswith("/vendor/") else FOLDER / "page" / path[1:]
    route.fulfill(content_type="text/javascript", body=file.read_text(encoding="utf-8"))
