"""Links that decide, over HTTP: one person, one call, one attempt."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.api.kit import Api, Response, TestHost
from layover import Agent
from layover.approvals.extend import extend
from layover.plugins.people.links import make_link
from layover.values.channels import Person
from layover.values.decision import Risk
from layover.values.deployment.access import Actor
from layover.values.runs.run import SuspensionKind
from layover.values.runs.views import Run
from support.examples import examples
from support.worlds.linked import ANNA, BASE_URL, BEA, CARL, DORA, FINANCE, LinkedBench
from support.worlds.services import ANN

HOST = BASE_URL.removeprefix("https://")
JSON = {"Accept": "application/json", "Host": HOST}
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Host": HOST}
APPROVE = {"decision": "approve"}
DENY = {"decision": "deny"}


@pytest.fixture
def world() -> LinkedBench:
    return LinkedBench()


def bench(api: Api) -> LinkedBench:
    assert isinstance(api.world, LinkedBench)
    return api.world


def asked(api: Api, *args: Any, person: Person = BEA, **options: Any) -> tuple[Run, str]:
    run, call = api.do(bench(api).asked(*args, **options))
    return run, api.do(bench(api).path(run, call, person))


def see(api: Api, path: str) -> Response:
    return api.get(path, sub=None, headers=JSON)


def decide(api: Api, path: str, body: Any = APPROVE, **headers: str) -> Response:
    return api.post(path, body, sub=None, headers={**JSON, **headers})


def waits(api: Api, run: Run) -> bool:
    return bool(api.get(f"/runs/{run.id}").json["pending"])


# What is no link


def test_texts_that_are_no_links_are_answered_alike_and_read_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Any] = []
    links = bench(api).links

    async def read(*key: str) -> None:
        reads.append(key)

    monkeypatch.setattr(links, "get_link", read)
    never = see(api, "/decide/nothing").problem(404, "not-found")
    for token in (
        "%20",
        "..",
        "a/b",
        "%00",
        "x" * 5_000,
        "<script>",
        "a.b.c",
        "%0d%0aX-Y:z",
        "ü",
        "'--",
    ):
        answer = see(api, f"/decide/{token}")
        assert answer.problem(404, "not-found") == never
        assert decide(api, f"/decide/{token}").problem(404, "not-found") == never
        assert answer.headers["cache-control"] == "no-store"
    assert reads == []


def test_guess_of_the_right_form_costs_one_read_and_is_answered_alike(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, path = asked(api)
    never = see(api, "/decide/nothing").problem(404, "not-found")
    head, _, secret = path.rpartition(".")
    owner = head.partition(".")[0]
    swapped = secret.swapcase()
    guesses = [
        f"{head}.{'A' * 43}",
        f"{head}.{swapped}",
        f"{path[:-1]}{'A' if path[-1] != 'A' else 'B'}",
        f"{owner}.run_2.{secret}",
        f"/decide/{'0' * 32}.{run.id}.{secret}",
    ]
    inner, reads = bench(api).links.get_link, []

    async def read(*key: str) -> Any:
        reads.append(key)
        return await inner(*key)

    monkeypatch.setattr(bench(api).links, "get_link", read)
    for guess in guesses:
        assert see(api, guess).problem(404, "not-found") == never
        assert decide(api, guess).problem(404, "not-found") == never
    assert len(reads) == 2 * len(guesses)
    assert waits(api, run)


@examples(150)
@given(token=st.text(min_size=1), method=st.sampled_from(["GET", "POST"]))
def test_no_text_is_a_failure(token: str, method: str) -> None:
    host = TestHost(LinkedBench())
    api = Api(LinkedBench(), host)
    try:
        path = f"/decide/{quote(token.encode('utf-8', 'surrogatepass'), safe='')}"
        answer = api.send(
            method, path, APPROVE if method == "POST" else None, sub=None, headers=JSON
        )
        answer.problem(404, "not-found")
    finally:
        host.close()


@examples(60)
@given(
    text=st.text(alphabet="0123456789abcdefABCDEF._-runR/%", min_size=1, max_size=120),
    cut=st.integers(0, 90),
)
def test_no_change_of_a_link_is_a_link(text: str, cut: int) -> None:
    world = LinkedBench()
    host = TestHost(world)
    api = Api(world, host)
    try:
        run, path = asked(api)
        token = path.removeprefix("/decide/")
        changed = f"{token[:cut]}{text}{token[cut + len(text) :]}"
        answer = decide(api, f"/decide/{changed}")
        assert answer.status == (202 if changed == token else 404), answer.body
        assert waits(api, run) == (changed != token)
    finally:
        host.close()


def test_link_of_somebody_who_left_is_no_link(api: Api) -> None:
    run, path = asked(api)
    never = see(api, "/decide/nothing").problem(404, "not-found")
    assert see(api, path).status == 200
    for people in ((ANNA, CARL), (ANNA, BEA.model_copy(update={"groups": frozenset({"sales"})}))):
        bench(api).configure(*people)
        assert see(api, path).problem(404, "not-found") == never
        assert decide(api, path).problem(404, "not-found") == never
    assert waits(api, run)
    bench(api).configure()
    assert decide(api, path).status == 202


def test_link_of_an_erased_run_is_no_link(api: Api) -> None:
    run, path = asked(api)
    assert api.send("DELETE", f"/threads/{run.thread_id}").status == 204
    see(api, path).problem(404, "not-found")
    decide(api, path).problem(404, "not-found")


# Who gets one


@pytest.mark.parametrize("person", [DORA, ANNA], ids=["of another group", "owner"])
def test_person_who_may_not_decide_gets_no_link(api: Api, person: Person) -> None:
    _, call = api.do(bench(api).asked())
    assert api.do(make_link(bench(api).runtime, person, ANN, call)) is None


def test_owner_gets_a_link_to_a_call_without_a_rule_and_nobody_else(api: Api) -> None:
    run, call = api.do(bench(api).asked(None))
    assert api.do(make_link(bench(api).runtime, BEA, ANN, call)) is None
    path = api.do(bench(api).path(run, call, ANNA))
    assert see(api, path).json["may"] == ["approve", "deny"]
    assert decide(api, path).status == 202


@pytest.mark.parametrize("kind", [SuspensionKind.CONNECT])
def test_consent_has_no_link(api: Api, kind: SuspensionKind) -> None:
    _, call = api.do(bench(api).asked(None, kind))
    assert api.do(make_link(bench(api).runtime, ANNA, ANN, call)) is None


def test_expired_call_gets_no_link(api: Api) -> None:
    _, call = api.do(bench(api).asked(expires_at=bench(api).clock.now() + timedelta(hours=1)))
    bench(api).clock.advance(timedelta(hours=1))
    assert api.do(make_link(bench(api).runtime, BEA, ANN, call)) is None


# What it shows


def test_page_says_what_is_asked_and_whose_link_it_is(api: Api) -> None:
    rule = FINANCE.model_copy(update={"reason_required": True, "quorum": 2})
    run, path = asked(api, rule, risk=Risk.HIGH)
    page = see(api, path).json
    assert page["person"] == "bea@example.com"
    assert (page["agent"], page["tool_name"], page["risk"]) == ("support", "refund", "high")
    assert page["args"] == {"order_id": "o1", "amount": 80}
    assert page["args_schema"]["properties"]["amount"]["type"] == "number"
    assert (page["requester"], page["by"]) == ("ann@example.com", ["finance"])
    assert (page["reason_required"], page["quorum"], page["votes"]) == (True, 2, [])
    assert (page["may"], page["closed"], page["decided"]) == (["approve", "deny"], None, None)
    assert waits(api, run)


def test_looking_changes_nothing_however_often(api: Api) -> None:
    run, path = asked(api)
    before = api.get(f"/runs/{run.id}/events").json
    for method, headers in (("GET", JSON), ("GET", BROWSER), ("GET", {}), ("HEAD", BROWSER)):
        for _ in range(3):
            api.send(method, path, sub=None, headers=headers)
    assert api.get(f"/runs/{run.id}/events").json == before
    assert waits(api, run)
    assert bench(api).callbacks.woken == []


def test_page_is_the_same_for_every_link_and_is_kept_nowhere(api: Api) -> None:
    _, path = asked(api)
    page, never = (api.get(p, sub=None, headers=BROWSER) for p in (path, "/decide/nothing"))
    assert (page.status, never.status, page.body) == (200, 404, never.body)
    assert page.headers == never.headers
    assert path.rpartition(".")[2] not in page.body
    for answer in (page, see(api, path), decide(api, path, {"decision": "x"})):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "noindex" in answer.headers["x-robots-tag"]
        assert "etag" not in answer.headers
    policy = page.headers["content-security-policy"]
    assert "connect-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy


def test_link_that_asks_for_a_sign_in_shows_nothing_of_the_call_and_decides_nothing(
    api: Api,
) -> None:
    bench(api).configure(sign_in=True)
    run, path = asked(api)
    page = see(api, path).json
    assert (page["person"], page["sign_in"], page["may"]) == ("bea@example.com", True, [])
    assert page["run_id"] == run.id
    assert page["tool_call_id"] == "c1"
    assert not any(page[name] for name in ("agent", "tool_name", "args", "payload", "requester"))
    decide(api, path).problem(403, "sign-in-required")
    assert waits(api, run)


# What it decides


def test_approval_is_the_persons_by_link_and_its_repetition_changes_nothing(api: Api) -> None:
    run, path = asked(api)
    first = decide(api, path, {**APPROVE, "reason": "small"})
    assert first.status == 202
    outcome = first.json["decided"]
    assert (outcome["decision"], outcome["by"], outcome["mine"]) == (
        "approved",
        "bea@example.com",
        True,
    )
    assert (first.json["closed"], first.json["may"]) == ("bea@example.com approved it", [])
    assert first.json["args"] is None
    again = decide(api, path, {**APPROVE, "reason": "small"})
    assert (again.status, again.json) == (200, first.json)
    decided = api.get(f"/runs/{run.id}/events").json["items"][-1]
    assert (decided["decided_by"], decided["via"]) == (BEA.id, "link")
    assert len(bench(api).callbacks.woken) <= 2


@pytest.mark.parametrize("other", [DENY, {**APPROVE, "reason": "else"}], ids=["denial", "reason"])
def test_another_decision_afterwards_is_refused_in_the_words_of_the_page(
    api: Api, other: Any
) -> None:
    _, path = asked(api)
    assert decide(api, path).status == 202
    refused = decide(api, path, other).problem(409, "decision-already-made")
    assert refused["detail"] == see(api, path).json["closed"] == "bea@example.com approved it"


def test_link_of_another_person_says_who_decided(api: Api) -> None:
    run, call = api.do(bench(api).asked())
    bea, carl = (api.do(bench(api).path(run, call, person)) for person in (BEA, CARL))
    assert decide(api, bea, {**DENY, "reason": "twice"}).status == 202
    page = see(api, carl).json
    assert page["closed"] == "bea@example.com denied it"
    assert (page["decided"]["mine"], page["decided"]["reason"]) == (False, "twice")
    assert decide(api, carl).problem(409, "decision-already-made")["detail"] == page["closed"]


def test_two_people_make_a_quorum_by_their_links_and_one_does_not(api: Api) -> None:
    run, call = api.do(bench(api).asked(FINANCE.model_copy(update={"quorum": 2})))
    bea, carl = (api.do(bench(api).path(run, call, person)) for person in (BEA, CARL))
    other = api.do(bench(api).path(run, call, BEA))
    first = decide(api, bea)
    assert (first.status, first.json["voted"], first.json["closed"]) == (202, True, None)
    assert decide(api, other).status == 200
    assert waits(api, run)
    page = see(api, carl).json
    assert [vote["by"] for vote in page["votes"]] == ["bea@example.com"]
    assert page["voted"] is False
    last = decide(api, carl)
    assert (last.status, last.json["decided"]["mine"]) == (202, True)
    assert not waits(api, run)
    assert see(api, bea).json["closed"] == "carl@example.com approved it"


def test_reason_that_is_required_is_asked_for_and_the_call_goes_on_waiting(api: Api) -> None:
    run, path = asked(api, FINANCE.model_copy(update={"reason_required": True}))
    problem = decide(api, path, DENY).problem(422, "decision-invalid")
    assert problem["errors"][0]["loc"] == ["body", "reason"]
    assert waits(api, run)
    assert decide(api, path, {**DENY, "reason": "no"}).status == 202


def test_arguments_are_edited_and_checked(api: Api) -> None:
    run, path = asked(api)
    wrong = {**APPROVE, "args": {"order_id": "o1", "amount": "lots"}}
    assert decide(api, path, wrong).problem(422, "decision-invalid")["errors"]
    assert waits(api, run)
    right = {**APPROVE, "args": {"order_id": "o1", "amount": 20}}
    known, api.world.agents["support"] = api.world.agents["support"], Agent("support", model="m")
    problem = decide(api, path, right).problem(422, "decision-invalid")
    assert problem["errors"][0]["type"] == "unknown_tool"
    assert waits(api, run)
    api.world.agents["support"] = known
    assert decide(api, path, right).status == 202
    decided = api.get(f"/runs/{run.id}/events").json["items"][-1]
    assert decided["args"] == {"order_id": "o1", "amount": 20}


def test_call_that_waits_for_input_is_answered(api: Api) -> None:
    run, path = asked(api, None, SuspensionKind.INPUT, person=ANNA)
    assert see(api, path).json["may"] == ["deny", "resume"]
    decide(api, path).problem(422, "decision-invalid")
    decide(api, path, {"decision": "resume", "data": {}}).problem(422, "decision-invalid")
    assert waits(api, run)
    answer = decide(api, path, {"decision": "resume", "data": {"slot": "9:00"}})
    assert (answer.status, answer.json["closed"]) == (202, "ann@example.com answered it")


def test_call_that_waits_for_input_is_declined(api: Api) -> None:
    run, path = asked(api, None, SuspensionKind.INPUT, person=ANNA)
    body = {**DENY, "reason": "private"}
    first, again = decide(api, path, body), decide(api, path, body)
    assert (first.status, again.status) == (202, 200)
    assert first.json["closed"] == "ann@example.com declined to answer"
    assert first.json["decided"]["decision"] == "denied"
    assert first.json["decided"]["reason"] == "private"
    assert not waits(api, run)
    late = decide(api, path, {"decision": "resume", "data": {"slot": "9:00"}})
    assert late.problem(409, "decision-already-made")["detail"].startswith(first.json["closed"])


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision": "maybe"},
        {"decision": ["approve"]},
        {**APPROVE, "attempt": 1},
        {**APPROVE, "data": 1},
        {**DENY, "args": {}},
        {"decision": "resume"},
        {**APPROVE, "reason": 5},
        {**APPROVE, "reason": "x" * 10_001},
        [],
    ],
    ids=str,
)
def test_body_of_the_wrong_shape_decides_nothing(api: Api, body: Any) -> None:
    run, path = asked(api)
    assert decide(api, path, body).status == 422
    assert waits(api, run)


# When it is over


def test_link_lasts_as_long_as_its_call_and_then_tells_that_nobody_decided(api: Api) -> None:
    expires_at = bench(api).clock.now() + timedelta(days=1)
    _, path = asked(api, expires_at=expires_at)
    assert see(api, path).json["expires_at"].startswith(expires_at.isoformat()[:16])
    bench(api).clock.advance(timedelta(days=1))
    page = see(api, path).json
    assert (page["closed"], page["may"], page["args"]) == ("nobody decided in time", [], None)
    assert decide(api, path).problem(409, "decision-already-made")["detail"] == page["closed"]


def extended(api: Api, run: Run, days: int) -> None:
    at = bench(api).clock.now() + timedelta(days=days)
    finance = Actor(sub=BEA.id, groups=frozenset({"finance"}))
    api.do(extend(bench(api).runtime, finance, run.id, "c1", at, attempt=1))


@pytest.mark.parametrize("body", [APPROVE, {"decision": "deny"}, {**APPROVE, "reason": "late"}])
def test_link_of_a_call_that_was_extended_decides_until_the_later_time(api: Api, body: Any) -> None:
    run, path = asked(api, FINANCE, expires_at=bench(api).clock.now() + timedelta(hours=1))
    extended(api, run, 3)
    bench(api).clock.advance(timedelta(days=2))
    page = see(api, path).json
    assert (page["closed"], page["may"]) == (None, ["approve", "deny"])
    assert page["expires_at"].startswith(
        (bench(api).clock.now() + timedelta(days=1)).isoformat()[:13]
    )
    assert decide(api, path, body).status == 202


def test_link_of_a_call_that_was_extended_ends_with_the_call_or_after_seven_days(
    api: Api,
) -> None:
    soon = bench(api).clock.now() + timedelta(hours=1)
    for days, after in ((2, 2), (30, 7)):
        run, path = asked(api, FINANCE, expires_at=soon)
        extended(api, run, days)
        bench(api).clock.advance(timedelta(days=after) - timedelta(minutes=1))
        assert see(api, path).json["closed"] is None
        bench(api).clock.advance(timedelta(minutes=1))
        assert see(api, path).json["closed"]
        assert decide(api, path).status == 409
        soon = bench(api).clock.now() + timedelta(hours=1)


def test_link_is_over_after_seven_days_though_its_call_waits(api: Api) -> None:
    run, call = api.do(bench(api).asked())
    path = api.do(bench(api).path(run, call))
    bench(api).clock.advance(timedelta(days=7) - timedelta(seconds=1))
    assert see(api, path).json["may"] == ["approve", "deny"]
    bench(api).clock.advance(timedelta(seconds=1))
    page = see(api, path).json
    assert (page["closed"], page["may"]) == ("this link is over: decide in the console", [])
    assert decide(api, path).problem(409, "decision-already-made")["detail"] == page["closed"]
    assert waits(api, run)
    # The outcome is told by an old link as well, and to whoever made it.
    new = api.do(bench(api).path(run, call))
    assert decide(api, new).status == 202
    assert see(api, path).json["closed"] == "bea@example.com approved it"
    assert decide(api, path).status == 200


def test_link_of_an_earlier_request_decides_nothing_of_a_later_one(api: Api) -> None:
    world = bench(api)
    run, call = api.do(world.asked(attempt=2))
    path = api.do(world.path(run, call.model_copy(update={"attempt": 1})))
    page = see(api, path).json
    assert page["closed"] == "the call waits for another decision now: a newer message has its link"
    assert (page["may"], page["args"]) == ([], None)
    assert decide(api, path).problem(409, "decision-already-made")["detail"] == page["closed"]
    assert waits(api, run)
    assert decide(api, api.do(world.path(run, call))).status == 202


def test_run_that_is_over_takes_no_decision(api: Api) -> None:
    run, path = asked(api)
    assert api.post(f"/runs/{run.id}/cancel").status in (200, 202)
    page = see(api, path).json
    assert page["may"] == []
    assert page["closed"] in ("the run was cancelled", "the run is over")
    assert decide(api, path).problem(409, "decision-already-made")["detail"] == page["closed"]


# Pages of other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://{HOST}.evil.example"},
        {"Origin": f"https://evil.example/{HOST}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": f"https://{HOST}", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
    ],
    ids=str,
)
def test_page_of_another_site_decides_nothing(api: Api, headers: dict[str, str]) -> None:
    run, path = asked(api)
    decide(api, path, **headers).problem(403, "wrong-origin")
    assert waits(api, run)


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""],
)
def test_body_that_a_form_could_send_decides_nothing(api: Api, kind: str) -> None:
    run, path = asked(api)
    decide(api, path, **{"Content-Type": kind}).problem(415, "unsupported-media-type")
    assert waits(api, run)


def test_page_of_the_link_may_decide(api: Api) -> None:
    _, path = asked(api)
    own = {"Origin": f"https://{HOST}", "Sec-Fetch-Site": "same-origin"}
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert decide(api, path, **own, **charset).status == 202


# What a link does not reach


def test_link_reaches_one_call_of_one_run_and_nothing_else(api: Api) -> None:
    run, path = asked(api)
    other, _ = asked(api)
    token = path.removeprefix("/decide/")
    head, _, secret = token.rpartition(".")
    owner = head.partition(".")[0]
    see(api, f"/decide/{owner}.{other.id}.{secret}").problem(404, "not-found")
    for bearer in (token, secret):
        headers = {"Authorization": f"Bearer {bearer}"}
        for url in (
            f"/runs/{run.id}",
            "/approvals",
            "/threads",
            f"/runs/{run.id}/events",
            "/me/export",
        ):
            assert api.get(url, sub=None, headers=headers).status == 401
    body = see(api, path).body
    assert ANN not in json.loads(body).values()
    assert run.thread_id not in body
    assert decide(api, path).status == 202
    assert waits(api, other)
