"""State that a provider wants back unchanged: thoughts in its own fields, and signatures of thoughts.

- `reasoning_content` of a message (DeepSeek, Kimi, GLM): with every answer, as the newest of them want it.
- `reasoning` of a message (Groq, Cerebras, Ollama, vLLM): the same, where nothing else came.
- `reasoning_details` (OpenRouter) and `thinking_blocks` (LiteLLM) of a message: blocks, some of them
  encrypted or signed.
- Thoughts among the blocks of a `content` (Mistral): they stand before the text
  (https://docs.mistral.ai/studio-api/conversations/reasoning#multi-turn-conversations).
- `extra_content` of a call or a message (Gemini's `thought_signature`).
- `id` of a call: one that other providers could refuse (LiteLLM's have a signature in them).

It goes back to the provider and the model that it came from, and nowhere else
(docs/behaviour.md#provider-state)."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from layover.values.base import MAX_DEPTH
from layover.values.message import Message, ProviderState
from layover.values.text import sanitise

Json = Mapping[str, Any]

TEXT, PLAIN = "reasoning_content", "reasoning"
BLOCKS, EXTRA = "reasoning_details", "extra_content"
OF_BLOCKS = (BLOCKS, "thinking_blocks")
FIELDS = frozenset({TEXT, PLAIN, *OF_BLOCKS, EXTRA})
"""Fields of a message."""
THINKING = "thinking"
"""The type of a thought among the blocks of a content, its field with the words, and the field of a state
that holds such blocks."""
ID = "id"
"""The field of a call's state that holds the id that its provider gave it."""
_GROWING = ("text", "summary", "data", THINKING)
"""Fields of a block that arrive in pieces. Every other field arrives once."""
_ENCRYPTED = ("reasoning.encrypted", "redacted_thinking")


class Opaque:
    """The opaque fields of one message, or of one call, in the making: from one document or in pieces."""

    def __init__(self) -> None:
        self._text = ""
        self._plain = ""
        self._blocks: dict[str, list[dict[str, Any]]] = {name: [] for name in OF_BLOCKS}
        self._thoughts: list[dict[str, Any]] = []
        self._extra: dict[str, Any] = {}

    def add(self, piece: Json) -> None:
        """Take the opaque fields of a message, a call, or a piece of one."""
        if FIELDS.isdisjoint(piece) and not isinstance(piece.get("content"), list):
            return
        if isinstance(text := piece.get(TEXT), str):
            self._text += text
        if isinstance(plain := piece.get(PLAIN), str):
            self._plain += plain
        for name in OF_BLOCKS:
            for block in _objects(piece.get(name)):
                _add_block(self._blocks[name], block)
        self._think([b for b in _objects(piece.get("content")) if b.get("type") == THINKING])
        if isinstance(extra := piece.get(EXTRA), Mapping):
            self._extra = merge(self._extra, extra)

    def fields(self) -> dict[str, Any]:
        """Return the state received so far, by the wire's field names."""
        values = {TEXT: self._text, THINKING: self._thoughts, EXTRA: self._extra, **self._blocks}
        if not self._text and not any(self._blocks.values()):  # otherwise the same words once more
            values[PLAIN] = self._plain
        fields: dict[str, Any] = load_stored({n: value for n, value in values.items() if value})
        return fields

    def _think(self, thoughts: list[Json]) -> None:
        """Take the thoughts of a content, the first of which continues the last one if that is still open."""
        last = self._thoughts[-1] if self._thoughts else {"closed": True}
        if thoughts and not last.get("closed") and not last.get("signature"):
            first, *thoughts = thoughts
            self._thoughts[-1] = _continued(last, first)
        self._thoughts += map(dict, thoughts)


def _objects(value: object) -> list[Json]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []


def _continued(thought: Json, piece: Json) -> dict[str, Any]:
    """Return a thought with the piece that follows: the texts that meet are one."""
    words, more_words = thought.get(THINKING), piece.get(THINKING)
    if isinstance(words, str) and isinstance(more_words, str):
        return {**thought, **piece, THINKING: words + more_words}
    parts, more = _objects(words), _objects(more_words)
    if parts and more and parts[-1].get("type") == more[0].get("type") == "text":
        texts = (str(part.get("text") or "") for part in (parts[-1], more[0]))
        parts, more = [*parts[:-1], {**parts[-1], "text": "".join(texts)}], more[1:]
    return {**thought, **piece, THINKING: [*parts, *more]}


def _add_block(blocks: list[dict[str, Any]], piece: Json) -> None:
    """Add a block, or continue the last one if the piece has the same type and the same place."""
    last = blocks[-1] if blocks else None
    if last is None or not _is_of(piece, last):
        blocks.append(dict(piece))
        return
    for name, value in piece.items():
        if name in _GROWING and isinstance(value, str) and isinstance(last.get(name), str):
            last[name] += value
        elif value or name not in last:
            last[name] = value


def _is_of(piece: Json, block: Json) -> bool:
    """Return whether the piece continues the block. Without an index only texts do: two encrypted blocks are
    two."""
    if piece.get("type") != block.get("type"):
        return False
    if piece.get("index") is not None or block.get("index") is not None:
        same = piece.get("index") == block.get("index")
        return same and piece.get("id") in (None, block.get("id"))
    return piece.get("type") not in _ENCRYPTED and not block.get("signature")


def load_stored(value: Any, depth: int = 0) -> Any:
    """The same JSON as every store takes it. No provider nests deeper than callers may."""
    if isinstance(value, str):
        return sanitise(value)
    if not isinstance(value, Mapping | list) or depth > MAX_DEPTH:
        return None if isinstance(value, Mapping | list) else value
    if isinstance(value, Mapping):
        return {sanitise(name): load_stored(each, depth + 1) for name, each in value.items()}
    return [load_stored(each, depth + 1) for each in value]


def merge(target: Json, more: Json) -> dict[str, Any]:
    """Both, the second winning, objects in each other's place merged in turn."""
    whole = dict(target)
    for name, value in more.items():
        both = isinstance(value, Mapping) and isinstance(whole.get(name), Mapping)
        whole[name] = merge(whole[name], value) if both else value
    return whole


def state_of(message: Message, provider: str, model: str) -> ProviderState | None:
    """Return the state that this provider and model want back with a message; None if it came from another
    one."""
    state = message.provider_state
    if state is None or (state.provider, state.model) != (provider, model):
        return None
    return state


def message_fields(state: ProviderState) -> dict[str, Any]:
    """The fields of a message."""
    return {name: value for name, value in state.fields.items() if name in FIELDS}


def with_thoughts(text: str | None, state: ProviderState) -> str | list[Json] | None:
    """Return the content of an answer: its text, behind the thoughts that stood there."""
    thoughts: list[Json] = state.fields.get(THINKING, [])
    if not thoughts:
        return text
    return [*thoughts, *([{"type": "text", "text": text}] if text else [])]


def split_text(text: str, lengths: Sequence[int]) -> list[str] | None:
    """Return the texts of these lengths that make up `text`; None if a hook has changed it."""
    if sum(lengths) != len(text):
        return None
    ends = list(accumulate(lengths))
    return [text[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def call_fields(state: ProviderState, tool_call_id: str) -> dict[str, Any]:
    """The fields of one of its calls."""
    fields = state.calls.get(tool_call_id, {})
    return {name: value for name, value in fields.items() if name == EXTRA}


def given_id(state: ProviderState, tool_call_id: str) -> str | None:
    """Return the id that the provider gave a call, if it wants it back; None: any id will do."""
    stored_id = state.calls.get(tool_call_id, {}).get(ID)
    return stored_id if isinstance(stored_id, str) else None
