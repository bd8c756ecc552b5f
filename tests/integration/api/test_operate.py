"""All users' runs for operators: what they see, what they do, and what of it is written down."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from integration.api.kit import USE, Api
from integration.api.test_auth import SHOP, named
from layover.engine.progress import failed
from layover.engine.state import RunState
from layover.errors import RetryableError, RunFailed
from layover.recovery.sweep import sweep
from layover.runs.finish import end_even_unsaved
from layover.runs.finish import thread_of as head_of
from layover.values.decision import ApprovalRule
from layover.values.deployment.access import READERS
from layover.values.runs.run import (
    ErrorDetail,
    ErrorInfo,
    FinishReason,
    Outcome,
    Status,
    SuspensionKind,
)
from support.worlds.services import ANN, BOB

OPERATE = f"{USE} layover/operate"
READ = f"{OPERATE} layover/read-content"
AUDIT = f"{USE} layover/audit"
WORD = "zebrawort"
"""Stands in every text that somebody said."""
PATHS = (
    *("/operate/runs", "/operate/summary", "/operate/runs/run_1", "/operate/switch"),
    *("/operate/limits", "/operate/runs/run_1/steps/1"),
)
ACTIONS = ("cancel", "redrive", "deny")


def ask(api: Api, path: str, scope: str = OPERATE, **more: Any) -> Any:
    return api.get(path, **{"sub": BOB, "scope": scope, **more})


def stamp(at: datetime) -> str:
    """The moment as a query and an answer have it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def act(api: Api, what: str, *ids: str, reason: str | None = "outage", **more: Any) -> Any:
    body: dict[str, Any] = {"ids": list(ids)} | ({} if reason is None else {"reason": reason})
    return api.post(f"/operate/runs/{what}", body, **{"sub": BOB, "scope": OPERATE, **more})


def statuses(answer: Any) -> list[int]:
    assert answer.status == 200, answer.body
    return [item["status"] for item in answer.json["items"]]


def operations(api: Api) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = ask(api, "/audit/operations", AUDIT).json["items"]
    return items


def waiting(api: Api, owner: str = ANN) -> str:
    run, _ = api.do(api.world.suspended())
    return str(run.id)


def wordy(api: Api) -> str:
    """A run that failed, with the word in everything that is said."""
    world = api.world

    async def made() -> str:
        thread = await world.thread()
        run = await world.run(thread.id, f"my {WORD}")
        log = await world.take(run.id)
        step = await world.step(log, f"a {WORD}", ("c1", "refund", {"order_id": WORD, "amount": 1}))
        await world.suspend(log, step, "c1")
        return str(run.id)

    run_id: str = api.do(made())
    url = f"/runs/{run_id}/tool-calls/c1/deny"
    assert api.post(url, {"attempt": 1, "reason": f"no {WORD}"}).status == 202
    return run_id


def fail(api: Api, run_id: str, detail: ErrorDetail | None = None) -> None:
    """End the run as failed."""

    async def end() -> None:
        log = await api.world.journal.writers.seize(ANN, run_id)
        assert log is not None
        meta = log.snapshot.meta
        outcome = Outcome(
            status=Status.FAILED,
            finish_reason=FinishReason.ERROR,
            error=ErrorInfo(type="RateLimitError", message=f"refused: {WORD}"),
            error_detail=detail or ErrorDetail(provider="acme", message="no"),
            output={"said": WORD},
            leaf_id=meta.input.id,
            last_created_at=meta.input.created_at,
        )
        await log.end(outcome)

    api.do(end())


def thread_of(api: Api, run_id: str) -> str:
    return str(api.get(f"/runs/{run_id}").json["thread_id"])


# Who may not


@pytest.mark.parametrize("scope", [USE, f"{USE} layover/act-as layover/audit layover/read-content"])
def test_who_is_no_operator_sees_and_does_nothing(api: Api, scope: str) -> None:
    run_id = waiting(api)
    for path in (*PATHS, f"/operate/runs/{run_id}"):
        answer = ask(api, path, scope)
        answer.problem(403, "forbidden")
        assert 'scope="layover/operate"' in answer.headers["www-authenticate"]
        assert ANN not in answer.body
    for what in ACTIONS:
        act(api, what, run_id, scope=scope).problem(403, "forbidden")
    for method, path, body in (
        ("PUT", "/operate/switch", {"reason": "x"}),
        ("DELETE", "/operate/switch", None),
        ("POST", "/operate/users/erase", {"user": ANN, "reason": "x"}),
    ):
        api.send(method, path, body, sub=BOB, scope=scope).problem(403, "forbidden")
    assert api.get(f"/runs/{run_id}").json["status"] == "suspended"
    assert operations(api) == []


def test_nobody_without_a_token_sees_anything(api: Api) -> None:
    for path in PATHS:
        assert api.get(path, sub=None).status == 401


@pytest.mark.parametrize("scope", [USE, READ])
def test_who_is_no_auditor_reads_no_operations(api: Api, scope: str) -> None:
    ask(api, "/audit/operations", scope).problem(403, "forbidden")


def test_operator_without_the_scope_reads_no_content_and_leaves_no_row(api: Api) -> None:
    run_id = wordy(api)
    for path in (f"/operate/runs/{run_id}?content=true", f"/operate/runs/{run_id}/steps/1"):
        answer = ask(api, path)
        answer.problem(403, "forbidden")
        assert 'scope="layover/read-content"' in answer.headers["www-authenticate"]
        assert WORD not in answer.body
    assert operations(api) == []


@pytest.mark.parametrize(
    "query",
    ["status=done", "since=yesterday", "until=1700006400", "cursor=x", "limit=0", "statuss=failed"],
)
def test_filter_that_says_nothing_is_refused(api: Api, query: str) -> None:
    ask(api, f"/operate/runs?{query}").problem(422, "invalid-request")


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("cancel", {"ids": ["run_1"]}),
        ("deny", {"ids": ["run_1"]}),
        ("deny", {"ids": ["run_1"], "reason": ""}),
        ("cancel", {"ids": [], "reason": "x"}),
        ("cancel", {"ids": ["run_1"] * 101, "reason": "x"}),
        ("redrive", {"ids": [""]}),
        ("redrive", {"ids": ["run_1"], "why": "x"}),
    ],
)
def test_body_of_the_wrong_shape_does_nothing(api: Api, what: str, body: Any) -> None:
    run_id = waiting(api)
    answer = api.post(f"/operate/runs/{what}", body, sub=BOB, scope=OPERATE)
    answer.problem(422, "invalid-request")
    assert api.get(f"/runs/{run_id}").json["status"] == "suspended"
    assert operations(api) == []


def test_run_that_is_not_there_is_refused_and_the_others_are_not(api: Api) -> None:
    run_id = waiting(api)
    answer = act(api, "cancel", "run_0", run_id, "run_0")
    assert statuses(answer) == [404, 202, 404]
    assert [row["run_id"] for row in operations(api)] == [run_id]
    ask(api, "/operate/runs/run_0").problem(404, "not-found")


def test_run_of_a_deleted_thread_is_not_there(api: Api) -> None:
    run_id = waiting(api)
    thread_id = api.get(f"/runs/{run_id}").json["thread_id"]
    api.send("DELETE", f"/threads/{thread_id}")
    assert ask(api, "/operate/runs").json["items"] == []
    assert statuses(act(api, "cancel", run_id)) == [404]
    ask(api, f"/operate/runs/{run_id}").problem(404, "not-found")


def test_action_that_changes_nothing_is_refused_and_written_down(api: Api) -> None:
    run_id = waiting(api)
    assert statuses(act(api, "cancel", run_id)) == [202]
    for what in ACTIONS:
        api.world.clock.advance(timedelta(seconds=1))
        answer = act(api, what, run_id)
        assert statuses(answer) == [409]
        assert answer.json["items"][0]["problem"]["run_id"] == run_id
    assert [(row["operation"], row["outcome"], row["problem"]) for row in operations(api)] == [
        ("cancel", "done", None),
        *((what, "refused", "Conflict") for what in ACTIONS),
    ]


def test_second_redrive_within_a_minute_is_refused(api: Api) -> None:
    run_id = waiting(api)
    assert statuses(act(api, "redrive", run_id, reason=None)) == [202]
    api.world.clock.advance(timedelta(seconds=1))
    answer = act(api, "redrive", run_id, reason=None)
    assert statuses(answer) == [429]
    assert [row["outcome"] for row in operations(api)] == ["done", "refused"]


def test_action_of_which_nobody_knows_whether_it_happened_stays_pending(api: Api) -> None:
    run_id = waiting(api)

    async def away(*_: Any, **__: Any) -> None:
        raise RetryableError("throttled")

    journal = api.world.runtime.journal
    commands = replace_methods(journal.commands, start_successor=away)
    api.world.runtime = replace(api.world.runtime, journal=replace(journal, commands=commands))
    assert statuses(act(api, "redrive", run_id)) == [503]
    assert [row["outcome"] for row in operations(api)] == ["pending"]


def replace_methods(part: Any, **methods: Any) -> Any:
    """The part, with these methods in place of its own."""

    class Instead:
        def __getattr__(self, name: str) -> Any:
            return methods.get(name) or getattr(part, name)

    return Instead()


# What they see


def test_no_answer_says_a_word_of_anybody(api: Api) -> None:
    run_id = wordy(api)
    answers: list[Any] = []

    def look(*actions: str) -> None:
        paths = ("/operate/runs", "/operate/summary", f"/operate/runs/{run_id}")
        answers.extend(ask(api, path) for path in paths)
        answers.extend(act(api, what, run_id, reason="outage") for what in actions)

    look("redrive", "deny")
    fail(api, run_id)
    look(*ACTIONS)
    api.do(sweep(api.world.runtime))
    look(*ACTIONS)
    answers.append(ask(api, "/audit/operations", AUDIT))
    assert all(answer.status == 200 for answer in answers), [a.body for a in answers]
    assert [answer.body for answer in answers if WORD in answer.body] == []
    [row] = ask(api, "/operate/runs?error=RateLimitError").json["items"]
    assert (row["id"], row["error"]) == (run_id, "RateLimitError")
    # Its owner reads it, so the word is there.
    assert api.get(f"/runs/{run_id}").body.count(WORD) >= 4


def test_operators_read_what_a_provider_said_and_the_runs_owner_does_not(api: Api) -> None:
    run_id = wordy(api)
    facts = {"provider": "openai", "model": "gpt-5", "status": 429, "request_id": "req_1"}
    detail = ErrorDetail.model_validate({**facts, "message": "quota of org-17"})
    fail(api, run_id, detail)
    error = ask(api, f"/operate/runs/{run_id}").json["error"]
    assert error == {"type": "RateLimitError", "detail": detail.model_dump()}
    own = (
        f"/runs/{run_id}",
        f"/runs/{run_id}/events",
        f"/threads/{thread_of(api, run_id)}/messages",
    )
    assert not any("org-17" in api.get(path).body for path in own)


def test_list_has_all_users_runs_with_their_facts(api: Api) -> None:
    run_id = waiting(api)
    bobs = api.do(api.world.run(api.do(api.world.thread(BOB)).id, owner=BOB))
    newest, oldest = ask(api, "/operate/runs").json["items"]
    assert (newest["id"], newest["owner"], newest["status"]) == (bobs.id, BOB, "running")
    own = api.get(f"/runs/{run_id}").json
    assert oldest == {
        "id": run_id,
        "owner": ANN,
        "agent": "support",
        "thread_id": own["thread_id"],
        "status": "suspended",
        "created_at": own["created_at"],
        "updated_at": own["updated_at"],
        "waiting_since": own["pending"][0]["requested_at"],
        "waiting_for": None,
        "steps": 1,
        "calls": 1,
        "usage": own["usage"],
        "error": None,
        "definition": None,
    }


def test_pages_lead_to_all_runs(api: Api) -> None:
    run_ids = [waiting(api) for _ in range(5)]
    found: list[str] = []
    query = ""
    while True:
        page = ask(api, f"/operate/runs?limit=2&agent=support{query}").json
        found += [run["id"] for run in page["items"]]
        if page["next_cursor"] is None:
            break
        query = f"&cursor={page['next_cursor']}"
    assert found == run_ids[::-1]


def test_list_takes_filters(api: Api) -> None:
    waits, failed = waiting(api), waiting(api)
    fail(api, failed)
    api.world.clock.advance(timedelta(hours=1))
    middle = api.world.clock.now().isoformat().replace("+00:00", "Z")
    api.world.clock.advance(timedelta(hours=1))
    late = waiting(api)

    def ids(query: str) -> list[str]:
        items = ask(api, f"/operate/runs?{query}").json["items"]
        return [item["id"] for item in items]

    assert ids("status=failed") == [failed]
    assert ids("status=suspended&owner=ann") == [late, waits]
    assert ids("owner=nobody") == []
    assert ids("agent=plain") == []
    assert ids("error=RateLimitError&status=failed") == [failed]
    assert ids("error=RateLimitError&status=success") == []
    assert ids(f"since={middle}") == [late]
    assert ids(f"until={middle}") == [failed, waits]
    assert ids("definition=0000") == []


def test_timeline_has_steps_calls_and_decisions_in_order(api: Api) -> None:
    run_id = wordy(api)
    run = ask(api, f"/operate/runs/{run_id}").json
    [step] = run["timeline"]
    [call] = step["calls"]
    assert (step["n"], step["model"], step["text_chars"]) == (1, "gpt-5-mini", len(f"a {WORD}"))
    assert (call["tool_name"], call["state"], call["attempt"]) == ("refund", "waiting", 1)
    assert call["args_bytes"] == len(json.dumps({"amount": 1, "order_id": WORD}).replace(" ", ""))
    [decision] = call["decisions"]
    assert (decision["decision"], decision["decided_by"], decision["via"]) == ("denied", ANN, "api")
    assert "reason" not in decision
    assert "content" not in run


def test_reader_reads_what_a_run_says_and_that_is_written_down_first(api: Api) -> None:
    run_id = wordy(api)
    answer = ask(api, f"/operate/runs/{run_id}?content=true", READ)
    own = api.get(f"/runs/{run_id}").json
    assert answer.json["content"] == own
    [row] = operations(api)
    assert (row["operation"], row["by"], row["owner"]) == ("read", BOB, ANN)
    assert (row["run_id"], row["outcome"], row["reason"]) == (run_id, "done", None)
    # Without the wish there is no content, and no row.
    assert WORD not in ask(api, f"/operate/runs/{run_id}", READ).body
    assert len(operations(api)) == 1


def test_nothing_is_read_if_it_cannot_be_written_down(api: Api) -> None:
    run_id = wordy(api)

    async def away(*_: Any) -> None:
        raise RetryableError("throttled")

    journal = api.world.runtime.journal
    book = replace_methods(journal.operations, open=away)
    api.world.runtime = replace(api.world.runtime, journal=replace(journal, operations=book))
    answer = ask(api, f"/operate/runs/{run_id}?content=true", READ)
    assert answer.status == 503
    assert WORD not in answer.body
    assert statuses(act(api, "cancel", run_id)) == [503]
    assert api.get(f"/runs/{run_id}").json["status"] == "running"


def test_group_of_readers_gives_the_scope(api: Api) -> None:
    settings = api.world.runtime.settings
    access = settings.access.model_copy(update={"read_content_group": READERS})
    settings = settings.model_copy(update={"access": access})
    api.world.runtime = replace(api.world.runtime, settings=settings)
    run_id = wordy(api)
    path = f"/operate/runs/{run_id}?content=true"
    claims = {"cognito:groups": f"[{READERS}]"}
    assert WORD in ask(api, path, claims=claims).body
    ask(api, path, USE, claims=claims).problem(403, "forbidden")


def test_summary_counts_what_waits_and_what_failed(api: Api) -> None:
    first, failed, second = waiting(api), waiting(api), waiting(api)
    fail(api, failed)
    answer = ask(api, "/operate/summary").json
    assert answer["runs"] == [
        {"status": "suspended", "agent": "support", "count": 2},
        {"status": "failed", "agent": "support", "count": 1},
    ]
    assert answer["oldest_wait"]["run_id"] == first
    assert answer["errors"] == [
        {"error": "RateLimitError", "provider": "acme", "count": 1, "newest_run_id": failed}
    ]
    assert answer["complete"] is True
    assert [each["agent"] for each in answer["spent"]] == ["support"]
    act(api, "deny", first)
    assert ask(api, "/operate/summary").json["oldest_wait"]["run_id"] == second


def test_summary_counts_each_hour_and_over_more_than_two_days_each_day(api: Api) -> None:
    hour = api.world.clock.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    fail(api, waiting(api))
    waiting(api)
    api.world.clock.advance(timedelta(hours=3))
    waiting(api)
    answer = ask(api, "/operate/summary").json
    assert answer["period"] == "hour"
    assert [(each["at"], each["status"], each["count"]) for each in answer["over_time"]] == [
        (stamp(hour), "suspended", 1),
        (stamp(hour), "failed", 1),
        (stamp(hour + timedelta(hours=3)), "suspended", 1),
    ]
    days = Counter[tuple[str, str]]()
    for each in answer["over_time"]:
        days[each["at"][:10], each["status"]] += each["count"]
    since = stamp(hour - timedelta(days=2, hours=1))
    answer = ask(api, f"/operate/summary?since={since}").json
    assert answer["period"] == "day"
    assert {(e["at"][:10], e["status"]): e["count"] for e in answer["over_time"]} == days
    assert all(each["at"][10:19] == "T00:00:00" for each in answer["over_time"])


def test_summary_over_time_leaves_out_what_was_accepted_before(api: Api) -> None:
    waiting(api)
    api.world.clock.advance(timedelta(days=1, seconds=1))
    answer = ask(api, "/operate/summary").json
    assert sum(each["count"] for each in answer["runs"]) == 1
    assert answer["over_time"] == []


def test_summary_of_nothing_is_empty(api: Api) -> None:
    answer = ask(api, "/operate/summary?since=2026-01-01").status
    assert answer == 422
    answer = ask(api, "/operate/summary").json
    assert (answer["runs"], answer["errors"], answer["spent"]) == ([], [], [])
    assert answer["oldest_wait"] is None
    assert answer["over_time"] == []


# What they do


def test_operator_cancels_runs_of_anybody(api: Api) -> None:
    run_ids = [waiting(api) for _ in range(3)]
    assert statuses(act(api, "cancel", *run_ids)) == [202] * 3
    for run_id in run_ids:
        assert api.get(f"/runs/{run_id}").json["status"] == "cancelled"
    rows = operations(api)
    assert sorted(row["run_id"] for row in rows) == sorted(run_ids)
    assert {(row["by"], row["owner"], row["reason"], row["outcome"]) for row in rows} == {
        (BOB, ANN, "outage", "done")
    }


def test_operator_denies_all_that_waits_with_a_reason(api: Api) -> None:
    world = api.world

    async def made() -> str:
        run = await world.run((await world.thread()).id)
        log = await world.take(run.id)
        calls: tuple[Any, ...] = (
            ("c1", "refund", {"order_id": "A", "amount": 1}),
            ("c2", "look_up", {}),
        )
        step = await world.step(log, "both", *calls)
        await world.suspend(log, step, "c1")
        await world.suspend(log, step, "c2", kind=SuspensionKind.INPUT)
        return str(run.id)

    run_id = api.do(made())
    assert statuses(act(api, "deny", run_id, reason="nobody is left")) == [202]
    assert api.get(f"/runs/{run_id}").json["pending"] == []
    rows = ask(api, "/audit/decisions", AUDIT).json["items"]
    assert {(r["tool_call_id"], r["decision"], r["decided_by"], r["reason"]) for r in rows} == {
        ("c1", "denied", BOB, "nobody is left"),
        ("c2", "denied", BOB, "nobody is left"),
    }
    assert [row["operation"] for row in operations(api)] == ["deny"]


def test_row_names_the_user_for_whom_a_backend_acts(api: Api) -> None:
    run_id = waiting(api)
    more: dict[str, Any] = {
        "sub": SHOP,
        "scope": f"{OPERATE} layover/act-as",
        "headers": named(BOB),
    }
    assert statuses(act(api, "redrive", run_id, **more)) == [202]
    [row] = operations(api)
    assert (row["by"], row["on_behalf_of"]) == (SHOP, BOB)


def test_row_outlives_its_run(api: Api) -> None:
    run_id = waiting(api)
    act(api, "cancel", run_id)
    thread_id = api.get(f"/runs/{run_id}").json["thread_id"]
    api.send("DELETE", f"/threads/{thread_id}")
    api.do(sweep(api.world.runtime))
    assert [row["run_id"] for row in operations(api)] == [run_id]


# Every use of the right

DEEDS = {
    "/operate/runs/cancel": "cancel",
    "/operate/runs/redrive": "redrive",
    "/operate/runs/deny": "deny",
    "/runs/{run_id}/redrive": "redrive",
    "/runs/{run_id}/tool-calls/{tool_call_id}/extend": "extend",
}
"""What an operator may do to a run, by its path."""
OTHER_DEEDS = {"/operate/switch", "/operate/users/erase"}
"""What is about no run: test_ops_command.py reads the rows."""


def do(api: Api, path: str, run_id: str) -> Any:
    """Do it, as an operator who has no other right to this run; a backend names the owner where it has to."""
    if path.startswith("/operate"):
        return act(api, path.rpartition("/")[2], run_id, reason=None if "redrive" in path else "r")
    body = {"attempt": 1, "expires_at": stamp(api.world.clock.now() + timedelta(days=9))}
    who: dict[str, Any] = {"sub": BOB, "scope": OPERATE}
    if "redrive" in path:
        who = {"sub": SHOP, "scope": f"{OPERATE} layover/act-as", "headers": named(ANN)}
    return api.post(path.format(run_id=run_id, tool_call_id="c1"), body, **who)


@pytest.mark.parametrize("path", sorted(DEEDS))
def test_every_deed_of_an_operator_leaves_its_row(api: Api, path: str) -> None:
    rule = ApprovalRule(by=("finance",))
    expires_at = api.world.clock.now() + timedelta(days=1)
    run, call = api.do(api.world.suspended(expires_at=expires_at, approval=rule))
    api.do(api.world.token(call))
    assert do(api, path, run.id).status in (200, 202)
    [row] = operations(api)
    assert (row["operation"], row["run_id"], row["owner"]) == (DEEDS[path], run.id, ANN)
    assert row["outcome"] == "done"
    assert row["by"] in (BOB, SHOP)


@pytest.mark.parametrize("path", ["/runs/{run_id}/redrive", sorted(DEEDS)[-1]])
def test_deed_that_is_refused_has_its_row_as_well(api: Api, path: str) -> None:
    expires_at = api.world.clock.now() + timedelta(days=1)
    rule = ApprovalRule(by=("finance",))
    run, call = api.do(api.world.suspended(expires_at=expires_at, approval=rule))
    api.do(api.world.token(call))
    assert api.post(f"/runs/{run.id}/cancel", {}, sub=ANN).status == 202
    assert do(api, path, run.id).status == 409
    assert [row["outcome"] for row in operations(api)] == ["refused"]


def test_who_may_extend_a_call_without_being_an_operator_does_no_deed(api: Api) -> None:
    expires_at = api.world.clock.now() + timedelta(days=1)
    run, call = api.do(api.world.suspended(expires_at=expires_at))
    api.do(api.world.token(call))
    body = {"attempt": 1, "expires_at": stamp(api.world.clock.now() + timedelta(days=9))}
    url = f"/runs/{run.id}/tool-calls/c1/extend"
    assert api.post(url, body, sub=ANN, scope=OPERATE).status == 202
    assert operations(api) == []


def test_every_route_that_changes_something_by_the_right_is_a_deed(api: Api) -> None:
    paths = api.get("/openapi.json", sub=None).json["paths"]
    changing = {
        path
        for path, methods in paths.items()
        for method, route in methods.items()
        if method != "get" and "layover/operate" in route.get("description", "")
    }
    assert changing == DEEDS.keys() | OTHER_DEEDS


def test_right_of_an_operator_is_granted_in_one_place() -> None:
    """Whoever asks for it elsewhere would leave no row."""
    root = Path(__file__).parents[3]
    folders = ("functions", "layers/shared/python/layover")
    files = [path for folder in folders for path in (root / folder).rglob("*.py")]
    uses = {
        path.name: text.count("operate_scope")
        for path in files
        if "desk" not in path.parts and "deployment" not in path.parts
        if "operate_scope" in (text := path.read_text("utf-8"))
    }
    # The second says which scope is missing.
    assert uses == {"deeds.py": 1, "call.py": 1}


# Runs that failed


def really_fail(api: Api, run_id: str) -> None:
    """End the run as the engine does, with its events."""
    runtime, failure = api.world.runtime, RunFailed("refused", type="RateLimitError")

    async def end() -> None:
        log = await api.world.journal.writers.seize(ANN, run_id)
        assert log is not None
        over = failed(failure, run_id)
        await end_even_unsaved(runtime, log, RunState(log.snapshot), head_of(log), over)

    api.do(end())


def test_runs_that_failed_of_one_error_are_redriven_together(api: Api) -> None:
    run_ids = [waiting(api) for _ in range(3)]
    for run_id in run_ids[:2]:
        really_fail(api, run_id)
    answer = api.post("/operate/runs/redrive", {"error": "RateLimitError"}, scope=OPERATE)
    assert {i["id"]: i["status"] for i in answer.json["items"]} == dict.fromkeys(run_ids[:2], 202)
    assert api.get(f"/runs/{run_ids[0]}").json["status"] == "running"


def test_an_owner_whose_redrive_was_not_answered_asks_again_and_starts_nothing_more(
    api: Api,
) -> None:
    run_id = waiting(api)
    really_fail(api, run_id)
    path = f"/runs/{run_id}/redrive"
    first, again = api.post(path), api.post(path)
    assert (first.status, again.status) == (202, 202)
    assert again.json["status"] == "running"
    assert api.world.callbacks.started == [f"{run_id}-1", f"{run_id}-2"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"ids": ["run_1"], "error": "RateLimitError"},
        {"ids": ["run_1"], "since": "2026-01-01T00:00:00Z"},
        {"since": "2026-01-01T00:00:00Z"},
        {"error": ""},
    ],
)
def test_redriving_takes_either_ids_or_an_error(api: Api, body: dict[str, Any]) -> None:
    api.post("/operate/runs/redrive", body, scope=OPERATE).problem(422, "invalid-request")


def test_a_failure_of_another_time_is_not_redriven(api: Api) -> None:
    fail(api, waiting(api))
    body = {"error": "RateLimitError", "until": "2020-01-01T00:00:00Z"}
    assert api.post("/operate/runs/redrive", body, scope=OPERATE).json == {"items": []}
