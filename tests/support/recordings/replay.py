"""Recorded exchanges, asked for again over HTTP: by an adapter alone, and by an agent whose tools return what
the recorded client's did."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from layover import Agent, ModelSettings, Retry
from layover.adapters.aws.services import AwsServices
from layover.declare.tools.tool import tool_from_schema
from layover.errors import ModelError
from layover.plugins.models.anthropic.chat import AnthropicChat
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.prompt import Delta, Prompt, ProviderTool, Reply, ToolSpec
from layover.wiring import in_memory_runtime
from support.providers import converse
from support.providers.answers import Json
from support.providers.openai import FakeOpenAI, say
from support.recordings.files import Exchange, Recording
from support.recordings.items import Item, request_items
from support.wire_messages import user

Adapter = BedrockChat | AnthropicChat | OpenAIChat
FILLER = "(The recording ends here.)"
"""The answer where the recorded client asked for no further one."""
ANY_ARGUMENTS: Json = {"type": "object", "properties": {}, "additionalProperties": True}


@asynccontextmanager
async def adapter_of(api: str, server: FakeOpenAI) -> AsyncIterator[Adapter]:
    """The adapter for an API, with this server as its provider. It repeats a request at once."""

    async def at_once(_: float) -> None:
        return

    if api == "converse":
        aws = AwsServices(converse.variables_of(server.base_url))
        adapter: Adapter = BedrockChat(aws, sleep=at_once)
    elif api == "anthropic":
        adapter = AnthropicChat("key", server.base_url, sleep=at_once)
    else:
        adapter = OpenAIChat("key", server.base_url, sleep=at_once)
    try:
        yield adapter
    finally:
        await adapter.aclose()


async def read(
    server: FakeOpenAI, adapter: Adapter, exchange: Exchange
) -> tuple[Reply | ModelError, list[Delta]]:
    """Return an adapter's reading of an answer, and the pieces that it told."""
    server.respond_with(lambda _: exchange.raw)
    deltas: list[Delta] = []
    prompt = Prompt(
        model=exchange.model,
        messages=(user("x"),),
        tools=tuple(ToolSpec(name=n, description="", parameters={}) for n in tools_of(exchange)),
        stream=exchange.is_stream,
        api="responses" if exchange.api == "responses" else "chat",
    )
    try:
        return await adapter.complete(prompt, deltas.append), deltas
    except ModelError as error:
        return error, deltas


def tools_of(exchange: Exchange) -> list[str]:
    """Return the names of the tools that a request offers, and of those that the answer calls."""
    asked = exchange.request
    config = asked.get("toolConfig", {}).get("tools", ())
    tools = [t["toolSpec"] for t in config if "toolSpec" in t] or asked.get("tools") or ()
    offered = [t.get("function", t).get("name") for t in tools if not is_of_provider(exchange, t)]
    called = [call["name"] for call in exchange.expect.get("calls", ())]
    return [*dict.fromkeys([*offered, *called])]


def is_of_provider(exchange: Exchange, tool: Json) -> bool:
    """Return whether the provider runs a tool itself."""
    own = {"function", "custom"} if exchange.api == "anthropic" else {"function"}
    return exchange.api != "converse" and tool.get("type", "function") not in own


@dataclass
class Turn:
    """An input of the user's, the answers that follow, and the results of their calls, in their order."""

    text: str
    answers: list[Exchange]
    results: list[Item] = field(default_factory=list)


def conversations(recording: Recording) -> Iterator[list[Exchange]]:
    """Yield exchanges whose requests hold the answers before them, and were accepted."""
    chain: list[Exchange] = []
    for exchange in recording.exchanges:
        if not exchange.request or not exchange.has_answer:
            continue
        if not chain or not _goes_on(chain[-1], exchange):
            yield from [chain] if len(chain) > 1 else ()
            chain = []
        chain.append(exchange)
    yield from [chain] if len(chain) > 1 else ()


def _goes_on(before: Exchange, after: Exchange) -> bool:
    old, new = (request_items(each.api, each.request) for each in (before, after))
    is_longer = len(new) > len(old) and new[len(old)].kind not in ("user", "result")
    return is_longer and [i.kind for i in old] == [i.kind for i in new[: len(old)]]


def turns_of(chain: list[Exchange]) -> list[Turn]:
    """Return what an agent has to be told, and what its tools have to return, to come to these requests."""
    items = [request_items(each.api, each.request) for each in chain]
    texts = [i.fields.get("content", "") for i in items[0] if i.kind == "user"]
    turns = [Turn("\n\n".join(filter(None, texts)) or "(a file)", chain[:1])]
    for exchange, before, after in zip(chain[1:], items, items[1:], strict=False):
        new = after[len(before) :]
        # Some clients add calls of their own making.
        names = {c["name"] for c in turns[-1].answers[-1].expect["calls"]}
        called = {i.fields["id"] for i in new if i.kind == "call" and i.fields["name"] in names}
        turns[-1].results += [
            item for item in new if item.kind == "result" and item.fields["id"] in called
        ]
        if new[-1].kind == "user":
            turns.append(Turn(new[-1].fields["content"], [exchange]))
        else:
            turns[-1].answers.append(exchange)
    return turns


async def play(
    server: FakeOpenAI, api: str, turns: list[Turn]
) -> list[tuple[Exchange | None, Json]]:
    """Have an agent go through a conversation. Return its requests, each with the exchange in whose place it
    stands."""
    answers = [exchange for turn in turns for exchange in turn.answers]
    results: list[Item] = []

    async def answer(**_: Any) -> str:
        result = results.pop(0) if results else Item("result", {"content": "seen"})
        text = str(result.fields.get("content", ""))
        if result.fields.get("is_error"):
            raise Retry(text)
        return text

    names = dict.fromkeys(name for exchange in answers for name in tools_of(exchange))
    own = answers[0].request.get("tools") or () if api == "responses" else ()
    sent: list[tuple[Exchange | None, Json]] = []
    async with adapter_of(api, server) as adapter:
        agent = Agent(
            "recorded",
            model=answers[0].model,
            tools=[tool_from_schema(name, name, ANY_ARGUMENTS, answer) for name in names],
            api="responses" if api == "responses" else "chat",
            provider_tools=[
                ProviderTool(type=t["type"], options={k: v for k, v in t.items() if k != "type"})
                for t in own
                if is_of_provider(answers[0], t)
            ],
            model_settings=ModelSettings(cache="off"),
        )
        agent.runtime = in_memory_runtime(agent, model=adapter)
        server.respond_with(lambda _: say(FILLER))
        for turn in turns:
            results[:] = turn.results
            server.script(exchange.raw for exchange in turn.answers)
            before = len(server.turns)
            if any(exchange.is_stream for exchange in turn.answers):
                handle = agent.stream(turn.text, thread_id="t")
                async for _ in handle:
                    pass
                result = await handle.result()
            else:
                result = await agent.generate(turn.text, thread_id="t")
            if result.error is not None:
                told = result.error_detail or result.error
                raise ModelError(told.message, type=result.error.type)
            requests = [request.body for request in server.turns[before:]]
            assert len(requests) >= len(turn.answers), "an answer was not asked for"
            assert results == [], "a call was not made"
            places: list[Exchange | None] = [*turn.answers, *[None] * len(requests)]
            sent += zip(places, requests, strict=False)
        await agent.wait_for_memory()
    return sent
