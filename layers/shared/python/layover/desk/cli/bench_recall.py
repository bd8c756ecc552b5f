"""`layover bench recall FILE`: how well, and how fast, the product finds the evidence for questions.

The file is loaded through the product's own stores into a separate Postgres: one thread a
conversation, each message following the previous one, indexed, searched and shown as a turn does it. Format:
`{"conversations": [{"id", "turns": [{"id", "session", "date", "speaker", "text"}],
"questions": [{"q", "evidence": [turn id], "category"}]}]}`."""

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.migrate import PostgresMigrations
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.context.tokens import estimate
from layover.declare.agent import Agent
from layover.declare.memory import Memory, SemanticRecall
from layover.desk.local.postgres import Postgres
from layover.plugins.memory.postgres.additions import MemoryAdditions
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.plugins.memory.reads.injection import choose_injection, recall_budget
from layover.plugins.memory.reads.semantic import query as recall
from layover.plugins.memory.reads.semantic.recall import select_recalled
from layover.plugins.memory.reads.semantic.rendering import recalled_block
from layover.plugins.models.embeddings.offline import OfflineEmbedder, weights_folder
from layover.ports import Embedder
from layover.values.deployment.settings import Settings
from layover.values.memory.context import Recalled, RecallQuery, TurnRecord
from layover.values.message import Message, Role, TextPart
from layover.values.runs.run import RunMeta, Status
from layover.values.thread import ThreadHead

AGENT = "bench"
DEPTHS = (5, 10, 20)
_OWNER = "bench"
_RECALL = SemanticRecall()
_AGENT = Agent(AGENT, memory=Memory(semantic_recall=_RECALL))
_SETTINGS = Settings()
_BATCH = 64
"""Messages saved, embedded and indexed together."""


class BenchFailed(Exception):
    """The file cannot be measured; the text says why."""


@dataclass
class Figures:
    """One entry for each question: shares of 0..1, seconds."""

    recall: dict[int, list[float]] = field(default_factory=lambda: {k: [] for k in DEPTHS})
    hit: list[float] = field(default_factory=list)
    reciprocal: list[float] = field(default_factory=list)
    injected_tokens: list[int] = field(default_factory=list)
    relevant_tokens: list[int] = field(default_factory=list)
    """Of the injected ones, those of messages that are evidence."""
    shown: list[float] = field(default_factory=list)
    """The share of the evidence that a prompt shows."""
    embedding_s: list[float] = field(default_factory=list)
    search_s: list[float] = field(default_factory=list)

    def add(self, evidence: Sequence[str], ranked: Sequence[str]) -> None:
        """Add a question's evidence and the found messages, best first."""
        evidence_ids = set(evidence)
        places = [n for n, id in enumerate(ranked) if id in evidence_ids]
        for depth, values in self.recall.items():
            values.append(sum(n < depth for n in places) / len(evidence_ids))
        self.hit.append(float(any(n < 5 for n in places)))
        self.reciprocal.append(1 / (1 + places[0]) if places else 0.0)

    def add_injection(self, evidence: Sequence[str], injected: Mapping[str, str]) -> None:
        """Add a question's evidence and the lines that a prompt would show, by message."""
        relevant = [line for id, line in injected.items() if id in evidence]
        self.injected_tokens.append(estimate(recalled_block(list(injected.values()))))
        self.relevant_tokens.append(sum(map(estimate, relevant)))
        self.shown.append(len(relevant) / len(set(evidence)))

    def lines(self) -> Iterator[str]:
        """Return the lines to print."""
        yield f"questions   {len(self.hit)}"
        for depth, values in self.recall.items():
            yield f"recall@{depth:<4} {100 * statistics.fmean(values):.1f}"
        yield f"hit@5       {100 * statistics.fmean(self.hit):.1f}"
        yield f"MRR         {statistics.fmean(self.reciprocal):.3f}"
        injected = self.injected_tokens
        yield f"injected    mean {statistics.fmean(injected):.0f} tokens, max {max(injected):,}"
        precision = sum(self.relevant_tokens) / max(sum(injected), 1)
        yield f"precision   {100 * precision:.1f} % of the injected tokens are evidence"
        yield f"in prompt   {100 * statistics.fmean(self.shown):.1f} % of the evidence"
        for name, values in (("embedding", self.embedding_s), ("search", self.search_s)):
            p50, p95 = _percentile(values, 50), _percentile(values, 95)
            yield f"{name:<11} p50 {1000 * p50:.1f} ms, p95 {1000 * p95:.1f} ms"


async def measure(
    conversations: Sequence[Mapping[str, Any]], embedder: Embedder | None = None
) -> Figures:
    """The figures of all questions. `embedder`: the offline one unless given."""
    figures = Figures()
    embedder = embedder or OfflineEmbedder()
    async with _stores() as (threads, memory):
        for conversation in conversations:
            bench = _Conversation(conversation, threads, memory, embedder)
            await bench.load()
            for question in bench.questions:
                await bench.ask(question, figures)
    return figures


def main(file: Path) -> list[str]:
    """The lines that the command prints. Raises BenchFailed and ConfigurationError."""
    conversations = _read(file)
    weights_folder()
    # Before numpy is imported, because two threads of its matrix products wait for each other on a busy
    # machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return list(asyncio.run(measure(conversations)).lines())


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        conversations = json.loads(file.read_text("utf-8"))["conversations"]
        fields = [
            (c["id"], c["turns"], [q["evidence"] for q in c["questions"]]) for c in conversations
        ]
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise BenchFailed(f"{file} holds no conversations with questions ({what})") from error
    if not any(any(evidence) for _, _, evidence in fields):
        raise BenchFailed(f"{file} has no question with evidence")
    return list(conversations)


@asynccontextmanager
async def _stores() -> AsyncIterator[tuple[PostgresThreads, PostgresMemory]]:
    with tempfile.TemporaryDirectory(prefix="layover-bench-") as folder:
        os.chmod(folder, 0o755)  # PostgreSQL runs as another user if we are root
        server = Postgres(Path(folder, "data"), Path(folder, "log"))
        await server.start()
        try:
            await PostgresMigrations(server.dsn("postgres")).apply()
            database = Database(server.dsn("layover_runtime"))
            yield PostgresThreads(database, MemoryAdditions()), PostgresMemory(database)
            await database.close()
        finally:
            await server.stop()


class _Conversation:
    def __init__(
        self,
        conversation: Mapping[str, Any],
        threads: PostgresThreads,
        memory: PostgresMemory,
        embedder: Embedder,
    ) -> None:
        self.questions: list[Mapping[str, Any]] = [
            q for q in conversation["questions"] if q["evidence"]
        ]
        self._threads = threads
        self._memory = memory
        self._embedder = embedder
        self._messages = list(_messages(conversation))
        self._id = str(conversation["id"])
        self._now = max(m.created_at for m in self._messages)

    async def load(self) -> None:
        """Save and index the turns."""
        for start in range(0, len(self._messages), _BATCH):
            batch = self._messages[start : start + _BATCH]
            await self._threads.save_turn(self._record(batch))
            texts = [recall.text_to_embed(m.text) for m in batch]
            vectors = (await self._embedder.embed(texts)).vectors
            rows = (recall.row_of(m, AGENT) for m in batch)
            model_field = {"model": self._embedder.model}
            await self._memory.index_messages(
                _OWNER,
                [
                    row.model_copy(update={**model_field, "vector": recall.usable(vector)})
                    for row, vector in zip(rows, vectors, strict=True)
                    if row is not None
                ],
            )

    async def ask(self, question: Mapping[str, Any], figures: Figures) -> None:
        """Ask as a turn does."""
        text = str(question["q"])
        start = time.perf_counter()
        words = recall.query_words(text)
        common = await self._memory.common_words(_OWNER, AGENT, self._id, words)
        vectors = (await self._embedder.embed(recall.vector_texts(text, common))).vectors
        embedded = time.perf_counter()
        query = RecallQuery(
            agent=AGENT,
            text=text,
            vector=recall.joint_vector([recall.usable(vector) for vector in vectors]),
            model=self._embedder.model,
            top_k=max(DEPTHS),
            before=_RECALL.before,
            after=_RECALL.after,
            thread_id=self._id,
            now=self._now,
        )
        recalled = await self._memory.recall(_OWNER, query)
        figures.embedding_s.append(embedded - start)
        figures.search_s.append(time.perf_counter() - embedded)
        evidence = [f"{self._id}/{id}" for id in question["evidence"]]
        matches = sorted((r for r in recalled if r.match), key=_score, reverse=True)
        figures.add(evidence, [r.message.id for r in matches])
        figures.add_injection(evidence, self._injection(text, recalled))

    def _injection(self, text: str, recalled: Sequence[Recalled]) -> dict[str, str]:
        """Return the lines that the prompt of such a turn shows, by message."""
        best = select_recalled(
            _AGENT, _SETTINGS, self._embedder.model, query=text, recalled=recalled, history=()
        )
        budget = recall_budget(_AGENT.memory, None)
        return choose_injection(best, (), text, budget, self._now).recalled

    def _record(self, batch: Sequence[Message]) -> TurnRecord:
        at = batch[0].created_at
        run = RunMeta(
            id=f"run of {batch[0].id}",
            owner=_OWNER,
            thread_id=self._id,
            agent=AGENT,
            status=Status.SUCCESS,
            input=batch[0],
            created_at=at,
            updated_at=at,
        )
        head = ThreadHead(id=self._id, owner=_OWNER, agent=AGENT, created_at=at, updated_at=at)
        return TurnRecord(head=head, run=run, input=batch[0], response=tuple(batch[1:]))


def _messages(conversation: Mapping[str, Any]) -> Iterator[Message]:
    """Each turn as a message that names its speaker, a minute after the previous one. The first speaker is
    the user."""
    before: Message | None = None
    turns = conversation["turns"]
    for turn in turns:
        at = datetime.fromisoformat(turn["date"]).replace(tzinfo=UTC)
        if before is not None:
            at = max(at, before.created_at + timedelta(minutes=1))
        is_user = turn["speaker"] == turns[0]["speaker"]
        before = Message(
            id=f"{conversation['id']}/{turn['id']}",
            thread_id=str(conversation["id"]),
            parent_id=before.id if before else None,
            role=Role.USER if is_user else Role.ASSISTANT,
            content=(TextPart(text=f"{turn['speaker']}: {turn['text']}"),),
            created_at=at,
        )
        yield before


def _score(match: Recalled) -> float:
    return match.score or 0.0


def _percentile(values: Sequence[float], percent: int) -> float:
    sorted_values = sorted(values)
    return (
        sorted_values[min(len(sorted_values) - 1, len(sorted_values) * percent // 100)]
        if sorted_values
        else 0.0
    )
