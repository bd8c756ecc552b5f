"""The part of `ports.MemoryStore` that is about notes: working memory, profiles, the state of a thread and
its iteration log."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from layover.values.memory.context import LoggedAttempt, ThreadState
from layover.values.memory.note import Note, NoteKey, NoteWrite

NEWEST_ATTEMPTS = 50
"""Of the iteration log, as many as a turn reads and the API shows."""


class StaleState(Exception):
    """The thread's state, or the agent's entries, moved since they were read: read them again."""


class NoteStore(Protocol):
    """Notes of an owner, under row security."""

    async def read_notes(self, owner: str, keys: Sequence[NoteKey]) -> tuple[Note, ...]:
        """A note for each key, in order; version 0 where there is none."""
        ...

    async def merge_note(
        self,
        owner: str,
        key: NoteKey,
        fields: Mapping[str, Any],
        at: datetime,
        run_id: str | None = None,
    ) -> NoteWrite:
        """Set these fields of an object, in one statement: parallel writers lose nothing. A field that
        is None goes. A text that stands there becomes the field `about`."""
        ...

    async def replace_note(
        self,
        owner: str,
        key: NoteKey,
        value: Any,
        at: datetime,
        run_id: str | None = None,
        expected_version: int | None = None,
    ) -> NoteWrite:
        """Put another value there if the note has this version (None: whatever it has)."""
        ...

    async def delete_note(self, owner: str, key: NoteKey, at: datetime) -> None:
        """Forget a note; none is fine. Of a profile: with all that was said before, learned or not."""
        ...

    async def read_state(self, owner: str, thread_id: str) -> ThreadState:
        """Session, plan and the newest attempts (`NEWEST_ATTEMPTS`)."""
        ...

    async def write_plan(self, owner: str, thread_id: str, plan: Any, at: datetime) -> bool:
        """Replace the plan, whatever it was (a thread has one run at a time). False: the thread is
        gone."""
        ...

    async def log_attempt(
        self, owner: str, thread_id: str, attempt: LoggedAttempt, id: str
    ) -> int | None:
        """Append to the iteration log; the attempt's number within its task, None where the thread is
        gone. An `id` that is there already is not logged again."""
        ...

    async def attempts(
        self, owner: str, thread_id: str, task: str | None = None, limit: int = NEWEST_ATTEMPTS
    ) -> tuple[LoggedAttempt, ...]:
        """The newest attempts (of one task), oldest first."""
        ...
