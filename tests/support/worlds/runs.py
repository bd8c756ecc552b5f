"""One process's worth of runs in memory, driven as the state machine drives them; and a power switch."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, cast

from pydantic import BaseModel

from layover import Agent, ToolContext, tool
from layover.adapters.journal.journal import table_journal
from layover.approvals import decide as approvals
from layover.approvals.token_answer import DECIDED
from layover.clock import ManualClock
from layover.engine.time_left import NoDeadline
from layover.errors import DecisionAlreadyMade, RetryableError
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.callbacks import InMemoryCallbacks
from layover.inmemory.model import ScriptedModel
from layover.inmemory.stores.threads import InMemoryThreads
from layover.inmemory.table import InMemoryTable
from layover.plugins.memory.condenses.compact import AHEAD, NOW, compact
from layover.plugins.memory.learns.extract import extract
from layover.ports import ChatModel, Clock, Deadline, Journal, ThreadStore
from layover.records.views import run_view
from layover.recovery.give_up import give_up
from layover.runs.accept import StartRun, start_run
from layover.runs.resume import await_decision, resume
from layover.runs.turn import turn
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.deployment.settings import Settings
from layover.values.message import InputPart, Message, Role, ToolResultPart
from layover.values.prompt import Prompt, Reply
from layover.values.runs.event import Event
from layover.values.runs.payload import (
    AwaitPayload,
    CompactPayload,
    ResumePayload,
    RunPayload,
    SettlePayload,
    TurnPayload,
    WaitingCall,
)
from layover.values.runs.run import RunMeta, Status
from layover.values.runs.views import Run
from layover.values.thread import ThreadHead
from support.worlds.builder import build_runtime

ANN = "ann"


class Crash(BaseException):
    """The process dies here."""


class Power:
    """Cut at the k-th port call, before or after it took effect; then nothing works until `restore`."""

    def __init__(self, cut_at: int = 0, *, after: bool = False) -> None:
        self.cut_at = cut_at
        self.after = after
        self.calls = 0
        self.of = Counter[str]()
        """Calls by the port's method."""
        self.dead = False
        self.cuts = 0

    async def through(self, name: str, work: Any) -> Any:
        """One port call."""
        self.calls += 1
        self.of[name] += 1
        cut = self.calls == self.cut_at
        if self.dead or (cut and not self.after):
            work.close()
            self.cut()
        result = await work
        if cut or self.dead:
            self.cut()
        return result

    def cut(self) -> None:
        self.cuts += not self.dead
        self.dead = True
        raise Crash

    def point(self) -> None:
        """A place in a tool's own code."""
        self.calls += 1
        if self.dead or self.calls == self.cut_at:
            self.cut()

    def restore(self) -> None:
        self.dead = False


class Powered:
    """A port that works while there is power."""

    def __init__(self, port: Any, power: Power) -> None:
        self._port = port
        self._power = power

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        return lambda *args, **kwargs: self._power.through(name, method(*args, **kwargs))


def powered_journal(journal: Journal, power: Power) -> Journal:
    """A journal whose parts work while there is power."""
    parts: dict[str, Any] = {
        part.name: Powered(getattr(journal, part.name), power) for part in fields(journal)
    }
    return replace(journal, **parts)


class Away:
    """A port that is away: each call fails, and did nothing."""

    def __getattr__(self, name: str) -> Any:
        async def fails(*_: Any, **__: Any) -> None:
            raise RetryableError(f"{name}: away")

        return fails


def without_decisions(runtime: Runtime) -> Runtime:
    """Return a runtime that can write no decision."""
    return replace(runtime, journal=replace(runtime.journal, decisions=cast(Any, Away())))


@dataclass
class FailingThreads(InMemoryThreads):
    """A database that can be away for reading or for saving."""

    away: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    async def save_turn(self, record: Any) -> None:
        if self.away:
            raise RetryableError("the database is away")
        await super().save_turn(record)

    async def erase(self, owner: str, thread_id: str) -> None:
        if self.away:
            raise RetryableError("the database is away")
        await super().erase(owner, thread_id)


class AtOnce:
    """`ports.Background` that has done it when it returns."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def observe(self, owner: str, run_id: str, after_id: str | None, through_id: str) -> None:
        payload = CompactPayload(
            op=AHEAD, owner=owner, run_id=run_id, after_id=after_id, through_id=through_id
        )
        await compact(self._runtime, payload)


_words: dict[str, str] = {}
"""What operators are told of failed runs, by the id of the run that was read last."""


def words_of(run: Run) -> str:
    """What operators are told of a run that failed: the words of a provider, or of an exception; where there
    are none, what its owner reads."""
    assert run.error is not None
    return _words[run.id] or run.error.message


class Bench:
    """An agent with in-memory ports, and a hand that does what Step Functions does."""

    def __init__(
        self,
        agent: Agent,
        model: ChatModel | Sequence[Any],
        *,
        clock: Clock | None = None,
        power: Power | None = None,
        settings: Settings | None = None,
        blobs: InMemoryBlobs | None = None,
        table: InMemoryTable | None = None,
        **ports: Any,
    ) -> None:
        """`ports`: more fields of the runtime, for example an embedder."""
        self.agent = agent
        self.agents: dict[str, Agent] = {agent.name: agent}
        self.model: Any = ScriptedModel(model) if isinstance(model, Sequence) else model
        self.clock: Any = clock or ManualClock()
        self.power = power or Power()
        self.threads = FailingThreads()
        self.callbacks = InMemoryCallbacks()
        self._table = self.table = table or InMemoryTable()
        self._blobs = blobs or InMemoryBlobs()
        self.plain = build_runtime(
            journal=table_journal(self._table, self._blobs, self.clock),
            threads=self.threads,
            blobs=self._blobs,
            model=self.model,
            callbacks=self.callbacks,
            clock=self.clock,
            settings=settings or Settings(),
            agents=lambda: self.agents,
            **ports,
        )
        """Ports that never lose power, for looking at what there is."""
        powered: Any = Powered(self._table, self.power)
        self.runtime = replace(
            self.plain,
            journal=table_journal(powered, self._blobs, self.clock),
            threads=cast(ThreadStore, Powered(self.threads, self.power)),
            model=cast(ChatModel, Powered(self.model, self.power)),
        )

    async def start(
        self,
        text: str | Sequence[InputPart] = "hello",
        thread: str = "t1",
        traceparent: str | None = None,
        **options: Any,
    ) -> str:
        """Accept a run; its id."""
        now = self.clock.now()
        head = ThreadHead(
            id=thread, owner=ANN, agent=self.agent.name, created_at=now, updated_at=now
        )
        await self.plain.journal.heads.put(head)
        actor = Actor(sub=ANN, traceparent=traceparent)
        return (await start_run(self.plain, actor, thread, StartRun(text, **options))).id

    def payload(self, run_id: str, cls: type = RunPayload, **more: Any) -> Any:
        return cls(owner=ANN, run_id=run_id, execution=f"{run_id}-1", **more)

    async def turn(
        self, run_id: str, deadline: Deadline | None = None, **answer: Any
    ) -> dict[str, Any]:
        """One invocation. `answer`: of the token of the one call that waited."""
        meta = await self.meta(run_id)
        # A run that was set aside, or had failed, may go on in its next execution; every other test says so
        # itself.
        goes_on = meta.aside or meta.reopened_at is not None
        execution = meta.execution if goes_on else f"{run_id}-1"
        about = {"owner": ANN, "run_id": run_id, "execution": execution, **answer}
        payload = TurnPayload.model_validate(about)
        return dict(await turn(self.runtime, payload, deadline or NoDeadline()))

    async def hear(
        self, run_id: str, call_id: str, output: Any = DECIDED, pause_s: int = 0
    ) -> dict[str, Any]:
        """The turn that follows the answer of the one call's token."""
        item = await self.item(run_id, call_id, pause_s)
        return await self.turn(run_id, call=item, output=output)

    async def item(self, run_id: str, call_id: str, pause_s: int = 0) -> WaitingCall:
        """Return the state machine's item for a call that waits."""
        found = await self.call(run_id, call_id)
        return WaitingCall(key=found.key, attempt=found.attempt, timeout_s=1, pause_s=pause_s)

    async def settle(self, run_id: str, **error: Any) -> str:
        """Settle a Turn that failed, as the state machine does."""
        payload = self.payload(run_id, SettlePayload, error=error)
        return str((await give_up(self.plain, payload))["status"])

    async def drive(self, run_id: str, **given: Any) -> str:
        """Turn until the run is over or suspended, restarting what crashed or failed. `given`: the answer
        of the one call's token, which every attempt gets until one has heard it."""
        for _ in range(50):
            try:
                answer = await self.turn(run_id, **given)
                given = {}
            except (Crash, RetryableError) as error:
                self.power.restore()
                status = await self.settle(run_id, Error=type(error).__name__)
                if status != "again":
                    return "over" if (await self.meta(run_id)).status.over else status
                continue
            if answer["status"] == "compact":
                await compact(self.plain, self.payload(run_id, CompactPayload, op=NOW))
            elif answer["status"] != "yielded":
                return str(answer["status"])
        raise AssertionError("the run comes to no end")

    def observe_ahead(self) -> None:
        """Slices are observed at once, where a deployment does it in the background."""
        self.runtime = replace(self.runtime, background=AtOnce(self.plain))

    async def remember(self) -> None:
        """Do what the state machine does after the newest run's end."""
        run_id = (await self.plain.journal.runs.page_ids(ANN, "t1", 1, None)).items[0]
        await extract(self.plain, self.payload(run_id))
        await compact(self.plain, self.payload(run_id, CompactPayload))

    async def go(self, text: str | Sequence[InputPart] = "hello", **options: Any) -> Run:
        """A run from beginning to end, or to its suspension."""
        run_id = await self.start(text, **options)
        await self.drive(run_id)
        return await self.run(run_id)

    async def meta(self, run_id: str) -> RunMeta:
        found = await self.plain.journal.runs.get(ANN, run_id)
        assert found is not None
        return found

    async def run(self, run_id: str) -> Run:
        snapshot = await self.plain.journal.runs.snapshot(ANN, run_id)
        assert snapshot is not None
        detail = snapshot.meta.error_detail
        _words[run_id] = detail.message if detail else ""
        return run_view(snapshot)

    async def head(self, thread: str = "t1") -> ThreadHead:
        head = await self.plain.journal.heads.get(ANN, thread)
        assert head is not None
        return head

    async def call(self, run_id: str, call_id: str) -> Any:
        snapshot = await self.plain.journal.runs.snapshot(ANN, run_id)
        assert snapshot is not None
        return next(c for c in snapshot.calls if c.tool_call_id == call_id)

    async def decide(
        self, run_id: str, call_id: str, verdict: str, actor: Actor | None = None, **given: Any
    ) -> Run:
        """Only make the decision: no process settles the call yet."""
        request = approvals.DecisionRequest(approvals.Verdict(verdict), **given)
        actor = actor or Actor(sub=ANN)
        answer = await approvals.decide(self.runtime, actor, run_id, call_id, request)
        assert isinstance(answer.run, Run)
        return answer.run

    async def branch(
        self, run_id: str, call_id: str, output: Any = DECIDED, pause_s: int = 0
    ) -> WaitingCall:
        """Resume, as the Map's branch of this call does once its token is answered."""
        item = await self.item(run_id, call_id, pause_s)
        return await resume(
            self.runtime, self.payload(run_id, ResumePayload, call=item, output=output)
        )

    async def wait(self, run_id: str, call_id: str, token: str = "token") -> str:
        """Await: store the call's token."""
        item = await self.item(run_id, call_id)
        payload = self.payload(run_id, AwaitPayload, call=item, token=token)
        return str((await await_decision(self.runtime, payload))["status"])

    async def answer(self, run_id: str, call_id: str, verdict: str, **given: Any) -> str:
        """Decide, settle, go on: each step repeated when the process dies in it."""
        is_only = len((await self.meta(run_id)).waiting) == 1
        item = await self.item(run_id, call_id)
        for step in ("decide", "settle"):
            for _ in range(5):
                try:
                    if step == "decide":
                        await self.decide(run_id, call_id, verdict, **given)
                    elif not is_only:
                        await self.branch(run_id, call_id)
                    break
                except Crash:
                    self.power.restore()
                except DecisionAlreadyMade:
                    break
        return await (
            self.drive(run_id, call=item, output=DECIDED) if is_only else self.drive(run_id)
        )

    @property
    def published(self) -> list[Mapping[str, Any]]:
        """The requests for decisions that went over the bus."""
        return [d for kind, d in self.callbacks.events if kind == "ApprovalRequested"]

    async def events(self, run_id: str) -> list[Event]:
        """All events; their numbers have no gap."""
        found: list[Event] = []
        while True:
            page = await self.plain.journal.events.page(ANN, run_id, len(found), 1_000)
            found += cast("tuple[Event, ...]", page.items)
            assert [e.seq for e in found] == list(range(1, len(found) + 1))
            if page.done or not page.items:
                return found

    async def stored(self, thread: str = "t1") -> list[Message]:
        """Return the messages of the thread's newest branch in the database."""
        leaf = (await self.head(thread)).leaf_id
        assert leaf is not None
        page = await self.threads.messages(ANN, thread, leaf, 1_000, None)
        assert page is not None
        return list(page.items)


def nested(levels: int) -> Any:
    """Lists within lists."""
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def types(events: Iterable[Event], *but: str) -> list[str]:
    """The events' types, without messages and deltas."""
    hidden = {"message", "text-delta", "reasoning-delta", "tool-call-delta", *but}
    return [e.type for e in events if e.type not in hidden]


def told(messages: Iterable[Message]) -> list[tuple[str, Any]]:
    """Roles, with texts and results: what stays the same whatever the ids and times are."""
    shown: list[tuple[str, Any]] = []
    for message in messages:
        results = [p.result for p in message.content if isinstance(p, ToolResultPart)]
        shown.append((message.role.value, results[0] if results else message.text))
    return shown


def answers(*script: Reply) -> Any:
    """A model whose answer depends on how many steps the run has: asked again, it says the same."""

    def reply(prompt: Prompt) -> Reply:
        newest = max(i for i, m in enumerate(prompt.messages) if m.role is Role.USER)
        steps = [m for m in prompt.messages[newest:] if m.role is Role.ASSISTANT]
        return script[len(steps)]

    return ScriptedModel(reply)


def answers_of(scripts: Mapping[str, Sequence[Any]]) -> Any:
    """As `answers`, for several agents: each has its own script, by the first word of its instructions."""

    def reply(prompt: Prompt) -> Any:
        steps = [m for m in prompt.messages if m.role is Role.ASSISTANT]
        return scripts[(prompt.system or "").split()[0]][len(steps)]

    return ScriptedModel(reply)


def seen(prompt: Prompt) -> list[str]:
    """Return the results as the model reads them, newest last."""
    return [m.model_output or "" for m in prompt.messages if m.role is Role.TOOL]


def with_tools(agent: Agent, *tools: Any) -> Agent:
    """The same agent after a deployment of new code."""
    return Agent(
        agent.name, model=agent.model, tools=tools, tool_concurrency=agent.tool_concurrency
    )


class Offer(BaseModel):
    """The offer that a person is shown."""

    slots: list[str]


class Choice(BaseModel):
    """The choice that a person makes."""

    slot: str


class Ledger:
    """Tools with side effects, and what became of them."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.offered = 0

        @tool(needs_approval=True, expires_after=timedelta(hours=1))
        async def pay(amount: int) -> str:
            """Pay."""
            self.done.append(amount)
            return f"paid {amount}"

        @tool
        async def look(n: int) -> int:
            """Look."""
            self.done.append(("look", n))
            return n

        @tool(suspend=Offer, resume=Choice)
        async def book(ctx: ToolContext, day: str) -> str:
            """Book a slot; "full" is offered something else."""
            if ctx.resume is None or ctx.resume.slot == "full":
                self.offered += 1
                return ctx.suspend(Offer(slots=[f"{day}-{self.offered}"]))
            self.done.append(ctx.resume.slot)
            return f"booked {ctx.resume.slot}"

        self.pay, self.look, self.book = pay, look, book

    def bench(self, *script: Any, concurrency: int = 40) -> Bench:
        tools: list[Any] = [self.pay, self.look, self.book]
        agent = Agent("helper", model="m", tools=tools, tool_concurrency=concurrency)
        return Bench(agent, ScriptedModel(script))


async def suspended(bench: Bench, **options: Any) -> Run:
    run = await bench.go(**options)
    assert run.status is Status.SUSPENDED
    return run
