"""A step's prompt, made again: from what the run pinned at its first step, its journal and its thread."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from layover.context.assembly import estimated_tokens
from layover.context.transcript import own_steps
from layover.declare.agent import Agent
from layover.engine.dependencies import with_deps
from layover.engine.frames.assembly import prompt_of_next_step
from layover.engine.frames.instructions import run_context
from layover.engine.frames.tools import tools_of
from layover.engine.state import RunState, pinned_of
from layover.errors import NotFound, RunFailed
from layover.runs.load_turn import agent_of, load_turn_input
from layover.runtime import Runtime
from layover.values.prompt import Prompt
from layover.values.runs.run import RunSnapshot, StepRecord
from layover.values.thread import ThreadHead

_NOT_KEPT = (
    "no step of the run was journaled: what functions of its agent gave it, and what was found in memory, "
    "was not kept"
)
_NO_STEP = "no step of the run was journaled: this is what its first step would be sent now"
_NO_REPLY = "this step has no reply: this is what it would be sent now"
_NOT_BEGUN = "the run has not begun: its model was asked nothing"
_OTHER_SIZE = (
    "it has another size than the one that was sent: its agent or its thread has changed since"
)
_HOOKS = "the agent's hooks may have changed it"


@dataclass(frozen=True)
class Remade:
    """A prompt that was made again. `problem`: why it may be another one than the one that was sent; None: it
    is the one. Without `prompt`, why none can be made."""

    prompt: Prompt | None
    problem: str | None = None


async def remake_prompt(
    runtime: Runtime, head: ThreadHead, snapshot: RunSnapshot, number: int
) -> Remade:
    """Return the prompt of the run's own step `number`, from 1 on; one behind the last: of the step that
    would come next. No model, server or hook is asked, and nothing is journaled. Raises NotFound for a step
    that the run does not have, and RetryableError."""
    steps = own_steps(snapshot)
    if not 1 <= number <= len(steps) + 1:
        problem = f"the run has {len(steps)} steps: name one of them, or the next"
        raise NotFound(problem, run_id=snapshot.meta.id)
    if not steps and snapshot.meta.execution is None:
        # A turn's read stores the input, which a run that was cancelled in the queue may never have.
        return Remade(None, _NOT_BEGUN)
    try:
        return await _remake(runtime, head, snapshot, number)
    except RunFailed as failure:
        # Its words may be an author's: operators read them with the right to read content.
        return Remade(None, f"{failure.type}: {failure.message}")


async def _remake(runtime: Runtime, head: ThreadHead, snapshot: RunSnapshot, number: int) -> Remade:
    steps = own_steps(snapshot)
    through = steps[:number]
    name = through[-1].agent if through else ""
    meta = snapshot.meta.model_copy(update={"agent": name or snapshot.meta.agent})
    agent = agent_of(runtime, meta)
    pinned = pinned_of(through, meta.agent)
    if pinned is None and _finds_anew(agent):
        return Remade(None, _NOT_KEPT)
    # What a step pins is stored with it, so the read needs the step, and the prompt all before it.
    read = snapshot.model_copy(update={"meta": meta, "steps": through})
    if not agent.has_all_tools:
        agent = await with_deps(agent, runtime.settings)
    turn_input = await load_turn_input(runtime, agent, head, read)
    base = turn_input.base
    about = run_context(agent, meta, meta.id, base.as_of, base.metadata)
    run_tools = await tools_of(runtime, agent, about, base, asks=False)
    if run_tools is not None:
        turn_input = replace(turn_input, tools=run_tools.tools)
    step = steps[number - 1] if number <= len(steps) else None
    state = _state_before(read, steps[: number - 1], step)
    state.windows |= turn_input.windows
    state.choose(meta.choice.within(agent.overridable))
    prompt = prompt_of_next_step(runtime, agent, state, turn_input)
    return Remade(prompt, _difference(agent, prompt, step, has_steps=bool(steps)))


def _finds_anew(agent: Agent) -> bool:
    """Return whether a first prompt calls functions of the author or asks an embedder: once more, and with
    another outcome."""
    calls = not agent.has_all_tools or not isinstance(agent.instructions, str)
    searches = agent.memory.semantic_recall is not None or agent.memory.episodic is not None
    return calls or searches


def _state_before(
    snapshot: RunSnapshot, before: Sequence[StepRecord], step: StepRecord | None
) -> RunState:
    """Return the run as it was when the step was asked for."""
    earlier = snapshot.model_copy(update={"steps": tuple(before), "said": ()})
    state = RunState(earlier)
    if step is not None:
        state.notices, state.heard = step.notices, step.heard
    return state


def _difference(
    agent: Agent, prompt: Prompt, step: StepRecord | None, *, has_steps: bool
) -> str | None:
    if step is None:
        return _NO_REPLY if has_steps else _NO_STEP
    if step.estimated_tokens != estimated_tokens(prompt):
        return _OTHER_SIZE
    return _HOOKS if agent.hooks else None
