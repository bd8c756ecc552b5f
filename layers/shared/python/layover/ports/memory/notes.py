"""The part of `ports.MemoryStore` that is about notes: working memory, profiles, the state of a thread and
its iteration log."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from layover.values.memory.context import LoggedAttempt, ThreadState
from layover.values.note import Note, NoteKey, NoteWrite

NEWEST_ATTEMPTS = 50
"""The number of attempts of the iteration log that a turn reads and the API shows."""


class StaleState(Exception):
    """The thread's state, or the agent's entries, changed since they were read: read them again."""


class NoteStore(Protocol):
    """Notes of an owner, under row security."""

    async def read_notes(self, owner: str, keys: Sequence[NoteKey]) -> tuple[Note, ...]:
        """Return a note for each key, in order; version 0 if there is none."""
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
        """Replace the value if the note has this version (None: any version)."""
        ...

    async def delete_note(self, owner: str, key: NoteKey, at: datetime) -> None:
        """Forget a note; a missing note is not an error. Forgetting a profile covers everything said before,
        learned or not."""
        ...

    async def read_state(self, owner: str, thread_id: str) -> ThreadState:
        """Return session, plan and the newest attempts (`NEWEST_ATTEMPTS`)."""
        ...

    async def write_plan(self, owner: str, thread_id: str, plan: Any, at: datetime) -> bool:
        """Replace the plan unconditionally (a thread has one run at a time). Return False if the thread is
        gone."""
        ...

    async def log_attempt(
        self, owner: str, thread_id: str, attempt: LoggedAttempt, id: str
    ) -> int | None:
        """Append to the iteration log. Return the attempt's number within its task, None if the thread is
        gone. An existing `id` is not logged again."""
        ...

    async def attempts(
        self, owner: str, thread_id: str, task: str | None = None, limit: int = NEWEST_ATTEMPTS
    ) -> tuple[LoggedAttempt, ...]:
        """Return the newest attempts (of one task), oldest first."""
        ...
