"""One agent at work: its steps and their calls until it is done, waits, or yields. A run is a frame, and
so is each sub-agent inside one of its calls (docs/sub-agents.md)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from pydantic import ValidationError

from layover.context.assembly import model_of
from layover.declare.agent import Agent
from layover.declare.schemas.render import MAX_PROBLEM, describe, jsonable
from layover.declare.tools.delegate import MAX_DEPTH
from layover.declare.tools.options import Delegate
from layover.declare.tools.tool import AnyTool
from layover.engine.budget import Budget
from layover.engine.compaction import Compaction
from layover.engine.dependencies import with_deps
from layover.engine.frame_core import FrameCore
from layover.engine.frames.background import Background
from layover.engine.frames.definition import definition_of
from layover.engine.frames.instructions import with_instructions
from layover.engine.frames.log import NestedLog
from layover.engine.frames.memory import as_sub_agent, empty_input, sub_agent_input
from layover.engine.frames.output import accepted_output, is_last_attempt
from layover.engine.frames.step import ModelStep
from layover.engine.frames.subagents import NestedRuns
from layover.engine.frames.tools import with_run_tools, with_tools
from layover.engine.frames.turn_input import TurnInput
from layover.engine.hooks.around_model import too_many_rejections
from layover.engine.hooks.at_end import AtEnd
from layover.engine.hooks.frame_hooks import FrameHooks
from layover.engine.progress import Aside, Over, Progress, RunEnds, Suspended, Yielded
from layover.engine.prompter import Prompter
from layover.engine.run_files import RunFiles
from layover.engine.state import RunState
from layover.engine.stopping import Stopping
from layover.engine.time_left import TimeLeft
from layover.engine.tools.background import foreground_width
from layover.engine.tools.calls import Calls
from layover.engine.tools.first_window import FirstWindow
from layover.engine.tools.nothing_new import Loop, NothingNew
from layover.engine.tools.results import opens_results, result_tool
from layover.engine.tools.search import search_tool, specs_of, uses_search
from layover.errors import RunFailed
from layover.ports import RunLog
from layover.runtime import Runtime
from layover.values.base import Json
from layover.values.prompt import ToolSpec
from layover.values.runs.event import Handoff, LoopEvent
from layover.values.runs.run import (
    DECLINES,
    MAX_WINDOW,
    MESSAGES_TOOL,
    CallRecord,
    FinishReason,
    Status,
    StepRecord,
)


@dataclass
class Invocation:
    """The state that all frames of a run share while one process drives it."""

    runtime: Runtime
    log: RunLog
    """The run's own. A sub-agent writes below its parent's call (`NestedLog`)."""
    time: TimeLeft
    stopping: Stopping
    holds_thread: bool = True
    """False while another run has the thread: calls are settled, and the run's own model is not asked."""
    running: dict[str, AnyTool] = field(default_factory=dict)
    """The tools of the calls that run now, at every depth, by the calls' keys."""


_FINAL = (FinishReason.MAX_ITERATIONS, FinishReason.LOOP, FinishReason.REFUSED)
"""Ends after which an agent does not answer once more, whatever it is told."""

Above = Callable[[int], Awaitable[bool]]
"""Return whether the budgets of the frames above allow this many more calls. Raises RunFailed, RunEnds."""


class Frame:
    """One agent's part of a run. `width`: how many of its calls may wait at once. `above`: None for the run
    itself."""

    def __init__(
        self,
        invocation: Invocation,
        log: RunLog,
        state: RunState,
        agent: Agent,
        turn_input: TurnInput,
        *,
        width: int = MAX_WINDOW,
        above: Above | None = None,
    ) -> None:
        runtime = invocation.runtime
        agent = with_tools(agent, turn_input.tools)
        core = FrameCore(runtime, log, state, agent, invocation.stopping)
        self._invocation = invocation
        self._state = state
        built_in = _built_in(agent, state, turn_input, core.run_files, self._hidden_messages(agent))
        self._log = log
        self._agent = agent
        self._settings = agent.model_settings.over(turn_input.model_settings)
        self._above = above
        self._heard = turn_input.heard
        self._newest_at = turn_input.newest_at
        self._awaits_budget = False
        """True while a budget, of this frame or above it, waits for a person."""
        self._time = invocation.time
        self._budget = Budget(core)
        base = state.base or turn_input.base
        if turn_input.served is not None:
            # The next step pins them.
            base = base.model_copy(update={"served": turn_input.served})
        hooks = FrameHooks(core, base.metadata)
        self._end = AtEnd(hooks)
        nested = NestedRuns(runtime, state, self._enter)
        self._background = Background(core, self._time, nested)
        self._calls = Calls(
            core,
            sub_agents=nested,
            built_in=built_in,
            running=invocation.running,
            width=foreground_width(agent.tools, state, width),
            # A sub-agent answers its caller: it has nothing in the background.
            launch=self._background.begin if above is None else None,
        )
        model = model_of(agent, runtime.settings, state.meta)
        self._nothing_new = NothingNew(agent, state, built_in)
        prompter = Prompter(
            agent=agent,
            settings=runtime.settings,
            base=base,
            rendered=turn_input.rendered,
            history=turn_input.history,
            tools=partial(self._specs, agent, built_in),
            window=runtime.window_of(model, state.meta.choice.apply(self._settings)),
            model_settings=self._settings,
            notes=self._nothing_new.add_texts,
        )
        self._prompter = prompter
        compacted = turn_input.compaction
        # The model may read the result of a step's last call before the journal has it, if nobody else does:
        # a hook would act on a result that a death takes back, compaction would write it to the database, and
        # a sub-agent's caller would see it (docs/saved-writes.md#beside-the-model).
        self._calls.records.model_follows = above is None and not (compacted or agent.hooks)
        self._compaction = Compaction(core, prompter, compacted) if compacted else None
        self._steps = ModelStep(core, prompter, hooks, self._first_window, built_in)

    def _hidden_messages(self, agent: Agent) -> list[AnyTool]:
        """Return the tool that reads what compaction hid, if the agent has one."""
        if MESSAGES_TOOL not in agent.built_in_tools:
            return []
        memory = self._invocation.runtime.agent_memory
        return [memory.messages_tool(self._state.meta, lambda: self._prompter.rendered.through)]

    def _specs(self, agent: Agent, built_in: Sequence[AnyTool], state: RunState) -> list[ToolSpec]:
        """Return the tools that the next step's model is shown: that for hidden messages if there are any."""
        if self._prompter.rendered.through is None:
            built_in = [tool for tool in built_in if tool.name != MESSAGES_TOOL]
        return specs_of(agent, built_in, state)

    async def _enter(self, delegate: Delegate, state: RunState, width: int) -> Progress:
        """Go on with a sub-agent in one of this frame's calls."""
        if len(state.agent_path) > MAX_DEPTH + 1:
            message = f"sub-agents are at most {MAX_DEPTH} levels below the top agent"
            raise RunFailed(message, type="DefinitionError")
        agent = await with_deps(
            as_sub_agent(delegate.agent, self._agent, memory=delegate.memory),
            self._invocation.runtime.settings,
        )
        settings = self._settings.for_sub_agent()
        # The caller's choices also hold for sub-agents where they narrow something: a sub-agent keeps its own
        # model.
        state.choose(state.meta.choice.below(agent.model, agent.model_settings))
        if delegate.memory:
            turn_input = await sub_agent_input(self._invocation.runtime, agent, state, settings)
        else:
            turn_input = empty_input(state, settings)
        turn_input = await with_instructions(agent, state, turn_input, self._state.base)
        turn_input = await with_run_tools(self._invocation.runtime, agent, state, turn_input)
        frame = Frame(
            self._invocation,
            NestedLog(self._invocation.log, state.agent_path, state.path),
            state,
            agent,
            turn_input,
            width=width,
            above=self._check_budgets,
        )
        return await frame.run()

    async def run(self) -> Progress:
        """Advance as far as possible, and ask the hooks at the end. Raises RunFailed if this agent cannot go
        on; OutOfTime, Stopped, RunEnds, Fenced and RetryableError if the whole run does not go on here."""
        # The hooks were told of a failure, and the process died before the run ended with it. It ends with
        # the same one: they acted on it.
        self._end.raise_earlier_failure()
        try:
            progress = await self._advance()
        except RunFailed as failure:
            await self._end.failed(failure)
            raise
        except RunEnds as end:
            if self._above is None:
                await self._end.failed(end.failure)
            raise
        return await self._end.over(progress) if isinstance(progress, Over) else progress

    async def _advance(self) -> Progress:
        """Go on until this frame and its background sub-agents stop: nothing may outlive the answer."""
        # Settle a decided extension first: everything after it counts against the new limits.
        await self._budget.settle_decided()
        async with self._background as background:
            background.go_on(self._calls)
            while True:
                progress = await self._work()
                if isinstance(progress, Yielded):
                    background.stop_soon()
                # Awaited whatever the progress is: the answer to the state machine ends this invocation, and
                # Lambda freezes whatever is still running.
                in_time = await background.settle()
                self._check_hooks(self._state.in_background())
                # The rest is in the order in which the state machine has to learn of it. Work that was cut
                # short needs a fresh invocation, even if calls wait as well; they will still be waiting then.
                if not in_time:
                    return progress if isinstance(progress, Yielded) else Yielded()
                if not isinstance(progress, Over):
                    return progress
                if not background.is_done():
                    return Suspended(self._state.waiting())
                if progress.finish_reason in _FINAL:
                    return progress
                # The agent has answered. It answers once more if a result or a message arrived that it has
                # not seen.
                if not await self._has_news():
                    return progress

    def _is_aside(self) -> bool:
        """Return whether another run has the thread, so that this one's own model may not be asked."""
        return self._above is None and not self._invocation.holds_thread

    async def _has_news(self) -> bool:
        """Return whether a background sub-agent has ended, or the run was sent a message, and no step's
        prompt has had it yet."""
        if self._above is None:
            messages = await self._invocation.log.new_messages(len(self._state.sent_messages))
            self._state.add_said(messages)
        return self._background.has_news() or bool(self._state.unread())

    async def _work(self) -> Progress:
        try:
            return await self._make_steps()
        finally:
            # The end of a call may still be on its way to the journal while its model is asked. Neither an
            # answer nor a failure leaves this frame before the end is journaled.
            await self._log.wait()

    async def _make_steps(self) -> Progress:
        runtime, stopping = self._invocation.runtime, self._invocation.stopping
        while True:
            # The newest step first: a process that takes the run over finds it in any state.
            step = self._state.step
            if step is not None:
                progress = await self._finish_step(step)
                if progress is not None:
                    return progress
            # Then everything that may keep the model from being asked, the cheapest to undo first: a cancel
            # leaves nothing, a budget is a call that waits, a yield comes back here.
            await stopping.check()
            self._background.check()
            if self._is_aside():
                return Aside()
            if not await self._check_budgets():
                return Suspended(self._state.waiting())
            if not self._time.for_model() or await runtime.allowance.stopped():
                await self._log.flush()
                return Yielded()
            if self._compaction is not None and not await self._compaction.allows():
                return Yielded(context=True)
            # Last of all, because a notice is journaled with the step whose prompt contains it, and never
            # without a step.
            self._hear_others()
            self._background.notify()
            await self._read_messages()
            await self._steps.make()

    def _hear_others(self) -> None:
        """Let the next step's prompt have what was said while the run was set aside. All else in it comes
        behind that."""
        if self._state.hears:
            self._state.heard, self._state.heard_at = self._heard, self._newest_at

    async def _read_messages(self) -> None:
        """Let the next step's prompt have what the run was sent."""
        if self._above is not None:
            return
        state = self._state
        state.add_said(await self._invocation.log.new_messages(len(state.sent_messages)))
        for message in state.unread():
            place = {
                "parent_id": state.newest_id(),
                "created_at": state.next_time(message.created_at),
            }
            state.notices = (*state.notices, message.model_copy(update=place))

    async def _finish_step(self, step: StepRecord) -> Progress | None:
        """Settle the newest step. Return None if it is complete and the model comes next."""
        if step.slots:
            if not await self._calls.advance(step, self._gate, self._time.for_tools):
                self._check_hooks(self._state.calls_of(step))
                waits = self._state.blocking() or self._awaits_budget
                return Suspended(self._state.waiting()) if waits else Yielded()
            progress = await self._follow_calls(step)
            if progress is not None:
                return progress
        elif step.is_refused:
            return Over(Status.SUCCESS, FinishReason.REFUSED)
        elif step.correction is None and await self._has_news():
            pass  # The answer came before its model had read all notices and messages.
        elif step.correction is None or is_last_attempt(self._state.steps):
            return self._answered(step)
        limit = self._state.meta.max_iterations or self._agent.max_iterations
        if len(self._state.steps) >= limit:
            return Over(Status.SUCCESS, FinishReason.MAX_ITERATIONS)
        return None

    async def _follow_calls(self, step: StepRecord) -> Progress | None:
        """End a step whose calls are settled. Return None if the model comes next."""
        self._check_hooks(self._state.calls_of(step))
        # A writer died between settling the step's last call and telling of it, or `resume` settled it: its
        # `turn-end` is not in the log yet.
        if self._state.step_ended < step.index:
            await self._log.end_step(step, self._calls.turn_end(step))
            self._state.step_ended = step.index
        to = self._find_handoff(step)
        if to is not None:
            return Aside() if self._is_aside() else await self._hand_over(to)
        loop = self._nothing_new.find_loop()
        return self._end_loop(loop) if loop is not None else None

    def _end_loop(self, loop: Loop) -> Over:
        """Return the end of an agent that comes no further. Its answer is what it said so far."""
        now = self._invocation.runtime.clock.now()
        event = LoopEvent(
            at=now, tools=loop.tools, steps=loop.steps, agent_path=self._state.agent_path
        )
        # Written with the end of the run, or of the sub-agent's call: no death leaves it in the log twice.
        return Over(Status.SUCCESS, FinishReason.LOOP, events=(event,))

    def _check_hooks(self, calls: Sequence[CallRecord]) -> None:
        """Raise RunFailed if a hook raised about one of the calls, which had run."""
        for call in calls:
            if call.hooked and call.hooked.failure:
                failure = call.hooked.failure
                raise RunFailed(failure.message, type=failure.type, run_id=self._state.meta.id)

    def _find_handoff(self, step: StepRecord) -> Agent | None:
        """Return the agent that gets the conversation, if this agent's newest step asked for that."""
        if step.agent != self._agent.name:
            return None
        calls = self._state.calls_of(step)
        tools = (self._agent.tool(c.tool_name) for c in calls if _took_effect(c))
        name = next((t.handoff for t in tools if t and t.handoff), None)
        return next((a for a in self._agent.handoffs if a.name == name), None)

    async def _hand_over(self, to: Agent) -> Progress:
        """Hand the conversation over once no work is left for this agent. The other agent goes on in a fresh
        turn, which reads its memory."""
        if not await self._background.settle():
            return Yielded()
        if not self._background.is_done():
            return Suspended(self._state.waiting())
        # One write changes the run's agent, its definition and the log. The fresh turn reads the other
        # agent's memory and notes, which this process has not loaded.
        now = self._invocation.runtime.clock.now()
        event = Handoff(at=now, giver=self._agent.name, to=to.name)
        await self._log.hand_over(to.name, definition_of(to), event)
        return Yielded()

    def _first_window(self, step: StepRecord) -> FirstWindow:
        """Return the calls that may be opened with their step: none if a budget has to be asked for before
        they begin, or if room in the day has to be given back."""
        limited = self._agent.limits is not None or self._above is not None
        if limited or self._invocation.runtime.settings.limits_days:
            return FirstWindow()
        return self._calls.first_window(step, self._time.for_tools)

    async def _gate(self, step: StepRecord, timeouts: list[timedelta | None]) -> bool:
        """Return whether there is enough budget for the next window of calls, and enough time for its
        tools."""
        if not await self._check_budgets(len(timeouts)):
            return False
        return self._time.for_tools(timeouts)

    async def _check_budgets(self, upcoming_calls: int = 0) -> bool:
        """Return whether the budgets of this frame, and of all above it, allow it to go on."""
        self._awaits_budget = not await self._budget.allows(self._state.step, upcoming_calls)
        if not self._awaits_budget and self._above is not None:
            try:
                self._awaits_budget = not await self._above(upcoming_calls)
            except RunFailed as failure:
                # This failure belongs to a frame above. Raised as this frame's own it would become a tool
                # error, and its caller would go on beyond its limit.
                raise RunEnds(failure) from failure
        return not self._awaits_budget

    def _answered(self, step: StepRecord) -> Over:
        if step.verdict == "hook":
            raise too_many_rejections(step.correction, self._state.meta.id)
        output = None if self._agent.output is None else self._parsed(step)
        reason = FinishReason(step.finish_reason) if step.finish_reason != "tool-calls" else None
        return Over(Status.SUCCESS, reason or FinishReason.STOP, output=output)

    def _parsed(self, step: StepRecord) -> Json:
        """Return the output as JSON. It fitted when the step was journaled, but code may be newer than that.
        Raises RunFailed, without the model's words."""
        if step.verdict:
            return accepted_output(step, self._state.meta.id)
        try:
            return jsonable(self._agent.parse_output(step.message.text))
        except Exception as error:
            what = describe(error) if isinstance(error, ValidationError) else type(error).__name__
            often = ", twice" if step.correction is not None else ""
            problem = f"the model's answer does not fit the output's schema{often}: {what}"
            problem = problem[:MAX_PROBLEM]
            raise RunFailed(problem, type="OutputInvalid", run_id=self._state.meta.id) from error


def _built_in(
    agent: Agent,
    state: RunState,
    turn_input: TurnInput,
    run_files: RunFiles,
    hidden_messages: Sequence[AnyTool],
) -> Sequence[AnyTool]:
    """Return Layover's own tools."""
    return (
        *turn_input.memory_tools,
        *hidden_messages,
        *([search_tool(agent.tools)] if uses_search(agent) else []),
        *([result_tool(state, turn_input.history, run_files)] if opens_results(agent) else []),
    )


def _took_effect(call: CallRecord) -> bool:
    """Return whether a settled call did what it stands for: it did not fail, and no person or hook prevented
    it."""
    decision = call.decision.kind if call.decision else None
    if call.is_error or decision in DECLINES:
        return False
    if call.denial is not None:
        return False
    return call.hooked is None or not call.hooked.settles
