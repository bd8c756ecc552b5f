"""Episodic memory in memory, ranked as `sql/entries.sql` ranks."""

from collections.abc import Iterator, Sequence

from layover.errors import Conflict
from layover.inmemory.stores.tables import StoredEntry, StoredThread, Tables
from layover.plugins.memory import ranking
from layover.plugins.memory.ranking import Candidate, Scores
from layover.plugins.memory.reads.episodic.search import entry_words
from layover.plugins.memory.text.index_words import index_words
from layover.values.memory.context import IndexedText
from layover.values.memory.entry import (
    EntryCorrection,
    EntryPlace,
    EntryQuery,
    FoundEntries,
    FoundEntry,
    KnownEntries,
    NewEntry,
    StaleEntry,
)
from layover.values.message import Message


class InMemoryEntries:
    """`ports.EntryStore`, over the threads that the entries come from."""

    def __init__(self, threads: Tables) -> None:
        self._tables = threads

    async def find_entries(self, owner: str, query: EntryQuery) -> FoundEntries:
        """Return the best entries by words and by vector; one with neither signal is left out."""
        return found_entries(self._tables, owner, query)

    async def known_entries(self, owner: str, agent: str, ids: Sequence[str]) -> KnownEntries:
        """Return those of these entries that are retrieved, as they stand by now, by id."""
        rows = [s for s in _newest(self._tables, owner, agent) if s.entry.id in ids]
        items = sorted((_found_entry(s.entry) for s in rows), key=lambda e: e.id)
        version = self._tables.shelf.entries_version(owner, agent)
        return KnownEntries(items=tuple(items), version=version)

    async def list_entries(
        self,
        owner: str,
        agent: str,
        limit: int,
        after: EntryPlace | None,
        *,
        superseded: bool = False,
    ) -> tuple[FoundEntry, ...]:
        """Return entries newest first, from behind that place."""
        rows = _newest(self._tables, owner, agent, superseded=superseded)
        if after is not None:
            place = (after.created_at, after.id)
            rows = [s for s in rows if (s.entry.created_at, s.entry.id) < place]
        return tuple(
            _found_entry(s.entry).model_copy(update={"superseded_by": s.superseded_by})
            for s in rows[:limit]
        )

    async def import_entry(self, owner: str, entry: NewEntry) -> tuple[FoundEntry, bool]:
        """Store an entry that no thread taught. Return what is stored, and whether this call stored it."""
        known_version = self._tables.shelf.entries_version(owner, entry.agent)
        store_entries(self._tables, owner, [entry])
        (_, stored), *_ = _equal(self._tables, owner, entry)
        is_new = self._tables.shelf.entries_version(owner, entry.agent) != known_version
        update = {"superseded_by": stored.superseded_by}
        return _found_entry(stored.entry).model_copy(update=update), is_new

    async def correct_entry(self, owner: str, correction: EntryCorrection) -> FoundEntry | None:
        """Give an entry that is retrieved other words, without a vector."""
        for thread in self._tables.places_of_entries(owner):
            old = thread.entries.get(correction.id)
            if old is None or old.superseded_by is not None:
                continue
            words_and_evidence = {"content": correction.content, "evidence": correction.content}
            by = {"source": "user_assertion", "verified": True, "created_at": correction.at}
            unknown = dict.fromkeys(
                ("message_id", "run_id", "extractor", "prompt_version", "vector", "model")
            )
            entry = old.entry.model_copy(
                update={**words_and_evidence, **by, **unknown, "hash": correction.hash}
            )
            same = _same(self._tables, owner, entry)
            if same is not None and same[1].entry.id != entry.id:
                raise Conflict("the same entry is remembered already")
            thread.entries[entry.id] = StoredEntry(entry, frozenset(index_words(entry.content)))
            self._tables.shelf.count_entry(owner, entry.agent)
            return _found_entry(entry)
        return None

    async def restore_entry(self, owner: str, id: str) -> FoundEntry | None:
        """Let a superseded entry stand again, with the one that took its place."""
        stored = dict(_all(self._tables.places_of_entries(owner))).get(id)
        if stored is None:
            return None
        if stored.superseded_by is not None:
            stored.superseded_by = None
            self._tables.shelf.count_entry(owner, stored.entry.agent)
        return _found_entry(stored.entry)

    async def delete_entry(self, owner: str, id: str) -> bool:
        """Forget an entry, and those that it superseded."""
        threads = self._tables.places_of_entries(owner)
        ids, exists = {id}, any(id in t.entries for t in threads)
        while more := {i for i, s in _all(threads) if s.superseded_by in ids} - ids:
            ids |= more
        for thread in threads:
            thread.entries = {i: s for i, s in thread.entries.items() if i not in ids}
        return exists

    async def stale_entries(
        self,
        owner: str,
        agent: str,
        model: str,
        dimensions: int | None,
        after_id: str,
        limit: int,
    ) -> tuple[StaleEntry, ...]:
        """Return entries of an agent without a vector of this model, by id."""
        stale = [
            StaleEntry(id=s.entry.id, content=s.entry.content)
            for s in _newest(self._tables, owner, agent)
            if s.entry.id > after_id and _is_stale(s.entry, model, dimensions)
        ]
        return tuple(sorted(stale, key=lambda e: e.id)[:limit])

    async def put_entry_vectors(
        self, owner: str, model: str, vectors: Sequence[tuple[str, tuple[float, ...]]]
    ) -> None:
        """Store these vectors, each with an entry's id."""
        vectors_by_id = dict(vectors)
        for id, entry in _all(self._tables.places_of_entries(owner)):
            if id in vectors_by_id:
                update = {"vector": vectors_by_id[id], "model": model}
                entry.entry = entry.entry.model_copy(update=update)

    async def stale_messages(
        self,
        owner: str,
        agent: str,
        model: str,
        dimensions: int | None,
        after_id: str,
        limit: int,
    ) -> tuple[Message, ...]:
        """Return messages that recall searches without a vector of this model, by id."""
        stale = [
            thread.messages[id]
            for thread in self._tables.of(owner)
            for id, row in thread.texts.items()
            if row.text.agent == agent and id > after_id and _is_stale(row.text, model, dimensions)
        ]
        return tuple(sorted(stale, key=lambda m: m.id)[:limit])


def store_entries(threads: Tables, owner: str, entries: Sequence[NewEntry]) -> None:
    """Store the new entries. An entry that is remembered already stays as it is, unless a user vouches for it
    only now. A superseded entry that is said again, later than the one that superseded it, holds again."""
    for entry in entries:
        same = _same(threads, owner, entry)
        if same is not None:
            where, old = same
            if not _takes_over(threads, owner, entry, old):
                continue
            del where.entries[old.entry.id]
            entry = entry.model_copy(update={"id": old.entry.id})
        thread = threads.place_of_entry(owner, entry.thread_id)
        if thread is None:
            continue
        for _, other in _all(threads.places_of_entries(owner)):
            contradicted = other.entry.id in entry.supersedes and other.entry.agent == entry.agent
            if contradicted and other.superseded_by is None:
                other.superseded_by = entry.id
        text = f"{entry.content} {entry.evidence}"
        thread.entries[entry.id] = StoredEntry(entry, frozenset(index_words(text)))
        threads.shelf.count_entry(owner, entry.agent)


def _takes_over(threads: Tables, owner: str, entry: NewEntry, old: StoredEntry) -> bool:
    if old.superseded_by is None:
        return entry.verified and not old.entry.verified
    over = dict(_all(threads.places_of_entries(owner))).get(old.superseded_by)
    return over is None or over.entry.created_at <= entry.created_at


def free_superseded(threads: Tables, owner: str, deleted_entries: dict[str, StoredEntry]) -> None:
    """Restores the entries that these superseded, or hands them to the entry that superseded these."""
    for _, entry in _all(threads.places_of_entries(owner)):
        while entry.superseded_by in deleted_entries:
            entry.superseded_by = deleted_entries[entry.superseded_by].superseded_by


def found_entries(threads: Tables, owner: str, query: EntryQuery) -> FoundEntries:
    """The best entries of the scope."""
    scope = [
        s
        for s in _newest(threads, owner, query.agent)
        if query.not_thread is None or s.entry.thread_id != query.not_thread
    ][: ranking.MAX_ROWS + 1]
    cosines = [_cosine(s, query.vector, query.model) for s in scope]
    candidates = [Candidate(s.words, c) for s, c in zip(scope, cosines, strict=True)]
    scores = ranking.fuse(entry_words(query.text), candidates)
    best = [
        _score(s.entry, score, cosine, query)
        for s, score, cosine in zip(scope, scores, cosines, strict=True)
        if score.lexical > 0 or (cosine is not None and cosine >= query.least_cosine)
    ]
    best.sort(key=lambda e: (-(e.score or 0.0), query.now - e.created_at, e.id))
    items = tuple(best[query.skip : query.skip + query.top_k])
    return FoundEntries(items=items, cut=len(scope) > ranking.MAX_ROWS)


def _all(threads: Sequence[StoredThread]) -> Iterator[tuple[str, StoredEntry]]:
    return ((id, entry) for thread in threads for id, entry in list(thread.entries.items()))


def _newest(
    threads: Tables, owner: str, agent: str, *, superseded: bool = False
) -> list[StoredEntry]:
    entries = [s for _, s in _all(threads.places_of_entries(owner)) if s.entry.agent == agent]
    listed = [s for s in entries if superseded or s.superseded_by is None]
    return sorted(listed, key=lambda s: (s.entry.created_at, s.entry.id), reverse=True)


def _same(threads: Tables, owner: str, entry: NewEntry) -> tuple[StoredThread, StoredEntry] | None:
    return next(_equal(threads, owner, entry), None)


def _equal(
    threads: Tables, owner: str, entry: NewEntry
) -> Iterator[tuple[StoredThread, StoredEntry]]:
    """Yield what is stored with these words, and its place: once at most."""
    for thread in threads.places_of_entries(owner):
        for s in thread.entries.values():
            if (s.entry.agent, s.entry.hash) == (entry.agent, entry.hash):
                yield thread, s


def _cosine(row: StoredEntry, vector: Sequence[float] | None, model: str | None) -> float | None:
    entry = row.entry
    if vector is None or entry.vector is None or entry.model != model:
        return None
    return ranking.cosine(entry.vector, vector)


def _is_stale(row: NewEntry | IndexedText, model: str, dimensions: int | None) -> bool:
    if row.vector is None or row.model != model:
        return True
    return dimensions is not None and len(row.vector) != dimensions


def _score(entry: NewEntry, score: Scores, cosine: float | None, query: EntryQuery) -> FoundEntry:
    bonus = ranking.recency(query.now - entry.created_at, query.half_life)
    return _found_entry(
        entry, score=score.own + bonus, text_score=score.lexical, vector_score=cosine
    )


def _found_entry(entry: NewEntry, **scores: float | None) -> FoundEntry:
    return FoundEntry.model_validate({**entry.model_dump(), **scores})
