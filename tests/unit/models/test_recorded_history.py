"""Answers of real providers go back as a client sent them that the provider accepted
(`recorded/SOURCES.md`)."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from layover.adapters.models import wire
from layover.adapters.models.replies import Assembly
from layover.adapters.models.responses import request
from layover.adapters.models.responses.reply import ResponsesReply
from layover.ids import RandomIds
from layover.values.message import (
    Message,
    Part,
    ProviderState,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.prompt import Prompt, Reply

FOLDER = Path(__file__).parent / "recorded"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOST, MODEL = "host.example", "asked"
NONE = frozenset[str]()


def message(role: Role, *parts: Part, **more: Any) -> Message:
    return Message(id="m", thread_id="t", role=role, content=parts, created_at=NOW, **more)


def thread_after(reply: Reply) -> list[Message]:
    """The thread with this answer, whose calls are answered; and the user speaks again if it has none."""
    calls = [
        ToolCallPart(tool_call_id=c.id, tool_name=c.name, args=json.loads(c.args))
        for c in reply.calls
    ]
    states = {c.id: c.state for c in reply.calls if c.state}
    state = ProviderState(provider=HOST, model=MODEL, fields=reply.state, calls=states)
    texts = [TextPart(text=reply.text)] if reply.text else []
    results = [
        ToolResultPart(tool_call_id=c.tool_call_id, tool_name=c.tool_name, result="") for c in calls
    ]
    said = message(Role.ASSISTANT, *texts, *calls, provider_state=state)
    return [said, *(message(Role.TOOL, result, model_output="seen") for result in results)]


def plain(value: Any) -> Any:
    """Without nulls, and arguments as what they say: a client may write both in its own way."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    fields = {name: plain(each) for name, each in value.items() if each is not None}
    if isinstance(fields.get("arguments"), str):
        fields["arguments"] = json.loads(fields["arguments"])
    return fields


def ids_of_results(messages: list[Any], name: str) -> list[str]:
    return [m[name] for m in messages if name in m and m.get("type") != "function_call"]


@pytest.mark.parametrize("file", sorted(FOLDER.glob("chat_*.json")), ids=lambda file: file.stem)
def test_answer_of_chat_completions_goes_back_as_it_was_accepted(file: Path) -> None:
    first, second = json.loads(file.read_text())["steps"]
    assembly = Assembly(RandomIds(), MODEL, HOST)
    assembly.add(first["body"])
    sent = wire.messages(thread_after(assembly.reply()), (HOST, MODEL))
    accepted = [m for m in second["request"]["messages"] if m["role"] in ("assistant", "tool")]
    assert plain(sent[0]) == plain(accepted[0])
    assert ids_of_results(sent, "tool_call_id") == ids_of_results(accepted, "tool_call_id")


@pytest.mark.parametrize(
    "file", sorted(FOLDER.glob("responses_*.json")), ids=lambda file: file.stem
)
def test_answer_of_the_responses_api_goes_back_as_it_was_accepted(file: Path) -> None:
    first, second = json.loads(file.read_text())["steps"]
    assembly = ResponsesReply(RandomIds(), MODEL, HOST)
    assembly.add(first["body"])
    prompt = Prompt(model=MODEL, messages=tuple(thread_after(assembly.reply())), api="responses")
    sent = request.body(prompt, NONE, HOST)["input"]
    accepted = [item for item in second["request"]["input"] if item.get("role") != "user"]
    kinds = [item["type"] for item in accepted]
    assert [item["type"] for item in sent] == kinds
    for ours, theirs in zip(sent[:-1], accepted[:-1], strict=True):
        # The recorded client keeps ids and states to itself where it may.
        assert plain(ours) | plain(theirs) == plain(ours)
    assert ids_of_results(sent, "call_id") == ids_of_results(accepted, "call_id")
