"""The journal: threads' heads, runs, their steps, calls and events (docs/journal.md)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Protocol, Unpack

from layover.ports.dues import Dues
from layover.ports.runlog import RunLog
from layover.values.decision import Vote
from layover.values.page import Page
from layover.values.runs.audit import AuditRow
from layover.values.runs.event import Event, EventPage
from layover.values.runs.run import (
    CANCEL_GRACE,
    CallRecord,
    Decision,
    OnBusy,
    Outcome,
    RunMeta,
    RunSnapshot,
    Status,
)
from layover.values.runs.views import OpenApproval
from layover.values.thread import ThreadEdit, ThreadHead


@dataclass(frozen=True)
class RequestKey:
    """An `Idempotency-Key` with the hash of the body that it came with."""

    key: str
    body_hash: str
    expires_at: datetime


@dataclass(frozen=True)
class Accepted:
    """The outcome of `accept`. `started`: the thread is claimed, an execution has to be started. `replayed`:
    the request key had been used for this run before."""

    run_id: str
    started: bool
    replayed: bool = False
    interrupts: str | None = None
    """The active run that has to end for this one."""


@dataclass(frozen=True)
class DueCheck:
    """A run that is not over (or not saved), or (`run_id` None) a thread whose erasing has begun, or a
    connection whose token has expired."""

    owner: str
    thread_id: str
    run_id: str | None
    connection_id: str | None = None


@dataclass(frozen=True)
class InboxItem:
    """A call that waits for people other than its owner."""

    owner: str
    thread_id: str
    approval: OpenApproval


class StaleVotes(Exception):
    """A vote was added since the call was read: read it again."""


class StaleHead(Exception):
    """The thread's head changed since it was read: read it again."""


@dataclass(frozen=True)
class Decided:
    """A recorded decision. `token`: the token to wake; None if the call has not stored one yet (it looks for
    a decision when it does)."""

    call: CallRecord
    token: str | None


class Journal(Dues, Protocol):
    """Threads' heads, runs, their steps, calls and events. Every method names the owner: records of another
    owner read as absent."""

    async def put_thread(self, head: ThreadHead) -> None:
        """Create a thread; an existing one stays as it is."""
        ...

    async def thread(self, owner: str, thread_id: str) -> ThreadHead | None:
        """Return the head, deleted or not (callers look at `deleted`)."""
        ...

    async def threads(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """Return a page of heads, newest first, without deleted ones."""
        ...

    async def has_all_threads(self, owner: str) -> bool:
        """Return whether this journal has had the owner's threads since it was made."""
        ...

    async def complete_threads(self, owner: str, heads: Sequence[ThreadHead]) -> None:
        """Create the heads that are missing (a restored table, a restarted runner), once."""
        ...

    async def unmark_threads(self, owner: str) -> None:
        """Drop the mark that the owner's threads are known here."""
        ...

    async def edit_thread(
        self,
        owner: str,
        thread_id: str,
        *,
        untitled_only: bool = False,
        **edit: Unpack[ThreadEdit],
    ) -> ThreadHead | None:
        """Replace the given fields. None: there is no such thread, or it has a title and `untitled_only`."""
        ...

    async def mark_deleted(
        self, owner: str, thread_id: str, *, forget_profile: bool = False
    ) -> ThreadHead | None:
        """Delete the thread's title, and let it take no run from now on. Return the head as it was, None if
        there is none. `forget_profile`: a flag for the eraser."""
        ...

    async def deleted_threads(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """Return a page of deleted threads."""
        ...

    async def remove_tombstone(self, owner: str, thread_id: str) -> bool:
        """Remove the tombstone of a deleted thread. Return False if it is not erased yet."""
        ...

    async def erase_run(self, owner: str, thread_id: str, run_id: str) -> None:
        """Delete a run's records, then its objects in S3."""
        ...

    async def accept(
        self, run: RunMeta, head: ThreadHead, on_busy: OnBusy, request: RequestKey | None
    ) -> Accepted:
        """Accept a run in one transaction: the run's META, the thread claimed (or the run queued), the
        request key. Raises StaleHead if the head is not as given (for the end of the queue: if no run is
        active any more, or the queue has filled up); ThreadBusy (on_busy REJECT and an active run);
        LimitReached (queue full); Conflict (request key used with another body)."""
        ...

    async def find_request(self, owner: str, request: RequestKey, now: datetime) -> str | None:
        """The run that this request key made, if it is still valid. Raises Conflict as `accept`."""
        ...

    async def run(self, owner: str, run_id: str) -> RunMeta | None:
        """Return META alone."""
        ...

    async def peek_status(self, owner: str, run_id: str) -> Status | None:
        """Return the status that callers see, perhaps as it was a moment ago; None: no such run. It costs a
        quarter of `snapshot`'s reads at most, and decides nothing."""
        ...

    async def snapshot(self, owner: str, run_id: str) -> RunSnapshot | None:
        """Return META, steps and calls."""
        ...

    async def runs(self, owner: str, thread_id: str, limit: int, cursor: str | None) -> Page[str]:
        """Return the ids of a thread's runs, newest first."""
        ...

    async def approvals(
        self, owner: str, thread_id: str | None, limit: int, cursor: str | None
    ) -> Page[OpenApproval]:
        """Return calls that wait undecided, oldest first."""
        ...

    async def store_token(
        self, owner: str, run_id: str, execution: str, key: str, attempt: int, token: str
    ) -> CallRecord | None:
        """Store the token on a call that waits undecided for this attempt, driven by this execution. Return
        None if it does not (decided, another attempt, run over): the caller then wakes its own branch."""
        ...

    async def publish_later(self, owner: str, run_id: str, key: str, token: str) -> None:
        """Mark a call that waits on this token, and was not published, for the next sweep."""
        ...

    async def inbox(
        self, groups: Collection[str], limit: int, cursor: str | None
    ) -> Page[InboxItem]:
        """Return calls of all owners that wait undecided for a member of any of these groups, oldest first.
        Only their approvers may see them."""
        ...

    async def owner_of(self, run_id: str) -> str | None:
        """Return the owner of a run that has asked others than its owner; None for any other run. Only its
        approvers may learn the owner."""
        ...

    async def vote(
        self,
        run: RunMeta,
        call: CallRecord,
        votes: Sequence[Vote],
        decision: Decision,
        *events: Event,
    ) -> CallRecord:
        """Record `votes` in place of those of `call`, which goes on waiting undecided. `decision`: the one
        that the newest vote asks for, for the audit. Raises StaleVotes, DecisionAlreadyMade."""
        ...

    async def decide(
        self,
        run: RunMeta,
        call: CallRecord,
        decision: Decision,
        *events: Event,
        votes: Sequence[Vote] | None = None,
    ) -> Decided:
        """Record the decision of a call that waits undecided for this attempt; the first one wins. The same
        write adds it to the audit. `votes`: those that settle the call, in place of those of `call`. Raises
        DecisionAlreadyMade (with `ids["token"]` never; the loser re-sends via `call`) and, with votes,
        StaleVotes."""
        ...

    async def audit(
        self, since: date | None, until: date | None, limit: int, cursor: str | None
    ) -> Page[AuditRow]:
        """Return all votes and decisions of these UTC days (both included; None: no bound), of all
        owners, the oldest first. They outlive runs, threads and users. Only holders of the audit scope
        may see them."""
        ...

    async def call(self, owner: str, run_id: str, key: str) -> CallRecord | None:
        """Return one call's record."""
        ...

    async def peek_events(self, owner: str, run_id: str, after: int) -> bool:
        """Return whether events begin right behind `after`, the end of a page that was read, perhaps as
        it was a moment ago. A look that finds nothing costs a quarter of an empty page."""
        ...

    async def events(self, owner: str, run_id: str, after: int, limit: int) -> EventPage:
        """Return events with seq > after, in order."""
        ...

    async def acquire(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """Take the run for a turn: epoch + 1, attempts + 1. None: the run is over, or driven by
        another execution. Raises AttemptsUsedUp at `MAX_ATTEMPTS`."""
        ...

    async def attach(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """Write beside others under the current epoch (Resume). None as in `acquire`."""
        ...

    async def seize(self, owner: str, run_id: str) -> RunLog | None:
        """Take the run to end it (cancel, settle): epoch + 1, whichever writer drives it, never refused for
        attempts. None: the run is over or unknown."""
        ...

    async def end_queued(self, owner: str, run_id: str, outcome: Outcome, *events: Event) -> bool:
        """End a run that never started; it leaves its thread's queue. False: it is not queued (any more)."""
        ...

    async def due(self, until: datetime, limit: int) -> list[DueCheck]:
        """Return the runs, threads and connections that the sweeper has to look at by then, of all owners; at
        most `limit` for each partition of the watch. For the sweeper alone."""
        ...

    async def erase_runs(self, owner: str, thread_id: str) -> None:
        """Delete the records of a deleted thread's runs, and their objects in S3."""
        ...

    async def set_ttl(self, owner: str, run_id: str, expires_at: datetime) -> None:
        """Give the records of a run that is over (and saved) their time to live; the sweeper need
        not look at it again. Repeatable."""
        ...

    async def keep_records(self, owner: str, run_id: str, *, for_good: bool = False) -> None:
        """Remove the expiry from the records of a run that is not over. `for_good`: no writer is left that
        sets one."""
        ...

    async def erase_late(self, owner: str, thread_id: str) -> None:
        """Delete what unstoppable writers have written to runs after these were erased."""
        ...

    async def mark_purged(self, owner: str, thread_id: str, again_at: datetime) -> None:
        """Record that a deleted thread is empty now. The sweeper looks for late writes at `again_at`."""
        ...

    async def finish_erasure(self, owner: str, thread_id: str) -> None:
        """Record that only its tombstone is left of a deleted thread: the sweeper need not look again."""
        ...

    async def reschedule_erasure(self, owner: str, thread_id: str, at: datetime) -> None:
        """Let the sweeper look at a deleted thread then, behind what is due before: it is not erased yet. A
        thread that another sweep has erased meanwhile stays so."""
        ...

    async def reschedule_check(
        self,
        owner: str,
        run_id: str,
        read_at: datetime,
        at: datetime,
        lost_at: datetime | None = None,
    ) -> bool:
        """Set the time of the sweeper's next look, and the time since which nothing drives the run. Return
        False, and change nothing, if another look was requested since the sweeper read what was due
        (`read_at`), such as the one at once after a decision, or if the run was retired."""
        ...

    async def start_successor(
        self, owner: str, run_id: str, execution: str | None, *, fresh: bool = False
    ) -> int | None:
        """Set the run's next execution, with epoch + 1, and return its number: the caller starts it. None:
        the run is over, or no longer driven by `execution`. `fresh`: it has all its attempts again, and keeps
        the time of that (`redriven_at`)."""
        ...

    async def spend(
        self,
        owner: str,
        run_id: str,
        execution: str,
        events: int,
        limit: int,
        *,
        fresh: bool = False,
    ) -> int | None:
        """Add to the events that the execution may have used of its history, and return their number. Above
        `limit`, the sweeper looks at the run at once. `fresh`: it has all its attempts again. None: the run
        is over, or driven by another execution."""
        ...

    async def mark_saved(self, owner: str, run_id: str, thread_id: str) -> None:
        """Record that a run that ended unsaved is in the database now."""
        ...

    async def request_cancel(
        self, owner: str, run_id: str, grace: timedelta = CANCEL_GRACE
    ) -> RunMeta | None:
        """Set the cancel flag of a run that is not over; return the run as it is now. `grace`: the time
        that running tools may go on. `accept` flags a run that is interrupted, too."""
        ...
