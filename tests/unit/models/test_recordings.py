"""Recorded traffic of real providers, replayed byte for byte."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from layover.adapters.models.openai_chat import OpenAIChat
from layover.errors import ModelError
from layover.values.prompt import Delta, Prompt, Reply
from support.providers.openai import FakeOpenAI, Raw

FOLDER = Path(__file__).parents[4] / "shared" / "recordings"
PROMPT = Prompt(model="asked")

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="no recordings beside the repository")


def recorded(name: str) -> list[Raw]:
    steps = json.loads((FOLDER / f"{name}.json").read_text())["steps"]
    return [_raw(step) for step in steps]


def _raw(step: dict[str, Any]) -> Raw:
    is_stream = "sse" in step
    kind = "text/event-stream" if is_stream else "application/json"
    chunks = step["sse"] if is_stream else [json.dumps(step["body"], ensure_ascii=False)]
    headers = {"content-type": kind, **step["headers"]}
    return Raw(step["status"], headers, tuple(chunk.encode() for chunk in chunks))


async def replayed(server: FakeOpenAI, chat: OpenAIChat, name: str) -> tuple[Reply, list[Delta]]:
    server.script(recorded(name))
    deltas: list[Delta] = []
    prompt = PROMPT.model_copy(update={"stream": name.startswith("stream")})
    reply = await chat.complete(prompt, deltas.append)
    assert "".join(d.text for d in deltas if d.kind == "text") == (reply.text if deltas else "")
    assert "".join(d.text for d in deltas if d.kind == "reasoning") in ("", reply.reasoning)
    return reply, deltas


async def test_an_answer_that_breaks_the_protocol_ends_in_a_clear_error(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    server.script(recorded("plain_invalid") * 6)
    with pytest.raises(ModelError, match="without any choices") as caught:
        await chat.complete(PROMPT)
    assert caught.value.type == "InvalidResponse"
    assert len(server.requests) == 6


async def test_an_error_event_after_text_is_told_after_three_attempts(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    server.script(recorded("stream_tool_error_after_text") * 4)
    deltas: list[Delta] = []
    with pytest.raises(ModelError, match="Tool choice is required") as caught:
        await chat.complete(PROMPT.model_copy(update={"stream": True}), deltas.append)
    assert (caught.value.status, caught.value.type) == (400, "InvalidResponse")
    assert deltas[-1] == Delta(kind="text", text="maybe")
    assert deltas[0].kind == "reasoning"
    assert [d.kind for d in deltas].count("restart") == 2
    assert len(server.requests) == 3


async def test_a_call_that_the_provider_cannot_read_is_asked_for_again(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    server.script(recorded("groq/tool_use_failed_then_goes_on"))
    reply = await chat.complete(PROMPT)
    assert [call.name for call in reply.calls] == ["get_something_by_name"]
    assert len(server.requests) == 2


async def test_reasoning_deltas_come_before_the_text(server: FakeOpenAI, chat: OpenAIChat) -> None:
    reply, deltas = await replayed(server, chat, "stream_thinking")
    assert reply.reasoning.startswith("Hmm, the user")
    assert reply.text.endswith("you today?")
    kinds = [d.kind for d in deltas]
    assert kinds == sorted(kinds)  # "reasoning" < "text"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (6, 212)
    assert reply.usage.reasoning_tokens == 198
    assert (reply.model, reply.finish_reason) == ("deepseek-reasoner", "stop")


async def test_reasoning_blocks_and_a_stream_without_a_reason_to_stop(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    reply, _ = await replayed(server, chat, "stream_thinking_blocks")
    assert reply.reasoning == "15 * 27 = 405"
    assert reply.text.startswith("15 \u00d7 27 = **405**\n\nHere")
    assert (reply.finish_reason, reply.usage.total_tokens) == ("stop", 118)


async def test_reasoning_told_twice_counts_once_and_comments_are_skipped(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    reply, deltas = await replayed(server, chat, "stream_reasoning_details")
    assert reply.reasoning.startswith("This ")
    assert "ThisThis" not in reply.reasoning
    assert deltas[0] == Delta(kind="reasoning", text="This")
    assert reply.text.endswith("+ 2 = 4")
    assert reply.usage.reasoning_tokens == 13


async def test_a_field_of_reasoning_is_read(server: FakeOpenAI, chat: OpenAIChat) -> None:
    reply, _ = await replayed(server, chat, "plain_reasoning_field")
    assert reply.text == "Hello! How can I help you today?"
    assert reply.reasoning.startswith("**Crafting a friendly greeting**")
    assert reply.reasoning.count("Crafting") == 1


async def test_annotations_are_the_sources_of_the_text(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    reply, _ = await replayed(server, chat, "stream_annotations")
    assert "antic-ai" in reply.text
    (sources,) = reply.data
    assert [each["url"] for each in sources.data][:1] == ["https://github.com/pydantic/pydantic-ai"]
    assert reply.usage.cost_usd == Decimal("0.0076509169000000005")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (2317, 53)


async def test_a_final_answer_may_be_a_call(server: FakeOpenAI, chat: OpenAIChat) -> None:
    server.script(recorded("plain_tool_output"))
    first, second = await chat.complete(PROMPT), await chat.complete(PROMPT)
    assert [(c.id, c.name, c.args) for c in first.calls] == [
        ("call_iXFttys57ap0o16JSlC8yhYo", "get_user_country", "{}")
    ]
    assert json.loads(second.calls[0].args) == {"city": "Mexico City", "country": "Mexico"}
    assert first.finish_reason == second.finish_reason == "tool-calls"


async def test_json_that_was_asked_for_stays_text(server: FakeOpenAI, chat: OpenAIChat) -> None:
    server.script(recorded("plain_prompted_json"))
    first, second = await chat.complete(PROMPT), await chat.complete(PROMPT)
    assert first.calls[0].name == "get_user_country"
    assert json.loads(second.text) == {"city": "Mexico City", "country": "Mexico"}


async def test_an_answer_about_an_image_is_text(server: FakeOpenAI, chat: OpenAIChat) -> None:
    reply, _ = await replayed(server, chat, "plain_image")
    assert reply.text == "The fruit in the image is a kiwi."
    assert (reply.usage.input_tokens, reply.model) == (1119, "gpt-4o-2024-08-06")


async def test_reasoning_tokens_are_counted(server: FakeOpenAI, chat: OpenAIChat) -> None:
    reply, _ = await replayed(server, chat, "plain_reasoning_usage")
    body = json.loads((FOLDER / "plain_reasoning_usage.json").read_text())["steps"][0]["body"]
    details = body["usage"]["completion_tokens_details"]
    assert reply.usage.reasoning_tokens == details["reasoning_tokens"] > 0


def test_every_recording_is_replayed_here() -> None:
    replayed_here = Path(__file__).read_text()
    assert [f.stem for f in FOLDER.glob("*.json") if f'"{f.stem}"' not in replayed_here] == []
