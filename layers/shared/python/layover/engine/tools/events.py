"""The events of a step's calls."""

from collections.abc import Sequence

from layover.context.call_ends import end_events, turn_end
from layover.engine.frame_core import FrameCore
from layover.engine.hooks.around_tools import hook_events
from layover.values.base import Json
from layover.values.runs.event import (
    Event,
    ToolCallSuspended,
    ToolExecutionStart,
    TurnEnd,
)
from layover.values.runs.run import CallRecord, StepRecord


class CallEvents:
    """Makes the events of one frame's calls."""

    def __init__(self, core: FrameCore) -> None:
        self._state = core.state
        self._agent = core.agent
        self._clock = core.clock

    def started(self, call: CallRecord, args: Json) -> list[Event]:
        """Return the events of a call that begins to run."""
        now = self._clock.now()
        begins = ToolExecutionStart(
            at=now, tool_call_id=call.tool_call_id, tool_name=call.tool_name, args=args
        )
        return [*hook_events(call, now), begins]

    def ended(self, step: StepRecord, before: CallRecord, call: CallRecord) -> list[Event]:
        """Return the events of a call that is settled. `before`: the call as it was journaled."""
        now = self._clock.now()
        return [*hook_events(before, now), *end_events(step, call, now)]

    def suspended(self, calls: Sequence[CallRecord]) -> list[Event]:
        """Return the events of calls that wait."""
        now = self._clock.now()
        events: list[Event] = [event for call in calls for event in hook_events(call, now)]
        return [*events, *(self._waits(call) for call in calls)]

    def _waits(self, call: CallRecord) -> ToolCallSuspended:
        now, attempt = self._clock.now(), call.attempt + 1
        return ToolCallSuspended.of(call, self._agent.name, at=now, attempt=attempt)

    def turn_end(self, step: StepRecord) -> TurnEnd:
        """Return the event of a complete step."""
        return turn_end(step, self._state.calls, self._clock.now())
