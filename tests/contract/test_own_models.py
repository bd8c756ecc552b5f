"""The contract of models that authors bring, for each way to bring one."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx2
import pytest

from examples.ollama_model import OllamaModel
from layover.models import Model, OpenAIModel
from layover.plugins.models.openai_chat import OpenAIChat
from layover.testing.contracts import MakeModel, ModelContract, Planned
from support.providers import openai as fake_openai
from support.providers.answers import words
from support.providers.openai import FakeOpenAI


async def at_once(_: float) -> None:
    """No pause between attempts."""


def served(plan: Planned, held: Any) -> fake_openai.Reply:
    """A plan as an answer of the fake provider."""
    if plan.status != 200:
        headers = {} if plan.retry_after is None else {"retry_after": str(plan.retry_after)}
        return fake_openai.fail(plan.status, plan.message, **headers)
    if plan.breaks:
        return fake_openai.stream(fake_openai.delta(plan.text), done=False, breaks=True)
    if plan.hangs:
        return fake_openai.stream(fake_openai.delta(plan.text), fake_openai.delta(""), hold=held)
    calls = tuple((call_id, name, json.dumps(args)) for name, args, call_id in plan.calls)
    return fake_openai.Response(text=plan.text, calls=calls)


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as fake:
        yield fake


class NamedChat(OpenAIChat, Model):
    """The adapter that names of models are asked by, as an object."""

    retries = True
    name = "built-in/gpt-5-mini"


Made = tuple[Model, Callable[[], Awaitable[None]]]
"""A model, and how it is closed."""


def built_in(server: FakeOpenAI) -> Made:
    model = NamedChat("key", server.base_url, sleep=at_once)
    return model, model.aclose


def of_openai(server: FakeOpenAI) -> Made:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=server.base_url, api_key="key")
    return patient(OpenAIModel(client, "gpt-5-mini")), client.close


def of_azure(server: FakeOpenAI) -> Made:
    from openai import AsyncAzureOpenAI

    async def token() -> str:
        return "a token of Entra"

    client = AsyncAzureOpenAI(
        azure_endpoint=server.base_url.removesuffix("/v1"),
        api_version="2024-10-21",
        azure_ad_token_provider=token,
    )
    return patient(OpenAIModel(client, "our-gpt", name="azure/our-gpt")), client.close


def patient(model: OpenAIModel) -> OpenAIModel:
    """Without pauses between attempts."""
    model._sleep = at_once
    return model


class TestOfServer(ModelContract):
    """Models that ask the fake provider."""

    @pytest.fixture(params=[built_in, of_openai, of_azure], ids=lambda each: each.__name__)
    async def make(
        self, request: pytest.FixtureRequest, server: FakeOpenAI
    ) -> AsyncIterator[MakeModel]:
        held, closers = threading.Event(), []

        def make(*plans: Planned) -> Model:
            server.script([served(plan, held) for plan in plans])
            model: Model
            model, close = request.param(server)
            closers.append(close)
            return model

        yield make
        held.set()
        for close in closers:
            await close()


def ollama(*plans: Planned) -> httpx2.MockTransport:
    """A transport whose server gives these answers by Ollama's protocol."""
    left = list(plans)

    async def answer(request: httpx2.Request) -> httpx2.Response:
        plan = left.pop(0)
        if plan.status != 200:
            wait = {} if plan.retry_after is None else {"retry-after": str(plan.retry_after)}
            return httpx2.Response(plan.status, headers=wait, json={"error": plan.message})
        return httpx2.Response(200, content=lines(plan))

    async def lines(plan: Planned) -> AsyncIterator[bytes]:
        for word in words(plan.text):
            yield json.dumps({"message": {"content": word}, "done": False}).encode() + b"\n"
        if plan.hangs:
            await asyncio.Event().wait()
        if plan.breaks:
            raise httpx2.ReadError("the connection is gone")
        calls = [{"function": {"name": name, "arguments": args}} for name, args, _ in plan.calls]
        last = {"message": {"tool_calls": calls}, "done": True, "done_reason": "stop"}
        yield json.dumps({**last, "prompt_eval_count": 7, "eval_count": 3}).encode() + b"\n"

    return httpx2.MockTransport(answer)


class TestOllamaModel(ModelContract):
    @pytest.fixture
    def make(self) -> MakeModel:
        return lambda *plans: OllamaModel("llama3.2", transport=ollama(*plans))
