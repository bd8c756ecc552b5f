"""The web page of the tutorial in Chromium: Ada asks, Bea of finance decides, and Ada's answer goes on."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, ViewportSize
from playwright.sync_api import Page as Tab

from support.chapters import follow
from support.own_project import Installation, Serving
from support.system.folders import folder
from support.system.system import eventually
from support.system.typed import PRINTED

PICTURES = Path(__file__).parents[2] / "build" / "tutorial"
WAIT_MS = 60_000
PHONE: ViewportSize = {"width": 390, "height": 800}

Open = Callable[[str], Tab]


class Quiet(SimpleHTTPRequestHandler):
    """It says nothing of its requests."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def page_url() -> Iterator[str]:
    """The URL of the chapter's page in the project that has it, while that is served."""
    with folder("desk") as place:
        installation = Installation(place)
        project = follow(installation, place, "web-page")
        with Serving(installation, project, place / "log") as serving:
            page = project / "web" / "desk.html"
            system = serving.told(r"^ready (\S+)$")
            page.write_text(page.read_text("utf-8").replace(PRINTED, system), "utf-8")
            with _served(page.parent) as url:
                yield f"{url}/desk.html"


@contextmanager
def _served(directory: Path) -> Iterator[str]:
    """Yield the URL of a server of this folder, as `python3 -m http.server` is one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def browse(chromium: Browser, page_url: str) -> Iterator[Open]:
    """`browse("bea;groups=finance")` opens the page as this user. Nothing may have failed at its end."""
    context = chromium.new_context(viewport=PHONE)
    context.set_default_timeout(WAIT_MS)
    faults: list[str] = []

    def tab(user: str) -> Tab:
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{page_url}?user={user}")
        return page

    yield tab
    context.close()
    assert faults == []


@pytest.mark.parametrize(
    ("verdict", "answer"),
    [("approve", "Paid 900.00 euros to Nora"), ("deny", "was not approved (invoice 12)")],
)
def test_finance_decides_in_one_tab_and_the_answer_goes_on_in_the_other(
    browse: Open, verdict: str, answer: str
) -> None:
    ada, bea = browse("ada"), browse("bea;groups=finance")
    ada.get_by_role("button", name="Ask").click()
    ada.get_by_text("Pay 900.00 euros to Nora waits").wait_for()
    assert ada.get_by_role("listitem").count() == 0
    waiting = bea.get_by_role("listitem").filter(has_text="ada: Pay 900.00 euros to Nora")
    waiting.wait_for()
    PICTURES.mkdir(parents=True, exist_ok=True)
    bea.screenshot(path=PICTURES / "bea.png")
    bea.on("dialog", lambda dialog: dialog.accept("invoice 12"))
    waiting.get_by_role("button", name=verdict).click()
    ada.get_by_text(answer).wait_for()
    ada.screenshot(path=PICTURES / f"ada-{verdict}.png")
    waiting.wait_for(state="detached")


def test_decision_without_a_reason_is_refused_in_words(browse: Open) -> None:
    ada, bea = browse("ada"), browse("bea;groups=finance")
    ada.get_by_role("button", name="Ask").click()
    waiting = bea.get_by_role("listitem").filter(has_text="ada: Pay 900.00 euros to Nora")
    waiting.wait_for()
    said: list[str] = []

    def answer(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.accept("")

    bea.on("dialog", answer)
    waiting.get_by_role("button", name="deny").click()
    eventually(lambda: bea.evaluate("true") and len(said) == 2)
    assert said[0] == "Pay 900.00 euros to Nora: why?"
    assert "needs a reason" in said[1]
