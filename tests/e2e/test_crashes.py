"""Processes die; runs do not. SIGKILL is what a crash of a Lambda environment is here."""

import threading
import time

from support.providers.openai import call, say
from support.system.system import Brain, Caller, System, eventually, in_time, unique

RECOVERY_S = 8.0
"""Five seconds by contract, and what the rest of a run takes on a busy machine."""


def test_a_model_call_cut_by_a_crash_is_made_again(
    ann: Caller, brain: Brain, system: System
) -> None:
    def recovered() -> float:
        hold = threading.Event()
        text = brain.plan([say("lost", hold=hold), say("kept")])
        run = ann.start(ann.thread("plain"), text, stream=True)
        brain.asked(text)
        # What was only emitted dies with its writer.
        path = f"/runs/{run['id']}/events"
        eventually(lambda: "turn-start" in [e["type"] for e in ann.get(path)["items"]])
        assert system.kill("turn")
        began = time.monotonic()
        over = ann.over(run["id"])
        took = time.monotonic() - began
        hold.set()
        assert (over["status"], over["text"]) == ("success", "kept")
        types = [(e["type"], e.get("step")) for e in ann.events(run["id"])]
        assert types.count(("agent-start", None)) == 1
        assert types.count(("turn-start", 1)) == 2
        assert types.count(("finish", None)) == 1
        return took

    in_time(RECOVERY_S, recovered)


def test_a_tool_that_was_cut_is_in_doubt_and_not_repeated(
    ann: Caller, brain: Brain, system: System
) -> None:
    def recovered() -> float:
        key = unique()
        text = brain.plan(call("slow", key=key), say("I do not know"))
        run = ann.start(ann.thread(), text)
        eventually(lambda: system.ledger(key))
        assert system.kill("turn")
        began = time.monotonic()
        over = ann.over(run["id"], 60)
        took = time.monotonic() - began
        assert (over["status"], over["text"]) == ("success", "I do not know")
        assert [e["what"] for e in system.ledger(key)] == ["slow"]
        told = brain.requests(text)[-1].body["messages"][-1]["content"]
        assert told == "Interrupted: slow may or may not have taken effect"
        assert len(brain.requests(text)) == 2
        return took

    in_time(RECOVERY_S, recovered)


def test_an_idempotent_tool_that_was_cut_runs_again_with_the_same_key(
    ann: Caller, brain: Brain, system: System
) -> None:
    def recovered() -> float:
        key = unique()
        text = brain.plan(call("slow_again", key=key), say("done"))
        run = ann.start(ann.thread(), text)
        eventually(lambda: system.ledger(key))
        assert system.kill("turn")
        began = time.monotonic()
        eventually(lambda: system.ledger(key), lambda entries: len(entries) == 2, 60)
        took = time.monotonic() - began
        system.open_gate(key)
        over = ann.over(run["id"])
        assert (over["status"], over["text"]) == ("success", "done")
        entries = system.ledger(key)
        assert [e["what"] for e in entries] == ["slow_again", "slow_again", "slow_again-done"]
        assert entries[0]["idempotency_key"] == entries[1]["idempotency_key"]
        assert brain.requests(text)[-1].body["messages"][-1]["content"] == "slowly done again"
        return took

    in_time(RECOVERY_S, recovered)


def test_every_environment_may_die_while_a_call_waits(
    ann: Caller, brain: Brain, system: System
) -> None:
    text = brain.plan(call("refund", order_id="dead", amount=1), say("paid"))
    run = ann.ask(ann.thread(), text)
    eventually(lambda: system.published(run["id"]))
    assert system.kill("turn", "resume", "api")
    call_id = run["pending"][0]["tool_call_id"]
    assert ann.decide(run["id"], call_id, "approve").status == 202
    assert ann.over(run["id"])["text"] == "paid"
    assert len(system.ledger("dead")) == 1


def test_an_approved_tool_that_was_cut_is_in_doubt(
    ann: Caller, brain: Brain, system: System
) -> None:
    key = unique()
    text = brain.plan(call("slow_refund", key=key), say("I do not know"))
    run = ann.ask(ann.thread(), text)
    ann.decide(run["id"], run["pending"][0]["tool_call_id"], "approve")
    eventually(lambda: system.ledger(key))
    assert system.kill("turn")
    over = ann.over(run["id"])
    assert over["status"] == "success"
    assert [e["what"] for e in system.ledger(key)] == ["slow_refund"]
    told = brain.requests(text)[-1].body["messages"][-1]["content"]
    assert told == "Interrupted: slow_refund may or may not have taken effect"


def test_a_crash_at_any_moment_loses_and_repeats_nothing(
    ann: Caller, brain: Brain, system: System
) -> None:
    """Turns are killed again and again while a run of ten steps goes on."""
    key = unique()
    steps = [call("look_up", key=f"{key}-{i}") for i in range(10)]
    text = brain.plan(*steps, say("all"))
    run = ann.start(ann.thread(), text)
    for index in (2, 5, 8):
        brain.asked(text, index)
        system.kill("turn")
    over = ann.over(run["id"])
    assert (over["status"], over["text"]) == ("success", "all")
    assert all(len(system.ledger(f"{key}-{i}")) <= 1 for i in range(10))
    results = [m["content"][0] for m in over["messages"] if m["role"] == "tool"]
    assert len(results) == 10
    for index, result in enumerate(results):
        assert result["is_error"] or system.ledger(f"{key}-{index}")
    assert ann.get(f"/threads/{run['thread_id']}")["active_run"] is None


def test_a_run_that_kills_every_attempt_fails_after_five(
    ann: Caller, brain: Brain, system: System
) -> None:
    thread = ann.thread("plain")
    hold = threading.Event()
    text = brain.plan(say("never", hold=hold))
    run = ann.start(thread, text)
    for attempt in range(1, 6):
        brain.asked(text, attempt)
        system.kill("turn")
    over = ann.over(run["id"], 30)
    hold.set()
    assert (over["status"], over["error"]["type"]) == ("failed", "AttemptsUsedUp")
    assert ann.ask(thread, brain.plan(say("free again")))["status"] == "success"
