"""Working memory, profiles, the state of a thread and its iteration log, on Postgres."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from layover.adapters.store.postgres.codec import dump_json, rows_of
from layover.adapters.store.postgres.database import Database, Row
from layover.adapters.store.postgres.queries import Query, Statement, load
from layover.ports.memory.notes import NEWEST_ATTEMPTS
from layover.values.memory.context import LoggedAttempt, ThreadState
from layover.values.note import PROFILE, Note, NoteKey, NoteWrite

_NOTES = rows_of(Note)
_ATTEMPTS = rows_of(LoggedAttempt)


def read_notes(keys: Sequence[NoteKey]) -> Statement:
    """The statement whose answer `notes_of` reads."""
    return _query("read_notes")(keys=dump_json([k.model_dump() for k in keys]))


def notes_of(rows: list[Row]) -> tuple[Note, ...]:
    """The answer of `read_notes`."""
    return _NOTES.validate_json(rows[0][0] or b"[]")


def read_state(thread_id: str) -> Statement:
    """The statement whose answer `state_of` reads."""
    return _query("read_state")(thread_id=thread_id, limit=NEWEST_ATTEMPTS)


def state_of(rows: list[Row]) -> ThreadState:
    """The answer of `read_state`."""
    return ThreadState.model_validate_json(rows[0][0] or b"{}")


def lock_thread(thread_id: str) -> Statement:
    """Locks the thread, first in the pipeline of a write that belongs to it."""
    return _query("lock_thread")(thread_id=thread_id)


def lock_scope(agent: str) -> Statement:
    """Locks the scope of agent and user, next in the pipeline of a write to it."""
    return _query("lock_scope")(agent=agent)


class PostgresNotes:
    """The part of `ports.MemoryStore` that is about notes; every pipeline may run twice."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_notes(self, owner: str, keys: Sequence[NoteKey]) -> tuple[Note, ...]:
        """Return a note for each key, in order; version 0 if there is none."""
        (rows,) = await self._database.run(owner, read_notes(keys))
        return notes_of(rows)

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
        write = _query("replace_note")(
            **_place(key),
            value=dump_json(value),
            run_id=run_id,
            at=at.isoformat(),
            expected=expected_version,
        )
        settles = key.kind == PROFILE and expected_version is None
        note = await self._write(owner, key, *([_set_profile(key, at)] if settles else []), write)
        # A pipeline that ran twice finds its own value, under a version that it did not expect.
        return NoteWrite(note=note, stored=note.version > 0 and note.value == value)

    async def delete_note(self, owner: str, key: NoteKey, at: datetime) -> None:
        """Forget a note; a missing note is not an error."""
        place = {"kind": key.kind, "scope": key.scope, "key": key.key}
        before = [lock_scope(key.key), _set_profile(key, at)] if key.kind == PROFILE else []
        await self._database.run(owner, *before, _query("delete_note")(**place))

    async def read_state(self, owner: str, thread_id: str) -> ThreadState:
        """Return session, plan and the newest attempts."""
        (rows,) = await self._database.run(owner, read_state(thread_id))
        return state_of(rows)

    async def write_plan(self, owner: str, thread_id: str, plan: Any, at: datetime) -> bool:
        """Replace the plan. Return False if the thread is gone."""
        _, rows = await self._database.run(
            owner,
            lock_thread(thread_id),
            _query("write_plan")(thread_id=thread_id, plan=dump_json(plan), at=at.isoformat()),
        )
        return bool(rows)

    async def log_attempt(
        self, owner: str, thread_id: str, attempt: LoggedAttempt, id: str
    ) -> int | None:
        """Append, and return the attempt's number within its task; None if the thread is gone."""
        fields = attempt.model_dump(mode="json", exclude={"attempt"})
        *_, rows = await self._database.run(
            owner,
            lock_thread(thread_id),
            _query("log_attempt")(thread_id=thread_id, id=id, **fields),
            _query("attempt_of")(thread_id=thread_id, id=id),
        )
        return int(rows[0][0] or 0) if rows else None

    async def attempts(
        self, owner: str, thread_id: str, task: str | None = None, limit: int = NEWEST_ATTEMPTS
    ) -> tuple[LoggedAttempt, ...]:
        """Return the newest attempts (of one task), oldest first."""
        query = _query("attempts")(thread_id=thread_id, task=task, limit=limit)
        (rows,) = await self._database.run(owner, query)
        return _ATTEMPTS.validate_json(rows[0][0] or b"[]")

    async def _write(self, owner: str, key: NoteKey, *writes: Statement) -> Note:
        """Write, and read the result, in one transaction."""
        lock = [lock_thread(key.key)] if key.scope == "thread" else []
        lock += [lock_scope(key.key)] if key.kind == PROFILE else []
        *_, rows = await self._database.run(owner, *lock, *writes, read_notes([key]))
        return notes_of(rows)[0]


def _set_profile(key: NoteKey, at: datetime) -> Statement:
    return _query("set_profile")(agent=key.key, at=at.isoformat())


def _place(key: NoteKey) -> dict[str, str | None]:
    thread_id = key.key if key.scope == "thread" else None
    return {"kind": key.kind, "scope": key.scope, "key": key.key, "thread_id": thread_id}


def _query(name: str) -> Query:
    return load("notes.sql")[name]
