"""The in-process driver of an agent (CONTRACT 2): the same services, without an orchestrator.

Where Step Functions would call a function, this calls the service behind it."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter

from layover.declare.agent import Agent
from layover.declare.result import AgentState, Input, Result
from layover.errors import NotFound
from layover.ports import Runtime
from layover.services import approvals
from layover.services.cancel import cancel
from layover.services.compact import compact
from layover.services.deadlines import NoDeadline
from layover.services.extract import extract
from layover.services.payloads import ResumePayload, RunPayload, SettlePayload, WaitingCall
from layover.services.resume import DECIDED, resume
from layover.services.runs import snapshot_of
from layover.services.settle import settle
from layover.services.start_run import StartRun, start_run
from layover.services.turn import turn
from layover.services.views import run_view
from layover.values.event import Event
from layover.values.message import InputPart
from layover.values.run import Run, Status
from layover.values.thread import ThreadHead

SOMEBODY = "local"
"""Owner of threads where no `resource_id` is given."""
_LOOK_EVERY_S = 0.05
"""Where the stores do not ring."""
_DELTAS = frozenset({"text-delta", "reasoning-delta", "tool-call-delta"})
_PARTS: TypeAdapter[list[InputPart]] = TypeAdapter(list[InputPart], config={"defer_build": True})

Handler = Callable[[Any], Any]


class InProcess:
    """`declare.seam.Driver`: drives the runs of one agent in this process."""

    def __init__(self, runtime: Runtime, agent: Agent, bell: asyncio.Event) -> None:
        self._runtime = runtime
        self._agent = agent
        self._bell = bell
        self._handlers: dict[str, list[Handler]] = defaultdict(list)
        self._owners: dict[str, str] = {}
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._aborting: set[asyncio.Task[Any]] = set()
        self._state = AgentState()

    async def generate(
        self,
        input: Input,
        *,
        thread_id: str | None,
        resource_id: str | None,
        max_iterations: int | None,
    ) -> Result:
        """Run until the end or a suspension."""
        streamed = any(self._handlers[d] for d in _DELTAS)
        run_id = await self._accept(input, thread_id, resource_id, max_iterations, streamed)
        return await self._go_on(run_id, after=0)

    def stream(
        self,
        input: Input,
        *,
        thread_id: str | None,
        resource_id: str | None,
        max_iterations: int | None,
    ) -> AsyncIterator[Event]:
        """The same as events, deltas included, until the end or a suspension."""
        return self._stream(input, thread_id, resource_id, max_iterations)

    async def resume(self, run_id: str, tool_call_id: str, data: Any) -> Result:
        """Settle a programmatic suspension."""
        request = approvals.Decide(approvals.Verdict.RESUME, data=data)
        return await self._decide(run_id, tool_call_id, request)

    async def approve(self, run_id: str, tool_call_id: str, args: dict[str, Any] | None) -> Result:
        """Let a call run."""
        request = approvals.Decide(approvals.Verdict.APPROVE, args=args)
        return await self._decide(run_id, tool_call_id, request)

    async def deny(self, run_id: str, tool_call_id: str, reason: str | None) -> Result:
        """Do not let a call run."""
        request = approvals.Decide(approvals.Verdict.DENY, reason=reason)
        return await self._decide(run_id, tool_call_id, request)

    def on(self, event: str, handler: Handler) -> None:
        """Call `handler` with each event of this type."""
        self._handlers[event].append(handler)

    def abort(self) -> None:
        """Cancel what runs. The runs end as cancelled; their `generate` answers then."""
        loop = asyncio.get_running_loop()
        for run_id in self._driving:
            task = loop.create_task(cancel(self._runtime, self._owners[run_id], run_id))
            self._aborting.add(task)
            task.add_done_callback(self._aborting.discard)

    def state(self) -> AgentState:
        """The newest run, as it was last seen."""
        return self._state

    async def _accept(
        self,
        input: Input,
        thread_id: str | None,
        resource_id: str | None,
        max_iterations: int | None,
        streamed: bool,
    ) -> str:
        owner = resource_id or SOMEBODY
        thread_id = thread_id or self._runtime.ids.new("thread")
        now = self._runtime.clock.now()
        await self._runtime.journal.put_thread(
            ThreadHead(
                id=thread_id, owner=owner, agent=self._agent.name, created_at=now, updated_at=now
            )
        )
        content = input if isinstance(input, str) else _PARTS.validate_python(list(input))
        request = StartRun(content, stream=streamed, max_iterations=max_iterations)
        run = await start_run(self._runtime, owner, thread_id, request)
        self._owners[run.id] = owner
        self._state = AgentState(status="running")
        return run.id

    async def _decide(self, run_id: str, tool_call_id: str, request: approvals.Decide) -> Result:
        owner = self._owner(run_id)
        last = (await self._runtime.journal.events(owner, run_id, 0, 1_000_000)).last_seq
        await approvals.decide(self._runtime, owner, run_id, tool_call_id, request)
        snapshot = await snapshot_of(self._runtime, owner, run_id)
        key = next(c.key for c in snapshot.calls if c.tool_call_id == tool_call_id)
        item = WaitingCall(key=key, attempt=0, timeout_s=1)
        payload = {"owner": owner, "run_id": run_id, "execution": f"{run_id}-1"}
        await resume(self._runtime, ResumePayload(**payload, call=item, output=DECIDED))
        return await self._go_on(run_id, after=last)

    async def _go_on(self, run_id: str, after: int) -> Result:
        driving = self._drive_in_background(run_id)
        if any(self._handlers.values()):
            async for _ in self._follow(run_id, driving, after):
                pass
        await driving
        return await self._result(run_id)

    async def _stream(
        self,
        input: Input,
        thread_id: str | None,
        resource_id: str | None,
        max_iterations: int | None,
    ) -> AsyncIterator[Event]:
        run_id = await self._accept(input, thread_id, resource_id, max_iterations, True)
        driving = self._drive_in_background(run_id)
        try:
            async for event in self._follow(run_id, driving, 0):
                yield event
        finally:
            # A consumer that leaves early leaves the run alone: it goes on.
            if driving.done():
                driving.result()
                await self._result(run_id)

    async def _follow(
        self, run_id: str, driving: asyncio.Task[None], after: int
    ) -> AsyncIterator[Event]:
        owner = self._owner(run_id)
        while True:
            at_rest = driving.done()
            self._bell.clear()
            page = await self._runtime.journal.events(owner, run_id, after, 1_000)
            for event in page.items:
                await self._tell(event)
                yield event
            after = page.last_seq
            if page.done or (at_rest and not page.items):
                return
            if not page.items:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._bell.wait(), _LOOK_EVERY_S)

    async def _tell(self, event: Event) -> None:
        for handler in self._handlers[event.type]:
            answer = handler(event)
            if asyncio.iscoroutine(answer):
                await answer

    def _drive_in_background(self, run_id: str) -> asyncio.Task[None]:
        task = asyncio.create_task(self._drive(self._owner(run_id), run_id))
        self._driving[run_id] = task
        task.add_done_callback(lambda _: self._rested(run_id))
        return task

    def _rested(self, run_id: str) -> None:
        self._driving.pop(run_id, None)
        self._bell.set()

    async def _drive(self, owner: str, run_id: str) -> None:
        """What the state machine does: Turn until the run is over or waits, then Remember."""
        payload = RunPayload(owner=owner, run_id=run_id, execution=f"{run_id}-1")
        while True:
            try:
                answer = await turn(self._runtime, payload, NoDeadline())
            except Exception as error:
                if await self._settled(payload, error):
                    return
                continue
            if answer["status"] == "over":
                await extract(self._runtime, payload)
                await compact(self._runtime, payload)
            if answer["status"] != "yielded":
                return

    async def _settled(self, payload: RunPayload, error: Exception) -> bool:
        cause = json.dumps({"errorMessage": str(error)})
        facts = {"Error": type(error).__name__, "Cause": cause}
        failed = SettlePayload(**payload.model_dump(), error=facts)
        return str((await settle(self._runtime, failed))["status"]) != "again"

    async def _result(self, run_id: str) -> Result:
        run = run_view(await snapshot_of(self._runtime, self._owner(run_id), run_id))
        self._state = AgentState(
            status=run.status.value if run.status is not Status.QUEUED else "running",
            messages=list(run.messages),
            pending=list(run.pending),
            usage=run.usage,
        )
        return _result_of(run, self._agent)

    def _owner(self, run_id: str) -> str:
        if run_id not in self._owners:
            raise NotFound("this agent has no such run", run_id=run_id)
        return self._owners[run_id]


def _result_of(run: Run, agent: Agent) -> Result:
    output = run.output
    if agent.output is not None and run.status is Status.SUCCESS and run.text:
        with suppress(ValueError):
            output = agent.parse_output(run.text)
    return Result(
        run_id=run.id,
        status=run.status,
        messages=list(run.messages),
        text=run.text,
        output=output,
        finish_reason=run.finish_reason,
        usage=run.usage,
        pending=list(run.pending),
        error=run.error,
    )
