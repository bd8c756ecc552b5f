"""Operations: all users' runs for whom the scope makes an operator, and what they can do about them."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route

from browser.conftest import Enter
from browser.person import Json, Person
from browser.test_inbox import asks, refund_of
from browser.test_keyboard import arrives, go_to, press
from support.providers.openai import say
from support.system.system import Brain, System, eventually, unique

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
ONLY_OPERATORS = "This place is for operators"
REASON = "the shop is closed"
MIDNIGHT = "2026-01-01T00:30:00Z"
AT = "2026-01-01T12:00:00Z"
LATER = "2026-01-01T12:00:04Z"
USAGE: Json = {"total_tokens": 1_200, "cost_usd": "0.0031"}
LIST = re.compile(r"/operate/runs\?")
SUMMARY = re.compile(r"/operate/summary")


def operator(enter: Enter, scopes: str = "operate", **settings: Any) -> Person:
    return enter(f"{unique('olga')};scopes={scopes}", **settings).sign_in()


def answered(person: Person, brain: Brain) -> None:
    """Have a run of this person succeed."""
    person.open("new")
    person.begin(brain.plan(say("Done.")))
    person.answered()


def rows(page: Page) -> list[str]:
    """The runs of the list, from top to bottom."""
    return page.locator(".runs tbody a").all_inner_texts()


def of(olga: Person, owner: Person, count: int, more: str = "") -> Page:
    """The list with this owner's runs, once there are so many."""
    page = olga.tab(f"#/operations?owner={owner.name}{more}")
    page.locator(".runs tbody tr").nth(count - 1).wait_for()
    assert len(rows(page)) == count
    return page


def filters(page: Page) -> dict[str, list[str]]:
    """What the address asks for."""
    return parse_qs(urlsplit(page.url).fragment.partition("?")[2])


def picks(page: Page, *runs: str) -> None:
    for run in runs:
        page.get_by_label(f"Select {run}").check()


def run_json(number: int, **more: Any) -> Json:
    base: Json = {
        "id": f"run_{number:026d}",
        "owner": "ann",
        "agent": "support",
        "thread_id": "thread_1",
        "status": "suspended",
        "created_at": AT,
        "updated_at": LATER,
        "waiting_since": LATER,
        "waiting_for": None,
        "steps": 2,
        "calls": 1,
        "usage": USAGE,
        "error": None,
        "definition": "sha256:abc",
    }
    return base | more


def summary_json(**more: Any) -> Json:
    counts = [("running", 2), ("suspended", 7), ("success", 120), ("failed", 9), ("cancelled", 1)]
    runs = [
        {"status": status, "agent": agent, "count": count}
        for agent in ("support", "research-with-a-rather-long-name")
        for status, count in counts
    ]
    wait = {"run_id": f"run_{7:026d}", "owner": "ann", "agent": "support", "waiting_since": AT}
    error = {"error": "RateLimitError", "provider": "openai", "count": 8}
    error |= {"newest_run_id": f"run_{8:026d}"}
    spent = {"agent": "support", "runs": 120, "tokens": 64_000, "cost_usd": "1.25", "unpriced": 2}
    hours = [
        {"at": f"2026-01-01T{hour:02}:00:00Z", "status": status, "count": count}
        for hour in (0, 3, 11)
        for status, count in counts
    ]
    base: Json = {"at": LATER, "since": MIDNIGHT, "runs": runs, "oldest_wait": wait}
    base |= {"errors": [error], "period": "hour", "over_time": hours}
    return base | {"spent_since": AT, "spent": [spent], "complete": False} | more


NOTHING = summary_json(runs=[], over_time=[], oldest_wait=None, errors=[], spent=[], complete=True)


def play(person: Person, summary: Json, runs: list[Json]) -> None:
    """Answer in place of the API, whose own tests say what it answers."""
    person.browser.route(SUMMARY, lambda route: route.fulfill(json=summary))
    page = {"items": runs, "next_cursor": None}
    person.browser.route(LIST, lambda route: route.fulfill(json=page))


def test_who_is_no_operator_has_no_such_place_and_its_address_says_so(
    enter: Enter, brain: Brain
) -> None:
    ann = enter().sign_in()
    answered(ann, brain)
    asked: list[str] = []
    ann.browser.on("request", lambda request: asked.append(request.url))
    assert ann.page.get_by_role("link", name="Operations").count() == 0
    for address in ("operations", "operations/run_1", "operations?status=failed"):
        ann.open(address)
        ann.sees(ONLY_OPERATORS)
        assert ann.page.locator(".runs, .figures, .timeline").count() == 0
    assert [url for url in asked if "/operate/" in url] == []
    ann.picture("operations-refused")


def test_api_that_takes_nobody_for_an_operator_is_believed(enter: Enter) -> None:
    olga = operator(enter, refusals=[403])
    forbidden = {"status": 403, "title": "Forbidden", "detail": "for operators"}
    olga.page.route(
        re.compile("/operate/"), lambda route: route.fulfill(status=403, json=forbidden)
    )
    for address in ("operations", "operations/run_1"):
        olga.open(address)
        olga.sees(ONLY_OPERATORS)
        assert olga.page.get_by_role("button", name="Cancel").count() == 0


def test_list_that_cannot_be_read_is_told_and_tried_again(enter: Enter) -> None:
    olga = operator(enter, refusals=[500])
    fault = {"status": 500, "title": "Fault", "detail": "the table is away"}
    for path in (LIST, SUMMARY):
        olga.page.route(path, lambda route: route.fulfill(status=500, json=fault))
    olga.open("operations")
    olga.page.get_by_role("button", name="Try again").nth(1).wait_for()
    assert olga.page.get_by_text("There are no runs yet").count() == 0
    olga.picture("operations-error")
    for path in (LIST, SUMMARY):
        olga.page.unroute(path)
    play(olga, NOTHING, [])
    olga.button("Try again").first.click()
    olga.sees("No run waits for a person.")
    olga.button("Try again").click()
    olga.sees("There are no runs yet")


def test_summary_draws_each_hour_with_its_states(enter: Enter) -> None:
    olga = operator(enter)
    play(olga, summary_json(), [run_json(1)])
    olga.open("operations")
    chart = olga.page.locator("figure.chart")
    olga.sees("Runs by the hour of their acceptance")
    # Three hours of twelve have runs, and each of these has five states.
    assert chart.locator("svg[role=img] rect").count() == 15
    tallest = chart.locator("rect.of-success title").first.text_content() or ""
    assert tallest.endswith("succeeded: 120")
    assert chart.locator(".legend li").count() == 5
    play(olga, summary_json(over_time=[]), [run_json(1)])
    olga.button("Refresh").click()
    chart.wait_for(state="detached")


def test_run_that_pauses_says_which_provider_it_waits_for(enter: Enter) -> None:
    olga = operator(enter)
    away = {"provider": "openai", "until": LATER, "error": "InternalServerError"}
    play(olga, summary_json(), [run_json(1, status="running", waiting_for=away), run_json(2)])
    olga.open("operations")
    olga.sees("openai is away (InternalServerError).")
    assert olga.page.locator(".runs tbody tr", has_text="is away").count() == 1


def test_filter_that_the_api_refuses_shows_what_it_says(enter: Enter) -> None:
    olga = operator(enter, refusals=[422])
    olga.open("operations?since=yesterday")
    olga.page.locator(".trouble", has_text="since: ").wait_for()
    assert olga.page.locator(".runs").count() == 0


def test_run_that_is_not_there_says_so(enter: Enter) -> None:
    olga = operator(enter)
    olga.open("operations/run_none")
    olga.sees("There is no such run")
    assert olga.button("Cancel the run …").count() == 0


def test_action_that_fails_as_a_whole_keeps_the_question_and_its_reason(
    enter: Enter, brain: Brain
) -> None:
    olga, ann = operator(enter, refusals=[500]), enter().sign_in()
    asks(ann, brain)
    page = of(olga, ann, 1)
    fault = {"status": 500, "title": "Fault", "detail": "the table is away"}
    page.route("**/operate/runs/cancel", lambda route: route.fulfill(status=500, json=fault))
    picks(page, *rows(page))
    olga.button("Cancel the run …", page).click()
    page.get_by_label("Reason").fill(REASON)
    olga.button("Cancel the run", page).click()
    olga.sees("the table is away", page)
    assert page.get_by_label("Reason").input_value() == REASON
    assert page.locator(".outcomes").count() == 0


def test_one_refused_action_of_two_is_named_with_what_refused_it(
    enter: Enter, brain: Brain
) -> None:
    olga, ann = operator(enter), enter().sign_in()
    answered(ann, brain)
    asks(ann, brain)
    page = of(olga, ann, 2)
    waiting, over = rows(page)
    picks(page, waiting, over)
    olga.button("Cancel 2 runs …", page).click()
    assert olga.button("Cancel 2 runs", page).is_disabled()
    page.get_by_label("Reason").fill(REASON)
    olga.picture("operations-question", page)
    olga.button("Cancel 2 runs", page).click()
    outcomes = page.locator(".outcomes")
    outcomes.get_by_text("1 done, 1 refused").wait_for()
    said = outcomes.get_by_role("listitem").all_inner_texts()
    assert [text.partition(" ")[0] for text in said] == [waiting, over]
    assert said[0].endswith("done")
    assert "the run is over" in said[1]
    olga.picture("operations-outcomes", page)
    # What was refused stays selected, and what was done does not.
    assert page.get_by_label(f"Select {over}").is_checked()
    assert not page.get_by_label(f"Select {waiting}").is_checked()
    eventually(
        lambda: page.locator(".runs tbody tr").first.inner_text(), lambda text: "cancelled" in text
    )


def test_filters_are_in_the_address_and_survive_a_reload(enter: Enter, brain: Brain) -> None:
    olga, ann = operator(enter), enter().sign_in()
    answered(ann, brain)
    asks(ann, brain)
    page = of(olga, ann, 2)
    waiting, over = rows(page)
    page.get_by_label("Status").select_option("success")
    eventually(lambda: rows(page), lambda found: found == [over])
    assert filters(page) == {"owner": [ann.name], "status": ["success"]}
    page.reload()
    eventually(lambda: rows(page), lambda found: found == [over])
    assert page.get_by_label("Status").input_value() == "success"
    assert page.get_by_label("Owner").input_value() == ann.name
    page.get_by_label("Accepted before").fill("2001-01-01T10:00")
    page.get_by_label("Accepted before").press("Enter")
    olga.sees("No run is like that", page)
    assert "until=2001-01-01T" in page.url
    page.reload()
    olga.sees("No run is like that", page)
    assert page.get_by_label("Accepted before").input_value() == "2001-01-01T10:00"
    olga.picture("operations-no-match", page)
    olga.button("Show all runs", page).click()
    eventually(lambda: rows(page), lambda found: {waiting, over} <= {*found})
    assert page.url.endswith("#/operations")


def test_what_is_typed_into_a_filter_counts_with_enter_and_stays_until_then(enter: Enter) -> None:
    olga = operator(enter)
    asked: list[str] = []
    play(olga, summary_json(), [run_json(1)])
    olga.open("operations")
    olga.page.locator(".runs").wait_for()
    olga.browser.on("request", lambda request: asked.append(request.url))
    owner = olga.page.get_by_label("Owner")
    owner.press_sequentially("bo")
    # The page is drawn again while somebody types.
    olga.button("Last 7 days").dispatch_event("click")
    eventually(lambda: olga.page.evaluate("true") and [url for url in asked if "summary" in url])
    assert owner.input_value() == "bo"
    owner.press("b")
    assert [url for url in asked if LIST.search(url)] == []
    owner.press("Enter")
    eventually(lambda: olga.page.evaluate("true") and [url for url in asked if "=bob" in url])
    assert filters(olga.page) == {"owner": ["bob"], "days": ["7"]}


def test_further_runs_come_on_request_and_a_page_may_have_none(enter: Enter) -> None:
    olga = operator(enter)
    pages: dict[str | None, Json] = {
        None: {"items": [], "next_cursor": "a"},
        "a": {"items": [run_json(2)], "next_cursor": "b"},
        "b": {"items": [run_json(1, status="failed", error="Boom")], "next_cursor": None},
    }

    def answer(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        route.fulfill(json=pages[query.get("cursor", [None])[0]])

    olga.page.route(SUMMARY, lambda route: route.fulfill(json=summary_json()))
    olga.page.route(LIST, answer)
    olga.open("operations?status=failed")
    olga.sees("None of the newest runs is like that")
    olga.button("More runs").click()
    eventually(lambda: len(rows(olga.page)), lambda count: count == 1)
    olga.button("More runs").click()
    eventually(lambda: len(rows(olga.page)), lambda count: count == 2)
    assert olga.button("More runs").count() == 0
    olga.button("Refresh").click()
    eventually(lambda: len(rows(olga.page)), lambda count: count == 2)


def test_several_are_denied_with_a_reason_that_their_owner_reads(
    enter: Enter, brain: Brain, system: System
) -> None:
    olga, ann = operator(enter, "operate,audit"), enter().sign_in()
    orders = [asks(ann, brain), asks(ann, brain, 70)]
    page = of(olga, ann, 2, "&status=suspended")
    runs = rows(page)
    page.get_by_label("Select all 2 that are shown").check()
    olga.sees("2 selected", page)
    olga.button("Deny what waits in 2 runs …", page).click()
    page.get_by_label("Reason").fill(REASON)
    olga.button("Deny what waits in 2 runs", page).click()
    page.locator(".outcomes").get_by_text("2 done").wait_for()
    for order, amount in zip(orders, (60, 70), strict=True):
        assert ann.tab("#/inbox").get_by_text(refund_of(order, amount)).count() == 0
    ann.sees(f"denied by {olga.name.partition(';')[0]}: {REASON}")
    caller = system.caller(olga.name)
    items = caller.call("GET", "/audit/operations?limit=100").body["items"]
    mine = [row for row in items if row["by"] == olga.name.partition(";")[0]]
    assert sorted(row["run_id"] for row in mine) == sorted(runs)
    assert {(row["operation"], row["reason"], row["outcome"]) for row in mine} == {
        ("deny", REASON, "done")
    }


def test_everything_works_by_keyboard(enter: Enter, brain: Brain) -> None:
    olga, ann = operator(enter), enter().sign_in()
    asks(ann, brain)
    asks(ann, brain, 70)
    page = of(olga, ann, 2)
    first, second = rows(page)
    olga.page.close()
    olga.page = page
    page.locator("main").focus()
    press(olga, "x")  # No row has the focus.
    assert page.get_by_text("selected").count() == 0
    press(olga, "j")
    arrives(olga, f"a {first}")
    press(olga, "j")
    arrives(olga, f"a {second}")
    press(olga, "x")
    olga.sees("1 selected")
    go_to(olga, "button Redrive the run …", "Shift+Tab")
    press(olga, "Enter")
    arrives(olga, "input Reason")
    page.keyboard.type("jx")  # Letters in a field are letters.
    press(olga, "Escape")
    arrives(olga, "button Redrive the run …")
    go_to(olga, "button Cancel the run …", "Shift+Tab")
    press(olga, "Enter")
    arrives(olga, "input Reason")
    page.keyboard.type(REASON)
    press(olga, "Enter")
    page.locator(".outcomes").get_by_text("1 done").wait_for()
    arrives(olga, "section Outcome")
    go_to(olga, f"a {first}")
    press(olga, "Enter")
    page.wait_for_url(f"**/#/operations/{first}")


def test_run_is_shown_step_by_step_without_what_it_says(enter: Enter, brain: Brain) -> None:
    olga, ann = operator(enter), enter().sign_in()
    order = asks(ann, brain)
    page = of(olga, ann, 1)
    page.locator(".runs tbody a").click()
    timeline = page.locator(".timeline")
    timeline.get_by_text("Step 1").wait_for()
    timeline.get_by_text("refund", exact=True).wait_for()
    timeline.get_by_text("asked a person").wait_for()
    said = page.locator("main").inner_text()
    assert order not in said
    assert ann.name in said
    assert olga.button("Read what it says", page).count() == 0
    olga.picture("operated", page)
    olga.button("Deny what waits …", page).click()
    page.get_by_label("Reason").fill(REASON)
    olga.button("Deny what waits", page).click()
    page.locator(".outcomes").get_by_text("1 done").wait_for()
    timeline.get_by_text(f"denied by {olga.name.partition(';')[0]} (api)").wait_for()
    assert REASON not in page.locator("main").inner_text()


def test_reading_what_a_run_says_is_announced_and_written_down_once(
    enter: Enter, brain: Brain, system: System
) -> None:
    olga, ann = operator(enter, "operate,read-content,audit"), enter().sign_in()
    order = asks(ann, brain)
    page = of(olga, ann, 1)
    (run,) = rows(page)
    page.locator(".runs tbody a").click()
    olga.sees("Each reading is written down with your name", page)

    def readings() -> list[str]:
        items = system.caller(olga.name).call("GET", "/audit/operations?limit=100").body["items"]
        return [row["operation"] for row in items if row["run_id"] == run]

    assert readings() == []
    olga.button("Read what it says", page).click()
    olga.sees(order, page)
    assert page.locator(".content").get_by_role("button", name="Approve").count() == 0
    olga.picture("operated-content", page)
    olga.button("Refresh", page).click()
    olga.sees(order, page)
    assert readings() == ["read"]


def test_prompt_of_a_step_is_shown_with_whether_it_is_the_one_that_was_sent(
    enter: Enter, brain: Brain, system: System
) -> None:
    olga, ann = operator(enter, "operate,read-content,audit"), enter().sign_in()
    order = asks(ann, brain)
    page = of(olga, ann, 1)
    page.locator(".runs tbody a").click()
    choice = page.get_by_label("Step", exact=True)
    choice.select_option("1")
    olga.button("Show the prompt", page).click()
    sent = page.get_by_role("region", name="What the model was sent")
    sent.get_by_text("It is as it was sent.").wait_for()
    # What the model asked for is its answer to this prompt.
    assert "please go on" in sent.inner_text()
    assert order not in sent.inner_text()
    olga.picture("operated-prompt", page)
    choice.select_option("2")
    assert sent.count() == 0
    olga.button("Show the prompt", page).click()
    sent.get_by_text("It may not be as it was sent: this step has no reply").wait_for()


def test_place_shows_for_a_group_whose_name_only_the_api_knows(modules: Page) -> None:
    found = modules.evaluate(
        """async () => {
          const { isInGroups, scopesOf } = await import("/session.js");
          const of = (claims) => {
            const access = `x.${btoa(JSON.stringify(claims))}.x`;
            sessionStorage.setItem("layover.tokens", JSON.stringify({ access }));
            return [isInGroups({ issuer: "i" }), [...scopesOf({ issuer: "i" })].filter(Boolean)];
          };
          return [
            of({ scope: "layover/use", aud: ["a"] }),
            of({ scope: "layover/use", roles: ["ops"] }),
            of({ scp: ["layover/use", "layover/operate"] }),
            of({ scope: "", "cognito:groups": ["layover-operators", "layover-readers", "x"] }),
          ];
        }"""
    )
    assert found == [
        [False, ["use"]],
        [True, ["use"]],
        [False, ["use", "operate"]],
        [True, ["operate", "read-content"]],
    ]


def parts_of(modules: Page, run: Json, now: str) -> list[list[list[Any]]]:
    """Spans of each step and of each of its calls: `[kind, seconds from, seconds to]` since `AT`."""
    found: list[list[list[Any]]] = modules.evaluate(
        """async ([run, at, now]) => {
          const { partsOf } = await import("/operated.js");
          const from = Date.parse(at);
          return partsOf(run, Date.parse(now))
            .flatMap(({ spans, calls }) => [spans, ...calls.map((each) => each.spans)])
            .map((spans) => spans.map((s) => [s.kind, (s.from - from) / 1000, (s.to - from) / 1000]));
        }""",
        [run, AT, now],
    )
    return found


def second(number: int) -> str:
    return f"2026-01-01T12:00:{number:02d}Z"


def call_json(call_id: str, **more: Any) -> Json:
    base: Json = {"tool_call_id": call_id, "tool_name": "refund", "decisions": [], "child": None}
    base |= {"requested_at": None, "settled_at": None, "is_error": False, "state": "settled"}
    return base | more


def test_times_of_a_run_are_those_of_its_steps_and_calls(modules: Page) -> None:
    child = {"started_at": second(9), "agent": "aide", "status": "success", "error": None}
    decision = {"decision": "approved", "at": second(7)}
    run = run_json(
        1,
        status="running",
        timeline=[
            {
                "n": 1,
                "parent_call": None,
                "at": second(2),
                "calls": [
                    call_json(
                        "c1",
                        requested_at=second(3),
                        decisions=[decision],
                        settled_at=second(8),
                    ),
                    call_json("c2", state="open", child=child),
                ],
            },
            {"n": 1, "parent_call": "c2", "at": second(12), "calls": []},
        ],
    )
    assert parts_of(modules, run, second(20)) == [
        [["model", 0, 2]],
        [["wait", 3, 7], ["tool", 7, 8]],
        [["tool", 2, 20]],
        [["model", 9, 12]],
    ]
    # A wait that nobody ended, and no time passes in a run that is over.
    waits = call_json("c1", requested_at=second(3), state="waiting")
    step = {"n": 1, "parent_call": None, "at": second(2), "calls": [waits]}
    open_run = run_json(1, timeline=[step])
    assert parts_of(modules, open_run, second(20))[1] == [["wait", 3, 20]]
    over = open_run | {"status": "cancelled", "updated_at": second(5)}
    assert parts_of(modules, over, second(20))[1] == [["wait", 3, 5]]


@pytest.mark.parametrize(
    "look",
    [{"color_scheme": "light"}, {"color_scheme": "dark"}, PHONE | {"color_scheme": "dark"}, PHONE],
    ids=["light", "dark", "phone-dark", "phone"],
)
def test_every_state_is_clean_to_axe_and_fits(
    enter: Enter, brain: Brain, axe: str, look: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    ann = enter().sign_in()
    asks(ann, brain)
    olga = operator(enter, "operate,read-content", **look)
    states = {"run": olga.tab(f"#/operations?owner={ann.name}")}
    states["run"].locator(".runs tbody a").click()
    olga.button("Read what it says", states["run"]).click()
    states["run"].locator(".content").wait_for()
    olga.button("Show the prompt", states["run"]).click()
    states["run"].get_by_role("region", name="What the model was sent").wait_for()
    states["gone"] = olga.tab("#/operations/run_none")
    olga.sees("There is no such run", states["gone"])
    failed = run_json(2, status="failed", error="RateLimitError", waiting_since=None)
    done = run_json(1, status="success", waiting_since=None, owner="a" * 60)
    play(olga, summary_json(), [run_json(3), failed, done])
    states["list"] = olga.tab("#/operations")
    picks(states["list"], run_json(3)["id"], failed["id"])
    states["question"] = olga.tab("#/operations")
    picks(states["question"], run_json(3)["id"], failed["id"])
    olga.button("Deny what waits in 2 runs …", states["question"]).click()
    play(olga, NOTHING, [])
    states["none"] = olga.tab("#/operations")
    olga.sees("There are no runs yet", states["none"])
    found = {}
    for state, page in states.items():
        found[state] = olga.findings(axe, page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), state
        olga.picture(f"operations-{state}-{name}", page)
    states["list"].locator("main").evaluate("(main) => main.scrollTo(0, 0)")
    olga.picture(f"operations-summary-{name}", states["list"])
    assert {state: findings for state, findings in found.items() if findings} == {}
