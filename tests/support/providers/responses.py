"""OpenAI's side of the Responses API: whole responses, and the events of a stream."""

import json
from typing import Any

from support.providers.answers import Json, Raw, Request, Response, document, words

MODEL = "gpt-5-mini-2025-08-07"


def said(text: str, *, id: str = "msg_1", annotations: Any = (), **more: Any) -> Json:
    """A message of the assistant."""
    part = {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}
    base = {"type": "message", "id": id, "role": "assistant", "status": "completed"}
    return {**base, "content": [part], **more}


def thought(id: str, *texts: str, encrypted: str | None = None) -> Json:
    """A reasoning item; `texts`: its summary."""
    summary = [{"type": "summary_text", "text": text} for text in texts]
    return {"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted}


def call(call_id: str, name: str, args: str) -> Json:
    """A call of a tool of ours."""
    base = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name}
    return {**base, "arguments": args, "status": "completed"}


def search(id: str, query: str) -> Json:
    """A search that the provider did."""
    action = {"type": "search", "query": query, "queries": [query]}
    return {"type": "web_search_call", "id": id, "status": "completed", "action": action}


def usage(input: int = 10, output: int = 5, cached: int = 0, reasoning: int = 0) -> Json:
    """Token counts."""
    return {
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": input + output,
    }


def response(*items: Json, status: str = "completed", **more: Any) -> Json:
    """A whole response."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": MODEL,
        "output": list(items),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage(),
        **more,
    }


def stream(*events: Json, **more: Any) -> Raw:
    """A stream of these events, numbered."""
    chunks = [
        f"event: {each['type']}\ndata: {json.dumps({**each, 'sequence_number': n})}\n\n".encode()
        for n, each in enumerate(events)
    ]
    return Raw(200, {"content-type": "text/event-stream"}, tuple(chunks), **more)


def events(whole: Json) -> list[Json]:
    """The events that a response is streamed in."""
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    found: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        empty: Json = {"message": {"content": []}, "function_call": {"arguments": ""}}
        opening = {**item, "status": "in_progress", **empty.get(item["type"], {})}
        found.append({"type": "response.output_item.added", "output_index": index, "item": opening})
        found += [{**each, **at} for each in _pieces(item)]
        found.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return [*found, {"type": f"response.{whole['status']}", "response": whole}]


def _pieces(item: Json) -> list[Json]:
    if item["type"] == "message":
        return [
            {
                "type": "response.output_text.delta",
                "content_index": n,
                "delta": word,
                "logprobs": [],
            }
            for n, part in enumerate(item["content"])
            for word in words(part.get("text", ""))
        ]
    if item["type"] == "function_call":
        args, half = item["arguments"], len(item["arguments"]) // 2
        kind = "response.function_call_arguments.delta"
        return [{"type": kind, "delta": piece} for piece in (args[:half], args[half:])]
    if item["type"] == "web_search_call":
        states = ("in_progress", "searching", "completed")
        return [{"type": f"response.web_search_call.{state}"} for state in states]
    found: list[Json] = []
    for n, part in enumerate(item["summary"]):
        at = {"summary_index": n}
        found.append({"type": "response.reasoning_summary_part.added", "part": part, **at})
        for word in words(part["text"]):
            found.append({"type": "response.reasoning_summary_text.delta", "delta": word, **at})
    return found


def rendered(answer: Response, request: Request) -> Raw:
    """A well-formed answer by the form that was asked for."""
    items = [thought("rs_1", answer.reasoning, encrypted="enc")] if answer.reasoning else []
    items += [said(answer.text)] if answer.text else []
    items += [call(*each) for each in answer.calls]
    whole = response(*items)
    return stream(*events(whole)) if request.body.get("stream") else document(whole)
