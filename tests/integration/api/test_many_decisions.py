"""Many waiting calls at once: one request that decides them, and lists of those that a caller looks for."""

from datetime import timedelta
from typing import Any

import pytest

from integration.api.kit import Api
from layover.values.decision import ApprovalRule, Risk
from layover.values.runs.run import SuspensionKind
from layover.values.runs.views import Run
from support.worlds.services import ANN, BOB

FINANCE = ApprovalRule(by=("finance",))
MEMBER = {"claims": {"cognito:groups": "[finance]"}}


def waiting(api: Api, **suspension: Any) -> Run:
    run, call = api.do(api.world.suspended(**suspension))
    api.do(api.world.token(call))
    return run


def item(run: Run, decision: str = "approve", **more: Any) -> dict[str, Any]:
    return {"run_id": run.id, "tool_call_id": "c1", "decision": decision, "attempt": 1, **more}


def decide(api: Api, *items: Any, **who: Any) -> Any:
    return api.post("/approvals/decisions", {"items": list(items)}, **who)


@pytest.mark.parametrize(
    ("items", "where"),
    [
        ([], ["body", "items"]),
        ([{}], ["body", "items", 0]),
        ([{"run_id": "r", "tool_call_id": "c", "decision": "perhaps"}], ["body", "items", 0]),
        (
            [{"run_id": "r", "tool_call_id": "c", "decision": "deny", "attempt": 1, "args": {}}],
            ["body", "items", 0, "args"],
        ),
        (
            [{"run_id": "r", "tool_call_id": "c", "decision": "resume", "attempt": 1}],
            ["body", "items", 0, "data"],
        ),
        ([{"run_id": "r", "tool_call_id": "c", "decision": "approve"}] * 101, ["body", "items"]),
    ],
    ids=["none", "empty", "unknown", "args of a denial", "no data", "101"],
)
def test_a_body_of_the_wrong_shape_decides_nothing(api: Api, items: Any, where: Any) -> None:
    run = waiting(api)
    problem = decide(api, *([item(run)] if len(items) == 1 else []), *items).problem(
        422, "invalid-request"
    )
    found = [error["loc"] for error in problem["errors"]]
    shifted = [n + 1 if n == 0 and len(items) == 1 else n for n in where]
    assert found[0][: len(shifted)] == shifted
    assert len(api.get(f"/runs/{run.id}").json["pending"]) == 1


def test_each_is_judged_as_its_own_request_and_none_changes_another(api: Api) -> None:
    open_run, settled_run, denied_run = waiting(api), waiting(api), waiting(api)
    assert api.post(f"/runs/{settled_run.id}/tool-calls/c1/approve", {"attempt": 1}).status == 202
    answer = decide(
        api,
        item(settled_run, "deny"),
        item(open_run, "approve", attempt=7),
        {**item(open_run), "run_id": "run_unknown"},
        item(denied_run, "deny", reason="no"),
        item(open_run, "resume", data=1),
        item(open_run),
    )
    assert answer.status == 200
    found = answer.json["items"]
    assert [i["run_id"] for i in found] == [
        *(settled_run.id, open_run.id, "run_unknown", denied_run.id, open_run.id, open_run.id)
    ]
    assert [i["status"] for i in found] == [409, 409, 404, 202, 422, 202]
    problems = [i.get("problem", {}).get("type") for i in found]
    urn = "urn:layover:problem:"
    assert problems == [
        f"{urn}decision-already-made",
        f"{urn}decision-already-made",
        f"{urn}not-found",
        None,
        f"{urn}decision-invalid",
        None,
    ]
    assert "problem" not in found[3]


def test_a_repeated_request_changes_nothing_and_says_so(api: Api) -> None:
    runs = [waiting(api) for _ in range(3)]
    items = [item(run, "deny", reason="no") for run in runs]
    assert [i["status"] for i in decide(api, *items).json["items"]] == [202, 202, 202]
    assert [i["status"] for i in decide(api, *items).json["items"]] == [200, 200, 200]


def test_an_approver_decides_for_many_users_at_once(api: Api) -> None:
    run = waiting(api, approval=FINANCE)
    (result,) = decide(api, item(run), sub=ANN).json["items"]
    assert (result["status"], result["problem"]["approvers"]) == (403, ["finance"])
    (result,) = decide(api, item(run), sub="carol").json["items"]
    assert (result["status"], result["problem"].get("run_id")) == (404, run.id)
    (result,) = decide(api, item(run), sub=BOB, **MEMBER).json["items"]
    assert result["status"] == 202


def listed(api: Api, query: str = "", **who: Any) -> list[str]:
    answer = api.get(f"/approvals{query}", **who)
    assert answer.status == 200, answer.json
    return [i["run_id"] for i in answer.json["items"]]


@pytest.mark.parametrize(
    "query", ["risk=extreme", "before=yesterday", "before=2026", "owner=bob", "tols=refund"]
)
def test_a_filter_that_means_nothing_is_refused(api: Api, query: str) -> None:
    api.get(f"/approvals?{query}").problem(422, "invalid-request")


def test_the_owners_calls_are_found_by_agent_tool_risk_and_time(api: Api) -> None:
    old = waiting(api, risk=Risk.HIGH)
    api.world.clock.advance(timedelta(hours=1))
    new = waiting(api, risk=Risk.LOW)
    agent = api.get(f"/runs/{new.id}").json["agent"]
    assert listed(api) == [old.id, new.id]
    assert listed(api, "?risk=high") == [old.id]
    assert listed(api, f"?agent={agent}&tool=refund&risk=low") == [new.id]
    assert listed(api, "?agent=other") == []
    assert listed(api, "?tool=other") == []
    limit = api.get(f"/runs/{new.id}").json["pending"][0]["requested_at"]
    assert listed(api, f"?before={limit}") == [old.id]


def test_an_approver_finds_the_calls_of_one_user(api: Api) -> None:
    run = waiting(api, approval=FINANCE)
    carol = {"sub": "carol", **MEMBER}
    assert listed(api, "?as=approver", **carol) == [run.id]
    assert listed(api, f"?as=approver&owner={ANN}", **carol) == [run.id]
    assert listed(api, f"?as=approver&owner={BOB}", **carol) == []


def test_a_page_is_filled_with_calls_that_pass_the_filter(api: Api) -> None:
    runs = [waiting(api, risk=Risk.HIGH if n % 5 == 4 else Risk.LOW) for n in range(10)]
    answer = api.get("/approvals?risk=high&limit=2").json
    assert [i["run_id"] for i in answer["items"]] == [runs[4].id, runs[9].id]
    first = api.get("/approvals?risk=high&limit=1").json
    rest = api.get(f"/approvals?risk=high&limit=1&cursor={first['next_cursor']}").json
    assert [i["run_id"] for i in (*first["items"], *rest["items"])] == [runs[4].id, runs[9].id]


def test_questions_are_declined_with_others_and_alone(api: Api) -> None:
    first, second, third = (waiting(api, kind=SuspensionKind.INPUT) for _ in range(3))
    many = decide(
        api,
        item(first, "deny", reason="private", attempt=1),
        item(second, "approve"),
        item(second, "deny", attempt=2),
    )
    assert [each["status"] for each in many.json["items"]] == [202, 422, 409]
    again = decide(
        api, item(first, "deny", reason="private", attempt=1), item(first, "resume", data=1)
    )
    assert [each["status"] for each in again.json["items"]] == [200, 409]
    path = f"/runs/{third.id}/tool-calls/c1"
    assert api.post(f"{path}/deny", {"attempt": 1}).status == 202
    assert api.post(f"{path}/deny", {"attempt": 1}).status == 200
    late = api.post(f"{path}/resume", {"attempt": 1, "data": {"slot": "9:00"}})
    late.problem(409, "decision-already-made")
    assert api.get(path).json["decision"]["decision"] == "denied"
    left = [each["run_id"] for each in api.get("/approvals").json["items"]]
    assert left == [second.id]
