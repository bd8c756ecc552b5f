"""The verdict of an agent's validator on an answer: asked for once, and journaled with the answer's step
(docs/behaviour.md#structured-output)."""

from datetime import datetime

from layover.declare.agent import Agent
from layover.declare.blocking import call_author
from layover.declare.context import Retry
from layover.declare.schemas.render import MAX_PROBLEM, format_error, jsonable
from layover.engine.frames.instructions import run_context
from layover.engine.hooks.around_model import refused_in_a_row
from layover.engine.isolation import isolate
from layover.engine.state import RunState
from layover.errors import RunFailed
from layover.values.base import Json
from layover.values.runs.run import PromptSnapshot, StepRecord
from layover.values.text import sanitise

MAX_RETRIES = 2


async def with_verdict(
    agent: Agent, state: RunState, base: PromptSnapshot, step: StepRecord, now: datetime
) -> StepRecord:
    """Return the step with the validator's verdict on its answer."""
    if agent.output_validator is None:
        return step
    about = run_context(agent, state.meta, state.run_id, now, base.metadata)
    try:
        parsed_output = agent.parse_output(sanitise(step.message.text))
        output = jsonable(await isolate(call_author(agent.output_validator, parsed_output, about)))
    except Retry as again:
        changes = {"verdict": "retry", "correction": sanitise(str(again)[:MAX_PROBLEM])}
    except Exception as error:
        changes = {"verdict": "failed", "correction": sanitise(format_error(error)[:MAX_PROBLEM])}
    else:
        return step.model_copy(update={"verdict": "accepted", "output": output})
    return step.model_copy(update=changes)


def cut_note(finish_reason: str) -> str:
    """Return what is wrong with an answer that its limit of tokens cut, before what else is; else nothing."""
    return "its limit of tokens cut it; " if finish_reason == "length" else ""


def is_last_attempt(steps: list[StepRecord]) -> bool:
    """Return whether the newest step, whose answer was not accepted, is the run's last."""
    step = steps[-1]
    if step.verdict == "hook":
        return refused_in_a_row([s.verdict for s in steps]) > MAX_RETRIES
    if step.verdict == "failed":
        return True
    if step.verdict == "retry":
        return sum(s.verdict == "retry" for s in steps) > MAX_RETRIES
    before = steps[-2] if len(steps) > 1 else None
    return before is not None and before.correction is not None and not before.verdict


def accepted_output(step: StepRecord, run_id: str) -> Json:
    """Return the output that the validator accepted. Raises RunFailed if it accepted none."""
    if step.verdict != "accepted":
        message = f"the output's validator did not accept the answer: {step.correction}"
        raise RunFailed(message[:MAX_PROBLEM], type="OutputInvalid", run_id=run_id)
    return step.output
