"""Decisions: the first one wins, the model learns of it, and the callback works beside the API."""

import contextlib
import json
from typing import Any

import pytest

from support.providers.openai import call, calls, say
from support.system.system import Brain, Caller, Json, System, at_once, eventually, unique

ROUNDS = 10


def told(brain: Brain, text: str) -> str:
    """Return the last call's result as the model read it."""
    return str(brain.requests(text)[-1].body["messages"][-1]["content"])


def waiting(ann: Caller, brain: Brain, key: str, **more: Any) -> tuple[str, Json]:
    """The text and a run of which one refund waits."""
    text = brain.plan(call("refund", order_id=key, amount=1, **more), say("done"))
    return text, ann.ask(ann.thread(), text)


def token(system: System, run_id: str, number: int = 1) -> str:
    """The task token of the run's newest request, once `number` were published."""
    found = eventually(lambda: system.published(run_id), lambda f: len(f) >= number)
    return str(found[number - 1]["detail"]["task_token"])


@pytest.mark.parametrize("other", ["approve", "deny"])
def test_of_two_decisions_at_once_one_wins(
    ann: Caller, brain: Brain, system: System, other: str
) -> None:
    for _ in range(ROUNDS):
        key = unique()
        _, run = waiting(ann, brain, key)
        call_id = run["pending"][0]["tool_call_id"]
        answers = at_once(
            lambda r=run["id"], c=call_id: ann.decide(r, c, "approve"),  # type: ignore[misc]
            lambda r=run["id"], c=call_id: ann.decide(r, c, other),  # type: ignore[misc]
        )
        second = 200 if other == "approve" else 409
        assert sorted(a.status for a in answers) == sorted([202, second]), answers
        assert ann.over(run["id"])["status"] == "success"
        approved = other == "approve" or answers[0].status == 202
        assert len(system.ledger(key)) == int(approved)
        decided = [e for e in ann.events(run["id"]) if e["type"] == "tool-call-decided"]
        assert [e["decision"] for e in decided] == ["approved" if approved else "denied"]
        assert decided[0]["decided_by"] == ann.name


def test_a_decision_may_come_before_the_token_is_stored(
    ann: Caller, brain: Brain, system: System
) -> None:
    for _ in range(ROUNDS):
        key = unique()
        text = brain.plan(call("refund", order_id=key, amount=1), say("done"))
        run = ann.start(ann.thread(), text)
        look = lambda r=run["id"]: ann.get(f"/runs/{r}/events?wait=5")["items"]  # noqa: E731
        is_asked = lambda e: bool(e) and e[-1]["type"] == "tool-call-suspended"  # noqa: E731
        seen = eventually(look, is_asked)
        assert ann.decide(run["id"], seen[-1]["tool_call_id"], "approve").status == 202
        assert ann.over(run["id"])["status"] == "success"
        assert len(system.ledger(key)) == 1


def test_a_denied_call_is_told_to_the_model(ann: Caller, brain: Brain, system: System) -> None:
    text, run = waiting(ann, brain, "denied")
    ann.decide(run["id"], run["pending"][0]["tool_call_id"], "deny", reason="too much")
    assert ann.over(run["id"])["text"] == "done"
    read = json.loads(told(brain, text))
    assert "Do not ask for it again" in read.pop("advice")
    assert read == {
        "declined": True,
        "message": 'Tool "refund" was not approved',
        "reason": "too much",
    }
    assert system.ledger("denied") == []


def test_edited_arguments_are_used_and_told(ann: Caller, brain: Brain, system: System) -> None:
    text, run = waiting(ann, brain, "edited")
    args = {"order_id": "edited", "amount": 2.5}
    ann.decide(run["id"], run["pending"][0]["tool_call_id"], "approve", args=args)
    ann.over(run["id"])
    assert [e["amount"] for e in system.ledger("edited")] == [2.5]
    assert "paid 2.5 for edited" in told(brain, text)
    assert '"amount": 2.5' in told(brain, text)


def test_a_call_that_nobody_decides_expires(ann: Caller, brain: Brain, system: System) -> None:
    text = brain.plan(call("urgent", key="expired"), say("too late"))
    run = ann.ask(ann.thread(), text)
    over = ann.over(run["id"])
    assert (over["status"], over["text"]) == ("success", "too late")
    seen = json.loads(told(brain, text))
    assert (seen["declined"], seen["expired"]) == (True, True)
    events = ann.events(run["id"])
    (suspended,) = [e for e in events if e["type"] == "tool-call-suspended"]
    assert suspended["expires_at"] is not None
    # None waits any more where the answer took longer than the call was good for.
    assert all(p["expires_at"] == suspended["expires_at"] for p in run["pending"])
    (decided,) = [e for e in events if e["type"] == "tool-call-decided"]
    assert (decided["decision"], decided["decided_by"]) == ("expired", "system")
    assert system.ledger("expired") == []
    assert ann.decide(run["id"], suspended["tool_call_id"], "approve").status == 409


def test_parallel_calls_decided_at_once_settle_once_each(
    ann: Caller, brain: Brain, system: System
) -> None:
    keys = [unique() for _ in range(4)]
    asked = calls(*(("refund", {"order_id": k, "amount": 1}, k) for k in keys))
    text = brain.plan(asked, say("all four"))
    run = ann.suspended(ann.ask(ann.thread("wide"), text)["id"], 4)
    assert [p["tool_call_id"] for p in run["pending"]] == keys
    answers = at_once(*(lambda k=k: ann.decide(run["id"], k, "approve") for k in keys))
    assert [a.status for a in answers] == [202] * 4
    over = ann.over(run["id"])
    assert over["text"] == "all four"
    assert [len(system.ledger(k)) for k in keys] == [1] * 4
    assert len(brain.requests(text)) == 2
    results = [m["content"][0]["tool_call_id"] for m in over["messages"] if m["role"] == "tool"]
    assert results == keys
    shown = brain.requests(text)[-1].body["messages"][-4:]
    assert [m["tool_call_id"] for m in shown] == keys


def test_a_decision_settles_its_call_while_siblings_wait(
    ann: Caller, brain: Brain, system: System
) -> None:
    one, two = unique(), unique()
    asked = calls(*(("refund", {"order_id": k, "amount": 1}, k) for k in (one, two)))
    text = brain.plan(asked, say("both"))
    run = ann.suspended(ann.ask(ann.thread("wide"), text)["id"], 2)
    assert ann.decide(run["id"], two, "approve").status == 202
    eventually(lambda: system.ledger(two))
    between = ann.run(run["id"])
    assert (between["status"], [p["tool_call_id"] for p in between["pending"]]) == (
        "suspended",
        [one],
    )
    assert len(brain.requests(text)) == 1
    ann.decide(run["id"], one, "deny")
    assert ann.over(run["id"])["text"] == "both"


def test_calls_behind_a_waiting_one_are_not_executed(
    ann: Caller, brain: Brain, system: System
) -> None:
    first, later = unique(), unique()
    asked = calls(
        ("refund", {"order_id": first, "amount": 1}, "w1"), ("look_up", {"key": later}, "w2")
    )
    run = ann.ask(ann.thread(), brain.plan(asked, say("ok")))
    assert [c["tool_call_id"] for c in run["unexecuted"]] == ["w2"]
    assert system.ledger(later) == []
    assert ann.decide(run["id"], "w2", "approve").status == 409
    ann.decide(run["id"], "w1", "approve")
    assert ann.over(run["id"])["unexecuted"] == []
    assert len(system.ledger(later)) == 1


def test_a_call_may_suspend_again(ann: Caller, brain: Brain, system: System) -> None:
    key = unique()
    run = ann.ask(ann.thread(), brain.plan(call("book", key=key), say("booked")))
    call_id = run["pending"][0]["tool_call_id"]
    # A call that is decided before it is awaited is not published.
    first = token(system, run["id"], 1)
    assert ann.decide(run["id"], call_id, "resume", data={"slot": "other"}).status == 202
    again = eventually(
        lambda: ann.run(run["id"]), lambda r: [p["attempt"] for p in r["pending"]] == [2]
    )
    assert again["pending"][0]["tool_call_id"] == call_id
    assert again["pending"][0]["payload"] == {"slots": ["12:00"]}
    stale = ann.decide(run["id"], call_id, "resume", data={"slot": "10:00"}, attempt=1)
    assert stale.status == 409
    second = token(system, run["id"], 2)
    fresh = ann.decide(run["id"], call_id, "resume", data={"slot": "12:00"}, attempt=2)
    assert fresh.status == 202
    assert ann.over(run["id"])["text"] == "booked"
    assert [e["slot"] for e in system.ledger(key)] == ["12:00"]
    assert first != second


def test_the_request_is_published(ann: Caller, brain: Brain, system: System) -> None:
    _, run = waiting(ann, brain, "published")
    token(system, run["id"])
    (event,) = system.published(run["id"])
    (pending,) = run["pending"]
    assert (event["source"], event["detail-type"]) == ("layover", "ApprovalRequested")
    detail = dict(event["detail"])
    assert detail.pop("task_token")
    assert detail == {
        "owner": ann.name,
        "attempt": 1,
        "run_id": run["id"],
        "thread_id": run["thread_id"],
        "agent": "support",
        "tool_call_id": pending["tool_call_id"],
        "tool_name": "refund",
        "kind": "approval",
        "args": {"order_id": "published", "amount": 1},
        "summary": "Pay 1 euros back for published",
        "risk": "low",
        "asked_again": None,
        "taken_back_at": None,
        "denied_before": [],
        "payload": pending["payload"],
        "resume_schema": pending["resume_schema"],
        "agent_path": ["support"],
        "expires_at": None,
        "approval": None,
    }


def test_the_callback_decides(ann: Caller, brain: Brain, system: System) -> None:
    _, run = waiting(ann, brain, "called")
    output = {"approved": True, "args": {"order_id": "called", "amount": 3}, "reason": "fine"}
    steps = system.aws("stepfunctions")
    steps.send_task_success(taskToken=token(system, run["id"]), output=json.dumps(output))
    assert ann.over(run["id"])["text"] == "done"
    assert [e["amount"] for e in system.ledger("called")] == [3.0]
    (decided,) = [e for e in ann.events(run["id"]) if e["type"] == "tool-call-decided"]
    assert (decided["decision"], decided["decided_by"]) == ("approved", "callback")


def test_the_callback_resumes(ann: Caller, brain: Brain, system: System) -> None:
    key = unique()
    run = ann.ask(ann.thread(), brain.plan(call("book", key=key), say("booked")))
    steps = system.aws("stepfunctions")
    output = json.dumps({"data": {"slot": "11:00"}})
    steps.send_task_success(taskToken=token(system, run["id"]), output=output)
    assert ann.over(run["id"])["text"] == "booked"
    assert [e["slot"] for e in system.ledger(key)] == ["11:00"]


def test_a_failure_of_the_callback_denies_with_its_cause(
    ann: Caller, brain: Brain, system: System
) -> None:
    text, run = waiting(ann, brain, "failure")
    steps = system.aws("stepfunctions")
    steps.send_task_failure(taskToken=token(system, run["id"]), error="Denied", cause="not today")
    assert ann.over(run["id"])["text"] == "done"
    assert json.loads(told(brain, text))["reason"] == "not today"
    assert system.ledger("failure") == []


@pytest.mark.parametrize(
    "output",
    [
        {},
        [],
        "yes",
        None,
        {"approved": "yes"},
        {"approved": True, "args": {"amount": "x"}},
        {"data": {}},
        {"approved": True, "more": 1},
    ],
)
def test_an_invalid_callback_leaves_the_call_waiting_on_a_new_token(
    ann: Caller, brain: Brain, system: System, output: Any
) -> None:
    key = unique()
    _, run = waiting(ann, brain, key)
    steps = system.aws("stepfunctions")
    first = token(system, run["id"])
    steps.send_task_success(taskToken=first, output=json.dumps(output))
    second = token(system, run["id"], 2)
    assert first != second
    assert ann.run(run["id"])["pending"] == run["pending"]
    steps.send_task_success(taskToken=second, output='{"approved": true}')
    assert ann.over(run["id"])["status"] == "success"
    assert len(system.ledger(key)) == 1


def test_a_callback_that_comes_late_is_ignored(ann: Caller, brain: Brain, system: System) -> None:
    _, run = waiting(ann, brain, "late")
    known = token(system, run["id"])
    assert ann.decide(run["id"], run["pending"][0]["tool_call_id"], "deny").status == 202
    steps = system.aws("stepfunctions")
    with contextlib.suppress(steps.exceptions.ClientError):
        steps.send_task_success(taskToken=known, output='{"approved": true}')
    assert ann.over(run["id"])["status"] == "success"
    assert system.ledger("late") == []


def test_callback_and_api_at_once_decide_once(ann: Caller, brain: Brain, system: System) -> None:
    steps = system.aws("stepfunctions")
    for _ in range(5):
        key = unique()
        _, run = waiting(ann, brain, key)
        known = token(system, run["id"])
        call_id = run["pending"][0]["tool_call_id"]

        def by_callback(known: str = known) -> None:
            try:
                steps.send_task_success(taskToken=known, output='{"approved": true}')
            except steps.exceptions.ClientError:
                return

        at_once(by_callback, lambda r=run["id"], c=call_id: ann.decide(r, c, "approve"))  # type: ignore[misc]
        assert ann.over(run["id"])["status"] == "success"
        assert len(system.ledger(key)) == 1
