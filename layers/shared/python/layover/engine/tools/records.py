"""The records of a frame's calls: journaled before a call runs, when it waits, and when it is settled. The
state of the run follows what is journaled."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from layover.context.transcript import custom_message, slot_of
from layover.declare.tools.tool import AnyTool
from layover.engine.frame_core import FrameCore
from layover.engine.outcomes import Settled
from layover.engine.tools.call_limits import with_retries_counted
from layover.engine.tools.events import CallEvents
from layover.values.runs.event import Event
from layover.values.runs.hooked import with_failure
from layover.values.runs.run import CallRecord, CallState, StepRecord, Suspension

NEW_WAIT = {
    "votes": (),
    "voted": 0,
    "reminders": 0,
    "escalated": False,
    "extended_to": None,
}
"""The fields of a call that begin anew with each attempt."""


class CallRecords:
    """Journals calls for one writer."""

    def __init__(self, core: FrameCore, tools: Mapping[str, AnyTool], events: CallEvents) -> None:
        self._log = core.log
        self._state = core.state
        self._clock = core.clock
        self._tools = tools
        self._events = events
        # Calls of a window are closed one after another: the call that completes the step says so in its own
        # transaction, and has to be the last.
        self._closing = asyncio.Lock()
        self.model_follows = False
        """True: the model is called while the end of the step's last call is journaled. No hook and no
        database learns of the end before `RunLog.wait`."""

    async def open(self, calls: Sequence[CallRecord], *events: Event) -> list[CallRecord]:
        """Journal that calls begin to run, together. Return them as they are then."""
        await self._log.open_calls(calls, *events)
        opener = self._log.opener
        open_calls = [call.written(state=CallState.OPEN, opener=opener) for call in calls]
        for call in open_calls:
            self._state.update(call)
        return open_calls

    async def suspend(self, waiting: Sequence[tuple[CallRecord, Suspension]]) -> None:
        """Journal waiting calls together: a reader that sees one of them waiting sees all of them."""
        records = [_with_suspension(call, suspension) for call, suspension in waiting]
        await self._log.suspend_calls(records, *self._events.suspended(records))
        for call in records:
            self._state.update(_waiting_now(call))

    async def close(self, step: StepRecord, call: CallRecord, outcome: Settled) -> None:
        """Journal the outcome of a call."""
        await self.close_as(step, call, lambda: outcome)

    async def close_as(
        self, step: StepRecord, call: CallRecord, outcome_of: Callable[[], Settled]
    ) -> Settled:
        """Journal and return the outcome that `outcome_of` returns once no sibling is being closed: it may
        count them."""
        async with self._closing:
            outcome = outcome_of()
            await self._record(step, call, outcome)
            return outcome

    async def _record(self, step: StepRecord, call: CallRecord, outcome: Settled) -> None:
        tool, slot = self._tools.get(call.tool_name), slot_of(step, call)
        outcome = with_retries_counted(tool, self._state, call, outcome)
        custom = outcome.custom
        settled = call.model_copy(
            update={
                "result": outcome.result,
                "model_output": outcome.model_output,
                "is_error": outcome.is_error,
                "retry": outcome.retry,
                "settled_at": self._clock.now(),
                "child": outcome.child or call.child,
                "denial": outcome.denial,
                "hooked": with_failure(call.hooked, outcome.failure),
                "custom": custom_message(step, slot, custom["name"], custom["data"])
                if custom
                else None,
            }
        )
        record = settled.written(state=CallState.SETTLED, opener=self._log.opener)
        before = self._state.calls.get(call.key)
        self._state.update(record)
        complete = self._state.settled(step) and self._state.step_ended < step.index
        self._state.update(record.model_copy(update={"ends_step": complete}))
        try:
            events = self._events.ended(step, call, record)
            events += [self._events.turn_end(step)] if complete else []
            ended_step = step if complete else None
            # Another writer may have settled a call that it opened. Waiting for the write shows it, before
            # a model call is paid for in vain.
            mine = call.opener == self._log.opener
            wait = not (complete and self.model_follows and mine)
            await self._log.close_call(settled, *events, ended_step=ended_step, wait=wait)
        except BaseException:
            if before is not None:
                self._state.update(before)
            else:
                del self._state.calls[call.key]
            raise
        if complete:
            self._state.step_ended = step.index


def _with_suspension(call: CallRecord, suspension: Suspension) -> CallRecord:
    """Return the call with what it waits for; an earlier attempt's decision is kept for audit."""
    past = call.past
    if call.decision is not None:
        past = (*past, {"attempt": call.attempt, **call.decision.model_dump(mode="json")})
    fresh = {"suspension": suspension, "past": past, **NEW_WAIT}
    return call.model_copy(update=fresh)


def _waiting_now(call: CallRecord) -> CallRecord:
    """Return a call whose suspension was journaled in the state that it then has."""
    fresh = {"opener": None, "token": None, "decision": None}
    return call.written(state=CallState.WAITING, attempt=call.attempt + 1, **fresh)
