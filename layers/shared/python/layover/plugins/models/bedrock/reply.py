"""Converse's replies, translated into Layover's values."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

from layover.plugins.models.bedrock.content import AT, REASONING
from layover.plugins.models.faults import BRIEFLY, invalid
from layover.plugins.models.opaque import load_stored
from layover.plugins.models.open_calls import OpenCall, OpenCalls
from layover.plugins.models.replies import CUT_SHORT, FOR_CALLS, largest, object_at, text_at
from layover.plugins.models.text import Text
from layover.ports import Ids
from layover.values.prompt import Delta, Reply, StopReason
from layover.values.runs.usage import Usage, parse_tokens

Json = dict[str, Any]

_FINISH: dict[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filtered": "content-filter",
    "guardrail_intervened": "content-filter",
}
"""All other reasons (`end_turn`, `stop_sequence`, `tool_use`) follow from the calls."""
_MALFORMED = ("malformed_model_output", "malformed_tool_use")


class ConverseReply:
    """One reply in the making: `{EVENT: its payload}` of a stream, or a plain answer's document.

    `output`: the name of the tool that a structured answer comes as; its arguments are the text."""

    def __init__(self, ids: Ids, model: str, provider: str, output: str | None) -> None:
        self._model = model
        self._provider = provider
        self._output = output
        self._text = Text()
        self._reasoning = Text()
        self._answer: Text | None = None
        self._blocks: dict[int, OpenCall | Text | _Thought | None] = {}
        """By their index; None: a text; a Text: the answer that comes as a call."""
        self._calls = OpenCalls(ids)
        self._usage = Usage()
        self._stop: str | None = None
        self._answered = False

    @property
    def finished(self) -> bool:
        """True once the model gave a reason to stop: nothing but the usage can follow."""
        return self._stop is not None

    def add(self, chunk: object) -> list[Delta]:
        """Take a chunk and return what is new. Raises ProviderFault if Converse has no such chunk."""
        if not isinstance(chunk, dict):
            raise invalid("Bedrock sent something that is not a JSON object")
        deltas: list[Delta] = []
        message = object_at(object_at(chunk, "output"), "message")
        if message:
            deltas += self._message(message)
        if "messageStart" in chunk:
            self._answered = True
        if start := object_at(chunk, "contentBlockStart"):
            deltas += self._start(_index(start), object_at(start, "start"))
        if piece := object_at(chunk, "contentBlockDelta"):
            deltas += self._piece(_index(piece), object_at(piece, "delta"))
        for holder in (chunk, object_at(chunk, "messageStop"), object_at(chunk, "metadata")):
            self._close(holder)
        return deltas

    def reply(self) -> Reply:
        """Return the whole reply. Raises ProviderFault for an empty or unreadable one."""
        if not self._answered:
            raise invalid("Bedrock answered without a message")
        if self._stop in _MALFORMED:
            fault = invalid(f"The model's answer cannot be read ({self._stop})")
            fault.most_attempts = BRIEFLY
            raise fault
        is_answer = self._answer is not None and not self._calls
        text = self._answer if is_answer and self._answer is not None else self._text
        finish_reason = _FINISH.get(self._stop or "")
        is_for_calls = bool(self._calls) or (self._stop in FOR_CALLS and not is_answer)
        return Reply(
            text=text.whole(),
            reasoning=self._reasoning.whole(),
            calls=self._calls.whole(cut=finish_reason in CUT_SHORT),
            finish_reason=finish_reason or ("tool-calls" if is_for_calls else "stop"),
            usage=self._usage,
            model=self._model,
            provider=self._provider,
            asked_model=self._model,
            state=self._state(),
        )

    def _message(self, message: Json) -> Iterator[Delta]:
        """Yield the blocks of a plain answer as if they had come in pieces."""
        self._answered = True
        blocks = message.get("content")
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            if not isinstance(block, dict):
                continue
            if call := object_at(block, "toolUse"):
                yield from self._start(index, {"toolUse": call})
                yield from self._piece(index, {"toolUse": {"input": _json(call.get("input"))}})
            elif thought := object_at(block, REASONING):
                yield from self._piece(index, {REASONING: object_at(thought, "reasoningText")})
                yield from self._piece(index, {REASONING: thought})
            elif cited := object_at(block, "citationsContent").get("content"):
                for each in cited if isinstance(cited, list) else ():
                    yield from self._piece(index, each if isinstance(each, dict) else {})
            else:
                yield from self._piece(index, block)

    def _start(self, index: int, start: Json) -> Iterator[Delta]:
        call = object_at(start, "toolUse")
        if not call or call.get("type") == "server_tool_use":
            return
        if call.get("name") == self._output:
            self._blocks[index] = self._answer = self._answer or Text()
            return
        opened = self._blocks[index] = self._calls.open(
            call.get("toolUseId"), text_at(call, "name")
        )
        yield opened.delta("")

    def _piece(self, index: int, delta: Json) -> Iterator[Delta]:
        if isinstance(text := delta.get("text"), str):
            self._blocks.setdefault(index, None)
            if visible_text := self._text.add(text):
                yield Delta(kind="text", text=visible_text)
        if thought := object_at(delta, REASONING):
            block = self._blocks.setdefault(index, _Thought(self._place()))
            if isinstance(block, _Thought):
                block.add(thought)
            if visible_text := self._reasoning.add(text_at(thought, "text")):
                yield Delta(kind="reasoning", text=visible_text)
        piece, target = object_at(delta, "toolUse").get("input"), self._blocks.get(index)
        if not isinstance(piece, str):
            return
        if isinstance(target, OpenCall):
            yield target.delta(target.args.add(piece))
        elif isinstance(target, Text) and (visible_text := target.add(piece)):
            yield Delta(kind="text", text=visible_text)

    def _place(self) -> int:
        """Return the number of the message's blocks that stand before the next one when it is sent again."""
        texts = any(block is None for block in self._blocks.values())
        return texts + len(self._calls)

    def _close(self, holder: Json) -> None:
        if stop := holder.get("stopReason"):
            self._stop = str(stop)
        if usage := object_at(holder, "usage"):
            self._usage = largest(self._usage, usage_of(usage))

    def _state(self) -> dict[str, Any]:
        """Thoughts that are signed or encrypted: the model wants them back as they were."""
        thoughts = [b for b in self._blocks.values() if isinstance(b, _Thought) and b.is_kept]
        return (
            {REASONING: [load_stored(thought.block()) for thought in thoughts]} if thoughts else {}
        )


class _Thought:
    """A block of reasoning in the making; `place`: see `content.AT`."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._text = ""
        self._signature = ""
        self._redacted = b""

    @property
    def is_kept(self) -> bool:
        return bool(self._signature or self._redacted)

    def add(self, piece: Json) -> None:
        self._text += text_at(piece, "text")
        self._signature += text_at(piece, "signature")
        try:
            self._redacted += b64decode(text_at(piece, "redactedContent"))
        except ValueError:
            raise invalid("Bedrock sent a thought that cannot be read") from None

    def block(self) -> dict[str, Any]:
        if self._redacted:
            return {AT: self._place, "redactedContent": b64encode(self._redacted).decode()}
        text = {"text": self._text, "signature": self._signature}
        return {AT: self._place, "reasoningText": text}


def usage_of(usage: Json) -> Usage:
    """Return token counts. Bedrock counts tokens read from its cache, or written there, next to the input."""
    read = parse_tokens(usage.get("cacheReadInputTokens"))
    cache_write_tokens = parse_tokens(usage.get("cacheWriteInputTokens"))
    return Usage(
        input_tokens=parse_tokens(
            parse_tokens(usage.get("inputTokens")) + read + cache_write_tokens
        ),
        output_tokens=parse_tokens(usage.get("outputTokens")),
        cached_input_tokens=read,
        cache_write_input_tokens=cache_write_tokens,
    )


def _index(event: Json) -> int:
    index = event.get("contentBlockIndex")
    return index if isinstance(index, int) else 0


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value or {}, ensure_ascii=False)
