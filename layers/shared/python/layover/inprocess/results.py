"""A run as an agent's author sees it in this process."""

from contextlib import suppress

from pydantic_core import to_json

from layover.declare.agent import Agent
from layover.declare.hooks.base import defines
from layover.declare.result import Result
from layover.values.runs.run import Status
from layover.values.runs.views import Run


def result_of(run: Run, agent: Agent) -> Result:
    """Return the run as `generate` returns it."""
    output = run.output
    if agent.output is not None and run.status is Status.SUCCESS and run.text:
        with suppress(ValueError):
            text = to_json(run.output).decode() if _may_differ(agent) else run.text
            output = agent.parse_output(text)
    return Result(
        run_id=run.id,
        status=run.status,
        messages=list(run.messages),
        text=run.text,
        output=output,
        finish_reason=run.finish_reason,
        usage=run.usage,
        pending=list(run.pending),
        error=run.error,
    )


def _may_differ(agent: Agent) -> bool:
    """Return whether the run's output may differ from its text."""
    return agent.output_validator is not None or any(defines(h, "at_end") for h in agent.hooks)
