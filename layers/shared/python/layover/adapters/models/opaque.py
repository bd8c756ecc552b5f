"""State that a provider wants back unchanged: thoughts in its own fields, and signatures of thoughts.

- `reasoning_content` of a message (DeepSeek, Kimi, GLM): with every answer, as the newest of them want it.
- `reasoning` of a message (Groq, Cerebras, Ollama, vLLM): the same, where nothing else came.
- `reasoning_details` of a message (OpenRouter): blocks, some of them encrypted or signed.
- `extra_content` of a call or a message (Gemini's `thought_signature`).
- `id` of a call: one that other providers could refuse (LiteLLM's have a signature in them).

It goes back to the provider and the model that it came from, and nowhere else
(docs/behaviour.md#provider-state)."""

from collections.abc import Mapping
from typing import Any

from layover.values.base import MAX_DEPTH
from layover.values.message import Message, ProviderState
from layover.values.text import sanitise

Json = Mapping[str, Any]

TEXT, PLAIN = "reasoning_content", "reasoning"
BLOCKS, EXTRA = "reasoning_details", "extra_content"
FIELDS = frozenset({TEXT, PLAIN, BLOCKS, EXTRA})
"""Fields of a message."""
ID = "id"
"""The field of a call's state that holds the id that its provider gave it."""
_GROWING = ("text", "summary", "data")
"""Fields of a block that arrive in pieces. Every other field arrives once."""


class Opaque:
    """The opaque fields of one message, or of one call, in the making: from one document or in pieces."""

    def __init__(self) -> None:
        self._text = ""
        self._plain = ""
        self._blocks: list[dict[str, Any]] = []
        self._extra: dict[str, Any] = {}

    def add(self, piece: Json) -> None:
        """Take the opaque fields of a message, a call, or a piece of one."""
        if isinstance(text := piece.get(TEXT), str):
            self._text += text
        if isinstance(plain := piece.get(PLAIN), str):
            self._plain += plain
        blocks = piece.get(BLOCKS)
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, Mapping):
                self._add_block(block)
        if isinstance(extra := piece.get(EXTRA), Mapping):
            self._extra = merge(self._extra, extra)

    def fields(self) -> dict[str, Any]:
        """Return the state received so far, by the wire's field names."""
        values = {TEXT: self._text, BLOCKS: self._blocks, EXTRA: self._extra}
        if not self._text and not self._blocks:  # otherwise the same words once more
            values[PLAIN] = self._plain
        fields: dict[str, Any] = load_stored({n: value for n, value in values.items() if value})
        return fields

    def _add_block(self, piece: Json) -> None:
        """A piece continues the last block where it has the same type and the same place."""
        last = self._blocks[-1] if self._blocks else None
        if last is None or not _is_of(piece, last):
            self._blocks.append(dict(piece))
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
    return piece.get("type") != "reasoning.encrypted" and not block.get("signature")


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


def message_fields(state: ProviderState | None) -> dict[str, Any]:
    """The fields of a message."""
    fields = {} if state is None else state.fields
    return {name: value for name, value in fields.items() if name in FIELDS}


def call_fields(state: ProviderState | None, tool_call_id: str) -> dict[str, Any]:
    """The fields of one of its calls."""
    fields = {} if state is None else state.calls.get(tool_call_id, {})
    return {name: value for name, value in fields.items() if name == EXTRA}


def given_id(state: ProviderState | None, tool_call_id: str) -> str | None:
    """Return the id that the provider gave a call, if it wants it back; None: any id will do."""
    if state is None:
        return None
    stored_id = state.calls.get(tool_call_id, {}).get(ID)
    if isinstance(stored_id, str):
        return stored_id
    # Of before calls kept their ids: those that a thought is about are as they came.
    blocks = state.fields.get(BLOCKS, ())
    return tool_call_id if any(block.get("id") == tool_call_id for block in blocks) else None
