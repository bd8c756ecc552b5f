"""Semantic recall on Postgres."""

import json
from collections.abc import Sequence

from layover.adapters.store.postgres.codec import dump_json, rows_of, with_output
from layover.adapters.store.postgres.database import Database, Row
from layover.adapters.store.postgres.queries import Statement, load
from layover.adapters.store.postgres.usage import insert_usage
from layover.plugins.memory import ranking
from layover.plugins.memory.reads.semantic.query import query_words
from layover.plugins.memory.text.index_words import index_words, name_words
from layover.values.memory.context import (
    IndexedText,
    Recalled,
    RecallQuery,
    StepUsage,
    TurnQuery,
)

_MATCHES = rows_of(Recalled)
_BEHIND_ALL = 2**31 - 1


def index_messages(rows: Sequence[IndexedText]) -> Statement:
    """Keep texts for recall."""
    return load("recall.sql")["index_messages"](rows=dump_json([_row(r) for r in rows]))


def common_words(agent: str, scope_thread: str | None, candidates: Sequence[str]) -> Statement:
    """Return the candidates that are common in the scope."""
    return load("recall.sql")["common_words"](
        agent=agent, scope_thread=scope_thread, words=dump_json(list(candidates))
    )


def recall(query: RecallQuery, turn: TurnQuery | None = None) -> Statement:
    """The best matches; in a turn, without what its window shows."""
    vector = query.vector or ()
    return load("recall.sql")["recall"](
        agent=query.agent,
        words=dump_json(query_words(query.text)),
        vector=halfvec(vector) if vector else None,
        dimensions=len(vector),
        model=query.model,
        top_k=query.top_k,
        before=query.before,
        after=query.after,
        scope_thread=query.thread_id,
        now=query.now.isoformat(),
        thread_id=turn.head.id if turn else None,
        input_id=turn.input.id if turn else None,
        pinned=_shown_from(query, turn) if turn else None,
        most_rows=query.most_rows or ranking.MAX_ROWS,
        whole_rows=ranking.WHOLE_ROWS if query.whole_rows is None else query.whole_rows,
        candidates=ranking.CANDIDATES,
        sample_rows=ranking.SAMPLE_ROWS,
        lexical_weight=str(ranking.LEXICAL_WEIGHT),
        vector_weight=str(ranking.VECTOR_WEIGHT),
        previous_weight=str(ranking.PREVIOUS_WEIGHTS[0]),
        second_previous_weight=str(ranking.PREVIOUS_WEIGHTS[1]),
        next_weight=str(ranking.NEXT_WEIGHTS[0]),
        second_next_weight=str(ranking.NEXT_WEIGHTS[1]),
        session_weight=str(ranking.SESSION_WEIGHT),
        session_gap=f"{ranking.SESSION_GAP.total_seconds()} seconds",
        speaker_weight=str(ranking.SPEAKER_WEIGHT),
        recency_weight=str(ranking.RECENCY_WEIGHT),
        half_life_s=str(ranking.HALF_LIFE.total_seconds()),
    )


def was_cut(rows: list[Row]) -> bool:
    """True if the scope of a `recall` has more rows than it searched."""
    return rows[0][1] == b"t"


def recalled_of(rows: list[Row]) -> tuple[Recalled, ...]:
    """The answer of `recall`."""
    matches = _MATCHES.validate_json(rows[0][0] or b"[]")
    return tuple(m.model_copy(update={"message": with_output(m.message)}) for m in matches)


class PostgresRecall:
    """`ports.RecallStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def index_messages(
        self,
        owner: str,
        rows: Sequence[IndexedText],
        run_id: str = "",
        usage: Sequence[StepUsage] = (),
    ) -> None:
        """Store texts for recall, with their vectors if they have one, and the usage of these."""
        if rows:
            usage_rows = insert_usage(rows[0].thread_id, run_id, usage)
            await self._database.run(owner, index_messages(rows), *usage_rows)

    async def common_words(
        self, owner: str, agent: str, thread_id: str | None, words: Sequence[str]
    ) -> frozenset[str]:
        """Return those that more than a quarter of the newest texts of the scope have."""
        (rows,) = await self._database.run(owner, common_words(agent, thread_id, words))
        return frozenset(word.decode() for (word,) in rows if word)

    async def recall(self, owner: str, query: RecallQuery) -> tuple[Recalled, ...]:
        """Return the best matches with their neighbours, in the order of the conversation."""
        (rows,) = await self._database.run(owner, recall(query))
        return recalled_of(rows)


def _shown_from(query: RecallQuery, turn: TurnQuery) -> int | None:
    """Depth where the window begins, None if the branch has it."""
    if query.whole_path:
        return _BEHIND_ALL
    return None if turn.compaction is not None else turn.pinned_depth


def _row(row: IndexedText) -> dict[str, object]:
    return {
        "thread_id": row.thread_id,
        "message_id": row.message_id,
        "agent": row.agent,
        "speaker": name_words(row.speaker or ""),
        "words": index_words(row.text),
        "model": row.model,
        "embedding": halfvec(row.vector) if row.vector else None,
    }


def halfvec(vector: Sequence[float]) -> str:
    """Return the vector as text. Half a float has three digits."""
    return json.dumps([float(f"{x:.5g}") for x in vector])
