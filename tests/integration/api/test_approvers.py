"""Approvers over HTTP: groups of tokens, what is shown to whom, and what is refused how."""

import base64
import json
from typing import Any

import pytest

from integration.api.kit import Api
from layover.values.decision import ApprovalRule
from layover.values.runs.views import Run
from support.worlds.services import ANN, BOB

RULE = ApprovalRule(by=("finance",), quorum=2)
GROUPS = "cognito:groups"


def asked(api: Api, **rule: Any) -> tuple[Run, str]:
    run, call = api.do(api.world.suspended(approval=RULE.model_copy(update=rule)))
    api.do(api.world.token(call))
    return run, f"/runs/{run.id}/tool-calls/c1"


def member(sub: str, groups: Any = "[finance]") -> dict[str, Any]:
    return {"sub": sub, "claims": {GROUPS: groups}}


def token(**payload: Any) -> dict[str, str]:
    text = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    return {"Authorization": f"Bearer eyJ0.{text}.c2ln"}


@pytest.mark.parametrize(
    "groups", ["", "[]", "finances", "[finance-interns]", '["finance interns"]', '["', 5, None, {}]
)
def test_a_caller_of_no_group_of_it_finds_no_run(api: Api, groups: Any) -> None:
    _, url = asked(api)
    api.post(f"{url}/approve", {"attempt": 1}, **member(BOB, groups)).problem(404, "not-found")
    assert api.get("/approvals?as=approver", **member(BOB, groups)).json["items"] == []


@pytest.mark.parametrize(
    "groups",
    [
        "[finance]",
        "[ops finance]",
        "[finance, ops]",
        "finance",
        "ops,finance",
        '["ops","finance"]',
        ["ops", "finance"],
    ],
    ids=str,
)
def test_groups_are_read_as_gateways_pass_them_on(api: Api, groups: Any) -> None:
    _, url = asked(api)
    assert api.post(f"{url}/deny", {"attempt": 1}, **member(BOB, groups)).status == 202


def test_a_group_with_a_blank_in_its_name_is_not_two(api: Api) -> None:
    """The authorizer's text does not tell; the token, which it has verified, does."""
    _, url = asked(api)
    interns = {GROUPS: ["finance interns"], "sub": BOB}
    who = member(BOB, "[finance interns]") | {"headers": token(**interns)}
    api.post(f"{url}/approve", {"attempt": 1}, **who).problem(404, "not-found")
    # One that is not this caller's says nothing.
    other = member(BOB, "[ops]") | {"headers": token(sub=ANN, **{GROUPS: ["finance"]})}
    api.post(f"{url}/approve", {"attempt": 1}, **other).problem(404, "not-found")
    both = member(BOB, "[finance interns finance]")
    both["headers"] = token(**(interns | {GROUPS: ["finance interns", "finance"]}))
    assert api.post(f"{url}/approve", {"attempt": 1}, **both).status == 202


@pytest.mark.parametrize("who", [{"sub": ANN}, member(ANN)], ids=["owner", "owner in finance"])
def test_whoever_asked_is_told_who_decides(api: Api, who: dict[str, Any]) -> None:
    run, url = asked(api)
    for verdict in ("approve", "deny"):
        problem = api.post(f"{url}/{verdict}", {"attempt": 1}, **who).problem(
            403, "not-an-approver"
        )
        assert (problem["approvers"], problem["run_id"]) == (["finance"], run.id)
        assert "a member of finance who does not own the run" in problem["detail"]
    assert api.world.callbacks.woken == []


def test_two_members_decide_together(api: Api) -> None:
    run, url = asked(api)
    [item] = api.get("/approvals?as=approver", **member(BOB)).json["items"]
    assert (item["owner"], item["run_id"], item["args"]) == (
        ANN,
        run.id,
        {"order_id": "o1", "amount": 80},
    )
    assert "thread_id" not in item
    first = api.post(f"{url}/approve", {"attempt": 1, "reason": "fine"}, **member(BOB))
    [vote] = first.json["given"]
    assert (vote["by"], vote["reason"]) == (BOB, "fine")
    waits = {"id": run.id, "status": "suspended", "given": [vote], "quorum": 2, "settled": False}
    assert (first.status, first.json) == (202, waits)
    pending = api.get(f"/runs/{run.id}").json["pending"][0]
    assert [(g["by"], g["reason"]) for g in pending["approval"]["given"]] == [(BOB, "fine")]
    again = api.post(f"{url}/approve", {"attempt": 1, "reason": "fine"}, **member(BOB))
    assert (again.status, again.json) == (200, first.json)
    last = api.post(f"{url}/approve", {"attempt": 1}, **member("carol"))
    assert [given["by"] for given in last.json["given"]] == [BOB, "carol"]
    settled = {"id": run.id, "status": "running", "quorum": 2, "settled": True}
    assert (last.status, last.json) == (202, {**settled, "given": last.json["given"]})
    assert api.get("/approvals?as=approver", **member(BOB)).json["items"] == []
    api.get(f"/runs/{run.id}", **member(BOB)).problem(404, "not-found")
    events = api.get(f"/runs/{run.id}/events").json["items"]
    assert [(e["type"], e.get("by", e.get("decided_by"))) for e in events] == [
        ("tool-call-approval", BOB),
        ("tool-call-decided", "carol"),
    ]
    api.post(f"{url}/deny", {"attempt": 1}, **member("dave")).problem(409, "decision-already-made")


def test_the_owners_list_leaves_out_what_only_others_decide(api: Api) -> None:
    run, _ = asked(api)
    assert api.get("/approvals").json["items"] == []
    assert api.get(f"/approvals?thread_id={run.thread_id}").json["items"] == []
    assert api.get(f"/runs/{run.id}").json["pending"][0]["approval"]["by"] == ["finance"]


@pytest.mark.parametrize("query", ["as=nobody", "as=", "as=approver&cursor=x"])
def test_a_role_that_is_none_is_refused(api: Api, query: str) -> None:
    api.get(f"/approvals?{query}", **member(BOB)).problem(422, "invalid-request")
