"""One system and one Chromium for the session; every user has a browser of their own."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from browser.person import Person
from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.system import Brain, System, unique

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build" / "console"
"""Where the tests leave what they saw."""
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL_S = 300

Enter = Callable[..., Person]


def _chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _install() -> None:
    """Debian's package, where that is possible without asking anybody."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
    try:
        subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        return


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright."""
    if _chromium() is None:
        _install()
    path = _chromium()
    if path is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def brain() -> Iterator[Brain]:
    """The provider, and what it is to answer."""
    with FakeOpenAI() as provider:
        yield Brain(provider)


@pytest.fixture(scope="session")
def system(brain: Brain) -> Iterator[System]:
    """The session's system."""
    with folder("browser") as data, System(data, brain) as running:
        yield running


@pytest.fixture
def enter(chromium: Browser, system: System) -> Iterator[Enter]:
    """`enter("ann")` opens the console as that user, in a browser of their own. At the end nothing may have
    failed in any page, and no page may have asked another host."""
    people: list[Person] = []

    def open_console(name: str = "", **settings: object) -> Person:
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
