"""Writes about a run by processes that do not hold it (`ports.RunCommands`): accept it, cancel it, store a
token."""

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.heads import (
    QueueHandover,
    as_read,
    next_execution,
    set_aside,
    set_aside_changes,
)
from layover.adapters.journal.items.calls import change_call
from layover.adapters.journal.items.records import (
    INLINE_CALLER,
    INLINE_INPUT,
    caller_text,
    epoch_seconds,
    outcome_text,
    run_item,
)
from layover.adapters.journal.log.events import EventLog
from layover.adapters.journal.runs import TableRuns
from layover.adapters.once import change_once, write_once, written_by
from layover.clock import rfc3339
from layover.errors import Conflict, LimitReached, NotFound, ThreadBusy
from layover.keys import HEAD, INPUT, META, REQUEST, Keys, message_key, said_key
from layover.ports import Accepted, RequestKey, SentMessage, SetAside, StaleHead, StaleRun
from layover.ports.table import (
    Action,
    Below,
    Check,
    Condition,
    ConditionFailed,
    Equals,
    Exists,
    Item,
    Missing,
    Put,
    Shorter,
    TransactionFailed,
    Update,
    all_of,
    any_of,
    same,
)
from layover.values.deployment.access import Actor
from layover.values.message import Message
from layover.values.runs.debts import Debt
from layover.values.runs.event import Event
from layover.values.runs.run import (
    CANCEL_GRACE,
    INTERRUPT_GRACE,
    MAX_QUEUE,
    MAX_WAITING_RUNS,
    CallRecord,
    OnBusy,
    Outcome,
    Phase,
    RunMeta,
    Status,
)
from layover.values.thread import ThreadHead

CANCEL_TAKES = timedelta(seconds=3)
"""The sweeper finishes a cancel that is not done after this time (docs/behaviour.md#cancel)."""
_MAX_PAUSE_S = 0.2


class TableRunCommands:
    """`RunCommands`: conditional writes for callers, never for a run's own writer."""

    def __init__(self, backing: Backing, runs: TableRuns) -> None:
        self._backing = backing
        self._table = backing.table
        self._bodies = backing.bodies
        self._clock = backing.clock
        self._dice = backing.dice
        self._runs = runs
        self._handover = QueueHandover(backing)

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
        """See `ports.RunCommands`."""
        busy = _busy_with(head, on_busy, aside)
        keys = Keys(run.owner)
        run = _as_accepted(run, busy)
        run, body, short = await self._pack_input(keys, run)
        meta = {
            **run_item(keys, run),
            **(body if short else {}),
            "request": request and keys.idempotency(request.key),
        }
        # All or nothing: a thread is never claimed for a run that is not there, nor a request key used up.
        # The order counts below, where the places of META, HEAD and the keys tell what failed.
        request_keys = [key for key in (request, sent) if key is not None]
        actions: list[Action] = [
            Put(keys.run(run.id), META, meta, when=Missing("pk")),
            self._claim(keys, run, head, on_busy, aside),
            *(self._use(keys, key, run) for key in request_keys),
        ]
        if busy is not None and on_busy is OnBusy.INTERRUPT:
            actions.append(self._cancel(keys, busy, INTERRUPT_GRACE, by))
        if aside is not None:
            actions.append(set_aside(aside))
        if not short:
            # Without a condition, because META's condition says that the run is new. Long inputs are separate
            # items, since each step rewrites META.
            expires = {"expires": epoch_seconds(run.records_expire_at)}
            actions.append(Put(keys.run(run.id), INPUT, {**body, **expires}))
        try:
            await self._table.transact(actions, self._dice.hex(16))
        except TransactionFailed as failure:
            return _accepted_before(failure, request_keys)
        interrupts = busy if on_busy is OnBusy.INTERRUPT else None
        # A death here leaves an accepted run without an execution. It is in the watch index, and due.
        started = run.status is Status.RUNNING
        return Accepted(run.id, started=started, interrupts=interrupts)

    async def _pack_input(self, keys: Keys, run: RunMeta) -> tuple[RunMeta, dict[str, Any], bool]:
        """Return the run, its input with its caller as attributes, and whether META has room for these."""
        body = await self._bodies.pack(
            keys.bodies(run.thread_id, run.id), run.input.model_dump_json()
        )
        if "blob" in body:
            # TTL knows nothing of S3, so the process that ends the run has to check each of its records.
            run = run.model_copy(update={"records_expire_at": None})
        caller = caller_text(run)
        short = isinstance(body.get("b"), str) and len(body["b"].encode()) <= INLINE_INPUT
        if caller is not None:
            body["caller"] = caller
            short = short and len(caller.encode()) <= INLINE_CALLER
        return run, body, short

    def _use(
        self, keys: Keys, key: RequestKey, run: RunMeta, message: Message | None = None
    ) -> Put:
        """Return the write that a key stands for this run from now on, if it stands for none, or for the one
        that this run replaces."""
        item: dict[str, Any] = {"run_id": run.id, "body_hash": key.body_hash}
        if key.expires_at is not None:
            item["expires"] = int(key.expires_at.timestamp())
            # TTL deletes late: a key whose time is over is free, whether its item is there or not.
            free: Condition = any_of(
                Missing("pk"), Below("expires", int(self._clock.now().timestamp()))
            )
        else:
            item["message_id"] = (message or run.input).id
            item["earlier"] = list(key.earlier) or None
            free = Missing("pk") if key.replaces is None else Equals("run_id", key.replaces)
        return Put(*_place(keys, key), item, when=free)

    def _claim(
        self,
        keys: Keys,
        run: RunMeta,
        head: ThreadHead,
        on_busy: OnBusy,
        aside: SetAside | None,
    ) -> Update:
        """Return the write that gives the thread to the run, or puts the run into its queue; it fails if the
        head has changed since the read.

        For a run that joins the end of the queue, other changes do not matter as long as some run is
        active."""
        now = rfc3339(self._clock.now())
        changes: dict[str, Any] = {"updated_at": now, "gsi1sk": f"T#{now}#{head.id}"}
        pk, queue = keys.thread(head.id), list(head.queue)
        if aside is not None:
            changes |= {**set_aside_changes(head, aside), "active_run": run.id}
            return Update(pk, HEAD, set=changes, when=as_read(head))
        if head.active_run is not None and on_busy is not OnBusy.INTERRUPT:
            is_busy = all_of(Exists("active_run"), Missing("deleted"), Shorter("queue", MAX_QUEUE))
            return Update(pk, HEAD, set=changes, append={"queue": run.id}, when=is_busy)
        if head.active_run is None:
            changes["active_run"] = run.id
        else:
            at = head.interrupts
            changes |= {"queue": [*queue[:at], run.id, *queue[at:]], "interrupts": at + 1}
        free = all_of(as_read(head), Shorter("queue", MAX_QUEUE))
        return Update(pk, HEAD, set=changes, when=free)

    async def start_queued(self, head: ThreadHead, aside: SetAside) -> str | None:
        """See `ports.RunCommands`."""
        if len(head.waiting_runs) >= MAX_WAITING_RUNS:
            return None
        actions, next_run = await self._handover.plan_queued(head, aside)
        if next_run is None:
            return None
        try:
            await self._table.transact(actions, self._dice.hex(16))
        except TransactionFailed:
            return None
        return next_run.id

    async def add_message(
        self,
        run: RunMeta,
        message: Message,
        request: RequestKey | None = None,
        sent: RequestKey | None = None,
    ) -> bool:
        """See `ports.RunCommands`."""
        keys, pk = Keys(run.owner), Keys(run.owner).run(run.id)
        number = run.said + 1
        folder = keys.bodies(run.thread_id, run.id)
        body = await self._bodies.pack(folder, message.model_dump_json())
        alive = all_of(
            Equals("status", run.status.value), Missing("cancel"), same("said", run.said or None)
        )
        changes = {"updated_at": rfc3339(self._clock.now()), "said": number}
        request_keys = [key for key in (request, sent) if key is not None]
        actions: list[Action] = [
            # Without an expiry, because the run may begin to wait at this moment. Its end sees to it, which
            # is conditional on that its writer knows of the message.
            Put(pk, said_key(number), body, when=Missing("pk")),
            Update(pk, META, set=changes, when=alive),
            *(self._use(keys, key, run, message) for key in request_keys),
        ]
        try:
            await self._table.transact(actions, self._dice.hex(16))
        except TransactionFailed as failure:
            for at, key in enumerate(request_keys, start=2):
                if at in failure.failed:
                    _same_request(failure.failed[at], key)
                    return False
            raise StaleRun from failure
        return True

    async def find_request(self, owner: str, request: RequestKey, now: datetime) -> str | None:
        """See `ports.RunCommands`."""
        item = await self._table.get(*_place(Keys(owner), request))
        # TTL deletes late.
        if item is None or item.get("expires", math.inf) < int(now.timestamp()):
            return None
        return None if item["run_id"] == request.replaces else _same_request(item, request)

    async def sent_message(self, owner: str, thread_id: str, key: str) -> SentMessage | None:
        """See `ports.RunCommands`."""
        item = await self._table.get(Keys(owner).thread(thread_id), message_key(key))
        if item is None:
            return None
        earlier = tuple(item.get("earlier") or ())
        return SentMessage(item["run_id"], item["message_id"], item["body_hash"], earlier)

    async def store_token(
        self, owner: str, run_id: str, execution: str, key: str, attempt: int, token: str
    ) -> CallRecord | None:
        """See `ports.RunCommands`."""
        pk = Keys(owner).run(run_id)
        is_driver = all_of(Equals("execution", execution), Equals("status", Status.RUNNING.value))
        while True:
            # A decision that comes first is found here, and the caller answers its token itself. A later one
            # finds the token, so no decision is lost.
            call = await self._runs.call(owner, run_id, key)
            if call is None or not call.undecided or call.attempt != attempt:
                return None
            stores = change_call(pk, call, {"token": token})
            try:
                await self._table.transact([Check(pk, META, is_driver), stores], self._dice.hex(16))
            except TransactionFailed as failure:
                if 0 in failure.failed:
                    return None
                # It has changed since it was read: a vote, a reminder.
                continue
            return call.written(token=token)

    async def owe(self, owner: str, run_id: str, debt: Debt) -> None:
        """See `ports.RunCommands`."""
        soon = {"gsi2sk": rfc3339(self._clock.now())}
        running = Equals("status", Status.RUNNING.value)
        owes = Update(
            Keys(owner).run(run_id), META, set=soon, include={"owed": str(debt)}, when=running
        )
        with suppress(ConditionFailed):
            await self._table.write(owes)

    async def end_queued(self, run: RunMeta, outcome: Outcome, *events: Event) -> bool:
        """See `ports.RunCommands`. The run's log has only these events."""
        owner, run_id, keys = run.owner, run.id, Keys(run.owner)
        folder = keys.bodies(run.thread_id, run_id)
        over = {
            "status": outcome.status.value,
            "outcome": await self._bodies.pack_value(folder, outcome_text(outcome)),
            "updated_at": rfc3339(self._clock.now()),
            "untold": True,
        }
        queued = all_of(Equals("status", Status.QUEUED.value), same("said", run.said or None))
        log = EventLog(self._backing, keys, run_id, folder)
        # A queued run has no events, so these get the first seq, and close its log.
        last = log.batch(await log.body(list(events)), 1, last=True)
        for attempt in count():
            leaves = await self._dequeue(keys.thread(run.thread_id), run)
            # What a thread that is deleted was sent is deleted with it.
            facts = {**over, **(self._left_by(run, outcome) if leaves else {})}
            ends = Update(keys.run(run_id), META, set=facts, when=queued)
            try:
                await self._table.transact([ends, last, *leaves], self._dice.hex(16))
            except TransactionFailed as failure:
                # Not the head but META failed: it is no longer queued, since the run was started or has
                # ended.
                if set(failure.failed) != {2}:
                    return False
                # Another process changed the queue. Concurrent processes change it one after another.
                await asyncio.sleep(self._dice.up_to(min(_MAX_PAUSE_S, 0.01 * attempt)))
            else:
                break
        # No writer that would deliver the end ever holds this run.
        now = await self._runs.get(owner, run_id)
        self._backing.sink.notify(owner, run_id, now.sockets if now else ())
        return True

    def _left_by(self, run: RunMeta, outcome: Outcome) -> dict[str, Any]:
        """Return the facts of what a queued run leaves, which is not in the database yet."""
        facts: dict[str, Any] = {"saved": False, "gsi2sk": rfc3339(self._clock.now())}
        if run.parent_given:
            return facts
        assert outcome.loose_at is not None
        return {**facts, "unplaced": outcome.leaf_id, "loose_at": rfc3339(outcome.loose_at)}

    async def _dequeue(self, thread: str, run: RunMeta) -> list[Action]:
        """Return the write that takes the run out of its thread's queue, if it is there. Its messages have a
        place if it begins a branch; others get one from the run at work."""
        run_id, left = run.id, "unsaved" if run.parent_given else "unplaced"
        head = await self._table.get(thread, HEAD) or {}
        queue: list[str] = head.get("queue", [])
        if run_id not in queue or head.get("deleted"):
            # A deleted thread's queue starts no run, so the whole queue can end at once.
            return []
        interrupts = head.get("interrupts", 0)
        changes = {
            "queue": [other for other in queue if other != run_id] or None,
            "interrupts": interrupts - (queue.index(run_id) < interrupts),
            left: [*head.get(left, ()), run_id],
        }
        as_read = all_of(Equals("queue", queue), same(left, head.get(left)))
        return [Update(thread, HEAD, set=changes, when=as_read)]

    async def start_successor(
        self, owner: str, run_id: str, execution: str | None, *, fresh: bool = False
    ) -> int | None:
        """See `ports.RunCommands`."""
        pk = Keys(owner).run(run_id)
        item = await self._table.get(pk, META)
        if item is None or item.get("execution") != execution:
            return None
        n = int(item["n"]) + 1
        is_driver = all_of(
            Equals("status", Status.RUNNING.value), same("execution", execution), Equals("n", n - 1)
        )
        now = rfc3339(self._clock.now())
        # A run that rests does so until the next execution's turn takes it; what was to be ended goes on.
        rests = item.get("phase") == Phase.RESTING.value
        # The number is written before the execution is started. One of two callers fails here, so the
        # execution with this number is started once. A death between the two leaves a run that is due.
        changes: dict[str, Any] = {
            **next_execution(run_id, n, Phase.RESTING if rests else Phase.TURN),
            "gsi2sk": now,
            **({"attempts": 0, "redriven_at": now} if fresh else {}),
        }
        # The new epoch keeps a writer of the previous execution from opening calls, which the next one would
        # take for interrupted. Calls that are already open may be closed.
        driven = Update(pk, META, set=changes, add={"epoch": 1}, when=is_driver)
        return None if await change_once(self._table, driven, self._dice) is None else n

    async def reopen(self, run: RunMeta, head: ThreadHead, step: int) -> int | None:
        """See `ports.RunCommands`."""
        # Few runs fail, and fewer go on.
        from layover.adapters.journal.reopening import reopen

        return await reopen(self._backing, run, head, step)

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
        """See `ports.RunCommands`."""
        pk = Keys(owner).run(run_id)
        is_driver = all_of(Equals("status", Status.RUNNING.value), Equals("execution", execution))
        changes: dict[str, Any] = {"attempts": 0} if fresh else {}
        if rests is not None:
            # Only the turn that has this epoch may leave the run: another may have taken it since.
            is_driver = all_of(is_driver, Equals("epoch", rests))
            changes["phase"] = Phase.RESTING.value
        try:
            spent = Update(pk, META, set=changes, add={"history": events}, when=is_driver)
            item = await write_once(self._table, spent, written_by(self._dice))
            assert item is not None
            if item["history"] > limit:
                # A death before this only delays it: the sweeper looks at each run that is not over.
                soon = {"gsi2sk": rfc3339(self._clock.now())}
                await self._table.write(Update(pk, META, set=soon, when=is_driver))
        except ConditionFailed:
            return None
        return int(item["history"])

    async def count_fault(self, owner: str, run_id: str, epoch: int) -> int:
        """See `ports.RunCommands`."""
        pk, again = Keys(owner).run(run_id), Equals("fault_epoch", epoch)
        counts = Update(pk, META, add={"faults": 1}, when=again)
        item = await change_once(self._table, counts, self._dice)
        if item is None:
            first = {"fault_epoch": epoch, "faults": 0}
            await self._table.write(Update(pk, META, set=first, when=Exists("pk")))
            return 0
        return int(item["faults"])

    async def mark_left(self, owner: str, run_id: str, takes: int) -> None:
        """See `ports.RunCommands`."""
        is_last = all_of(Equals("status", Status.RUNNING.value), Equals("takes", takes))
        with suppress(ConditionFailed):
            await self._table.write(
                Update(Keys(owner).run(run_id), META, set={"left": takes}, when=is_last)
            )

    async def mark_saved(self, owner: str, run_id: str, thread_id: str) -> None:
        """See `ports.RunCommands`."""
        keys = Keys(owner)
        while (head := await self._table.get(keys.thread(thread_id), HEAD)) is not None:
            unsaved = head.get("unsaved", [])
            if run_id not in unsaved:
                break
            # The list is replaced on the condition that it is unchanged, because DynamoDB removes from a list
            # only by position.
            left = [r for r in unsaved if r != run_id] or None
            as_read = Equals("unsaved", unsaved)
            with suppress(ConditionFailed):
                await self._table.write(
                    Update(keys.thread(thread_id), HEAD, set={"unsaved": left}, when=as_read)
                )
        # META last: until it records the save, the sweeper saves the run again and repeats this.
        with suppress(ConditionFailed):
            await self._table.write(
                Update(keys.run(run_id), META, set={"saved": None}, when=Equals("saved", False))
            )

    async def request_cancel(
        self,
        owner: str,
        run_id: str,
        grace: timedelta = CANCEL_GRACE,
        by: Actor | None = None,
    ) -> RunMeta | None:
        """See `ports.RunCommands`."""
        with suppress(ConditionFailed):
            await self._table.write(self._cancel(Keys(owner), run_id, grace, by))
        return await self._runs.get(owner, run_id)

    def _cancel(self, keys: Keys, run_id: str, grace: timedelta, by: Actor | None) -> Update:
        """Return the write of the flag and of the sweeper's next look: the process that sets the flag may die
        before the run is ended."""
        alive = any_of(
            Equals("status", Status.RUNNING.value), Equals("status", Status.QUEUED.value)
        )
        now = self._clock.now()
        changes = {
            "cancel": True,
            "cancel_at": rfc3339(now),
            "tools_until": rfc3339(now + grace),
            "gsi2sk": rfc3339(now + CANCEL_TAKES),
        }
        # The sweeper asks again in nobody's name, and whoever asked first stays.
        person = {"cancel_by": by.sub, "cancel_for": by.on_behalf_of} if by else {}
        return Update(keys.run(run_id), META, set={**changes, **person}, when=alive)


def _place(keys: Keys, key: RequestKey) -> tuple[str, str]:
    """Return partition and sort key of a key's item."""
    if key.thread_id is None:
        return keys.idempotency(key.key), REQUEST
    return keys.thread(key.thread_id), message_key(key.key)


def _busy_with(head: ThreadHead, on_busy: OnBusy, aside: SetAside | None) -> str | None:
    """Return the run that a new one of this thread meets; None: the thread is free, or is freed by setting
    its run aside. Raises ThreadBusy, LimitReached."""
    if aside is not None:
        if len(head.waiting_runs) >= MAX_WAITING_RUNS:
            many = f"{MAX_WAITING_RUNS} runs of this thread wait for decisions already"
            raise ThreadBusy(many, run_id=aside.run.id)
        return None
    busy = head.active_run
    if busy is not None and on_busy is OnBusy.REJECT:
        raise ThreadBusy("the thread has an active run", run_id=busy)
    if busy is not None and len(head.queue) >= MAX_QUEUE:
        raise LimitReached(f"{MAX_QUEUE} runs wait for this thread already", thread_id=head.id)
    return busy


def _as_accepted(run: RunMeta, busy: str | None) -> RunMeta:
    """Return the run as it begins: at once, or behind the one that its thread is busy with."""
    if busy is None:
        update: dict[str, Any] = {"status": Status.RUNNING, "execution": f"{run.id}-{run.n}"}
    else:
        # Nobody knows how long it will be queued, so its records have no expiry.
        update = {"status": Status.QUEUED, "execution": None, "records_expire_at": None}
    return run.model_copy(update=update)


def _accepted_before(failure: TransactionFailed, request_keys: Sequence[RequestKey]) -> Accepted:
    """Return the run that was accepted for one of these keys, which were the actions from the third on.
    Raises NotFound, StaleHead if none was."""
    # The keys first: a request that is repeated gets its run, however its thread has changed since.
    for at, key in enumerate(request_keys, start=2):
        if at in failure.failed:
            run_id = _same_request(failure.failed[at], key)
            return Accepted(run_id, started=False, replayed=True)
    head_now = failure.failed.get(1, {})
    if head_now is None or head_now.get("deleted"):
        raise NotFound("no such thread") from failure
    # Another request was faster, or the run that is to be interrupted has ended, or the one that is to be set
    # aside no longer waits.
    raise StaleHead from failure


def _same_request(item: Item | None, request: RequestKey) -> str:
    if item is not None and item["body_hash"] == request.body_hash:
        return str(item["run_id"])
    if request.thread_id is None:
        raise Conflict("this Idempotency-Key was used with another request")
    raise Conflict(
        "a message with this id says something else: give another message another id, or name the one "
        "that it takes the place of in `messageId`",
        thread_id=request.thread_id,
    )
