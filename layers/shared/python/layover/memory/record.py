"""Record: what was learned from a run goes in once, whole, and beside what is there by then."""

from typing import Any

from layover.memory.episodic.learn import EpisodicExtraction, EpisodicUpdate, count_taught
from layover.memory.profile import facts
from layover.memory.profile.profiles import ExtractedFacts
from layover.ports import Runtime
from layover.ports.memory.notes import StaleState
from layover.values.memory.context import Extraction

_TRIES = 5
"""To store a session and entries while others write them, too."""


async def record(
    runtime: Runtime,
    owner: str,
    extraction: Extraction,
    learned: ExtractedFacts,
    lesson: EpisodicExtraction | None,
) -> bool:
    """Store the run's extraction with what was learned; False if it was done before. Raises
    RetryableError."""
    whole = extraction.model_copy(
        update={
            "at": runtime.clock.now(),
            "profile": learned.profile or None,
            "usage": extraction.usage + learned.usage + (lesson.usage if lesson else ()),
        }
    )
    for left in reversed(range(_TRIES)):
        taught = await lesson.taught() if lesson else EpisodicUpdate()
        parts: dict[str, Any] = {"entries": taught.entries}
        if left:
            parts |= {
                "entries_version": taught.version,
                **await _session(runtime, owner, whole, learned),
            }
        # The last time nothing is compared: a session is lost before all the rest is.
        try:
            done = await runtime.memory.record_extraction(owner, whole.model_copy(update=parts))
        except StaleState:
            continue
        if done:
            count_taught(runtime, extraction.agent or "", taught)
        return done
    return False


async def _session(
    runtime: Runtime, owner: str, extraction: Extraction, learned: ExtractedFacts
) -> dict[str, Any]:
    """The session with the turn's facts, less those that a later turn has replaced."""
    said_at = extraction.said_at
    if not learned.session or said_at is None:
        return {}
    state = await runtime.memory.read_state(owner, extraction.thread_id)
    news = facts.latest(state.session, state.session_said, learned.session, said_at)
    if not news:
        return {}
    said = {f.field: max(said_at, state.session_said.get(f.field, said_at)) for f in news}
    return {
        "session": facts.with_facts(state.session, news) or None,
        "session_said": {**state.session_said, **said},
        "state_version": state.version,
    }
