"""Extracts a turn's addition to episodic memory (docs/behaviour.md#episodic-extraction). It reads and asks;
`record` stores."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from layover import ids
from layover.context.transcript import response_messages
from layover.declare.agent import Agent
from layover.declare.memory import EpisodicMemory
from layover.plugins.memory.learns import rules as entries
from layover.plugins.memory.learns.joint import JOINT_VERSION, PartAnswer
from layover.plugins.memory.learns.lesson import Lesson
from layover.plugins.memory.learns.requests import Part, memory_model
from layover.plugins.memory.learns.rules import (
    Candidate,
    Refusal,
    Selection,
    Surroundings,
    ToolText,
)
from layover.plugins.memory.learns.text.reading import cut, render_value
from layover.plugins.memory.learns.zones import time_of_user
from layover.plugins.memory.reads.episodic import search as entry_search
from layover.plugins.memory.reads.episodic.around_turns import episodic_embedder
from layover.plugins.memory.reads.semantic.embedding import embed
from layover.plugins.memory.usage import embedding_usage
from layover.runtime import Runtime
from layover.values.memory.context import StepUsage
from layover.values.memory.entry import FoundEntry, KnownEntries, NewEntry
from layover.values.message import DataPart, FilePart, Role, ToolResultPart
from layover.values.metrics import Metric
from layover.values.note import profile_key
from layover.values.prompt import Embedded
from layover.values.runs.run import MESSAGES_TOOL, RunSnapshot

HARMLESS = frozenset({"plan", "update_working_memory"})
"""Memory's own tools, from whose results nothing is learned. `recall_memory` is not among them: its results
may be unverified, and would come back as verified."""
_NO_NEWS = HARMLESS | {"recall_memory", MESSAGES_TOOL}
"""Tools from whose results an assistant finds out nothing that memory does not have."""
_MAX_RESULT, _MAX_RESULTS = 1_000, 3_000
"""Characters of a trusted tool's result that the extractor reads, and of all of them."""
Vector = tuple[float, ...]
logger = logging.getLogger("layover")


@dataclass(frozen=True)
class EpisodicUpdate:
    """A run's additions to the stored entries, and the refusals counted by reason. `version`: the version of
    the KnownEntries that it was compared with; None: it was compared with none."""

    entries: tuple[NewEntry, ...] = ()
    version: int | None = None
    refusals: Mapping[Refusal, int] = field(default_factory=dict)


def entry_lesson(runtime: Runtime, agent: Agent, lesson: Lesson) -> "EpisodicExtraction | None":
    """Return the extraction of the turn's entries, if the agent has episodic memory and the turn may teach
    something. If the model fails, this turn has no entries; if the embedder fails, they have no vectors."""
    settings = agent.memory.episodic
    if settings is None or not settings.per_turn or not lesson.dialogue:
        return None
    if _teaches_nothing(lesson, settings):
        return None
    return EpisodicExtraction(runtime, agent, settings, lesson)


def count_update(runtime: Runtime, agent: str, update: EpisodicUpdate) -> None:
    """Count the entries stored and refused, without their text."""
    if update.entries:
        runtime.metrics.count(Metric.ENTRIES_STORED, len(update.entries), agent=agent)
    for reason, number in update.refusals.items():
        runtime.metrics.count(Metric.ENTRIES_REFUSED, number, agent=agent, reason=reason.value)


class EpisodicExtraction:
    """One run's extraction: what is asked, and what becomes of the answer. Its proposals
    are compared with the entries that they name again whenever the stored ones change."""

    def __init__(
        self,
        runtime: Runtime,
        agent: Agent,
        settings: EpisodicMemory,
        lesson: Lesson,
    ) -> None:
        self._runtime = runtime
        self._agent = agent
        self._settings = settings
        self._lesson = lesson
        self._snapshot = lesson.snapshot
        self._meta = lesson.snapshot.meta
        self._dialogue = lesson.dialogue
        self._embedder = episodic_embedder(runtime, agent, lesson.snapshot.meta)
        self._usage: list[StepUsage] = []
        self._refusals: Counter[Refusal] = Counter()
        self._known: Sequence[FoundEntry] = ()
        self._candidates: Sequence[Candidate] = ()
        self._vectors: dict[str, Vector | None] = {}
        self._around = Surroundings()
        self._extractor = ""
        self._version = entries.PROMPT_VERSION

    @property
    def usage(self) -> tuple[StepUsage, ...]:
        """The cost of the extraction."""
        return tuple(self._usage)

    async def part(self) -> Part:
        """Return what is asked of the turn. Raises RetryableError (the database)."""
        runtime, settings = self._runtime, self._settings
        self._known = await self._find_known_entries()
        profile = await self._profile()
        self._around = Surroundings(
            now=time_of_user(self._snapshot, profile),
            before=self._lesson.before,
            results=tuple(trusted_results(self._agent, self._snapshot)),
        )
        return entries.part(
            memory_model(runtime, self._agent, runtime.settings.extractor_model),
            self._dialogue,
            profile,
            [e.content for e in self._known],
            settings,
            self._around,
        )

    async def read(self, answer: PartAnswer) -> None:
        """Check the model's answer, and embed what it may add."""
        joint = f"{JOINT_VERSION}/" if answer.is_joint else ""
        self._extractor, self._version = answer.model, f"{joint}{entries.PROMPT_VERSION}"
        check = entries.check_entries(
            answer.text,
            self._dialogue,
            self._settings,
            trusted=trusts_tools(self._agent, self._snapshot),
            finds_out=finds_out(self._snapshot),
            around=self._around,
        )
        self._refusals = Counter(check.refusals)
        entries_by_hash = {entries.hash_of(e.content): e for e in self._known}

        def is_news(candidate: Candidate) -> bool:
            """Return whether the candidate is not stored yet, or is stored unverified and now verified."""
            same = entries_by_hash.get(candidate.hash)
            return same is None or (candidate.verified and not same.verified)

        self._candidates = new = [c for c in check.candidates if is_news(c)]
        self._refusals[Refusal.REPEATED] += len(check.candidates) - len(new)
        vectors = await self._embed([c.content for c in new])
        self._vectors = {c.hash: vector for c, vector in zip(new, vectors, strict=True)}

    async def update(self) -> EpisodicUpdate:
        """Return the entries that the store does not have yet, by what the extractor says of the ones that it
        was shown. Raises RetryableError."""
        numbers = {n for c in self._candidates for n in (*c.replaces, *c.same)}
        ids = [e.id for number, e in enumerate(self._known, 1) if number in numbers]
        standing = KnownEntries()
        if ids:
            store, owner = self._runtime.memory, self._meta.owner
            standing = await store.known_entries(owner, self._agent.name, ids)
        selections = entries.select(
            self._candidates,
            self._known,
            {e.id: e for e in standing.items},
            self._meta.input.created_at,
        )
        repeated = len(self._candidates) - len(selections)
        return EpisodicUpdate(
            entries=tuple(self._entry(c) for c in selections),
            version=standing.version if ids else None,
            refusals=self._refusals + Counter({Refusal.SIMILAR: repeated}),
        )

    async def _find_known_entries(self) -> Sequence[FoundEntry]:
        """Return the stored entries that are like the user's words: the extractor is shown them."""
        text = "\n".join(m.text.strip() for m in self._dialogue if m.role is Role.USER)
        query = entry_search.entry_query(
            self._agent.name,
            self._settings,
            text or self._dialogue[-1].text,
            self._runtime.clock.now(),
            top_k=entries.MAX_KNOWN,
        )
        search = await entry_search.embed_query(query, self._embedder)
        self._spend("extractor/known", search.embedding)
        return (await self._runtime.memory.find_entries(self._meta.owner, search.query)).items

    async def _profile(self) -> Any:
        if not self._agent.memory.profile:
            return None
        key = profile_key(self._agent.name)
        (note,) = await self._runtime.memory.read_notes(self._meta.owner, [key])
        return note.value

    async def _embed(self, texts: Sequence[str]) -> list[Vector | None]:
        nothing: list[Vector | None] = [None] * len(texts)
        if self._embedder is None or not texts:
            return nothing
        try:
            embedding = await embed(self._embedder, texts)
        except Exception as error:
            extra = {"run_id": self._meta.id, "cause": type(error).__name__}
            logger.warning("entries kept without vectors", extra=extra)
            return nothing
        self._spend("extractor/embedding", embedding.answer)
        return list(embedding.vectors)

    def _entry(self, selection: Selection) -> NewEntry:
        candidate, meta = selection.candidate, self._meta
        vector = self._vectors.get(candidate.hash)
        embedder = self._embedder.model if self._embedder and vector else None
        return NewEntry(
            id=ids.derive_id("ent", meta.id, candidate.hash),
            agent=self._agent.name,
            content=candidate.content,
            source=candidate.source,
            evidence=entries.stored_evidence(candidate),
            verified=candidate.verified,
            created_at=meta.input.created_at,
            thread_id=meta.thread_id,
            message_id=candidate.message_id,
            hash=candidate.hash,
            vector=vector,
            model=embedder,
            extractor=self._extractor,
            prompt_version=self._version,
            run_id=meta.id,
            supersedes=selection.supersedes,
        )

    def _spend(self, task: str, embedding: Embedded | None) -> None:
        if embedding is not None:
            self._usage += embedding_usage(self._runtime, self._meta, task, embedding)


def trusts_tools(agent: Agent, snapshot: RunSnapshot) -> bool:
    """Return whether all that the run read is trusted: every tool that it called (also if it called none), no
    file, and no tool of the provider's."""
    trusted_names = {t.name for t in agent.tools if t.trusted} | HARMLESS
    return _called_names(snapshot) <= trusted_names and not _reads_more(snapshot)


def trusted_results(agent: Agent, snapshot: RunSnapshot) -> Iterator[ToolText]:
    """Yield what trusted tools returned in the run, the newest first, as long as there is room."""
    names = {t.name for t in agent.tools if t.trusted} - _NO_NEWS
    room = _MAX_RESULTS
    for message in reversed(response_messages(snapshot)):
        for part in message.content:
            if not isinstance(part, ToolResultPart) or part.is_error or part.tool_name not in names:
                continue
            output = part.result if message.model_output is None else message.model_output
            text = cut(render_value(output), _MAX_RESULT)
            room -= len(text)
            if room < 0:
                return
            if text.strip():
                yield ToolText(message, part.tool_call_id, part.tool_name, text)


def finds_out(snapshot: RunSnapshot) -> bool:
    """Return whether the run read anything from which the assistant may have found out something. Without it,
    its words are guesses, advice, or what the user has said."""
    results = (p for m in response_messages(snapshot) for p in m.content)
    has_result = any(
        isinstance(p, ToolResultPart) and not p.is_error and p.tool_name not in _NO_NEWS
        for p in results
    )
    return has_result or _reads_more(snapshot)


def _teaches_nothing(lesson: Lesson, settings: EpisodicMemory) -> bool:
    """Return whether a turn has no words that could be evidence: its user says nothing of their own, and its
    assistant found out nothing. An author's own instructions may ask for anything."""
    if settings.instructions or settings.assistant_evidence == "trust":
        return False
    return lesson.teaches_nothing and not finds_out(lesson.snapshot)


def _called_names(snapshot: RunSnapshot) -> set[str]:
    return {p.tool_name for m in response_messages(snapshot) for p in m.tool_calls}


def _reads_more(snapshot: RunSnapshot) -> bool:
    """Return whether the run read a file of the user's, or results of tools that its provider runs."""
    if any(isinstance(p, FilePart) for p in snapshot.meta.input.content):
        return True
    answers = (m for m in response_messages(snapshot) if m.role is Role.ASSISTANT)
    return any(isinstance(p, DataPart) for m in answers for p in m.content)
