"""The model adapter beside the `openai` package: the same request, the same answer, the same error."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from layover.errors import ModelError
from layover.plugins.models import wire
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import OutputSpec, Prompt, ToolSpec
from support.providers import reference
from support.providers.openai import FakeOpenAI, calls, delta, document, fail, say, stream
from support.providers.reference import Exchange
from support.recordings.files import Recording, recordings

if TYPE_CHECKING:
    from openai import AsyncOpenAI

AT = datetime(2026, 1, 1, tzinfo=UTC)
FINISH = {"tool-calls": "tool_calls", "content-filter": "content_filter"}
"""Layover's words for the wire's."""

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
PROMPT = Prompt(
    model="openai/gpt-5-mini",
    system="Be größer.",
    messages=(
        Message(
            id="m",
            thread_id="t",
            role=Role.USER,
            content=(TextPart(text="hi \u2028"),),
            created_at=AT,
        ),
    ),
    tools=(ToolSpec(name="f", description="F", parameters=SCHEMA, strict=True),),
    output=OutputSpec(name="Out", json_schema=SCHEMA, strict=True),
    cache_key="k",
)
STREAM = PROMPT.model_copy(update={"stream": True})
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as fake:
        yield fake


@pytest.fixture
async def theirs(server: FakeOpenAI) -> "AsyncIterator[AsyncOpenAI]":
    # Most of a second: for no worker that only collects.
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key="k", base_url=server.base_url, max_retries=0) as client:
        yield client


@pytest.fixture
async def ours(server: FakeOpenAI) -> AsyncIterator[OpenAIChat]:
    async def at_once(_: float) -> None:
        return

    chat = OpenAIChat("k", server.base_url, sleep=at_once)
    yield chat
    await chat.aclose()


async def both(
    server: FakeOpenAI, ours: OpenAIChat, theirs: "AsyncOpenAI", answer: Any, prompt: Prompt
) -> tuple[Exchange, Exchange]:
    """Return both clients' readings of one answer. Ours may repeat the request as often as it wants."""
    server.respond_with(lambda _: answer)
    expected = await reference.ask(theirs, wire.body(prompt))
    try:
        found = reference.of_reply(await ours.complete(prompt))
    except ModelError as error:
        found = reference.of_error(error)
    found.finish = FINISH.get(found.finish or "", found.finish)
    return found, expected


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429, 500, 503])
async def test_error_has_the_class_and_the_status_of_the_reference(
    server: FakeOpenAI, ours: OpenAIChat, theirs: "AsyncOpenAI", status: int
) -> None:
    found, expected = await both(server, ours, theirs, fail(status, "no"), PROMPT)
    assert found == expected
    assert found.status == status


@pytest.mark.parametrize("prompt", [PROMPT, STREAM], ids=["plain", "stream"])
async def test_refused_connection_is_the_error_of_the_reference(prompt: Prompt) -> None:
    from openai import AsyncOpenAI

    async def at_once(_: float) -> None:
        return

    with FakeOpenAI() as gone:
        url = gone.base_url
    async with AsyncOpenAI(api_key="k", base_url=url, max_retries=0) as client:
        expected = await reference.ask(client, wire.body(prompt))
    chat = OpenAIChat("k", url, sleep=at_once)
    with pytest.raises(ModelError) as caught:
        await chat.complete(prompt)
    await chat.aclose()
    assert reference.of_error(caught.value) == expected


async def test_error_event_of_a_stream_is_an_error_for_both(
    server: FakeOpenAI, ours: OpenAIChat, theirs: "AsyncOpenAI"
) -> None:
    broken = stream(delta("Hel"), {"error": {"message": "no", "code": 400}})
    found, expected = await both(server, ours, theirs, broken, STREAM)
    assert found.error
    assert expected.error


@pytest.mark.parametrize("prompt", [PROMPT, STREAM], ids=["plain", "stream"])
@pytest.mark.parametrize(
    "answer",
    [
        say("Grüße \U0001f600 you", usage=USAGE),
        say("cut", finish_reason="length", usage=USAGE),
        say("no", finish_reason="content_filter"),
        say("done", reasoning="hm hm hm", usage=USAGE),
        calls(("refund", {"amount": 40}, "c_1"), ("look", {"at": "größe"}, "c_2")),
    ],
    ids=["text", "length", "filtered", "reasoning", "calls"],
)
async def test_answer_is_read_as_the_reference_reads_it(
    server: FakeOpenAI, ours: OpenAIChat, theirs: "AsyncOpenAI", prompt: Prompt, answer: Any
) -> None:
    found, expected = await both(server, ours, theirs, answer, prompt)
    assert found == expected
    assert found.error is None


async def test_refusal_is_read_as_the_reference_reads_it(
    server: FakeOpenAI, ours: OpenAIChat, theirs: "AsyncOpenAI"
) -> None:
    said = {"role": "assistant", "content": None, "refusal": "I will not"}
    body = {"model": "m", "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
    found, expected = await both(server, ours, theirs, document(body), PROMPT)
    assert (found.text, found.model) == (expected.text, expected.model)


@pytest.mark.parametrize("prompt", [PROMPT, STREAM], ids=["plain", "stream"])
async def test_request_is_the_one_that_the_reference_sends(
    server: FakeOpenAI, ours: OpenAIChat, theirs: "AsyncOpenAI", prompt: Prompt
) -> None:
    await both(server, ours, theirs, say("x"), prompt)
    first, second = server.requests
    assert first.body == second.body
    assert first.path == second.path == "/v1/chat/completions"
    same = ("authorization", "content-type", "accept")
    assert [first.headers[name] for name in same] == [second.headers[name] for name in same]
    # Of the reference's encodings, the one that everybody means the same by.
    assert second.headers["accept-encoding"] == "gzip"
    assert "gzip" in first.headers["accept-encoding"]


DIFFERENT = {
    # Blocks of content, which the reference has no types for; and an answer without a reason to stop.
    "mistral/thinking_blocks": {"text", "reasoning"},
    "snowflake/stream_thinking_blocks": {"reasoning", "finish"},
    "snowflake/thoughts_call_then_text": {"reasoning", "finish"},
    "snowflake/empty_function_call": {"finish"},
    # The reference knows no calls without a type.
    "mistral/call_then_text": {"calls"},
    # Thoughts in the text.
    "groq/inline_thoughts": {"text", "reasoning"},
    "huggingface/inline_thoughts": {"text", "reasoning"},
    # An error event: the reference gives it no status. And an answer that the provider cannot read.
    "groq/stream_tool_error_after_text": {"error", "status"},
    "groq/tool_use_failed_then_goes_on": {"error"},
}
"""Differences that are intended, by recording."""


@pytest.mark.parametrize(
    "record", [each for each in recordings() if each.api == "chat"], ids=lambda record: record.name
)
async def test_recorded_traffic_is_read_as_the_reference_reads_it(
    server: FakeOpenAI, ours: OpenAIChat, theirs: "AsyncOpenAI", record: Recording
) -> None:
    different: set[str] = set()
    for exchange in record.exchanges:
        prompt = STREAM if exchange.is_stream else PROMPT
        found, expected = await both(server, ours, theirs, exchange.raw, prompt)
        different |= {
            name for name, value in vars(found).items() if value != getattr(expected, name)
        }
    assert different == DIFFERENT.get(record.name, set())
