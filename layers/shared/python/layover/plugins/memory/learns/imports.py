"""Entries that other systems know (docs/guides/memory.md#import). Nobody is asked what they replace: they
stand beside what is stored."""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from layover.declare.memory import EpisodicMemory
from layover.errors import InvalidRequest, UnknownAgent
from layover.plugins.memory.learns.entries import MAX_CORRECTION, Entry, embedder_for, entry_view
from layover.plugins.memory.learns.rules import hash_of
from layover.plugins.memory.learns.text.evidence import missing_anchors, normalise, says_enough
from layover.plugins.memory.learns.text.redaction import redact
from layover.plugins.memory.reads.semantic.embedding import embed
from layover.ports import Embedder
from layover.records.lifetimes import watch_entries
from layover.runtime import Runtime
from layover.values.imports import CLOCK_LEEWAY, EARLIEST
from layover.values.memory.entry import NewEntry, Source
from layover.values.metrics import Metric
from layover.values.text import sanitise

MAX_IMPORTED = MAX_CORRECTION
"""Characters of an imported entry, and of its evidence."""
_SOURCE: Source = "imported"
logger = logging.getLogger("layover")


@dataclass(frozen=True)
class ImportedEntry:
    """The outcome of an import. `is_new`: False if the agent remembers these words already."""

    entry: Entry
    is_new: bool


async def import_entry(
    runtime: Runtime,
    owner: str,
    agent: str,
    content: str,
    evidence: str | None,
    said_at: datetime | None,
    *,
    embeds: bool = True,
) -> ImportedEntry:
    """Store what another system knows of the owner. Secrets are redacted. It is verified only if `evidence`,
    the words that say it, has every number and name of it. Repeatable: the same content is stored once.
    `embeds`: whether the embedder may be asked.

    Raises UnknownAgent, InvalidRequest (nothing said, too long, a time to come or too long ago, nothing
    verified where the agent refuses that), RetryableError."""
    agents = runtime.agents()
    if agent not in agents:
        raise UnknownAgent(agent, agents)
    settings = agents[agent].memory.episodic or EpisodicMemory()
    text = _text("content", content)
    words = None if evidence is None else _text("evidence", evidence)
    is_told = words is not None and says_enough(words) and not missing_anchors(text, [words])
    if settings.assistant_evidence == "refuse" and not is_told:
        raise _refuse("evidence", "this agent keeps nothing unverified: send the words that say it")
    at = _time(runtime, said_at)
    embedder = embedder_for(runtime, owner, agent) if embeds else None
    vector = await _vector(embedder, text)
    entry = NewEntry(
        id=runtime.ids.new("ent"),
        agent=agent,
        content=text,
        source=_SOURCE,
        evidence=text if words is None else words,
        verified=is_told,
        created_at=at,
        hash=hash_of(text),
        vector=vector,
        model=embedder.model if embedder and vector else None,
    )
    await watch_entries(runtime, owner, at)
    stored, is_new = await runtime.memory.import_entry(owner, entry)
    if is_new:
        runtime.metrics.count(Metric.ENTRIES_STORED, agent=agent)
    return ImportedEntry(entry_view(stored), is_new=is_new)


def _text(field: str, value: str) -> str:
    text = redact(normalise(sanitise(value)))
    if not any(c.isalnum() for c in text) or len(text) > MAX_IMPORTED:
        raise _refuse(field, f"1 to {MAX_IMPORTED} characters, not only blanks")
    return text


def _time(runtime: Runtime, said_at: datetime | None) -> datetime:
    now = runtime.clock.now()
    if said_at is None:
        return now
    if not EARLIEST <= said_at <= now + CLOCK_LEEWAY:
        raise _refuse("said_at", "a time from 1970 until now")
    at = min(said_at.astimezone(UTC), now)
    retention = runtime.settings.entry_retention
    if retention is not None and at + retention <= now:
        raise _refuse(
            "said_at", f"entries live for {retention.days} days here, and this one is older"
        )
    return at


async def _vector(embedder: Embedder | None, text: str) -> tuple[float, ...] | None:
    """Return the entry's vector. If the embedder fails, the entry is found by words until `layover
    reembed`."""
    if embedder is None:
        return None
    try:
        return (await embed(embedder, [text])).vectors[0]
    except Exception as error:
        logger.warning("entry imported without a vector", extra={"cause": type(error).__name__})
        return None


def _refuse(field: str, message: str) -> InvalidRequest:
    error = {"loc": ["body", field], "msg": message, "type": "import"}
    return InvalidRequest("this cannot be imported", [error])
