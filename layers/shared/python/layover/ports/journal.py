"""The journal: threads' heads, runs, their steps, calls and events (docs/journal.md).

`Journal` has a part for each kind of caller. Every method names the owner, except those of the audit, the
inbox, the operators' lists and the sweeper's. Records of another owner read as absent."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Literal, Protocol, Unpack

from layover.ports.runlog import RunLog, SetAside
from layover.values.decision import Vote
from layover.values.deployment.access import Actor
from layover.values.message import Message
from layover.values.page import Page
from layover.values.runs.audit import AuditRow
from layover.values.runs.debts import Debt
from layover.values.runs.event import Event, EventPage
from layover.values.runs.feedback import Feedback, RunFeedback
from layover.values.runs.operations import OperationOutcome, OperationRow, Switch
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
class RunFilter:
    """The runs of all owners that somebody asks for; None: of all. `error`: the type of a failure."""

    status: Status | None = None
    agent: str | None = None
    owner: str | None = None
    error: str | None = None
    since: datetime | None = None
    """Those that were accepted then or later."""
    until: datetime | None = None
    """Those that were accepted before it."""

    def takes_time(self, created_at: datetime) -> bool:
        """Return whether a run that was accepted then is one of them."""
        is_late = self.since is None or created_at >= self.since
        return is_late and (self.until is None or created_at < self.until)


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run that lists of all owners have without its steps. `owner` None: not known without a
    read. `tokens`, `cost` of a run that is not over are not known yet."""

    id: str
    place: str
    """The place of its records; only for `Overview.read`."""
    owner: str | None
    agent: str
    status: Status
    created_at: datetime
    error: str | None = None
    provider: str | None = None
    """The provider of models that the failure came from; None: from none."""
    tokens: int = 0
    cost: Decimal | None = None
    waiting: frozenset[str] = frozenset()
    """Keys of the calls that wait undecided."""


@dataclass(frozen=True)
class Tally:
    """Runs to count: `live` are not over, `over` are. `live_whole`, `over_whole`: nothing was left out."""

    live: tuple[RunFacts, ...]
    over: tuple[RunFacts, ...]
    live_whole: bool
    over_whole: bool


DueKind = Literal[
    "run",
    "thread",
    "file",
    "node",
    "entries",
    "export",
    "export_job",
    "owner",
    "import",
    "grant",
    "outage",
]
"""`run`: the run's objects in S3, as `THREAD/RUN`; `thread`: a thread without activity; `file`: a file that
no message has named; `node`: a node's memory, by its key; `entries`: all of the owner's entries; `export`: an
export, by its key; `export_job`: an export that is made in the background, by its id; `owner`: a user who is
to be forgotten; `import`: a thread that is imported, whose head may be missing; `grant`: a grant whose
service is to be told that it is over, by its connection; `outage`: failures that operators were told of, by
their kind: they may be over. Its owner stands for no user."""


@dataclass(frozen=True)
class Due:
    """A thing that the sweeper looks at from `at` on. `made_at`: the time of the first request for it;
    `failures`: the looks at it that failed, one after another."""

    owner: str
    kind: DueKind
    name: str
    at: datetime
    made_at: datetime
    failures: int = 0


@dataclass(frozen=True)
class RequestKey:
    """An `Idempotency-Key` with the hash of the body that it came with. A client's own id of a message is one
    as well: its thread keeps it (`thread_id`), and it has no end (`expires_at` None).

    Args:
        key: The caller's text.
        body_hash: Of what it stands for.
        expires_at: The end of its time.
        thread_id: Of a message's id: the thread in which it is one.
        replaces: Of a message's id: the run that it stands for so far, and for which the new one is to take
            its place; None: it stands for none.
        earlier: Of a message's id: the hashes of what it said before, the newest last.
    """

    key: str
    body_hash: str
    expires_at: datetime | None
    thread_id: str | None = None
    replaces: str | None = None
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True)
class SentMessage:
    """A client's own id of a message: the newest run that answers it, that run's input, the hash of what the
    message says, and the hashes of what it said before."""

    run_id: str
    message_id: str
    body_hash: str
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True)
class Accepted:
    """The outcome of `accept`. `started`: the thread is claimed, and an execution has to be started.
    `replayed`: the request key was used for this run before."""

    run_id: str
    started: bool
    replayed: bool = False
    interrupts: str | None = None
    """The active run that has to end for this one."""


@dataclass(frozen=True)
class DueCheck:
    """A run that is not over (or not saved, or owes something), a connection whose token has expired, or
    (both ids None) a thread whose erasing has begun.

    Args:
        owner: Its owner.
        thread_id: The thread; empty for a connection.
        run_id: The run.
        connection_id: The connection.
        place: The place of its record; only for `Watch`.
        at: The time of this look.
        failures: The looks that failed, one after another.
    """

    owner: str
    thread_id: str
    run_id: str | None
    connection_id: str | None
    place: tuple[str, str]
    at: datetime
    failures: int = 0


@dataclass(frozen=True)
class InboxItem:
    """A call that waits for people other than its owner."""

    owner: str
    thread_id: str
    approval: OpenApproval


class StaleCall(Exception):
    """The call still waits undecided for the same attempt, but has changed since it was read (a vote, a
    token, a reminder): read it again."""


class BeingEnded(Exception):
    """Another process has taken the run to end it, under this epoch."""

    def __init__(self, epoch: int) -> None:
        super().__init__("another process ends the run")
        self.epoch = epoch


class StaleHead(Exception):
    """The thread's head changed since it was read: read it again."""


class StaleRun(Exception):
    """The run changed since it was read: read it again."""


class Heads(Protocol):
    """Threads' heads, for everybody who opens, lists or names a thread (`threads`, `chat`, the SDK in
    process) and, with `get`, for everybody who reads one. An existing head is never replaced as a whole, so
    that a request that restores a lost one undoes nothing."""

    async def put(self, head: ThreadHead) -> None:
        """Create a thread; an existing one stays unchanged."""
        ...

    async def get(self, owner: str, thread_id: str) -> ThreadHead | None:
        """Return the head, deleted or not (callers look at `deleted`)."""
        ...

    async def page(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """Return a page of heads, the newest change first, without deleted ones."""
        ...

    async def has_all(self, owner: str) -> bool:
        """Return whether this journal is known to have all of the owner's threads."""
        ...

    async def add_missing(self, owner: str, heads: Sequence[ThreadHead]) -> None:
        """Create the heads that are missing (a restored table, a restarted runner), once."""
        ...

    async def unmark(self, owner: str) -> None:
        """Drop the mark that the owner's threads are known here."""
        ...

    async def advance(
        self, head: ThreadHead, leaf_id: str, last_created_at: datetime
    ) -> ThreadHead | None:
        """Set the newest message of a thread, and its time. None: a run has come or gone since the head was
        read, or the thread is gone."""
        ...

    async def edit(
        self,
        owner: str,
        thread_id: str,
        *,
        untitled_only: bool = False,
        **edit: Unpack[ThreadEdit],
    ) -> ThreadHead | None:
        """Replace the given fields. None: there is no such thread, or it has a title and `untitled_only`."""
        ...


class Runs(Protocol):
    """Journaled runs, for everybody who reads one. It writes nothing. All reads but `peek_status` and
    `page_ids` see every write that has returned."""

    async def get(self, owner: str, run_id: str) -> RunMeta | None:
        """Return META without the run's steps and calls."""
        ...

    async def peek_status(self, owner: str, run_id: str) -> Status | None:
        """Return the status that callers see, which may be a moment old; None: no such run. It costs at most
        a quarter of `snapshot`'s reads, and decides nothing."""
        ...

    async def snapshot(self, owner: str, run_id: str) -> RunSnapshot | None:
        """Return META, steps and calls."""
        ...

    async def call(self, owner: str, run_id: str, key: str) -> CallRecord | None:
        """Return one call's record."""
        ...

    async def page_ids(
        self, owner: str, thread_id: str, limit: int, cursor: str | None
    ) -> Page[str]:
        """Return the ids of a thread's runs, newest first. The very newest may be missing."""
        ...


class RunEvents(Protocol):
    """Logs of runs, for those who follow one: streams, sockets, the SDK in process. Events are numbered
    without gaps, and an event that was read never changes."""

    async def page(self, owner: str, run_id: str, after: int, limit: int) -> EventPage:
        """Return events with seq > after, in order."""
        ...

    async def peek(self, owner: str, run_id: str, after: int) -> bool:
        """Return whether events begin right behind `after`, the end of a page that was read. The answer may
        be a moment old. A look that finds nothing costs a quarter of an empty page."""
        ...


class RunCommands(Protocol):
    """Writes about a run by processes that do not hold it: `runs` accepts, cancels, and stores tokens;
    `recovery` starts successors. Every write is conditional: a late caller changes nothing, and learns so
    from the answer."""

    async def accept(
        self,
        run: RunMeta,
        head: ThreadHead,
        on_busy: OnBusy,
        request: RequestKey | None,
        sent: RequestKey | None = None,
        *,
        by: Actor | None = None,
        aside: SetAside | None = None,
    ) -> Accepted:
        """Accept a run in one transaction: the run's META, the thread claimed (or the run queued), the
        request key, and `sent`, the client's id of its input. `by`: who interrupts the active run, if
        anybody does. `aside`: the active run, which only waits: the
        new run takes the thread from it. Raises StaleHead if the head is not as given (for the end of the
        queue: if no run is active any more, or the queue has filled up), or the run that is set aside does
        not wait as given; ThreadBusy (on_busy REJECT and an active run, or as many runs are set aside as may
        be); LimitReached (queue full); Conflict (a key used with another body)."""
        ...

    async def start_queued(self, head: ThreadHead, aside: SetAside) -> str | None:
        """Give the thread of a run that only waits to the first queued run. Return its id: the caller starts
        its first execution. None: the thread or the waiting run has changed, or nothing is queued."""
        ...

    async def add_message(
        self,
        run: RunMeta,
        message: Message,
        request: RequestKey | None = None,
        sent: RequestKey | None = None,
    ) -> bool:
        """Add a message to a run that is not over; its next step reads it. Return False if one of the keys
        was used for it before. Raises StaleRun if the run has changed since it was read; Conflict (a key used
        with another body)."""
        ...

    async def find_request(self, owner: str, request: RequestKey, now: datetime) -> str | None:
        """Return the run that this request key made, if it is still valid and not the one that it replaces.
        Raises Conflict as `accept`."""
        ...

    async def sent_message(self, owner: str, thread_id: str, key: str) -> SentMessage | None:
        """Return what a client's id of a message stands for in this thread; None: no run was accepted under
        it."""
        ...

    async def request_cancel(
        self,
        owner: str,
        run_id: str,
        grace: timedelta = CANCEL_GRACE,
        by: Actor | None = None,
    ) -> RunMeta | None:
        """Set the cancel flag of a run that is not over; return the run with it. `grace`: the time for which
        running tools may go on. `by`: the person who cancels; without one, the person of an earlier request
        stays. `accept` also flags a run that it interrupts."""
        ...

    async def end_queued(self, run: RunMeta, outcome: Outcome, *events: Event) -> bool:
        """End a run that never started; it leaves its thread's queue, and its messages come behind the run at
        work, in their own branch if its caller chose one. False: it is not, or no longer, queued, or was sent
        a message since it was read."""
        ...

    async def store_token(
        self, owner: str, run_id: str, execution: str, key: str, attempt: int, token: str
    ) -> CallRecord | None:
        """Store the token on a call that waits undecided for this attempt, driven by this execution. Return
        None if it does not (decided, another attempt, run over): the caller then wakes its own branch."""
        ...

    async def owe(self, owner: str, run_id: str, debt: Debt) -> None:
        """Note what a run owes, for the next sweep."""
        ...

    async def start_successor(
        self, owner: str, run_id: str, execution: str | None, *, fresh: bool = False
    ) -> int | None:
        """Set the run's next execution, with epoch + 1, and return its number: the caller starts it. None:
        the run is over, or no longer driven by `execution`. `fresh`: it has all its attempts again, and
        records the time (`redriven_at`)."""
        ...

    async def reopen(self, run: RunMeta, head: ThreadHead, step: int) -> int | None:
        """Let a run that failed go on with this step: it has its thread again, all its attempts and a next
        execution, whose number is returned: the caller starts it. None: the run or its thread has changed
        since it was read."""
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
        rests: int | None = None,
    ) -> int | None:
        """Add to the events that the execution may have used of its history, and return their number. Above
        `limit`, the sweeper looks at the run at once. `fresh`: it has all its attempts again. `rests`: the
        epoch of the writer that leaves the run waiting. None: the run is over, or driven by another
        execution."""
        ...

    async def count_fault(self, owner: str, run_id: str, epoch: int) -> int:
        """Count a fault of the run's execution that came before anybody took the run, and return the number
        of such faults in a row: 0 for the first since a writer took it under this epoch."""
        ...

    async def mark_left(self, owner: str, run_id: str, takes: int) -> None:
        """Note that the process of the run's writer number `takes` ends, and has recorded the spans of its
        work. Nothing is noted if the run is over, or another writer has taken it."""
        ...

    async def mark_saved(self, owner: str, run_id: str, thread_id: str) -> None:
        """Record that a run that ended unsaved is in the database now."""
        ...


class Writers(Protocol):
    """The right to write a run. `runs` takes one to go on with it, `recovery` to end it. Taking a run raises
    its epoch, which fences earlier writers: they may only close calls that they opened, and add events."""

    async def acquire(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """Take the run for a turn: epoch + 1, attempts + 1. None: the run is over, somebody is about to end
        it, or another execution drives it. Raises AttemptsUsedUp at `MAX_ATTEMPTS`."""
        ...

    async def attach(self, owner: str, run_id: str, execution: str) -> RunLog | None:
        """Write as a branch (Resume), with others under the epoch of the turn that left the run. What it
        opens or settles is refused unless the run still rests under that epoch. None: the run is over, or
        another execution drives it."""
        ...

    async def seize(self, owner: str, run_id: str, ended_by: int | None = None) -> RunLog | None:
        """Take the run to end it (`runs.seizure`): epoch + 1, whichever writer drives it, never refused for
        attempts. `ended_by`: the epoch of a process that has taken it to end it, and whose time is over.
        None: the run is over or unknown. Raises BeingEnded while another process is about to end it."""
        ...


class Decisions(Protocol):
    """Calls that wait for a decision, for `approvals`. The first decision of an attempt wins, and the same
    write adds it to the audit."""

    async def page_pending(
        self, owner: str, thread_id: str | None, limit: int, cursor: str | None
    ) -> Page[OpenApproval]:
        """Return the owner's undecided calls, oldest first."""
        ...

    async def vote(
        self,
        run: RunMeta,
        call: CallRecord,
        votes: Sequence[Vote],
        decision: Decision,
        *events: Event,
    ) -> CallRecord:
        """Record `votes` in place of those of `call`, which stays undecided. `decision`: the one that the
        newest vote asks for, for the audit. Raises StaleCall, DecisionAlreadyMade."""
        ...

    async def decide(
        self,
        run: RunMeta,
        call: CallRecord,
        decision: Decision,
        *events: Event,
        votes: Sequence[Vote] | None = None,
    ) -> CallRecord:
        """Record the decision of a call that waits undecided, as it was read. Return the call; its token is
        the one to wake, and None if it has not stored one yet (it looks for a decision when it does).
        `votes`: those that settle the call, in place of those of `call`. Raises StaleCall,
        DecisionAlreadyMade (with `ids["token"]` never; the loser re-sends via `call`)."""
        ...

    async def amend(
        self, run: RunMeta, call: CallRecord, amended: CallRecord, *events: Event
    ) -> None:
        """Record what has become of the wait of `call`, which stays undecided: the fields of
        `wait_attributes` in which `amended` differs. Raises StaleCall, DecisionAlreadyMade."""
        ...


class Inbox(Protocol):
    """Calls of all owners that wait for members of groups, for `approvals`. Only a call's approvers may see
    the results, and the caller checks who asks."""

    async def page(
        self, groups: Collection[str], limit: int, cursor: str | None
    ) -> Page[InboxItem]:
        """Return calls that wait undecided for a member of any of these groups, oldest first."""
        ...

    async def owner_of(self, run_id: str) -> str | None:
        """Return the owner of a run that has asked people other than its owner; None for any other run."""
        ...


class Audit(Protocol):
    """Votes and decisions of all owners, for `approvals`. They outlive runs, threads and users. Only holders
    of the audit scope may see them, and the caller checks who asks."""

    async def page_rows(
        self, since: date | None, until: date | None, limit: int, cursor: str | None
    ) -> Page[AuditRow]:
        """Return all votes and decisions of these UTC days (both included; None: no bound), the oldest
        first."""
        ...


class Operations(Protocol):
    """Actions of operators, for `operate`: their rows, which live as long as the audit and which only holders
    of the audit scope may see, and the switch. The caller checks who asks."""

    async def open(self, row: OperationRow) -> str:
        """Write the row of an action that has had no effect yet. Return the row's key."""
        ...

    async def close(
        self, row: OperationRow, key: str, outcome: OperationOutcome, problem: str | None = None
    ) -> None:
        """Record what came of the action whose row has this key."""
        ...

    async def page_actions(
        self, since: date | None, until: date | None, limit: int, cursor: str | None
    ) -> Page[OperationRow]:
        """Return all actions of these UTC days (both included; None: no bound), the oldest first."""
        ...

    async def switch(self) -> Switch:
        """Return how the switch stands now. `Allowance.stopped` reads the same, a moment later."""
        ...

    async def stop(self, switch: Switch) -> Switch:
        """Turn the switch, unless it is turned already. Return how it stands."""
        ...

    async def start(self) -> None:
        """Turn the switch back. Nothing happens where it is off."""
        ...


class Overview(Protocol):
    """Runs of all owners, for `operate`, as far back as the records of runs that are over. The index behind
    it is a moment late: who shows a run reads it first. Only operators may see the results, and the caller
    checks who asks."""

    async def page(self, only: RunFilter, limit: int, cursor: str | None) -> Page[RunFacts]:
        """Return runs that pass the filter, the newest first: of those that are over, long names of agents
        and errors are compared by their beginning. A page may be short, and still have a next one."""
        ...

    async def read(self, facts: RunFacts) -> RunSnapshot | None:
        """Return the whole journal of a run of these lists, whoever owns it; None: it is gone."""
        ...

    async def find(self, run_ids: Collection[str]) -> Mapping[str, RunFacts]:
        """Return those of these runs that there are, by their ids, whoever owns them."""
        ...

    async def tally(self, since: datetime, limit: int) -> Tally:
        """Return the runs that are not over, and those that are and began since then, the newest first;
        `limit` of each at most."""
        ...


class FeedbackBook(Protocol):
    """Feedback of users on their runs, for `runs` and the export. It stays when the records of a run expire,
    and goes with the thread. `page` has that of all owners: only operators may see it, and the caller checks
    who asks."""

    async def put(self, feedback: RunFeedback) -> bool:
        """Keep it in place of earlier feedback on the run. False: there is no such thread, or it is
        deleted, and nothing was kept."""
        ...

    async def remove(self, owner: str, thread_id: str, run_id: str) -> bool:
        """Take the feedback on a run away, if there is any. False: there is no such thread, or it is
        deleted."""
        ...

    async def get(self, owner: str, thread_id: str, run_id: str) -> Feedback | None:
        """Return the feedback on one run."""
        ...

    async def of_runs(
        self, owner: str, thread_id: str, run_ids: Collection[str]
    ) -> Mapping[str, Feedback]:
        """Return the feedback on these runs by their ids, in one read."""
        ...

    async def page_thread(
        self, owner: str, thread_id: str, limit: int, cursor: str | None
    ) -> Page[RunFeedback]:
        """Return all feedback on the runs of a thread, in the order of the runs' ids."""
        ...

    async def page(
        self, since: datetime | None, limit: int, cursor: str | None
    ) -> Page[RunFeedback]:
        """Return the feedback of all owners since this time, the oldest first. A page may have fewer items
        than its limit and not be the last; the very newest may be missing."""
        ...


class Erasure(Protocol):
    """The path of a thread from its deletion to its last record. `threads` marks it, `retention` erases it,
    at once or in a sweep. Each step may be repeated; the sweeper repeats what a death cut off."""

    async def mark_deleted(
        self, owner: str, thread_id: str, *, forget_profile: bool = False
    ) -> None:
        """Delete the thread's title, and let it accept no further runs. A thread that is not there stays so.
        `forget_profile`: a flag for the eraser."""
        ...

    async def mark_unused_deleted(self, head: ThreadHead) -> bool:
        """Delete a thread as it was read. Return False if it has been used or changed since: it stays."""
        ...

    async def erase_runs(self, owner: str, thread_id: str) -> None:
        """Delete the records of a deleted thread's runs, the clients' ids of its messages, and the feedback
        on its runs."""
        ...

    async def erase_bodies(self, owner: str, thread_id: str) -> None:
        """Delete the objects in S3 of a deleted thread's runs. They are below `Keys.bodies`, where the caller
        may see that there are none."""
        ...

    async def mark_purged(self, owner: str, thread_id: str, again_at: datetime) -> None:
        """Record that a deleted thread is empty now. The sweeper looks for late writes at `again_at`."""
        ...

    async def erase_late(self, owner: str, thread_id: str) -> None:
        """Delete the records of runs that `erase_runs` has missed, and those that unstoppable writers have
        written to runs after these were erased."""
        ...

    async def finish(self, owner: str, thread_id: str) -> None:
        """Record that a deleted thread has only its tombstone left, so that the sweeper need not look
        again."""
        ...

    async def reschedule(self, owner: str, thread_id: str, at: datetime) -> None:
        """Let the sweeper look at a deleted thread that is not erased yet at this time, after everything that
        is due earlier. A thread that another sweep has erased since stays erased."""
        ...

    async def page_deleted(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """Return a page of deleted threads."""
        ...

    async def remove_tombstone(self, owner: str, thread_id: str) -> bool:
        """Remove the tombstone of a deleted thread. Return False if it is not erased yet."""
        ...

    async def erase_run(self, owner: str, thread_id: str, run_id: str) -> None:
        """Delete the records of one run whose time is over, then its objects in S3."""
        ...


class Expiry(Protocol):
    """The time to live of a run's records, for `records.lifetimes`, which serves those who end a run or find
    one that takes long. No record of a run that is not over expires (docs/saved-writes.md#expiry)."""

    async def set_ttl(
        self, owner: str, run_id: str, expires_at: datetime, paid: frozenset[str] = frozenset()
    ) -> None:
        """Give the records of a run that is over (and saved) their time to live; the sweeper need
        not look at it again, unless the run owes more than what was `paid`. Repeatable."""
        ...

    async def keep_records(self, owner: str, run_id: str, *, for_good: bool = False) -> None:
        """Remove the expiry from the records of a run that is not over. `for_good`: no writer is left that
        sets one."""
        ...


class Watch(Protocol):
    """The sweeper's next looks at runs, deleted threads and connections, of all owners. Only `recovery.sweep`
    asks. Where more is due than asked for, each owner gets a turn, and so do connections."""

    async def due(
        self, until: datetime, limit: int, past: Collection[DueCheck] = ()
    ) -> list[DueCheck]:
        """Return the runs and connections that have to be looked at by then; at most `limit` for each
        partition of the watch, and none of those looked at in the `past`. Threads that a release before this
        one deleted are among them."""
        ...

    async def deletions(
        self, until: datetime, limit: int, past: Collection[DueCheck] = ()
    ) -> list[DueCheck]:
        """Return the deleted threads that have to be erased by then, as `due`."""
        ...

    async def reschedule(
        self,
        due: DueCheck,
        at: datetime,
        *,
        lost_at: datetime | None = None,
        paid: frozenset[str] = frozenset(),
        is_told: bool = False,
    ) -> bool:
        """Set the time of the next look at what was looked at. Return False, and change nothing, if another
        look was requested since it was read, such as the one at once after a decision, or if none is needed
        any more.

        Args:
            due: As it was read.
            at: The time of the next look.
            lost_at: Of a run: the time since which nothing drives it.
            paid: Of a run: what it does not owe any more.
            is_told: Of a run: the bus knows of its end.
        """
        ...

    async def put_off(self, due: DueCheck, at: datetime) -> None:
        """Set the time of the next look after one that failed, as `reschedule`."""
        ...


class Dues(Protocol):
    """Data of all owners that may have outlived its use. Whoever makes such data schedules a look at it;
    `retention` asks for overdue data and decides what happens to it."""

    async def schedule(self, owner: str, kind: DueKind, name: str, at: datetime) -> None:
        """Have the sweeper look at this then. An earlier look that was requested stays."""
        ...

    async def overdue(self, until: datetime, limit: int) -> list[Due]:
        """Return the data that the sweeper has to look at by then, the owners in turn, the oldest of each
        first."""
        ...

    async def of(self, owner: str, kind: DueKind | None = None) -> list[Due]:
        """Return everything of an owner (of one kind) that the sweeper is to look at, as of now."""
        ...

    async def reschedule(self, due: Due, at: datetime) -> None:
        """Look again at this time, because the data is still in use. A look that was requested since it was
        read stays."""
        ...

    async def put_off(self, due: Due, at: datetime) -> None:
        """Look again at this time, because the look failed, as `reschedule`."""
        ...

    async def remove(self, due: Due) -> None:
        """Stop looking: the data no longer exists, or stays for good."""
        ...


# Without generated comparison and text: nobody needs them, and they cost a cold start as much as the class.
@dataclass(frozen=True, eq=False, repr=False)
class Journal:
    """The parts of one journal, over one table. `replace` puts another part in the place of one:

    ```python
    quiet = replace(journal, inbox=EmptyInbox())
    ```
    """

    heads: Heads
    runs: Runs
    events: RunEvents
    commands: RunCommands
    writers: Writers
    decisions: Decisions
    inbox: Inbox
    audit: Audit
    operations: Operations
    overview: Overview
    feedback: FeedbackBook
    erasure: Erasure
    expiry: Expiry
    watch: Watch
    dues: Dues
