"""Entries as their owner sees them: lists, searches, corrections."""

import logging
from collections.abc import Sequence

from layover.clock import from_rfc3339, rfc3339
from layover.context.hooked import hooked_embedder
from layover.declare.memory import EpisodicMemory
from layover.errors import InvalidRequest, NotFound, UnknownAgent
from layover.plugins.memory.learns.rules import hash_of
from layover.plugins.memory.learns.text.evidence import normalise
from layover.plugins.memory.learns.text.redaction import redact
from layover.plugins.memory.reads.episodic import search as entry_search
from layover.plugins.memory.reads.episodic.around_turns import episodic_embedder
from layover.plugins.memory.reads.semantic.embedding import embed
from layover.plugins.memory.usage import meter
from layover.ports import Embedder
from layover.runtime import Runtime
from layover.values.base import Time, Value
from layover.values.cursor import bad_cursor, decode_cursor, encode_cursor
from layover.values.memory.entry import EntryCorrection, EntryPlace, FoundEntry, Source
from layover.values.page import Page
from layover.values.text import sanitise

_MAX_SKIP = 10_000
"""The most results of a search that a list may skip, since every page is ranked again."""
MAX_CORRECTION = 2_000
"""Characters of an entry that its owner corrects."""
_LIST = "entries"
_SEARCH = "found-entries"
logger = logging.getLogger("layover")


class Entry(Value):
    """An entry as its owner sees it. The scores are null without a query. `said_at`: the time of the turn
    that says it, of its correction, or that an import gives; `superseded_by`: the entry that took its place;
    `thread_id`: null of an imported entry."""

    id: str
    agent: str
    content: str
    source: Source
    evidence: str
    verified: bool
    created_at: Time
    said_at: Time
    thread_id: str | None
    message_id: str | None
    superseded_by: str | None = None
    score: float | None = None
    text_score: float | None = None
    vector_score: float | None = None


async def list_entries(
    runtime: Runtime,
    owner: str,
    agent: str,
    query: str | None,
    limit: int,
    cursor: str | None,
    *,
    superseded: bool = False,
) -> Page[Entry]:
    """Return an agent's entries about its user: newest first, or the best for a query. `superseded`: the list
    has also those that another entry superseded; a search never finds them. Raises UnknownAgent if no such
    agent has ever existed, and InvalidRequest for a cursor of another list, or `superseded` with a query."""
    text = (query or "").strip()
    if text and superseded:
        error = {"loc": ["query", "superseded"], "msg": "a search finds only what still holds"}
        raise InvalidRequest(
            "a query and `superseded` exclude each other: leave one of them out",
            [{**error, "type": "superseded"}],
        )
    page = await (
        _search(runtime, owner, agent, text, limit, cursor)
        if text
        else _newest(runtime, owner, agent, limit, cursor, superseded=superseded)
    )
    if not page.items and cursor is None and agent not in runtime.agents():
        raise UnknownAgent(agent, runtime.agents(), "query")
    return page


async def correct_entry(runtime: Runtime, owner: str, entry_id: str, content: str) -> Entry:
    """Replace an entry's words with its owner's, which are its evidence from then on. Secrets are redacted.
    Raises NotFound, InvalidRequest (nothing said, or too long), Conflict (the agent remembers the same)."""
    words = redact(normalise(sanitise(content)))
    if not any(c.isalnum() for c in words) or len(words) > MAX_CORRECTION:
        error = {
            "loc": ["body", "content"],
            "msg": f"1 to {MAX_CORRECTION} characters, not only blanks",
        }
        raise InvalidRequest("this cannot be an entry", [{**error, "type": "entry_text"}])
    now = runtime.clock.now()
    correction = EntryCorrection(id=entry_id, content=words, hash=hash_of(words), at=now)
    entry = await runtime.memory.correct_entry(owner, correction)
    if entry is None:
        raise NotFound("there is no such entry", entry_id=entry_id)
    await _embed(runtime, owner, entry)
    return entry_view(entry)


def embedder_for(runtime: Runtime, owner: str, agent_name: str) -> Embedder | None:
    """Return the embedder of an agent's entries for what their owner does with them: it counts towards the
    owner's day. None: there is none."""
    agent = runtime.agents().get(agent_name)
    own = episodic_embedder(runtime, agent) if agent else None
    return meter(runtime, owner, own or hooked_embedder(agent, runtime.embedder))


async def _embed(runtime: Runtime, owner: str, entry: FoundEntry) -> None:
    """Store the entry's new vector. If the embedder fails, the entry is found by words until `layover
    reembed`."""
    embedder = embedder_for(runtime, owner, entry.agent)
    if embedder is None:
        return
    try:
        embedding = await embed(embedder, [entry.content])
    except Exception as error:
        logger.warning("entry corrected without a vector", extra={"cause": type(error).__name__})
        return
    (vector,) = embedding.vectors
    if vector is not None:
        await runtime.memory.put_entry_vectors(owner, embedder.model, [(entry.id, vector)])


async def restore_entry(runtime: Runtime, owner: str, entry_id: str) -> Entry:
    """Take back that an entry was superseded: it stands with the one that took its place. One that stands is
    returned as it is. Raises NotFound."""
    entry = await runtime.memory.restore_entry(owner, entry_id)
    if entry is None:
        raise NotFound("there is no such entry", entry_id=entry_id)
    return entry_view(entry)


async def delete_entry(runtime: Runtime, owner: str, entry_id: str) -> None:
    """Forget an entry, with what it superseded. Raises NotFound."""
    if not await runtime.memory.delete_entry(owner, entry_id):
        raise NotFound("there is no such entry", entry_id=entry_id)


async def _newest(
    runtime: Runtime, owner: str, agent: str, limit: int, cursor: str | None, *, superseded: bool
) -> Page[Entry]:
    at, id = decode_cursor(_LIST, cursor, 2)
    rows = await runtime.memory.list_entries(
        owner, agent, limit + 1, _place(at, id), superseded=superseded
    )
    more, last = len(rows) > limit, rows[limit - 1] if len(rows) > limit else None
    return Page[Entry](
        items=_views(rows[:limit]),
        next_cursor=encode_cursor(_LIST, rfc3339(last.created_at), last.id)
        if more and last
        else None,
    )


async def _search(
    runtime: Runtime, owner: str, agent: str, text: str, limit: int, cursor: str | None
) -> Page[Entry]:
    skip = _skip_of(cursor)
    known_agent = runtime.agents().get(agent)
    settings = (known_agent.memory.episodic if known_agent else None) or EpisodicMemory()
    embedder = episodic_embedder(runtime, known_agent) if known_agent else None
    word_query = entry_search.entry_query(
        agent, settings, text, runtime.clock.now(), top_k=limit + 1, skip=skip
    )
    metered = meter(runtime, owner, embedder or hooked_embedder(known_agent, runtime.embedder))
    vector_query = await entry_search.embed_query(word_query, metered)
    rows = (await runtime.memory.find_entries(owner, vector_query.query)).items
    more = len(rows) > limit and skip + limit <= _MAX_SKIP
    return Page[Entry](
        items=_views(rows[:limit]),
        next_cursor=encode_cursor(_SEARCH, str(skip + limit)) if more else None,
    )


def _skip_of(cursor: str | None) -> int:
    (number,) = decode_cursor(_SEARCH, cursor)
    if number is None:
        return 0
    if not (number.isascii() and number.isdigit()) or not 0 < int(number) <= _MAX_SKIP:
        raise bad_cursor()
    return int(number)


def _place(at: str | None, id: str | None) -> EntryPlace | None:
    if at is None or id is None:
        return None
    try:
        return EntryPlace(created_at=from_rfc3339(at), id=id)
    except ValueError as error:
        raise bad_cursor() from error


def _views(rows: Sequence[FoundEntry]) -> tuple[Entry, ...]:
    return tuple(entry_view(entry) for entry in rows)


def entry_view(entry: FoundEntry) -> Entry:
    """Return an entry as its owner sees it."""
    return Entry.model_validate({**entry.model_dump(), "said_at": entry.created_at})
