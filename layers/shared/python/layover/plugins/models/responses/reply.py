"""The Responses API's replies, translated into Layover's values."""

from collections.abc import Iterator
from typing import Any

from layover.errors import INVALID_RESPONSE, ModelError
from layover.plugins.models.call_pieces import read_index
from layover.plugins.models.citations import citations, sources_in
from layover.plugins.models.faults import ProviderFault, from_event, invalid
from layover.plugins.models.opaque import load_stored
from layover.plugins.models.open_calls import OpenCall, OpenCalls
from layover.plugins.models.replies import CUT_SHORT, cost_of, object_at, objects_at, text_at
from layover.plugins.models.responses.request import CALL, LENGTH, OUTPUT, SAID, THOUGHT
from layover.plugins.models.text import Text
from layover.ports import Ids
from layover.values.message import DataPart
from layover.values.prompt import PROVIDER_TOOL, Delta, Reply, RequestedCall, StopReason
from layover.values.runs.usage import Usage, parse_tokens
from layover.values.text import sanitise

Json = dict[str, Any]

LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
"""The events that a stream ends with."""
_UNFINISHED = frozenset({"queued", "in_progress", "cancelled"})
_NOT_THERE = (
    "The model's provider answered with a response that is {status}: Layover does not wait for responses "
    "in the background; the agent's author has to leave `background` out of ModelSettings(extra=...)"
)

_FINISH: dict[str, StopReason] = {
    "max_output_tokens": "length",
    "content_filter": "content-filter",
}


class ResponsesReply:
    """One reply in the making: takes the events of a stream, or one plain response."""

    def __init__(self, ids: Ids, asked_model: str, provider: str) -> None:
        self._asked_model = asked_model
        self._provider = provider
        self._items: dict[int, Json] = {}
        """Items that are whole, by their index."""
        self._calls = OpenCalls(ids)
        self._open: dict[int, OpenCall] = {}
        """By their index."""
        self._text = Text()
        self._response: Json = {}

    @property
    def finished(self) -> bool:
        """True once the whole response came."""
        return bool(self._response)

    def add(self, chunk: object) -> list[Delta]:
        """Take an event, or a plain response, and return what is new. Raises ProviderFault for an error."""
        if not isinstance(chunk, dict):
            raise invalid("The model's provider sent an event that is not a JSON object")
        kind = chunk.get("type")
        if kind is None and "output" in chunk:
            return self._plain(chunk)
        if kind == "error" or (kind is None and chunk.get("error")):
            raise from_event(chunk)
        if kind in LAST:
            self._end(object_at(chunk, "response"))
            return []
        return list(self._event(str(kind), chunk))

    def reply(self) -> Reply:
        """Return the whole response. Raises ProviderFault if it has not come."""
        if not self._response:
            raise invalid("The model's provider answered without a response")
        items = [self._items[index] for index in sorted(self._items)]
        messages = [item for item in items if item.get("type") == SAID]
        text_parts = [part for item in messages for part in objects_at(item, "content")]
        is_refusal = any(part.get("refusal") for part in text_parts)
        called = [index for index in sorted(self._items) if self._is_call(index)]
        finish_reason = self._finish_reason(is_refusal=is_refusal, calls=bool(called))
        is_cut = finish_reason in CUT_SHORT
        calls = [self._called(index, cut=is_cut and index == called[-1]) for index in called]
        return Reply(
            text="".join(map(_text_of, messages)),
            reasoning="\n\n".join(filter(None, map(_thought, items))),
            calls=tuple(calls),
            finish_reason=finish_reason,
            usage=usage_of(object_at(self._response, "usage")),
            model=str(self._response.get("model") or self._asked_model),
            provider=self._provider,
            asked_model=self._asked_model,
            state=_state(items),
            data=tuple(_data(items, text_parts)),
            is_refusal=is_refusal,
        )

    def _plain(self, response: Json) -> list[Delta]:
        """Take a whole response as if it had come in pieces."""
        self._end(response)
        deltas: list[Delta] = []
        for index in sorted(self._items):
            item = self._items[index]
            if thought := _thought(item):
                deltas.append(Delta(kind="reasoning", text=thought))
            if item.get("type") == SAID:
                texts = (
                    text_at(p, "text") + text_at(p, "refusal") for p in objects_at(item, "content")
                )
                deltas += [Delta(kind="text", text=sanitise(text)) for text in texts if text]
            elif self._is_call(index):
                deltas += self._begin(index, item)
                deltas += self._grow(index, text_at(item, "arguments"))
        return deltas

    def _end(self, response: Json) -> None:
        status = response.get("status")
        if status == "failed" or response.get("error"):
            raise from_event({"error": response.get("error") or "the response failed"})
        if status in _UNFINISHED:
            raise ProviderFault(
                ModelError(_NOT_THERE.format(status=status), type=INVALID_RESPONSE),
                is_transient=False,
            )
        output = response.get("output")
        for index, item in enumerate(output if isinstance(output, list) else ()):
            if isinstance(item, dict):
                self._items[index] = item
        self._response = response

    def _event(self, kind: str, event: Json) -> Iterator[Delta]:
        index, piece = read_index(event.get("output_index")) or 0, text_at(event, "delta")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            if text := self._text.add(piece):
                yield Delta(kind="text", text=text)
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            yield Delta(kind="reasoning", text=sanitise(piece))
        elif kind == "response.reasoning_summary_part.added" and event.get("summary_index"):
            yield Delta(kind="reasoning", text="\n\n")
        elif kind == "response.function_call_arguments.delta":
            yield from self._grow(index, piece)
        elif kind == "response.output_item.added":
            item = object_at(event, "item")
            if item.get("type") == CALL:
                yield from self._begin(index, item)
        elif kind == "response.output_item.done":
            self._items[index] = object_at(event, "item")

    def _begin(self, index: int, item: Json) -> Iterator[Delta]:
        call = self._open[index] = self._calls.open(item.get("call_id"), text_at(item, "name"))
        yield call.delta("")

    def _grow(self, index: int, piece: str) -> Iterator[Delta]:
        call = self._open.get(index)
        if call is not None and (args_text := call.args.add(piece)):
            yield call.delta(args_text)

    def _is_call(self, index: int) -> bool:
        return self._items[index].get("type") == CALL

    def _called(self, index: int, *, cut: bool) -> RequestedCall:
        """A call; its id is the one that its deltas had, and so are its arguments if its item has none."""
        item = self._items[index]
        call = self._open.get(index) or self._calls.open(item.get("call_id"), "")
        call.name = sanitise(text_at(item, "name"))
        args = text_at(item, "arguments")
        if args.strip():
            call.args = Text()
            call.args.add(args)
        return call.whole(cut=cut)

    def _finish_reason(self, *, is_refusal: bool, calls: bool) -> StopReason:
        if is_refusal:
            return "content-filter"
        why = text_at(object_at(self._response, "incomplete_details"), "reason")
        return _FINISH.get(why) or ("tool-calls" if calls else "stop")


def _state(items: list[Json]) -> dict[str, Any]:
    """The answer's items in their order, so that they go back as they came. Of a message and a call, which
    the thread holds, only what it does not hold: the id, the phase, and the length of each message's text."""
    # Items go by their ids with the thoughts that led to them: all of them go back, or none.
    is_whole = all(_can_go_back(item) for item in items if item.get("type") == THOUGHT)
    entries: list[dict[str, Any]] = []
    for item in items:
        kind = item.get("type")
        names = ("id", "phase") if is_whole else ("phase",)
        labels = {name: item[name] for name in names if isinstance(item.get(name), str)}
        if kind == SAID:
            entries.append({"type": SAID, **labels, LENGTH: len(_text_of(item))})
        elif kind == CALL:
            entries.append({"type": CALL, **labels})
        elif is_whole:
            entries.append({name: value for name, value in item.items() if value is not None})
    is_news = any(entry.keys() - {"type", LENGTH} for entry in entries)
    return {OUTPUT: load_stored(entries)} if is_news else {}


def _can_go_back(thought: Json) -> bool:
    """Return whether a thought is all there. OpenAI keeps the others to itself: it refuses their ids, and
    their summaries are nothing to it. Open models give the words of theirs."""
    return bool(thought.get("encrypted_content") or objects_at(thought, "content"))


def _data(items: list[Json], text_parts: list[Json]) -> Iterator[DataPart]:
    """Yield the tools that the provider ran itself, and the sources that the model cites."""
    for item in items:
        kind = text_at(item, "type")
        if kind not in (SAID, CALL, THOUGHT) and kind.endswith("_call"):
            data = {name: item[name] for name in ("id", "status", "action") if name in item}
            yield DataPart(
                name=PROVIDER_TOOL, data=load_stored({"tool": kind.removesuffix("_call"), **data})
            )
    yield from citations([s for part in text_parts for s in sources_in(part.get("annotations"))])


def _thought(item: Json) -> str:
    """The summary of a thought, or its text where it has no summary."""
    if item.get("type") != THOUGHT:
        return ""
    for name in ("summary", "content"):
        if texts := [text_at(part, "text") for part in objects_at(item, name)]:
            return sanitise("\n\n".join(texts))
    return ""


def usage_of(usage: Json) -> Usage:
    """Return token counts; a missing or senseless one counts 0."""
    read = object_at(usage, "input_tokens_details")
    return Usage(
        input_tokens=parse_tokens(usage.get("input_tokens")),
        output_tokens=parse_tokens(usage.get("output_tokens")),
        cached_input_tokens=parse_tokens(read.get("cached_tokens")),
        cache_write_input_tokens=parse_tokens(read.get("cache_write_tokens")),
        reasoning_tokens=parse_tokens(
            object_at(usage, "output_tokens_details").get("reasoning_tokens")
        ),
        cost_usd=cost_of(usage),
    )


def _text_of(message: Json) -> str:
    texts = (text_at(p, "text") + text_at(p, "refusal") for p in objects_at(message, "content"))
    return sanitise("".join(texts))
