"""A run from its input to its end, through the HTTP API."""

import json
import re
import threading
from typing import Any

from support.providers.openai import Reply, Response, call, calls, fail, say
from support.system.system import Brain, Caller, System, eventually, in_time, unique


def test_a_plain_run_answers(ann: Caller, brain: Brain) -> None:
    run = ann.ask(ann.thread("plain"), brain.plan(say("hello there")))
    assert (run["status"], run["finish_reason"]) == ("success", "stop")
    assert run["text"] == "hello there"
    assert [m["role"] for m in run["messages"]] == ["assistant"]
    types = [e["type"] for e in ann.events(run["id"]) if e["type"] != "message"]
    assert types == ["agent-start", "turn-start", "turn-end", "finish", "agent-end"]


def test_feedback_is_with_its_run_and_listed_for_operators_until_its_thread_goes(
    ann: Caller, brain: Brain, system: System
) -> None:
    run = ann.ask(ann.thread("plain"), brain.plan(say("hello there")))
    given = {"score": -1, "comment": "too short"}
    kept = ann.want(200, "POST", f"/runs/{run['id']}/feedback", given)
    assert ann.get(f"/runs/{run['id']}")["feedback"] == kept
    operator = system.caller("olga;scopes=operate")

    def listed() -> list[str]:
        page = operator.get("/feedback?max_score=0&limit=100")
        return [each["comment"] for each in page["items"] if each["owner"] == ann.name]

    eventually(listed, lambda comments: comments == ["too short"])
    ann.want(204, "DELETE", f"/runs/{run['id']}/feedback")
    assert "feedback" not in ann.get(f"/runs/{run['id']}")
    assert listed() == []
    ann.want(200, "POST", f"/runs/{run['id']}/feedback", given)
    eventually(listed, lambda comments: comments == ["too short"])
    ann.want(204, "DELETE", f"/threads/{run['thread_id']}")
    assert listed() == []


def test_a_failing_tool_reaches_the_model_by_name(ann: Caller, brain: Brain) -> None:
    text = brain.plan(call("breaks", key="it"), say("sorry"))
    assert ann.ask(ann.thread(), text)["status"] == "success"
    told = brain.requests(text)[1].body["messages"][-1]
    assert (told["role"], told["content"]) == ("tool", "LookupError: no it")


def test_where_a_tool_failed_is_in_the_terminal_and_in_its_functions_log(
    ann: Caller, brain: Brain, system: System
) -> None:
    """With what it printed, and nothing of what it was given."""
    text = brain.plan(call("breaks", key="a-private-key"), say("sorry"))
    run_id = ann.ask(ann.thread(), text)["id"]
    told = f"warning turn: tool breaks failed with LookupError run_id={run_id}"
    at = eventually(lambda: [i for i, line in enumerate(system.lines) if line.startswith(told)])[0]
    place = re.compile(r"    /.*/shop\.py:\d+ breaks")
    eventually(lambda: [line for line in system.lines[at:] if place.fullmatch(line)])
    log = (system.folder / "data" / "logs" / "turn.log").read_text()
    assert "breaks was asked\n" in log
    assert '"message":"tool breaks failed with LookupError"' in log
    assert "a-private-key" not in "\n".join([log, *system.lines])


def test_a_suspended_and_approved_run_takes_the_documented_way(
    ann: Caller, brain: Brain, system: System
) -> None:
    text = brain.plan(call("refund", order_id="way", amount=5), say("paid"))
    run = ann.ask(ann.thread(), text)
    assert run["status"] == "suspended"
    (pending,) = run["pending"]
    assert pending["kind"] == "approval"
    assert pending["agent_path"] == ["support"]
    assert ann.decide(run["id"], pending["tool_call_id"], "approve").status == 202
    over = ann.over(run["id"])
    assert (over["status"], over["text"]) == ("success", "paid")
    assert [e["amount"] for e in system.ledger("way")] == [5.0]
    arn = system.services["state_machine_arn"].replace("stateMachine", "execution")
    steps = system.aws("stepfunctions")
    execution = {"executionArn": f"{arn}:{run['id']}-1"}
    eventually(lambda: steps.describe_execution(**execution)["status"], lambda s: s != "RUNNING")
    history = steps.get_execution_history(**execution, maxResults=1000)["events"]
    entered = [
        e["stateEnteredEventDetails"]["name"] for e in history if "stateEnteredEventDetails" in e
    ]
    waited = ["AwaitDecision", "TurnWithAnswer", "Route"]
    assert entered == ["Turn", "Route", *waited, "Extract"]
    assert "order_id" not in str(history)


def test_the_model_sees_one_system_message_and_results_behind_their_calls(
    ann: Caller, brain: Brain
) -> None:
    asked = calls(("look_up", {"key": "a"}, "c1"), ("look_up", {"key": "b"}, "c2"))
    text = brain.plan(asked, say("both"))
    run = ann.ask(ann.thread(), text, stream=True)
    assert run["status"] == "success"
    first, second = brain.requests(text)
    for request in (first, second):
        assert request.headers["x-layover-task"] == "turn"
        assert request.headers["x-layover-run"] == run["id"]
        assert request.headers["authorization"] == "Bearer test"
        assert request.body["model"] == "fake-1"
        assert request.body["stream"] is True
        assert request.body["stream_options"] == {"include_usage": True}
        roles = [m["role"] for m in request.body["messages"]]
        assert roles[0] == "system"
        assert roles.count("system") == 1
    tail = second.body["messages"][-3:]
    assert [m["role"] for m in tail] == ["assistant", "tool", "tool"]
    assert [c["id"] for c in tail[0]["tool_calls"]] == [m["tool_call_id"] for m in tail[1:]]
    assert second.body["messages"][: len(first.body["messages"])] == first.body["messages"]


def test_deltas_are_written_only_for_a_streamed_run(ann: Caller, brain: Brain) -> None:
    thread = ann.thread("plain")
    silent = ann.ask(thread, brain.plan(say("one two three")))
    loud = ann.ask(thread, brain.plan(say("one two three")), stream=True)
    assert not [e for e in ann.events(silent["id"]) if e["type"].endswith("-delta")]
    deltas = [e["text"] for e in ann.events(loud["id"], page=2) if e["type"] == "text-delta"]
    assert "".join(deltas) == "one two three"


def test_events_can_be_followed_while_the_run_goes_on(
    ann: Caller, brain: Brain, system: System
) -> None:
    key = unique()
    text = brain.plan(calls(("tells", {"key": key}), ("slow", {"key": key})), say("done"))
    run = ann.start(ann.thread("support"), text)
    eventually(lambda: system.ledger(key))
    page = ann.get(f"/runs/{run['id']}/events?after=0&wait=5")
    assert page["done"] is False
    assert "tool-execution-start" in [e["type"] for e in page["items"]]
    seen = page["last_seq"]
    nothing = ann.call("GET", f"/runs/{run['id']}/events?after={seen + 50}&wait=0.2")
    assert nothing.body == {"items": [], "last_seq": seen + 50, "done": False}
    system.open_gate(key)
    events = ann.events(run["id"], page=3)
    assert [e["data"] for e in events if e["type"] == "data"] == [{"progress": 1}, {"progress": 2}]
    types = [e["type"] for e in events]
    assert types[-2:] == ["finish", "agent-end"]
    assert types.count("finish") == 1


def test_waiting_ends_with_the_time_that_was_given(ann: Caller, brain: Brain) -> None:
    hold = threading.Event()
    text = brain.plan(say("late", hold=hold))
    runs: list[str] = []

    def starts() -> float:
        path = f"/threads/{ann.thread('plain')}/runs"
        started = ann.call("POST", path, {"input": text}, prefer="respond-async, wait=1")
        assert (started.status, started.headers["preference-applied"]) == (202, "wait=1")
        assert started.body["status"] == "running"
        assert started.seconds > 0.9
        runs.append(started.body["id"])
        return started.seconds

    def looks() -> float:
        looked = ann.call("GET", f"/runs/{runs[-1]}?wait=0.5")
        assert looked.body["status"] == "running"
        assert looked.seconds > 0.4
        return looked.seconds

    in_time(4, starts)
    in_time(3, looks)
    hold.set()
    assert ann.over(runs[-1])["text"] == "late"


def test_a_failing_provider_fails_the_run_and_frees_the_thread(ann: Caller, brain: Brain) -> None:
    thread = ann.thread("plain")
    run = ann.ask(thread, brain.plan(fail(400, "no such model at all")))
    assert (run["status"], run["finish_reason"]) == ("failed", "error")
    assert run["id"] in run["error"]["message"]
    assert "no such model at all" not in json.dumps(ann.get(f"/runs/{run['id']}"))
    types = [e["type"] for e in ann.events(run["id"])]
    assert types[-2:] == ["error", "finish"]
    assert ann.ask(thread, brain.plan(say("better")))["text"] == "better"


def test_a_provider_that_is_busy_is_asked_again(ann: Caller, brain: Brain) -> None:
    text = brain.plan([fail(429, "slow down", retry_after="0"), fail(503), say("at last")])
    run = ann.ask(ann.thread("plain"), text)
    assert (run["status"], run["text"]) == ("success", "at last")
    assert len(brain.requests(text)) == 3


def test_two_users_never_see_each_other(ann: Caller, bob: Caller, brain: Brain) -> None:
    mine, theirs = ann.thread(), bob.thread()
    run = ann.ask(mine, brain.plan(call("refund", order_id="mine", amount=1), say("ok")))
    assert [t["id"] for t in ann.get("/threads")["items"]] == [mine]
    assert [a["thread_id"] for a in ann.get("/approvals")["items"]] == [mine]
    assert [t["id"] for t in bob.get("/threads")["items"]] == [theirs]
    assert bob.get("/approvals")["items"] == []
    assert bob.get(f"/threads/{theirs}/runs")["items"] == []
    assert bob.messages(theirs) == []
    assert ann.get(f"/threads/{mine}")["active_run"] == {"id": run["id"], "status": "suspended"}


def test_a_thread_remembers_its_earlier_runs(ann: Caller, brain: Brain) -> None:
    thread = ann.thread()
    first = brain.plan(call("look_up", key="past"), say("It is on its way."), text="Where is it?")
    second = brain.plan(say("Tomorrow."), text="And when?")
    ann.ask(thread, first)
    ann.ask(thread, second)
    (request,) = brain.requests(second)
    said = json.dumps(request.body["messages"])
    for wanted in ("Where is it?", "on its way", "It is on its way.", "And when?"):
        assert wanted in said
    assert [m["role"] for m in request.body["messages"]] == [
        "system", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    stored = ann.messages(thread)
    assert [m["role"] for m in stored] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert [m["parent_id"] for m in stored[1:]] == [m["id"] for m in stored[:-1]]
    times = [m["created_at"] for m in stored]
    assert times == sorted(set(times))


def test_a_run_may_begin_again_from_an_earlier_message(ann: Caller, brain: Brain) -> None:
    thread = ann.thread("plain")
    ann.ask(thread, brain.plan(say("first answer"), text="first"))
    ann.ask(thread, brain.plan(say("second answer"), text="second"))
    before = ann.messages(thread)
    again = brain.plan(say("another answer"), text="instead")
    ann.ask(thread, again, parent_id=before[1]["id"])
    now = ann.messages(thread)
    assert [m["content"][-1]["text"] for m in now][1::2] == ["first answer", "another answer"]
    assert "second answer" not in json.dumps(brain.requests(again)[0].body)
    assert ann.messages(thread, branch=before[-1]["id"]) == before
    rooted = brain.plan(say("anew"), text="root")
    ann.ask(thread, rooted, parent_id=None)
    assert len(brain.requests(rooted)[0].body["messages"]) == 2
    assert len(ann.messages(thread)) == 2


def test_an_unfinished_run_is_listed_with_what_it_has(
    ann: Caller, brain: Brain, system: System
) -> None:
    thread = ann.thread()
    text = brain.plan(call("refund", order_id="listed", amount=1), say("ok"))
    run = ann.ask(thread, text)
    assert [m["role"] for m in ann.messages(thread)] == ["user", "assistant"]
    assert [r["id"] for r in ann.get(f"/threads/{thread}/runs")["items"]] == [run["id"]]
    ann.decide(run["id"], run["pending"][0]["tool_call_id"], "deny", reason="too much")
    ann.over(run["id"])
    assert [m["role"] for m in ann.messages(thread)] == ["user", "assistant", "tool", "assistant"]
    assert ann.get(f"/threads/{thread}")["active_run"] is None


def test_usage_adds_up_over_a_suspension(ann: Caller, brain: Brain) -> None:
    one = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    two = {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24}
    asked = Response(calls=(("u1", "refund", '{"order_id": "u", "amount": 1}'),), usage=one)
    run = ann.ask(ann.thread(), brain.plan(asked, say("ok", usage=two)))
    ann.decide(run["id"], "u1", "approve")
    usage = ann.over(run["id"])["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (30, 7, 37)
    assert usage["cost_usd"] is None


def test_the_limit_of_steps_ends_a_run_well(ann: Caller, brain: Brain) -> None:
    text = brain.plan(call("look_up", key="m"), call("look_up", key="m"), say("never"))
    run = ann.ask(ann.thread(), text, max_iterations=2)
    assert (run["status"], run["finish_reason"]) == ("success", "max-iterations")


def test_unstorable_characters_are_replaced(ann: Caller, brain: Brain) -> None:
    thread = ann.thread("plain")
    text = brain.plan(say("fine"))
    run = ann.ask(thread, text + " a\0b \ud800 c")
    assert run["status"] == "success"
    assert run["input"]["content"][0]["text"].endswith(" a\ufffdb \ufffd c")
    assert ann.messages(thread)[0] == run["input"]


def test_a_thread_gets_a_title_from_its_first_words(ann: Caller, brain: Brain) -> None:
    def entitle(body: Any) -> Reply:
        """Runs of other tests ask for theirs when they are over."""
        return say('"**Delayed parcel**"' if "my parcel" in json.dumps(body) else "")

    brain.provider.respond_with(entitle, task="title")
    thread = ann.thread("plain")
    ann.ask(thread, brain.plan(say("It is late."), text="Why has my parcel not arrived yet?"))
    look = lambda: ann.get(f"/threads/{thread}")["title"]  # noqa: E731
    assert eventually(look) == "Delayed parcel"


def test_a_thread_is_edited_and_deleted(ann: Caller, bob: Caller, brain: Brain) -> None:
    thread = ann.thread(title="old", metadata={"a": 1})
    run = ann.ask(thread, brain.plan(call("refund", order_id="gone", amount=1), say("ok")))
    edited = ann.want(200, "PATCH", f"/threads/{thread}", {"title": "new", "metadata": {"b": [2]}})
    assert (edited["title"], edited["metadata"]) == ("new", {"b": [2]})
    assert ann.get(f"/threads/{thread}")["title"] == "new"
    bob.want(404, "PATCH", f"/threads/{thread}", {"title": "mine"})
    bob.want(404, "DELETE", f"/threads/{thread}")
    ann.want(204, "DELETE", f"/threads/{thread}")
    call_path = f"/runs/{run['id']}/tool-calls/{run['pending'][0]['tool_call_id']}"
    for method, path, body in (
        ("GET", f"/threads/{thread}", None),
        ("GET", f"/threads/{thread}/messages", None),
        ("GET", f"/threads/{thread}/runs", None),
        ("GET", f"/approvals?thread_id={thread}", None),
        ("GET", f"/runs/{run['id']}", None),
        ("GET", f"/runs/{run['id']}/events", None),
        ("POST", f"/runs/{run['id']}/cancel", None),
        ("POST", f"{call_path}/approve", {"attempt": 1}),
        ("POST", f"/threads/{thread}/runs", {"input": "hello"}),
        ("PATCH", f"/threads/{thread}", {"title": "x"}),
        ("DELETE", f"/threads/{thread}", None),
    ):
        ann.want(404, method, path, body)
    assert ann.get("/threads")["items"] == []
    assert ann.get("/approvals")["items"] == []


def test_a_deleted_threads_run_is_cancelled(ann: Caller, brain: Brain, system: System) -> None:
    thread = ann.thread()
    run = ann.ask(thread, brain.plan(call("refund", order_id="left", amount=1), say("ok")))
    ann.want(204, "DELETE", f"/threads/{thread}")
    arn = system.services["state_machine_arn"].replace("stateMachine", "execution")
    steps = system.aws("stepfunctions")
    execution = {"executionArn": f"{arn}:{run['id']}-1"}
    eventually(lambda: steps.describe_execution(**execution)["status"], lambda s: s != "RUNNING")
    assert system.ledger("left") == []
