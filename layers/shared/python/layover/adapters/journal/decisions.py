"""Decisions about calls that wait: the first one wins, and its transaction also writes it to the audit."""

from collections.abc import Sequence
from typing import Any

from layover.adapters.journal.audit import TableAudit
from layover.adapters.journal.backing import Backing
from layover.adapters.journal.inbox import TableInbox
from layover.adapters.journal.items.calls import change_call
from layover.adapters.journal.items.index import check_cursor
from layover.adapters.journal.items.records import votes_text, wait_attributes
from layover.adapters.journal.log.events import EventLog
from layover.adapters.journal.runs import TableRuns
from layover.clock import rfc3339
from layover.errors import DecisionAlreadyMade, NotFound
from layover.keys import META, Keys
from layover.ports import StaleCall
from layover.ports.table import Action, Equals, TransactionFailed, Update
from layover.values.decision import Vote
from layover.values.page import Page
from layover.values.runs.audit import AuditRow
from layover.values.runs.debts import Debt, DebtKind
from layover.values.runs.event import Event
from layover.values.runs.run import CallRecord, CallState, Decision, RunMeta, Status
from layover.values.runs.views import OpenApproval

_CALL, _META = 0, 1
"""The positions of the call's item and of META in a transaction."""
_PENDING = "A#"
"""The prefix in the owner's index of calls that wait undecided."""


class TableDecisions:
    """`Decisions`: conditional writes for callers that decide, never for a run's own writer."""

    def __init__(
        self, backing: Backing, runs: TableRuns, audit: TableAudit, inbox: TableInbox
    ) -> None:
        self._backing = backing
        self._table = backing.table
        self._bodies = backing.bodies
        self._clock = backing.clock
        self._runs = runs
        self._audit = audit
        self._inbox = inbox

    async def page_pending(
        self, owner: str, thread_id: str | None, limit: int, cursor: str | None
    ) -> Page[OpenApproval]:
        """See `ports.Decisions`."""
        after = check_cursor(_PENDING, cursor)
        open_calls: list[OpenApproval] = []
        more = True
        while more:
            page = await self._table.query_index(
                Keys(owner).partition, _PENDING, limit=limit + 1, forward=True, after=after
            )
            more = len(page) > limit
            for item in page:
                # The index projects the bodies of waiting calls, so a page needs no read of the items.
                if len(open_calls) == limit:
                    return Page(items=tuple(open_calls), next_cursor=after)
                after = item["gsi1sk"]
                if thread_id is None or item["thread_id"] == thread_id:
                    open_calls.append(await self._runs.approval_of(item))
        return Page(items=tuple(open_calls), next_cursor=None)

    async def decide(
        self,
        run: RunMeta,
        call: CallRecord,
        decision: Decision,
        *events: Event,
        votes: Sequence[Vote] | None = None,
    ) -> CallRecord:
        """See `ports.Decisions`. The call leaves every list of waiting calls."""
        _check_waits(run, call)
        keys, now = Keys(run.owner), rfc3339(self._clock.now())
        folder = keys.bodies(run.thread_id, run.id)
        packed = await self._bodies.pack_value(folder, decision.model_dump_json())
        # Remove it from the owner's index and from the approvers' index. Lists show only what is in one of
        # them.
        left = dict.fromkeys(("gsi1pk", "gsi1sk", "gsi2pk", "gsi2sk"))
        vote = await self._write_vote(folder, call, votes)
        settles = change_call(keys.run(run.id), call, {"decision": packed, **left, **vote})
        # Due at once, and owed: if this process dies before it tells the bus and answers the token, the
        # sweeper does both. The run must be running, whatever its epoch: whoever decides is not a writer of
        # the run, and fences nobody.
        meta = Update(
            keys.run(run.id),
            META,
            set={"updated_at": now, "gsi2sk": now},
            include={"decided": call.key, "owed": _owed(DebtKind.DECIDED, call)},
            exclude={"waiting": call.key},
            when=Equals("status", Status.RUNNING.value),
        )
        # In the same transaction, so that no decision counts that the audit lacks.
        row = await self._audit.put(AuditRow.of(run, call, decision))
        try:
            await self._write(run, [settles, meta, row], events)
        except TransactionFailed as failure:
            raise _refusal_of(run, call, failure) from failure
        # The token is read after the decision is written. Either it exists by then, or the process that
        # stores it later sees the decision.
        return await self._call(run, call)

    async def vote(
        self,
        run: RunMeta,
        call: CallRecord,
        votes: Sequence[Vote],
        decision: Decision,
        *events: Event,
    ) -> CallRecord:
        """See `ports.Decisions`."""
        _check_waits(run, call)
        keys, now = Keys(run.owner), rfc3339(self._clock.now())
        vote = await self._write_vote(keys.bodies(run.thread_id, run.id), call, votes)
        counts = change_call(keys.run(run.id), call, vote)
        running = Equals("status", Status.RUNNING.value)
        meta = Update(
            keys.run(run.id),
            META,
            set={"updated_at": now},
            include={"owed": _owed(DebtKind.VOTED, call)},
            when=running,
        )
        row = await self._audit.put(AuditRow.of(run, call, decision, settled=False))
        try:
            await self._write(run, [counts, meta, row], events)
        except TransactionFailed as failure:
            raise _refusal_of(run, call, failure) from failure
        voted_call = await self._call(run, call)
        meta_now = await self._runs.get(run.owner, run.id)
        # Notify here, because a vote does not wake a process that would deliver its event.
        self._backing.sink.notify(run.owner, run.id, meta_now.sockets if meta_now else ())
        return voted_call

    async def amend(
        self, run: RunMeta, call: CallRecord, amended: CallRecord, *events: Event
    ) -> None:
        """See `ports.Decisions`."""
        _check_waits(run, call)
        keys, now = Keys(run.owner), rfc3339(self._clock.now())
        before, after = wait_attributes(call), wait_attributes(amended)
        changes = {name: value for name, value in after.items() if value != before[name]}
        owes = {}
        if "escalated" in changes:
            # Its new approvers find it from the same write on, and are told of it after that.
            changes |= await self._inbox.place(run, amended, amended.rule)
            owes = {"owed": _owed(DebtKind.ESCALATED, call)}
        wait = change_call(keys.run(run.id), call, changes)
        running = Equals("status", Status.RUNNING.value)
        meta = Update(keys.run(run.id), META, set={"updated_at": now}, include=owes, when=running)
        try:
            await self._write(run, [wait, meta], events)
        except TransactionFailed as failure:
            raise _refusal_of(run, call, failure) from failure
        meta_now = await self._runs.get(run.owner, run.id)
        # Notify here, because this does not wake a process that would deliver its event.
        self._backing.sink.notify(run.owner, run.id, meta_now.sockets if meta_now else ())

    async def _call(self, run: RunMeta, call: CallRecord) -> CallRecord:
        """Return the call as it is now. Raises NotFound: its thread was deleted meanwhile."""
        call_now = await self._runs.call(run.owner, run.id, call.key)
        if call_now is None:
            raise NotFound("there is no such run", run_id=run.id)
        return call_now

    async def _write_vote(
        self, folder: str, call: CallRecord, votes: Sequence[Vote] | None
    ) -> dict[str, Any]:
        if votes is None:
            return {}
        packed = await self._bodies.pack_value(folder, votes_text(votes))
        return {"votes": packed, "voted": call.voted + 1}

    async def _write(self, run: RunMeta, facts: list[Action], events: tuple[Event, ...]) -> None:
        """Write the facts, with their events at the end of the run's log. Raises TransactionFailed."""
        keys = Keys(run.owner)
        folder = keys.bodies(run.thread_id, run.id)
        log = EventLog(self._backing, keys, run.id, folder)
        body = await log.body(list(events))
        while True:
            next_seq, is_closed = await log.tail()
            if is_closed:
                raise DecisionAlreadyMade("the run is over", run_id=run.id)
            try:
                # A batch without events would occupy the seq of the next batch forever. The batch has no
                # expiry, as no record of a waiting run has.
                log_actions = [log.batch(body, next_seq)] if events else []
                return await self._table.transact(
                    [*facts, *log_actions], self._backing.dice.hex(16)
                )
            except TransactionFailed as failure:
                # Only another batch is in the way, so the facts go after it.
                if set(failure.failed) != {len(facts)}:
                    raise


def _owed(kind: DebtKind, call: CallRecord) -> str:
    return str(Debt(kind, call.attempt, call.key))


def _check_waits(run: RunMeta, call: CallRecord) -> None:
    if not call.undecided:
        raise _refusal(run)


def _refusal_of(run: RunMeta, call: CallRecord, failure: TransactionFailed) -> Exception:
    """Return the error to raise: StaleCall if the call still waits undecided for this attempt."""
    old = failure.failed.get(_CALL)
    if _META in failure.failed or old is None or "decision" in old:
        return _refusal(run)
    waits = (old["state"], old["attempt"]) == (CallState.WAITING.value, call.attempt)
    return StaleCall() if waits else _refusal(run)


def _refusal(run: RunMeta) -> DecisionAlreadyMade:
    return DecisionAlreadyMade("the call is decided already, or does not wait", run_id=run.id)
