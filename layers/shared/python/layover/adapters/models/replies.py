"""Providers' replies, translated into Layover's values.

Providers agree on Chat Completions only roughly; each deviation here was seen in the wild."""

import json
from typing import Any, Literal

from pydantic_core import from_json

from layover.adapters.models.faults import from_event, invalid, page
from layover.adapters.models.opaque import Opaque
from layover.adapters.models.thoughts import Thoughts
from layover.ports import Ids
from layover.values.prompt import Delta, Reply, RequestedCall
from layover.values.runs.usage import Usage, parse_tokens
from layover.values.text import sanitise

FinishReason = Literal["stop", "length", "tool-calls", "content-filter"]
Json = dict[str, Any]

_FINISH: dict[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "content_filter": "content-filter",
    "content-filter": "content-filter",
    "safety": "content-filter",
    "refusal": "content-filter",
}
"""All other reasons (`stop`, `end_turn`, `tool_calls`, `function_call`, ...) follow from the calls."""


class Text:
    """Text in the making. Some providers cut an escaped emoji in two: the halves wait for each other."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._half = ""

    def add(self, piece: str) -> str:
        """Take a piece; return the part of the text that can be shown."""
        if not piece:
            return ""
        piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        self._pieces.append(sanitise(piece))
        return self._pieces[-1]

    def whole(self) -> str:
        """All of it."""
        return "".join(self._pieces) + sanitise(self._half)


class Assembly:
    """One reply in the making: takes chunks of a stream, or one plain answer as its only chunk."""

    def __init__(self, ids: Ids, asked_model: str, provider: str = "") -> None:
        self._ids = ids
        self._model = self._asked_model = asked_model
        self._provider = provider
        self._opaque = Opaque()
        self._text = Text()
        self._reasoning = Text()
        self._thoughts = Thoughts()
        self._calls: list[_Call] = []
        self._usage = Usage()
        self._finish: str | None = None
        self._refused = False
        self._answered = False

    @property
    def finished(self) -> bool:
        """True once the provider has given a reason to stop: only the usage can follow."""
        return self._finish is not None

    def add(self, chunk: object) -> list[Delta]:
        """Take a chunk and return what is new. Raises ProviderFault for an error inside it."""
        if not isinstance(chunk, dict):
            raise invalid("The model's provider sent a chunk that is not a JSON object")
        if chunk.get("error"):
            raise from_event(chunk)
        self._model = chunk.get("model") or self._model
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = usage_of(usage)
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        return self._choice(choice) if isinstance(choice, dict) else []

    def reply(self) -> Reply:
        """Return the whole reply. Raises ProviderFault for an empty one."""
        if not self._answered:
            raise invalid("The model's provider answered without any choices")
        self._text_deltas(*self._thoughts.end())
        return Reply(
            text=self._text.whole(),
            reasoning=self._reasoning.whole(),
            calls=tuple(call.whole() for call in self._calls),
            finish_reason=self._finish_reason(),
            usage=self._usage,
            model=self._model,
            provider=self._provider,
            asked_model=self._asked_model,
            state=self._opaque.fields(),
        )

    def _choice(self, choice: Json) -> list[Delta]:
        if choice.get("index"):
            return []  # a second alternative, which is never requested
        message = choice.get("delta") or choice.get("message")
        deltas: list[Delta] = []
        if isinstance(message, dict):
            self._answered = True
            deltas += self._message(message, whole=not choice.get("delta"))
        finish = choice.get("finish_reason")
        if finish == "error":
            raise from_event(choice)
        if finish:
            self._finish = str(finish)
            deltas += self._text_deltas(*self._thoughts.end())
        return deltas

    def _message(self, message: Json, *, whole: bool) -> list[Delta]:
        if _has_text_alone(message):
            return self._text_deltas(*self._thoughts.add(message["content"]))
        self._opaque.add(message)
        refusal = text_of(message.get("refusal"))
        self._refused = self._refused or bool(refusal)
        thought, text = self._thoughts.add(refusal + text_of(message.get("content")))
        deltas = self._text_deltas(reasoning_of(message) + thought, text)
        for at, piece in enumerate(_pieces(message)):
            # Calls of a plain answer are whole: two of one id are two calls.
            deltas.append(self._call({**piece, "index": at} if whole else piece))
        return deltas

    def _text_deltas(self, reasoning: str, text: str) -> list[Delta]:
        deltas: list[Delta] = []
        if reasoning and (visible_text := self._reasoning.add(reasoning)):
            deltas.append(Delta(kind="reasoning", text=visible_text))
        if text and (visible_text := self._text.add(text)):
            deltas.append(Delta(kind="text", text=visible_text))
        return deltas

    def _call(self, piece: Json) -> Delta:
        call = self._find(piece)
        if call is None:
            call = _Call(piece, self._ids)
            self._calls.append(call)
        return Delta(
            kind="tool-call",
            text=call.add(piece),
            call=self._calls.index(call),
            tool_call_id=call.id,
            tool_name=call.name,
        )

    def _find(self, piece: Json) -> "_Call | None":
        """The call that a piece belongs to: by index and id, and without either the last one."""
        index, call_id = piece.get("index"), piece.get("id")
        if index is None and call_id:
            return next((c for c in self._calls if c.given_id == call_id), None)
        if index is None:
            has_name = bool(_function(piece).get("name"))
            return self._calls[-1] if self._calls and not has_name else None
        same = next((c for c in reversed(self._calls) if c.index == index), None)
        # Some servers send whole calls, one after another, all of them with index 0.
        another = same is not None and call_id and same.given_id and same.given_id != call_id
        return None if another else same

    def _finish_reason(self) -> FinishReason:
        if self._refused:
            return "content-filter"
        reason = _FINISH.get((self._finish or "").lower())
        return reason or ("tool-calls" if self._calls else "stop")


class _Call:
    """A tool call in the making."""

    def __init__(self, first: Json, ids: Ids) -> None:
        self.index = first.get("index")
        self.given_id = first.get("id") or None
        self.id = sanitise(str(self.given_id or ids.new("call")))
        self.name = ""
        self._args = Text()
        self._opaque = Opaque()

    def add(self, piece: Json) -> str:
        """Take a piece; the arguments' text in it. A repeated name is the same one again."""
        self._opaque.add(piece)
        function = _function(piece)
        self.name = self.name or sanitise(str(function.get("name") or ""))
        args = function.get("arguments")
        text = "" if args is None else args if isinstance(args, str) else json.dumps(args)
        return self._args.add(text)

    def whole(self) -> RequestedCall:
        """Return the call. Providers send no arguments, blanks or `{}` for a call that has none."""
        args = self._args.whole()
        args = args if args.strip() else "{}"
        return RequestedCall(id=self.id, name=self.name, args=args, state=self._opaque.fields())


def _has_text_alone(message: Json) -> bool:
    """Return whether a piece of a message has nothing but text: most pieces of a stream."""
    for name, value in message.items():
        if value is not None and name not in ("content", "role"):
            return False
    return isinstance(message.get("content"), str)


def _pieces(message: Json) -> list[Json]:
    calls = message.get("tool_calls")
    pieces = [c for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []
    legacy = message.get("function_call")
    if not pieces and isinstance(legacy, dict):
        return [{"index": 0, "function": legacy}]
    return pieces


def _function(piece: Json) -> Json:
    function = piece.get("function")
    return function if isinstance(function, dict) else {}


def text_of(content: object) -> str:
    """The text of a content that is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [b.get("text") for b in blocks if isinstance(b, dict) and not _is_thought(b)]
    return "".join(t for t in texts if isinstance(t, str))


def reasoning_of(message: Json) -> str:
    """Return the model's reasoning. Some providers send it in two fields: the first one counts."""
    for key in ("reasoning_content", "reasoning"):
        value = message.get(key)
        if isinstance(value, str) and value:
            return value
    for key in ("reasoning_details", "thinking_blocks", "content"):
        blocks = message.get(key)
        thoughts = [_thought(b) for b in blocks] if isinstance(blocks, list) else []
        if any(thoughts):
            return "".join(thoughts)
    return ""


def _is_thought(block: Json) -> bool:
    kind = str(block.get("type") or "")
    return kind.startswith(("reasoning", "thinking"))


def _thought(block: object) -> str:
    """Return the text of `reasoning.text`, `reasoning.summary` or a thinking block; encrypted ones have
    none."""
    if not isinstance(block, dict) or not _is_thought(block):
        return ""
    for key in ("text", "summary", "thinking", "reasoning"):
        value = block.get(key)
        if value:
            return value if isinstance(value, str) else text_of(value)
    return ""


def usage_of(usage: Json) -> Usage:
    """Return token counts; a missing or senseless one counts 0."""
    prompt, output = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    cached = _count(prompt, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens")
    cache_write_tokens = _count(prompt, "cache_write_tokens") or _count(
        prompt, "cache_creation_tokens"
    )
    return Usage(
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        cached_input_tokens=cached,
        cache_write_input_tokens=cache_write_tokens or _count(usage, "cache_creation_input_tokens"),
        reasoning_tokens=_count(output, "reasoning_tokens"),
    )


def _count(counts: object, key: str) -> int:
    return parse_tokens(counts.get(key)) if isinstance(counts, dict) else 0


def decode(text: str) -> Any:
    """JSON. Raises ProviderFault (it may pass) with the beginning of what came instead."""
    try:
        return from_json(text)
    except ValueError:
        pass  # It refuses half a character, which `json` takes.
    try:
        return json.loads(text)
    except ValueError:
        raise page(text) from None


def object_at(holder: Json, name: str) -> Json:
    """The field if it is an object, else an empty one: providers leave fields out, or send null."""
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def text_at(holder: Json, name: str) -> str:
    """The field if it is a text, else an empty one."""
    value = holder.get(name)
    return value if isinstance(value, str) else ""
