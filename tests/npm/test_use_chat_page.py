"""`useChat` in a page of an app, in Chromium: the app's origin is another than the API's."""

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Locator, Page

from npm.conftest import HERE, LIMIT_S
from support.providers.openai import call, say
from support.system.folders import folder
from support.system.system import Brain, System, eventually, unique

WAIT_MS = 60_000
EXAMPLES = HERE.parents[1] / "examples"
HTML = '<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="{}.js"></script>'
START = """
import { createRoot } from "react-dom/client";
import { Support } from "./UseChat";
createRoot(document.getElementById("root")!).render(<Support chatId="example" />);
"""
START_AG_UI = """
import { createRoot } from "react-dom/client";
import { Support } from "./AgUi";
createRoot(document.getElementById("root")!).render(<Support threadId="ag-example" />);
"""
LONG = " ".join(f"word{n}" for n in range(1, 41))

SHOWN = ("example.tsx", "ag_ui_example.tsx")

Open = Callable[[str], Page]


class Quiet(SimpleHTTPRequestHandler):
    """It says nothing of its requests."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def app(packages: Path, system: System) -> Iterator[str]:
    """The URL of the pages, bundled by esbuild."""
    example = (EXAMPLES / "UseChat.tsx").read_text().replace("http://127.0.0.1:8787", system.url)
    (packages / "UseChat.tsx").write_text(example)
    (packages / "example.tsx").write_text(START)
    example = (EXAMPLES / "AgUi.tsx").read_text().replace("http://127.0.0.1:8787", system.url)
    (packages / "AgUi.tsx").write_text(example)
    (packages / "ag_ui_example.tsx").write_text(START_AG_UI)
    with folder("page") as served:
        _bundle(packages, "production", f"--outdir={served}", "page.jsx", *SHOWN)
        _bundle(packages, "development", f"--outfile={served}/strict.js", "page.jsx")
        for name in ("page", "example", "ag_ui_example", "strict"):
            (served / f"{name}.html").write_text(HTML.format(name))
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(served))) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()
            thread.join()


def _bundle(packages: Path, build: str, out: str, *sources: str) -> None:
    command = ["node_modules/.bin/esbuild", *sources, "--bundle", "--minify", "--jsx=automatic"]
    command.append("--format=esm")
    made = subprocess.run(
        [*command, out, f'--define:process.env.NODE_ENV="{build}"'],
        cwd=packages,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-3000:]


@pytest.fixture
def browse(chromium: Browser) -> Iterator[Open]:
    """`browse(url)` opens a tab of the test's own browser. At the end nothing may have failed in any."""
    context = chromium.new_context()
    context.set_default_timeout(WAIT_MS)
    faults: list[str] = []

    def tab(url: str) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(url)
        return page

    yield tab
    context.close()
    assert faults == []


@pytest.fixture
def chat(app: str, system: System, browse: Open) -> Callable[[], Page]:
    """`chat()` opens one more tab of the test's chat."""
    asked = {"api": f"{system.url}/chat/support", "chat": unique("chat")}
    return lambda: browse(f"{app}/page.html?{urlencode(asked)}")


@pytest.fixture
def loaded_chat(app: str, system: System, browse: Open) -> Callable[[], Page]:
    """As `chat`, with the messages that Layover has."""
    asked = {"api": f"{system.url}/chat/support", "chat": unique("chat"), "load": "yes"}
    return lambda: browse(f"{app}/page.html?{urlencode(asked)}")


@pytest.fixture
def strict_chat(app: str, system: System, browse: Open) -> Callable[[], Page]:
    """As `chat`, with React's development build in strict mode, as templates of apps have it."""
    query = {"api": f"{system.url}/chat/support", "chat": unique("chat"), "strict": "yes"}
    return lambda: browse(f"{app}/strict.html?{urlencode(query)}")


def say_in(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def is_resumed(page: Page) -> None:
    """Block until the page knows that no answer was on its way when it was opened. One that comes before is
    shown by two streams, of which *Stop* ends one."""
    page.wait_for_function(
        "() => performance.getEntriesByType('resource').some(e => e.name.includes('/stream'))"
    )


def rests(page: Page) -> None:
    """Block until nothing comes any more."""
    page.locator("main[data-status=ready]").wait_for()


def answer(page: Page) -> Locator:
    return page.locator("article[data-role=assistant]")


def shows(page: Page, text: str) -> None:
    answer(page).get_by_text(text).first.wait_for()


def call_in(page: Page, state: str) -> Locator:
    """The call, once it is in this state."""
    found = page.locator(f"section[data-state={state}]")
    found.wait_for()
    return found


def words(page: Page) -> list[str]:
    return (answer(page).text_content() or "").split()


def test_answer_comes_with_its_tools(chat: Callable[[], Page], brain: Brain) -> None:
    page = chat()
    say_in(page, brain.plan(call("look_up", key="o1"), say("It is on its way.")))
    shows(page, "It is on its way.")
    rests(page)
    shown = call_in(page, "output-available").text_content() or ""
    assert shown.startswith('tool-look_up {"key":"o1"}')
    assert '"state":"on its way"' in shown
    assert page.get_by_role("alert").count() == 0


@pytest.mark.parametrize(
    ("button", "state", "read"),
    [("Approve", "output-available", "paid 5 for o1"), ("Deny", "output-denied", "because")],
)
def test_person_decides_and_the_same_message_goes_on(
    chat: Callable[[], Page], brain: Brain, button: str, state: str, read: str
) -> None:
    page = chat()
    text = brain.plan(call("refund", order_id="o1", amount=5), say("Done."))
    say_in(page, text)
    call_in(page, "approval-requested")
    asking = answer(page).get_attribute("data-id")
    press(page, button)
    shows(page, "Done.")
    call_in(page, state)
    rests(page)
    assert answer(page).count() == 1
    assert answer(page).get_attribute("data-id") == asking
    assert read in str(brain.requests(text)[-1].body["messages"])


def articles(page: Page) -> list[tuple[str | None, str]]:
    """Role and last word of each message."""
    found = page.locator("article").all()
    words = [(each.text_content() or "").split() for each in found]
    return [(each.get_attribute("data-role"), w[-1]) for each, w in zip(found, words, strict=True)]


def test_conversation_goes_on_while_an_approval_waits(
    loaded_chat: Callable[[], Page], brain: Brain
) -> None:
    page = loaded_chat()
    paying = brain.plan(
        call("refund", order_id="o1", amount=5), say("It is settled."), text="refund"
    )
    say_in(page, paying)
    call_in(page, "approval-requested")
    rests(page)
    say_in(page, brain.plan(say("It rains."), text="weather"))
    shows(page, "It rains.")
    rests(page)
    assert [word for _, word in articles(page)][2:] == ["weather", "rains."]
    page.reload()
    call_in(page, "approval-requested")
    rests(page)
    assert [word for _, word in articles(page)][2:] == ["weather", "rains."]
    press(page, "Approve")
    shows(page, "It is settled.")
    call_in(page, "output-available")
    rests(page)
    assert page.get_by_role("alert").count() == 0
    page.reload()
    shows(page, "It is settled.")
    rests(page)
    assert [role for role, _ in articles(page)] == [
        *("user", "assistant", "user", "assistant", "assistant"),
    ]
    assert [word for _, word in articles(page)][2:] == ["weather", "rains.", "settled."]
    call_in(page, "output-available")
    ids = [each.get_attribute("data-id") for each in page.locator("article").all()]
    assert len(set(ids)) == 5


def test_page_that_is_loaded_while_an_approved_run_answers_follows_it(
    loaded_chat: Callable[[], Page], brain: Brain
) -> None:
    page, hold = loaded_chat(), threading.Event()
    paying = brain.plan(
        call("refund", order_id="o1", amount=5), say(LONG, hold=hold), text="refund"
    )
    say_in(page, paying)
    call_in(page, "approval-requested")
    rests(page)
    say_in(page, brain.plan(say("It rains."), text="weather"))
    shows(page, "It rains.")
    rests(page)
    press(page, "Approve")
    shows(page, "word20")
    page.reload()
    shows(page, "word20")
    hold.set()
    shows(page, "word40")
    rests(page)
    assert [word for _, word in articles(page)][2:] == ["weather", "rains.", "word40"]
    assert answer(page).get_by_text("word7 ").count() == 1


def test_reload_in_the_middle_misses_nothing(chat: Callable[[], Page], brain: Brain) -> None:
    page, hold = chat(), threading.Event()
    say_in(page, brain.plan(say(LONG, hold=hold)))
    shows(page, "word20")
    answering = answer(page).get_attribute("data-id")
    page.reload()
    shows(page, "word20")
    hold.set()
    shows(page, "word40")
    rests(page)
    assert words(page) == LONG.split()
    assert answer(page).get_attribute("data-id") == answering
    page.reload()
    rests(page)
    # A page at rest may not have read its history yet.
    eventually(lambda: words(page) == LONG.split())


def test_reload_in_strict_mode_misses_nothing(
    strict_chat: Callable[[], Page], brain: Brain
) -> None:
    page, hold = strict_chat(), threading.Event()
    say_in(page, brain.plan(say(LONG, hold=hold)))
    shows(page, "word20")
    page.reload()
    shows(page, "word20")
    hold.set()
    shows(page, "word40")
    # Effects run twice, and so does the request for the answer: the second stream begins it anew.
    eventually(lambda: words(page) == LONG.split())
    rests(page)
    assert answer(page).count() == 1
    assert page.locator("body").get_attribute("data-mounts") == "2"


def test_abort_leaves_what_was_said_and_the_run_goes_on(
    chat: Callable[[], Page], brain: Brain, system: System
) -> None:
    page, hold = chat(), threading.Event()
    is_resumed(page)
    looking = replace(call("look_up", key="o1"), text="One moment.", hold=hold)
    say_in(page, brain.plan(looking, say("It is on its way.")))
    shows(page, "One moment.")
    press(page, "Stop")
    rests(page)
    run_id = answer(page).get_attribute("data-id")
    hold.set()
    assert system.caller("ada").over(str(run_id))["text"] == "It is on its way."
    assert "One moment." in (answer(page).text_content() or "")
    assert "on its way" not in (answer(page).text_content() or "")


def test_cancelled_run_ends_the_answer(
    chat: Callable[[], Page], brain: Brain, system: System
) -> None:
    page, hold = chat(), threading.Event()
    looking = replace(call("look_up", key="o1"), text="One moment.", hold=hold)
    say_in(page, brain.plan(looking, say("It is on its way.")))
    shows(page, "One moment.")
    run_id = answer(page).get_attribute("data-id")
    system.caller("ada").want(202, "POST", f"/runs/{run_id}/cancel")
    rests(page)
    hold.set()
    say_in(page, brain.plan(say("Another one.")))
    shows(page, "Another one.")
    assert "on its way" not in (page.text_content("main") or "")


def test_answer_is_regenerated(chat: Callable[[], Page], brain: Brain) -> None:
    page = chat()
    say_in(page, brain.plan([say("First answer."), say("Second answer.")]))
    shows(page, "First answer.")
    rests(page)
    press(page, "Regenerate")
    shows(page, "Second answer.")
    rests(page)
    assert answer(page).count() == 1


def test_second_tab_follows_the_answer_and_cannot_ask_meanwhile(
    chat: Callable[[], Page], brain: Brain
) -> None:
    first, hold = chat(), threading.Event()
    say_in(first, brain.plan(say(LONG, hold=hold)))
    shows(first, "word20")
    second, third = chat(), chat()
    for tab in (second, third):
        shows(tab, "word20")
    press(third, "Stop")
    rests(third)
    say_in(third, "and now?")
    third.get_by_role("alert").wait_for()
    hold.set()
    for tab in (first, second):
        shows(tab, "word40")
        rests(tab)
        assert words(tab) == LONG.split()


def test_decision_in_the_second_tab_is_the_first_tabs_too(
    chat: Callable[[], Page], brain: Brain, system: System
) -> None:
    first, key = chat(), unique("order")
    say_in(first, brain.plan(call("refund", order_id=key, amount=5), say("Done.")))
    call_in(first, "approval-requested")
    rests(first)
    second = chat()
    call_in(second, "approval-requested")
    press(second, "Approve")
    shows(second, "Done.")
    press(first, "Approve")
    shows(first, "Done.")
    for tab in (first, second):
        rests(tab)
        assert tab.get_by_role("alert").count() == 0
        assert call_in(tab, "output-available").count() == 1
    assert len(eventually(lambda: system.ledger(key))) == 1


def test_example_of_the_repository_works(app: str, browse: Open, brain: Brain) -> None:
    page = browse(f"{app}/example.html")
    box = page.locator("input:enabled")
    box.fill(brain.plan(call("refund", order_id="o1", amount=5), say("Done.")))
    box.press("Enter")
    press(page, "Approve")
    page.get_by_text("Done.").wait_for()


def test_example_shows_after_a_reload_what_waits_and_what_was_said(
    app: str, browse: Open, brain: Brain
) -> None:
    page = browse(f"{app}/example.html")
    box = page.locator("input:enabled")
    box.fill(brain.plan(call("refund", order_id="o3", amount=5), say("It was paid.")))
    box.press("Enter")
    page.get_by_role("button", name="Approve").wait_for()
    page.reload()
    press(page, "Approve")
    page.get_by_text("It was paid.").wait_for()
    page.reload()
    page.get_by_text("It was paid.").wait_for()
    page.get_by_role("button", name="Approve").wait_for(state="detached")


@pytest.mark.parametrize("example", ["example", "ag_ui_example"])
def test_what_an_example_sends_does_not_grow_with_the_conversation(
    app: str, browse: Open, brain: Brain, example: str
) -> None:
    page = browse(f"{app}/{example}.html")
    bodies: list[str] = []
    page.on("request", lambda sent: bodies.append(sent.post_data or ""))
    box = page.locator("input:enabled")
    for word in ("early", "later"):
        box.fill(brain.plan(say(f"{word} {LONG}"), text=f"{word} {LONG}"))
        box.press("Enter")
        page.get_by_text(re.compile(f"^(assistant )?{word} .*word40$")).last.wait_for()
    paying = replace(call("refund", order_id="o4", amount=5), text=f"asking {LONG}")
    box.fill(brain.plan(paying, say("It is over."), text=f"paying {LONG}"))
    box.press("Enter")
    press(page, "Approve")
    page.get_by_text("It is over.").wait_for()
    asked = [body for body in bodies if body]
    assert [[w for w in ("early", "later", "paying", "asking") if w in b] for b in asked] == [
        *(["early"], ["later"], ["paying"], []),
    ]
    assert all(len(json.loads(body)["messages"]) <= 1 for body in asked)


@pytest.mark.parametrize("example", ["example", "ag_ui_example"])
def test_examples_go_on_while_an_approval_waits(
    app: str, browse: Open, brain: Brain, example: str
) -> None:
    page = browse(f"{app}/{example}.html")
    box = page.locator("input:enabled")
    box.fill(brain.plan(call("refund", order_id="o2", amount=5), say("It is settled.")))
    box.press("Enter")
    page.get_by_role("button", name="Approve").wait_for()
    # Nobody decides what they cannot see.
    page.get_by_text(re.compile(r'"order_id": ?"o2"')).wait_for()
    box.fill(brain.plan(say("It rains.")))
    box.press("Enter")
    page.get_by_text("It rains.").wait_for()
    press(page, "Approve")
    page.get_by_text("It is settled.").wait_for()
    # The text is there before the last event of its run, which takes the button away.
    page.get_by_role("button", name="Approve").wait_for(state="detached")
