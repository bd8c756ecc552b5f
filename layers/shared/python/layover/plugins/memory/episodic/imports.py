"""Entries that other systems know (docs/guides/memory.md#import). They compete with stored ones by the same
rules as those that a turn teaches."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from layover.declare.memory import EpisodicMemory
from layover.errors import InvalidRequest, RetryableError, UnknownAgent
from layover.plugins.memory.episodic import search as entry_search
from layover.plugins.memory.episodic.entries import MAX_CORRECTION, Entry, embedder_for, entry_view
from layover.plugins.memory.episodic.rules import MAX_KNOWN, Candidate, Selection, hash_of, select
from layover.plugins.memory.semantic.embedding import embed
from layover.plugins.memory.text.evidence import missing_anchors, normalise, says_enough
from layover.plugins.memory.text.redaction import redact
from layover.ports import Embedder
from layover.ports.memory.notes import StaleState
from layover.records.lifetimes import watch_entries
from layover.runtime import Runtime
from layover.values.imports import CLOCK_LEEWAY, EARLIEST
from layover.values.memory.entry import FoundEntry, NewEntry, SimilarEntries, Source
from layover.values.metrics import Metric
from layover.values.text import sanitise

MAX_IMPORTED = MAX_CORRECTION
"""Characters of an imported entry, and of its evidence."""
_MAX_TRIES = 5
"""Attempts to store an entry while runs teach the same agent others."""
_SOURCE: Source = "imported"
logger = logging.getLogger("layover")


@dataclass(frozen=True)
class ImportedEntry:
    """The outcome of an import. `is_new`: False if the agent remembers the same already, or something newer
    against it: that is then the `entry`."""

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
    candidate = _candidate(content, evidence)
    if settings.assistant_evidence == "refuse" and not candidate.verified:
        raise _refuse("evidence", "this agent keeps nothing unverified: send the words that say it")
    at = _time(runtime, said_at)
    embedder = embedder_for(runtime, owner, agent) if embeds else None
    vector = await _vector(embedder, candidate.content)
    entry = NewEntry(
        id=runtime.ids.new("ent"),
        agent=agent,
        content=candidate.content,
        source=candidate.source,
        evidence=candidate.evidence,
        verified=candidate.verified,
        created_at=at,
        hash=candidate.hash,
        vector=vector,
        model=embedder.model if embedder and vector else None,
    )
    await watch_entries(runtime, owner, at)
    imported = await _Import(runtime, owner, settings, candidate, entry).store()
    if imported.is_new:
        runtime.metrics.count(Metric.ENTRIES_STORED, agent=agent)
    return imported


class _Import:
    """An entry on its way into the store."""

    def __init__(
        self,
        runtime: Runtime,
        owner: str,
        settings: EpisodicMemory,
        candidate: Candidate,
        entry: NewEntry,
    ) -> None:
        self._runtime = runtime
        self._owner = owner
        self._settings = settings
        self._candidate = candidate
        self._entry = entry

    async def store(self) -> ImportedEntry:
        """Store the entry, unless what is stored stands in its place."""
        for _ in range(_MAX_TRIES):
            near = await self._near()
            alike = await self._alike()
            selections = self._select(near, alike)
            if not selections and (standing := self._standing(near, alike)) is not None:
                return ImportedEntry(entry_view(standing), is_new=False)
            supersedes = selections[0].supersedes if selections else ()
            entry = self._entry.model_copy(update={"supersedes": supersedes})
            try:
                stored, is_new = await self._runtime.memory.import_entry(
                    self._owner, entry, near.version
                )
            except StaleState:
                continue
            return ImportedEntry(entry_view(stored), is_new=is_new)
        raise RetryableError("other entries keep coming; try again")

    @property
    def _least(self) -> float | None:
        least = self._settings.dedupe_similarity
        alike = entry_search.similar_cosine(self._entry.model)
        return alike if least == "auto" else least

    async def _near(self) -> SimilarEntries:
        """Return stored entries that are near by the vector; without one, only the version of what is
        stored."""
        entry, least = self._entry, self._least
        return await self._runtime.memory.similar_entries(
            self._owner,
            entry.agent,
            [entry.vector] if entry.vector else [],
            entry.model or "",
            entry_search.similar_cosine(entry.model) if least is None else least,
        )

    async def _alike(self) -> Sequence[FoundEntry]:
        """Return stored entries that share words with it, or are near to it."""
        query = entry_search.entry_query(
            self._entry.agent,
            self._settings,
            self._entry.content,
            self._runtime.clock.now(),
            top_k=MAX_KNOWN,
            vector=self._entry.vector,
            model=self._entry.model,
        )
        return (await self._runtime.memory.find_entries(self._owner, query)).items

    def _select(self, near: SimilarEntries, alike: Sequence[FoundEntry]) -> list[Selection]:
        return select(
            [self._candidate],
            [self._entry.vector],
            near.items,
            self._least,
            self._entry.created_at,
            by_words=alike,
        )

    def _standing(self, near: SimilarEntries, alike: Sequence[FoundEntry]) -> FoundEntry | None:
        """Return the stored entry because of which this one is not: the first that has this effect by
        itself."""
        for entry in alike:
            own = tuple(s for s in near.items if s.id == entry.id)
            if not self._select(near.model_copy(update={"items": own}), [entry]):
                return entry.model_copy(
                    update={"score": None, "text_score": None, "vector_score": None}
                )
        return None


def _candidate(content: str, evidence: str | None) -> Candidate:
    text = _text("content", content)
    words = None if evidence is None else _text("evidence", evidence)
    is_told = words is not None and says_enough(words) and not missing_anchors(text, [words])
    return Candidate(
        content=text,
        source=_SOURCE,
        evidence=text if words is None else words,
        message_id="",
        verified=is_told,
        hash=hash_of(text),
    )


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
