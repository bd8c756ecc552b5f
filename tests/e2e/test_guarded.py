"""A fallback, and hooks that refuse, change and suspend: the deployed run has the events of the same run in
process."""

import asyncio
from typing import Any

from layover.inprocess.driver import SOMEBODY
from layover.plugins.models.openai_chat import OpenAIChat
from layover.wiring import in_memory_runtime
from support.agents.guarded import AWAY, warden
from support.providers.openai import Reply, calls, fail, say
from support.system.system import Brain, Caller, Json, eventually

ASKED = calls(
    ("spend", {"amount": 500}, "refused"),
    ("send", {"to": "me"}, "changed"),
    ("spend", {"amount": 5}, "paid"),
    ("update_working_memory", {"memory": "likes tea"}, "kept"),
)
VARY = frozenset(
    {"seq", "at", "run_id", "thread_id", "id", "message_id", "parent_id", "created_at"}
    | {"requested_at", "expires_at", "decided_by", "provider_state"}
)
"""Fields of a payload that are others in every run."""


def answer(body: Any) -> Reply:
    """The provider: it has one of the two models, which asks for all calls at once."""
    if body["model"] == AWAY:
        return fail(404, "there is no such model")
    return say("done") if any(m["role"] == "tool" for m in body["messages"]) else ASKED


def steady(value: Any) -> Any:
    """The value without what varies."""
    if isinstance(value, dict):
        return {name: steady(each) for name, each in value.items() if name not in VARY}
    return [steady(each) for each in value] if isinstance(value, list) else value


def of_call(events: list[Json], call_id: str, kind: str) -> list[Json]:
    return [e for e in events if e.get("tool_call_id") == call_id and e["type"] == kind]


async def in_process(brain: Brain, text: str) -> list[Json]:
    """The events of the run in this process."""
    model = OpenAIChat("test", brain.provider.base_url)
    runtime = warden.runtime = in_memory_runtime(warden, model=model)
    try:
        run = await warden.generate(text, thread_id="t")
        for call_id in ("paid", "kept"):
            run = await warden.approve(run.run_id, call_id, reason="fine")
        page = await runtime.journal.events.page(SOMEBODY, run.run_id, 0, 1_000)
        assert page.done
        return [e.model_dump(mode="json") for e in page.items]
    finally:
        warden.runtime = None
        await model.aclose()


def deployed(ann: Caller, text: str) -> list[Json]:
    """The events of the run of the deployed system."""
    run = ann.ask(ann.thread("warden"), text)
    assert {p["tool_call_id"] for p in run["pending"]} == {"paid", "kept"}

    def is_paid() -> bool:
        page = ann.get(f"/runs/{run['id']}/events?limit=500")["items"]
        return bool(of_call(page, "paid", "tool-execution-end"))

    assert ann.decide(run["id"], "paid", "approve", reason="fine").status == 202
    eventually(is_paid)
    assert ann.decide(run["id"], "kept", "approve", reason="fine").status == 202
    assert ann.over(run["id"])["status"] == "success"
    return ann.events(run["id"])


def test_a_fallback_and_each_answer_of_a_hook_are_told_as_in_process(
    ann: Caller, brain: Brain
) -> None:
    text = brain.mind(answer, "please go on")
    told = deployed(ann, text)
    here = asyncio.run(in_process(brain, text))
    assert [e["type"] for e in told] == [e["type"] for e in here]
    for one, other in zip(told, here, strict=True):
        assert steady(one) == steady(other)
    fallbacks = [(e["step"], e["from"], e["to"]) for e in told if e["type"] == "model-fallback"]
    assert fallbacks == [(step, warden.model, *warden.fallbacks) for step in (1, 2)]
    decisions = {e["tool_call_id"]: e["decision"] for e in told if e["type"] == "hook-decision"}
    assert decisions == {
        "refused": "refuse",
        "changed": "change",
        "paid": "suspend",
        "kept": "suspend",
    }
    begun = {e["tool_call_id"]: e["args"] for e in told if e["type"] == "tool-execution-start"}
    assert begun == {
        "changed": {"to": "the office"},
        "paid": {"amount": 5},
        "kept": {"memory": "likes tea"},
    }
    results = {e["tool_call_id"]: e["result"] for e in told if e["type"] == "tool-execution-end"}
    assert results["refused"]["reason"] == "that is much"
    assert (results["paid"], results["kept"]) == ("spent 5", {"success": True})


def test_a_provider_without_its_key_fails_the_run_at_its_first_attempt(
    ann: Caller, brain: Brain
) -> None:
    text = brain.plan(say("never"))
    run = ann.ask(ann.thread("keyless"), text)
    assert (run["status"], run["error"]["type"]) == ("failed", "ConfigurationError")
    assert run["error"]["message"].startswith("A setting of this service is missing.")
    assert [e["type"] for e in ann.events(run["id"])].count("turn-start") == 1
    assert brain.requests(text) == []


def test_the_next_provider_answers_with_the_key_that_its_variable_has(
    ann: Caller, brain: Brain
) -> None:
    text = brain.plan(say("here"))
    run = ann.ask(ann.thread("rescued"), text)
    assert (run["status"], run["text"]) == ("success", "here")
    [request] = brain.requests(text)
    assert request.headers["authorization"] == "Bearer sk-keyed"
