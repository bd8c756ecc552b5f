"""Recording: the results of a run's extraction are stored once, as a whole, merged with the data that is
stored by then."""

from typing import Any

from layover.plugins.memory.learns import facts
from layover.plugins.memory.learns.entry_lesson import (
    EpisodicExtraction,
    EpisodicUpdate,
    count_update,
)
from layover.plugins.memory.learns.profiles import ExtractedFacts
from layover.ports.memory.notes import StaleState
from layover.runtime import Runtime
from layover.values.memory.context import Extraction

_MAX_TRIES = 5
"""Attempts to store a session and entries while other runs write them, too."""


async def record(
    runtime: Runtime,
    owner: str,
    extraction: Extraction,
    new_facts: ExtractedFacts,
    episodic: EpisodicExtraction | None,
) -> bool:
    """Store the run's extraction. Return False if it was done before. Raises RetryableError."""
    whole = extraction.model_copy(
        update={
            "at": runtime.clock.now(),
            "profile": new_facts.profile or None,
            "usage": extraction.usage + (episodic.usage if episodic else ()),
        }
    )
    for tries_left in reversed(range(_MAX_TRIES)):
        update = await episodic.update() if episodic else EpisodicUpdate()
        parts: dict[str, Any] = {"entries": update.entries}
        if tries_left:
            parts |= {
                "entries_version": update.version,
                **await _session(runtime, owner, whole, new_facts),
            }
        # The last attempt compares nothing, because losing the session is better than losing everything else.
        try:
            is_new = await runtime.memory.record_extraction(owner, whole.model_copy(update=parts))
        except StaleState:
            continue
        if is_new:
            count_update(runtime, extraction.agent or "", update)
        return is_new
    return False


async def _session(
    runtime: Runtime, owner: str, extraction: Extraction, new_facts: ExtractedFacts
) -> dict[str, Any]:
    """Return the session with the turn's facts, minus those that a later turn has replaced."""
    said_at = extraction.said_at
    if not new_facts.session or said_at is None:
        return {}
    state = await runtime.memory.read_state(owner, extraction.thread_id)
    news = facts.latest(state.session, state.session_said, new_facts.session, said_at)
    if not news:
        return {}
    times = {f.field: max(said_at, state.session_said.get(f.field, said_at)) for f in news}
    return {
        "session": facts.with_facts(state.session, news) or None,
        "session_said": {**state.session_said, **times},
        "state_version": state.version,
    }
