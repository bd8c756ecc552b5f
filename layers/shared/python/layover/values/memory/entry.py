"""Entries of episodic memory: lessons of past turns about a user's matters
(docs/behaviour.md#episodic-scope)."""

from datetime import timedelta
from typing import Literal

from layover.values.base import Time, Value

Source = Literal[
    "user_assertion",
    "user_accepted_assistant_proposal",
    "verified_assistant_finding",
    "tool_result",
    "quoted_text",
    "imported",
]
"""The party that vouches for an entry: the user said it, agreed to it, the assistant found it out, or a
trusted tool returned it. Nobody vouches for a text that the user only quotes or pastes. Of an imported entry,
another system says so."""


class MemoryEntry(Value):
    """One entry. `evidence`: the piece of the message `message_id` that says it. `verified` False: only an
    assistant says so, with tools that are not trusted, or only a text that the user quotes. `created_at`: the
    time of the turn that taught it, however late it was learned. `thread_id` None: no thread taught it, it
    was imported."""

    id: str
    agent: str
    content: str
    source: Source
    evidence: str
    verified: bool = True
    created_at: Time
    thread_id: str | None = None
    message_id: str | None = None


class NewEntry(MemoryEntry):
    """An entry to be stored, with where it comes from.

    `hash`: unique within agent and user. `vector` None: it is found by words only. `supersedes`:
    entries that it contradicts; they are kept and not retrieved any more."""

    hash: str
    vector: tuple[float, ...] | None = None
    model: str | None = None
    """Label of the embedder that made `vector`."""
    extractor: str | None = None
    """The chat model that proposed it."""
    prompt_version: str | None = None
    run_id: str | None = None
    supersedes: tuple[str, ...] = ()


class EntryQuery(Value):
    """A search among the entries of an agent and a user. `vector` None: by words only."""

    agent: str
    text: str
    vector: tuple[float, ...] | None = None
    model: str | None = None
    """Label of the embedder that made `vector`; entries of another one are found by words."""
    top_k: int
    skip: int = 0
    """The number of best entries to skip, for the pages of a list."""
    not_thread: str | None = None
    """Entries of this thread are left out."""
    least_cosine: float
    """The cosine below which a vector says nothing: fused scores are relative, and the nearest may be far."""
    half_life: timedelta
    now: Time
    """The time from which the recency term counts."""


class FoundEntry(MemoryEntry):
    """An entry with its scores: the fused one, the lexical part (0..1) and the cosine. All are None if the
    search had no query."""

    score: float | None = None
    text_score: float | None = None
    vector_score: float | None = None
    superseded_by: str | None = None
    """The entry that took its place. Only a list may have such entries."""


class FoundEntries(Value):
    """The results of a search, best first. `cut`: the scope has more entries than are searched, and the
    oldest were left out."""

    items: tuple[FoundEntry, ...] = ()
    cut: bool = False


class EntryCorrection(Value):
    """An entry as its user corrects it: the words are its evidence, too. `at`: the time of the correction."""

    id: str
    content: str
    hash: str
    at: Time


class EntryPlace(Value):
    """The end of a page of the list, newest first."""

    created_at: Time
    id: str


class KnownEntries(Value):
    """Entries as they stand by now, and the `version` of the scope (agent and user) that was read: every run
    that teaches it something changes the version."""

    items: tuple[FoundEntry, ...] = ()
    version: int = 0


class StaleEntry(Value):
    """An entry whose vector is of another embedder, or missing."""

    id: str
    content: str
