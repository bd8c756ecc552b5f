"""Agents whose author has brought their model: runs in this process, and whom each request reaches."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from layover import Agent, DefinitionError, Memory, ObservationalMemory, tool
from layover.engine.definition import definition_of
from layover.errors import ModelError
from layover.models import OnDelta, OpenAIModel, Prompt, Reply, RequestedCall
from layover.plugins.models import retrying
from layover.testing import ScriptedModel, say
from layover.threads.agents import list_agents
from layover.wiring import in_memory_runtime
from support.providers.openai import FakeOpenAI, calls, delta, fail, stream
from support.providers.openai import say as says


class Acme:
    """A model that answers by a script and keeps its requests."""

    def __init__(self, *script: Reply | Exception, name: str = "acme/large") -> None:
        self.name = name
        self.script = list(script)
        self.prompts: list[Prompt] = []

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        self.prompts.append(prompt)
        if prompt.task != "turn":
            return Reply(text="{}")
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    @property
    def tasks(self) -> set[str]:
        return {prompt.task for prompt in self.prompts}


class Nobody:
    """The deployment's model, which nobody may ask."""

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        raise AssertionError(f"asked of the deployment: {prompt.task}")


@tool
def price(item: str) -> float:
    """The price of an item in euros."""
    return 42.0


def asking(name: str, **args: Any) -> Reply:
    call = RequestedCall(id="", name=name, args=json.dumps(args))
    return Reply(calls=(call,), finish_reason="tool-calls")


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as fake:
        yield fake


@pytest.fixture
async def client(server: FakeOpenAI) -> AsyncIterator[Any]:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=server.base_url, api_key="sk-own")
    yield client
    await client.close()


# What cannot be a model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (7, "must be a name, or an object with a `name`"),
        (Acme, "must be a name, or an object with a `name`"),
        (Acme(name=" "), "whose name is ' '"),
        ([Acme(), Acme()], "a list that has each name once"),
        ([Acme(), "acme/large"], "give one of the models another name"),
        ([Acme(), None], "a name, a model or a list of them"),
    ],
)
def test_what_is_no_model_is_refused_where_the_agent_is_made(model: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Agent("shop", model=model)


@pytest.mark.parametrize("options", [{"model": ""}, {"model": "m", "name": " "}])
def test_a_client_needs_a_name_of_a_model(options: dict[str, str]) -> None:
    from openai import AsyncOpenAI

    with pytest.raises(DefinitionError, match="must be a text that is not empty"):
        OpenAIModel(AsyncOpenAI(api_key="k"), **options)


def test_a_client_that_blocks_is_refused() -> None:
    from openai import OpenAI

    client: Any = OpenAI(api_key="k")
    with pytest.raises(DefinitionError, match=r"an async client .* not of type OpenAI"):
        OpenAIModel(client, "m")


async def test_a_refusal_ends_the_run_as_a_providers_does(server: FakeOpenAI, client: Any) -> None:
    server.script([fail(401, "bad key")])
    result = await Agent("shop", model=OpenAIModel(client, "large")).generate("Hi")
    assert result.error is not None
    assert (result.status, result.error.type) == ("failed", "AuthenticationError")
    assert server.base_url not in result.error.message
    assert result.error_detail is not None
    assert f"[model large at {server.base_url}]" in result.error_detail.message


async def test_a_token_that_cannot_be_had_fails_the_run_and_says_why(
    server: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openai import AsyncAzureOpenAI

    monkeypatch.setattr(retrying, "FIRST_WAIT_S", 0.0)

    async def token() -> str:
        raise PermissionError("no identity here")

    client = AsyncAzureOpenAI(
        azure_endpoint=server.base_url, api_version="v", azure_ad_token_provider=token
    )
    result = await Agent("shop", model=OpenAIModel(client, "large")).generate("Hi")
    await client.close()
    assert result.error_detail is not None
    assert "no identity here" in result.error_detail.message
    assert server.requests == []


# Whom a request reaches


async def test_its_calls_and_answers_are_a_runs_and_nobody_else_is_asked() -> None:
    model = Acme(asking("price", item="lamp"), Reply(text="42 euros."))
    shop = Agent("shop", model=model, tools=[price], memory=Memory(profile=True, session=True))
    shop.runtime = replace(in_memory_runtime(shop), model=Nobody())
    result = await shop.generate("What does the lamp cost, please? I am Ann.", thread_id="t1")
    await shop.wait_for_memory()
    assert (result.status, result.text) == ("success", "42 euros.")
    assert model.tasks >= {"turn", "title", "profile", "session"}
    assert {prompt.model for prompt in model.prompts} == {"acme/large"}


async def test_compaction_asks_it_too() -> None:
    model = Acme(*[Reply(text="word " * 400)] * 4)
    memory = Memory(titles=False, compaction=ObservationalMemory(message_tokens=500))
    shop = Agent("shop", model=model, memory=memory)
    shop.runtime = replace(in_memory_runtime(shop), model=Nobody())
    for _ in range(4):
        await shop.generate("tell me more " * 100, thread_id="t1")
        await shop.wait_for_memory()
    assert "observer" in model.tasks


async def test_the_deployments_choice_for_memory_is_asked_of_the_deployment() -> None:
    model, deployment = (
        Acme(Reply(text="Hello")),
        ScriptedModel([], background={"title": [say("T")]}),
    )
    shop = Agent("shop", model=model)
    runtime = in_memory_runtime(shop)
    settings = runtime.settings.model_copy(update={"title_model": "openai/small"})
    shop.runtime = replace(runtime, model=deployment, settings=settings)
    await shop.generate("What does the lamp cost, please?", thread_id="t1")
    await shop.wait_for_memory()
    assert [(p.task, p.model) for p in deployment.prompts] == [("title", "openai/small")]
    assert model.tasks == {"turn"}


async def test_a_test_of_the_agent_replaces_it() -> None:
    model = Acme()
    shop = Agent("shop", model=model)
    with shop.override(model=ScriptedModel([say("Hello")])) as scripted:
        assert (await shop.generate("Hi")).text == "Hello"
    assert model.prompts == []
    assert scripted.turns[0].model == "acme/large"


async def test_a_sub_agent_asks_its_own() -> None:
    clerk = Agent("clerk", model=Acme(Reply(text="42"), name="acme/small"))
    boss = Agent(
        "boss",
        model=Acme(asking("clerk", prompt="The price?"), Reply(text="It is 42.")),
        tools=[clerk.as_tool("Asks the clerk.")],
    )
    result = await boss.generate("What does it cost?")
    assert result.text == "It is 42."


async def test_models_fall_back_to_others_objects_and_names_alike() -> None:
    down = ModelError("it is down", status=404)
    first, second = Acme(down), Acme(Reply(text="Hello"), name="acme/small")
    shop = Agent("shop", model=[first, "openai/gpt-5-mini", second])
    shop.runtime = replace(in_memory_runtime(shop), model=ScriptedModel([down]))
    stream = shop.stream("Hi")
    events = [event async for event in stream]
    fallbacks = [(e.from_, e.to) for e in events if e.type == "model-fallback"]
    assert fallbacks == [("acme/large", "openai/gpt-5-mini"), ("openai/gpt-5-mini", "acme/small")]
    assert (await stream.result()).text == "Hello"


async def test_an_agent_is_listed_with_the_name_of_its_model() -> None:
    shop = Agent("shop", model=Acme())
    (info,) = await list_agents(in_memory_runtime(shop), "ann")
    assert info.model == "acme/large"


def test_the_definition_has_the_models_name_and_class_and_no_settings() -> None:
    plain = definition_of(Agent("shop", model="acme/large"))
    brought = definition_of(Agent("shop", model=Acme()))
    assert brought == definition_of(Agent("shop", model=Acme(Reply(text="other"))))
    assert len({plain, brought, definition_of(Agent("shop", model=Acme(name="acme/small")))}) == 3


# Clients of openai


async def test_a_client_of_openai_is_asked_with_its_own_key_and_name(
    server: FakeOpenAI, client: Any
) -> None:
    server.script([calls(("price", {"item": "lamp"})), says("42 euros.", model="large-2026")])
    shop = Agent("shop", model=OpenAIModel(client, "large", name="gateway/large"), tools=[price])
    result = await shop.generate("The lamp?")
    assert result.text == "42 euros."
    first, second = server.turns[:2]
    assert first.headers["authorization"] == "Bearer sk-own"
    assert (first.body["model"], first.headers["x-layover-task"]) == ("large", "turn")
    assert second.body["messages"][-1]["content"] == "42.0"


async def test_a_structured_output_is_asked_for_by_its_schema(
    server: FakeOpenAI, client: Any
) -> None:
    server.script([says('["lamp", "shelf"]')])
    lister = Agent("lister", model=OpenAIModel(client, "large"), output=list[str])
    result = await lister.generate("What is there?")
    assert server.turns[0].body["response_format"]["type"] == "json_schema"
    assert result.status == "success", result


async def test_the_responses_api_is_asked_by_the_same_client(
    server: FakeOpenAI, client: Any
) -> None:
    server.script([says("Hello")])
    shop = Agent("shop", model=OpenAIModel(client, "large"), api="responses")
    assert (await shop.generate("Hi")).text == "Hello"
    assert server.turns[0].path.endswith("/responses")


async def test_a_stream_that_nobody_follows_any_more_is_closed(
    server: FakeOpenAI, client: Any
) -> None:
    held = threading.Event()
    server.script([stream(delta("Hel"), delta("lo"), hold=held)])
    shop = Agent("shop", model=OpenAIModel(client, "large"))
    followed = shop.stream("Hi")
    try:
        async for event in followed:
            if event.type == "text-delta":
                followed.abort()
        assert (await followed.result()).status == "cancelled"
        await asyncio.to_thread(server.wait_for, lambda s: s.abandoned == 1)
    finally:
        held.set()


LOOPS = """
import asyncio, httpx2, sys
from openai import AsyncOpenAI
from layover import Agent
from layover.models import OpenAIModel

async def ask(*agents):
    results = await asyncio.gather(*(agent.generate("Hi") for agent in agents))
    return " ".join(result.status for result in results)

for expiry in 0, 60:
    limits = httpx2.Limits(keepalive_expiry=expiry)
    http = httpx2.AsyncClient(limits=limits)
    client = AsyncOpenAI(base_url=sys.argv[1], api_key="k", http_client=http)
    shop = Agent("shop", model=OpenAIModel(client, "m"))
    desk = Agent("desk", model=OpenAIModel(client, "m"))
    loops = [[shop]] * 3 + [[shop], [desk], [shop, desk, shop]] * 2
    print(*(asyncio.run(ask(*agents)) for agents in loops))
"""


def test_runs_of_several_event_loops_share_a_client_and_send_each_request_once(
    server: FakeOpenAI,
) -> None:
    """Whether it keeps its connections or not."""
    server.respond_with(lambda body: says("Hello"))
    command = [sys.executable, "-c", LOOPS, server.base_url]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert set(re.findall(r"\w+", run.stdout)) == {"success"}
    assert len(server.turns) == run.stdout.count("success")
