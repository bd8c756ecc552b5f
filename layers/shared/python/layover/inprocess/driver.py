"""The in-process driver of an agent (docs/behaviour.md#in-process): the same services, without an
orchestrator. It calls the service behind each function that Step Functions would call."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_json

from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.approvals.token_answer import DECIDED
from layover.approvals.waiting import is_expired, waiting_call
from layover.declare.agent import Agent
from layover.declare.agents.driver import RunOptions
from layover.declare.agents.stream import RunStream
from layover.declare.hooks.base import defines
from layover.declare.memory import NodeMemory
from layover.declare.result import AgentState, Input, Result
from layover.declare.schemas.render import jsonable
from layover.declare.tools.delegate import with_handoffs
from layover.errors import (
    ConfigurationError,
    DecisionAlreadyMade,
    DecisionError,
    DecisionInvalid,
    InvalidRequest,
    NotFound,
)
from layover.inprocess.aborts import AbortsHere, EarlyAbort
from layover.inprocess.background_tasks import InThisProcess
from layover.inprocess.drives import Drives
from layover.inprocess.followers import Followers, Handler
from layover.records.runs import snapshot_of
from layover.records.views import run_view
from layover.runs.accept import StartRun, start_run
from layover.runs.cancel import cancel
from layover.runs.resume import resume
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.message import InputPart
from layover.values.runs.event import Event
from layover.values.runs.payload import ResumePayload, WaitingCall
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from layover.values.thread import ThreadHead

SOMEBODY = "local"
"""The owner of threads without a `resource_id`."""
_EXPIRED = {"Error": "States.Timeout"}
"""The error of the state machine's timer for a call that waited too long."""
_DELTAS = frozenset({"text-delta", "output-delta", "reasoning-delta", "tool-call-delta"})
_PARTS: TypeAdapter[list[InputPart]] = TypeAdapter(list[InputPart], config={"defer_build": True})

T = TypeVar("T")
logger = logging.getLogger("layover")


class _Unknown(DecisionError, NotFound):
    """A decision about a run or a call that this agent does not have."""


class InProcess:
    """`declare.agents.driver.Driver`: drives the runs of one agent in this process."""

    def __init__(self, runtime: Runtime, agent: Agent, bell: asyncio.Event) -> None:
        self._followers = Followers(runtime.journal, bell)
        self._aborts = AbortsHere(self._catch_up)
        # Whoever calls `generate` waits for it, and has no timer that lets the run go on.
        patience = {"provider_patience": timedelta(0)}
        settings = runtime.settings.model_copy(update=patience)
        runtime = replace(runtime, aborts=self._aborts, settings=settings)
        if runtime.background is None:
            runtime = replace(runtime, background=InThisProcess(runtime))
        self._runtime = runtime
        self._agent = agent
        self._owners: dict[str, str] = {}
        self._drives = Drives(runtime, self._result, self._end_drive)
        self._newest: str | None = None
        self._state = AgentState()

    async def generate(self, input: Input, options: RunOptions) -> Result:
        """Run until the end or a suspension, and return the result."""
        streams = self._followers.any_of(*_DELTAS)
        run_id = await self._accept(input, options, streams=streams)
        return await self._go_on(run_id)

    def stream(self, input: Input, options: RunOptions) -> RunStream[Any]:
        """Run, and return the events, deltas included, until the end or a suspension."""
        # Named before it is accepted, because the handle has the id although the run begins only with its
        # first reader.
        run_id = self._runtime.ids.new("run")
        early = EarlyAbort()

        async def events() -> AsyncGenerator[Event, None]:
            await self._accept(input, options, streams=True, run_id=run_id)
            async for event in self._follow(run_id, 0, early):
                yield event

        return self._handle(run_id, events(), early)

    async def resume(self, run_id: str, tool_call_id: str, data: Any) -> Result:
        """Settle a programmatic suspension."""
        return await self._decide(run_id, tool_call_id, _resume_request(data))

    async def approve(
        self, run_id: str, tool_call_id: str, args: dict[str, Any] | None, reason: str | None
    ) -> Result:
        """Let a call run."""
        return await self._decide(run_id, tool_call_id, _approve_request(args, reason))

    async def deny(self, run_id: str, tool_call_id: str, reason: str | None) -> Result:
        """Do not let a call run."""
        return await self._decide(run_id, tool_call_id, _deny_request(reason))

    def stream_resume(self, run_id: str, tool_call_id: str, data: Any) -> RunStream[Any]:
        """Settle a programmatic suspension, and return the events that follow."""
        return self._stream_decision(run_id, tool_call_id, _resume_request(data))

    def stream_approve(
        self, run_id: str, tool_call_id: str, args: dict[str, Any] | None, reason: str | None
    ) -> RunStream[Any]:
        """Return the events that follow `approve`."""
        return self._stream_decision(run_id, tool_call_id, _approve_request(args, reason))

    def stream_deny(self, run_id: str, tool_call_id: str, reason: str | None) -> RunStream[Any]:
        """Return the events that follow `deny`."""
        return self._stream_decision(run_id, tool_call_id, _deny_request(reason))

    def on(self, event: str, handler: Handler) -> None:
        """Call `handler` with each event of this type."""
        self._followers.on(event, handler)

    def abort(self) -> None:
        """Cancel the runs under way. They end as cancelled; their `generate` returns then."""
        for run_id, task in self._drives.at_work().items():
            self._abort(run_id, task)

    def _abort(self, run_id: str, task: asyncio.Task[Any]) -> None:
        self._aborts.abort(run_id)
        # Handed over to the loop, since a tool may call this in a worker thread.
        task.get_loop().call_soon_threadsafe(self._cancel_soon, run_id)

    def _abort_one(self, run_id: str, early: EarlyAbort) -> None:
        task = self._drives.task_of(run_id)
        if task is not None:
            self._abort(run_id, task)
        else:
            early.ask()

    def state(self) -> AgentState:
        """The newest run, in its last known state."""
        return self._state

    async def wait_for_memory(self) -> None:
        """Wait until memory has learned from the runs that are over."""
        await self._drives.wait_for_memory()

    async def _accept(
        self, input: Input, options: RunOptions, *, streams: bool, run_id: str | None = None
    ) -> str:
        owner = options.resource_id or SOMEBODY
        if options.max_iterations is not None and options.max_iterations < 1:
            raise InvalidRequest("max_iterations has to be at least 1")
        actor = Actor(
            sub=owner,
            groups=_names("groups", options.groups),
            scopes=_names("scopes", options.scopes),
            in_process=True,
        )
        thread_given = bool(options.thread_id)
        if not thread_given and isinstance(self._agent.memory.history, NodeMemory):
            raise ConfigurationError("node memory belongs to a thread: give generate a thread_id")
        thread_id = options.thread_id or self._runtime.ids.new("thread")
        now = self._runtime.clock.now()
        await self._runtime.journal.heads.put(
            ThreadHead(
                id=thread_id, owner=owner, agent=self._agent.name, created_at=now, updated_at=now
            )
        )
        head = await self._runtime.journal.heads.get(owner, thread_id)
        if head is not None and head.agent not in with_handoffs([self._agent]):
            raise InvalidRequest("the thread belongs to another agent", thread_id=thread_id)
        if head is not None and head.active_run is not None:
            await self._go_on_without(owner, head.active_run)
        content = input if isinstance(input, str) else _PARTS.validate_python(list(input))
        request = StartRun(
            content,
            stream=streams,
            max_iterations=options.max_iterations,
            thread_given=thread_given,
            run_id=run_id,
        )
        run = await start_run(self._runtime, actor, thread_id, request)
        self._owners[run.id] = owner
        self._begin(run.id)
        return run.id

    def _begin(self, run_id: str) -> None:
        self._newest = run_id
        self._state = AgentState(status="running")

    async def _decide(self, run_id: str, tool_call_id: str, request: DecisionRequest) -> Result:
        refusal = await self._decide_call(run_id, tool_call_id, request)
        result = await self._go_on(run_id)
        if refusal is not None:
            raise refusal
        return result

    async def _decide_call(
        self, run_id: str, tool_call_id: str, request: DecisionRequest
    ) -> DecisionAlreadyMade | None:
        try:
            owner = self._owner(run_id)
            settlement = partial(self._settle, owner, run_id, tool_call_id, request)
            return await self._settle_first(run_id, settlement)
        except NotFound as error:
            raise _Unknown(error.message, run_id=run_id, tool_call_id=tool_call_id) from error

    async def _settle_first(self, run_id: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `work`, which settles calls. Handlers see the events from here on."""
        await self._followers.begin(self._owner(run_id), run_id)
        return await self._drives.settle_first(run_id, work)

    async def _settle(
        self, owner: str, run_id: str, tool_call_id: str, request: DecisionRequest
    ) -> DecisionAlreadyMade | None:
        """Decide the call, then do the work of its branch of the Map, if it has one. A decision that comes
        too late is refused: the expired call is settled instead, and the refusal is returned."""
        try:
            actor = Actor(sub=owner, in_process=True)
            answer = await decide(self._runtime, actor, run_id, tool_call_id, request)
            if answer.again:
                # The first caller gets the result of the run, so nothing is left to do here.
                raise DecisionAlreadyMade("the same decision was made before", run_id=run_id)
        except DecisionAlreadyMade as error:
            if not await self._expire(owner, run_id):
                raise
            return error
        self._begin(run_id)
        snapshot = await snapshot_of(self._runtime, owner, run_id)
        key = next(c.key for c in snapshot.calls if c.tool_call_id == tool_call_id)
        if not snapshot.meta.waiting - {key}:
            # The turn that follows settles it, because no other call of the run waits.
            return None
        await self._branch(owner, run_id, WaitingCall(key=key, attempt=0, timeout_s=1), DECIDED)
        return None

    async def _branch(self, owner: str, run_id: str, item: WaitingCall, output: Any) -> None:
        """Do the work of one branch of the Map, once its wait is over."""
        run = await self._runtime.journal.runs.get(owner, run_id)
        execution = run.execution if run is not None else None
        payload = {"owner": owner, "run_id": run_id, "execution": execution or f"{run_id}-1"}
        try:
            await resume(self._runtime, ResumePayload(**payload, call=item, output=output))
        except Exception:
            logger.warning("a decided call is left to the turn", exc_info=True)

    async def _expire(self, owner: str, run_id: str) -> bool:
        """Settle calls that waited too long, since there is no timer here. Return False if no call had
        expired."""
        snapshot = await snapshot_of(self._runtime, owner, run_id)
        now = self._runtime.clock.now()
        late = [c for c in snapshot.calls if is_expired(c, now)]
        if not late or snapshot.meta.status.over:
            return False
        self._begin(run_id)
        for call in late:
            await self._branch(owner, run_id, waiting_call(call, now), _EXPIRED)
        return True

    async def _go_on_without(self, owner: str, run_id: str) -> None:
        """Release the thread from a run that was aborted, or waits only for calls that have expired."""
        if self._owners.get(run_id) != owner:
            return
        drive = self._drives.drive_of(run_id)
        if drive is not None:
            if self._aborts.stops(run_id):
                await asyncio.wait({drive})
            return
        if await self._settle_first(run_id, partial(self._expire, owner, run_id)):
            await self._go_on(run_id)

    async def _go_on(self, run_id: str) -> Result:
        drive = self._drives.begin(self._owner(run_id), run_id)
        try:
            if self._followers.any_of():
                await self._followers.tell(self._owner(run_id), run_id, drive)
            await asyncio.shield(drive)
        except asyncio.CancelledError:
            # The caller gave up (a time-out around `generate`), and the thread must not stay taken.
            self._cancel_soon(run_id)
            if run_id == self._newest and not drive.done():
                self._state = AgentState(status="cancelled")
            raise
        return await self._result(run_id)

    def _handle(
        self, run_id: str, events: AsyncGenerator[Event, None], early: EarlyAbort
    ) -> RunStream[Any]:
        result, abort = partial(self._result, run_id), partial(self._abort_one, run_id, early)
        return RunStream(run_id, events, result, abort)

    def _stream_decision(
        self, run_id: str, tool_call_id: str, request: DecisionRequest
    ) -> RunStream[Any]:
        early = EarlyAbort()

        async def events() -> AsyncGenerator[Event, None]:
            owner = self._owners.get(run_id)
            after = await self._followers.last_seq(owner, run_id) if owner else 0
            refusal = None
            if owner is not None and early.is_asked:
                # Decide nothing: a run that is about to end must not make the call.
                await self._cancel(run_id)
            else:
                refusal = await self._decide_call(run_id, tool_call_id, request)
            async for event in self._follow(run_id, after, early):
                yield event
            if refusal is not None:
                raise refusal

        return self._handle(run_id, events(), early)

    async def _follow(
        self, run_id: str, after: int, early: EarlyAbort
    ) -> AsyncGenerator[Event, None]:
        # If a consumer leaves early, the run goes on.
        drive = self._drives.begin(self._owner(run_id), run_id)
        if early.over():
            self._cancel_soon(run_id)
        async for event in self._followers.follow(self._owner(run_id), run_id, drive, after):
            yield event
        await asyncio.shield(drive)

    def _end_drive(self, run_id: str) -> None:
        if self._drives.drive_of(run_id) is None:
            self._aborts.forget(run_id)
        self._followers.ring()

    async def _catch_up(self, run_id: str) -> None:
        await self._followers.wait_for_handlers(self._owner(run_id), run_id)

    def _cancel_soon(self, run_id: str) -> None:
        self._aborts.abort(run_id)
        self._aborts.ring(run_id)
        self._drives.cancel_beside(run_id, self._cancel(run_id))

    async def _cancel(self, run_id: str) -> None:
        owner = self._owners[run_id]
        await cancel(self._runtime, owner, run_id, by=Actor(sub=owner, in_process=True))
        await self._result(run_id)

    async def _result(self, run_id: str) -> Result:
        snapshot = await snapshot_of(self._runtime, self._owner(run_id), run_id)
        run = run_view(snapshot, self._runtime.agents)
        if run_id == self._newest:
            self._state = AgentState(
                status=run.status.value if run.status is not Status.QUEUED else "running",
                messages=list(run.messages),
                pending=list(run.pending),
                usage=run.usage,
            )
        result = _result_of(run, self._agent)
        return result.model_copy(update={"error_detail": snapshot.meta.error_detail})

    def _owner(self, run_id: str) -> str:
        if run_id not in self._owners:
            raise NotFound("this agent has no such run", run_id=run_id)
        return self._owners[run_id]


def _resume_request(data: Any) -> DecisionRequest:
    """Return the request of `resume`. Raises DecisionInvalid for data that is not JSON."""
    return DecisionRequest(Verdict.RESUME, data=_as_json(data))


def _approve_request(args: dict[str, Any] | None, reason: str | None) -> DecisionRequest:
    """Return the request of `approve`. Raises DecisionInvalid likewise."""
    return DecisionRequest(Verdict.APPROVE, args=_as_json(args), reason=reason)


def _names(what: str, names: Collection[str]) -> frozenset[str]:
    """Return the groups or scopes of a caller. Raises InvalidRequest for anything but texts in a
    collection: of one text, each letter would be a group."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InvalidRequest(f"{what} has to be a collection of texts, like {{'finance'}}")
    return frozenset(names)


def _deny_request(reason: str | None) -> DecisionRequest:
    return DecisionRequest(Verdict.DENY, reason=reason)


def _as_json(value: Any) -> Any:
    """Return an author's decision, which may have types of the author's own, as JSON."""
    try:
        return jsonable(value)
    except ValueError as error:
        problem = f"the decision is not JSON: {error}"
        raise DecisionInvalid(problem, [{"loc": [], "msg": problem, "type": "no_json"}]) from error


def _result_of(run: Run, agent: Agent) -> Result:
    """Return the run as `generate` returns it."""
    output = run.output
    if agent.output is not None and run.status is Status.SUCCESS and run.text:
        # A validator, or a hook at the end, may change the output without changing the text.
        may_differ = agent.output_validator is not None or any(
            defines(hook, "at_end") for hook in agent.hooks
        )
        with suppress(ValueError):
            output = agent.parse_output(to_json(output).decode() if may_differ else run.text)
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
        children=list(run.children),
    )
