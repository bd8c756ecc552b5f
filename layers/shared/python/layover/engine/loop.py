"""The loop of a run (docs/behaviour.md#run-loop), with its surroundings in one invocation: a cancel, the
deadline, the end."""

from contextlib import suppress

from layover.declare.agent import Agent
from layover.engine.frames.definition import definition_of
from layover.engine.frames.frame import Frame, Invocation
from layover.engine.frames.turn_input import TurnInput
from layover.engine.progress import CANCELLED, OutOfTime, Over, Progress, RunEnds, Stopped, Yielded
from layover.engine.state import RunState
from layover.engine.stopping import Stopping
from layover.engine.supervise import supervise
from layover.engine.time_left import TimeLeft
from layover.errors import Fenced, LayoverError, RunFailed
from layover.ports import Deadline, RunLog
from layover.runtime import Runtime
from layover.values.runs.event import AgentStart, DefinitionChanged
from layover.values.runs.run import CallState, ErrorInfo, FinishReason, RunSnapshot, Status


class Loop:
    """Advances one run for one writer."""

    def __init__(
        self,
        runtime: Runtime,
        log: RunLog,
        agent: Agent,
        turn_input: TurnInput,
        deadline: Deadline,
        *,
        holds_thread: bool = True,
    ) -> None:
        self.state = RunState(log.snapshot)
        # The run may have been handed over, or begun by an agent that gave the conversation away meanwhile.
        self.state.choose(self.state.meta.choice.within(agent.overridable))
        self._log = log
        self._agent = agent
        self._clock = runtime.clock
        self._time = TimeLeft(deadline)
        self._stopping = Stopping(log, runtime.aborts)
        invocation = Invocation(runtime, log, self._time, self._stopping, holds_thread=holds_thread)
        self._running = invocation.running
        self._frame = Frame(invocation, log, self.state, agent, turn_input)

    async def advance(self) -> Progress:
        """Go on until the run is over, suspended, or out of time. Failures of the model, a tool or a provider
        are never raised. Raises Fenced and RetryableError."""
        try:
            if self.state.meta.cancel:
                return CANCELLED
            return await supervise(
                self._log,
                self._run(),
                self._stopping,
                running=self._running,
                seconds_left=self._time.until_cut,
            )
        except OutOfTime:
            return Yielded()
        except Stopped:
            return CANCELLED
        except RunEnds as end:
            return failed(end.failure)
        except RunFailed as failure:
            return failed(failure)
        except Fenced:
            raise
        except Exception:
            # The events of what this attempt has begun are kept, although the next attempt begins it again.
            with suppress(LayoverError):
                await self._log.flush()
            raise

    def with_unbegun(self, snapshot: RunSnapshot) -> RunState:
        """Return the run as journaled. A call that this writer opened and never began is planned again: no
        other writer can know that it did not run."""
        state, started_keys = RunState(snapshot), self._stopping.started_keys
        for call in snapshot.calls:
            mine = call.state is CallState.OPEN and call.opener == self._log.opener
            if mine and call.child is None and call.key not in started_keys:
                state.update(call.model_copy(update={"state": CallState.PLANNED}))
        return state

    async def _run(self) -> Progress:
        if not await self._log.has_begun():
            self._log.emit(AgentStart(at=self._clock.now()))
        await self._note_definition()
        return await self._frame.run()

    async def _note_definition(self) -> None:
        """Journal, once, that the deployed definition differs from the one that the run began with. The run
        goes on under it (docs/versions.md)."""
        steps = self.state.steps
        definition = self.state.meta.definition or (steps[0].definition if steps else "")
        if definition and definition != (now := definition_of(self._agent)):
            event = DefinitionChanged(at=self._clock.now(), was=definition, now=now)
            await self._log.redefine(now, event)


def failed(failure: RunFailed) -> Over:
    """Return the end of a run that cannot go on."""
    return Over(Status.FAILED, FinishReason.ERROR, error=ErrorInfo.of(failure))
