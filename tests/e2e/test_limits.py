"""Large, odd and many."""

import json
import math
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.providers.openai import Response, calls, say
from support.system.system import Brain, Caller, System, at_once, eventually, in_time, unique

MANY = 16


def test_an_input_just_below_the_limit_goes_all_the_way(ann: Caller, brain: Brain) -> None:
    thread = ann.thread("plain")
    text = brain.plan(say("long"))
    padding = "€" * ((1_048_576 - len(text) - 3) // 3)
    run = ann.ask(thread, text + padding)
    assert (run["status"], run["text"]) == ("success", "long"), run["error"]
    assert run["input"]["content"][0]["text"] == text + padding
    assert ann.messages(thread)[0] == run["input"]
    assert padding in brain.requests(text)[0].body["messages"][-1]["content"]


def test_large_arguments_and_decisions_survive(ann: Caller, brain: Brain, system: System) -> None:
    key = unique() + secrets.token_hex(50_000)
    asked = calls(("refund", {"order_id": key, "amount": 1}, "big"))
    text = brain.plan(asked, say("ok"))
    run = ann.ask(ann.thread(), text)
    assert run["pending"][0]["args"]["order_id"] == key
    too_large = {"order_id": key + "x" * 1_100_000, "amount": 2}
    assert ann.decide(run["id"], "big", "approve", args=too_large).status == 413
    edited = {"order_id": key + "y", "amount": 2}
    assert ann.decide(run["id"], "big", "approve", args=edited).status == 202
    assert ann.over(run["id"])["status"] == "success"
    assert len(system.ledger(key + "y")) == 1
    events = ann.events(run["id"])
    assert next(e["args"] for e in events if e["type"] == "tool-execution-start") == edited


def test_a_run_above_what_a_function_can_answer_is_cut_to_fit(ann: Caller, brain: Brain) -> None:
    """Results of 250 kB: 24 of them are just below 6 MB, and 30 are only where they are compressed."""
    for count, fits in ((24, True), (30, False)):
        thread = ann.thread("clerk")
        keys = [f"{count}-{i:02}" for i in range(count)]
        start = {"input": brain.plan(calls(*(("dump", {"key": k}) for k in keys)), say("done"))}
        first = ann.call("POST", f"/threads/{thread}/runs", start, prefer="wait=25")
        path = f"/runs/{first.body['id']}"
        whole = ann.want(200, "GET", f"{path}?wait=25", accept_encoding="gzip")
        results = [m["content"][0]["result"] for m in whole["messages"] if m["role"] == "tool"]
        assert results == ["a" * 250_000 + key for key in keys]
        assert "truncated" not in whole
        run = ann.want(200, "GET", path, accept_encoding="identity")
        assert ann.want(202, "POST", f"{path}/cancel", accept_encoding="identity") == run
        listed = f"/threads/{thread}/runs"
        assert ann.want(200, "GET", listed, accept_encoding="identity")["items"] == [run]
        assert (run == whole) is fits
    assert run["truncated"] is True
    cut = run["messages"][1]["content"][0]["result"]
    assert (cut["head"], cut["original_chars"]) == ("a" * 2_000, 250_005)
    assert ann.call("GET", cut["url"]).status == 302
    events = ann.want(200, "GET", f"{path}/events?after=0", accept_encoding="identity")
    while not events["done"]:
        after = events["last_seq"]
        events = ann.want(200, "GET", f"{path}/events?after={after}", accept_encoding="identity")
    assert events["items"][-1]["type"] == "agent-end"


def test_call_ids_may_hold_anything(ann: Caller, brain: Brain, system: System) -> None:
    odd = ["a/b", "c d#1", "ü%2F", "x" * 60, "a?b=c", "..", "."]
    keys = [unique() for _ in odd]
    asked = calls(
        *(("refund", {"order_id": k, "amount": 1}, i) for i, k in zip(odd, keys, strict=True))
    )
    text = brain.plan(asked, say("all"))
    run = ann.suspended(ann.ask(ann.thread("wide"), text)["id"], len(odd))
    assert [p["tool_call_id"] for p in run["pending"]] == odd
    for call_id in odd:
        path = "".join(f"%{b:02X}" for b in call_id.encode())
        assert ann.decide(run["id"], path, "approve").status == 202, call_id
    assert ann.over(run["id"])["text"] == "all"
    assert [len(system.ledger(k)) for k in keys] == [1] * len(odd)
    sent = brain.requests(text)[-1].body["messages"]
    asked_ids = [c["id"] for m in sent if m["role"] == "assistant" for c in m["tool_calls"]]
    assert [m["tool_call_id"] for m in sent if m["role"] == "tool"] == asked_ids
    assert len(set(asked_ids)) == len(odd)


def test_an_id_that_the_provider_repeats_is_made_unique(
    ann: Caller, brain: Brain, system: System
) -> None:
    one, two, three = unique(), unique(), unique()
    twice = calls(("look_up", {"key": one}, "same"), ("look_up", {"key": two}, "same"))
    text = brain.plan(twice, calls(("look_up", {"key": three}, "same")), say("ok"))
    run = ann.ask(ann.thread(), text)
    assert run["status"] == "success", run["error"]
    assert [len(system.ledger(k)) for k in (one, two, three)] == [1, 1, 1]
    made = [
        p["tool_call_id"] for m in run["messages"] for p in m["content"] if p["type"] == "tool_call"
    ]
    assert made[0] == "same"
    assert len(set(made)) == 3


def test_arguments_that_are_no_json_reach_the_model_as_an_error(ann: Caller, brain: Brain) -> None:
    text = brain.plan(Response(calls=(("bad", "look_up", '{"key": '),)), say("sorry"))
    run = ann.ask(ann.thread(), text)
    assert (run["status"], run["text"]) == ("success", "sorry")
    told = brain.requests(text)[-1].body["messages"][-1]
    assert told["content"].startswith("Invalid tool input")


def test_a_tool_that_does_not_exist_is_told(ann: Caller, brain: Brain) -> None:
    text = brain.plan(calls(("no_such_tool", {})), say("sorry"))
    assert ann.ask(ann.thread(), text)["status"] == "success"
    told = brain.requests(text)[-1].body["messages"][-1]
    assert told["content"] == "Tool no_such_tool not found"


def test_many_users_at_once_all_get_their_answers(system: System, brain: Brain) -> None:
    users = [system.caller() for _ in range(MANY)]
    texts = [brain.plan(say(f"answer {i}")) for i in range(MANY)]

    def talk(index: int) -> str:
        run = users[index].start(users[index].thread("plain"), texts[index])
        return str(users[index].over(run["id"], 60)["text"])

    answers = at_once(*(lambda i=i: talk(i) for i in range(MANY)))
    assert answers == [f"answer {i}" for i in range(MANY)]


def test_waiting_callers_do_not_keep_others_out(system: System, brain: Brain) -> None:
    """Each waiting caller holds an environment of `api`, of which the runner starts up to 40.

    Six are more than the runner starts at once: some come while others are starting."""

    def answered() -> float:
        ann = system.caller()
        hold = threading.Event()
        stuck = ann.start(ann.thread("plain"), brain.plan(say("late", hold=hold)))
        system.kill("api")
        with ThreadPoolExecutor(6) as pool:
            waiters = [pool.submit(ann.run, stuck["id"], 25) for _ in range(6)]
            eventually(
                lambda: (
                    any(waiter.done() for waiter in waiters)
                    or sum(e["busy"] for e in system.environments("api")) >= 6
                ),
                within=60,
            )
            answer = system.caller().call("GET", "/healthz")
            status = ann.run(stuck["id"])["status"]
            hold.set()
        texts = [waiter.result()["text"] for waiter in waiters]
        assert answer.status == 200
        # An answer says nothing where a waiter who gave up, or whose run was over, made room for it.
        print(status, texts)
        all_stayed = status == "running" and texts == ["late"] * 6
        return answer.seconds if all_stayed else math.inf

    in_time(10, answered)


def test_a_run_longer_than_its_function_may_run_goes_on(brain: Brain, tmp_path: Path) -> None:
    """Turn may take 8 s; the model's steps take 12 s together."""
    with System(tmp_path, brain, options=["--timeout", "turn=8"]) as system:
        ann = system.caller()
        key = unique()
        slow = [calls(("look_up", {"key": f"{key}-{i}"})) for i in range(6)]
        delayed = [type(s)(calls=s.calls, delay_s=2.0) for s in slow]
        text = brain.plan(*delayed, say("made it"))
        run = ann.start(ann.thread(), text)
        over = ann.over(run["id"], 60)
        assert (over["status"], over["text"]) == ("success", "made it"), over["error"]
        assert [len(system.ledger(f"{key}-{i}")) for i in range(6)] == [1] * 6
        types = [e["type"] for e in ann.events(run["id"])]
        assert types.count("agent-start") == 1
        assert json.dumps(types).count("finish") == 1
