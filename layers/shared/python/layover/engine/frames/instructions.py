"""Instructions that are a function: called once, before a run's first step, and pinned with that step."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from layover.declare.agent import Agent
from layover.declare.blocking import call_author
from layover.declare.context import RunContext
from layover.engine.frames.turn_input import TurnInput
from layover.engine.isolation import TimedOut, isolate
from layover.engine.state import RunState
from layover.errors import RunFailed
from layover.values.base import Json
from layover.values.runs.run import PromptSnapshot, RunMeta


def run_context(
    agent: Agent, meta: RunMeta, run_id: str, now: datetime, metadata: dict[str, Json]
) -> RunContext:
    """Return the view of a run that an author's functions get. `run_id`: a sub-agent has its own."""
    return RunContext(
        run_id=run_id,
        thread_id=meta.thread_id if meta.thread_given else None,
        resource_id=meta.owner,
        agent_name=agent.name,
        metadata=metadata,
        now=now,
        deps=agent.made_deps,
        groups=meta.groups,
        scopes=meta.scopes,
    )


async def instructions_of(agent: Agent, ctx: RunContext) -> str | None:
    """Return the text that the run pins; None: the agent's own text. Raises RunFailed if the function raises
    or returns no text."""
    make = agent.instructions
    if isinstance(make, str):
        return None
    try:
        text: Any = await isolate(call_author(make, ctx))
    except (Exception, TimedOut) as error:
        message = f"the instructions of agent {agent.name!r} failed: {error}"
        kind = type(error).__name__
        raise RunFailed(message, type=kind, is_internal=True, run_id=ctx.run_id) from error
    if not isinstance(text, str):
        message = (
            f"the instructions of agent {agent.name!r} are not a text but {type(text).__name__}"
        )
        raise RunFailed(message, type="DefinitionError", run_id=ctx.run_id)
    return text


async def with_instructions(
    agent: Agent, state: RunState, turn_input: TurnInput, above: PromptSnapshot | None
) -> TurnInput:
    """Return a sub-agent's input with its instructions and the thread's metadata: those that it pinned at its
    first step, else new ones. `above`: the snapshot that the agent above it pinned. Raises RunFailed."""
    base = state.base
    if base is None:
        metadata = above.metadata if above else {}
        about = run_context(agent, state.meta, state.run_id, turn_input.base.as_of, metadata)
        instructions = await instructions_of(agent, about)
        base = turn_input.base.model_copy(
            update={"instructions": instructions, "metadata": metadata}
        )
    rendered = replace(turn_input.rendered, instructions=base.instructions)
    return replace(turn_input, base=base, rendered=rendered)
