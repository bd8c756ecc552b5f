"""A bench for tests of services and of the API: in-memory ports, and a hand that drives runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from layover import Agent, keys, tool
from layover.adapters.journal.leases import TableLeases
from layover.clock import MICROSECOND, ManualClock
from layover.errors import DatabaseWaking, RetryableError
from layover.ids import SequentialIds
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.journal import in_memory_journal
from layover.inmemory.stores.threads import InMemoryThreads
from layover.inmemory.table import InMemoryTable
from layover.ports import RunLog
from layover.runs.accept import StartRun, start_run
from layover.runs.long_polls import Pace
from layover.runtime import Runtime
from layover.threads import threads as thread_service
from layover.values.decision import ApprovalRule, Risk, WakeUp
from layover.values.deployment.access import Actor
from layover.values.memory.context import TurnQuery, TurnRecord
from layover.values.message import Message, Part, Role, TextPart, ToolCallPart
from layover.values.page import Page
from layover.values.runs.event import AgentEnd, Finish
from layover.values.runs.run import (
    CallRecord,
    CallState,
    FinishReason,
    Outcome,
    Status,
    StepRecord,
    Suspension,
    SuspensionKind,
    ToolMessageSlot,
)
from layover.values.runs.usage import Usage
from layover.values.runs.views import Run
from layover.values.thread import Thread, ThreadHead
from support.worlds.builder import build_runtime

ANN = "ann"
BOB = "bob"
APPROVAL: dict[str, Any] = {"type": "object", "required": ["approved"]}
SLOT: dict[str, Any] = {
    "type": "object",
    "properties": {"slot": {"type": "string"}},
    "required": ["slot"],
}


@tool(needs_approval=True)
def refund(order_id: str, amount: float) -> str:
    """Pay back."""
    return f"{order_id}: {amount}"


@tool
def look_up(order_id: str) -> str:
    """Look up what is known of an order."""
    return order_id


SUPPORT = Agent(
    name="support",
    instructions="Help.",
    tools=[refund, look_up],
    description="Answers questions about orders, and pays back.",
)
PLAIN = Agent(name="plain", model="openai/gpt-5-nano", instructions="Chat.")


def _exact(tool_name: str, args: Any) -> Any:
    """Return arguments as the engine shows them: as the tool gets them."""
    tools = (each for each in SUPPORT.tools if each.name == tool_name and args)
    return next((each.validate(args).as_dict() for each in tools), args)


class SleepingThreads(InMemoryThreads):
    """A database that can be asleep; `asked` counts the questions."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep = False
        self.asked = 0

    def _knock(self) -> None:
        self.asked += 1
        if self.asleep:
            raise DatabaseWaking("the database is waking up")

    async def messages(
        self, owner: str, thread_id: str, leaf_id: str, limit: int, cursor: str | None
    ) -> Page[Message] | None:
        self._knock()
        return await super().messages(owner, thread_id, leaf_id, limit, cursor)

    async def message(self, owner: str, thread_id: str, message_id: str) -> Message | None:
        self._knock()
        return await super().message(owner, thread_id, message_id)

    async def head(self, owner: str, thread_id: str) -> ThreadHead | None:
        self._knock()
        return await super().head(owner, thread_id)

    async def erase(self, owner: str, thread_id: str) -> None:
        self._knock()
        await super().erase(owner, thread_id)


@dataclass
class RecordingCallbacks:
    """An orchestrator that writes down what it is told; `down` makes it fail for the moment."""

    started: list[str] = field(default_factory=list)
    woken: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)
    """Tokens that no branch waits on any more."""
    published: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    """(type, detail), in order."""
    down: bool = False

    def _check(self) -> None:
        if self.down:
            raise RetryableError("throttled")

    async def start(self, owner: str, run_id: str, n: int) -> None:
        self._check()
        self.started.append(f"{run_id}-{n}")

    async def alive(self, execution: str) -> bool:
        return True

    async def wake(self, token: str, news: WakeUp = WakeUp.DECIDED) -> bool:
        self._check()
        self.woken.append(token)
        return token not in self.closed

    async def stop(self, execution: str, reason: str) -> None:
        self._check()
        self.stopped.append(execution)

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        self._check()
        self.published.append((detail_type, detail))


class ManualPace:
    """Time that passes only in sleeps."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    @property
    def pace(self) -> Pace:
        return Pace(sleep=self._sleep, now=lambda: sum(self.slept))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class ServiceBench:
    """In-memory ports and shortcuts; everything belongs to ANN unless said otherwise."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.threads = SleepingThreads()
        self.callbacks = RecordingCallbacks()
        self.journal = in_memory_journal(self.clock, InMemoryBlobs())
        self.agents: dict[str, Agent] = {"support": SUPPORT, "plain": PLAIN}
        self.runtime = self._runtime()

    def restart(self) -> None:
        """Lose the journal; the database keeps what it has."""
        self.journal = in_memory_journal(self.clock, InMemoryBlobs())
        self.runtime = self._runtime()

    def _runtime(self) -> Runtime:
        return build_runtime(
            journal=self.journal,
            threads=self.threads,
            blobs=InMemoryBlobs(self.clock),
            callbacks=self.callbacks,
            clock=self.clock,
            ids=SequentialIds(),
            agents=lambda: self.agents,
            leases=TableLeases(InMemoryTable()),
        )

    async def thread(self, owner: str = ANN) -> Thread:
        """A new thread of the agent `support`."""
        self.clock.advance(timedelta(seconds=1))
        return await thread_service.create(self.runtime, owner, "support", None, {})

    async def run(
        self, thread_id: str, text: str = "hello", owner: str = ANN, **options: Any
    ) -> Run:
        """A run of the thread."""
        self.clock.advance(timedelta(seconds=1))
        return await start_run(self.runtime, Actor(sub=owner), thread_id, StartRun(text, **options))

    async def take(self, run_id: str) -> RunLog:
        """The run's journal, as its turn has it."""
        log = await self.journal.writers.acquire(ANN, run_id, f"{run_id}-1")
        assert log is not None
        return log

    async def step(self, log: RunLog, text: str, *calls: tuple[str, str, Any]) -> StepRecord:
        """Journal a model call that said this and asked for these calls (id, tool, args)."""
        meta = log.snapshot.meta
        index = len(log.snapshot.steps) + 1
        at = self.clock.now() + index * 1000 * MICROSECOND
        parts: list[Part] = [TextPart(text=text)]
        parts += [ToolCallPart(tool_call_id=c, tool_name=n, args=a) for c, n, a in calls]
        message = Message(
            id=f"{meta.id}.a{index}",
            thread_id=meta.thread_id,
            run_id=meta.id,
            parent_id=meta.input.id,
            role=Role.ASSISTANT,
            content=tuple(parts),
            created_at=at,
        )
        record = StepRecord(
            key=keys.step_key("", index),
            index=index,
            message=message,
            usage=Usage(input_tokens=10, output_tokens=2),
            model="gpt-5-mini",
            finish_reason="tool-calls" if calls else "stop",
            slots=tuple(
                ToolMessageSlot(
                    tool_call_id=c, message_id=f"{meta.id}.t{c}", created_at=at + i * MICROSECOND
                )
                for i, (c, _, _) in enumerate(calls, start=1)
            ),
        )
        await log.put_step(record)
        return record

    async def suspend(
        self,
        log: RunLog,
        step: StepRecord,
        call_id: str,
        kind: SuspensionKind = SuspensionKind.APPROVAL,
        expires_at: datetime | None = None,
        attempt: int = 1,
        approval: ApprovalRule | None = None,
        risk: Risk | None = None,
    ) -> CallRecord:
        """Let a call of the step wait."""
        part = next(p for p in step.message.tool_calls if p.tool_call_id == call_id)
        planned = CallRecord(
            key=keys.call_key(step.key, call_id),
            run_id=log.snapshot.meta.id,
            tool_call_id=call_id,
            tool_name=part.tool_name,
            args=part.args,
            attempt=attempt - 1,
        )
        await log.open_calls([planned])
        suspension = Suspension(
            kind=kind,
            payload={"type": kind.value},
            resume_schema=APPROVAL if kind is SuspensionKind.APPROVAL else SLOT,
            requested_at=self.clock.now(),
            expires_at=expires_at,
            approval=approval,
            args=_exact(part.tool_name, part.args),
            risk=risk,
        )
        opened = planned.written(state=CallState.OPEN, opener=log.opener, suspension=suspension)
        await log.suspend_calls([opened])
        await self.leave(log)
        waiting = await self.journal.runs.call(ANN, planned.run_id, planned.key)
        assert waiting is not None
        return waiting

    async def leave(self, log: RunLog) -> None:
        """Let the turn leave the run, which waits from now on."""
        meta = log.snapshot.meta
        assert meta.execution is not None
        await self.journal.commands.spend(ANN, meta.id, meta.execution, 0, 1_000, rests=meta.epoch)

    async def suspended(
        self, kind: SuspensionKind = SuspensionKind.APPROVAL, **options: Any
    ) -> tuple[Run, CallRecord]:
        """A run that waits for a person to decide the call `c1`."""
        run = await self.run((await self.thread()).id)
        log = await self.take(run.id)
        args = {"order_id": "o1", "amount": 80}
        step = await self.step(log, "one moment", ("c1", "refund", args))
        return run, await self.suspend(log, step, "c1", kind, **options)

    async def token(self, call: CallRecord) -> None:
        """The waiting branch stores its token, `token of KEY`."""
        stored = await self.journal.commands.store_token(
            ANN, call.run_id, f"{call.run_id}-1", call.key, call.attempt, f"token of {call.run_id}"
        )
        assert stored is not None

    async def finish(self, run_id: str, text: str = "done") -> None:
        """The run answers and ends; it is saved to the database."""
        log = await self.take(run_id)
        meta = log.snapshot.meta
        step = await self.step(log, text)
        head = await self.journal.heads.get(ANN, meta.thread_id)
        assert head is not None
        await self.threads.open_turn(
            TurnQuery(head=head, run_id=run_id, input=meta.input, window=20)
        )
        record = TurnRecord(head=head, run=meta, input=meta.input, response=(step.message,))
        await self.threads.save_turn(record)
        usage = step.usage
        end = Finish(
            at=self.clock.now(),
            status=Status.SUCCESS,
            finish_reason=FinishReason.STOP,
            usage=usage,
            model=step.model,
            output=None,
        )
        outcome = Outcome(
            status=Status.SUCCESS,
            finish_reason=FinishReason.STOP,
            usage=usage,
            model=step.model,
            leaf_id=step.message.id,
            last_created_at=step.message.created_at,
        )
        await log.end(outcome, end, AgentEnd(at=self.clock.now(), messages=(step.message,)))
