"""The contract of the port `ChatModel`, for every implementation."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from layover import testing
from layover.adapters.aws.services import AwsServices
from layover.errors import ContextLengthExceeded, ModelError
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.plugins.models.openai_chat import OpenAIChat
from layover.ports import ChatModel, OnDelta
from layover.values.prompt import Delta, Prompt, Reply
from support.providers import converse, responses
from support.providers import openai as fake_openai
from support.providers.openai import FakeOpenAI

PROMPT = Prompt(model="openai/gpt-5-mini")
STREAM = PROMPT.model_copy(update={"stream": True})


@dataclass(frozen=True)
class Planned:
    """A plan for the provider, independent of any implementation."""

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any], str]] = ()
    status: int = 200
    code: str | None = None
    breaks: bool = False


Make = Callable[..., Awaitable[ChatModel]]


def _scripted(plan: Planned) -> Any:
    if plan.code is not None:
        return testing.too_long()
    if plan.status != 200:
        return testing.fail("no", status=plan.status)
    if plan.breaks:
        return testing.broken(plan.text)
    if plan.calls:
        asked = [testing.call(name, tool_call_id=i, **args) for name, args, i in plan.calls]
        return testing.calls(*asked, text=plan.text)
    return testing.say(plan.text)


def _served(plan: Planned) -> fake_openai.Reply:
    if plan.status != 200:
        return fake_openai.fail(plan.status, "no", code=plan.code)
    if plan.breaks:
        return fake_openai.stream(fake_openai.delta(plan.text), done=False, breaks=True)
    asked = tuple((i, name, json.dumps(args)) for name, args, i in plan.calls)
    return fake_openai.Response(text=plan.text, calls=asked)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as fake:
        yield fake


def _conversed(plan: Planned) -> fake_openai.Reply:
    if plan.status != 200:
        names = {400: "ValidationException", 401: "UnrecognizedClientException"}
        message = "Input is too long for requested model." if plan.code else "no"
        return converse.refuse(plan.status, names[plan.status], message)
    if plan.breaks:
        return converse.stream(converse.begin(), converse.text(0, plan.text), breaks=True)
    return _served(plan)


def _responded(plan: Planned) -> fake_openai.Reply:
    if plan.breaks:
        said = responses.response(responses.said(plan.text))
        return responses.stream(*responses.events(said)[:4], breaks=True)
    return _served(plan)


class Responding(OpenAIChat):
    """Asks by the Responses API, whatever the prompt says."""

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        return await super().complete(prompt.model_copy(update={"api": "responses"}), on_delta)


@pytest.fixture(params=["scripted", "openai_chat", "streams_always", "responses", "converse"])
async def make(request: pytest.FixtureRequest, server: FakeOpenAI) -> AsyncIterator[Make]:
    async def at_once(_: float) -> None:
        return

    chat: OpenAIChat | BedrockChat = OpenAIChat("key", server.base_url, sleep=at_once)
    if request.param == "streams_always":
        chat = OpenAIChat("key", server.base_url, sleep=at_once, streams_always=True)
    if request.param == "converse":
        chat = BedrockChat(AwsServices(converse.variables_of(server.base_url)), sleep=at_once)
    serve = {"converse": _conversed, "responses": _responded}.get(request.param, _served)
    if request.param == "responses":
        chat = Responding("key", server.base_url, sleep=at_once)

    async def made(*plans: Planned) -> ChatModel:
        if request.param == "scripted":
            return testing.ScriptedModel([_scripted(plan) for plan in plans])
        server.script([serve(plan) for plan in plans])
        return chat

    yield made
    await chat.aclose()


async def told(model: ChatModel) -> tuple[Reply, list[Delta]]:
    deltas: list[Delta] = []
    async with asyncio.timeout(60):
        return await model.complete(STREAM, deltas.append), deltas


async def test_a_refusal_is_a_model_error_with_its_status(make: Make) -> None:
    model = await make(Planned(status=401))
    with pytest.raises(ModelError, match="no") as caught:
        await model.complete(PROMPT)
    assert (caught.value.status, caught.value.type) == (401, "AuthenticationError")


async def test_a_prompt_that_is_too_long_is_its_own_error(make: Make) -> None:
    model = await make(Planned(status=400, code="context_length_exceeded"))
    with pytest.raises(ContextLengthExceeded):
        await model.complete(PROMPT)


async def test_a_model_works_again_after_a_failure(make: Make) -> None:
    model = await make(Planned(status=400), Planned("fine"))
    with pytest.raises(ModelError):
        await model.complete(PROMPT)
    assert (await model.complete(PROMPT)).text == "fine"


async def test_a_broken_stream_is_told_and_begins_again(make: Make) -> None:
    model = await make(Planned("Hel", breaks=True), Planned("Hello you"))
    reply, deltas = await told(model)
    restarted = [d.kind for d in deltas].index("restart")
    assert "".join(d.text for d in deltas[:restarted]) == "Hel"
    assert "".join(d.text for d in deltas[restarted:]) == reply.text == "Hello you"


@pytest.mark.parametrize("prompt", [PROMPT, STREAM], ids=["plain", "stream"])
async def test_a_reply_in_words(make: Make, prompt: Prompt) -> None:
    reply = await (await make(Planned("Hello"))).complete(prompt)
    assert (reply.text, reply.calls, reply.finish_reason) == ("Hello", (), "stop")
    assert "gpt-5-mini" in reply.model
    assert reply.usage.total_tokens > 0


@pytest.mark.parametrize("prompt", [PROMPT, STREAM], ids=["plain", "stream"])
async def test_a_reply_with_calls(make: Make, prompt: Prompt) -> None:
    plan = Planned("Both.", [("refund", {"amount": 40}, "c_1"), ("look", {}, "c_2")])
    reply = await (await make(plan)).complete(prompt)
    assert [(c.id, c.name, json.loads(c.args)) for c in reply.calls] == [
        ("c_1", "refund", {"amount": 40}),
        ("c_2", "look", {}),
    ]
    assert (reply.text, reply.finish_reason) == ("Both.", "tool-calls")


async def test_deltas_add_up_to_the_reply(make: Make) -> None:
    model = await make(Planned("Hello you there", [("refund", {"amount": 40}, "c_1")]))
    reply, deltas = await told(model)
    texts = [d.text for d in deltas if d.kind == "text"]
    args = [d.text for d in deltas if d.kind == "tool-call"]
    assert len(texts) > 1
    assert "".join(texts) == reply.text
    assert "".join(args) == reply.calls[0].args
    assert {(d.tool_call_id, d.tool_name) for d in deltas if d.kind == "tool-call"} == {
        ("c_1", "refund")
    }


async def test_no_deltas_are_told_where_no_stream_was_asked_for(make: Make) -> None:
    deltas: list[Delta] = []
    await (await make(Planned("Hello"))).complete(PROMPT, deltas.append)
    assert deltas == []


async def test_a_stream_needs_no_listener(make: Make) -> None:
    assert (await (await make(Planned("Hello"))).complete(STREAM)).text == "Hello"
