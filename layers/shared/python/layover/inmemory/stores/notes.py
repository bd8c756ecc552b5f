"""Working memory, profiles, the state of threads and their iteration logs, in memory."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from layover.clock import MICROSECOND
from layover.ports.memory.notes import NEWEST_ATTEMPTS
from layover.values.memory.context import LoggedAttempt, ThreadState
from layover.values.note import PROFILE, Note, NoteKey, NoteWrite


class NoteTable:
    """The stored notes; the stores of threads and of memory share one."""

    def __init__(self) -> None:
        self._notes: dict[tuple[str, NoteKey], Note] = {}
        self._said_times: dict[tuple[str, NoteKey], dict[str, datetime]] = {}
        self._profiles_set: dict[tuple[str, NoteKey], datetime] = {}
        self._entries: Counter[tuple[str, str]] = Counter()
        self._states: dict[tuple[str, str], ThreadState] = {}
        self._attempts: dict[tuple[str, str], dict[str, LoggedAttempt]] = {}

    def note(self, owner: str, key: NoteKey) -> Note:
        """The note; version 0 where there is none."""
        return self._notes.get((owner, key)) or Note(key=key)

    def put(self, owner: str, note: Note, value: Any, at: datetime, run_id: str | None) -> Note:
        """The next version of a note."""
        later = at if note.updated_at is None else max(at, note.updated_at + MICROSECOND)
        times = {"created_at": note.created_at or at, "updated_at": later}
        update = {"value": value, "version": note.version + 1, "run_id": run_id, **times}
        new_note = note.model_copy(update=update)
        self._notes[owner, note.key] = new_note
        return new_note

    def notes_of(self, owner: str) -> list[Note]:
        """All of an owner."""
        return [note for (o, _), note in self._notes.items() if o == owner]

    def forget(self, owner: str, key: NoteKey) -> None:
        """Delete a note."""
        self._notes.pop((owner, key), None)
        self._said_times.pop((owner, key), None)

    def set_profile(self, owner: str, key: NoteKey, at: datetime) -> None:
        """Marks the profile as set: messages older than this write cannot change it any more."""
        self._profiles_set[owner, key] = max(at, self._profiles_set.get((owner, key), at))

    def learn(
        self, owner: str, key: NoteKey, fields: Mapping[str, Any], said_at: datetime, **who: Any
    ) -> None:
        """Set the fields of a profile that were not set later."""
        if self._profiles_set.get((owner, key), said_at) > said_at:
            return
        note = self.note(owner, key)
        said_times = self._said_times.setdefault((owner, key), {})
        news = {f: v for f, v in fields.items() if said_times.get(f, said_at) <= said_at}
        if news:
            said_times.update(dict.fromkeys(news, said_at))
            self.put(owner, note, merged_fields(note.value, news), **who)

    def entries_version(self, owner: str, agent: str) -> int:
        """Another one with everything that the agent's entries learn of the user."""
        return self._entries[owner, agent]

    def count_entry(self, owner: str, agent: str) -> None:
        """The next version."""
        self._entries[owner, agent] += 1

    def state(self, owner: str, thread_id: str) -> ThreadState:
        """Return session, plan and the newest attempts."""
        state = self._states.get((owner, thread_id), ThreadState())
        return state.model_copy(update={"attempts": self.attempts(owner, thread_id)})

    def write_state(self, owner: str, thread_id: str, **parts: Any) -> None:
        """The next version of a state, with another session or plan."""
        state = self._states.get((owner, thread_id), ThreadState())
        parts["version"] = state.version + 1
        self._states[owner, thread_id] = state.model_copy(update=parts)

    def attempts(
        self, owner: str, thread_id: str, task: str | None = None, limit: int = NEWEST_ATTEMPTS
    ) -> tuple[LoggedAttempt, ...]:
        """The newest, oldest first."""
        log = self._attempts.get((owner, thread_id), {}).values()
        log_of_task = [a for a in log if task is None or a.task == task]
        log_of_task.sort(key=lambda a: (a.created_at, a.task, a.attempt))
        return tuple(log_of_task[-limit:])

    def log(self, owner: str, thread_id: str, attempt: LoggedAttempt, id: str) -> int:
        """Append, unless the id is there already; the attempt's number."""
        log = self._attempts.setdefault((owner, thread_id), {})
        if id not in log:
            number = 1 + sum(a.task == attempt.task for a in log.values())
            log[id] = attempt.model_copy(update={"attempt": number})
        return log[id].attempt

    def erase(self, owner: str, thread_id: str) -> None:
        """Everything that belongs to a thread."""
        keys = [k for k in self._notes if k[0] == owner and _thread(k[1]) == thread_id]
        for key in keys:
            del self._notes[key]
        self._states.pop((owner, thread_id), None)
        self._attempts.pop((owner, thread_id), None)


def merged_fields(old: Any, change: Mapping[str, Any]) -> dict[str, Any]:
    """`old` with each field of `change` in its place; None takes a field away; a text that stands
    there becomes the field `about`."""
    fields = {"about": old} if isinstance(old, str) else old if isinstance(old, dict) else {}
    return {k: v for k, v in {**fields, **change}.items() if v is not None}


def _thread(key: NoteKey) -> str | None:
    return key.key if key.scope == "thread" else None


class InMemoryNotes:
    """The part of `ports.MemoryStore` that is about notes."""

    def __init__(self, shelf: NoteTable) -> None:
        self._shelf = shelf

    def _alive(self, owner: str, thread_id: str) -> bool:
        """True if there is such a thread."""
        raise NotImplementedError

    async def read_notes(self, owner: str, keys: Sequence[NoteKey]) -> tuple[Note, ...]:
        """Return a note for each key, in order; version 0 if there is none."""
        return tuple(self._shelf.note(owner, key) for key in keys)

    async def replace_note(
        self,
        owner: str,
        key: NoteKey,
        value: Any,
        at: datetime,
        run_id: str | None = None,
        expected_version: int | None = None,
    ) -> NoteWrite:
        """Replace the value if the note has this version (None: whatever version it has)."""
        note = self._shelf.note(owner, key)
        thread_id = _thread(key)
        if thread_id is not None and not self._alive(owner, thread_id):
            return NoteWrite(note=note, stored=False)
        if expected_version is not None and note.version != expected_version:
            return NoteWrite(note=note, stored=note.version > 0 and note.value == value)
        self._shelf.forget(owner, key)
        if key.kind == PROFILE and expected_version is None:
            self._shelf.set_profile(owner, key, at)
        return NoteWrite(note=self._shelf.put(owner, note, value, at, run_id), stored=True)

    async def delete_note(self, owner: str, key: NoteKey, at: datetime) -> None:
        """Forget a note; a missing note is not an error."""
        if key.kind == PROFILE:
            self._shelf.set_profile(owner, key, at)
        self._shelf.forget(owner, key)

    async def read_state(self, owner: str, thread_id: str) -> ThreadState:
        """Return session, plan and the newest attempts."""
        return self._shelf.state(owner, thread_id)

    async def write_plan(self, owner: str, thread_id: str, plan: Any, at: datetime) -> bool:
        """Replace the plan. Return False if the thread is gone."""
        if not self._alive(owner, thread_id):
            return False
        self._shelf.write_state(owner, thread_id, plan=plan)
        return True

    async def log_attempt(
        self, owner: str, thread_id: str, attempt: LoggedAttempt, id: str
    ) -> int | None:
        """Append, and return the attempt's number within its task; None if the thread is gone."""
        if not self._alive(owner, thread_id):
            return None
        return self._shelf.log(owner, thread_id, attempt, id)

    async def attempts(
        self, owner: str, thread_id: str, task: str | None = None, limit: int = NEWEST_ATTEMPTS
    ) -> tuple[LoggedAttempt, ...]:
        """Return the newest attempts (of one task), oldest first."""
        return self._shelf.attempts(owner, thread_id, task, limit)
