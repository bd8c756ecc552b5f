"""Extracts a turn's addition to episodic memory (docs/behaviour.md#episodic-extraction). It reads and asks;
`record` stores."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from layover import ids
from layover.context.transcript import response_messages
from layover.declare.agent import Agent
from layover.declare.memory import EpisodicMemory
from layover.errors import LayoverError
from layover.memory.embedding import embed
from layover.memory.episodic import rules as entries
from layover.memory.episodic import search as entry_search
from layover.memory.episodic.entries import episodic_embedder
from layover.memory.episodic.rules import Candidate, Chosen, Refusal
from layover.memory.profile.notes import profile_key
from layover.memory.usage import embedding_spent, spent
from layover.ports import Runtime
from layover.values.memory.context import StepUsage
from layover.values.memory.entry import FoundEntry, NewEntry, SimilarEntries
from layover.values.message import Message, Role
from layover.values.metrics import Metric
from layover.values.prompt import Embedded
from layover.values.runs.run import RunSnapshot

HARMLESS = frozenset({"plan", "update_working_memory"})
"""Tools of memory's own whose results say nothing. `recall_memory` is none of them: what it answers may be
unverified, and would come back as found out."""
Vector = tuple[float, ...]
logger = logging.getLogger("layover")


@dataclass(frozen=True)
class EpisodicUpdate:
    """A run's additions to the stored entries, and the refusals counted by reason. `version`: of
    the SimilarEntries that it was compared with."""

    entries: tuple[NewEntry, ...] = ()
    version: int | None = None
    refused: Mapping[Refusal, int] = field(default_factory=dict)


async def learn_entries(
    runtime: Runtime, agent: Agent | None, snapshot: RunSnapshot
) -> "EpisodicExtraction | None":
    """Ask for what the turn teaches, where the agent remembers that. A model that fails costs this
    turn's entries, an embedder that fails their vectors. Raises RetryableError (the database)."""
    settings = agent.memory.episodic if agent else None
    said = entries.said_in([snapshot.meta.input, *response_messages(snapshot)])
    if agent is None or settings is None or not settings.per_turn or not said:
        return None
    lesson = EpisodicExtraction(runtime, agent, settings, snapshot, said)
    await lesson.learn()
    return lesson


def count_taught(runtime: Runtime, agent: str, taught: EpisodicUpdate) -> None:
    """Count what was stored and what was refused, without a word of it."""
    if taught.entries:
        runtime.metrics.count(Metric.ENTRIES_STORED, len(taught.entries), agent=agent)
    for reason, number in taught.refused.items():
        runtime.metrics.count(Metric.ENTRIES_REFUSED, number, agent=agent, reason=reason.value)


class EpisodicExtraction:
    """One run's extraction: models are asked once, and what they proposed is compared with what is stored
    as often as that changes meanwhile."""

    def __init__(
        self,
        runtime: Runtime,
        agent: Agent,
        settings: EpisodicMemory,
        snapshot: RunSnapshot,
        said: Sequence[Message],
    ) -> None:
        self._runtime = runtime
        self._agent = agent
        self._settings = settings
        self._snapshot = snapshot
        self._meta = snapshot.meta
        self._said = said
        self._embedder = episodic_embedder(runtime, agent)
        self._usage: list[StepUsage] = []
        self._refused: Counter[Refusal] = Counter()
        self._proposed: Sequence[Candidate] = ()
        self._vectors: Sequence[Vector | None] = ()
        self._extractor = ""

    @property
    def usage(self) -> tuple[StepUsage, ...]:
        """The cost of the extraction."""
        return tuple(self._usage)

    async def learn(self) -> None:
        """Ask, and check what was answered."""
        known = await self._known()
        answer, self._extractor = await self._asked([e.content for e in known])
        trusted = trusts_tools(self._agent, self._snapshot)
        found = entries.checked(answer, self._said, self._settings, trusted=trusted)
        self._refused = Counter(found.refused)
        known_hashes = {entries.hash_of(e.content): e for e in known}

        def is_news(candidate: Candidate) -> bool:
            """Also what is known unverified, where somebody vouches for it now."""
            same = known_hashes.get(candidate.hash)
            return same is None or (candidate.verified and not same.verified)

        self._proposed = new = [c for c in found.kept if is_news(c)]
        self._refused[Refusal.REPEATED] += len(found.kept) - len(new)
        self._vectors = await self._embedded([c.content for c in new])

    async def taught(self) -> EpisodicUpdate:
        """Returns what the store does not have yet. Without vectors nothing is similar. Raises
        RetryableError."""
        least = self._settings.dedupe_similarity
        near = await self._similar(entries.SIMILAR if least is None else least)
        stored = near.items if near else ()
        said_at = self._meta.input.created_at
        kept = entries.chosen(self._proposed, self._vectors, stored, least, said_at)
        refused = self._refused + Counter({Refusal.SIMILAR: len(self._proposed) - len(kept)})
        return EpisodicUpdate(
            entries=tuple(self._entry(c) for c in kept),
            version=near.version if near else None,
            refused=refused,
        )

    async def _known(self) -> Sequence[FoundEntry]:
        """Returns the stored entries that are like the user's words."""
        text = "\n".join(m.text.strip() for m in self._said if m.role is Role.USER)
        query = entry_search.entry_query(
            self._agent.name,
            self._settings,
            text or self._said[-1].text,
            self._runtime.clock.now(),
            top_k=entries.KNOWN,
        )
        asked = await entry_search.asked(query, self._embedder)
        self._spend("extractor/known", asked.embedded)
        return (await self._runtime.memory.find_entries(self._meta.owner, asked.query)).items

    async def _asked(self, known: Sequence[str]) -> tuple[str, str]:
        """The model's answer, "" where it failed, and the model's name."""
        runtime, settings = self._runtime, self._settings
        model = runtime.settings.extractor_model or runtime.settings.model
        profile = await self._profile()
        prompt = entries.request(model, self._said, profile, known, settings.instructions)
        try:
            reply = await runtime.model.complete(prompt)
        except LayoverError as error:
            extra = {"run_id": self._meta.id, "cause": type(error).__name__}
            logger.warning("no entries", extra=extra)
            return "", model
        self._usage.append(spent(runtime, self._meta, "extractor", reply))
        return reply.text, reply.model or model

    async def _profile(self) -> Any:
        if not self._agent.memory.profile:
            return None
        key = profile_key(self._agent.name)
        (note,) = await self._runtime.memory.read_notes(self._meta.owner, [key])
        return note.value

    async def _embedded(self, texts: Sequence[str]) -> list[Vector | None]:
        nothing: list[Vector | None] = [None] * len(texts)
        if self._embedder is None or not texts:
            return nothing
        try:
            embedded = await embed(self._embedder, texts)
        except Exception as error:
            extra = {"run_id": self._meta.id, "cause": type(error).__name__}
            logger.warning("entries kept without vectors", extra=extra)
            return nothing
        self._spend("extractor/embedding", embedded.answer)
        return list(embedded.vectors)

    async def _similar(self, least: float) -> SimilarEntries | None:
        places = [place for place, vector in enumerate(self._vectors) if vector is not None]
        if self._embedder is None or not places:
            return None
        found = await self._runtime.memory.similar_entries(
            self._meta.owner,
            self._agent.name,
            [v for v in self._vectors if v is not None],
            self._embedder.model,
            least,
        )
        items = tuple(s.model_copy(update={"place": places[s.place]}) for s in found.items)
        return found.model_copy(update={"items": items})

    def _entry(self, chosen: Chosen) -> NewEntry:
        candidate, meta = chosen.candidate, self._meta
        embedder = self._embedder.model if self._embedder and chosen.vector else None
        return NewEntry(
            id=ids.derived("ent", meta.id, candidate.hash),
            agent=self._agent.name,
            content=candidate.content,
            source=candidate.source,
            evidence=candidate.evidence,
            verified=candidate.verified,
            created_at=meta.input.created_at,
            thread_id=meta.thread_id,
            message_id=candidate.message_id,
            hash=candidate.hash,
            vector=chosen.vector,
            model=embedder,
            extractor=self._extractor,
            prompt_version=entries.PROMPT_VERSION,
            run_id=meta.id,
            supersedes=chosen.supersedes,
        )

    def _spend(self, task: str, embedded: Embedded | None) -> None:
        if embedded is not None:
            self._usage += embedding_spent(self._runtime, self._meta, task, embedded)


def trusts_tools(agent: Agent, snapshot: RunSnapshot) -> bool:
    """True if every tool that the run called is trusted (also: it called none)."""
    trusted = {t.name for t in agent.tools if t.trusted} | HARMLESS
    called = {p.tool_name for m in response_messages(snapshot) for p in m.tool_calls}
    return called <= trusted
