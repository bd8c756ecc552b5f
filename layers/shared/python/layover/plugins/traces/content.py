"""Messages in the JSON that the semantic conventions want. They are exported only if the deployer asks for
them. What they contain, the agent's hooks have left in it: they come from requests as they are sent, and from
replies as they are stored."""

import json
from collections.abc import Sequence
from typing import Any

from layover.values.base import Json
from layover.values.message import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
)

MAX_TEXT = 64 * 1024
"""The most characters of an attribute. Receivers refuse a whole request for one that is too large."""
TOO_LONG = '"left out: too long"'
"""Stands for a longer one."""


def dump(value: Json) -> str:
    """Return the value as JSON, or `TOO_LONG`: a piece of JSON could not be read."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= MAX_TEXT else TOO_LONG


def as_input(messages: Sequence[Message]) -> str:
    """Return the messages of a request."""
    return dump([{"role": m.role.value, "parts": _parts(m)} for m in messages])


def as_output(message: Message, finish_reason: str) -> str:
    """Return the message of a reply."""
    reply = {"role": message.role.value, "parts": _parts(message), "finish_reason": finish_reason}
    return dump([reply])


def as_instructions(text: str) -> str:
    """Return the system prompt."""
    return dump([{"type": "text", "content": text}])


def _parts(message: Message) -> list[dict[str, Any]]:
    if message.role is Role.TOOL:
        ids = [p.tool_call_id for p in message.content if p.type == "tool_result"]
        response = {"type": "tool_call_response", "id": ids[0] if ids else None}
        files = [part for file in message.content if (part := _part(file)) is not None]
        return [{**response, "response": message.model_output}, *files]
    return [part for each in message.content if (part := _part(each)) is not None]


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"type": "text", "content": part.text}
        case ReasoningPart():
            return {"type": "reasoning", "content": part.text}
        case ToolCallPart():
            call = {"id": part.tool_call_id, "name": part.tool_name, "arguments": part.args}
            return {"type": "tool_call", **call}
        case FilePart():
            # Neither its bytes nor its address, which may be signed.
            return {"type": "file", "mime_type": part.mime_type}
    return None
