"""The tool calls of a step: windows, suspension, decisions, calls in doubt
(docs/behaviour.md#tool-windows and what follows it).

Every call is journaled before it runs (`open_calls`) and when it is settled (`close_call`) or waits
(`suspend_calls`): see `records`. The tool runs between the two, and nowhere else."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain
from typing import Any, Protocol

from layover.declare.context import Resumption, ToolContext
from layover.declare.schemas.render import format_error
from layover.declare.tools.tool import AnyTool
from layover.engine.budget import settle_budget
from layover.engine.declines import decline_of
from layover.engine.exact_calls import described, exact_call
from layover.engine.frame_core import FrameCore
from layover.engine.hooks.around_tools import AroundTools, PlannedCall
from layover.engine.hooks.frame_hooks import FrameHooks
from layover.engine.outcomes import (
    Ready,
    Settled,
    author_error,
    failed,
    interrupted_error,
    limit_output,
    not_found,
    with_change,
)
from layover.engine.progress import OutOfTime
from layover.engine.tools.background import start_background
from layover.engine.tools.call_limits import with_one_handoff, within_limit
from layover.engine.tools.denials import Denials
from layover.engine.tools.events import CallEvents
from layover.engine.tools.execute import approval, prepare, run_tool
from layover.engine.tools.first_window import FirstWindow, ready_at_once
from layover.engine.tools.records import CallRecords
from layover.engine.tools.services import LoggedServices
from layover.ids import derive_id
from layover.values.runs.run import (
    BUDGET_TOOL,
    MAX_WINDOW,
    CallRecord,
    CallState,
    StepRecord,
    Suspension,
)

Gate = Callable[[StepRecord, list[timedelta | None]], Awaitable[bool]]
"""Returns whether a window of calls with these time-outs may begin: is there time, and budget?"""
HasTime = Callable[[list[timedelta | None]], bool]
"""Returns whether there is time to run a call that has begun already (decided, or left open)."""


Launch = Callable[[CallRecord, Ready], None]
"""Starts a background sub-agent, whose call is already settled."""


class SubAgents(Protocol):
    """Runs the agent that a tool stands for (`layover.engine.frames`)."""

    async def with_child(self, call: CallRecord, ready: Ready) -> CallRecord:
        """Return the call with its child's facts, as it is journaled before the child begins."""
        ...

    async def advance(self, call: CallRecord, ready: Ready, width: int) -> Settled | None:
        """Go on with the child. None: it waits, and its call stays open. `width`: calls that may wait at once
        in it. Raises OutOfTime if it has to go on in a fresh invocation."""
        ...


@dataclass(frozen=True)
class _Job:
    """A call with all that it needs to run."""

    call: CallRecord
    ready: Ready
    ctx: ToolContext
    changed: dict[str, Any] | None = None
    """The arguments, if a person changed them."""


class Calls:
    """Runs and settles the calls of one frame for one writer.

    `built_in`: Layover's own tools, which the agent has in addition to its own. `running`: the tool of each
    call that runs now, by the call's key; the frames of a run share it. `width`: calls that may wait at
    once."""

    def __init__(
        self,
        core: FrameCore,
        *,
        sub_agents: SubAgents,
        built_in: Sequence[AnyTool] = (),
        running: dict[str, AnyTool] | None = None,
        width: int = MAX_WINDOW,
        launch: Launch | None = None,
    ) -> None:
        self._core = core
        self._state = core.state
        self._stopping = core.stopping
        self._clock = core.clock
        # A call is removed when its outcome is journaled, not when its tool returns: in between, cutting the
        # process off would leave a call in doubt whose tool has run.
        self._running: dict[str, AnyTool] = {} if running is None else running
        self._sub_agents = sub_agents
        self._launch = launch
        # The calls that may wait at once in the whole run: sub-agents side by side share them.
        self._width = width
        self._size = min(core.agent.tool_concurrency, width)
        self._tools: dict[str, AnyTool] = {t.name: t for t in (*core.agent.tools, *built_in)}
        self._at_once = FirstWindow()
        self._events = CallEvents(core)
        self.records = CallRecords(core, self._tools, self._events)
        self._hooks = AroundTools(FrameHooks(core), self._prepare)
        self._denials = Denials(core)
        self.turn_end = self._events.turn_end

    async def advance(self, step: StepRecord, gate: Gate, has_time: HasTime) -> bool:
        """Settle all calls that can be settled. True: every call of the step is settled; False: some wait, or
        `gate` did not let the next window begin. Raises OutOfTime if there is no time for a begun call."""
        # First the calls that were opened with the step, a moment ago and by this writer: they are the only
        # open calls of which it is certain that they have not run.
        await self._go_on(step)
        # Then what an earlier writer left: sub-agents, which go on from their own journal, and calls that are
        # decided or in doubt.
        inside: list[_Job] = []
        for call in self._state.calls_of(step):
            if (entered := self._resumed_job(call)) is not None:
                inside.append(entered)
            elif call.state is CallState.OPEN or (
                call.state is CallState.WAITING and call.decision
            ):
                await self._settle_in_time(step, call, has_time)
        await _all(self._delegate(step, job) for job in inside)
        # New work comes last. A cancel, the budget and the time are looked at before each window, because a
        # call that has begun is not taken back.
        while window := self._next_window(step):
            await self._stopping.check()
            if not await gate(step, [self._timeout(c) for c in window]):
                break
            await self._window(step, window)
        return self._state.settled(step)

    def first_window(self, step: StepRecord, has_time: HasTime) -> FirstWindow:
        """Return the calls that begin as soon as this step is journaled: none if anything comes before them,
        such as a person's decision or too little time."""
        self._at_once = FirstWindow()
        calls = self._state.calls_of(step)[: self._size]
        stops = self._stopping.is_requested or self._stopping.aborts is not None
        if not calls or stops or self._hooks.ask_before:
            return self._at_once
        if any(self._denials.concern(c.tool_name) for c in calls):
            return self._at_once
        ready = ready_at_once(calls, self._tools, lambda c: self._prepare(c, c.args))
        if len(ready) == len(calls) and has_time([r.tool.timeout for r in ready.values()]):
            starts = [self._events.started(c, ready[c.key].args.as_dict()) for c in calls]
            events = tuple(chain.from_iterable(starts))
            self._at_once = FirstWindow(tuple(calls), ready, events)
        return self._at_once

    async def _go_on(self, step: StepRecord) -> None:
        """Run the calls that this writer has just opened with their step. Nothing comes between: a call that
        a later writer finds open is in doubt."""
        ready, self._at_once = self._at_once.ready, FirstWindow()
        calls = [c for c in self._state.calls_of(step) if c.key in ready]
        open_calls = [c for c in calls if c.state is CallState.OPEN]
        await _all(
            self._one(step, _Job(c, ready[c.key], self._context(c, None))) for c in open_calls
        )

    def _next_window(self, step: StepRecord) -> list[CallRecord]:
        """Return the calls to begin next: first the rest of a window in which an earlier attempt died (a
        window settles whole), then, if no call waits, a new window."""
        size, calls = self._size, self._state.calls_of(step)
        for at in range(0, len(calls), size):
            window = calls[at : at + size]
            planned = [c for c in window if c.state is CallState.PLANNED]
            if planned and (len(planned) < len(window) or not self._state.blocking()):
                return planned
        return []

    async def _settle_in_time(self, step: StepRecord, call: CallRecord, has_time: HasTime) -> None:
        """Settle as `settle` does, but begin a tool only if there is time and the run does not have to
        stop."""
        await self._stopping.check()
        # A denial, an expiry and a call in doubt need no tool, so they are settled however little time is
        # left.
        job = await self._job(step, call)
        if job is None:
            return
        # Whether or not other calls wait, this one goes on at once, in a fresh invocation.
        if not has_time([job.ready.tool.timeout]):
            raise OutOfTime
        await self._run(step, [job])

    async def settle(self, step: StepRecord, call: CallRecord) -> None:
        """Settle one decided call, or one that an earlier writer left open. It may suspend again."""
        if call.tool_name == BUDGET_TOOL:
            return await settle_budget(self._core, call)
        if self._resumed_job(call) is not None:
            return None
        await self._stopping.check()
        job = await self._job(step, call)
        if job is not None:
            await self._run(step, [job])
        return None

    def _resumed_job(self, call: CallRecord) -> _Job | None:
        """Return the job that goes on in a call whose sub-agent has begun. Such a call is never in doubt: a
        child goes on from its own journal. None if this is another call, or if its tool is no longer a
        sub-agent."""
        if call.state is not CallState.OPEN or call.child is None:
            return None
        ready = self.ready(call)
        if isinstance(ready, Settled) or ready.tool.delegate is None:
            return None
        return _Job(call, ready, self._context(call, None), self._changed(call, ready))

    async def _job(self, step: StepRecord, call: CallRecord) -> _Job | None:
        """Return the job that is left of a begun call; None if the call is settled and no tool has to run."""
        declined = decline_of(call)
        if declined is not None:
            await self.records.close(step, call, declined)
            return None
        decided = call.decision is not None and call.state is CallState.WAITING
        ready = self._exact(call) if call.decision else self.ready(call)
        if isinstance(ready, Suspension) and decided:
            ready = await self._described(call, ready)
            if isinstance(ready, Suspension):
                await self.records.suspend([(call, ready)])
                return None
        if isinstance(ready, Suspension):
            # It began with the arguments that were approved, and today's code would give it others.
            ready = interrupted_error(call.tool_name)
        if isinstance(ready, Settled):
            await self.records.close(step, call, ready)
            return None
        # Open, and not by this writer: the process died, or lost the run, somewhere between opening the
        # call and journaling its outcome. Whether the tool took effect cannot be known, so it is not run
        # again.
        if call.state is CallState.OPEN and not ready.tool.idempotent:
            await self.records.close(step, call, interrupted_error(call.tool_name))
            return None
        try:
            resumed = self._resumed(ready.tool, call)
        except Exception as error:  # new code may expect other data, or no data at all
            await self.records.close(step, call, failed(format_error(error)))
            return None
        return _Job(call, ready, self._context(call, resumed), self._changed(call, ready))

    def ready(self, call: CallRecord) -> Ready | Settled:
        """Return what a begun call needs to go on, or the error that settles it."""
        return self._prepare(call, call.proposed if call.edited is None else call.edited)

    def _exact(self, call: CallRecord) -> Ready | Settled | Suspension:
        """Return a decided call as the person saw it; the request to make again if code has changed it."""
        if not call.offered or call.tool_name not in self._tools:
            return not_found(call.tool_name)
        name, now = call.tool_name, self._clock.now()
        exact = exact_call(call, lambda args: prepare(self._tools, name, args), now)
        return exact if isinstance(exact, Suspension) else self._limited(call, exact)

    def _prepare(self, call: CallRecord, args: Any) -> Ready | Settled:
        if not call.offered:
            return not_found(call.tool_name)
        return self._limited(call, prepare(self._tools, call.tool_name, args))

    def _limited(self, call: CallRecord, ready: Ready | Settled) -> Ready | Settled:
        ready = within_limit(ready, self._state, call)
        return with_one_handoff(ready, self._tools, self._state, call)

    def _changed(self, call: CallRecord, ready: Ready) -> dict[str, Any] | None:
        """Return the arguments as a person edited them; None if the edit changes nothing for the tool."""
        edited = call.edited
        if edited is None:
            return None
        own = self._prepare(call, call.proposed)
        same = isinstance(own, Ready) and own.args.as_dict() == ready.args.as_dict()
        return None if same else edited

    def _timeout(self, call: CallRecord) -> timedelta | None:
        tool = self._tools.get(call.tool_name)
        return tool.timeout if tool else None

    async def _window(self, step: StepRecord, calls: list[CallRecord]) -> None:
        """Settle a whole window: calls that need a person wait, broken ones fail, the rest run."""
        jobs: list[_Job] = []
        waiting: list[tuple[CallRecord, Suspension]] = []
        # Hooks and predicates are asked about all calls before any of them runs. After a death in between,
        # the window is planned again, which would be impossible once a tool had run.
        for call in calls:
            planned = await self._plan_call(call)
            match planned.outcome:
                case Settled() as settled:
                    await self.records.close(step, planned.call, settled)
                case Suspension() as suspension:
                    request = await self._described(planned.call, suspension)
                    if isinstance(request, Settled):
                        await self.records.close(step, planned.call, request)
                    else:
                        waiting.append((planned.call, request))
                case Ready() as ready:
                    jobs.append(_Job(planned.call, ready, self._context(call, None)))
        # Waiting calls come first: they can be read, and decided, while their siblings still run.
        if waiting:
            await self.records.suspend(waiting)
        if jobs:
            await self._run(step, jobs)

    async def _described(self, call: CallRecord, suspension: Suspension) -> Suspension | Settled:
        """Return the suspension with what the tool says about the call; its error, if it raises: nobody is
        asked about a call that cannot be described."""
        tool = self._tools.get(call.tool_name)
        if tool is None or not tool.describes:
            return suspension
        # Of what is shown: today's code may make other defaults of the model's words.
        ready = self._prepare(call, suspension.args)
        ready = self.ready(call) if isinstance(ready, Settled) else ready
        if isinstance(ready, Settled):
            return suspension
        try:
            return await described(suspension, ready, self._context(call, None))
        except Exception as error:
            return author_error(call.tool_name, call, error)

    async def _plan_call(self, call: CallRecord) -> PlannedCall:
        """Return a planned call after its hooks and its tool's own rule were asked about it."""
        ready = self._prepare(call, call.args)
        if isinstance(ready, Settled):
            return PlannedCall(call, ready)
        planned = await self._hooks.before(call, ready)
        outcome, final = planned.outcome, planned.ready
        if isinstance(outcome, Settled) or final is None:
            return planned
        if isinstance(outcome, Ready) and not planned.allowed:
            ctx, now = self._context(call, None), self._clock.now()
            try:
                outcome = await approval(final, ctx, now) or outcome
            except Exception as error:
                return replace(planned, outcome=author_error(call.tool_name, call, error))
        return replace(planned, outcome=await self._judge(planned.call, final, outcome))

    async def _judge(
        self, call: CallRecord, ready: Ready, outcome: Ready | Suspension
    ) -> Ready | Settled | Suspension:
        """Return the outcome of a call that is about to run or to wait, after what persons denied before."""
        if not self._denials.concern(call.tool_name):
            return outcome
        return await self._denials.judge(call, ready.tool, ready.args.as_dict(), outcome)

    async def _run(self, step: StepRecord, jobs: list[_Job]) -> None:
        """Journal the calls, run them, and journal their outcomes."""
        # A briefing is fixed by the record that opens the call: after a death the child goes on with the
        # same one.
        jobs = [await self._briefed(job) for job in jobs]
        starts = [self._events.started(j.call, j.ready.args.as_dict()) for j in jobs]
        calls = await self.records.open([j.call for j in jobs], *chain.from_iterable(starts))
        jobs = [replace(job, call=call) for job, call in zip(jobs, calls, strict=True)]
        await _all(self._one(step, job) for job in jobs)

    async def _briefed(self, job: _Job) -> _Job:
        if job.ready.tool.delegate is None:
            return job
        return replace(job, call=await self._sub_agents.with_child(job.call, job.ready))

    async def _delegate(self, step: StepRecord, job: _Job) -> None:
        """Go on with a sub-agent. Its call stays open while it waits: its work is journaled under it."""
        delegate = job.ready.tool.delegate
        if self._launch is not None and delegate is not None and delegate.background:
            start_outcome = await self.records.close_as(
                step,
                job.call,
                lambda: with_change(job.changed, start_background(job.call, self._state)),
            )
            if not start_outcome.is_error:
                self._launch(self._state.calls[job.call.key], job.ready)
            return
        outcome = await self._sub_agents.advance(job.call, job.ready, self._share(step, job.call))
        if outcome is not None:
            outcome = await self.finish_outcome(job.call, job.ready, outcome)
            await self.records.close(step, job.call, with_change(job.changed, outcome))

    async def finish_outcome(self, call: CallRecord, ready: Ready, outcome: Settled) -> Settled:
        """Return the outcome of a call as hooks leave it, short enough for the model."""
        outcome = await self._hooks.after(call, ready, outcome)
        return await limit_output(outcome, call, self._core.run_files)

    def _share(self, step: StepRecord, call: CallRecord) -> int:
        """Return how many calls may wait at once inside this call of the window: the same in every
        invocation."""
        calls = self._state.calls_of(step)
        at = next(i for i, c in enumerate(calls) if c.key == call.key)
        first = at - at % self._size
        return max(1, self._width // len(calls[first : first + self._size]))

    async def _one(self, step: StepRecord, job: _Job) -> None:
        call = job.call
        if job.ready.tool.delegate is not None:
            return await self._delegate(step, job)
        # Counted until its outcome is journaled: a process that stops the run waits for a tool whose result
        # it may keep. The key stays in `started_keys`: calls in it may have run, all others have not.
        self._stopping.tools += 1
        self._stopping.started_keys.add(call.key)
        self._running[call.key] = job.ready.tool
        try:
            outcome = await run_tool(job.ready, job.ctx, call, self._clock)
            if isinstance(outcome, Suspension):
                judged = await self._judge(call, job.ready, outcome)
                if isinstance(judged, Suspension):
                    judged = await self._described(call, judged)
                if isinstance(judged, Settled):
                    return await self.records.close(step, call, judged)
                assert isinstance(judged, Suspension)  # It still waits, or is settled.
                return await self.records.suspend([(call, judged)])
            outcome = await self.finish_outcome(call, job.ready, outcome)
            return await self.records.close(step, call, with_change(job.changed, outcome))
        finally:
            del self._running[call.key]
            self._stopping.tools -= 1

    def _resumed(self, tool: AnyTool, call: CallRecord) -> Any:
        data = call.resumed_with
        if data is None:
            return None
        if call.suspension is not None and call.suspension.memo is not None:
            return Resumption(data[0], call.suspension.memo)
        return tool.parse_resume(data[0])

    def _context(self, call: CallRecord, resumed: Any) -> ToolContext:
        agent, meta, base = self._core.agent, self._state.meta, self._state.base
        return ToolContext(
            run_id=meta.id,
            thread_id=meta.thread_id if meta.thread_given else None,
            resource_id=meta.owner,
            agent_name=agent.name,
            tool_call_id=call.tool_call_id,
            # Derived from the run and the call, not from the attempt: a tool that runs again after a death or
            # a suspension gives its service the same key.
            idempotency_key=derive_id("idem", meta.id, call.key),
            resume=resumed,
            hooks=LoggedServices(self._core, call.tool_call_id),
            metadata=base.metadata if base else {},
            now=self._clock.now(),
            deps=agent.made_deps,
            groups=meta.groups,
            scopes=meta.scopes,
        )


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all of the work to its end. One call's error (in its journal entry, for example) is raised after
    the others have finished, because a window settles as a whole."""
    tasks = [asyncio.ensure_future(each) for each in work]
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
