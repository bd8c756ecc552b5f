"""Recorded answers of Claude, replayed byte for byte, and sent back as they came."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from layover.adapters.models.anthropic.chat import AnthropicChat
from layover.errors import ModelError
from layover.values.message import (
    Message,
    Part,
    ProviderState,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.prompt import CITATIONS, PROVIDER_TOOL, Delta, Prompt, Reply
from support.providers.openai import FakeOpenAI, Raw

OURS = Path(__file__).parents[1] / "recorded"
ALL = Path(__file__).parents[5] / "shared" / "recordings" / "anthropic"
"""Beside the repository, where there are more."""
PATHS = {p.stem.removeprefix("anthropic_"): p for p in OURS.glob("anthropic_*.json")} | {
    p.stem: p for p in ALL.glob("*.json")
}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
THOUGHTS = {"thinking", "redacted_thinking"}

STEPS = [
    (name, at)
    for name, path in sorted(PATHS.items())
    for at in range(len(json.loads(path.read_text())["steps"]))
]


def step_of(name: str, at: int) -> dict[str, Any]:
    step: dict[str, Any] = json.loads(PATHS[name].read_text())["steps"][at]
    return step


def raw(step: dict[str, Any]) -> Raw:
    is_stream = "sse" in step
    kind = "text/event-stream" if is_stream else "application/json"
    chunks = step["sse"] if is_stream else [json.dumps(step["body"], ensure_ascii=False)]
    return Raw(
        step["status"], {"content-type": kind, **step["headers"]}, tuple(c.encode() for c in chunks)
    )


@pytest.fixture
async def claude(server: FakeOpenAI) -> AsyncIterator[AnthropicChat]:
    async def sleep(seconds: float) -> None:
        pass

    chat = AnthropicChat("k", server.base_url, sleep=sleep)
    yield chat
    await chat.aclose()


async def asked(
    server: FakeOpenAI, claude: AnthropicChat, step: dict[str, Any], *messages: Message
) -> tuple[Reply, list[Delta]]:
    server.script([raw(step)])
    deltas: list[Delta] = []
    prompt = Prompt(model="claude-x", stream="sse" in step, messages=messages)
    return await claude.complete(prompt, deltas.append), deltas


@pytest.mark.parametrize(("name", "at"), STEPS)
async def test_answer_is_read_as_its_provider_meant_it(
    server: FakeOpenAI, claude: AnthropicChat, name: str, at: int
) -> None:
    step = step_of(name, at)
    expected = step["expect"]
    if "error" in expected:
        with pytest.raises(ModelError, match=expected["error"]["message"][:20]) as caught:
            await asked(server, claude, step)
        assert caught.value.status == expected["error"]["status"]
        return
    reply, deltas = await asked(server, claude, step)
    assert reply.text == expected["text"]
    assert reply.reasoning.replace("\n\n", "") == expected["reasoning"].replace("\n\n", "")
    assert [(c.id, c.name, json.loads(c.args)) for c in reply.calls] == [
        (c["id"], c["name"], json.loads(c["args"])) for c in expected["calls"]
    ]
    assert (reply.finish_reason, reply.model) == (expected["finish"], expected["model"])
    usage = expected["usage"]
    assert reply.usage.reasoning_tokens == usage["reasoning"]
    if name != "stream_compaction":  # what its iterations say is more
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (
            usage["input"],
            usage["output"],
        )
        assert reply.usage.cached_input_tokens == usage["cached"]
        assert reply.usage.cache_write_input_tokens == usage["cache_written"]
    if deltas:
        assert "".join(d.text for d in deltas if d.kind == "text") == reply.text
        assert "".join(d.text for d in deltas if d.kind == "reasoning") == reply.reasoning


def message(role: Role, *content: Part, **more: Any) -> Message:
    return Message(id="m", thread_id="t", role=role, content=content, created_at=NOW, **more)


def history(reply: Reply) -> list[Message]:
    """An answer, as a thread has it, and results of its calls."""
    calls = [
        ToolCallPart(tool_call_id=c.id, tool_name=c.name, args=json.loads(c.args))
        for c in reply.calls
    ]
    results = [
        ToolResultPart(tool_call_id=c.id, tool_name=c.name, result="seen") for c in reply.calls
    ]
    state = ProviderState(provider=reply.provider, model=reply.asked_model, fields=reply.state)
    said = [TextPart(text=reply.text)] if reply.text else []
    return [
        message(Role.ASSISTANT, *said, *calls, provider_state=state),
        *([message(Role.TOOL, *results)] if results else []),
    ]


def plain(block: dict[str, Any]) -> dict[str, Any]:
    """A block without what the API does not want back."""
    return {name: v for name, v in block.items() if name not in ("citations", "caller")}


@pytest.mark.parametrize(
    ("name", "at"), [(n, at) for n, at in STEPS if not n.startswith(("error", "stream"))]
)
async def test_answer_goes_back_block_by_block(
    server: FakeOpenAI, claude: AnthropicChat, name: str, at: int
) -> None:
    step = step_of(name, at)
    reply, _ = await asked(server, claude, step)
    hello = message(Role.USER, TextPart(text="hello"))
    await asked(server, claude, step, hello, *history(reply), *([hello] if not reply.calls else []))
    sent = server.requests[-1].body["messages"][1]
    came = [b for b in step["body"]["content"] if b["type"] != "text" or b["text"].strip()]
    assert sent["role"] == "assistant"
    assert [plain(block) for block in sent["content"]] == [plain(block) for block in came]


async def test_signatures_of_a_stream_go_back_unchanged(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    step = step_of("stream_thoughts", 0)
    reply, _ = await asked(server, claude, step)
    await asked(server, claude, step, *history(reply), message(Role.USER, TextPart(text="on")))
    sent = server.requests[-1].body["messages"][1]["content"]
    said = "".join(step["sse"])
    assert sent[0]["signature"]
    assert sent[0]["signature"] in said


async def test_tools_and_sources_of_a_search_are_told(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    reply, _ = await asked(server, claude, step_of("web_search", 0))
    tool, cited = reply.data
    assert (tool.name, tool.data["tool"], tool.data["action"]) == (
        PROVIDER_TOOL,
        "web_search",
        {"query": "top news today"},
    )
    assert cited.name == CITATIONS
    assert len(cited.data) == 3
    first = cited.data[0]
    assert reply.text[first["start_index"] :].startswith("Iran and Israel declaring")
    assert first["url"].startswith("https://")


async def test_compaction_is_paid_by_its_iterations(
    server: FakeOpenAI, claude: AnthropicChat
) -> None:
    reply, _ = await asked(server, claude, step_of("stream_compaction", 0))
    assert (reply.usage.cached_input_tokens, reply.usage.input_tokens) == (55_096, 55_377)
