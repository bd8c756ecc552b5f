"""A bench of one owner for tests of the journal: threads, runs, writers, and what they journaled."""

import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from layover.adapters.journal.journal import table_journal
from layover.clock import MICROSECOND, ManualClock, from_rfc3339
from layover.keys import INPUT, META, Keys, call_key, step_key
from layover.ports import Accepted, Blobs, DueCheck, RequestKey, RunLog, SetAside
from layover.ports.table import Action, Item, Table, Write
from layover.values.message import Message, Role, TextPart, ToolCallPart
from layover.values.runs.event import DataEvent, Event, Finish
from layover.values.runs.run import (
    CallRecord,
    CallState,
    Decision,
    DecisionKind,
    ErrorInfo,
    FinishReason,
    OnBusy,
    Outcome,
    RunMeta,
    Status,
    StepRecord,
    Suspension,
    SuspensionKind,
    ToolMessageSlot,
)
from layover.values.runs.usage import Usage
from layover.values.thread import ThreadHead

T = TypeVar("T")
BIG = 800_000
"""Bytes that do not fit an item even when compressed."""
_numbers = itertools.count(1)
_random = random.Random(7)


def noise(size: int) -> str:
    """Text of about `size` bytes that does not compress below 3/4 of it."""
    return _random.randbytes(size // 2).hex()


@dataclass
class JournalBench:
    """A journal, and an owner that only this test has."""

    table: Table
    blobs: Blobs
    owner: str
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.journal = table_journal(self.table, self.blobs, self.clock)
        self.keys = Keys(self.owner)

    def meddled(self) -> "tuple[JournalBench, Meddled]":
        """The same world over a table that can be meddled with."""
        table = Meddled(self.table)
        return JournalBench(table, self.blobs, self.owner, self.clock), table

    def tick(self, seconds: float = 1) -> None:
        """Time passes."""
        self.clock.advance(timedelta(seconds=seconds))

    # Threads and runs

    async def thread(self, **fields: Any) -> ThreadHead:
        """A new thread."""
        now = self.clock.now()
        standard = {"id": f"thread_{next(_numbers)}", "owner": self.owner, "agent": "support"}
        head = ThreadHead.model_validate(
            {**standard, "created_at": now, "updated_at": now, **fields}
        )
        await self.journal.heads.put(head)
        return head

    async def head(self, thread_id: str) -> ThreadHead:
        """The head as it is now."""
        head = await self.journal.heads.get(self.owner, thread_id)
        assert head is not None
        return head

    def new_run(self, head: ThreadHead, text: str = "hello", **fields: Any) -> RunMeta:
        """A run as `runs.accept.start_run` makes it; not accepted yet."""
        now, run_id = self.clock.now(), f"run_{next(_numbers)}"
        message = Message(
            id=f"in_{run_id}",
            thread_id=head.id,
            run_id=run_id,
            parent_id=head.leaf_id,
            role=Role.USER,
            content=(TextPart(text=text),),
            created_at=head.next_time(now),
        )
        standard: dict[str, Any] = {"id": run_id, "owner": self.owner, "thread_id": head.id}
        standard |= {"agent": head.agent, "status": Status.QUEUED, "input": message}
        return RunMeta.model_validate({**standard, "created_at": now, "updated_at": now, **fields})

    async def accept(
        self,
        thread_id: str,
        on_busy: OnBusy = OnBusy.REJECT,
        request: RequestKey | None = None,
        sent: RequestKey | None = None,
        **fields: Any,
    ) -> Accepted:
        """A run on the thread as it is now."""
        head = await self.head(thread_id)
        return await self.journal.commands.accept(
            self.new_run(head, **fields), head, on_busy, request, sent
        )

    async def queue(self, thread_id: str, **fields: Any) -> str:
        """A run that stands in line."""
        return (await self.accept(thread_id, OnBusy.ENQUEUE, **fields)).run_id

    async def set_aside(self, run_id: str, **fields: Any) -> Accepted:
        """Another run takes the thread from one that waits."""
        run = await self.run(run_id)
        head, step = await self.head(run.thread_id), f"{run_id}_m1"
        aside = SetAside(run, leaf_id=step, last_created_at=self.clock.now())
        accept = self.journal.commands.accept
        return await accept(
            self.new_run(head, **fields), head, OnBusy.REJECT, None, None, aside=aside
        )

    async def drop(self, run_id: str) -> bool:
        """Cancel a run that stands in line."""
        run = await self.journal.runs.get(self.owner, run_id)
        if run is None:
            return False
        facts = {"leaf_id": run.input.id, "loose_at": run.input.created_at, "saved": False}
        outcome = self.outcome(run, Status.CANCELLED, **facts)
        return await self.journal.commands.end_queued(run, outcome, self.finish(outcome))

    async def started(self, **fields: Any) -> str:
        """A running run on its own thread; returns its id."""
        return (await self.accept((await self.thread()).id, **fields)).run_id

    async def run(self, run_id: str) -> RunMeta:
        """META as it is now."""
        run = await self.journal.runs.get(self.owner, run_id)
        assert run is not None
        return run

    async def state(self, run_id: str) -> dict[str, Any]:
        """Everything that is stored of a run, to tell that nothing changed."""
        items = await self.table.query(self.keys.run(run_id), " ", "~")
        return {str(item["sk"]): item for item in items}

    async def look(self, run_id: str) -> DueCheck:
        """The sweeper's next look at a run, as it reads it now."""
        item = await self.table.get(self.keys.run(run_id), META)
        assert item is not None
        return DueCheck(
            owner=self.owner,
            thread_id=item["thread_id"],
            run_id=run_id,
            connection_id=None,
            place=(item["pk"], META),
            at=from_rfc3339(item["gsi2sk"]),
            failures=item.get("failures", 0),
        )

    # Writers

    async def take(self, run_id: str, n: int = 1) -> RunLog:
        """The run in a turn's hand."""
        log = await self.journal.writers.acquire(self.owner, run_id, f"{run_id}-{n}")
        assert log is not None
        return log

    async def join(self, run_id: str, n: int = 1) -> RunLog:
        """The run in a resume's hand."""
        log = await self.journal.writers.attach(self.owner, run_id, f"{run_id}-{n}")
        assert log is not None
        return log

    async def taken(self, **fields: Any) -> RunLog:
        """A new run, taken."""
        return await self.take(await self.started(**fields))

    async def taken_with(self, text: str) -> RunLog:
        """A new run with this input, taken."""
        head = await self.thread()
        run = self.new_run(head, text)
        await self.journal.commands.accept(run, head, OnBusy.REJECT, None)
        return await self.take(run.id)

    def step(self, log: RunLog, *call_ids: str, index: int = 1, **fields: Any) -> StepRecord:
        """A model call that asks for these tools."""
        meta = log.snapshot.meta
        at = after_input(meta, index)
        content = (
            TextPart(text=fields.pop("text", f"step {index}")),
            *(ToolCallPart(tool_call_id=c, tool_name="refund", args={"n": c}) for c in call_ids),
        )
        message = Message(
            id=f"{meta.id}_m{index}",
            thread_id=meta.thread_id,
            run_id=meta.id,
            parent_id=meta.input.id,
            role=Role.ASSISTANT,
            content=content,
            created_at=at,
        )
        slots = tuple(
            ToolMessageSlot(
                tool_call_id=c, message_id=f"{meta.id}_{c}", created_at=at + (i + 1) * MICROSECOND
            )
            for i, c in enumerate(call_ids)
        )
        standard: dict[str, Any] = {"key": step_key("", index), "index": index, "message": message}
        standard |= {"usage": Usage(input_tokens=3, output_tokens=2), "model": "openai/gpt-5-mini"}
        standard |= {"finish_reason": "tool-calls" if slots else "stop", "slots": slots}
        return StepRecord.model_validate({**standard, **fields})

    async def journaled(self, log: RunLog, *call_ids: str, index: int = 1) -> list[CallRecord]:
        """A step in the journal; its calls, planned."""
        step = self.step(log, *call_ids, index=index)
        await log.put_step(step)
        return [planned(log, step, call_id) for call_id in call_ids]

    async def opened(self, log: RunLog, *call_ids: str) -> list[CallRecord]:
        """Calls of step 1 that this writer has open."""
        calls = await self.journaled(log, *call_ids)
        await log.open_calls(calls)
        return [open_by(log, call) for call in calls]

    def suspension(self, **fields: Any) -> Suspension:
        """A call waits for approval from now on."""
        return Suspension.model_validate(
            {
                "kind": SuspensionKind.APPROVAL,
                "payload": {"type": "approval"},
                "resume_schema": {"type": "object"},
                "args": {},
                "requested_at": self.clock.now(),
                **fields,
            }
        )

    async def waiting(self, log: RunLog, *call_ids: str, **fields: Any) -> list[CallRecord]:
        """Calls of step 1 that wait, as they are journaled. The run rests: its turn has left it."""
        waiting = []
        for call in await self.journaled(log, *call_ids):
            suspension = self.suspension(args=call.args)
            suspended = call.model_copy(update={"suspension": suspension, **fields})
            await log.suspend_calls([suspended])
            waiting.append(await self.call(call))
        await self.leave(log)
        return waiting

    async def leave(self, log: RunLog) -> None:
        """Let the turn leave the run, which waits from now on."""
        meta = log.snapshot.meta
        assert meta.execution is not None
        await self.journal.commands.spend(
            self.owner, meta.id, meta.execution, 0, 1_000, rests=meta.epoch
        )

    async def call(self, call: CallRecord) -> CallRecord:
        """The call's record as it is now."""
        now = await self.journal.runs.call(self.owner, call.run_id, call.key)
        assert now is not None
        return now

    def decision(self, kind: DecisionKind = DecisionKind.APPROVED, **fields: Any) -> Decision:
        """A decision of the owner's."""
        made = {"kind": kind, "decided_by": self.owner, "at": self.clock.now(), **fields}
        return Decision.model_validate(made)

    async def decide(self, call: CallRecord, *events: Event, **fields: Any) -> CallRecord:
        """The call, decided."""
        decision = self.decision(**fields)
        return await self.decided(call, decision, *(events or [self.data()]))

    async def decided(self, call: CallRecord, decision: Decision, *events: Event) -> CallRecord:
        """Decide the call, and return the outcome. A made-up call has no run: one is made up for it, too."""
        run = await self.journal.runs.get(self.owner, call.run_id)
        if run is None:
            run = self.new_run(await self.thread()).model_copy(update={"id": call.run_id})
        return await self.journal.decisions.decide(run, call, decision, *events)

    async def store_token(self, call: CallRecord, token: str, n: int = 1) -> CallRecord | None:
        """Store a token as Await does."""
        execution = f"{call.run_id}-{n}"
        return await self.journal.commands.store_token(
            self.owner, call.run_id, execution, call.key, call.attempt, token
        )

    # The end

    def outcome(self, meta: RunMeta, status: Status = Status.SUCCESS, **fields: Any) -> Outcome:
        """Return an outcome of the run; its newest message is a microsecond after its input."""
        reasons = {Status.SUCCESS: FinishReason.STOP, Status.FAILED: FinishReason.ERROR}
        error = ErrorInfo(type="Boom", message="it broke") if status is Status.FAILED else None
        standard: dict[str, Any] = {"status": status, "error": error, "leaf_id": f"{meta.id}_m1"}
        standard |= {"finish_reason": reasons.get(status, FinishReason.CANCELLED)}
        standard |= {"last_created_at": meta.input.created_at + MICROSECOND}
        return Outcome.model_validate({**standard, **fields})

    async def end(self, log: RunLog, **fields: Any) -> str | None:
        """The end of the run, with its `finish`; the run that holds the thread now."""
        outcome = self.outcome(log.snapshot.meta, **fields)
        return (await log.end(outcome, self.finish(outcome))).next_run

    def finish(self, outcome: Outcome) -> Finish:
        """The last event."""
        return Finish(
            at=self.clock.now(),
            status=outcome.status,
            finish_reason=outcome.finish_reason,
            usage=outcome.usage,
            model=outcome.model,
            output=outcome.output,
        )

    # Events

    def data(self, data: Any = None) -> DataEvent:
        """An event that is told from others by its data."""
        return DataEvent(at=self.clock.now(), tool_call_id="c1", data=data)

    async def events(self, run_id: str, after: int = 0, limit: int = 1_000) -> list[Event]:
        """All events after `after`, page by page; fails on a gap."""
        found: list[Event] = []
        while True:
            page = await self.journal.events.page(self.owner, run_id, after, limit)
            found += cast("tuple[Event, ...]", page.items)
            if page.done or not page.items:
                break
            after = page.last_seq
        first = found[0].seq if found else 0
        assert [e.seq for e in found] == list(range(first, first + len(found)))
        return found

    async def said(self, run_id: str) -> list[Any]:
        """The data of all `data` events, in order."""
        return [e.data for e in await self.events(run_id) if isinstance(e, DataEvent)]

    async def blob_of(self, run_id: str, sk: str = INPUT) -> str:
        """Return the key of the blob that holds an item's body."""
        item = await self.table.get(self.keys.run(run_id), sk)
        assert item is not None
        return str(item["blob"])


class Meddled:
    """A table where something else happens just before the next transaction (or write)."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._before: list[Callable[[], Awaitable[object]]] = []
        self._after: list[Callable[[], Awaitable[object]]] = []

    def before_next(self, happens: Callable[[], Awaitable[object]]) -> None:
        """Let this happen first."""
        self._before.append(happens)

    def after_next(self, happens: Callable[[], Awaitable[object]]) -> None:
        """Let this happen between the next transaction (or write) and the one after it."""
        self._before += [_pass, happens]

    def right_after(self, happens: Callable[[], Awaitable[object]]) -> None:
        """Let this happen before the next transaction is answered."""
        self._after.append(happens)

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        """See `Table`."""
        await self._meddle()
        await self._table.transact(actions, token)
        if self._after:
            await self._after.pop(0)()

    async def write(self, action: Write) -> Item | None:
        """See `Table`."""
        await self._meddle()
        return await self._table.write(action)

    async def _meddle(self) -> None:
        if self._before:
            await self._before.pop(0)()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


async def _pass() -> None:
    """Nothing happens."""


class _Instead:
    def __init__(self, part: Any, methods: dict[str, Any]) -> None:
        self._part = part
        vars(self).update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


def instead(part: T, **methods: Callable[..., Awaitable[Any]]) -> T:
    """A part of a journal that does this in the place of some of its methods."""
    return cast(T, _Instead(part, methods))


def after_input(meta: RunMeta, index: int) -> datetime:
    """A time for step `index`, with room between the steps."""
    return meta.input.created_at + index * 100 * MICROSECOND


def planned(log: RunLog, step: StepRecord, call_id: str, **fields: Any) -> CallRecord:
    """A call of the step that has no record yet."""
    return CallRecord.model_validate(
        {
            "key": call_key(step.key, call_id),
            "run_id": log.snapshot.meta.id,
            "tool_call_id": call_id,
            "tool_name": "refund",
            "args": {"n": call_id},
            **fields,
        }
    )


def open_by(log: RunLog, call: CallRecord) -> CallRecord:
    """The call as it is journaled once this writer has opened it."""
    return call.written(state=CallState.OPEN, opener=log.opener)


def settled(call: CallRecord, result: Any = "done") -> CallRecord:
    """The call with a result; `state` stays what is journaled."""
    return call.model_copy(update={"result": result, "model_output": str(result)})


def cancelled(calls: Sequence[CallRecord]) -> list[CallRecord]:
    """Calls as the end of a cancelled run gives them."""
    done = {"state": CallState.SETTLED, "result": "Cancelled", "is_error": True}
    return [call.model_copy(update=done) for call in calls]
