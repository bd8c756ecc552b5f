"""Sub-agents in the background (docs/sub-agents.md#background): they work in parallel with the run that began
them, in the process that drives the run, and only while it does."""

import asyncio
import re
from types import TracebackType

from layover.context.call_ends import loop_events
from layover.context.frames import notice_id, pending_notices
from layover.engine.frames.subagents import NestedRuns
from layover.engine.outcomes import Ready, Settled
from layover.engine.progress import OutOfTime
from layover.engine.state import RunState
from layover.engine.tools.background import WIDTH, unfinished
from layover.engine.tools.toolbox import Toolbox
from layover.engine.work import RunWork
from layover.errors import RunFailed
from layover.values.message import NOTICE, DataPart, Message, Role, TextPart
from layover.values.runs.child import ChildResult
from layover.values.runs.hooked import with_failure
from layover.values.runs.provider_wait import ProviderWait
from layover.values.runs.run import CallRecord

_CLOSING = re.compile(rf"<(?=\s*/?\s*{NOTICE})", re.IGNORECASE)


class Background:
    """The background sub-agents of one frame. Leaving it as a context manager cancels those that still
    work."""

    def __init__(self, work: RunWork, toolbox: Toolbox, nested: NestedRuns) -> None:
        self._work = work
        self._state = work.state
        self._toolbox = toolbox
        self._nested = nested
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> "Background":
        """Enter each sub-agent that is not done."""
        for call in unfinished(self._state):
            self.begin(call, self._toolbox.ready(call))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None and not isinstance(error, asyncio.CancelledError):
                # An error of the run must not cut off their tools and model calls.
                self.stop_soon()
                await self._stop_all()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def begin(self, call: CallRecord, ready: Ready | Settled) -> None:
        """Enter a sub-agent whose call has been answered (`engine.tools.calls.Launch`)."""
        self._tasks[call.key] = asyncio.create_task(self._advance(call, ready))

    def stop_soon(self) -> None:
        """Let each sub-agent stop after its present tools or model call."""
        if self._tasks:
            self._work.invocation.time.close()

    async def settle(self) -> bool:
        """Wait until no sub-agent works any more. Return False if one is out of time; the others are done or
        wait. Raises the error of one of them."""
        await self._stop_all()
        return self.check()

    def check(self) -> bool:
        """Return the same as `settle`, for the sub-agents that have stopped by now."""
        errors = [task.exception() for task in self._tasks.values() if task.done()]
        for error in errors:
            if error is not None and not isinstance(error, OutOfTime):
                raise error
        return not any(errors)

    @property
    def wait(self) -> ProviderWait | None:
        """The wait of a sub-agent whose provider is away; None: another has to go on at once."""
        errors = [task.exception() for task in self._tasks.values() if task.done()]
        waits = [error.wait for error in errors if isinstance(error, OutOfTime)]
        return None if None in waits else next(iter(waits), None)

    def is_done(self) -> bool:
        """Return whether all sub-agents are done."""
        return not unfinished(self._state)

    def has_news(self) -> bool:
        """Return whether a sub-agent is done and no step's prompt has had its notice yet."""
        return bool(pending_notices(self._state.steps, self._state.in_background()))

    def notify(self) -> None:
        """End the next step's prompt with notices of the sub-agents that have finished since the previous
        step."""
        state = self._state
        state.notices = ()
        for call in pending_notices(state.steps, state.in_background()):
            state.notices = (*state.notices, _notice(call, state))

    async def _stop_all(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _advance(self, call: CallRecord, ready: Ready | Settled) -> None:
        if isinstance(ready, Settled):
            failure = RunFailed(ready.model_output, type="ToolNotFound", run_id=self._state.meta.id)
            return await self._end(call, await self._nested.failed(call, failure))
        outcome = await self._nested.advance(call, ready, WIDTH)
        if outcome is None:
            return None
        return await self._end(call, await self._toolbox.finish(call, ready, outcome))

    async def _end(self, call: CallRecord, outcome: Settled) -> None:
        """Journal a sub-agent's end, in the record of its call."""
        child = outcome.child or call.child
        assert child is not None
        answer = ChildResult(
            result=outcome.result,
            model_output=outcome.model_output,
            files=outcome.shown_files,
            is_error=outcome.is_error,
        )
        changes = {
            "child": child.model_copy(update={"answer": answer}),
            "hooked": with_failure(call.hooked, outcome.failure, self._state.meta.id),
        }
        record = call.model_copy(update=changes)
        await self._work.note(record, *loop_events(record, self._work.clock.now()))


def _notice(call: CallRecord, state: RunState) -> Message:
    """Return the message that tells the run's model of a sub-agent's end: the same in every attempt."""
    child = call.child
    assert child is not None
    assert child.answer is not None
    assert child.ended_at is not None
    answer, facts = child.answer, {"agent": child.agent, "run_id": child.id, "status": child.status}
    data = {
        "tool_call_id": call.tool_call_id,
        **facts,
        "is_error": answer.is_error,
        "result": answer.result,
    }
    result_text = _CLOSING.sub("&lt;", answer.model_output)
    text = (
        f"The work that you started with {call.tool_name} has ended. No user wrote this.\n"
        f'<{NOTICE} id="{child.id}" status="{child.status}">\n{result_text}\n</{NOTICE}>'
    )
    return Message(
        id=notice_id(child),
        thread_id=state.meta.thread_id,
        run_id=state.run_id,
        parent_id=state.newest_id(),
        role=Role.CUSTOM,
        content=(DataPart(name=NOTICE, data=data), *answer.files, TextPart(text=text)),
        created_at=state.next_time(child.ended_at),
    )
