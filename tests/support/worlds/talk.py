"""One thread in which several runs wait, work and end between each other, with deaths anywhere."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from layover import Agent, tool
from layover.context.rendering import HEARD
from layover.context.transcript import response_messages, unread_messages
from layover.engine.time_left import NoDeadline
from layover.errors import Conflict, DecisionAlreadyMade, RetryableError
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.plugins.memory.condenses.compact import NOW, compact
from layover.recovery.sweep import sweep
from layover.runs.accept import StartRun, make_request_key, start_run
from layover.runs.turn import turn
from layover.threads.messages import list_messages
from layover.values.deployment.access import Actor
from layover.values.message import Message, Role
from layover.values.prompt import Prompt
from layover.values.runs.payload import CompactPayload, TurnPayload
from layover.values.runs.run import CallRecord, CallState, RunMeta, Status
from layover.values.thread import ThreadHead
from support.worlds.runs import ANN, Bench, Crash, Power

ACTOR = Actor(sub=ANN)
EXPIRES_AFTER = timedelta(hours=6)
TIMEOUT = {"Error": "States.Timeout", "Cause": ""}


def check_prompt(messages: Sequence[Message]) -> None:
    """Check that a provider takes this prompt: each call has its one result, and a user or a tool spoke
    last."""
    ids = [m.id for m in messages]
    assert len(set(ids)) == len(ids), "a message is in a prompt once"
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        assert message.role is not Role.TOOL, "a result without its call"
        if not message.tool_calls:
            continue
        results = [m.content[0] for m in messages[at : at + len(message.tool_calls)]]
        answers = [getattr(part, "tool_call_id", None) for part in results]
        assert answers == [c.tool_call_id for c in message.tool_calls], "each call, its result"
        at += len(answers)
    assert messages[-1].role in (Role.USER, Role.TOOL), "the model speaks next"


def reply(prompt: Prompt) -> Any:
    """Answer the same however often the same is asked: "pay 1 2" pays so much, "soon 3" as long as nothing
    expires, "desk 4+5" lets a sub-agent pay twice; other words are repeated."""
    check_prompt(prompt.messages)
    last = prompt.messages[-1]
    if last.role is Role.TOOL or last.text == HEARD:
        return say("done")
    word, *words = last.text.split()
    if word not in _CALLS:
        return say(f"re {last.text}")
    asked: list[Any] = []
    for each in words:
        if each in _CALLS:
            word = each
        else:
            asked.append(_CALLS[word](each))
    return calls(*asked)


_CALLS = {
    "pay": lambda n: call("pay", amount=int(n), tool_call_id=f"c{n}"),
    "soon": lambda n: call("soon", amount=int(n), tool_call_id=f"s{n}"),
    "desk": lambda n: call("desk", input=f"pay {n.replace('+', ' ')}", tool_call_id=f"d{n[:9]}"),
}
"""The calls of the words that a message may have, by their numbers."""


class Talk(Bench):
    """A thread with an agent that pays once somebody approved."""

    def __init__(self, power: Power | None = None, **agent: Any) -> None:
        self.paid: list[tuple[int, str]] = []
        self.account = "x"
        model = ScriptedModel(reply, background={"observer": lambda _: say("* INFO (00:00) words")})
        super().__init__(self._agent(**agent), model, power=power or Power())
        self._options = agent
        self._keys = 0
        self._executions: dict[str, str] = {}
        self._maps: set[str] = set()
        """Executions in which several calls wait, each in a branch of its own."""

    def _agent(self, **options: Any) -> Agent:
        async def pays(amount: int, account: str) -> str:
            self.power.point()
            self.paid.append((amount, account))
            self.power.point()
            return f"paid {amount}"

        @tool(needs_approval=True)
        async def pay(amount: int, account: str = self.account) -> str:
            """Pay; twice is twice."""
            return await pays(amount, account)

        @tool(needs_approval=True, expires_after=EXPIRES_AFTER)
        async def soon(amount: int, account: str = self.account) -> str:
            """Pay, if it is approved soon."""
            return await pays(amount, account)

        desk = Agent("desk", model="m", tools=[pay], tool_concurrency=3)
        tools: list[Any] = [pay, soon, desk.as_tool("Pays.")]
        return Agent("shop", model="m", tools=tools, tool_concurrency=3, **options)

    def redeploy(self) -> None:
        """Change the tool's default: what was approved is asked for again."""
        self.account += "x"
        self.agents["shop"] = self._agent(**self._options)

    async def say(self, text: str, **options: Any) -> str:
        """A request that its client repeats until it is answered; the id of its run."""
        await self._thread()
        self._keys += 1
        request = StartRun(text, **options)
        key = make_request_key(f"k{self._keys}", "t1", request, self.clock.now())
        for _ in range(5):
            try:
                return (await start_run(self.runtime, ACTOR, "t1", request, key)).id
            except Crash:
                self.power.restore()
        raise AssertionError("the request is never answered")

    async def _thread(self) -> None:
        now = self.clock.now()
        head = ThreadHead(id="t1", owner=ANN, agent="shop", created_at=now, updated_at=now)
        await self.plain.journal.heads.put(head)

    async def turn(self, run_id: str, deadline: Any = None, **answer: Any) -> dict[str, Any]:
        """One invocation of the execution that drives the run now."""
        execution = (await self.meta(run_id)).execution
        payload = TurnPayload(owner=ANN, run_id=run_id, execution=str(execution), **answer)
        return dict(await turn(self.runtime, payload, deadline or NoDeadline()))

    def payload(self, run_id: str, cls: Any = CompactPayload, **more: Any) -> Any:
        execution = more.pop("execution", None) or self._executions.get(run_id, f"{run_id}-1")
        return cls(owner=ANN, run_id=run_id, execution=execution, **more)

    async def step(self, run_id: str, **given: Any) -> str:
        """One invocation, and what the state machine does about its answer. `given`: the answer of the only
        token."""
        execution = self._executions[run_id] = str((await self.meta(run_id)).execution)
        try:
            if execution in self._maps and await self._resume(run_id):
                return "waits"
            answer = await self.turn(run_id, **given)
        except (Crash, RetryableError) as error:
            self.power.restore()
            return await self.settle(run_id, Error=type(error).__name__)
        if answer["status"] == "compact":
            await compact(self.plain, self.payload(run_id, CompactPayload, op=NOW))
        if len(answer.get("waiting") or ()) > 1:
            self._maps.add(execution)
        return str(answer["status"])

    async def _resume(self, run_id: str) -> bool:
        """Let the branch of each decided call settle it, and that of each call that it opened before it died.
        Return whether others still wait."""
        snapshot = await self.plain.journal.runs.snapshot(ANN, run_id)
        assert snapshot is not None
        for each in snapshot.calls:
            is_decided = each.state is CallState.WAITING and each.decision is not None
            if is_decided or each.key in snapshot.meta.branches:
                await self.branch(run_id, each.tool_call_id)
        return bool((await self.meta(run_id)).waiting)

    async def decide_as(self, run_id: str, call_id: str, verdict: str, **given: Any) -> bool:
        """A decision that its client repeats until it is answered. The run is not driven. False: it is
        refused."""
        for _ in range(5):
            try:
                await self.decide(run_id, call_id, verdict, **given)
                return True
            except Crash:
                self.power.restore()
            except (DecisionAlreadyMade, Conflict):
                return False
        raise AssertionError("the decision is never answered")

    async def time_out(self) -> int:
        """Let the state machine's branches of calls that have expired time out. Return how many did."""
        count = 0
        for meta in await self.runs():
            snapshot = await self.plain.journal.runs.snapshot(ANN, meta.id)
            assert snapshot is not None
            if meta.cancel:
                # Whoever was to end it has died, and the sweeper does.
                continue
            for late in [c for c in snapshot.calls if c.undecided and self._is_late(c)]:
                await self._time_out(meta.id, late.tool_call_id)
                count += 1
        return count

    def _is_late(self, waiting: CallRecord) -> bool:
        return waiting.expires_at is not None and waiting.expires_at <= self.clock.now()

    async def _time_out(self, run_id: str, call_id: str) -> None:
        for _ in range(5):
            if not (await self.call(run_id, call_id)).undecided:
                return
            meta = await self.meta(run_id)
            if len(meta.waiting) == 1 and meta.execution not in self._maps:
                item = await self.item(run_id, call_id)
                await self.step(run_id, call=item, output=TIMEOUT)
                continue
            self._executions[run_id] = str(meta.execution)
            try:
                await self.branch(run_id, call_id, TIMEOUT)
            except (Crash, RetryableError):
                self.power.restore()
        assert not (await self.call(run_id, call_id)).undecided, "an expired call waits on"

    async def runs(self) -> list[RunMeta]:
        """The runs that are not over, oldest first."""
        page = await self.plain.journal.runs.page_ids(ANN, "t1", 100, None)
        metas = [await self.meta(run_id) for run_id in reversed(page.items)]
        return [meta for meta in metas if not meta.status.over]

    async def rest(self) -> None:
        """Let everything go on until nothing can without a decision."""
        for _ in range(60):
            busy = [m for m in await self.runs() if self._may_go_on(m)]
            head = await self.head()
            if not busy and not head.ready and not head.queue:
                return
            moved = False
            for meta in busy:
                # One that only waits, and is being cancelled, is the sweeper's to end.
                moved = await self.step(meta.id) not in ("left", "waits") or moved
            if not moved:
                # Whatever a death left behind, the sweeper finds.
                self.clock.advance(self.plain.settings.sweep_patience * 61)
                self.callbacks.started.clear()
                self.callbacks.stopped.clear()
                await sweep(self.plain)
        raise AssertionError(f"no rest: {await self.head()} {await self.runs()}")

    def _may_go_on(self, meta: RunMeta) -> bool:
        if meta.status is Status.QUEUED:
            return False
        if meta.cancel or self._executions.get(meta.id) != meta.execution:
            return True
        # Nothing drives a run that is ready, before whoever hands it the thread starts its next execution.
        return not meta.ready and not meta.only_waits

    async def words(self) -> list[str]:
        """The conversation as readers see it and, if no run is at work, as the database has it."""
        page = await list_messages(self.plain, ANN, "t1", None, 200, None)
        ids = [m.id for m in page.items]
        assert len(set(ids)) == len(ids)
        head = await self.head()
        if head.active_run is None and not head.unsaved:
            stored_ids = [m.id for m in await self.stored()]
            own_ids = await self._only_in_journal(head)
            told = [id for id in ids if id in stored_ids or id not in own_ids]
            assert stored_ids == told, "what is shown is what is stored"
            times = [m.created_at for m in page.items if m.role is not Role.CUSTOM]
            assert times == sorted(set(times)), "times only grow"
        return [_word(m) for m in page.items]

    async def _only_in_journal(self, head: ThreadHead) -> set[str]:
        """What runs that are set aside were sent, and have not read, and results of their calls: the
        database has them with their next step, or their end."""
        ids: set[str] = set()
        for run_id in head.waiting_runs:
            snapshot = await self.plain.journal.runs.snapshot(ANN, run_id)
            assert snapshot is not None
            results = (m for m in response_messages(snapshot) if m.role is Role.TOOL)
            ids |= {m.id for m in (*unread_messages(snapshot), *results)}
        return ids


def _word(message: Message) -> str:
    return "result" if message.role is Role.TOOL else message.text or "calls"
