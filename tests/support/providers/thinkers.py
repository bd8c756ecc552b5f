"""Providers that refuse the second step of a tool run unless their own state comes back unchanged.

Each is a responder for `FakeOpenAI.respond_with`, streamed and not: it asks for the tool `look` twice, and
then answers. What it gave with each call it expects back with that call, and it knows no state of others."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.providers.openai import Raw, Reply, document, fail, stream

Json = dict[str, Any]
ROLES = ("assistant", "tool")


@dataclass(frozen=True)
class Thinker:
    """A vendor. `state`: of its nth step (message fields, call fields); `pieces`: the same message fields
    as a stream brings them; `refusal`: of an assistant message with calls, what is wrong with it;
    `call_id`: of its nth step, which ends in its number; `of_text`: message fields of its last answer."""

    name: str
    state: Callable[[int], tuple[Json, Json]]
    pieces: Callable[[int], list[Json]]
    refusal: str
    call_id: Callable[[int], str] = "call_{}".format
    of_text: Json = field(default_factory=dict)

    def __call__(self, body: Any) -> Reply:
        said = [m for m in body["messages"] if m["role"] == "assistant"]
        if problem := self._problem([m for m in body["messages"] if m["role"] in ROLES]):
            return fail(400, problem)
        step = sum("tool_calls" in m for m in said)
        if body["messages"][-1]["role"] == "tool" and step % 2 == 0:
            return self._answered(body)
        return self._asked(body, step)

    def _problem(self, said: list[Json]) -> str | None:
        """Return the error in the messages that the client sends back; None if there is none."""
        called: list[str] = []
        for message in said:
            if message["role"] == "tool":
                if message["tool_call_id"] not in called:
                    return f"{self.refusal} (no call {message['tool_call_id']})"
                continue
            state: tuple[Json, Json] = (self.of_text, {})
            called = [call["id"] for call in message.get("tool_calls", ())]
            if called:
                step = called[0].rpartition("_")[2]
                if not step.isdigit() or called != [self.call_id(int(step))]:
                    return f"{self.refusal} (calls {called})"
                state = self.state(int(step))
            of_message, of_call = state
            known = {"role", "content", "tool_calls"} - of_message.keys()
            found = {k: v for k, v in message.items() if k not in known}
            if found != of_message:
                return f"{self.refusal} (message has {sorted(found)})"
            for call in message.get("tool_calls", ()):
                found = {k: v for k, v in call.items() if k not in ("id", "type", "function")}
                if found != of_call:
                    return f"{self.refusal} (call has {sorted(found)})"
        return None

    def _asked(self, body: Json, step: int) -> Raw:
        of_message, of_call = self.state(step)
        function = {"name": "look", "arguments": json.dumps({"n": step})}
        call = {"id": self.call_id(step), "type": "function", "function": function, **of_call}
        if not body.get("stream"):
            said = {"role": "assistant", "content": None, "tool_calls": [call], **of_message}
            return _document(body, said, "tool_calls")
        half = {"index": 0, **call, "function": {"name": "look", "arguments": ""}}
        rest = {"index": 0, "function": {"arguments": function["arguments"]}}
        deltas = [*self.pieces(step), {"tool_calls": [half]}, {"tool_calls": [rest]}]
        return _stream(deltas, "tool_calls")

    def _answered(self, body: Json) -> Raw:
        if not body.get("stream"):
            said = {"role": "assistant", "content": "done", **self.of_text}
            return _document(body, said, "stop")
        return _stream([self.of_text, {"content": "done"}], "stop")


def _document(body: Json, message: Json, finish: str) -> Raw:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return document({"model": body["model"], "choices": [choice]})


def _stream(deltas: list[Json], finish: str) -> Raw:
    events = [{"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    return stream(*events, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})


def _thought(step: int) -> str:
    return f"Für Schritt {step} \U0001f600 look"


def _words(step: int) -> list[Json]:
    return [{"reasoning_content": word} for word in (_thought(step)[:5], _thought(step)[5:])]


def _blocks(step: int) -> list[Json]:
    return [
        {
            "type": "reasoning.text",
            "text": _thought(step),
            "signature": f"sig{step}==",
            "format": "anthropic-claude-v1",
            "index": 0,
        },
        {
            "type": "reasoning.encrypted",
            "data": f"enc{step}==",
            "id": f"rs_{step}",
            "format": "openai-responses-v1",
            "index": 1,
        },
    ]


def _block_pieces(step: int) -> list[Json]:
    text, encrypted = _blocks(step)
    head = {"type": "reasoning.text", "format": text["format"], "index": 0}
    pieces = [
        {**head, "text": "", "signature": ""},
        {**head, "text": _thought(step)[:5]},
        {**head, "text": _thought(step)[5:]},
        {**head, "signature": text["signature"]},
        encrypted,
    ]
    return [{"reasoning": "", "reasoning_details": [piece]} for piece in pieces]


def _part(words: str, **more: Any) -> Json:
    return {"type": "thinking", "thinking": [{"type": "text", "text": words}], **more}


def _signed_blocks(step: int) -> list[Json]:
    return [
        {"type": "thinking", "thinking": _thought(step), "signature": f"sig{step}=="},
        {"type": "redacted_thinking", "data": f"one{step}"},
        {"type": "redacted_thinking", "data": f"two{step}"},
    ]


def _pieces_of_block(block: Json) -> list[Json]:
    if "thinking" not in block:
        return [block]
    words = block["thinking"]
    kinds: list[Json] = [{"thinking": words[:5]}, {"thinking": words[5:], "signature": ""}]
    last = {"thinking": "", "signature": block["signature"]}
    return [{"type": "thinking", **kind} for kind in (*kinds, last)]


def _signed(step: int) -> Json:
    return {
        "type": "reasoning.encrypted",
        "data": f"sig{step}==",
        "id": LONG_IDS.call_id(step),
        "format": "google-gemini-v1",
        "index": 0,
    }


DEEPSEEK = Thinker(
    "deepseek",
    lambda step: ({"reasoning_content": _thought(step)}, {}),
    _words,
    "Missing `reasoning_content` field in the assistant message",
    of_text={"reasoning_content": "That is all."},
)
MISTRAL = Thinker(
    "mistral",
    lambda step: ({"content": [_part(_thought(step), closed=True)]}, {}),
    lambda step: [
        {"content": [_part(_thought(step)[:5])]},
        {"content": [_part(_thought(step)[5:], closed=True)]},
    ],
    "the thinking is not as it was",
)
CLAUDE_BY_LITELLM = Thinker(
    "claude by litellm",
    lambda step: ({"thinking_blocks": _signed_blocks(step)}, {}),
    lambda step: [
        {"thinking_blocks": [piece]}
        for block in _signed_blocks(step)
        for piece in _pieces_of_block(block)
    ],
    "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
)
GROQ = Thinker(
    "groq",
    lambda step: ({"reasoning": _thought(step)}, {}),
    lambda step: [{"reasoning": word} for word in (_thought(step)[:5], _thought(step)[5:])],
    "the thoughts are not as they were",
    of_text={"reasoning": "That is all."},
)
LITELLM = Thinker(
    "litellm",
    lambda step: ({}, {}),
    lambda step: [],
    "Function call is missing a thought_signature in functionCall parts",
    call_id=lambda step: f"call_12__thought__{'Eo+/=' * 100}_{step}",
)
MOONSHOT = Thinker(
    "moonshot",
    DEEPSEEK.state,
    _words,
    "the ids of calls are not as they were",
    call_id=lambda step: f"functions.look:_{step}",
)
KIMI = Thinker(
    "kimi",
    DEEPSEEK.state,
    _words,
    "thinking is enabled but reasoning_content is missing in assistant tool call message",
)
OPENROUTER = Thinker(
    "openrouter",
    lambda step: ({"reasoning_details": _blocks(step)}, {}),
    _block_pieces,
    "Provider returned error: the thinking blocks of the latest message cannot be modified",
)
GEMINI = Thinker(
    "gemini",
    lambda step: ({}, {"extra_content": {"google": {"thought_signature": f"sig{step}/+=="}}}),
    lambda step: [],
    "Function call is missing a thought_signature in functionCall parts",
)
LONG_IDS = Thinker(
    "gemini by openrouter",
    lambda step: ({"reasoning_details": [_signed(step)]}, {}),
    lambda step: [{"reasoning_details": [_signed(step)]}],
    "the signature is of another call",
    call_id=lambda step: f"tool_look_at_the_level_3ZiChYzj8xER8HixJe7W_{step}",
)
ALL = (
    DEEPSEEK,
    KIMI,
    OPENROUTER,
    GEMINI,
    GROQ,
    LITELLM,
    MOONSHOT,
    LONG_IDS,
    MISTRAL,
    CLAUDE_BY_LITELLM,
)
