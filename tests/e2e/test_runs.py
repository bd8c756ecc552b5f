"""A run from its input to its end, through the HTTP API."""

from e2e_kit import Brain, Caller, System, eventually
from fake_openai import call, say


def test_a_plain_run_answers(ann: Caller, brain: Brain) -> None:
    run = ann.ask(ann.thread("plain"), brain.plan(say("hello there")))
    assert (run["status"], run["finish_reason"]) == ("success", "stop")
    assert run["text"] == "hello there"
    assert [m["role"] for m in run["messages"]] == ["assistant"]
    types = [e["type"] for e in ann.events(run["id"]) if e["type"] != "message"]
    assert types == ["agent-start", "turn-start", "turn-end", "finish", "agent-end"]


def test_a_failing_tool_reaches_the_model_by_name(ann: Caller, brain: Brain) -> None:
    text = brain.plan(call("breaks", key="it"), say("sorry"))
    assert ann.ask(ann.thread(), text)["status"] == "success"
    told = brain.requests(text)[1].body["messages"][-1]
    assert (told["role"], told["content"]) == ("tool", "LookupError: no it")


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
    entered = [e["stateEnteredEventDetails"]["name"] for e in history if "stateEnteredEventDetails" in e]
    wanted = ["Turn", "Await", "Resume", "Turn", "Remember"]
    assert [name for name in entered if name in wanted] == wanted
    assert "way" not in str([e for e in history]).replace(run["id"], "")
