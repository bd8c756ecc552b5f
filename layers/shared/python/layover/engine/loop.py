"""The loop of a run (docs/behaviour.md#run-loop): steps and their calls until the run is over, waits, or
yields."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pydantic import ValidationError

from layover.context.assembly import RenderedMemory, model_of
from layover.declare.agent import Agent
from layover.declare.schemas.render import LONGEST_PROBLEM, describe, jsonable
from layover.declare.tool import AnyTool
from layover.engine.attachments import Attachments
from layover.engine.budget import Budget
from layover.engine.compaction import Compaction, CompactionState
from layover.engine.progress import OutOfTime, Over, Progress, Stopped, Suspended, Yielded
from layover.engine.prompter import Prompter
from layover.engine.state import RunState
from layover.engine.step import ModelStep
from layover.engine.supervise import supervise
from layover.engine.time_left import TimeLeft
from layover.engine.tools.calls import Calls
from layover.engine.tools.hooks import Stopping
from layover.engine.tools.run_files import RunFiles
from layover.errors import RunFailed
from layover.ports import Deadline, RunLog, Runtime
from layover.values.base import Json
from layover.values.message import Message
from layover.values.runs.event import AgentStart
from layover.values.runs.run import ErrorInfo, FinishReason, PromptSnapshot, Status, StepRecord


@dataclass(frozen=True)
class TurnInput:
    """What a turn read for its run: the history that the prompt shows, what memory adds to it (as it is
    pinned, and as text), and the tools that memory brings."""

    history: Sequence[Message]
    base: PromptSnapshot
    shown: RenderedMemory
    memory_tools: Sequence[AnyTool] = ()
    compaction: CompactionState | None = None


class Loop:
    """Advances one run for one writer."""

    def __init__(
        self,
        runtime: Runtime,
        log: RunLog,
        agent: Agent,
        given: TurnInput,
        deadline: Deadline,
    ) -> None:
        self.state = RunState(log.snapshot)
        self._log = log
        self._agent = agent
        self._clock = runtime.clock
        self._allowance = runtime.allowance
        self._time = TimeLeft(deadline)
        self._budget = Budget(log, self.state, agent, runtime.clock)
        self._stopping = Stopping(log, runtime.aborts)
        belongings = RunFiles(runtime, self.state.meta, agent.name)
        self._calls = Calls(
            log,
            self.state,
            agent,
            runtime.clock,
            self._stopping,
            given.memory_tools,
            runtime.memory,
            belongings,
        )
        model = model_of(agent, runtime.settings, self.state.meta)
        prompter = Prompter(
            agent,
            runtime.settings,
            self.state.base or given.base,
            given.shown,
            given.history,
            [t.spec for t in (*agent.tools, *given.memory_tools)],
            runtime.window(model) if runtime.window else None,
        )
        attachments = Attachments(belongings.files)
        self._compaction = (
            Compaction(runtime, log, self.state, prompter, given.compaction)
            if given.compaction
            else None
        )
        self._steps = ModelStep(
            runtime, log, self.state, agent, prompter, attachments, self._stopping
        )

    async def advance(self) -> Progress:
        """Go on until the run is over, suspended, or out of time. Never raises for what the model,
        a tool or a provider did; raises Fenced and RetryableError."""
        try:
            if self.state.meta.cancel:
                return _cancelled()
            return await supervise(
                self._log,
                self._run(),
                self._stopping,
                (self._time.until_cut, self._calls.can_be_cut),
            )
        except OutOfTime:
            return Yielded()
        except Stopped:
            return _cancelled()
        except RunFailed as failure:
            return failed(failure)

    async def _run(self) -> Progress:
        if not await self._log.begun():
            self._log.emit(AgentStart(at=self._clock.now()))
        await self._budget.settle_decided()
        while True:
            step = self.state.step
            if step is not None:
                progress = await self._finish_step(step)
                if progress is not None:
                    return progress
            await self._stopping.check()
            if not await self._budget.allows(step):
                return Suspended(self.state.waiting())
            if not self._time.for_model() or await self._allowance.stopped():
                await self._log.flush()
                return Yielded()
            if self._compaction is not None and not await self._compaction.allows():
                return Yielded(context=True)
            await self._steps.make()

    async def _finish_step(self, step: StepRecord) -> Progress | None:
        """Settle the newest step. None: it is complete and the model is asked again."""
        if step.slots:
            if not await self._calls.advance(step, self._gate, self._time.for_tools):
                waiting = self.state.waiting()
                return Suspended(waiting) if waiting else Yielded()
            if self.state.step_ended < step.index:
                await self._log.end_step(step.index, self._calls.turn_end(step))
                self.state.step_ended = step.index
        elif step.correction is None or self._corrected_before(step):
            return self._answered(step)
        limit = self.state.meta.max_iterations or self._agent.max_iterations
        if len(self.state.steps) >= limit:
            return Over(Status.SUCCESS, FinishReason.MAX_ITERATIONS)
        return None

    async def _gate(self, step: StepRecord, timeouts: list[timedelta | None]) -> bool:
        """A window of calls begins only with enough budget, and with enough time for its tools."""
        if not await self._budget.allows(step, upcoming_calls=len(timeouts)):
            return False
        return self._time.for_tools(timeouts)

    def _answered(self, step: StepRecord) -> Over:
        output = None if self._agent.output is None else self._parsed(step)
        reason = FinishReason(step.finish_reason) if step.finish_reason != "tool-calls" else None
        return Over(Status.SUCCESS, reason or FinishReason.STOP, output=output)

    def _parsed(self, step: StepRecord) -> Json:
        """The output as JSON. Whether it fits was known when the step was journaled, but code may be
        newer than that. Raises RunFailed, without the model's words."""
        try:
            return jsonable(self._agent.parse_output(step.message.text))
        except Exception as error:
            what = describe(error) if isinstance(error, ValidationError) else type(error).__name__
            often = ", twice" if step.correction is not None else ""
            problem = f"the model's answer does not fit the output's schema{often}: {what}"
            problem = problem[:LONGEST_PROBLEM]
            raise RunFailed(problem, type="OutputInvalid", run_id=self.state.meta.id) from error

    def _corrected_before(self, step: StepRecord) -> bool:
        """It was asked once more already: the step before this one was no answer either."""
        before = self.state.steps[-2] if len(self.state.steps) > 1 else None
        return before is not None and before.correction is not None


def failed(failure: RunFailed) -> Over:
    """The end of a run that cannot go on."""
    error = ErrorInfo(type=failure.type, message=failure.message)
    return Over(Status.FAILED, FinishReason.ERROR, error=error)


def _cancelled() -> Over:
    return Over(Status.CANCELLED, FinishReason.CANCELLED)
