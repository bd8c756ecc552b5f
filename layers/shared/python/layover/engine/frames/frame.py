"""One agent at work: its steps and their calls until it is done, waits, or yields. A run is a frame, and
so is each sub-agent inside one of its calls (docs/sub-agents.md). `assembly` makes it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from layover.declare.agent import Agent
from layover.declare.schemas.render import MAX_PROBLEM, describe, jsonable
from layover.engine.compaction import Compaction
from layover.engine.definition import definition_of
from layover.engine.frames.background import Background
from layover.engine.frames.output import accepted_output, cut_note, is_last_attempt
from layover.engine.frames.step import ModelStep
from layover.engine.hooks.around_model import too_many_rejections
from layover.engine.hooks.at_end import AtEnd
from layover.engine.progress import Aside, Over, Progress, RunEnds, Suspended, Yielded
from layover.engine.tools.calls import Calls
from layover.engine.tools.nothing_new import Loop, NothingNew
from layover.engine.work import RunWork
from layover.errors import RunFailed
from layover.values.base import Json
from layover.values.runs.event import LoopEvent
from layover.values.runs.hooked import earlier_failure
from layover.values.runs.run import DECLINES, CallRecord, FinishReason, Status, StepRecord

_FINAL = (FinishReason.MAX_ITERATIONS, FinishReason.LOOP, FinishReason.REFUSED)
"""Ends after which an agent does not answer once more, whatever it is told."""


@dataclass(frozen=True)
class Frame:
    """One agent's part of a run."""

    work: RunWork
    steps: ModelStep
    calls: Calls
    background: Background
    nothing_new: NothingNew
    compaction: Compaction | None
    end: AtEnd

    async def run(self) -> Progress:
        """Advance as far as possible, and ask the hooks at the end. Raises RunFailed if this agent cannot go
        on; OutOfTime, Stopped, RunEnds, Fenced and RetryableError if the whole run does not go on here."""
        # The hooks were told of a failure, and the process died before the run ended with it. It ends with
        # the same one: they acted on it.
        self.end.raise_earlier_failure()
        try:
            progress = await self._advance()
        except RunFailed as failure:
            await self.end.failed(failure)
            raise
        except RunEnds as end:
            if not self.work.state.path:
                await self.end.failed(end.failure)
            raise
        return await self.end.over(progress) if isinstance(progress, Over) else progress

    async def _advance(self) -> Progress:
        """Go on until this frame and its background sub-agents stop: nothing may outlive the answer."""
        # Settle a decided extension first: everything after it counts against the new limits.
        await self.work.settle_budgets()
        state = self.work.state
        async with self.background as background:
            while True:
                progress = await self._make_steps()
                if isinstance(progress, Yielded):
                    background.stop_soon()
                # Awaited whatever the progress is: the answer to the state machine ends this invocation, and
                # Lambda freezes whatever is still running.
                in_time = await background.settle()
                self._check_hooks(state.in_background())
                # The rest is in the order in which the state machine has to learn of it. Work that was cut
                # short needs a fresh invocation, even if calls wait as well; they will still be waiting then.
                if not in_time:
                    yielded = Yielded(wait=background.wait)
                    return progress if isinstance(progress, Yielded) else yielded
                if not isinstance(progress, Over):
                    return progress
                if not background.is_done():
                    return Suspended(state.waiting())
                if progress.finish_reason in _FINAL:
                    return progress
                # The agent has answered. It answers once more if a result or a message arrived that it has
                # not seen.
                if not await self._has_news():
                    return progress

    async def _has_news(self) -> bool:
        """Return whether a background sub-agent has ended, or the run was sent a message, and no step's
        prompt has had it yet."""
        return await self.work.has_messages() or self.background.has_news()

    async def _make_steps(self) -> Progress:
        work, background = self.work, self.background
        try:
            while True:
                # The newest step first: a process that takes the run over finds it in any state.
                step = work.state.step
                progress = await self._finish_step(step) if step is not None else None
                if progress is not None:
                    return progress
                # Then everything that may keep the model from being asked.
                background.check()
                if (progress := await work.may_ask()) is not None:
                    return progress
                if self.compaction is not None and not await self.compaction.allows():
                    return Yielded(context=True)
                # Last of all, because a notice is journaled with the step whose prompt contains it, and never
                # without a step.
                background.notify()
                await work.listen()
                await self.steps.make()
        finally:
            await work.finish()

    async def _finish_step(self, step: StepRecord) -> Progress | None:
        """Settle the newest step. Return None if it is complete and the model comes next."""
        state = self.work.state
        if step.slots:
            if not await self.calls.advance(step):
                self._check_hooks(state.calls_of(step))
                return Suspended(state.waiting()) if self.work.waits() else Yielded()
            progress = await self._follow_calls(step)
            if progress is not None:
                return progress
        elif step.is_refused:
            return Over(Status.SUCCESS, FinishReason.REFUSED)
        elif step.correction is None and await self._has_news():
            pass  # The answer came before its model had read all notices and messages.
        elif step.correction is None or is_last_attempt(state.steps):
            return self._answered(step)
        limit = state.meta.max_iterations or self.work.agent.max_iterations
        if len(state.steps) >= limit:
            return Over(Status.SUCCESS, FinishReason.MAX_ITERATIONS)
        return None

    async def _follow_calls(self, step: StepRecord) -> Progress | None:
        """End a step whose calls are settled. Return None if the model comes next."""
        self._check_hooks(self.work.state.calls_of(step))
        await self.work.end_step(step)
        to = self._find_handoff(step)
        if to is not None:
            return Aside() if self.work.is_aside else await self._hand_over(to)
        loop = self.nothing_new.find_loop()
        return self._end_loop(loop) if loop is not None else None

    def _end_loop(self, loop: Loop) -> Over:
        """Return the end of an agent that comes no further. Its answer is what it said so far."""
        now, path = self.work.clock.now(), self.work.state.agent_path
        event = LoopEvent(at=now, tools=loop.tools, steps=loop.steps, agent_path=path)
        # Written with the end of the run, or of the sub-agent's call: no death leaves it in the log twice.
        return Over(Status.SUCCESS, FinishReason.LOOP, events=(event,))

    def _check_hooks(self, calls: Sequence[CallRecord]) -> None:
        """Raise RunFailed if a hook raised about one of the calls, which had run."""
        for call in calls:
            if call.hooked and call.hooked.failure:
                failure, detail = call.hooked.failure, call.hooked.failure_detail
                raise earlier_failure(failure, detail, self.work.state.meta.id)

    def _find_handoff(self, step: StepRecord) -> Agent | None:
        """Return the agent that gets the conversation, if this agent's newest step asked for that."""
        agent = self.work.agent
        if step.agent != agent.name:
            return None
        calls = self.work.state.calls_of(step)
        tools = (agent.tool(c.tool_name) for c in calls if _took_effect(c))
        name = next((t.handoff for t in tools if t and t.handoff), None)
        return next((a for a in agent.handoffs if a.name == name), None)

    async def _hand_over(self, to: Agent) -> Progress:
        """Hand the conversation over once no work is left for this agent. The other agent goes on in a fresh
        turn, which reads its memory."""
        if not await self.background.settle():
            return Yielded()
        if not self.background.is_done():
            return Suspended(self.work.state.waiting())
        # The fresh turn reads the other agent's memory and notes, which this process has not loaded.
        await self.work.hand_over(to.name, definition_of(to))
        return Yielded()

    def _answered(self, step: StepRecord) -> Over:
        if step.verdict == "hook":
            raise too_many_rejections(step.correction, self.work.state.meta.id)
        has_output = self.work.agent.output is not None and not step.is_withheld
        output = self._parsed(step) if has_output else None
        reason = FinishReason(step.finish_reason) if step.finish_reason != "tool-calls" else None
        return Over(Status.SUCCESS, reason or FinishReason.STOP, output=output)

    def _parsed(self, step: StepRecord) -> Json:
        """Return the output as JSON. It fitted when the step was journaled, but code may be newer than that.
        Raises RunFailed, without the model's words."""
        if step.verdict:
            return accepted_output(step, self.work.state.meta.id)
        try:
            return jsonable(self.work.agent.parse_output(step.message.text))
        except Exception as error:
            what = describe(error) if isinstance(error, ValidationError) else type(error).__name__
            often = ", twice" if step.correction is not None else ""
            what = cut_note(step.finish_reason) + what
            problem = f"the model's answer does not fit the output's schema{often}: {what}"
            problem = problem[:MAX_PROBLEM]
            raise RunFailed(
                problem, type="OutputInvalid", run_id=self.work.state.meta.id
            ) from error


def _took_effect(call: CallRecord) -> bool:
    """Return whether a settled call did what it stands for: it did not fail, and no person or hook prevented
    it."""
    decision = call.decision.kind if call.decision else None
    if call.is_error or decision in DECLINES:
        return False
    if call.denial is not None:
        return False
    return call.hooked is None or not call.hooked.settles
