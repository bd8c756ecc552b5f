"""The loop of a run (docs/behaviour.md#run-loop), with its surroundings in one invocation: a cancel, the
deadline, the end."""

from contextlib import suppress
from functools import partial

from layover.declare.agent import Agent
from layover.engine.definition import definition_of
from layover.engine.frames.assembly import assemble
from layover.engine.frames.turn_input import TurnInput
from layover.engine.invocation import Invocation
from layover.engine.progress import (
    CANCELLED,
    OutOfTime,
    Progress,
    RunEnds,
    Stopped,
    Yielded,
    failed,
)
from layover.engine.state import RunState
from layover.engine.supervise import supervise
from layover.engine.time_left import TimeLeft
from layover.errors import Fenced, LayoverError, RunFailed
from layover.ports import Deadline, RunLog
from layover.runtime import Runtime
from layover.values.runs.run import CallState, RunSnapshot


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
        self._agent = agent
        self._invocation = Invocation(runtime, log, TimeLeft(deadline), holds_thread=holds_thread)
        self._frame = assemble(self._invocation, self.state, agent, turn_input)

    async def advance(self) -> Progress:
        """Go on until the run is over, suspended, or out of time. Failures of the model, a tool or a provider
        are never raised. Raises Fenced and RetryableError."""
        try:
            if self.state.meta.cancel:
                return CANCELLED
            return await supervise(self._invocation, self._run())
        except OutOfTime as out:
            return Yielded(wait=out.wait)
        except Stopped:
            return CANCELLED
        except RunEnds as end:
            return failed(end.failure, self.state.run_id)
        except RunFailed as failure:
            return failed(failure, self.state.run_id)
        except Fenced:
            raise
        except Exception:
            # The events of what this attempt has begun are kept, although the next attempt begins it again.
            with suppress(LayoverError):
                await self._invocation.log.flush()
            raise

    def with_unbegun(self, snapshot: RunSnapshot) -> RunState:
        """Return the run as journaled. A call that this writer opened and never began is planned again: no
        other writer can know that it did not run."""
        state, invocation = RunState(snapshot), self._invocation
        for call in snapshot.calls:
            mine = call.state is CallState.OPEN and call.opener == invocation.log.opener
            if mine and call.child is None and call.key not in invocation.started_keys:
                state.update(call.model_copy(update={"state": CallState.PLANNED}))
        return state

    async def _run(self) -> Progress:
        await self._frame.work.begin(partial(definition_of, self._agent))
        return await self._frame.run()
