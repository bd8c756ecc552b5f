"""Threads, and the head of a thread (docs/journal.md)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from pydantic import Field

from layover.values.base import Time, Value
from layover.values.runs.run import Status


class ActiveRun(Value):
    """The run that holds a thread."""

    id: str
    status: Status


class ThreadEdit(TypedDict, total=False):
    """Fields of a thread that its owner may replace: their words, of which a deleted thread keeps none. None
    leaves a field as it is."""

    title: str | None
    metadata: Mapping[str, Any] | None


class ThreadFacts(Value):
    """The fields of a thread that its owner sees, and that the database keeps."""

    id: str
    agent: str
    title: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    created_at: Time
    updated_at: Time


class Thread(ThreadFacts):
    '''A thread as its owner sees it: the answer of `GET /threads/{thread_id}`.

    Attributes:
        id: The thread's id.
        agent: The name of the agent that answers in it; a hand-off changes it.
        title: At most 500 characters; None: it has no title yet.
        metadata: The owner's own data, at most 64 KB of JSON; contexts of tools and hooks show it.
        created_at: The time at which it was made, in UTC.
        updated_at: The time of its newest change, in UTC.
        active_run: The run that holds it, as `id` and `status`; None: a new run begins at once.
        waiting_runs: The runs that wait for a decision while the conversation goes on, oldest first, each as
            `id` and `status`. One whose decision has come is among them until its turn.

    Example:
        ```python
        from layover import Thread

        body = """{
            "id": "thread_1", "agent": "shop", "title": "A lamp", "metadata": {"shop": "Bonn"},
            "created_at": "2026-05-01T12:00:00.000000Z",
            "updated_at": "2026-05-01T12:00:02.000000Z",
            "active_run": {"id": "run_1", "status": "suspended"}
        }"""
        thread = Thread.model_validate_json(body)
        assert thread.metadata["shop"] == "Bonn"
        assert thread.active_run is not None and thread.active_run.status == "suspended"
        ```
    '''

    active_run: ActiveRun | None = None
    waiting_runs: tuple[ActiveRun, ...] = ()


class ThreadHead(ThreadFacts):
    """`THREAD#id / HEAD`: the facts needed to accept a run without the database."""

    owner: str
    leaf_id: str | None = None
    last_created_at: Time | None = None
    active_run: str | None = None
    queue: tuple[str, ...] = ()
    interrupts: int = 0
    """Count of runs at the front of the queue that interrupt."""
    waiting_runs: tuple[str, ...] = ()
    """Runs that were set aside while they waited, oldest first (docs/run-lifecycle.md#set-aside)."""
    ready: tuple[str, ...] = ()
    """Those of `waiting_runs` whose decisions have come: the end of the run at work starts the first."""
    unsaved: tuple[str, ...] = ()
    """Runs that are over and not yet in Postgres, oldest first."""
    unplaced: tuple[str, ...] = ()
    """Runs that are over and have messages that come behind the run at work, in the order of their ends."""
    windows: dict[str, int] = Field(default_factory=dict)
    """Tokens of context windows that nobody has set, by the names of models, as refusals taught them
    (docs/behaviour.md#learned-windows)."""
    deleted: bool = False
    forget_profile: bool = False
    """The profile of its agent's memory is erased with the thread."""
    empty_again_at: Time | None = None
    """A deleted thread was emptied; at this time, late writes of its runs are swept up."""

    def unfinished(self, but: str) -> frozenset[str]:
        """Return the runs, without this one, whose messages may still change in the database: they wait, are
        at work, or are not saved."""
        ids = {*self.waiting_runs, *self.unsaved, *self.unplaced, self.active_run}
        return frozenset(id for id in ids if id is not None and id != but)

    def next_time(self, hint: datetime) -> datetime:
        """Return a time strictly after every message of the thread (docs/behaviour.md#message-times)."""
        return after(self.last_created_at, hint)


def after(last: datetime | None, hint: datetime) -> datetime:
    """Return max(hint, last + 1 µs)."""
    from layover.clock import MICROSECOND

    return hint if last is None or hint > last else last + MICROSECOND
