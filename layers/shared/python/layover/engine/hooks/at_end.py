"""`at_end` of a frame of a run."""

import logging
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

from layover.context.hooked import validate_answer
from layover.declare.agent import Agent
from layover.declare.hooks.base import is_any_asked
from layover.declare.result import Result
from layover.declare.schemas.render import jsonable, message_of
from layover.engine.dependencies import with_deps
from layover.engine.hooks.frame_hooks import FrameHooks, ask_hook
from layover.engine.invocation import Invocation
from layover.engine.isolation import TimedOut, isolate
from layover.engine.progress import CANCELLED, Over, failed
from layover.engine.state import RunState
from layover.engine.work import RunWork
from layover.errors import RetryableError, RunFailed
from layover.ports import RunLog
from layover.runtime import Runtime
from layover.values.runs.hooked import earlier_failure
from layover.values.runs.run import CANCEL_HOOKS_GRACE, ErrorDetail, ErrorInfo

logger = logging.getLogger("layover")


async def run_cancel_hooks(runtime: Runtime, log: RunLog, state: RunState, agent: Agent) -> None:
    """Ask the hooks of a run that ends as cancelled, once. Nothing that they do keeps it from ending: a
    failure is logged and journaled. Raises Fenced if another writer took the run."""
    invocation = Invocation(runtime, log)
    hooks = FrameHooks(RunWork(invocation, state, agent))
    if not is_any_asked(agent.hooks, "at_end") or hooks.journaled("at_end"):
        return

    async def answers() -> dict[str, Any]:
        complete = await with_deps(agent, runtime.settings)
        return await AtEnd(FrameHooks(RunWork(invocation, state, complete))).answers(CANCELLED)

    answer = await _within(answers(), CANCEL_HOOKS_GRACE, state.run_id)
    if failure := answer.get("failure"):
        ids = {"run_id": state.run_id, "cause": failure["type"]}
        logger.warning("a hook failed at the end of a cancelled run", extra=ids)
    await hooks.keep("at_end", answer)


async def _within(
    answers: Coroutine[Any, Any, dict[str, Any]], limit: timedelta, run_id: str
) -> dict[str, Any]:
    """Return the answers, or the error that prevented them."""
    from layover.values.runs.failures import error_of

    try:
        return await isolate(answers, limit)
    except TimedOut as late:
        message = f"the hooks took longer than {late.limit:g} s"
        failure = ErrorInfo(type="TimeoutError", message=message)
    except RunFailed as failed:
        failure = error_of(failed, run_id)
    except Exception as error:
        raised = RunFailed(message_of(error), type=type(error).__name__, is_internal=True)
        failure = error_of(raised, run_id)
    return {"output": None, "error": None, "failure": failure.model_dump()}


class AtEnd:
    """The hooks at the end of one frame."""

    def __init__(self, hooks: FrameHooks) -> None:
        self._hooks = hooks
        self._state = hooks.work.state

    def raise_earlier_failure(self) -> None:
        """Raise RunFailed if the hooks were told of a failure already: the run ends with it."""
        for answer in self._hooks.journaled("at_end"):
            if answer.get("error"):
                raise _earlier(answer, "error", self._state.run_id)

    async def over(self, over: Over) -> Over:
        """Return the end as it is written. Journaled answers are not asked for again. Raises RunFailed if a
        hook raised."""
        if not self._hooks.at("at_end"):
            return over
        answer = next(iter(self._hooks.journaled("at_end")), None)
        if answer is None:
            answer = await self.answers(over)
            await self._hooks.keep("at_end", answer)
        if answer.get("failure"):
            raise _earlier(answer, "failure", self._state.run_id)
        return replace(over, output=answer["output"])

    async def failed(self, failure: RunFailed) -> None:
        """Tell the hooks of a frame about the failure that ends it. They cannot change it."""
        try:
            await self.over(failed(failure, self._state.run_id))
        except RunFailed as second:
            ids = {"run_id": self._state.run_id, "cause": second.type}
            logger.warning("a hook failed at the end of a failed run", extra=ids)

    async def answers(self, over: Over) -> dict[str, Any]:
        """Return the hooks' answers about this end, as they are journaled. Raises RetryableError."""
        result = first = self._result(over)
        ended_with = _as_journaled("error", over.error, over.error_detail)
        for _, hook in self._hooks.at("at_end"):
            try:
                result = validate_answer(
                    await ask_hook(hook, "at_end", self._hooks.context(), result), result
                )
                jsonable(result.output)
            except RetryableError:
                raise
            except Exception as error:
                from layover.values.runs.failures import detail_of, error_of

                failure = self._hooks.failed(hook, "at_end", error)
                raised = error_of(failure, self._state.run_id)
                failure_facts = _as_journaled("failure", raised, detail_of(failure))
                return {"output": None, **ended_with, **failure_facts}
        output = over.output if result is first else jsonable(result.output)
        return {"output": output, **ended_with}

    def _result(self, over: Over) -> Result:
        state = self._state
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
            error_detail=over.error_detail,
        )


def _as_journaled(key: str, error: ErrorInfo | None, detail: ErrorDetail | None) -> dict[str, Any]:
    """Return a failure as it is journaled, under its key."""
    facts: dict[str, Any] = {key: error.model_dump() if error else None}
    return {**facts, f"{key}_detail": detail.model_dump()} if detail else facts


def _earlier(answer: dict[str, Any], key: str, run_id: str) -> RunFailed:
    """Return the failure that was journaled under this key."""
    facts = answer.get(f"{key}_detail")
    detail = ErrorDetail.model_validate(facts) if facts else None
    return earlier_failure(ErrorInfo.model_validate(answer[key]), detail, run_id)
