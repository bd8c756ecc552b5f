"""`RunWork`: what a loop needs of the journal (docs/architecture.md#what-a-loop-needs). Every fact of a run
is written here, and the state of the run follows what is journaled."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from layover.context.call_ends import end_events, hook_events, turn_end
from layover.context.transcript import custom_message, slot_of
from layover.declare.agent import Agent
from layover.engine.budget import decided_budget, missing_budget
from layover.engine.invocation import Invocation
from layover.engine.outcomes import Settled
from layover.engine.progress import Aside, Progress, RunEnds, Suspended, Yielded
from layover.engine.run_files import RunFiles
from layover.engine.state import RunState
from layover.errors import RunFailed
from layover.keys import parent_call_of
from layover.ports import Clock, Unheard
from layover.values.base import Json
from layover.values.runs.event import (
    AgentStart,
    DefinitionChanged,
    Event,
    Handoff,
    HookReplied,
    MessageEvent,
    ToolCallSuspended,
    ToolExecutionStart,
    TurnEnd,
)
from layover.values.runs.hooked import with_failure
from layover.values.runs.run import CallRecord, CallState, StepRecord, Suspension

Begin = tuple[CallRecord, Json]
"""A call that begins to run, and the arguments that its tool gets."""
_NEW_WAIT = {
    "votes": (),
    "voted": 0,
    "reminders": 0,
    "escalated": False,
    "extended_to": None,
}
"""The fields of a call that begin anew with each attempt."""


class RunWork:
    """One agent's part of a run (its own, or that of a sub-agent in one of its calls), as one process works
    on it. Each method that writes raises Fenced if another process has taken the run, and RetryableError.

    `above`: the work of the agent that called this one; None: the run's own. `model_follows`: the model may
    be called while the end of a step's last call is journaled, because nobody else learns of it before
    `finish`."""

    def __init__(
        self,
        invocation: Invocation,
        state: RunState,
        agent: Agent,
        *,
        above: "RunWork | None" = None,
        model_follows: bool = False,
    ) -> None:
        self.invocation = invocation
        self.runtime = invocation.runtime
        self.state = state
        self.agent = agent
        self.emit: Callable[..., None] = self._emit if state.path else invocation.log.emit
        """Adds events to the run's log. They are journaled with the next fact."""
        self._log = invocation.log
        self._above = above
        self._model_follows = model_follows
        # The call that completes a step says so in its own transaction, and has to be the last. And of
        # sub-agents side by side, only one may ask for a larger budget.
        self._one_by_one = asyncio.Lock()

    @property
    def clock(self) -> Clock:
        """The clock of the runtime."""
        return self.runtime.clock

    @cached_property
    def run_files(self) -> RunFiles:
        """The files of the run, under its agent's name."""
        return RunFiles(self.runtime, self.state.meta, self.agent.name)

    # Before a step

    async def begin(self, define: Callable[[], str]) -> None:
        """Journal, once, that the run begins, and that its agent is deployed with another definition than the
        run began with: it goes on under it (docs/versions.md). `define`: returns the hash of the deployed
        one."""
        if not await self._log.has_begun():
            self.emit(AgentStart(at=self.clock.now()))
        steps = self.state.steps
        definition = self.state.meta.definition or (steps[0].definition if steps else "")
        if definition and definition != (now := define()):
            event = DefinitionChanged(at=self.clock.now(), was=definition, now=now)
            await self._log.redefine(now, event)

    async def may_ask(self) -> Progress | None:
        """Return None if the model may be asked for the next step, else why not. Looks at what is the
        cheapest to undo first: a cancel leaves nothing, a budget is a call that waits, a yield comes back.
        Raises Stopped; RunFailed if a limit ends the run."""
        await self.invocation.check()
        if self.is_aside:
            return Aside()
        if not await self.has_budget():
            return Suspended(self.state.waiting())
        if not self.invocation.time.for_model() or await self.runtime.allowance.stopped():
            await self._log.flush()
            return Yielded()
        return None

    @property
    def is_aside(self) -> bool:
        """True while another run has the thread, so that this one's own model may not be asked."""
        return self._above is None and not self.invocation.holds_thread

    @property
    def asks_first(self) -> bool:
        """True if something is asked before each call: a budget, the user's day, or whether the run has to
        stop."""
        runtime, has_budget = self.runtime, self.agent.limits is not None or self._above is not None
        stops = self.invocation.is_stopping or runtime.aborts is not None
        return has_budget or stops or runtime.settings.limits_days

    async def has_messages(self) -> bool:
        """Return whether the run was sent a message that no step's prompt has had."""
        if self._above is None:
            new = await self._log.new_messages(len(self.state.sent_messages))
            self.state.add_said(new)
        return bool(self.state.unread())

    async def listen(self) -> None:
        """Let the next step's prompt have what the run was sent. It is journaled with the step."""
        if not await self.has_messages():
            return
        state = self.state
        for message in state.unread():
            place = {
                "parent_id": state.newest_id(),
                "created_at": state.next_time(message.created_at),
            }
            state.notices = (*state.notices, message.model_copy(update=place))

    # A step

    async def put_step(
        self,
        step: StepRecord,
        *before: Event,
        begins: Sequence[Begin] = (),
        heeds: bool = False,
    ) -> None:
        """Journal a model's answer with the events of its messages, behind those that came `before` it, and
        the first of its calls as open (`begins`). No death leaves a step whose calls nobody can place, and a
        call that is found open is in doubt, whoever opened it. `heeds`: none of them begins if the run was
        sent a message that the step's model has not read."""
        now = self.clock.now()
        events = [*before, *_step_events(step, now)]
        is_complete = not step.slots
        calls = [call for call, _ in begins]
        starts = self._starts(begins, now)
        heard = self._heard(step) if heeds else None
        try:
            await self._log.put_step(
                step,
                *self._with_place([*events, *starts]),
                is_complete=is_complete,
                open_calls=calls,
                heard=heard,
            )
        except Unheard:
            calls = []
            await self._log.put_step(step, *self._with_place(events), is_complete=is_complete)
        # The state changes after the journal: if the write fails, the run stays unchanged.
        self.state.add(step)
        self._note_open(calls)
        if is_complete:
            self.state.step_ended = step.index

    async def end_step(self, step: StepRecord) -> None:
        """Journal that a step is complete whose last call another process settled: the `turn-end` is not in
        the log if that one died before, or settles only calls."""
        if self.state.step_ended < step.index:
            event = turn_end(step, self.state.calls, self.clock.now())
            await self._log.end_step(step, *self._with_place([event]))
            self.state.step_ended = step.index

    # Calls

    async def may_begin(self, timeouts: Sequence[timedelta | None]) -> bool:
        """Return whether calls with these time-outs may begin: budgets and time allow it. Raises Stopped;
        RunFailed if a limit ends the run."""
        await self.invocation.check()
        return await self.has_budget(len(timeouts)) and self.invocation.time.for_tools(timeouts)

    async def has_budget(self, upcoming_calls: int = 0) -> bool:
        """Return whether this agent's limits, and those of all above it, leave room for what comes next. On
        False, a call that waits for a larger budget has been journaled. Raises RunFailed if the limits end
        this agent's work, or a person refused to extend them; RunEnds if those of an agent above do."""
        async with self._one_by_one:
            if any(call.undecided for call in self.state.budget_calls()):
                return False
            limits, now = self.agent.limits, self.clock.now
            missing = missing_budget(self.state, limits, upcoming_calls, now)
            if missing is not None:
                await self.suspend([missing])
                return False
        if self._above is None:
            return True
        try:
            return await self._above.has_budget(upcoming_calls)
        except RunFailed as failure:
            # Raised as this agent's own it would become a tool error, and its caller would go on beyond its
            # limit.
            raise RunEnds(failure) from failure

    async def settle_budgets(self) -> None:
        """Settle the calls for a larger budget that were decided: all that follows counts against it."""
        for call in self.state.budget_calls():
            if call.decision and call.state is CallState.WAITING:
                await self.settle_budget(call)

    async def settle_budget(self, call: CallRecord) -> None:
        """Settle a decided call for a larger budget."""
        await self.note(decided_budget(call, self.agent.limits, self.clock.now()))

    def waits(self) -> bool:
        """Return whether this agent cannot go on before a person has decided: about a call in it, or about a
        budget of an agent above it."""
        above = self._above
        return bool(self.state.blocking()) or (above is not None and above.waits_for_budget())

    def waits_for_budget(self) -> bool:
        """Return whether a budget of this agent, or of one above it, waits for a person."""
        own = any(call.undecided for call in self.state.budget_calls())
        return own or (self._above is not None and self._above.waits_for_budget())

    async def open(self, begins: Sequence[Begin], *, heeds: bool = False) -> list[CallRecord]:
        """Journal that calls begin to run, together and before they do. Return them as they are then.
        `heeds`: raises Unheard if the run was sent a message that their model has not read."""
        calls = [call for call, _ in begins]
        events = self._starts(begins, self.clock.now())
        heard = self._heard() if heeds else None
        await self._log.open_calls(calls, *self._with_place(events), heard=heard)
        return self._note_open(calls)

    def _heard(self, *more: StepRecord) -> int | None:
        """Return how many of the messages that the run was sent a step has read, with `more` behind those
        that are journaled. None: a sub-agent hears none."""
        if self._above is not None:
            return None
        if not (sent := self.state.sent_messages):
            return 0
        read = {notice.id for step in (*self.state.steps, *more) for notice in step.notices}
        return sum(message.id in read for message in sent)

    async def suspend(self, waiting: Sequence[tuple[CallRecord, Suspension]]) -> None:
        """Journal waiting calls together: a reader that sees one of them waiting sees all of them."""
        calls = [_with_suspension(call, suspension) for call, suspension in waiting]
        now, name = self.clock.now(), self.agent.name
        events: list[Event] = [event for call in calls for event in hook_events(call, now)]
        events += [
            ToolCallSuspended.of(call, name, at=now, attempt=call.attempt + 1) for call in calls
        ]
        await self._log.suspend_calls(calls, *self._with_place(events))
        fresh = {"opener": None, "token": None, "decision": None}
        for call in calls:
            attempt = call.attempt + 1
            self.state.update(call.written(state=CallState.WAITING, attempt=attempt, **fresh))

    async def settle(
        self, step: StepRecord, call: CallRecord, outcome: Settled | Callable[[], Settled]
    ) -> Settled:
        """Journal the outcome of a call, and return it. `outcome`: or a function that returns it once no
        sibling is being settled, because it counts them."""
        async with self._one_by_one:
            settled = outcome if isinstance(outcome, Settled) else outcome()
            await self._settle(step, call, settled)
            return settled

    async def _settle(self, step: StepRecord, call: CallRecord, outcome: Settled) -> None:
        now, state, custom = self.clock.now(), self.state, outcome.custom
        message = custom and custom_message(
            step, slot_of(step, call), custom["name"], custom["data"]
        )
        settled = call.model_copy(
            update={
                "result": outcome.result,
                "model_output": outcome.model_output,
                "files": outcome.shown_files,
                "is_error": outcome.is_error,
                "retry": outcome.retry,
                "settled_at": now,
                "child": outcome.child or call.child,
                "denial": outcome.denial,
                "hooked": with_failure(call.hooked, outcome.failure, self.state.meta.id),
                "custom": message or None,
            }
        )
        record = settled.written(state=CallState.SETTLED, opener=self._log.opener)
        before = state.calls.get(call.key)
        state.update(record)
        is_complete = state.settled(step) and state.step_ended < step.index
        state.update(record.model_copy(update={"ends_step": is_complete}))
        try:
            events = [*hook_events(call, now), *end_events(step, record, now)]
            if is_complete:
                events.append(turn_end(step, state.calls, now))
            # Another process may have settled a call that it opened. Waiting for the write shows it, before
            # a model call is paid for in vain.
            mine = call.opener == self._log.opener
            await self._log.close_call(
                settled,
                *self._with_place(events),
                ended_step=step if is_complete else None,
                wait=not (is_complete and self._model_follows and mine),
            )
        except BaseException:
            if before is not None:
                state.update(before)
            else:
                del state.calls[call.key]
            raise
        if is_complete:
            state.step_ended = step.index

    async def note(self, call: CallRecord, *events: Event) -> None:
        """Journal a fact as the record of a settled call: of one that no model made (`RunState.new_call`), or
        of one whose sub-agent has ended in the background."""
        await self._log.close_call(call, *self._with_place(events))
        self.state.update(call.written(state=CallState.SETTLED))

    # The end

    async def wait_for_compaction(self, index: int) -> None:
        """Journal that the run yields for its compaction before this step: once for each."""
        await self._log.wait_for_compaction(index)

    async def hand_over(self, to: str, definition: str) -> None:
        """Give the run to another agent: one write changes its agent, its definition and the log."""
        event = Handoff(at=self.clock.now(), giver=self.agent.name, to=to)
        await self._log.hand_over(to, definition, event)

    async def finish(self) -> None:
        """Wait until everything is journaled. Neither an answer nor a failure may leave a loop before."""
        await self._log.wait()

    def _emit(self, *events: Event) -> None:
        self._log.emit(*self._with_place(events))

    def _with_place(self, events: Iterable[Event]) -> Iterable[Event]:
        """Return events with the place of their sub-agent."""
        path = self.state.path
        if not path:
            return events
        place = {"agent_path": self.state.agent_path, "parent_tool_call_id": parent_call_of(path)}
        # The end of a call brings what ended the sub-agent in it, which has a place of its own.
        return [e if e.parent_tool_call_id else e.model_copy(update=place) for e in events]

    def _starts(self, begins: Sequence[Begin], now: datetime) -> list[Event]:
        events: list[Event] = []
        for call, args in begins:
            names = {"tool_call_id": call.tool_call_id, "tool_name": call.tool_name}
            events += [*hook_events(call, now), ToolExecutionStart(at=now, **names, args=args)]
        return events

    def _note_open(self, calls: Iterable[CallRecord]) -> list[CallRecord]:
        opener = self._log.opener
        opened = [call.written(state=CallState.OPEN, opener=opener) for call in calls]
        for call in opened:
            self.state.update(call)
        return opened


def _step_events(step: StepRecord, now: datetime) -> Iterable[Event]:
    """Yield the events of a step's messages, and of its end if it has no calls."""
    for notice in step.notices:
        yield MessageEvent(at=now, message=notice)
    if step.replied is not None:
        yield HookReplied(at=now, step=step.index, **dict(step.replied))
    model = step.model or None
    yield MessageEvent(at=now, message=step.message, model=model, usage=step.counts_as)
    if not step.slots:
        yield TurnEnd(at=now, step=step.index, message=step.message, tool_results=())


def _with_suspension(call: CallRecord, suspension: Suspension) -> CallRecord:
    """Return the call with what it waits for; an earlier attempt's decision is kept for audit."""
    past = call.past
    if call.decision is not None:
        past = (*past, {"attempt": call.attempt, **call.decision.model_dump(mode="json")})
    return call.model_copy(update={"suspension": suspension, "past": past, **_NEW_WAIT})
