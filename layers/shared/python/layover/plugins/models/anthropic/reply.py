"""The Messages API's replies, translated into Layover's values."""

import json
from collections.abc import Iterator
from typing import Any

from layover.plugins.models.anthropic.content import CALL, CONTENT, LENGTH, SERVER_CALLS, TEXT
from layover.plugins.models.call_pieces import read_index, whole_arguments
from layover.plugins.models.citations import citations
from layover.plugins.models.faults import from_event, invalid
from layover.plugins.models.opaque import load_stored
from layover.plugins.models.open_calls import OpenCall, OpenCalls
from layover.plugins.models.replies import CUT_SHORT, object_at, objects_at, text_at
from layover.plugins.models.text import Text
from layover.ports import Ids
from layover.values.json_answer import read_json
from layover.values.message import DataPart
from layover.values.prompt import PROVIDER_TOOL, Delta, Reply, StopReason
from layover.values.runs.usage import Usage, parse_tokens
from layover.values.text import sanitise

Json = dict[str, Any]

PAUSED = "pause_turn"
"""The reason of an answer that Anthropic's own tools make long: it is sent back, and goes on. Until then its
state has its blocks under this name."""
_FINISH: dict[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
}
"""All other reasons (`end_turn`, `stop_sequence`, `tool_use`) follow from the calls."""
_LOCAL_FIELDS = frozenset({"caller"})
"""Fields of a call that tell where it came from: the API does not want them back."""
_GROWING = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}
"""The field of a block that a piece continues, by the type of the piece."""


class MessagesReply:
    """One reply in the making: the events of a stream, or a plain message."""

    def __init__(self, ids: Ids, model: str, provider: str) -> None:
        self._model = self._asked_model = model
        self._provider = provider
        self._blocks: dict[int, _Block] = {}
        self._calls = OpenCalls(ids)
        self._usage: Json = {}
        self._stop: str | None = None
        self._answered = False

    @property
    def finished(self) -> bool:
        """True once the model gave a reason to stop: the usage came with it."""
        return self._stop is not None

    def add(self, chunk: object) -> list[Delta]:
        """Take an event, or a plain message, and return what is new. Raises ProviderFault for an error."""
        if not isinstance(chunk, dict):
            raise invalid("Anthropic sent something that is not a JSON object")
        kind = chunk.get("type")
        if kind == "error" or (kind is None and chunk.get("error")):
            raise from_event(chunk)
        if kind == "message":
            return list(self._message(chunk))
        return list(self._event(str(kind), chunk))

    def reply(self) -> Reply:
        """Return the whole reply. Raises ProviderFault if there is none."""
        if not self._answered:
            raise invalid("Anthropic answered without a message")
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        finish_reason = _FINISH.get(self._stop or "")
        return Reply(
            text="".join(block.text.whole() for block in blocks if block.type == TEXT),
            reasoning="\n\n".join(
                thought for block in blocks if (thought := block.thought.whole())
            ),
            calls=self._calls.whole(cut=finish_reason in CUT_SHORT),
            finish_reason=finish_reason or ("tool-calls" if self._calls else "stop"),
            usage=usage_of(self._usage),
            model=self._model,
            provider=self._provider,
            asked_model=self._asked_model,
            state=_state(blocks)
            | ({PAUSED: [block.whole() for block in blocks]} if self._stop == PAUSED else {}),
            data=tuple(_data(blocks)),
        )

    def _message(self, message: Json) -> Iterator[Delta]:
        """Yield the blocks of a plain message as if they had come in pieces."""
        self._begin(message)
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                yield from self._start(index, block)
        self._end(message)

    def _event(self, kind: str, event: Json) -> Iterator[Delta]:
        if kind == "message_start":
            self._begin(object_at(event, "message"))
        elif kind == "content_block_start":
            yield from self._start(_index(event), object_at(event, "content_block"))
        elif kind == "content_block_delta":
            yield from self._piece(_index(event), object_at(event, "delta"))
        elif kind == "message_delta":
            self._end({**object_at(event, "delta"), "usage": event.get("usage")})

    def _begin(self, message: Json) -> None:
        self._answered = True
        self._model = text_at(message, "model") or self._model
        self._count(message)

    def _end(self, holder: Json) -> None:
        if stop := holder.get("stop_reason"):
            self._stop = str(stop)
        self._count(holder)

    def _count(self, holder: Json) -> None:
        """Take the usage: later counts are cumulative, and replace earlier ones."""
        usage = object_at(holder, "usage")
        self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _start(self, index: int, start: Json) -> Iterator[Delta]:
        if not text_at(start, "type"):
            return
        block = self._blocks[index] = _Block(start)
        if block.type == CALL:
            call = block.call = self._calls.open(start.get("id"), block.name)
            block.args = call.args
            yield call.delta("")
            first = start.get("input")
            if isinstance(first, dict) and first:
                # A plain message has the whole of it, a stream an empty one.
                yield call.delta(call.args.add(json.dumps(first, ensure_ascii=False)))
        yield from self._deltas(block, text_at(start, "text"), text_at(start, "thinking"))

    def _piece(self, index: int, delta: Json) -> Iterator[Delta]:
        block = self._blocks.setdefault(index, _Block({"type": TEXT}))
        kind = text_at(delta, "type")
        if name := _GROWING.get(kind):
            block.grow(name, text_at(delta, name))
        if kind == "citations_delta" and (citation := object_at(delta, "citation")):
            block.citations.append(citation)
        if kind == "input_json_delta" and (piece := text_at(delta, "partial_json")):
            new = block.args.add(piece)
            if block.call is not None:
                yield block.call.delta(new)
        yield from self._deltas(block, text_at(delta, "text"), text_at(delta, "thinking"))

    def _deltas(self, block: "_Block", text: str, thought: str) -> Iterator[Delta]:
        if thought and not block.thought.is_begun:
            others = (other for other in self._blocks.values() if other is not block)
            if any(other.thought.is_begun for other in others):
                yield Delta(kind="reasoning", text="\n\n")
        if new := block.thought.add(thought):
            yield Delta(kind="reasoning", text=new)
        if new := block.text.add(text):
            yield Delta(kind="text", text=new)


class _Shown(Text):
    """Text that people see."""

    @property
    def is_begun(self) -> bool:
        """True once there is any."""
        return bool(self._pieces)


class _Block:
    """A block in the making. `fields`: as it began; what grows is next to it."""

    def __init__(self, fields: Json) -> None:
        self._fields = fields
        self.type = text_at(fields, "type")
        self.call: OpenCall | None = None
        self.name = sanitise(text_at(fields, "name"))
        self.text, self.thought, self.args = Text(), _Shown(), Text()
        self.citations = objects_at(fields, "citations")

    def grow(self, name: str, piece: str) -> None:
        """Take a piece of a field."""
        self._fields = {**self._fields, name: text_at(self._fields, name) + piece}

    def whole(self) -> Json:
        """Return the block as it goes back."""
        fields = {name: v for name, v in self._fields.items() if name not in _LOCAL_FIELDS}
        if self.type == TEXT:
            return {"type": TEXT, "text": text_at(fields, "text")}
        if args := self.args.whole().strip():
            fields["input"] = read_json(whole_arguments(args, cut=True))
        return fields

    @property
    def place(self) -> Json:
        """Return what a message's state has of the block."""
        if self.type == TEXT:
            return {"type": TEXT, LENGTH: len(self.text.whole())}
        return {"type": CALL} if self.type == CALL else self.whole()


def _state(blocks: list[_Block]) -> dict[str, Any]:
    """The answer's blocks in their order, so that they go back as they came, if there are any that the thread
    does not hold."""
    if all(block.type in (TEXT, CALL) for block in blocks):
        return {}
    return {CONTENT: load_stored([block.place for block in blocks])}


def _data(blocks: list[_Block]) -> Iterator[DataPart]:
    """Yield the tools that Anthropic ran itself, and the sources that the model cites."""
    for block in blocks:
        if block.type in SERVER_CALLS:
            whole = block.whole()
            data = {"tool": block.name, "id": whole.get("id"), "action": whole.get("input")}
            yield DataPart(name=PROVIDER_TOOL, data=load_stored(data))
    yield from citations(list(_sources(blocks)))


def _sources(blocks: list[_Block]) -> Iterator[Json]:
    """Yield the pages that texts cite, and where in the whole text."""
    end = 0
    for block in (b for b in blocks if b.type == TEXT):
        start, end = end, end + len(block.text.whole())
        for each in block.citations:
            if isinstance(each.get("url"), str):
                yield {
                    "url": each["url"],
                    "title": each.get("title"),
                    "start_index": start,
                    "end_index": end,
                }


def usage_of(usage: Json) -> Usage:
    """Return token counts. Anthropic counts tokens read from its cache, or written there, next to the input.
    Where it compacts on its own, what is paid is in the iterations."""
    rounds = objects_at(usage, "iterations")
    total = Usage.total([_counts(each) for each in (rounds if len(rounds) > 1 else [usage])])
    thought = parse_tokens(object_at(usage, "output_tokens_details").get("thinking_tokens"))
    return total.model_copy(update={"reasoning_tokens": thought})


def _counts(usage: Json) -> Usage:
    read = parse_tokens(usage.get("cache_read_input_tokens"))
    written = parse_tokens(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=parse_tokens(parse_tokens(usage.get("input_tokens")) + read + written),
        output_tokens=parse_tokens(usage.get("output_tokens")),
        cached_input_tokens=read,
        cache_write_input_tokens=written,
    )


def _index(event: Json) -> int:
    return read_index(event.get("index")) or 0
