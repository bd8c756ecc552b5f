"""Names of arguments that Claude does not take: others on the wire, their own in calls."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from layover.plugins.models.anthropic.chat import AnthropicChat
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.message import Message, Role, TextPart, ToolCallPart, ToolResultPart
from layover.values.prompt import Delta, Prompt, ToolSpec
from support.providers import messages
from support.providers.answers import document
from support.providers.openai import FakeOpenAI, say

AT = "2026-01-01T00:00:00Z"
FILTER = {
    "type": "object",
    "properties": {
        "filter[name]": {"type": "string"},
        "$top": {"type": "integer"},
        "top": {"type": "integer"},
    },
    "required": ["$top"],
}
LIST = ToolSpec(name="list", description="Lists.", parameters=FILTER)
PLAIN = ToolSpec(
    name="get", description="Gets.", parameters={"type": "object", "properties": {"top": {}}}
)
ASKED = Message(
    id="m1", thread_id="t", role=Role.USER, content=(TextPart(text="hi"),), created_at=AT
)
CALLED = Message(
    id="m2",
    thread_id="t",
    role=Role.ASSISTANT,
    content=(ToolCallPart(tool_call_id="c1", tool_name="list", args={"$top": 5}),),
    created_at=AT,
)
TOLD = Message(
    id="m3",
    thread_id="t",
    role=Role.TOOL,
    content=(ToolResultPart(tool_call_id="c1", tool_name="list", result="none"),),
    created_at=AT,
)
PROMPT = Prompt(model="claude-sonnet-4-5", messages=(ASKED, CALLED, TOLD), tools=(LIST, PLAIN))
CALLS = (
    {
        "type": "tool_use",
        "id": "c2",
        "name": "list",
        "input": {"filter_name": "a", "top_2": 3, "top": 1},
    },
    {"type": "tool_use", "id": "c3", "name": "get", "input": {"top": 2}},
)
OWN = [{"filter[name]": "a", "$top": 3, "top": 1}, {"top": 2}]


@pytest.fixture
async def claude(server: FakeOpenAI) -> AsyncIterator[AnthropicChat]:
    chat = AnthropicChat("sk-ant", server.base_url)
    yield chat
    await chat.aclose()


def arguments(reply: Any) -> list[Any]:
    return [json.loads(call.args) for call in reply.calls]


async def test_a_request_has_only_names_that_claude_takes(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    server.script([document(messages.message({"type": "text", "text": "Hello"}))])
    await claude.complete(PROMPT)
    body = server.requests[0].body
    schema = body["tools"][0]["input_schema"]
    assert [*schema["properties"]] == ["filter_name", "top_2", "top"]
    assert (schema["required"], schema["properties"]["top_2"]["title"]) == (["top_2"], "$top")
    assert body["tools"][1]["input_schema"] == PLAIN.parameters
    # A call of the history is one that the model could make again.
    assert body["messages"][1]["content"][0]["input"] == {"top_2": 5}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_has_the_tools_own_names(
    server: FakeOpenAI, claude: AnthropicChat, stream: bool
) -> None:
    if stream:
        server.script([messages.stream(*messages.events(*CALLS, reason="tool_use"))])
    else:
        server.script([document(messages.message(*CALLS, reason="tool_use"))])
    deltas: list[Delta] = []
    reply = await claude.complete(PROMPT.model_copy(update={"stream": stream}), deltas.append)
    assert arguments(reply) == OWN
    if stream:
        told = ["".join(d.text for d in deltas if d.call == at) for at in range(2)]
        assert [json.loads(text) for text in told] == OWN


async def test_arguments_that_are_no_object_stay_what_the_model_wrote(server: FakeOpenAI) -> None:
    chat = OpenAIChat("sk", server.base_url)
    broken = say("", calls=[("c1", "list", '{"top_2": ')])
    server.script([broken])
    reply = await chat.complete(PROMPT.model_copy(update={"model": "acme/claude-4"}))
    assert reply.calls[0].args.startswith('{"top_2":')
    await chat.aclose()


async def test_other_models_get_the_names_as_they_are(server: FakeOpenAI) -> None:
    chat = OpenAIChat("sk", server.base_url)
    server.script([say("Hello")])
    await chat.complete(PROMPT.model_copy(update={"model": "gpt-5"}))
    assert server.requests[0].body["tools"][0]["function"]["parameters"] == FILTER
    await chat.aclose()
