"""One call about which people were asked, over HTTP: who may read it, and what it says once it is decided."""

from typing import Any

import pytest

from integration.api.kit import Api
from layover.values.decision import ApprovalRule
from layover.values.runs.views import Run
from support.worlds.services import ANN, BOB

RULE = ApprovalRule(by=("finance",), quorum=2)


def asked(api: Api, rule: ApprovalRule | None = RULE) -> tuple[Run, str]:
    run, call = api.do(api.world.suspended(approval=rule))
    api.do(api.world.token(call))
    return run, f"/runs/{run.id}/tool-calls/c1"


def member(sub: str, group: str = "finance") -> dict[str, Any]:
    return {"sub": sub, "claims": {"cognito:groups": f"[{group}]"}}


@pytest.mark.parametrize("who", [{"sub": BOB}, member(BOB, "legal")], ids=["no group", "another"])
@pytest.mark.parametrize("rule", [RULE, None], ids=["others decide", "the owner decides"])
def test_whoever_may_not_decide_learns_nothing_of_a_call(
    api: Api, rule: ApprovalRule | None, who: dict[str, Any]
) -> None:
    run, url = asked(api, rule)
    api.get(url, **who).problem(404, "not-found")
    if rule is None:
        api.get(url, **member(BOB)).problem(404, "not-found")
    api.post(f"{url}/deny", {"attempt": 1}, **(member(BOB) if rule else {"sub": ANN}))
    refused = api.get(url, **who).problem(404, "not-found")
    there_is_none = api.get("/runs/run_none/tool-calls/c1", **who).problem(404, "not-found")
    assert refused["detail"] == there_is_none["detail"]
    assert run.thread_id not in str(refused)


def test_call_that_does_not_exist_is_not_found(api: Api) -> None:
    run, _ = asked(api)
    api.get(f"/runs/{run.id}/tool-calls/c9").problem(404, "not-found")
    api.get(f"/runs/{run.id}/tool-calls/c9", **member(BOB)).problem(404, "not-found")


def test_call_of_a_deleted_thread_is_not_found(api: Api) -> None:
    run, url = asked(api)
    assert api.send("DELETE", f"/threads/{run.thread_id}").status == 204
    api.get(url).problem(404, "not-found")
    api.get(url, **member(BOB)).problem(404, "not-found")


def test_approver_reads_a_call_and_nothing_of_its_thread(api: Api) -> None:
    _, url = asked(api)
    [item] = api.get("/approvals?as=approver", **member(BOB)).json["items"]
    seen = api.get(url, **member(BOB)).json
    assert seen == {**item, "waits": True, "may_decide": True, "decision": None}
    assert "thread_id" not in seen
    api.post(f"{url}/approve", {"attempt": 1, "reason": "fine"}, **member(BOB))
    voted = api.get(url, **member(BOB)).json
    assert (voted["waits"], voted["approval"]["given"][0]["reason"]) == (True, "fine")


def test_owner_reads_who_may_decide_in_their_place(api: Api) -> None:
    run, url = asked(api)
    seen = api.get(url).json
    assert (seen["thread_id"], seen["owner"]) == (run.thread_id, ANN)
    assert (seen["waits"], seen["may_decide"]) == (True, False)
    assert seen["approval"]["by"] == ["finance"]
    _, own_url = asked(api, None)
    assert api.get(own_url).json["may_decide"] is True


def test_decided_call_says_what_was_decided(api: Api) -> None:
    _, url = asked(api)
    api.post(f"{url}/deny", {"attempt": 1, "reason": "too much"}, **member("carol"))
    for who in ({"sub": ANN}, member(BOB)):
        seen = api.get(url, **who).json
        assert seen["waits"] is False
        note = seen["decision"]
        assert (note["decision"], note["decided_by"], note["reason"]) == (
            "denied",
            "carol",
            "too much",
        )


def test_call_of_a_run_that_was_cancelled_waits_no_more(api: Api) -> None:
    run, url = asked(api)
    assert api.post(f"/runs/{run.id}/cancel").status == 202
    for who in ({"sub": ANN}, member(BOB)):
        assert api.get(url, **who).json["waits"] is False
