"""Providers' replies, translated into Layover's values.

Providers agree on Chat Completions only roughly; each deviation here was seen in the wild."""

import json
from collections.abc import Collection
from decimal import Decimal
from typing import Any

from pydantic_core import from_json

from layover.plugins.models.call_pieces import CallPieces, read_index
from layover.plugins.models.citations import citations, sources_in
from layover.plugins.models.faults import blocked, from_event, invalid, page, unread
from layover.plugins.models.opaque import Opaque
from layover.plugins.models.text import Text
from layover.plugins.models.thoughts import Thoughts
from layover.ports import Ids
from layover.values.prompt import Delta, Reply, StopReason
from layover.values.runs.usage import Usage, parse_tokens

Json = dict[str, Any]

_FINISH: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "content_filter": "content-filter",
    "content-filter": "content-filter",
    "safety": "content-filter",
    "refusal": "content-filter",
    # Gemini's own, which its endpoint for OpenAI's clients passes on.
    "recitation": "content-filter",
    "blocklist": "content-filter",
    "prohibited_content": "content-filter",
    "spii": "content-filter",
    "image_safety": "content-filter",
}
"""All other reasons (`stop`, `end_turn`, ...) follow from the calls."""
_BROKEN_CALL = ("malformed_function_call", "unexpected_tool_call")
"""Reasons with which Gemini ends an answer whose call it could not read. The next one may be another."""
FOR_CALLS = ("tool_calls", "tool-calls", "function_call", "tool_use")
"""Reasons that promise calls."""
CUT_SHORT = ("length", "content-filter")
"""Reasons to stop at which the last call may be unfinished."""
_PLAIN_CHUNK = frozenset(
    [
        "id",
        "object",
        "created",
        "model",
        "choices",
        "usage",
        "system_fingerprint",
        "service_tier",
        "obfuscation",
        "provider",
    ]
)
_PLAIN_CHOICE = frozenset(["index", "delta", "finish_reason", "native_finish_reason", "logprobs"])
_PLAIN_PIECE = frozenset(("content", "role"))
"""Fields of a chunk that has nothing but text: most of a stream."""
MAX_COST_USD = 1_000_000
"""More than any provider can mean by the cost of a call."""


class Assembly:
    """One reply in the making: takes chunks of a stream, or one plain answer as its only chunk. `tools`: the
    names of the tools that the request offers."""

    def __init__(
        self, ids: Ids, asked_model: str, provider: str = "", tools: Collection[str] = ()
    ) -> None:
        self._model = self._asked_model = asked_model
        self._provider = provider
        self._opaque = Opaque()
        self._sources: list[Json] = []
        self._text = Text()
        self._reasoning = Text()
        self._thoughts = Thoughts()
        self._field: list[str] = []
        """Thoughts that a field told, and the text's tags have not told again."""
        self._twice: list[str] = []
        """Pieces that a field of thoughts and the text had alike."""
        self._ids = ids
        self._tools = tools
        self._calls = CallPieces(ids, tools)
        self._others: dict[int, Assembly] = {}
        """Choices behind the first one, by their numbers."""
        self._untold: list[Delta] = []
        self._usage: Usage | None = None
        self._finish: str | None = None
        self._refused = False
        self._answered = False
        self._plain_shape: tuple[str, ...] = ()
        """The fields of the last chunk that had nothing but text: most of a stream has the same."""

    @property
    def finished(self) -> bool:
        """True once the provider has given a reason to stop: only the usage can follow."""
        return self._finish is not None

    def add(self, chunk: object) -> list[Delta]:
        """Take a chunk and return what is new. Raises ProviderFault for an error inside it."""
        if (plain_text := self._plain_text(chunk)) is not None:
            self._answered = True
            return self._split_deltas("", self._thoughts.add(plain_text))
        chunk = _checked(chunk)
        self._model = chunk.get("model") or self._model
        choices = objects_at(chunk, "choices")
        # Groq has a place of its own for it, for requests without `stream_options`.
        for holder in (chunk, object_at(chunk, "x_groq"), *choices):
            if isinstance(usage := holder.get("usage"), dict):
                newer = usage_of(usage)
                self._usage = largest(self._usage, newer) if self._usage else newer
        deltas: list[Delta] = []
        for at, choice in enumerate(choices):
            # Some gateways number two choices of one answer alike.
            number = at or read_index(choice.get("index")) or 0
            deltas += self._choice(choice) if not number else self._other(number, choice)
        return deltas

    def _plain_text(self, chunk: Any) -> str | None:
        """Return the text of a chunk that says nothing else; None if it may say more. A stream has hundreds
        of them: for one that looks like the last, next to nothing is called."""
        try:
            [choice] = chunk["choices"]
            piece = choice["delta"]
            shape = (*chunk, "", *choice, "", *piece)
            if shape != self._plain_shape:
                if not (
                    chunk.keys() <= _PLAIN_CHUNK
                    and choice.keys() <= _PLAIN_CHOICE
                    and piece.keys() <= _PLAIN_PIECE
                ):
                    return None
                self._plain_shape = shape
            text = piece["content"]
        except (AttributeError, LookupError, TypeError, ValueError):
            return None
        # A look-up costs less than a call of `get`.
        if (
            ("finish_reason" in choice and choice["finish_reason"])  # noqa: RUF019
            or ("usage" in chunk and chunk["usage"])  # noqa: RUF019
            or ("index" in choice and choice["index"])  # noqa: RUF019
            or not isinstance(text, str)
        ):
            return None
        if "model" in chunk:
            self._model = chunk["model"] or self._model
        return text

    def reply(self) -> Reply:
        """Return the whole reply. Raises ProviderFault for an empty one."""
        if not self._answered and not self._others:
            raise invalid("The model's provider answered without any choices")
        if not self._calls and _reason(self._finish).endswith(_BROKEN_CALL):
            raise unread("The model's provider could not read a call of its model", None)
        self._split_deltas("", self._thoughts.end())
        if self._twice:
            self._end_twice()
        finish_reason = self._finish_reason()
        reply = Reply(
            text=self._text.whole(),
            reasoning=self._reasoning.whole(),
            calls=self._calls.whole(cut=finish_reason in CUT_SHORT),
            finish_reason=finish_reason,
            usage=self._usage or Usage(),
            model=self._model,
            provider=self._provider,
            asked_model=self._asked_model,
            state=self._opaque.fields(),
            data=tuple(citations(self._sources)),
            is_refusal=self._refused,
        )
        for _, other in sorted(self._others.items()):
            reply = _completed(reply, other.reply())
        return reply

    def _other(self, number: int, choice: Json) -> list[Delta]:
        """Take a choice that is not the first. One answer is asked for, so it is not an alternative: some
        gateways put the text of an answer into one choice and its calls into another."""
        if number not in self._others:
            self._others[number] = Assembly(
                self._ids, self._asked_model, self._provider, self._tools
            )
        other = self._others[number]
        self._untold += [d for d in other._choice(choice) if d.kind == "tool-call"]
        if not choice.get("finish_reason") or self._calls:
            return []
        deltas, self._untold = self._untold, []
        return deltas

    def _choice(self, choice: Json) -> list[Delta]:
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
            # A filter may leave nothing of the answer, not even an empty message.
            self._answered = self._answered or self._finish_reason() == "content-filter"
            deltas += self._split_deltas("", self._thoughts.end())
            if self._twice:
                deltas += self._end_twice()
            deltas += self._calls.end()
        return deltas

    def _message(self, message: Json, *, whole: bool) -> list[Delta]:
        if not whole and _has_text_alone(message):
            return self._split_deltas("", self._thoughts.add(message["content"]))
        self._opaque.add(message)
        self._sources += [
            s for s in sources_in(message.get("annotations")) if s not in self._sources
        ]
        refusal = text_of(message.get("refusal"))
        self._refused = self._refused or bool(refusal)
        content, reasoning = text_of(message.get("content")), reasoning_of(message)
        if whole:  # at the end of a stream, it says again what its pieces said
            content = _rest(content, self._text)
            reasoning = _rest(reasoning, self._reasoning)
        if reasoning and content == reasoning:
            self._twice.append(content)
            content = ""
        deltas = self._split_deltas(reasoning, self._thoughts.add(refusal + content))
        add = self._calls.add_whole if whole else self._calls.add
        for piece in _pieces(message):
            deltas += add(piece)
        if self._calls:
            self._thoughts.expect_no_more()
        return deltas

    def _split_deltas(self, reasoning: str, split: tuple[str, str]) -> list[Delta]:
        thought, text = split
        if reasoning:
            self._field.append(reasoning)
        if thought and self._field:
            thought = self._not_told(thought)
        deltas: list[Delta] = []
        if self._thoughts.takes_back:
            self._text, earlier = Text(), self._reasoning.whole()
            deltas = [Delta("restart"), *([Delta("reasoning", earlier)] if earlier else [])]
        if (thought or reasoning) and (visible_text := self._reasoning.add(reasoning + thought)):
            deltas.append(Delta(kind="reasoning", text=visible_text))
        if text and (visible_text := self._text.add(text)):
            deltas.append(Delta(kind="text", text=visible_text))
        return deltas

    def _not_told(self, thought: str) -> str:
        """Return a thought in tags; nothing if a field has told it."""
        field = "".join(self._field)
        field = field if field.startswith(thought) else field.lstrip()
        is_told = field.startswith(thought)
        self._field = [field[len(thought) :]] if is_told else []
        return "" if is_told else thought

    def _end_twice(self) -> list[Delta]:
        """Take the pieces that came twice for text if there is nothing else; they are thoughts otherwise."""
        twice, self._twice = "".join(self._twice), []
        if self._calls or self._text.whole():
            return []
        if self._reasoning.whole() == twice:
            self._reasoning = Text()
        thoughts = self._reasoning.whole()
        again = [Delta("restart"), *([Delta("reasoning", thoughts)] if thoughts else [])]
        return [*again, *self._split_deltas("", ("", twice))]

    def _finish_reason(self) -> StopReason:
        if self._refused:
            return "content-filter"
        reason = _reason(self._finish)
        is_for_calls = bool(self._calls) or reason in FOR_CALLS
        return _FINISH.get(reason) or ("tool-calls" if is_for_calls else "stop")


def _reason(finish: str | None) -> str:
    """Return a reason to stop in small letters; of `content_filter: SAFETY`, its kind, and of
    `function_call_filter: X` the X."""
    kind, _, detail = (finish or "").lower().partition(":")
    return detail.strip() if kind == "function_call_filter" and detail else kind.strip()


def _checked(chunk: object) -> Json:
    """Return a chunk that has no error in it. Raises ProviderFault."""
    if isinstance(chunk, list) and any(isinstance(c, dict) and c.get("error") for c in chunk):
        raise from_event(chunk)
    if not isinstance(chunk, dict):
        raise invalid("The model's provider sent a chunk that is not a JSON object")
    if chunk.get("error"):
        raise from_event(chunk)
    if (reason := _block_reason(chunk)) is not None:
        raise blocked(reason)
    return chunk


def _block_reason(chunk: Json) -> str | None:
    """Return the reason for which Gemini has blocked a prompt; None if it has not."""
    for name in ("prompt_feedback", "promptFeedback"):
        feedback = object_at(chunk, name) if name in chunk else {}
        for key in ("block_reason", "blockReason"):
            if key in feedback and isinstance(feedback[key], str):
                return str(feedback[key])
    return None


def _completed(reply: Reply, other: Reply) -> Reply:
    """Return a reply with what only another choice has. Two texts, or two lists of calls, are not mixed."""
    changes: dict[str, Any] = {}
    if not reply.text:
        changes |= {"text": other.text, "data": other.data}
    if not reply.reasoning:
        changes |= {"reasoning": other.reasoning}
    if other.calls and not reply.calls:
        changes |= {"calls": other.calls, "finish_reason": other.finish_reason}
    return reply.model_copy(update=changes)


def _rest(whole: str, pieces: Text) -> str:
    """Return what of a whole text its pieces have not said."""
    beginning = pieces.whole()
    return whole[len(beginning) :] if whole.startswith(beginning) else ""


def _has_text_alone(message: Json) -> bool:
    """Return whether a piece of a message has nothing but text: most pieces of a stream."""
    for name, value in message.items():
        if value is not None and name not in ("content", "role"):
            return False
    return isinstance(message.get("content"), str)


def _pieces(message: Json) -> list[Json]:
    pieces = objects_at(message, "tool_calls")
    legacy = message.get("function_call")
    if not pieces and isinstance(legacy, dict):
        return [{"index": 0, "function": legacy}]
    return pieces


def text_of(content: object) -> str:
    """The text of a content that is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [b.get("text") for b in content if isinstance(b, dict) and not _is_thought(b)]
    return "".join(t for t in texts if isinstance(t, str))


def reasoning_of(message: Json) -> str:
    """Return the model's reasoning. Some providers send it in two fields: the first one counts."""
    for key in ("reasoning_content", "reasoning"):
        if key in message and isinstance(value := message[key], str) and value:
            return value
    for key in ("reasoning_details", "thinking_blocks", "content"):
        blocks = message.get(key)
        if isinstance(blocks, list) and (thoughts := "".join(map(_thought, blocks))):
            return thoughts
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


def largest(one: Usage, other: Usage) -> Usage:
    """Return the largest of each count: some providers tell the usage in several frames, and the later ones
    may leave out what the earlier ones told."""
    names = ("input_tokens", "output_tokens", *_DETAILS)
    counts = {name: max(getattr(one, name), getattr(other, name)) for name in names}
    costs = [cost for cost in (one.cost_usd, other.cost_usd) if cost is not None]
    return Usage(**counts, cost_usd=max(costs, default=None))


_DETAILS = ("cached_input_tokens", "cache_write_input_tokens", "reasoning_tokens")


def usage_of(usage: Json) -> Usage:
    """Return token counts; a missing or senseless one counts 0."""
    prompt = object_at(usage, "prompt_tokens_details")
    output = object_at(usage, "completion_tokens_details")
    cached = (
        _count(prompt, "cached_tokens")
        or _count(usage, "prompt_cache_hit_tokens")
        or _count(usage, "cached_tokens")
    )
    written = (
        _count(prompt, "cache_write_tokens")
        or _count(prompt, "cache_creation_tokens")
        or _count(usage, "cache_creation_input_tokens")
    )
    reasoning = _count(output, "reasoning_tokens")
    input_tokens, output_tokens = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    untold = _count(usage, "total_tokens") - input_tokens - output_tokens
    # Gemini counts its thoughts in the total alone. Others have in it what a cache read or wrote.
    if reasoning or not input_tokens or untold in (cached, written, cached + written):
        untold = 0
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens + max(0, untold),
        cached_input_tokens=cached,
        cache_write_input_tokens=written,
        reasoning_tokens=reasoning,
        cost_usd=cost_of(usage),
    )


def cost_of(usage: Json) -> Decimal | None:
    """Return the US dollars that a router says a call cost; None if it does not say. With a customer's own
    key the provider behind the router bills the rest itself."""
    cost = _dollars(usage, "cost")
    if usage.get("is_byok") is not True:
        return cost
    upstream = _dollars(object_at(usage, "cost_details"), "upstream_inference_cost")
    return None if cost is None or upstream is None else cost + upstream


def _dollars(holder: Json, name: str) -> Decimal | None:
    value = holder.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return Decimal(str(value)) if 0 <= value <= MAX_COST_USD else None


def _count(counts: Json, key: str) -> int:
    return parse_tokens(counts[key]) if key in counts else 0


def decode(text: str) -> Any:
    """JSON. Raises ProviderFault (it may pass) with the beginning of what came instead."""
    try:
        return from_json(text)
    except ValueError:
        pass  # It refuses half a character, which `json` takes, and a byte order mark.
    # Some servers end a document as they end a stream.
    document = text.removeprefix("\ufeff").rstrip().removesuffix("[DONE]").rstrip()
    try:
        return json.loads(document.removesuffix("data:"))
    except ValueError:
        raise page(text) from None


def object_at(holder: Json, name: str) -> Json:
    """The field if it is an object, else an empty one: providers leave fields out, or send null."""
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def objects_at(holder: Json, name: str) -> list[Json]:
    """The objects of the field if it is a list, else none."""
    value = holder.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text_at(holder: Json, name: str) -> str:
    """The field if it is a text, else an empty one."""
    value = holder.get(name)
    return value if isinstance(value, str) else ""
