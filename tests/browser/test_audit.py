"""The page of the audit: who decided what, and what operators did, by filters, and in files."""

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route

from browser.conftest import Enter
from browser.person import Json, Person
from browser.test_inbox import asks
from browser.test_keyboard import arrives, press
from support.providers.openai import say
from support.system.system import Brain, System, eventually, unique

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
ONLY_AUDITORS = "This place is for auditors"
DECISIONS = re.compile(r"/audit/decisions\?")
OPERATIONS = re.compile(r"/audit/operations\?")
AT = "2026-01-01T12:00:00Z"


def auditor(enter: Enter, scopes: str = "audit,operate", **settings: Any) -> Person:
    return enter(f"{unique('uma')};scopes={scopes}", **settings).sign_in()


def decision(number: int, **more: Any) -> Json:
    base: Json = {"run_id": f"run_{number:026d}", "thread_id": "thread_1", "agent": "support"}
    base |= {"owner": "ann", "tool_call_id": "call_1", "tool_name": "refund"}
    base |= {"decision": "approved", "settled": True, "changed": False, "decided_by": "bea"}
    base |= {"on_behalf_of": None, "reason": None, "via": "api", "args_sha256": "0" * 64}
    return base | {"requested_at": AT, "decided_at": AT} | more


def operation(number: int | None, **more: Any) -> Json:
    run = None if number is None else f"run_{number:026d}"
    base: Json = {"operation": "cancel", "by": "olga", "on_behalf_of": None, "run_id": run}
    base |= {"thread_id": run and "thread_1", "agent": run and "support", "owner": run and "ann"}
    return base | {"reason": "late", "at": AT, "outcome": "done", "problem": None} | more


ROWS = [
    decision(1, changed=True),
    decision(2, settled=False, decided_by="cat"),
    decision(3, decision="denied", agent="research", reason='=HYPERLINK("x")', owner="bob"),
    decision(4, tool_name="wire", decided_by="backend", on_behalf_of="bea", via="slack"),
]


def play(person: Person, rows: list[Json], operations: list[Json]) -> None:
    """Answer in place of the API, whose own tests say what it answers."""
    for path, items in ((DECISIONS, rows), (OPERATIONS, operations)):
        person.browser.route(path, answer_of(items))


def answer_of(items: list[Json]) -> Callable[[Route], None]:
    return lambda route: route.fulfill(json={"items": items, "next_cursor": None})


def whats(page: Page) -> list[str]:
    """What the rows tell, from top to bottom."""
    return page.locator(".runs tbody strong").all_inner_texts()


def shows(page: Page, *expected: str) -> None:
    eventually(lambda: whats(page), lambda found: found == list(expected))


def filters(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).fragment.partition("?")[2])


def saved(person: Person, name: str) -> str:
    """The text of the file that a button saves."""
    with person.page.expect_download() as download:
        person.button(name).click()
    return Path(download.value.path()).read_text("utf-8")


def test_who_is_no_auditor_has_no_such_place_and_its_address_says_so(enter: Enter) -> None:
    ann = enter().sign_in()
    asked: list[str] = []
    ann.browser.on("request", lambda request: asked.append(request.url))
    assert ann.page.get_by_role("link", name="Audit").count() == 0
    ann.open("audit")
    ann.sees(ONLY_AUDITORS)
    assert [url for url in asked if "/audit/" in url] == []


def test_api_that_takes_nobody_for_an_auditor_is_believed(enter: Enter) -> None:
    uma = auditor(enter, refusals=[403])
    forbidden = {"status": 403, "title": "Forbidden", "detail": "an auditor's"}
    uma.page.route(DECISIONS, lambda route: route.fulfill(status=403, json=forbidden))
    uma.open("audit")
    uma.sees(ONLY_AUDITORS)


def test_rows_that_cannot_be_read_are_told_and_tried_again(enter: Enter) -> None:
    uma = auditor(enter, refusals=[500])
    fault = {"status": 500, "title": "Fault", "detail": "the table is away"}
    uma.page.route(DECISIONS, lambda route: route.fulfill(status=500, json=fault))
    uma.open("audit")
    uma.sees("the table is away")
    uma.page.unroute(DECISIONS)
    play(uma, [], [])
    uma.button("Try again").click()
    uma.sees("0 of 0 rows that were read")


def test_address_with_a_name_that_objects_have_is_the_book_of_decisions(enter: Enter) -> None:
    uma = auditor(enter)
    play(uma, ROWS, [])
    uma.open("audit?book=constructor&__proto__=x&toString=y")
    shows(uma.page, "approved with changes", "vote: approved", "denied", "approved")


def test_decision_with_changed_arguments_says_so_with_who_decided_it(
    enter: Enter, brain: Brain, system: System
) -> None:
    uma, ann = auditor(enter), enter().sign_in()
    asks(ann, brain)
    caller = system.caller(ann.name)
    [waiting] = caller.call("GET", "/approvals").body["items"]
    path = f"/runs/{waiting['run_id']}/tool-calls/{waiting['tool_call_id']}/approve"
    brain.plan(say("Done."))
    args = {**waiting["args"], "amount": 5}
    assert caller.call("POST", path, {"attempt": 1, "args": args}).status == 202
    uma.open(f"audit?by={ann.name}")
    shows(uma.page, "approved with changes")
    row = uma.page.locator(".runs tbody tr")
    assert ann.name in row.inner_text()
    assert "refund" in row.inner_text()
    row.get_by_role("link").click()
    uma.page.wait_for_url(f"**/#/operations/{waiting['run_id']}")


def test_filters_are_in_the_address_and_survive_a_reload(enter: Enter) -> None:
    uma = auditor(enter)
    play(uma, ROWS, [operation(5), operation(None, operation="stop", reason="outage")])
    uma.open("audit")
    shows(uma.page, "approved with changes", "vote: approved", "denied", "approved")
    uma.page.get_by_label("What").select_option("approved with changes")
    shows(uma.page, "approved with changes")
    uma.sees("1 of 4 rows that were read")
    uma.page.get_by_label("What").select_option("")
    # A backend decided in her name.
    uma.page.get_by_label("By", exact=True).fill("bea")
    uma.page.get_by_label("By", exact=True).press("Enter")
    shows(uma.page, "approved with changes", "denied", "approved")
    uma.page.get_by_label("Agent").select_option("research")
    shows(uma.page, "denied")
    found = filters(uma.page)
    assert (found["by"], found["agent"]) == (["bea"], ["research"])
    uma.page.reload()
    shows(uma.page, "denied")
    assert uma.page.get_by_label("Agent").input_value() == "research"
    uma.page.get_by_label("By", exact=True).fill("")
    uma.page.get_by_label("By", exact=True).press("Enter")
    uma.page.get_by_label("Agent").select_option("")
    uma.button("What operators did").click()
    shows(uma.page, "cancel", "stop")


def test_days_are_asked_of_the_api_a_week_at_first(enter: Enter) -> None:
    uma = auditor(enter)
    asked: list[dict[str, list[str]]] = []

    def answer(route: Route) -> None:
        asked.append(parse_qs(urlsplit(route.request.url).query))
        route.fulfill(json={"items": ROWS, "next_cursor": None})

    uma.page.route(DECISIONS, answer)
    before = datetime.now(UTC)
    uma.open("audit")
    shows(uma.page, "approved with changes", "vote: approved", "denied", "approved")
    week = {f"{at - timedelta(days=6):%Y-%m-%d}" for at in (before, datetime.now(UTC))}
    assert asked[0]["from"][0] in week
    uma.page.get_by_label("From (UTC)").fill("2026-01-01")
    uma.page.get_by_label("From (UTC)").press("Enter")
    uma.page.get_by_label("To (UTC)").fill("2026-01-31")
    uma.page.get_by_label("To (UTC)").press("Enter")
    eventually(lambda: uma.page.evaluate("true") and "to" in asked[-1])
    assert (asked[-1]["from"], asked[-1]["to"]) == (["2026-01-01"], ["2026-01-31"])


def test_a_thousand_rows_are_read_and_more_on_request(enter: Enter) -> None:
    uma = auditor(enter)

    def answer(route: Route) -> None:
        at = int(parse_qs(urlsplit(route.request.url).query).get("cursor", ["0"])[0])
        page = {"items": [decision(at)], "next_cursor": str(at + 1) if at < 11 else None}
        route.fulfill(json=page)

    uma.page.route(DECISIONS, answer)
    uma.open("audit")
    uma.sees("10 of 10 rows that were read")
    uma.button("Read more").click()
    uma.sees("12 of 12 rows that were read")
    assert uma.button("Read more").count() == 0


def test_files_have_the_rows_that_are_shown_and_no_formula(enter: Enter) -> None:
    uma = auditor(enter)
    play(uma, ROWS, [])
    uma.open("audit?agent=research")
    shows(uma.page, "denied")
    [row] = csv.DictReader(io.StringIO(saved(uma, "Save as CSV")))
    assert (row["run_id"], row["owner"], row["changed"]) == (ROWS[2]["run_id"], "bob", "false")
    assert row["reason"] == '\'=HYPERLINK("x")'
    assert json.loads(saved(uma, "Save as JSON")) == [ROWS[2]]


def test_what_was_refused_says_so_and_what_is_about_no_run_has_no_link(enter: Enter) -> None:
    uma = auditor(enter)
    refused = operation(5, outcome="refused", problem="conflict")
    play(uma, [], [refused, operation(None, operation="stop")])
    uma.open("audit?book=operations")
    shows(uma.page, "cancel", "stop")
    uma.sees("refused (conflict): late")
    assert uma.page.locator(".runs tbody a").count() == 1


def test_rows_are_walked_by_keys_also_those_about_no_run(enter: Enter) -> None:
    uma = auditor(enter)
    play(uma, [], [operation(5), operation(None, operation="stop"), operation(6)])
    uma.open("audit?book=operations")
    shows(uma.page, "cancel", "stop", "cancel")
    uma.page.locator("main").focus()
    press(uma, "j")
    arrives(uma, f"a {operation(5)['run_id']}")
    press(uma, "j")
    arrives(uma, "span stop")
    press(uma, "x")  # Nothing here is selected.
    press(uma, "j")
    arrives(uma, f"a {operation(6)['run_id']}")
    press(uma, "Enter")
    uma.page.wait_for_url(f"**/#/operations/{operation(6)['run_id']}")


def test_page_is_whole_in_the_dark_and_on_a_phone(enter: Enter, axe: str) -> None:
    for name, settings in (("dark", {"color_scheme": "dark"}), ("phone", PHONE)):
        uma = auditor(enter, **settings)
        play(uma, ROWS, [operation(5), operation(None, operation="stop")])
        for book in ("decisions", "operations"):
            uma.open(f"audit?book={book}")
            uma.page.locator(".runs tbody tr").nth(1).wait_for()
            uma.picture(f"audit-{book}-{name}")
            assert uma.findings(axe) == []
            width = "document.documentElement.scrollWidth <= innerWidth"
            assert uma.page.evaluate(width)
