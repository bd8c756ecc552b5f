"""Differences between an adapter and a recording: in the reading of an answer, in an answer that goes back,
in the history of a conversation."""

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from layover.errors import ModelError
from layover.values.prompt import Delta, Reply
from support.providers.openai import FakeOpenAI
from support.recordings.files import Exchange, Recording
from support.recordings.items import Item, answer_items, request_items
from support.recordings.replay import FILLER, Turn, adapter_of, conversations, play, read, turns_of


class Deviation(NamedTuple):
    """`place`: `read`, `back` (an answer by itself) or `history`, the exchange, and the field."""

    place: str
    ours: Any
    recorded: Any


async def deviations(server: FakeOpenAI, recording: Recording) -> list[Deviation]:
    """Return all differences of a recording."""
    found: list[Deviation] = []
    async with adapter_of(recording.api, server) as adapter:
        for exchange in recording.exchanges:
            result, deltas = await read(server, adapter, exchange)
            found += _of_reading(exchange, result, deltas)
    for exchange in recording.exchanges:
        if exchange.has_answer:
            found += await _of_answer(server, exchange)
    for chain in conversations(recording):
        found += await _of_history(server, chain)
    return found


# The reading of an answer


def _of_reading(
    exchange: Exchange, result: Reply | ModelError, deltas: Sequence[Delta]
) -> Iterator[Deviation]:
    ours, recorded = _reading(result), exchange.expect
    if ("error" in ours) != ("error" in recorded):
        types = [each.get("error", {}).get("type") for each in (ours, recorded)]
        yield Deviation(f"read {exchange.name} outcome", *types)
        return
    if "error" in ours:
        ours, recorded = ours["error"], dict(recorded["error"])
        # What is to be done about it is added.
        if str(recorded["message"]) in ours["message"]:
            recorded["message"] = ours["message"]
    else:
        recorded = {**recorded, "calls": [_call(**call) for call in recorded["calls"]]}
        for kind in ("text", "reasoning"):
            pieces = "".join(delta.text for delta in deltas if delta.kind == kind)
            if deltas and pieces != ours[kind]:
                yield Deviation(f"read {exchange.name} pieces of {kind}", pieces, ours[kind])
    for name, value in ours.items():
        if value != recorded[name]:
            yield Deviation(f"read {exchange.name} {name}", value, recorded[name])


def _reading(result: Reply | ModelError) -> dict[str, Any]:
    if isinstance(result, ModelError):
        error = {"type": result.type, "status": result.status, "message": result.message}
        return {"error": error}
    usage = result.usage
    return {
        "text": result.text,
        "reasoning": result.reasoning,
        "calls": [_call(call.id, call.name, call.args) for call in result.calls],
        "finish": result.finish_reason,
        "model": result.model,
        "usage": {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cached": usage.cached_input_tokens,
            "cache_written": usage.cache_write_input_tokens,
            "reasoning": usage.reasoning_tokens,
        },
    }


def _call(id: str, name: str, args: str) -> tuple[str, str, Any]:
    return id, name, json.loads(args or "{}")


# Answers that go back


async def _of_answer(server: FakeOpenAI, exchange: Exchange) -> list[Deviation]:
    """Return the differences between an answer and what the next turn sends of it."""
    try:
        requests = await play(server, exchange.api, [Turn("x", [exchange]), Turn("y", [])])
    except ModelError as error:
        return [Deviation(f"back {exchange.name} outcome", error.type, None)]
    items = request_items(exchange.api, requests[-1][1])
    ours = [item for item in items if item.kind not in ("user", "result")]
    return [*_of_items(f"back {exchange.name}", ours, answer_items(exchange))]


async def _of_history(server: FakeOpenAI, chain: list[Exchange]) -> list[Deviation]:
    """Return the differences between the requests of a recorded conversation and those of an agent. One that
    comes again in the next request, which has the same history, counts once."""
    api = chain[0].api
    sent = await play(server, api, turns_of(chain))
    before = len(request_items(api, sent[0][1]))
    before_recorded = len(request_items(api, chain[0].request))
    found: dict[str, Deviation] = {}
    for exchange, request in sent[1:]:
        if exchange is not None:
            ours = request_items(api, request)[before:]
            recorded = request_items(api, exchange.request)[before_recorded:]
            for each in _of_items(f"history {exchange.name}", ours, recorded):
                content = [each.place.rpartition(" ")[2], each.ours, each.recorded]
                found.setdefault(json.dumps(content), each)
    return [*found.values()]


def _of_items(place: str, ours: list[Item], recorded: list[Item]) -> Iterator[Deviation]:
    ours = [item for item in ours if item.fields.get("content") != FILLER]
    a, b = _keys(ours, recorded)
    for step, start, end, of, to in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        mine, theirs = ours[start:end], recorded[of:to]
        if step == "equal":
            for one, other in zip(mine, theirs, strict=True):
                yield from _of_item(place, one, other)
        else:
            yield Deviation(f"{place} order", [i.kind for i in mine], [i.kind for i in theirs])


def _keys(*sides: list[Item]) -> list[list[tuple[str, object]]]:
    """Return keys of the items of two sides: what both sides have, else the kind alone."""
    names = [[i.fields.get("id") or i.fields.get("content") for i in side] for side in sides]
    return [
        [
            (item.kind, name if isinstance(name, str) and all(name in n for n in names) else None)
            for item, name in zip(side, own_names, strict=True)
        ]
        for side, own_names in zip(sides, names, strict=True)
    ]


def _of_item(place: str, ours: Item, recorded: Item) -> Iterator[Deviation]:
    for name in sorted(ours.fields.keys() | recorded.fields.keys()):
        values = ours.fields.get(name), recorded.fields.get(name)
        if values[0] != values[1]:
            yield Deviation(f"{place} {ours.kind}.{name}", *values)
