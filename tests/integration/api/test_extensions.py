"""More time for a waiting call over HTTP: who may give it, which times are refused, what is shown of it."""

from datetime import timedelta
from typing import Any

import pytest

from integration.api.kit import USE, Api
from layover.clock import rfc3339
from layover.values.decision import ApprovalRule
from layover.values.runs.views import Run
from support.worlds.services import ANN, BOB

FINANCE = ApprovalRule(by=("finance",))
MEMBER = {"sub": BOB, "claims": {"cognito:groups": "[finance]"}}
OPERATOR = {"sub": "oz", "scope": f"{USE} layover/operate"}
A_YEAR = timedelta(days=365)
TWO_DAYS = timedelta(days=2)


def waiting(api: Api, expires_after: timedelta | None = timedelta(days=1), **more: Any) -> Run:
    expires_at = api.world.clock.now() + expires_after if expires_after else None
    run, call = api.do(api.world.suspended(expires_at=expires_at, **more))
    api.do(api.world.token(call))
    return run


def after(api: Api, delay: timedelta) -> str:
    return rfc3339(api.world.clock.now() + delay)


def extend(api: Api, run: Run | str, expires_at: Any, **who: Any) -> Any:
    run_id = run if isinstance(run, str) else run.id
    body = {"attempt": 1, "expires_at": expires_at}
    return api.post(f"/runs/{run_id}/tool-calls/c1/extend", body, **who)


def expiry(api: Api, run: Run) -> str:
    return str(api.get(f"/runs/{run.id}").json["pending"][0]["expires_at"])


@pytest.mark.parametrize(
    ("delay", "why"),
    [
        (timedelta(0), "this time is over"),
        (timedelta(days=-1), "this time is over"),
        (timedelta(hours=23), "name a later time"),
        (None, "name a later time"),
        (A_YEAR + timedelta(seconds=1), "a year at most"),
    ],
    ids=["now", "past", "sooner than before", "as before", "over a year"],
)
def test_a_time_that_gives_no_more_or_too_much_is_refused(
    api: Api, delay: timedelta | None, why: str
) -> None:
    run = waiting(api)
    before = api.get(f"/runs/{run.id}").json
    wanted = expiry(api, run) if delay is None else after(api, delay)
    problem = extend(api, run, wanted).problem(422, "invalid-request")
    assert why in problem["detail"]
    assert problem["errors"][0]["loc"] == ["body", "expires_at"]
    assert api.get(f"/runs/{run.id}").json == before


@pytest.mark.parametrize(
    "text", ["2026", "soon", 5, 1.5, None, "2027-01-31T12:00:00", "2027-01-31", ["2027-01-31"]]
)
def test_what_is_no_time_is_refused(api: Api, text: Any) -> None:
    run = waiting(api)
    extend(api, run, text).problem(422, "invalid-request")
    api.post(f"/runs/{run.id}/tool-calls/c1/extend", {}).problem(422, "invalid-request")


@pytest.mark.parametrize("who", [{}, OPERATOR, MEMBER], ids=["owner", "operator", "approver"])
def test_more_time_is_given_to_the_attempt_that_was_seen_only(api: Api, who: Any) -> None:
    """A repetition whose first answer was lost meets a request that was made since."""
    rule: Any = {"approval": FINANCE} if who else {}
    run = waiting(api, **rule)
    url = f"/runs/{run.id}/tool-calls/c1/extend"
    body = {"attempt": 2, "expires_at": after(api, TWO_DAYS)}
    problem = api.post(url, body, **who).problem(409, "decision-already-made")
    assert "attempt 1 of the call waits, not 2" in problem["detail"]
    again = waiting(api, attempt=2, **rule)
    unnamed = {"expires_at": body["expires_at"]}
    url = f"/runs/{again.id}/tool-calls/c1/extend"
    api.post(url, unnamed, **who).problem(409, "decision-already-made")
    api.post(url, {}, **who).problem(422, "invalid-request")
    api.post(url, None, **who).problem(422, "invalid-request")
    assert "approval-extended" not in str(api.get(f"/runs/{run.id}/events").json["items"])


def test_a_call_that_never_expires_is_not_cut_short(api: Api) -> None:
    run = waiting(api, None)
    problem = extend(api, run, after(api, TWO_DAYS)).problem(422, "invalid-request")
    assert "never expires" in problem["detail"]
    assert api.get(f"/runs/{run.id}").json["pending"][0]["expires_at"] is None


def test_a_call_that_does_not_wait_any_more_is_refused_as_a_decision_is(api: Api) -> None:
    expired, decided = waiting(api), waiting(api, timedelta(days=3))
    assert api.post(f"/runs/{decided.id}/tool-calls/c1/approve", {"attempt": 1}).status == 202
    later = after(api, timedelta(days=9))
    api.world.clock.advance(TWO_DAYS)
    for run, why in ((expired, "has expired"), (decided, "was approved already")):
        problem = extend(api, run, later).problem(409, "decision-already-made")
        assert why in problem["detail"]


def test_only_whoever_may_decide_gives_more_time(api: Api) -> None:
    run = waiting(api, approval=FINANCE)
    later = after(api, TWO_DAYS)
    problem = extend(api, run, later, sub=ANN).problem(403, "not-an-approver")
    assert problem["approvers"] == ["finance"]
    for stranger in ({"sub": "carol"}, {**MEMBER, "claims": {"cognito:groups": "[ops]"}}):
        extend(api, run, later, **stranger).problem(404, "not-found")
    extend(api, "run_unknown", later, **MEMBER).problem(404, "not-found")
    before = api.get("/approvals?as=approver", **MEMBER).json["items"][0]["expires_at"]
    assert extend(api, run, later, **MEMBER).json == {"id": run.id, "status": "suspended"}
    [item] = api.get("/approvals?as=approver", **MEMBER).json["items"]
    assert before < item["expires_at"] == later


def test_an_operator_gives_more_time_and_decides_nothing(api: Api) -> None:
    run = waiting(api, approval=FINANCE)
    later = after(api, TWO_DAYS)
    answer = extend(api, run, later, **OPERATOR)
    assert (answer.status, answer.json) == (202, {"id": run.id, "status": "suspended"})
    url = f"/runs/{run.id}/tool-calls/c1/approve"
    api.post(url, {"attempt": 1}, **OPERATOR).problem(404, "not-found")
    own = waiting(api, approval=FINANCE)
    assert extend(api, own, later, sub=ANN, scope=OPERATOR["scope"]).status == 202
    assert expiry(api, own) == later


def test_the_new_time_is_shown_wherever_the_call_is(api: Api) -> None:
    run = waiting(api)
    later = after(api, TWO_DAYS)
    answer = extend(api, run, later)
    assert (answer.status, answer.json["pending"][0]["expires_at"]) == (202, later)
    assert expiry(api, run) == later
    assert api.get("/approvals").json["items"][0]["expires_at"] == later
    [event] = api.get(f"/runs/{run.id}/events").json["items"]
    about = {name: event[name] for name in ("type", "tool_call_id", "by", "expires_at")}
    expected = {"tool_call_id": "c1", "by": ANN, "expires_at": later}
    assert about == {"type": "approval-extended", **expected}


def test_a_repeated_request_changes_nothing_and_a_later_time_is_taken(api: Api) -> None:
    run = waiting(api)
    later, latest = after(api, TWO_DAYS), after(api, A_YEAR)
    assert [extend(api, run, later).status for _ in range(2)] == [202, 200]
    assert extend(api, run, latest).status == 202
    extend(api, run, later).problem(422, "invalid-request")
    kinds = [e["type"] for e in api.get(f"/runs/{run.id}/events").json["items"]]
    assert kinds == ["approval-extended"] * 2


def test_a_call_may_be_decided_after_its_first_expiry(api: Api) -> None:
    run = waiting(api)
    extend(api, run, after(api, TWO_DAYS))
    api.world.clock.advance(timedelta(days=1, hours=1))
    assert api.post(f"/runs/{run.id}/tool-calls/c1/approve", {"attempt": 1}).status == 202
