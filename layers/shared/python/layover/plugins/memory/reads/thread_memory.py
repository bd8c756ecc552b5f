"""The memory from which the next turn of a thread would start, as its owner sees it."""

from collections.abc import Sequence

from layover.context.compaction import limits_of
from layover.context.tokens import estimate
from layover.plugins.memory.reads.blocks import compaction_block, render_summary
from layover.plugins.memory.reads.profile.notes import system_blocks, volatile_blocks, working_key
from layover.records.threads import head_of
from layover.runtime import Runtime
from layover.values.base import Json, Time, Value
from layover.values.memory.compaction import Compacted, Generation, Observation
from layover.values.memory.context import LoggedAttempt, ThreadState
from layover.values.note import Note


class ShownObservation(Value):
    """An observation of the newest branch. `marker`: CRITICAL | IMPORTANT | INFO | COMPLETION."""

    id: str
    at: Time
    marker: str
    text: str
    parent_id: str | None = None
    active: bool = True


class ThreadMemory(Value):
    """Everything that is kept of a thread except its messages; null for parts that do not exist."""

    observations: tuple[ShownObservation, ...] = ()
    summary: str | None = None
    working_memory: Json = None
    session: Json = None
    plan: Json = None
    iteration_log: tuple[LoggedAttempt, ...] = ()
    token_counts: dict[str, int] = {}
    """Part -> estimated tokens of it in a prompt."""


async def thread_memory(runtime: Runtime, owner: str, thread_id: str) -> ThreadMemory:
    """Return the thread's memory. Raises NotFound, DatabaseWaking."""
    head = await head_of(runtime, owner, thread_id)
    agent = runtime.agents().get(head.agent)
    key = working_key(agent, thread_id) if agent else None
    notes = await runtime.memory.read_notes(owner, [key]) if key else ()
    state = await runtime.memory.read_state(owner, thread_id)
    leaf = head.leaf_id
    generations = await runtime.memory.observations(owner, thread_id, leaf) if leaf else ()
    mode = limits_of(runtime, agent) if agent else None
    # After an agent changes its mode of compaction, nothing that the other mode made is used.
    visible = [
        (g, active and mode is not None and (g.kind == "summary") is (mode.kind == "summary"))
        for g, active in generations
    ]
    observations = _newest_observations(visible)
    summary = next((g.summary for g, active in reversed(visible) if g.summary and active), None)
    return ThreadMemory(
        observations=observations,
        summary=summary,
        working_memory=notes[0].value if notes else None,
        session=state.session,
        plan=state.plan,
        iteration_log=state.attempts,
        token_counts=_token_counts(notes, state, observations, summary),
    )


def _newest_observations(
    generations: Sequence[tuple[Generation, bool]],
) -> tuple[ShownObservation, ...]:
    """Return each observation once, in its newest version: a reflection keeps those that it does not
    change."""
    by_id: dict[str, ShownObservation] = {}
    for generation, active in generations:
        for o in generation.observations:
            fields = o.model_dump(exclude={"marker"})
            by_id[o.id] = ShownObservation(**fields, marker=o.marker.value, active=active)
    return tuple(sorted(by_id.values(), key=lambda o: o.at))


def _token_counts(
    notes: tuple[Note, ...],
    state: ThreadState,
    observations: Sequence[ShownObservation],
    summary: str | None,
) -> dict[str, int]:
    active = [Observation(**o.model_dump(exclude={"active"})) for o in observations if o.active]
    parts = {
        "observations": compaction_block(Compacted(observations=tuple(active))),
        "summary": render_summary(summary) if summary else "",
        "working_memory": system_blocks(notes),
        "session": volatile_blocks(ThreadState(session=state.session)),
        "plan": volatile_blocks(ThreadState(plan=state.plan)),
        "iteration_log": volatile_blocks(ThreadState(attempts=state.attempts)),
    }
    return {name: estimate(text) for name, text in parts.items()}
