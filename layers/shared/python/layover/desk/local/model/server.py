"""The built-in stand-in for a model provider: OpenAI-compatible, without a key or a network.

It drives the example agents (`layover.desk.local.model.mind`), and says that it is one."""

import asyncio
import base64
import hashlib
import json
import math
import re
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from layover.clock import SystemClock
from layover.desk.local.model.mind import Thought, think

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

Json = Mapping[str, Any]

MODEL = "layover-stand-in"
DIMENSIONS = 256
PAUSE_S = 0.01
"""Between two pieces of a stream: slow enough to watch."""


def create_app(pause_s: float = PAUSE_S) -> "Starlette":
    """Return the application: `POST /v1/chat/completions`, `POST /v1/embeddings`, `GET /v1/models`."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    async def chat(request: "Request") -> "Response":
        body = await _body(request)
        if body is None or not isinstance(body.get("messages"), list):
            return JSONResponse(_error("messages is required"), status_code=400)
        task = request.headers.get("x-layover-task", "turn")
        # The day of the movable clock, as the functions see it: "tomorrow" is the same day for both.
        thought = think(body, task, SystemClock().now().date())
        if body.get("stream"):
            return StreamingResponse(
                _events(body, thought, pause_s), media_type="text/event-stream"
            )
        return JSONResponse(completion(body, thought))

    async def embed(request: "Request") -> "Response":
        body = await _body(request)
        if body is None or not isinstance(body.get("input"), str | list):
            return JSONResponse(_error("input is required"), status_code=400)
        return JSONResponse(embeddings(body))

    async def models(_: "Request") -> "Response":
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "layover"}
        return JSONResponse({"object": "list", "data": [model]})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/embeddings", embed, methods=["POST"]),
            Route("/v1/models", models),
        ]
    )


def completion(body: Json, thought: Thought) -> dict[str, Any]:
    """Return the body of a plain response."""
    message: dict[str, Any] = {"role": "assistant", "content": thought.text or None}
    if thought.tool:
        message["tool_calls"] = [_tool_call(body, thought)]
    choice = {"index": 0, "message": message, "finish_reason": _finish(thought)}
    return {**_head("chat.completion"), "choices": [choice], "usage": _usage(body, thought)}


def embeddings(body: Json) -> dict[str, Any]:
    """Return the body of a response to an embeddings request: floats, or base64 if the request asks for
    it."""
    texts = [body["input"]] if isinstance(body["input"], str) else [str(t) for t in body["input"]]
    is_base64 = body.get("encoding_format") == "base64"
    data = [
        {"object": "embedding", "index": at, "embedding": _pack(v) if is_base64 else v}
        for at, v in enumerate(map(embed_text, texts))
    ]
    tokens = sum(map(_tokens, texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": body.get("model") or MODEL, "data": data, "usage": usage}


def embed_text(text: str) -> list[float]:
    """Return a bag of hashed words as 256 numbers, a vector of length 1: texts with the same words are near
    each other."""
    vector = [0.0] * DIMENSIONS
    words = Counter(re.findall(r"\w+", text.lower())) or Counter([""])
    for word, count in words.items():
        digest = hashlib.sha256(word.encode("utf-8", "replace")).digest()
        sign = 1 if digest[2] % 2 else -1
        vector[int.from_bytes(digest[:2], "big") % DIMENSIONS] += sign * (1 + math.log(count))
    norm = math.sqrt(sum(x * x for x in vector))
    # Words can cancel each other out; a vector of length 0 has no direction.
    return [x / norm for x in vector] if norm else [1.0, *vector[1:]]


async def _events(body: Json, thought: Thought, pause_s: float) -> AsyncIterator[str]:
    for chunk in _chunks(body, thought):
        yield f"data: {json.dumps(chunk)}\n\n"
        await asyncio.sleep(pause_s)
    yield "data: [DONE]\n\n"


def _chunks(body: Json, thought: Thought) -> Iterator[dict[str, Any]]:
    head = _head("chat.completion.chunk")
    for delta in _deltas(body, thought):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    last = {"index": 0, "delta": {}, "finish_reason": _finish(thought)}
    yield {**head, "choices": [last]}
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": _usage(body, thought)}


def _deltas(body: Json, thought: Thought) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for piece in re.findall(r"\S+\s*", thought.text):
        yield {"content": piece}
    if thought.tool:
        call = _tool_call(body, thought)
        opening = {**call, "function": {"name": thought.tool, "arguments": ""}}
        yield {"tool_calls": [{"index": 0, **opening}]}
        for piece in re.findall(r".{1,12}", thought.args, re.S):
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _tool_call(body: Json, thought: Thought) -> dict[str, Any]:
    """Return the call. Its id depends only on the conversation: the same question makes the same call."""
    seed = json.dumps([body.get("messages"), thought.tool, thought.args], default=str)
    call_id = "call_" + hashlib.sha256(seed.encode()).hexdigest()[:20]
    function = {"name": thought.tool, "arguments": thought.args}
    return {"id": call_id, "type": "function", "function": function}


def _head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-stand-in", "object": kind, "created": 0, "model": MODEL}


def _finish(thought: Thought) -> str:
    return "tool_calls" if thought.tool else "stop"


def _usage(body: Json, thought: Thought) -> dict[str, Any]:
    input_tokens = _tokens(json.dumps(body.get("messages"), ensure_ascii=False))
    output_tokens = _tokens(thought.text + thought.tool + thought.args)
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _tokens(text: str) -> int:
    return math.ceil(len(text) / 4)


def _pack(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def _body(request: "Request") -> Json | None:
    from starlette.requests import ClientDisconnect

    try:
        body = await request.json()
    except (ValueError, ClientDisconnect):
        return None
    return body if isinstance(body, dict) else None


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": None}}
