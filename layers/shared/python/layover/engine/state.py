"""A run as this invocation knows it: what was journaled before, and what it journaled itself.

First run and replay take the same path: both are built from records of the journal."""

from datetime import datetime

from layover.clock import MICROSECOND
from layover.context.transcript import own_steps, step_messages
from layover.keys import call_key, step_key
from layover.values.message import Message, Role
from layover.values.runs.run import (
    BUDGET_TOOL,
    CallRecord,
    CallState,
    PromptSnapshot,
    RunMeta,
    RunSnapshot,
    StepRecord,
    ToolMessageSlot,
)
from layover.values.runs.usage import Usage
from layover.values.thread import after


class RunState:
    """Steps and calls of a run, kept up as they are journaled."""

    def __init__(self, snapshot: RunSnapshot) -> None:
        self.meta: RunMeta = snapshot.meta
        self.steps: list[StepRecord] = list(own_steps(snapshot))
        self.calls: dict[str, CallRecord] = {c.key: c for c in snapshot.calls}
        self.step_ended = snapshot.meta.step_ended
        self.asked_through = self.steps[-1].asked_through if self.steps else None
        """What is observed ahead, or was to be: nobody asks for it again."""
        self._rendered: list[list[Message]] = []

    @property
    def base(self) -> PromptSnapshot | None:
        """What the run pinned: at its first step, or where a compaction switched in since."""
        return next((s.base for s in reversed(self.steps) if s.base is not None), None)

    @property
    def step(self) -> StepRecord | None:
        """The newest step."""
        return self.steps[-1] if self.steps else None

    def add(self, step: StepRecord) -> None:
        """A step was journaled."""
        self.steps.append(step)

    def update(self, call: CallRecord) -> None:
        """A call was journaled."""
        self.calls[call.key] = call

    def next_key(self) -> tuple[int, str]:
        """Number and key of the next step."""
        index = len(self.steps) + 1
        return index, step_key("", index)

    def calls_of(self, step: StepRecord) -> list[CallRecord]:
        """The step's calls in order; those without a record are planned."""
        parts = {p.tool_call_id: p for p in step.message.tool_calls}
        found: list[CallRecord] = []
        for slot in step.slots:
            key = call_key(step.key, slot.tool_call_id)
            part = parts[slot.tool_call_id]
            found.append(
                self.calls.get(key)
                or CallRecord(
                    key=key,
                    run_id=self.meta.id,
                    tool_call_id=slot.tool_call_id,
                    tool_name=part.tool_name,
                    args=part.args,
                )
            )
        return found

    def waiting(self) -> tuple[CallRecord, ...]:
        """The calls that wait undecided: of the newest step, or for a larger budget."""
        return tuple(c for c in self.calls.values() if c.undecided)

    def snapshot(self) -> RunSnapshot:
        """The run as it stands."""
        return RunSnapshot(
            meta=self.meta, steps=tuple(self.steps), calls=tuple(self.calls.values())
        )

    def response(self) -> list[Message]:
        """The messages that the run produced so far. Settled steps are rendered once."""
        while len(self._rendered) < len(self.steps) - 1:
            self._rendered.append(step_messages(self.steps[len(self._rendered)], self.calls))
        done = [m for messages in self._rendered for m in messages]
        return done + (step_messages(self.steps[-1], self.calls) if self.steps else [])

    def tool_messages(self, step: StepRecord) -> tuple[Message, ...]:
        """The tool messages of one step, of the calls that are settled."""
        return tuple(m for m in step_messages(step, self.calls) if m.role is Role.TOOL)

    def slot(self, step: StepRecord, call: CallRecord) -> ToolMessageSlot:
        """Where the call's tool message goes."""
        return next(s for s in step.slots if s.tool_call_id == call.tool_call_id)

    def used_call_ids(self) -> set[str]:
        """Ids of all calls of the run, those for a larger budget among them."""
        asked = {s.tool_call_id for step in self.steps for s in step.slots}
        return asked | {c.tool_call_id for c in self.calls.values()}

    def budget_calls(self) -> list[CallRecord]:
        """The calls for a larger budget. A model may ask for a tool of that name: that is none."""
        named = [c for c in self.calls.values() if c.tool_name == BUDGET_TOOL]
        if not named:
            return []
        asked = {call_key(step.key, s.tool_call_id) for step in self.steps for s in step.slots}
        return [c for c in named if c.key not in asked]

    def next_time(self, hint: datetime) -> datetime:
        """After every message of the run; a step keeps room for its tool and custom messages."""
        last = self.meta.input.created_at
        if self.steps:
            step = self.steps[-1]
            last = step.message.created_at + 2 * len(step.slots) * MICROSECOND
        return after(last, hint)

    def usage(self) -> Usage:
        """The sum over the steps: never a counter."""
        return Usage.total([s.usage for s in self.steps])

    def settled(self, step: StepRecord) -> bool:
        """Every call of the step is settled."""
        return all(c.state is CallState.SETTLED for c in self.calls_of(step))
