"""`at_end` of a frame of a run."""

import logging
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

from layover.context.hooked import validate_answer
from layover.declare.agent import Agent
from layover.declare.hooks.base import defines
from layover.declare.result import Result
from layover.declare.schemas.render import jsonable, message_of
from layover.engine.dependencies import with_deps
from layover.engine.frame_core import FrameCore
from layover.engine.hooks.frame_hooks import FrameHooks, ask_hook
from layover.engine.hooks.records import answers_of, put_answers
from layover.engine.isolation import TimedOut, isolate
from layover.engine.progress import CANCELLED, Over
from layover.engine.state import RunState
from layover.errors import RetryableError, RunFailed
from layover.ports import RunLog
from layover.runtime import Runtime
from layover.values.runs.run import ErrorInfo, FinishReason, Status

logger = logging.getLogger("layover")

CANCEL_HOOKS_GRACE = timedelta(seconds=1)
"""The time that the hooks of a cancelled run have together, including the making of its deps."""


def has_at_end(agent: Agent | None) -> bool:
    """Return whether any hook of the agent is asked at the end of its runs."""
    return agent is not None and any(defines(hook, "at_end") for hook in agent.hooks)


async def run_cancel_hooks(runtime: Runtime, log: RunLog, state: RunState, agent: Agent) -> None:
    """Ask the hooks of a run that ends as cancelled, once. Nothing that they do keeps it from ending: a
    failure is logged and journaled. Raises Fenced if another writer took the run."""
    if not has_at_end(agent) or answers_of(state, "at_end"):
        return

    async def answers() -> dict[str, Any]:
        complete = await with_deps(agent, runtime.settings)
        core = FrameCore(runtime, log, state, complete)
        return await AtEnd(FrameHooks(core)).answers(CANCELLED)

    answer = await _within(answers(), CANCEL_HOOKS_GRACE)
    if failure := answer.get("failure"):
        ids = {"run_id": state.run_id, "cause": failure["type"]}
        logger.warning("a hook failed at the end of a cancelled run", extra=ids)
    await put_answers(log, state, runtime.clock, "at_end", answer)


async def _within(answers: Coroutine[Any, Any, dict[str, Any]], limit: timedelta) -> dict[str, Any]:
    """Return the answers, or the error that prevented them."""
    try:
        return await isolate(answers, limit)
    except TimedOut as late:
        message = f"the hooks took longer than {late.limit:g} s"
        failure = ErrorInfo(type="TimeoutError", message=message)
    except RunFailed as failed:
        failure = ErrorInfo.of(failed)
    except Exception as error:
        failure = ErrorInfo(type=type(error).__name__, message=message_of(error))
    return {"output": None, "error": None, "failure": failure.model_dump()}


class AtEnd:
    """The hooks at the end of one frame."""

    def __init__(self, frame_hooks: FrameHooks) -> None:
        self._frame_hooks = frame_hooks

    def raise_earlier_failure(self) -> None:
        """Raise RunFailed if the hooks were told of a failure already: the run ends with it."""
        for answer in answers_of(self._frame_hooks.state, "at_end"):
            if answer.get("error"):
                raise _failure(answer["error"], self._frame_hooks.state.run_id)

    async def over(self, over: Over) -> Over:
        """Return the end as it is written. Journaled answers are not asked for again. Raises RunFailed if a
        hook raised."""
        if not self._frame_hooks.at("at_end"):
            return over
        frame_hooks = self._frame_hooks
        answer = next(iter(answers_of(frame_hooks.state, "at_end")), None)
        if answer is None:
            answer = await self.answers(over)
            await put_answers(
                frame_hooks.log, frame_hooks.state, frame_hooks.clock, "at_end", answer
            )
        if answer.get("failure"):
            raise _failure(answer["failure"], frame_hooks.state.run_id)
        return replace(over, output=answer["output"])

    async def failed(self, failure: RunFailed) -> None:
        """Tell the hooks of a frame about the failure that ends it. They cannot change it."""
        over = Over(Status.FAILED, FinishReason.ERROR, error=ErrorInfo.of(failure))
        try:
            await self.over(over)
        except RunFailed as second:
            ids = {"run_id": self._frame_hooks.state.run_id, "cause": second.type}
            logger.warning("a hook failed at the end of a failed run", extra=ids)

    async def answers(self, over: Over) -> dict[str, Any]:
        """Return the hooks' answers about this end, as they are journaled. Raises RetryableError."""
        result = first = self._result(over)
        ended_with = over.error.model_dump() if over.error else None
        for _, hook in self._frame_hooks.at("at_end"):
            try:
                result = validate_answer(
                    await ask_hook(hook, "at_end", self._frame_hooks.context(), result), result
                )
                jsonable(result.output)
            except RetryableError:
                raise
            except Exception as error:
                failure = self._frame_hooks.failed(hook, "at_end", error)
                raised = ErrorInfo.of(failure).model_dump()
                return {"output": None, "error": ended_with, "failure": raised}
        output = over.output if result is first else jsonable(result.output)
        return {"output": output, "error": ended_with}

    def _result(self, over: Over) -> Result:
        state = self._frame_hooks.state
        messages = state.response()
        text = next((s.message.text for s in reversed(state.steps) if s.message.text), "")
        return Result(
            run_id=state.run_id,
            status=over.status,
            messages=messages,
            text=text,
            output=over.output,
            finish_reason=over.finish_reason,
            usage=state.usage(),
            error=over.error,
        )


def _failure(error: dict[str, Any], run_id: str) -> RunFailed:
    info = ErrorInfo.model_validate(error)
    return RunFailed(info.message, type=info.type, run_id=run_id)
