"""Bedrock's side of Converse and ConverseStream: documents, and events in AWS's frames."""

import json
import struct
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from support.providers.answers import Json, Raw, Request, Response, document, words

KEY, SECRET, REGION = "AKIDEXAMPLE", "secret", "eu-central-1"
STREAM = "application/vnd.amazon.eventstream"
_STOPS = {"length": "max_tokens", "content_filter": "content_filtered"}


def variables_of(base_url: str) -> dict[str, str]:
    """Return the environment of a function with a role, with this server as Bedrock."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": base_url.removesuffix("/v1"),
    }


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One frame of a stream."""
    named = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack("!H", len(v.encode()))
        + v.encode()
        for name, v in headers.items()
    )
    prelude = struct.pack("!II", len(named) + len(payload) + 16, len(named))
    whole = prelude + struct.pack("!I", crc32(prelude)) + named + payload
    return whole + struct.pack("!I", crc32(whole))


def event(name: str, **payload: Any) -> bytes:
    """One event of a stream: `event("messageStop", stopReason="end_turn")`."""
    headers = {
        ":event-type": name,
        ":content-type": "application/json",
        ":message-type": "event",
    }
    # AWS pads what it sends, so that its length tells nothing of it.
    return frame(headers, json.dumps({**payload, "p": "abcdefgh"}).encode())


def exception(name: str, message: str, **more: Any) -> bytes:
    """An error in the place of an event: `exception("throttlingException", "Too many tokens")`."""
    headers = {
        ":exception-type": name,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return frame(headers, json.dumps({"message": message, **more}).encode())


def stream(*frames: bytes, **more: Any) -> Raw:
    """A stream of these frames."""
    return Raw(200, {"content-type": STREAM}, frames, **more)


def refuse(status: int, code: str, message: str, **more: Any) -> Raw:
    """An error answer, as Bedrock sends it."""
    named = {"x-amzn-errortype": f"{code}:http://internal.amazon.com/coral/"}
    return document({"message": message, **more}, status=status, headers=named)


def text(index: int, piece: str) -> bytes:
    """A piece of a text."""
    return event("contentBlockDelta", contentBlockIndex=index, delta={"text": piece})


def thought(index: int, **piece: str) -> bytes:
    """A piece of a thought: `text=`, `signature=` or `redactedContent=`."""
    delta = {"reasoningContent": piece}
    return event("contentBlockDelta", contentBlockIndex=index, delta=delta)


def call(index: int, call_id: str, name: str, *pieces: str) -> list[bytes]:
    """A call, whole."""
    start = {"toolUse": {"toolUseId": call_id, "name": name}}
    deltas = [
        event("contentBlockDelta", contentBlockIndex=index, delta={"toolUse": {"input": piece}})
        for piece in pieces
    ]
    return [event("contentBlockStart", contentBlockIndex=index, start=start), *deltas, end(index)]


def end(index: int) -> bytes:
    """The end of a block."""
    return event("contentBlockStop", contentBlockIndex=index)


def begin() -> bytes:
    """The beginning of a reply."""
    return event("messageStart", role="assistant")


def stop(reason: str = "end_turn") -> bytes:
    """The end of a reply."""
    return event("messageStop", stopReason=reason)


def metadata(**usage: int) -> bytes:
    """Return the last event: the usage."""
    return event("metadata", usage=counted(**usage), metrics={"latencyMs": 5})


def counted(input: int = 10, output: int = 5, **more: int) -> Json:
    """Token counts."""
    known = {"inputTokens": input, "outputTokens": output, "totalTokens": input + output}
    return {**known, **more}


def message(*content: Json, reason: str = "end_turn", **usage: int) -> Raw:
    """A plain answer."""
    return document(
        {
            "output": {"message": {"role": "assistant", "content": list(content)}},
            "stopReason": reason,
            "usage": counted(**usage),
            "metrics": {"latencyMs": 5},
        }
    )


def rendered(answer: Response, request: Request) -> Raw:
    """A well-formed answer by the operation that was asked for."""
    reason = _STOPS.get(answer.finish_reason or "", "tool_use" if answer.calls else "end_turn")
    if not request.path.endswith("-stream"):
        return _plain(answer, reason)
    frames, index = [begin()], 0
    for piece in words(answer.reasoning):
        frames.append(thought(0, text=piece))
    if answer.reasoning:
        frames, index = [*frames, thought(0, signature=answer.signature), end(0)], 1
    frames += [text(index, word) for word in words(answer.text)]
    frames += [end(index)] if answer.text else []
    for at, (call_id, name, args) in enumerate(answer.calls, start=index + bool(answer.text)):
        half = len(args) // 2
        frames += call(at, call_id, name, args[:half], args[half:])
    usage = answer.usage or counted()
    last = event("metadata", usage=usage, metrics={"latencyMs": 5})
    return stream(*frames, stop(reason), last)


def _plain(answer: Response, reason: str) -> Raw:
    content: list[Json] = []
    if answer.reasoning:
        signed = {"text": answer.reasoning, "signature": answer.signature}
        content.append({"reasoningContent": {"reasoningText": signed}})
    content += [{"text": answer.text}] if answer.text else []
    content += [
        {"toolUse": {"toolUseId": call_id, "name": name, "input": json.loads(args)}}
        for call_id, name, args in answer.calls
    ]
    return message(*content, reason=reason)
