"""Sub-agents of one frame of a run: briefed, entered, and settled as calls."""

import json
import logging
from collections.abc import Awaitable, Callable

from layover.declare.agent import Agent
from layover.declare.tools.delegate import answer_of
from layover.declare.tools.options import Delegate
from layover.engine.frames.briefing import make_briefing
from layover.engine.frames.node_history import newest_of, remember_call
from layover.engine.outcomes import Ready, Settled
from layover.engine.progress import OutOfTime, Over, Progress, Suspended, Yielded
from layover.engine.state import RunState
from layover.engine.work import RunWork
from layover.errors import RetryableError, RunFailed
from layover.ids import derive_id
from layover.values.memory.context import LoggedAttempt
from layover.values.runs.child import ChildLoop, ChildRun
from layover.values.runs.event import LoopEvent
from layover.values.runs.run import CallRecord, FinishReason, Status

logger = logging.getLogger("layover")

Enter = Callable[[Delegate, RunState, int], Awaitable[Progress]]
"""Advances a sub-agent from this state, in which this many calls may wait at once. Raises RunFailed if the
agent cannot go on."""


class NestedRuns:
    """`engine.tools.calls.SubAgents`. Without `enter`, a child is briefed and left to the turn: a process
    that settles one decided call has no time for a run."""

    def __init__(self, work: RunWork, enter: Enter | None = None) -> None:
        self._runtime = work.runtime
        self._state = work.state
        self._enter = enter

    async def with_child(self, call: CallRecord, ready: Ready) -> CallRecord:
        """Return the call with its child's facts, which no later attempt changes."""
        assert ready.tool.delegate is not None
        meta, delegate = self._state.meta, ready.tool.delegate
        name = delegate.agent.name
        log = await self._runtime.memory.attempts(meta.owner, meta.thread_id, name)
        attempts = self._runtime.agent_memory.attempts_text(log)
        now = self._runtime.clock.now()
        child_id = derive_id("run", meta.id, call.key)
        input_message = make_briefing(meta, child_id, ready.args.as_dict(), attempts, now)
        if delegate.memory:
            # Fixed here, so that the child continues the same history whatever other runs add to its memory.
            newest = await newest_of(self._runtime, delegate.agent, meta)
            input_message = input_message.model_copy(update={"parent_id": newest})
        child = ChildRun(id=child_id, agent=name, input=input_message, started_at=now)
        return call.model_copy(update={"child": child})

    async def advance(self, call: CallRecord, ready: Ready, width: int) -> Settled | None:
        """See `SubAgents`. A child's failure is a tool error of its call."""
        if self._enter is None or call.child is None or ready.tool.delegate is None:
            return None
        delegate, state = ready.tool.delegate, self._state.child(call)
        agent: Agent = delegate.agent
        try:
            progress = await self._enter(delegate, state, width)
        except RunFailed as failure:
            return await self.failed(call, failure)
        if isinstance(progress, Suspended):
            return None
        if not isinstance(progress, Over):
            raise OutOfTime(progress.wait if isinstance(progress, Yielded) else None)
        if delegate.memory:
            await remember_call(self._runtime, agent, state, progress)
        return self._answered(agent, state, call.child, progress)

    def _answered(self, agent: Agent, state: RunState, child: ChildRun, over: Over) -> Settled:
        steps = state.steps
        text = next((s.message.text for s in reversed(steps) if s.message.text), "")
        # An agent with `output=` that was cut off has no output, and its text does not count as one. What a
        # hook refused says so in words.
        is_refused = over.finish_reason is FinishReason.REFUSED
        answer_text = None if agent.output is not None and not is_refused else text
        result = answer_of(answer_text, over.output, over.finish_reason)
        changes = {
            "status": over.status,
            "finish_reason": over.finish_reason,
            "output": over.output,
            "loop": _loop_of(over),
            "ended_at": self._runtime.clock.now(),
        }
        return Settled(
            result=result,
            model_output=json.dumps(result, ensure_ascii=False),
            # What its tools made, where its answer names it.
            files=tuple(file for step in steps for c in state.calls_of(step) for file in c.files),
            child=child.model_copy(update=changes),
        )

    async def failed(self, call: CallRecord, failure: RunFailed) -> Settled:
        """Return the tool error of a call whose child failed, and add a line to the iteration log."""
        assert call.child is not None
        child = call.child
        from layover.values.runs.failures import detail_of, error_of

        error = error_of(failure, self._state.meta.id)
        message = f"{error.type}: {error.message}"
        await self._note(call, child, message)
        changes = {
            "status": Status.FAILED,
            "finish_reason": FinishReason.ERROR,
            "error": error,
            "error_detail": detail_of(failure),
            "ended_at": self._runtime.clock.now(),
        }
        return Settled(
            result=message,
            model_output=message,
            is_error=True,
            child=child.model_copy(update=changes),
        )

    async def _note(self, call: CallRecord, child: ChildRun, error: str) -> None:
        """Add a line to the iteration log, for the next attempt's briefing. The run goes on even if the store
        is unavailable."""
        meta, args = self._state.meta, call.args
        action = args.get("input", "") if isinstance(args, dict) else str(args)
        line = LoggedAttempt(
            task=child.agent,
            action=str(action),
            error=error,
            run_id=meta.id,
            created_at=self._runtime.clock.now(),
        )
        id = derive_id("att", meta.id, call.key)
        try:
            await self._runtime.memory.log_attempt(meta.owner, meta.thread_id, line, id)
        except RetryableError:
            logger.warning("a failed sub-agent is not in the log", extra={"run_id": meta.id})


def _loop_of(over: Over) -> ChildLoop | None:
    loop = next((event for event in over.events if isinstance(event, LoopEvent)), None)
    if loop is None:
        return None
    return ChildLoop(tools=loop.tools, steps=loop.steps, agent_path=loop.agent_path)
