"""Runs by the Responses API: reasoning survives what a run survives, and the provider's tools are its own."""

import json
from typing import Any

import pytest

from layover import Agent, DefinitionError, tool, web_search
from layover.engine.definition import definition_of
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.providers import Providers
from layover.values.deployment.providers import ProviderAddress
from layover.values.message import DataPart
from layover.values.runs.run import Status
from support.examples import share
from support.providers import responses
from support.providers.openai import FakeOpenAI, document, fail, say
from support.worlds.runs import Bench, Power


@tool
def look(n: int) -> int:
    """Look."""
    return n


@tool(name="look", needs_approval=True)
def look_if_allowed(n: int) -> int:
    """Look."""
    return n


def thought(step: int) -> Any:
    return responses.thought(f"rs_{step}", f"Schritt {step}", encrypted=f"enc{step}==")


class Thinker:
    """It searches and calls `look`, twice, and then answers. It refuses a call without its id, or whose
    thought, or whose search, is not before it as it was; and an answer without its id and its phase."""

    def __call__(self, body: Any) -> Any:
        items = body["input"]
        step = 0
        for at, item in enumerate(items):
            if item.get("role") == "assistant" and item != self._done():
                return fail(400, f"not as it was: {item}")
            if item.get("type") != "function_call":
                continue
            before = [thought(step), responses.search(f"ws_{step}", "x")]
            if items[at - 2 : at] != before or item.get("id") != f"fc_call_{step}":
                return fail(400, "function_call was provided without its required reasoning item")
            step += 1
        if step % 2 == 0 and items[-1].get("type") == "function_call_output":
            return self._answer(body, responses.said("done", phase="final_answer"))
        call = responses.call(f"call_{step}", "look", json.dumps({"n": step}))
        return self._answer(body, thought(step), responses.search(f"ws_{step}", "x"), call)

    def _done(self) -> Any:
        part = {"type": "output_text", "text": "done", "annotations": []}
        return {**responses.said("done", phase="final_answer"), "content": [part]}

    def _answer(self, body: Any, *items: Any) -> Any:
        whole = responses.response(*items)
        return responses.stream(*responses.events(whole)) if body.get("stream") else document(whole)


def bench_of(chat: Any, looks: Any = look, model: Any = "openai/thinker", **options: Any) -> Bench:
    search = [web_search()]
    agent = Agent("helper", model=model, tools=[looks], api="responses", provider_tools=search)
    return Bench(agent, chat, **options)


@pytest.fixture
def thinker(server: FakeOpenAI) -> Thinker:
    made = Thinker()
    server.respond_with(made)
    return made


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"api": "soap"}, "api"),
        ({"provider_tools": [web_search()]}, 'need api="responses"'),
        ({"provider_tools": web_search(), "api": "responses"}, "a list"),
        ({"provider_tools": ["web_search"], "api": "responses"}, "made by web_search"),
    ],
)
def test_what_could_not_work_is_refused_at_once(options: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        Agent("helper", **options)


def test_api_and_tools_of_the_provider_are_part_of_the_definition() -> None:
    agents = [
        Agent("helper"),
        Agent("helper", api="chat"),
        Agent("helper", api="responses"),
        Agent("helper", api="responses", provider_tools=[web_search()]),
    ]
    hashes = [definition_of(agent) for agent in agents]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_thoughts_go_back_as_they_came_within_a_run_and_in_its_history(
    server: FakeOpenAI, chat: OpenAIChat, thinker: Thinker, stream: bool
) -> None:
    bench = bench_of(chat)
    for _ in range(2):
        run = await bench.go(stream=stream)
        assert (run.status, run.text) == (Status.SUCCESS, "done"), run.error
    assert len(server.turns) == 6


async def test_thoughts_outlive_a_suspension(chat: OpenAIChat, thinker: Thinker) -> None:
    bench = bench_of(chat, look_if_allowed)
    run = await bench.go()
    for _ in range(2):
        assert run.status is Status.SUSPENDED, run.error
        await bench.answer(run.id, run.pending[0].tool_call_id, "approve")
        run = await bench.run(run.id)
    assert (run.status, run.text) == (Status.SUCCESS, "done"), run.error


async def test_thoughts_outlive_a_death_at_any_point(chat: OpenAIChat, thinker: Thinker) -> None:
    whole = bench_of(chat, power=Power())
    assert (await whole.go()).text == "done"
    for point in range(1, whole.power.calls + 1, share(5)):
        run = await bench_of(chat, power=Power(point)).go()
        assert (run.status, run.text) == (Status.SUCCESS, "done"), (point, run.error)


async def test_provider_searches_are_told_apart_from_calls_in_messages_and_events(
    chat: OpenAIChat, thinker: Thinker
) -> None:
    bench = bench_of(chat)
    run = await bench.go(stream=True)
    events = [json.loads(e.model_dump_json()) for e in await bench.events(run.id)]
    begun = [e["tool_name"] for e in events if e["type"] == "tool-execution-start"]
    assert begun == ["look", "look"]
    first = next(e["message"] for e in events if e["type"] == "message")
    parts = [(p["type"], p.get("name") or p.get("tool_name")) for p in first["content"]]
    assert parts == [("reasoning", None), ("data", "provider-tool"), ("tool_call", "look")]
    stored = [p for m in await bench.stored() for p in m.content if isinstance(p, DataPart)]
    assert [p.data["id"] for p in stored if isinstance(p.data, dict)] == ["ws_0", "ws_1"]
    shown = json.dumps(events) + "".join(m.model_dump_json() for m in await bench.stored())
    assert "enc0==" not in shown


async def test_models_of_others_are_asked_by_chat_completions(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    def answer(body: Any) -> Any:
        return fail(404, "gone") if "input" in body else say("I see")

    server.respond_with(answer)
    address = ProviderAddress(base_url=server.base_url)
    models = Providers(chat, {"other": address}, lambda _: None)
    run = await bench_of(models, model=["openai/thinker", "other/model"]).go()
    await models.aclose()
    assert (run.status, run.text) == (Status.SUCCESS, "I see"), run.error
    paths = [r.path for r in server.turns]
    assert paths == ["/v1/responses", "/v1/chat/completions"]
