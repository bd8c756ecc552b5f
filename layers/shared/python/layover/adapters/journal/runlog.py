"""One writer's access to a run's journal (`ports.RunLog`): every fact and its events in one transaction.

This module has the facts and their conditions; `log.writer` orders the writes. Two conditions carry
everything (docs/adr/0002-epochs-and-conditional-writes.md): META is running, under this writer's epoch and in
a phase in which it may act; a call is as this writer read it, or last wrote it (`items.calls`)."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from layover.adapters.journal.audit import TableAudit
from layover.adapters.journal.backing import Backing
from layover.adapters.journal.expiry import RecordExpiry, is_in_s3, owes_at_most
from layover.adapters.journal.followers.watchers import Watchers
from layover.adapters.journal.heads import (
    QueueHandover,
    as_it_waits,
    as_read,
    set_aside,
    set_aside_changes,
)
from layover.adapters.journal.inbox import TableInbox
from layover.adapters.journal.items.calls import put_call
from layover.adapters.journal.items.places import place_in_lists
from layover.adapters.journal.items.records import (
    call_body,
    outcome_text,
    step_body,
    votes_text,
    wait_attributes,
)
from layover.adapters.journal.log.events import EventLog
from layover.adapters.journal.log.writer import LogWriter, TtlNotSet
from layover.adapters.journal.runs import TableRuns
from layover.clock import from_rfc3339, rfc3339
from layover.context.call_ends import end_events, turn_end
from layover.context.transcript import own_steps
from layover.errors import Fenced
from layover.keys import HEAD, META, Keys, path_of, said_key
from layover.ports import CancelRequest, Ended, SetAside, Unheard
from layover.ports.table import (
    Action,
    Check,
    Condition,
    Equals,
    Exists,
    Missing,
    Put,
    TransactionFailed,
    Update,
    all_of,
    any_of,
    same,
)
from layover.values.message import Message
from layover.values.runs.audit import AuditRow
from layover.values.runs.debts import WAKE_CUT, Debt, DebtKind
from layover.values.runs.event import Event
from layover.values.runs.provider_wait import ProviderWait
from layover.values.runs.run import (
    CallRecord,
    CallState,
    DecisionKind,
    Outcome,
    Phase,
    RunMeta,
    RunSnapshot,
    Status,
    StepRecord,
)
from layover.values.thread import ThreadHead


class TableRunLog:
    """`RunLog` under the epoch of `snapshot.meta`."""

    def __init__(
        self,
        backing: Backing,
        snapshot: RunSnapshot,
        *,
        audit: TableAudit,
        inbox: TableInbox,
        runs: TableRuns,
        next_seq: int | None,
        head: ThreadHead | None,
        is_branch: bool = False,
    ) -> None:
        meta = snapshot.meta
        self._is_branch = is_branch
        self._bodies = backing.bodies
        self._clock = backing.clock
        self._handover = QueueHandover(backing)
        self._audit = audit
        self._inbox = inbox
        self._table = backing.table
        self._runs = runs
        self._snapshot = snapshot
        self._head = head
        # As far as this writer has seen META: the snapshot may have fewer.
        self._said = meta.said
        self._owed, self._paid = meta.owed, frozenset[str]()
        self._keys = Keys(meta.owner)
        self._pk = self._keys.run(meta.id)
        self._folder = self._keys.bodies(meta.thread_id, meta.id)
        self._expiry = RecordExpiry(meta, self._pk, backing.clock, backing.dice)
        # The epoch does not identify a writer, because those that attach (Resume) share it.
        self._opener = f"{meta.epoch}.{backing.dice.hex(6)}"
        # Whether a write of this writer has reset the attempts. Once is enough, see `close_call`.
        self._progressed = False
        # The step that ended last. META lacks it until its next write, because calls' marks record it.
        self._progress = _marked_end(snapshot)
        self._watchers = Watchers(backing.sink, meta)
        self._writer = LogWriter(
            backing.table,
            meta,
            log=EventLog(backing, self._keys, meta.id, self._folder),
            expiry=self._expiry,
            watchers=self._watchers,
            next_seq=next_seq,
            dice=backing.dice,
        )

    @property
    def snapshot(self) -> RunSnapshot:
        """The run's journal at the time when this writer took the run."""
        return self._snapshot

    @property
    def head(self) -> ThreadHead | None:
        """The thread's head, read when this writer took the run."""
        return self._head

    @property
    def opener(self) -> str:
        """This writer's name on the calls that it opens."""
        return self._opener

    @property
    def owed(self) -> frozenset[str]:
        """See `ports.RunLog`."""
        return self._owed - self._paid

    def pay(self, paid: frozenset[str]) -> None:
        """Note what is not owed any more. The next writes of META say so."""
        self._paid |= paid

    def emit(self, *events: Event) -> None:
        """Add events. They become durable with the next fact or `flush`."""
        self._writer.emit(*events)

    async def flush(self) -> bool:
        """Write the events emitted so far, if this writer still holds the run."""
        return await self._writer.flush()

    async def has_begun(self) -> bool:
        """Return whether the run has any event yet."""
        return await self._writer.has_begun()

    async def put_step(
        self,
        step: StepRecord,
        *events: Event,
        is_complete: bool = False,
        open_calls: Sequence[CallRecord] = (),
        heard: int | None = None,
    ) -> None:
        """Journal a model call. The count of attempts starts again."""
        body = await self._bodies.pack(self._folder, step_body(step))
        nested = bool(path_of(step.key))
        item = {**body, "ended": True} if is_complete and nested else body
        # A journaled step is never executed again, so it is never written again, whoever wrote it.
        put = Put(self._pk, step.key, item, when=Missing("pk"))
        # A writer that calls the model again has ended all earlier steps.
        progress = {} if nested else {"step_ended": step.index - (not is_complete)}
        meta = self._meta({"attempts": 0, **progress}, heard=heard)
        facts = [put, meta, *await self._opening(open_calls, events)]
        await self._write_if(heard, facts, events)
        self._progressed = True
        if not nested:
            # META is now ahead of the call's mark, and the end of the run must not set it back.
            self._progress = {}

    async def end_step(self, step: StepRecord, *events: Event) -> None:
        """Journal that a step whose calls were settled by other writers is complete."""
        progress, marks = self._end_step(step)
        await self._writer.write([self._meta(progress), *marks], events)

    def _end_step(self, step: StepRecord | None) -> tuple[dict[str, Any], list[Action]]:
        """META's changes and the writes that record a step's end. A sub-agent's step records its own."""
        if step is None or not path_of(step.key):
            return {"step_ended": step.index} if step else {}, []
        return {}, [Update(self._pk, step.key, set={"ended": True}, when=Exists("pk"))]

    async def hand_over(self, agent: str, definition: str, *events: Event) -> None:
        """Journal that the run and its thread belong to another agent from here on."""
        meta = self._snapshot.meta
        # HEAD as well, because a queued run takes its agent from there when it starts.
        mine = Equals("active_run", meta.id)
        head = Update(self._keys.thread(meta.thread_id), HEAD, set={"agent": agent}, when=mine)
        facts = self._meta({"agent": agent, "definition": definition})
        await self._writer.write([facts, head], events)

    async def redefine(self, definition: str, *events: Event) -> None:
        """Journal that the run goes on under another definition."""
        await self._writer.write([self._meta({"definition": definition})], events)

    async def wait_for_compaction(self, index: int) -> None:
        """Journal that the run yields for its compaction before step `index`."""
        before = self._snapshot.meta.compacted_for
        await self._writer.write([self._meta({"compacted_for": index, "compacted_before": before})])

    async def pause(self, wait: ProviderWait, *events: Event) -> None:
        """Journal that the run waits for a provider that is away."""
        changes = {"away": wait.model_dump_json(), "updated_at": rfc3339(self._clock.now())}
        await self._writer.write([self._meta(changes)], events)

    async def open_calls(
        self, calls: Sequence[CallRecord], *events: Event, heard: int | None = None
    ) -> None:
        """Open calls in one transaction, before they run. Each is given in its journaled state."""
        # Only `settle` opens decided calls, one at a time. META no longer lists the call as decided, in the
        # same transaction, or the sweeper would wake it again.
        waiting_call = next((c for c in calls if c.state is CallState.WAITING), None)
        # META lists a tool that a branch runs, so that nobody takes the run for one that only waits. What a
        # sub-agent does is the next turn's work.
        begins = calls[0].key if self._is_branch and calls[0].child is None else None
        fence: Action = Check(self._pk, META, self._fence_if(heard))
        if waiting_call or begins:
            fence = self._meta({}, waiting_call, begins=begins, heard=heard)
        await self._write_if(heard, [fence, *await self._opening(calls, events)], events)

    async def _write_if(
        self, heard: int | None, facts: list[Action], events: Sequence[Event]
    ) -> None:
        """Write, unless the run was sent more messages than those that were heard: a condition of the write,
        which costs no request. Raises Unheard."""
        if heard is not None and heard < self._said:
            raise Unheard
        try:
            await self._writer.write(facts, events)
        except Fenced:
            if heard is None:
                raise
            self._said = int((await self._writer.look()).get("said", 0))
            if self._said == heard:
                raise
            raise Unheard from None

    async def _opening(self, calls: Sequence[CallRecord], events: Sequence[Event]) -> list[Action]:
        """Return the writes that open the calls of a window."""
        # 40 calls at most, and a row of the audit for each: with META, a step and a batch of events, that is
        # 83 of the 100 actions that a transaction may have.
        items = await self._items_of(calls, CallState.OPEN)
        rows = await self._audit.hook_rows(self._snapshot.meta, calls, events)
        pairs = zip(calls, items, strict=True)
        return [*rows, *(self._put(c, i) for c, i in pairs)]

    async def close_call(
        self,
        call: CallRecord,
        *events: Event,
        ended_step: StepRecord | None = None,
        wait: bool = True,
    ) -> None:
        """Record a settled call. The run has progressed: attempts start again."""
        [item] = await self._items_of([call], CallState.SETTLED)
        meta_changes, marks = self._end_step(ended_step)
        if meta_changes:
            # Whoever takes the run reads META before the records, and so perhaps before this write.
            item["ends"] = True
        is_mine = call.state is CallState.OPEN and call.opener == self._opener
        if is_mine and self._progressed and events and not self._is_branch:
            # META stays unchanged: it has nothing new, and is not needed as a fence. The call's own condition
            # names its opener, and the end of a run first settles its calls, and closes its log. The next
            # step, or the end, records in META that the step ended.
            self._progress |= meta_changes
        elif is_mine:
            # Without the epoch, because a writer that was fenced off may still record the result of the tool
            # that it ran. Without that result, the call would be in doubt.
            progress = {"attempts": 0, **meta_changes}
            running, left = Equals("status", "running"), self._left_by(call)
            marks.append(Update(self._pk, META, set=progress, exclude=left, when=running))
        else:
            # The call is planned, decided, or open by a dead writer. Only the holder of the run may settle
            # it.
            marks.append(self._meta({"attempts": 0, **meta_changes}, call))
        put = self._put(call, item)
        write = self._writer.write if wait else self._writer.begin
        await write([put, *marks], events)
        self._progressed = True

    async def catch_up(self) -> None:
        """Write the events of the last call's end, if the previous writer died between the two writes."""
        # No other end can lack its events, since each later step was written after the events of the previous
        # step.
        steps = own_steps(self._snapshot)
        newest = steps[-1].key if steps else None
        calls = {c.key: c for c in self._snapshot.calls if c.key.rpartition("#CALL#")[0] == newest}
        for call in calls.values():
            if call.log_seq is not None:
                at = call.settled_at or self._clock.now()
                events = [*end_events(steps[-1], call, at), turn_end(steps[-1], calls, at)]
                fence = Check(self._pk, META, self._fence())
                await self._writer.log_end(call, events, fence)

    async def wait(self) -> None:
        """Wait for the write that `close_call` did not wait for."""
        await self._writer.wait()

    async def suspend_calls(self, calls: Sequence[CallRecord], *events: Event) -> None:
        """Journal that calls wait: attempt, payload and expiry are new, token and decision are removed.
        Before that, the records of the run lose their expiry."""
        # Before anything waits, possibly for a year. A death after this leaves a run that does not wait yet,
        # and its next attempt repeats all of it.
        await self._writer.keep_records()
        run = self._snapshot.meta
        bodies = await self._bodies_of(calls)
        rules = [call.suspension.approval if call.suspension else None for call in calls]
        pairs = zip(calls, rules, strict=True)
        places = [await self._inbox.place(run, call, rule) for call, rule in pairs]
        puts: list[Action] = []
        for call, body, place in zip(calls, bodies, places, strict=True):
            if call.suspension is None:
                raise ValueError("a call that waits needs a suspension")
            requested = rfc3339(call.suspension.requested_at)
            # The whole item is new, which removes the token and the decision of the previous attempt.
            item = {
                **body,
                "state": CallState.WAITING.value,
                "attempt": call.attempt + 1,
                "thread_id": run.thread_id,
                "agent": run.agent,
                "taken_back_at": wait_attributes(call)["taken_back_at"],
                "gsi1pk": self._keys.partition,
                "gsi1sk": f"A#{requested}#{run.id}#{call.key}",
                **place,
            }
            puts.append(self._put(call, item))
        changes: dict[str, Any] = {"updated_at": rfc3339(self._clock.now()), "attempts": 0}
        if run.records_expire_at is not None:
            changes["records_kept"] = True
        if any(c.suspension and c.suspension.has_timers for c in calls):
            # The sweeper looks at once, and knows then when to look again: it may have put off its look at
            # this run for an hour, because another call waits.
            changes["gsi2sk"] = changes["updated_at"]
        # One that was decided and is not taken up (its tool would run with other arguments than were
        # approved), or that a branch has opened.
        earlier = next((c for c in calls if c.state is not CallState.PLANNED), None)
        if any(places):
            puts.append(self._inbox.pointer(run))
            changes["pointed"] = True
        # Added to the set, which must not be replaced, because decisions remove other calls at the same time.
        waits = Update(
            self._pk,
            META,
            set=changes,
            include={"waiting": frozenset(c.key for c in calls)},
            exclude=self._exclude(earlier),
            when=self._fence(),
        )
        await self._writer.write([*puts, waits], events)

    async def cancel_calls(
        self, calls: Sequence[CallRecord], *events: Event, more_follow: bool = False
    ) -> None:
        """Settle calls as they are given. Raises Fenced also if one is no longer as it was read (its opener
        closes it without an epoch, and so does whoever decides): read the run again then; what was settled
        stays."""
        # With META, and a row of the audit for each, MAX_CANCELLED calls fit into a transaction.
        changes = {} if more_follow else {"waiting": None, "decided": None}
        owes = frozenset(debt for call in calls for debt in _debts_of_cut(call))
        actions: list[Action] = [self._meta(changes, owes=owes)]
        items = await self._items_of(calls, CallState.SETTLED)
        for call, item in zip(calls, items, strict=True):
            # The token stays, for whoever wakes the branch.
            actions.append(put_call(self._pk, call, {**item, "token": call.token}))
            if call.decision is not None and call.decision.kind is DecisionKind.CANCELLED:
                # The call waited undecided, so the cancel is the decision.
                row = AuditRow.of(self._snapshot.meta, call, call.decision)
                actions.append(await self._audit.put(row))
        await self._writer.write(actions, events)
        self._owed |= owes

    async def take_thread(self, head: ThreadHead, aside: SetAside | None = None) -> bool:
        """Take the thread back; see `ports.RunLog`."""
        meta = self._snapshot.meta
        leaf = aside.leaf_id if aside else head.leaf_id
        changes: dict[str, Any] = {
            **(set_aside_changes(head, aside) if aside else {}),
            "active_run": meta.id,
            "ready": [r for r in head.ready if r != meta.id] or None,
        }
        waiting = changes.get("waiting_runs", head.waiting_runs)
        changes["waiting_runs"] = [r for r in waiting if r != meta.id] or None
        takes = Update(self._keys.thread(head.id), HEAD, set=changes, when=as_read(head))
        fact = self._meta({"ready": None, "hears": leaf})
        try:
            await self._writer.write([fact, takes, *([set_aside(aside)] if aside else [])])
        except TransactionFailed:
            return False
        hears = meta.model_copy(update={"hears": leaf, "ready": False})
        self._snapshot = self._snapshot.model_copy(update={"meta": hears})
        return True

    async def wait_for_thread(self, head: ThreadHead, busy: RunMeta) -> bool:
        """Wait for the end of the run at work; see `ports.RunLog`."""
        meta = self._snapshot.meta
        if meta.id in head.ready:
            return True
        joins = Update(
            self._keys.thread(head.id),
            HEAD,
            append={"ready": meta.id},
            when=as_read(head),
        )
        # Still at work as read: a run that waits since has looked for runs that are ready, and did not find
        # this one.
        at_work = Check(self._keys.run(busy.id), META, as_it_waits(busy))
        # Nothing drives it until then, and the sweeper looks whether that is missed.
        try:
            await self._writer.write([self._meta({"ready": True}), joins, at_work])
        except TransactionFailed:
            return False
        return True

    async def new_messages(self, number: int) -> tuple[Message, ...]:
        """The messages from number `number` + 1 on; see `ports.RunLog`."""
        if self._said <= number:
            return ()
        low, high = said_key(number + 1), said_key(self._said)
        items = await self._table.query(self._pk, low, high)
        self._expiry.is_only_writer = False
        messages = [await self._runs.said_of(item) for item in items]
        self._snapshot = self._snapshot.model_copy(
            update={"said": (*self._snapshot.said[:number], *messages)}
        )
        return tuple(messages)

    async def cancel_requested(self) -> CancelRequest | None:
        """The cancellation that was requested, if any. Raises Fenced if another writer took the run."""
        item = await self._writer.look()
        self._said = int(item.get("said", 0))
        if not item.get("cancel"):
            return None
        at = from_rfc3339(item["cancel_at"])
        grace = from_rfc3339(item["tools_until"]) - at
        person = {"by": item.get("cancel_by"), "on_behalf_of": item.get("cancel_for")}
        return CancelRequest(self._clock.now() - at, grace, **person)

    async def end(
        self,
        outcome: Outcome,
        *events: Event,
        head: ThreadHead | None = None,
        retention: timedelta | None = None,
        untold: bool = False,
    ) -> Ended:
        """Write the end: META is over, HEAD is handed on, and the last events."""
        at = self._clock.now()
        text = outcome_text(outcome)
        over = {
            **self._progress,
            "status": outcome.status.value,
            "outcome": await self._bodies.pack_value(self._folder, text),
            "updated_at": rfc3339(at),
            "waiting": None,
            "decided": None,
            "saved": None if outcome.saved else False,
            "untold": untold or None,
            "unplaced": outcome.unplaced,
            **({"loose_at": rfc3339(outcome.loose_at)} if outcome.loose_at else {}),
        }
        # TTL knows nothing of S3, so a run with an outcome there stays in the watch index.
        expires = int((at + retention).timestamp()) if retention and not is_in_s3(over) else None
        while True:
            # First with the head that the turn has read, which saves a read. The condition contains
            # everything that the plan depends on, so that a changed head fails the whole transaction.
            handover = await self._handover.plan(self._snapshot.meta, outcome, head)
            next_run = handover.next_run
            next_id, next_n = (next_run.id, next_run.n) if next_run else (None, 1)
            head = None
            # Retired with the end only if nothing is left to do, so that a death afterwards loses nothing:
            # all records expire by themselves, nobody has to be told of anything, and no socket follows the
            # run and waits for its end.
            sets_ttl = (
                expires is not None
                and not untold
                and not self.owed
                and self._expiry.covers(expires)
                and self._watchers.has_none
            )
            leaves: dict[str, Any]
            if sets_ttl:
                leaves = {"expires": expires, **self._place(outcome.status, text)}
            else:
                # Due at once: if this process dies now, the sweeper makes sure that the run is saved and its
                # records retired.
                leaves = {"gsi2sk": rfc3339(at)}
            try:
                end = {**over, **leaves, **handover.facts}
                facts = [self._meta(end, is_end=True, retires=sets_ttl), *handover.actions]
                await self._writer.write(facts, events, last=True, sets_ttl=sets_ttl)
                connections = self._watchers.connections
                return Ended(
                    at,
                    next_run=next_id,
                    next_n=next_n,
                    sockets=connections,
                    retired=sets_ttl,
                    owed=self.owed,
                )
            except (TtlNotSet, TransactionFailed):
                # A socket began to follow the run, or the head or the next queued run has changed since the
                # read. The run is still ours (otherwise: Fenced), so its end is planned again.
                continue

    def _place(self, status: Status, outcome: str) -> dict[str, Any]:
        """Return the attributes that move META from the sweeper's list to that of runs that are over."""
        meta = self._snapshot.meta
        facts = {"id": meta.id, "agent": meta.agent, "created_at": rfc3339(meta.created_at)}
        return place_in_lists({**facts, "status": status.value}, outcome)

    def _fence_if(self, heard: int | None) -> Condition:
        """Return the fence; also that the run was sent so many messages, if a number is given."""
        fence = self._fence()
        return fence if heard is None else all_of(fence, same("said", heard or None))

    def _fence(self) -> Condition:
        mine = all_of(Equals("epoch", self._snapshot.meta.epoch), Equals("status", "running"))
        if not self._is_branch:
            # Each epoch has one writer that took it.
            return mine
        # A run without a phase was left waiting by a release that had none.
        return all_of(mine, any_of(Equals("phase", Phase.RESTING.value), Missing("phase")))

    def _put(self, call: CallRecord, item: dict[str, Any]) -> Put:
        """Return the write of a call that begins, goes on, or is settled with a result."""
        if call.undecided:
            raise Fenced("the call waits for a decision", run_id=call.run_id)
        return put_call(self._pk, call, item)

    def _left_by(self, call: CallRecord | None) -> dict[str, str]:
        """Return the set of META that a call leaves which is opened, settled, or waits again."""
        if call is not None and call.state is CallState.WAITING:
            return {"decided": call.key}
        return {"branches": call.key} if call is not None and self._is_branch else {}

    def _meta(
        self,
        changes: dict[str, Any],
        call: CallRecord | None = None,
        *,
        begins: str | None = None,
        owes: frozenset[str] = frozenset(),
        is_end: bool = False,
        retires: bool = False,
        heard: int | None = None,
    ) -> Update:
        """Return a change of META under this epoch. `call`: the one that is opened or settled with it, if it
        was decided or open; `begins`: the key of a call that a branch opens; `owes`: what the run owes from
        now on; `is_end`: only if the run was sent no message that this writer's snapshot lacks; `retires`:
        only if it owes nothing that this writer does not know of; `heard`: only if the run was sent as many
        messages."""
        # Otherwise Fenced, as after any change by others: the run is read again, and goes on.
        when = self._fence_if(len(self._snapshot.said) if is_end else heard)
        if retires:
            when = all_of(when, owes_at_most(self._paid))
        if owes:
            # DynamoDB takes an attribute once in a write. What is paid waits for the next one.
            return Update(self._pk, META, set=changes, include={"owed": owes}, when=when)
        include = {"branches": begins} if begins else {}
        exclude = self._exclude(call)
        return Update(self._pk, META, set=changes, include=include, exclude=exclude, when=when)

    def _exclude(self, call: CallRecord | None) -> dict[str, str | frozenset[str]]:
        """Return what leaves META's sets: what is paid, and what a call leaves that is opened, settled, or
        waits again."""
        paid: dict[str, str | frozenset[str]] = {"owed": self._paid} if self._paid else {}
        return {**paid, **self._left_by(call)}

    async def _items_of(
        self, calls: Sequence[CallRecord], state: CallState
    ) -> list[dict[str, Any]]:
        """Return the items of calls in this state, as one transaction writes them."""
        items: list[dict[str, Any]] = []
        for call, body in zip(calls, await self._bodies_of(calls), strict=True):
            decision, votes = None, None
            if call.decision is not None:
                text = call.decision.model_dump_json()
                decision = await self._bodies.pack_value(self._folder, text, len(calls))
            if call.votes:
                text = votes_text(call.votes)
                votes = await self._bodies.pack_value(self._folder, text, len(calls))
            items.append(
                {
                    **body,
                    "state": state.value,
                    "opener": self._opener,
                    "attempt": call.attempt,
                    "decision": decision,
                    "votes": votes,
                    "voted": call.voted or None,
                    **wait_attributes(call),
                    "ends": call.ends_step or None,
                }
            )
        return items

    async def _bodies_of(self, calls: Sequence[CallRecord]) -> list[dict[str, Any]]:
        """Return the bodies of calls."""
        packing = [self._bodies.pack(self._folder, call_body(c), len(calls)) for c in calls]
        if len(packing) < 2:
            # Most windows have one call, which needs no separate task.
            return [await each for each in packing]
        # Large ones go to S3 in parallel, because a window's would take seconds one after another.
        return await asyncio.gather(*packing)


def _debts_of_cut(call: CallRecord) -> Iterator[str]:
    """Return what a call leaves owed that the end of its run cuts: nobody decides it any more, and its branch
    may wait."""
    if call.decision is not None and call.decision.kind is DecisionKind.CANCELLED:
        yield str(Debt(DebtKind.DECIDED, call.attempt, call.key))
    if call.token is not None:
        yield WAKE_CUT


def _marked_end(snapshot: RunSnapshot) -> dict[str, Any]:
    """Return what META lacks: the last of the run's own steps whose end is recorded only by a call's mark."""
    ended_steps = {c.key.rpartition("#CALL#")[0] for c in snapshot.calls if c.ends_step}
    own = (s.index for s in snapshot.steps if s.key in ended_steps and not path_of(s.key))
    newest = max(own, default=0)
    return {"step_ended": newest} if newest > snapshot.meta.step_ended else {}
