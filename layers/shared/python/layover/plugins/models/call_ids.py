"""Ids of calls on the wire (docs/behaviour.md#call-ids)."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from layover.plugins.models import makers, opaque
from layover.values.message import ProviderState, ToolCallPart

_SAFE = re.compile(r"[a-zA-Z0-9_-]{1,40}")
"""Ids that every provider accepts but Mistral (OpenAI allows 64 characters, some 40)."""
_MISTRALS = re.compile(r"[a-zA-Z0-9]{9}")


def safe_id(call_id: str) -> str:
    """An id that no provider refuses: a good one as it is, any other by its hash."""
    return call_id if _SAFE.fullmatch(call_id) else "call_" + _hash(call_id)[:32]


def state_of(given_id: object) -> dict[str, Any]:
    """Return a call's own id as state of it, if it is one that other providers could refuse: some ids have a
    meaning to their provider, or are named in its thoughts."""
    is_kept = isinstance(given_id, str) and given_id and not _SAFE.fullmatch(given_id)
    return {opaque.ID: given_id} if is_kept else {}


class CallIds:
    """The ids of the calls in one request, and of their results, for this provider and model. What they made
    themselves they get back as it was."""

    def __init__(self, provider: str, model: str) -> None:
        self._is_mistral = makers.is_mistral(provider, model)
        self._taken: set[str] = set()

    def of(self, calls: Iterable[ToolCallPart], state: ProviderState | None) -> Mapping[str, str]:
        """Return the ids of a message's calls on the wire, by `tool_call_id`. `state`: that of the message,
        if this provider and model want it back."""
        return {c.tool_call_id: self._one(c.tool_call_id, state) for c in calls}

    def _one(self, call_id: str, state: ProviderState | None) -> str:
        if self._is_mistral:
            return call_id if _MISTRALS.fullmatch(call_id) else _hash(call_id)[:9]
        given_id = None if state is None else opaque.given_id(state, call_id)
        # Some providers begin to count anew with each answer.
        is_new = given_id is not None and given_id not in self._taken
        chosen = given_id if given_id is not None and is_new else safe_id(call_id)
        self._taken.add(chosen)
        return chosen


def _hash(call_id: str) -> str:
    return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()
