"""Anthropic's side of the Messages API: messages, events, and what it refuses."""

import json
from collections.abc import Sequence
from typing import Any

from support.providers.answers import Json, Raw, Request, Response, document, words

STREAM = {"content-type": "text/event-stream"}
_STOPS = {"length": "max_tokens", "content_filter": "refusal"}
_THOUGHTS = ("thinking", "redacted_thinking")
MAX_MARKS = 4


def event(kind: str, **fields: Any) -> bytes:
    """One event of a stream: `event("message_stop")`."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def counted(input: int = 10, output: int = 5, **more: int) -> Json:
    """Token counts."""
    return {"input_tokens": input, "output_tokens": output, **more}


def message(*content: Json, reason: str = "end_turn", usage: Json | None = None) -> Json:
    """A plain answer's body."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": list(content),
        "stop_reason": reason,
        "usage": usage or counted(),
    }


def refuse(status: int, kind: str, text: str, **headers: str) -> Raw:
    """An error answer, as Anthropic sends it."""
    body = {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return document(body, status=status, headers=named)


def events(*content: Json, reason: str = "end_turn", usage: Json | None = None) -> list[bytes]:
    """The events of a stream of these blocks, every text in pieces."""
    head = message(usage=counted(output=1))
    sent = [event("message_start", message={**head, "stop_reason": None}), event("ping")]
    for index, block in enumerate(content):
        sent += _block(index, block)
    delta = {"stop_reason": reason, "stop_sequence": None}
    last = event("message_delta", delta=delta, usage=usage or counted())
    return [*sent, last, event("message_stop")]


def _block(index: int, block: Json) -> list[bytes]:
    kind = block["type"]
    deltas: list[Json] = []
    start = dict(block)
    if kind == "text":
        start["text"] = ""
        deltas += [{"type": "text_delta", "text": word} for word in words(block["text"])]
    elif kind == "thinking":
        start |= {"thinking": "", "signature": ""}
        deltas += [{"type": "thinking_delta", "thinking": w} for w in words(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif "input" in block:
        start["input"] = {}
        text = json.dumps(block["input"])
        half = len(text) // 2
        pieces = ("", text[:half], text[half:]) if block["input"] else ("",)
        deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return [
        event("content_block_start", index=index, content_block=start),
        *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
        event("content_block_stop", index=index),
    ]


def stream(*chunks: bytes, **more: Any) -> Raw:
    """A stream of these events."""
    return Raw(200, STREAM, chunks, **more)


def rendered(answer: Response, request: Request) -> Raw:
    """A well-formed answer by the kind that was asked for."""
    reason = _STOPS.get(answer.finish_reason or "", "tool_use" if answer.calls else "end_turn")
    content = blocks_of(answer)
    if request.body.get("stream"):
        return stream(*events(*content, reason=reason, usage=answer.usage))
    return document(message(*content, reason=reason, usage=answer.usage))


def blocks_of(answer: Response) -> list[Json]:
    """The blocks of an answer."""
    content: list[Json] = []
    if answer.reasoning:
        content.append(
            {"type": "thinking", "thinking": answer.reasoning, "signature": answer.signature}
        )
    content += [{"type": "text", "text": answer.text}] if answer.text else []
    return content + [
        {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(args)}
        for call_id, name, args in answer.calls
    ]


def problem(body: Json) -> str | None:
    """Return the API's error message for a request; None if the request is valid."""
    turns = body["messages"]
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    if not turns or turns[0]["role"] != "user":
        return "messages: first message must use the user role"
    if turns[-1]["role"] != "user":
        return "This model does not support assistant message prefill."
    open_calls: list[str] = []
    for before, turn in zip([None, *turns], turns, strict=False):
        if before is not None and before["role"] == turn["role"]:
            return "messages: roles must alternate"
        if found := _of_turn(turn, open_calls):
            return found
        open_calls = [b["id"] for b in turn["content"] if b["type"] == "tool_use"]
    return _of_tools(body) or _of_thinking(body)


def _of_turn(turn: Json, open_calls: Sequence[str]) -> str | None:
    content = turn["content"]
    if not content:
        return "messages: content must not be empty"
    kinds = [block["type"] for block in content]
    answered = [b["tool_use_id"] for b in content if b["type"] == "tool_result"]
    if answered != list(open_calls):
        return f"`tool_use` ids were found without `tool_result` blocks: {open_calls}, {answered}"
    if "tool_result" in kinds[len(answered) :]:
        return "`tool_result` blocks have to come first"
    if any(b["type"] == "text" and not b["text"].strip() for b in content):
        return "text content blocks must contain non-whitespace text"
    called = [b["id"] for b in content if b["type"] == "server_tool_use"]
    results = [b["tool_use_id"] for b in content if b["type"].endswith("_tool_result")]
    if called != results:
        return f"`server_tool_use` {called} without its result {results}"
    if turn["role"] == "assistant" and kinds[-1] in _THOUGHTS:
        return "The final block in an assistant message cannot be `thinking`"
    return None


def _of_tools(body: Json) -> str | None:
    blocks = [b for turn in body["messages"] for b in turn["content"]]
    if any(b["type"] in ("tool_use", "tool_result") for b in blocks) and not body.get("tools"):
        return "tools: Field required, since messages have tool_use"
    marks = json.dumps(body).count('"cache_control"')
    if marks > MAX_MARKS:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    if any("cache_control" in b for b in blocks if b["type"] in _THOUGHTS):
        return "cache_control cannot be set for `thinking` blocks"
    return None


def _of_thinking(body: Json) -> str | None:
    thinking = body.get("thinking", {})
    if thinking.get("type") not in ("enabled", "adaptive"):
        return None
    if thinking.get("budget_tokens", 0) >= body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`"
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        return "Thinking may not be enabled when tool_choice forces tool use."
    if body.get("temperature", 1) != 1:
        return "`temperature` may only be set to 1 when thinking is enabled."
    last = next((t for t in reversed(body["messages"]) if t["role"] == "assistant"), None)
    waits = any(b["type"] == "tool_result" for b in body["messages"][-1]["content"])
    if last is not None and waits and last["content"][0]["type"] not in _THOUGHTS:
        return "Expected `thinking` or `redacted_thinking`, but found `tool_use`."
    return None
