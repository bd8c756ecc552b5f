"""Busy threads, cancelled runs, repeated requests."""

import threading
import time

import pytest

from support.providers.openai import call, say
from support.system.system import Brain, Caller, System, at_once, eventually, in_time, unique

DAY_S = 24 * 3600


def test_a_second_run_is_refused_while_one_is_active(ann: Caller, brain: Brain) -> None:
    thread, hold = ann.thread("plain"), threading.Event()
    run = ann.start(thread, brain.plan(say("ok", hold=hold)))
    refused = ann.call("POST", f"/threads/{thread}/runs", {"input": "me too"})
    assert refused.status == 409
    assert refused.body["active_run"] == run["id"]
    assert [r["id"] for r in ann.get(f"/threads/{thread}/runs")["items"]] == [run["id"]]
    hold.set()
    ann.over(run["id"])
    assert ann.ask(thread, brain.plan(say("free")))["text"] == "free"


def test_a_message_is_answered_while_a_run_waits_which_goes_on_knowing_it(
    ann: Caller, brain: Brain, system: System
) -> None:
    thread, key = ann.thread(), unique()
    text = brain.plan(call("refund", order_id=key, amount=1), say("done"), text="refund it")
    waits = ann.ask(thread, text)
    other = ann.ask(thread, brain.plan(say("it rains"), text="weather?"))
    assert (other["status"], other["text"]) == ("success", "it rains")
    head = ann.get(f"/threads/{thread}")
    assert head["active_run"] is None
    assert head["waiting_runs"] == [{"id": waits["id"], "status": "suspended"}]
    assert system.ledger(key) == []
    ann.decide(waits["id"], waits["pending"][0]["tool_call_id"], "approve")
    assert ann.over(waits["id"])["text"] == "done"
    assert len(system.ledger(key)) == 1
    assert "it rains" in str(brain.requests(text)[-1].body)
    roles = [m["role"] for m in ann.messages(thread)]
    assert roles == ["user", "assistant", "tool", "user", "assistant", "assistant"]
    assert ann.get(f"/threads/{thread}")["waiting_runs"] == []


def test_a_run_that_is_decided_while_another_works_goes_on_after_it(
    ann: Caller, brain: Brain, system: System
) -> None:
    thread, key, hold = ann.thread(), unique(), threading.Event()
    waits = ann.ask(thread, brain.plan(call("refund", order_id=key, amount=1), say("done")))
    text = brain.plan(say("slow", hold=hold))
    other = ann.start(thread, text)
    brain.asked(text)
    ann.decide(waits["id"], waits["pending"][0]["tool_call_id"], "approve")
    eventually(lambda: len(system.ledger(key)) == 1)
    hold.set()
    assert ann.over(other["id"])["text"] == "slow"
    assert ann.over(waits["id"])["text"] == "done"
    texts = [p["text"] for m in ann.messages(thread) for p in m["content"] if p["type"] == "text"]
    assert texts[-2:] == ["slow", "done"]
    assert len(system.ledger(key)) == 1


def test_a_message_steers_a_run_that_waits_or_withdraws_it(
    ann: Caller, brain: Brain, system: System
) -> None:
    thread, key = ann.thread(), unique()
    text = brain.plan(call("refund", order_id=key, amount=1), say("not then"))
    waits = ann.ask(thread, text)
    steered = ann.start(thread, "hurry", on_waiting="steer")
    assert (steered["id"], steered["status"]) == (waits["id"], "suspended")
    withdrawn = ann.start(thread, "never mind", on_waiting="withdraw")
    assert withdrawn["id"] == waits["id"]
    assert ann.over(waits["id"])["text"] == "not then"
    assert system.ledger(key) == []
    assert "never mind" in str(brain.requests(text)[-1].body)
    roles = [m["role"] for m in ann.messages(thread)]
    assert roles == ["user", "assistant", "tool", "user", "user", "assistant"]


def test_of_many_runs_at_once_one_is_accepted(ann: Caller, brain: Brain) -> None:
    for _ in range(5):
        thread = ann.thread("plain")
        hold = threading.Event()
        text = brain.plan(say("only", hold=hold))
        path = f"/threads/{thread}/runs"
        answers = at_once(*[lambda p=path, t=text: ann.call("POST", p, {"input": t})] * 4)
        hold.set()
        assert sorted(a.status for a in answers) == [202, 409, 409, 409]
        (accepted,) = [a.body["id"] for a in answers if a.status == 202]
        assert {a.body["active_run"] for a in answers if a.status == 409} == {accepted}
        assert ann.over(accepted)["status"] == "success"
        assert len(ann.get(f"/threads/{thread}/runs")["items"]) == 1


def test_enqueued_runs_go_one_after_the_other(ann: Caller, brain: Brain) -> None:
    thread = ann.thread("plain")
    hold = threading.Event()
    texts = [brain.plan(say(f"answer {i}", hold=hold), text=f"question {i}") for i in range(4)]
    runs = [ann.start(thread, text, on_busy="enqueue") for text in texts]
    assert [r["status"] for r in runs] == ["running", "queued", "queued", "queued"]
    assert ann.run(runs[2]["id"])["status"] == "queued"
    brain.asked(texts[0])
    assert len(ann.messages(thread)) == 1
    hold.set()
    done = [ann.over(r["id"]) for r in runs]
    assert [r["text"] for r in done] == [f"answer {i}" for i in range(4)]
    said = [m["content"][0]["text"].split("]] ")[-1] for m in ann.messages(thread)]
    assert said == [t for i in range(4) for t in (f"question {i}", f"answer {i}")]
    assert "answer 2" in str(brain.requests(texts[3])[0].body)


def test_interrupting_cancels_the_active_run_and_goes_first(ann: Caller, brain: Brain) -> None:
    def interrupted() -> float:
        thread = ann.thread("plain")
        hold = threading.Event()
        text = brain.plan(say("never", hold=hold))
        stuck = ann.start(thread, text)
        brain.asked(text)
        queued = ann.start(thread, brain.plan(say("later")), on_busy="enqueue")
        began = time.monotonic()
        urgent = ann.start(thread, brain.plan(say("now")), on_busy="interrupt")
        assert ann.over(stuck["id"], 60)["status"] == "cancelled"
        took = time.monotonic() - began
        assert ann.over(urgent["id"])["text"] == "now"
        assert ann.over(queued["id"])["text"] == "later"
        hold.set()
        answers = [
            m["content"][0]["text"] for m in ann.messages(thread) if m["role"] == "assistant"
        ]
        assert answers == ["now", "later"]
        return took

    in_time(4, interrupted)


def test_a_run_may_interrupt_one_that_waits(ann: Caller, brain: Brain, system: System) -> None:
    thread = ann.thread()
    key = unique()
    asked = brain.plan(call("refund", order_id=key, amount=1), say("never"))
    waits = ann.ask(thread, asked)
    urgent = ann.ask(thread, brain.plan(say("now")), on_busy="interrupt")
    assert urgent["text"] == "now"
    assert ann.run(waits["id"])["status"] == "cancelled"
    assert system.ledger(key) == []


def test_a_run_whose_model_is_stuck_is_cancelled_within_two_seconds(
    ann: Caller, brain: Brain
) -> None:
    def cancelled() -> float:
        hold = threading.Event()
        thread = ann.thread("plain")
        text = brain.plan(say("never", hold=hold))
        run = ann.start(thread, text)
        brain.asked(text)
        began = time.monotonic()
        assert ann.want(202, "POST", f"/runs/{run['id']}/cancel")["id"] == run["id"]
        over = ann.over(run["id"], 60)
        took = time.monotonic() - began
        hold.set()
        assert (over["status"], over["finish_reason"], over["error"]) == (
            "cancelled",
            "cancelled",
            None,
        )
        types = [e["type"] for e in ann.events(run["id"])]
        assert types[-1] == "finish"
        assert "error" not in types
        assert "agent-end" not in types
        assert ann.ask(thread, brain.plan(say("free")))["text"] == "free"
        return took

    in_time(2.5, cancelled)


def test_a_stuck_tool_does_not_hold_a_cancelled_run(
    ann: Caller, brain: Brain, system: System
) -> None:
    def cancelled() -> float:
        key = unique()
        thread = ann.thread()
        run = ann.start(thread, brain.plan(call("slow", key=key), say("never")))
        eventually(lambda: system.ledger(key))
        began = time.monotonic()
        ann.want(202, "POST", f"/runs/{run['id']}/cancel")
        over = ann.over(run["id"], 60)
        took = time.monotonic() - began
        assert over["status"] == "cancelled"
        assert ann.ask(thread, brain.plan(say("free")))["text"] == "free"
        return took

    in_time(2.5, cancelled)


def test_a_suspended_run_is_cancelled_at_once(ann: Caller, brain: Brain, system: System) -> None:
    def cancelled() -> float:
        key = unique()
        run = ann.ask(
            ann.thread(), brain.plan(call("refund", order_id=key, amount=1), say("never"))
        )
        answer = ann.call("POST", f"/runs/{run['id']}/cancel")
        assert (answer.status, answer.body["status"]) == (202, "cancelled")
        call_id = run["pending"][0]["tool_call_id"]
        assert ann.decide(run["id"], call_id, "approve").status == 409
        assert ann.get("/approvals")["items"] == []
        (decided,) = [e for e in ann.events(run["id"]) if e["type"] == "tool-call-decided"]
        assert (decided["decision"], decided["decided_by"]) == ("cancelled", ann.name)
        assert system.ledger(key) == []
        return answer.seconds

    in_time(2, cancelled)


def test_a_queued_run_is_cancelled_before_it_begins(ann: Caller, brain: Brain) -> None:
    thread = ann.thread("plain")
    hold = threading.Event()
    first = ann.start(thread, brain.plan(say("one", hold=hold)))
    text = brain.plan(say("never"))
    second = ann.start(thread, text, on_busy="enqueue")
    answer = ann.want(202, "POST", f"/runs/{second['id']}/cancel")
    assert answer["status"] == "cancelled"
    assert [e["type"] for e in ann.events(second["id"])] == ["finish"]
    hold.set()
    ann.over(first["id"])
    assert brain.requests(text) == []
    # What was said stays in the thread, behind the run that was at work.
    roles = [message["role"] for message in ann.messages(thread)]
    assert roles == ["user", "assistant", "user"]


def test_a_finished_run_stays_as_it_is(ann: Caller, brain: Brain) -> None:
    run = ann.ask(ann.thread("plain"), brain.plan(say("done")))
    assert ann.want(202, "POST", f"/runs/{run['id']}/cancel") == ann.run(run["id"]) == run


def test_a_decision_that_races_a_cancel_leaves_one_outcome(
    ann: Caller, brain: Brain, system: System
) -> None:
    for _ in range(5):
        key = unique()
        asked = call("refund", order_id=key, amount=1)
        run = ann.ask(ann.thread(), brain.plan(asked, say("done")))
        call_id = run["pending"][0]["tool_call_id"]
        decided, cancelled = at_once(
            lambda r=run["id"], c=call_id: ann.decide(r, c, "approve"),  # type: ignore[misc]
            lambda r=run["id"]: ann.call("POST", f"/runs/{r}/cancel"),  # type: ignore[misc]
        )
        assert decided.status in (202, 409)
        assert cancelled.status == 202
        over = ann.over(run["id"])
        assert over["status"] in ("cancelled", "success")
        types = [e["type"] for e in ann.events(run["id"])]
        assert types.count("finish") == 1
        assert types.count("tool-call-decided") == 1
        assert len(system.ledger(key)) <= int(decided.status == 202)
        assert ann.get(f"/threads/{run['thread_id']}")["active_run"] is None


def test_one_key_sent_twice_at_once_is_one_run(ann: Caller, brain: Brain) -> None:
    for _ in range(5):
        thread = ann.thread("plain")
        body = {"input": brain.plan(say("once"))}
        key = unique("key")
        path = f"/threads/{thread}/runs"
        post = lambda p=path, b=body, k=key: ann.call("POST", p, b, idempotency_key=k)  # noqa: E731
        answers = at_once(post, post, post)
        assert [a.status for a in answers] == [202] * 3
        assert len({a.body["id"] for a in answers}) == 1
        ann.over(answers[0].body["id"])
        assert len(ann.get(f"/threads/{thread}/runs")["items"]) == 1


def test_a_key_belongs_to_one_request_and_one_user(ann: Caller, bob: Caller, brain: Brain) -> None:
    thread = ann.thread("plain")
    text = brain.plan(say("once"))
    path = f"/threads/{thread}/runs"
    run = ann.want(202, "POST", path, {"input": text}, idempotency_key="mine")
    ann.over(run["id"])
    again = ann.want(200, "POST", path, {"input": text}, idempotency_key="mine", prefer="wait=5")
    assert (again["id"], again["status"]) == (run["id"], "success")
    ann.want(409, "POST", path, {"input": "other"}, idempotency_key="mine")
    ann.want(
        409, "POST", f"/threads/{ann.thread('plain')}/runs", {"input": text}, idempotency_key="mine"
    )
    theirs = f"/threads/{bob.thread('plain')}/runs"
    other = bob.want(202, "POST", theirs, {"input": text}, idempotency_key="mine")
    assert other["id"] != run["id"]
    assert len(ann.get(path)["items"]) == 1


def test_a_key_is_forgotten_after_a_day(ann: Caller, brain: Brain, system: System) -> None:
    thread = ann.thread("plain")
    path, body = f"/threads/{thread}/runs", {"input": brain.plan(say("once"))}
    first = ann.want(202, "POST", path, body, idempotency_key="day")
    ann.over(first["id"])
    system.advance_clock(DAY_S - 60)
    assert ann.want(202, "POST", path, body, idempotency_key="day")["id"] == first["id"]
    system.advance_clock(120)
    second = ann.want(202, "POST", path, body, idempotency_key="day")
    assert second["id"] != first["id"]
    assert ann.over(second["id"])["status"] == "success"
    assert ann.messages(thread)[-1]["created_at"] > ann.messages(thread)[0]["created_at"]


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_is_none_is_refused(ann: Caller, key: str) -> None:
    path = f"/threads/{ann.thread('plain')}/runs"
    ann.want(422, "POST", path, {"input": "a"}, idempotency_key=key)
