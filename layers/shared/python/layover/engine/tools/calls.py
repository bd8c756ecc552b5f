"""The tool calls of a step: windows, suspension, decisions, calls in doubt
(docs/behaviour.md#tool-windows and what follows it).

Every call is journaled before it runs (`RunWork.open`) and when it is settled (`settle`) or waits
(`suspend`). The tool runs between the two, and nowhere else."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from layover.declare.context import Resumption, ToolContext
from layover.declare.schemas.render import format_error
from layover.declare.tools.tool import AnyTool
from layover.engine.declines import Advice, decline_of, declined_result
from layover.engine.exact_calls import described
from layover.engine.hooks.around_tools import PlannedCall
from layover.engine.outcomes import (
    Ready,
    Settled,
    author_error,
    failed,
    interrupted_error,
    with_change,
)
from layover.engine.progress import OutOfTime
from layover.engine.tools.background import start_background
from layover.engine.tools.denials import Denials
from layover.engine.tools.execute import approval, run_tool
from layover.engine.tools.first_window import ready_at_once
from layover.engine.tools.services import LoggedServices
from layover.engine.tools.toolbox import Toolbox
from layover.engine.work import Begin, RunWork
from layover.ids import derive_id
from layover.ports import Unheard
from layover.values.runs.run import (
    BUDGET_TOOL,
    MAX_WINDOW,
    CallRecord,
    CallState,
    StepRecord,
    Suspension,
)

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
    """Runs and settles the calls of one frame. `width`: calls that may wait at once in the whole run:
    sub-agents side by side share them. `launch`: None: a call waits for its sub-agent."""

    def __init__(
        self,
        work: RunWork,
        toolbox: Toolbox,
        sub_agents: SubAgents,
        *,
        width: int = MAX_WINDOW,
        launch: Launch | None = None,
    ) -> None:
        self._work = work
        self._state = work.state
        self._toolbox = toolbox
        self._sub_agents = sub_agents
        self._launch = launch
        self._width = width
        self._size = min(work.agent.tool_concurrency, width)
        self._denials = Denials(work)
        self._at_once: Mapping[str, Ready] = {}
        """The calls that begin with the newest step, by their keys."""

    async def advance(self, step: StepRecord) -> bool:
        """Settle all calls that can be settled. True: every call of the step is settled; False: some wait, or
        the next window may not begin. Raises OutOfTime if there is no time for a begun call."""
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
                await self._settle_in_time(step, call)
        await _all(self._delegate(step, job) for job in inside)
        # New work comes last. A cancel, the budget and the time are looked at before each window, because a
        # call that has begun is not taken back.
        while window := self._next_window(step):
            if not await self._work.may_begin([self._toolbox.timeout(c) for c in window]):
                break
            await self._window(step, window)
        return self._state.settled(step)

    def first_window(self, step: StepRecord) -> list[Begin]:
        """Return the calls that begin as soon as this step is journaled: none if anything comes before them,
        such as a person's decision, a budget, room in the day to be given back, or too little time."""
        self._at_once, work, toolbox = {}, self._work, self._toolbox
        calls = self._state.calls_of(step)[: self._size]
        if not calls or work.asks_first or toolbox.hooks.ask_before:
            return []
        if any(self._denials.concern(c.tool_name) for c in calls):
            return []
        ready = ready_at_once(calls, toolbox.tools, lambda c: toolbox.prepare(c, c.args))
        timeouts = [r.tool.timeout for r in ready.values()]
        if len(ready) < len(calls) or not work.invocation.time.for_tools(timeouts):
            return []
        self._at_once = ready
        return [(c, ready[c.key].args.as_dict()) for c in calls]

    @property
    def heeds(self) -> bool:
        """True if calls that begin with the newest step may have an effect."""
        return any(map(_may_act, self._at_once.values()))

    async def _go_on(self, step: StepRecord) -> None:
        """Run the calls that this writer has just opened with their step. Nothing comes between: a call that
        a later writer finds open is in doubt."""
        ready, self._at_once = self._at_once, {}
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

    async def _settle_in_time(self, step: StepRecord, call: CallRecord) -> None:
        """Settle as `settle` does, but begin a tool only if there is time and the run does not have to
        stop."""
        await self._work.invocation.check()
        # A denial, an expiry and a call in doubt need no tool, so they are settled however little time is
        # left.
        job = await self._job(step, call)
        if job is None:
            return
        # Whether or not other calls wait, this one goes on at once, in a fresh invocation.
        if not self._work.invocation.time.for_tools([job.ready.tool.timeout]):
            raise OutOfTime
        await self._run(step, [job])

    async def settle(self, step: StepRecord, call: CallRecord) -> None:
        """Settle one decided call, or one that an earlier writer left open. It may suspend again."""
        if call.tool_name == BUDGET_TOOL:
            return await self._work.settle_budget(call)
        if self._resumed_job(call) is not None:
            return None
        await self._work.invocation.check()
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
        ready = self._toolbox.ready(call)
        if isinstance(ready, Settled) or ready.tool.delegate is None:
            return None
        return _Job(call, ready, self._context(call, None), self._toolbox.edited_args(call, ready))

    async def _job(self, step: StepRecord, call: CallRecord) -> _Job | None:
        """Return the job that is left of a begun call; None if the call is settled and no tool has to run."""
        declined = decline_of(call)
        if declined is not None:
            await self._close(step, call, declined)
            return None
        decided = call.decision is not None and call.state is CallState.WAITING
        ready = self._toolbox.exact(call) if call.decision else self._toolbox.ready(call)
        if isinstance(ready, Suspension) and decided:
            ready = await self._described(call, ready)
            if isinstance(ready, Suspension):
                await self._work.suspend([(call, ready)])
                return None
        if isinstance(ready, Suspension):
            # It began with the arguments that were approved, and today's code would give it others.
            ready = interrupted_error(call.tool_name)
        if isinstance(ready, Settled):
            await self._close(step, call, ready)
            return None
        # Open, and not by this writer: the process died, or lost the run, somewhere between opening the
        # call and journaling its outcome. Whether the tool took effect cannot be known, so it is not run
        # again.
        if call.state is CallState.OPEN and not ready.tool.idempotent:
            await self._close(step, call, interrupted_error(call.tool_name))
            return None
        try:
            resumed = self._resumed(ready.tool, call)
        except Exception as error:  # new code may expect other data, or no data at all
            await self._close(step, call, failed(format_error(error)))
            return None
        return _Job(
            call, ready, self._context(call, resumed), self._toolbox.edited_args(call, ready)
        )

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
                    await self._close(step, planned.call, settled)
                case Suspension() as suspension:
                    request = await self._described(planned.call, suspension)
                    if isinstance(request, Settled):
                        await self._close(step, planned.call, request)
                    else:
                        waiting.append((planned.call, request))
                case Ready() as ready:
                    jobs.append(_Job(planned.call, ready, self._context(call, None)))
        # Waiting calls come first: they can be read, and decided, while their siblings still run.
        if waiting:
            await self._work.suspend(waiting)
        if jobs:
            await self._begin(step, jobs)

    async def _begin(self, step: StepRecord, jobs: list[_Job]) -> None:
        """Run calls that no person decided about. If the run was sent a message that their model has not
        read, those that may have an effect are settled without it (docs/behaviour.md#unheard)."""
        try:
            await self._run(step, jobs, heeds=any(_may_act(job.ready) for job in jobs))
        except Unheard:
            for job in jobs:
                if _may_act(job.ready):
                    unheard = declined_result(job.call.tool_name, None, Advice.UNHEARD)
                    await self._close(step, job.call, unheard)
            harmless = [job for job in jobs if not _may_act(job.ready)]
            if harmless:
                await self._run(step, harmless)

    async def _described(self, call: CallRecord, suspension: Suspension) -> Suspension | Settled:
        """Return the suspension with what the tool says about the call; its error, if it raises: nobody is
        asked about a call that cannot be described."""
        tool = self._toolbox.tools.get(call.tool_name)
        if tool is None or not tool.describes:
            return suspension
        # Of what is shown: today's code may make other defaults of the model's words.
        ready = self._toolbox.prepare(call, suspension.args)
        ready = self._toolbox.ready(call) if isinstance(ready, Settled) else ready
        if isinstance(ready, Settled):
            return suspension
        try:
            return await described(suspension, ready, self._context(call, None))
        except Exception as error:
            return author_error(call.tool_name, call, error)

    async def _plan_call(self, call: CallRecord) -> PlannedCall:
        """Return a planned call after its hooks and its tool's own rule were asked about it."""
        ready = self._toolbox.prepare(call, call.args)
        if isinstance(ready, Settled):
            return PlannedCall(call, ready)
        planned = await self._toolbox.hooks.before(call, ready)
        outcome, final = planned.outcome, planned.ready
        if isinstance(outcome, Settled) or final is None:
            return planned
        if isinstance(outcome, Ready) and not planned.allowed:
            ctx, now = self._context(call, None), self._work.clock.now()
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

    async def _run(self, step: StepRecord, jobs: list[_Job], *, heeds: bool = False) -> None:
        """Journal the calls, run them, and journal their outcomes. `heeds`: raises Unheard, before any runs,
        if the run was sent a message that their model has not read."""
        # A briefing is fixed by the record that opens the call: after a death the child goes on with the
        # same one.
        jobs = [await self._briefed(job) for job in jobs]
        begins = [(j.call, j.ready.args.as_dict()) for j in jobs]
        calls = await self._work.open(begins, heeds=heeds)
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
            start_outcome = await self._work.settle(
                step,
                job.call,
                lambda: with_change(job.changed, start_background(job.call, self._state)),
            )
            if not start_outcome.is_error:
                self._launch(self._state.calls[job.call.key], job.ready)
            return
        outcome = await self._sub_agents.advance(job.call, job.ready, self._share(step, job.call))
        if outcome is not None:
            outcome = await self._toolbox.finish(job.call, job.ready, outcome)
            await self._close(step, job.call, with_change(job.changed, outcome))

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
        # Until its outcome is journaled, not until its tool returns: a process that stops the run waits for a
        # result that it may keep, and one that was cut off in between would leave a call in doubt.
        invocation = self._work.invocation
        invocation.started_keys.add(call.key)
        invocation.running[call.key] = job.ready.tool
        try:
            outcome = await run_tool(job.ready, job.ctx, call, self._work.clock)
            if isinstance(outcome, Suspension):
                judged = await self._judge(call, job.ready, outcome)
                if isinstance(judged, Suspension):
                    judged = await self._described(call, judged)
                if isinstance(judged, Settled):
                    return await self._close(step, call, judged)
                assert isinstance(judged, Suspension)  # It still waits, or is settled.
                return await self._work.suspend([(call, judged)])
            outcome = await self._toolbox.finish(call, job.ready, outcome)
            return await self._close(step, call, with_change(job.changed, outcome))
        finally:
            del invocation.running[call.key]

    async def _close(self, step: StepRecord, call: CallRecord, outcome: Settled) -> None:
        await self._work.settle(step, call, lambda: self._toolbox.count_retries(call, outcome))

    def _resumed(self, tool: AnyTool, call: CallRecord) -> Any:
        data = call.resumed_with
        if data is None:
            return None
        if call.suspension is not None and call.suspension.memo is not None:
            return Resumption(data[0], call.suspension.memo)
        return tool.parse_resume(data[0])

    def _context(self, call: CallRecord, resumed: Any) -> ToolContext:
        agent, meta, base = self._work.agent, self._state.meta, self._state.base
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
            hooks=LoggedServices(self._work, call.tool_call_id),
            metadata=base.metadata if base else {},
            now=self._work.clock.now(),
            deps=agent.made_deps,
            groups=meta.groups,
            scopes=meta.scopes,
        )


def _may_act(ready: Ready) -> bool:
    """Return whether a call may have an effect. Those of a sub-agent are not known yet."""
    return not ready.tool.idempotent or ready.tool.delegate is not None


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all of the work to its end. One call's error (in its journal entry, for example) is raised after
    the others have finished, because a window settles as a whole."""
    tasks = [asyncio.ensure_future(each) for each in work]
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
