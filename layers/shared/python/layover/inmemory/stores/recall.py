"""Semantic recall in memory, ranked as `sql/recall.sql` ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layover.inmemory.stores.tables import IndexedRow, StoredThread, Tables
from layover.plugins.memory import ranking
from layover.plugins.memory.ranking import Candidate, Scores
from layover.plugins.memory.reads.semantic.query import query_words
from layover.plugins.memory.text.index_words import alternatives, has_term, index_words, name_words
from layover.values.memory.context import (
    IndexedText,
    Recalled,
    RecallQuery,
    StepUsage,
    TurnQuery,
)
from layover.values.message import Message


@dataclass(frozen=True)
class _Row:
    """One row of the scope, in the order of the conversation."""

    message: Message
    index_row: IndexedRow


@dataclass(frozen=True)
class _Match:
    place: int
    score: float
    fused: Scores
    cosine: float | None


class InMemoryRecall:
    """`ports.RecallStore`, over the threads that it searches."""

    def __init__(self, threads: Tables) -> None:
        self._tables = threads

    async def index_messages(
        self,
        owner: str,
        rows: Sequence[IndexedText],
        run_id: str = "",
        usage: Sequence[StepUsage] = (),
    ) -> None:
        """Store texts for recall, with their vectors if they have one, and the usage of these."""
        if rows and self._tables.find(owner, rows[0].thread_id) is not None:
            self._tables.spend(owner, run_id, usage, "background")
        index_texts(self._tables, owner, rows)

    async def common_words(
        self, owner: str, agent: str, thread_id: str | None, words: Sequence[str]
    ) -> frozenset[str]:
        """Return those that more than a quarter of the texts of the scope have."""
        threads = _threads(self._tables, owner, agent, thread_id)
        texts = [row.words for thread in threads for row in thread.texts.values()]
        counts = {word: sum(has_term(text, word) for text in texts) for word in words}
        return frozenset(w for w, n in counts.items() if n > 5 and n * 4 > len(texts))

    async def recall(self, owner: str, query: RecallQuery) -> tuple[Recalled, ...]:
        """Return the best matches with their neighbours, in the order of the conversation."""
        return recall_in(self._tables, owner, query)


def index_texts(threads: Tables, owner: str, rows: Sequence[IndexedText]) -> None:
    """Store texts, with their vectors if they have one. A message that is gone is left out."""
    for row in rows:
        thread = threads.find(owner, row.thread_id)
        if thread is None or row.message_id not in thread.messages:
            continue
        if thread.messages[row.message_id].refused:
            continue
        if row.vector is not None or row.message_id not in thread.texts:
            indexed = IndexedRow(
                row, frozenset(index_words(row.text)), frozenset(name_words(row.speaker or ""))
            )
            thread.texts[row.message_id] = indexed


def recall_in(
    threads: Tables,
    owner: str,
    query: RecallQuery,
    turn: TurnQuery | None = None,
    shown_from: int = 0,
) -> tuple[Recalled, ...]:
    """Return the matches of recall; in a turn, those on the path of its input before `shown_from`."""
    scope: list[list[_Row]] = []
    newest = set(_texts(threads, owner, query)[: query.most_rows or ranking.MAX_ROWS])
    for thread in _threads(threads, owner, query.agent, query.thread_id):
        if turn is not None and thread.head.id == turn.head.id:
            path = thread.path(turn.input.id)[:shown_from]
        else:
            leaf = thread.leaf()
            path = thread.path(leaf.id) if leaf else []
        rows = [
            _Row(m, thread.texts[m.id]) for m in path if m.id in thread.texts and m.id in newest
        ]
        scope.append(rows)
    groups = [group for group in _groups(scope, query) if group]
    groups.sort(key=lambda group: (group[0].message.created_at, group[0].message.thread_id))
    return tuple(r for group in groups for r in group)


def is_cut(threads: Tables, owner: str, query: RecallQuery) -> bool:
    """True if the scope has more texts than a search reads."""
    return len(_texts(threads, owner, query)) > (query.most_rows or ranking.MAX_ROWS)


def _texts(threads: Tables, owner: str, query: RecallQuery) -> list[str]:
    """Ids of all that is indexed of the scope, newest first."""
    threads_in_scope = _threads(threads, owner, query.agent, query.thread_id)
    times = {
        id: t.messages[id].created_at
        for t in threads_in_scope
        for id in t.texts
        if id in t.messages
    }
    return sorted(times, key=times.__getitem__, reverse=True)


def _threads(threads: Tables, owner: str, agent: str, thread_id: str | None) -> list[StoredThread]:
    return [
        t
        for t in threads.of(owner)
        if t.head.agent == agent and (thread_id is None or t.head.id == thread_id)
    ]


def _groups(scope: list[list[_Row]], query: RecallQuery) -> Iterator[list[Recalled]]:
    """Yield the matches and their neighbours, thread by thread."""
    rows = [row for thread in scope for row in thread]
    matches = {m.place: m for m in _matches(scope, rows, query)}
    start = 0
    for thread in scope:
        places = range(start, start + len(thread))
        yield [
            _result(rows[place].message, matches.get(place), place)
            for place in places
            if any(
                n in matches and n in places
                for n in range(place - query.after, place + query.before + 1)
            )
        ]
        start += len(thread)


def _result(message: Message, match: _Match | None, place: int) -> Recalled:
    if match is None:
        return Recalled(message=message, match=False, place=place)
    return Recalled(
        message=message,
        match=True,
        score=match.score,
        text_score=match.fused.lexical,
        vector_score=match.cosine,
        place=place,
    )


def _matches(scope: list[list[_Row]], rows: list[_Row], query: RecallQuery) -> list[_Match]:
    words = query_words(query.text)
    cosines = [_cosine(row.index_row.text, query) for row in rows]
    candidates = [Candidate(r.index_row.words, c) for r, c in zip(rows, cosines, strict=True)]
    scores = ranking.fuse(words, candidates)
    matches: list[_Match] = []
    start = 0
    for thread in scope:
        own = [f.own for f in scores[start : start + len(thread)]]
        bonuses = ranking.session_bonuses(own, [row.message.created_at for row in thread])
        for place, (row, signal, bonus) in enumerate(
            zip(thread, ranking.flow(own), bonuses, strict=True), start
        ):
            if signal > 0:
                score = signal + bonus + _bonus(row, words, query)
                matches.append(_Match(place, score, scores[place], cosines[place]))
        start += len(thread)
    matches.sort(key=lambda m: (-m.score, query.now - rows[m.place].message.created_at))
    return matches[: query.top_k]


def _bonus(row: _Row, words: list[str], query: RecallQuery) -> float:
    speaker_bonus = ranking.SPEAKER_WEIGHT if row.index_row.speaker & alternatives(words) else 0.0
    return speaker_bonus + ranking.recency(query.now - row.message.created_at)


def _cosine(text: IndexedText, query: RecallQuery) -> float | None:
    if text.vector is None or query.vector is None or text.model != query.model:
        return None
    return ranking.cosine(text.vector, query.vector)
