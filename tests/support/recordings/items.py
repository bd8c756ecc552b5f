"""Conversations of all APIs in one form, so that two requests can be compared: a list of items in their
order, such as `Item("call", {"id": ..., "name": ..., "arguments": ...})`. Fields that are empty, or that name
the place of an item alone, are left out."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from botocore.eventstream import EventStreamBuffer

from support.providers.answers import Json
from support.recordings.files import Exchange

NO_TEXT: tuple[object, ...] = (None, "", [], {})
_TEXTS = ("text", "input_text", "output_text")
_LABELS = frozenset({"id", "type", "index", "role", "name", "format", "signature", "channel"})
"""Fields that come whole in a stream."""


class Item(NamedTuple):
    """A message, or a part of one that stands for itself: a call, its result, a thought."""

    kind: str
    fields: Json


def request_items(api: str, request: Json) -> list[Item]:
    """Return what a request says after its instructions."""
    if api == "responses":
        asked = request.get("input")
        messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked or []
        return _joined(_of_response(messages))
    messages = request.get("messages") or []
    if api == "chat":
        return _joined(item for m in messages for item in _of_chat(m))
    blocks = ((m["role"], b) for m in messages for b in _blocks(m["content"]))
    return _joined(
        item for role, block in blocks for item in _ITEMS_OF_BLOCK[api](role, block) if item.fields
    )


def answer_items(exchange: Exchange) -> list[Item]:
    """Return what an answer says."""
    body = exchange.fields.get("body")
    if exchange.api == "chat":
        message = body["choices"][0]["message"] if body else _whole_message(_events(exchange))
        return _joined(_of_chat({**message, "role": "assistant"}))
    if exchange.api == "responses":
        last = body or next(
            e["response"] for e in reversed(_events(exchange)) if "output" in e.get("response", {})
        )
        return _joined(_of_response(last["output"]))
    if exchange.api == "converse":
        content = body["output"]["message"]["content"] if body else _whole_blocks(exchange)
    else:
        content = body["content"] if body else _whole_content(_events(exchange))
    message = {"role": "assistant", "content": content}
    return request_items(exchange.api, {"messages": [message]})


# A form for each API


def _of_chat(message: Json) -> Iterator[Item]:
    role = message["role"]
    if role in ("system", "developer"):
        return
    if role == "tool":
        yield _item("result", id=message["tool_call_id"], content=_text(message["content"]))
        return
    kind = "text" if role == "assistant" else role
    more = {n: v for n, v in message.items() if n not in ("role", "content", "tool_calls")}
    blocks = [b for b in _blocks(message.get("content")) if b.get("type", "text") not in _TEXTS]
    yield _item(kind, content=_text(message.get("content")), blocks=blocks, **more)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        more = {n: v for n, v in call.items() if n not in ("type", "index", "function")}
        yield _item("call", name=function["name"], arguments=function["arguments"], **more)


def _of_response(items: Iterable[Json]) -> Iterator[Item]:
    for item in items:
        kind, role = item.get("type", "message"), item.get("role")
        more = {n: v for n, v in item.items() if n not in ("type", "role", "content", "status")}
        if kind == "message" and role not in ("system", "developer"):
            kind = "text" if role == "assistant" else str(role)
            yield _item(kind, content=_text(item["content"]), **more)
        elif kind == "function_call":
            # Its other id is that of the item.
            more |= {"id": item["call_id"], "item": item.get("id"), "call_id": None}
            yield _item("call", **more)
        elif kind == "function_call_output":
            yield _item("result", id=item["call_id"], content=_text(item["output"]))
        elif kind != "message":
            yield _item(kind, content=item.get("content"), **more)


def _of_converse(role: str, block: Json) -> Iterator[Item]:
    if "toolUse" in block:
        use = block["toolUse"]
        more = {n: v for n, v in use.items() if n not in ("toolUseId", "input", "type")}
        kind = "provider's call" if use.get("type") == "server_tool_use" else "call"
        yield _item(kind, id=use["toolUseId"], arguments=json.dumps(use["input"]), **more)
    elif "toolResult" in block:
        result = block["toolResult"]
        parts = (p.get("text") or json.dumps(p["json"]) for p in result["content"])
        kind = "result" if role == "user" else "provider's result"
        is_error = result.get("status") == "error"
        yield _item(kind, id=result["toolUseId"], content="".join(parts), is_error=is_error)
    elif "text" in block:
        yield _item("text" if role == "assistant" else role, content=block["text"])
    elif "cachePoint" not in block:
        ((kind, fields),) = block.items()
        yield _item(kind, **fields)


def _of_anthropic(role: str, block: Json) -> Iterator[Item]:
    kind = block["type"]
    more = {n: v for n, v in block.items() if n not in ("type", "cache_control")}
    if kind == "tool_use":
        more = {n: v for n, v in more.items() if n != "input"}
        yield _item("call", arguments=json.dumps(block["input"]), **more)
    elif kind == "tool_result":
        said = _text(block.get("content"))
        is_error = block.get("is_error", False)
        yield _item("result", id=block["tool_use_id"], content=said, is_error=is_error)
    elif kind == "text":
        of_text = {n: v for n, v in more.items() if n != "text"}
        yield _item("text" if role == "assistant" else role, content=block["text"], **of_text)
    else:
        yield _item(kind, **more)


_ITEMS_OF_BLOCK = {"converse": _of_converse, "anthropic": _of_anthropic}


def _item(kind: str, **fields: Any) -> Item:
    whole = {name: _without_nulls(value) for name, value in fields.items()}
    return Item(kind, {n: v for n, v in whole.items() if v not in NO_TEXT and v is not False})


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(v) for name, v in value.items() if v is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _joined(items: Iterable[Item]) -> list[Item]:
    """Return the items, with texts of a user that follow each other as one."""
    whole: list[Item] = []
    for item in items:
        if item.kind == "user" and whole and whole[-1].kind == "user":
            texts = (whole[-1].fields.get("content", ""), item.fields.get("content", ""))
            item = _item(
                "user", **whole.pop().fields | {"content": "\n\n".join(filter(None, texts))}
            )
        whole.append(item)
    return whole


def _text(content: object) -> str:
    return (
        content
        if isinstance(content, str)
        else "".join(b["text"] for b in _blocks(content) if b.get("type", "text") in _TEXTS)
    )


def _blocks(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


# Answers in pieces


def _events(exchange: Exchange) -> list[Json]:
    lines = "".join(exchange.fields["sse"]).splitlines()
    data = (line.removeprefix("data:").strip() for line in lines if line.startswith("data:"))
    return [json.loads(each) for each in data if each.startswith("{")]


def _whole_message(events: list[Json]) -> Json:
    message: Json = {}
    for event in events:
        for choice in event.get("choices", ()):
            _grow(message, choice["delta"])
    return message


def _grow(whole: Json, piece: Json) -> None:
    """Add a piece: texts grow, lists by the index of each part, and labels are replaced."""
    for name, value in piece.items():
        if value is None:
            continue
        if isinstance(value, str) and name not in _LABELS:
            whole[name] = whole.get(name, "") + value
        elif isinstance(value, list):
            parts = whole.setdefault(name, [])
            for part in value:
                same = [p for p in parts if "index" in part and p.get("index") == part["index"]]
                if not same:
                    parts.append({})
                _grow(same[0] if same else parts[-1], part)
        elif isinstance(value, dict):
            _grow(whole.setdefault(name, {}), value)
        else:
            whole[name] = value


def _whole_content(events: list[Json]) -> list[Json]:
    """Return the blocks of a stream of Anthropic's."""
    blocks: dict[int, Json] = {}
    inputs: dict[int, str] = {}
    for event in events:
        at, piece = event.get("index", 0), event.get("delta", {})
        if event["type"] == "content_block_start":
            blocks[at] = event["content_block"]
        elif piece.get("type") == "input_json_delta":
            inputs[at] = inputs.get(at, "") + piece["partial_json"]
        elif event["type"] == "content_block_delta":
            for name, value in piece.items():
                if name != "type":
                    blocks[at][name] = (blocks[at].get(name) or "") + value
    for at, text in inputs.items():
        blocks[at]["input"] = json.loads(text or "{}")
    return [blocks[at] for at in sorted(blocks)]


def _whole_blocks(exchange: Exchange) -> list[Json]:
    """Return the blocks of a stream of Converse's, whose frames botocore reads."""
    buffer = EventStreamBuffer()
    for chunk in exchange.raw.chunks:
        buffer.add_data(chunk)
    blocks: dict[int, Json] = {}
    for frame in buffer:
        event = json.loads(frame.payload)
        block = blocks.setdefault(event.get("contentBlockIndex", -1), {})
        _grow(block, event.get("start", {}))
        piece = event.get("delta", {})
        thought = piece.get("reasoningContent", {})
        if "text" in thought or "signature" in thought:
            piece = {"reasoningContent": {"reasoningText": thought}}
        _grow(block, piece)
    content = [blocks[at] for at in sorted(blocks) if blocks[at]]
    for use in (b["toolUse"] for b in content if "toolUse" in b):
        use["input"] = json.loads(use.get("input") or "{}")
    return content
