"""Observations of a branch: made ahead in slices, taken up together, condensed again
(docs/behaviour.md#compaction-ahead)."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Protocol

from layover.context import compaction
from layover.context.compaction import Path, with_slices
from layover.context.tokens import estimate, total_tokens
from layover.plugins.memory.condenses import observer, reflector
from layover.plugins.memory.condenses.job import CompactionJob, ParsedReply, without_places
from layover.plugins.memory.condenses.observation_lines import latest, without_repetition
from layover.plugins.memory.condenses.overlooked import overlooked
from layover.plugins.memory.reads.blocks import is_due, render_observations
from layover.values.memory.compaction import Compacted, Generation, NewGeneration, Observation
from layover.values.message import Message
from layover.values.metrics import Metric
from layover.values.prompt import Prompt

WAIT = timedelta(seconds=8)
"""The time that a run waits for slices that are already being observed: another call would take as long."""
WAIT_AFTER_RUN = timedelta(seconds=20)
"""The wait after a run, when no run waits, so that slices under way are not requested again."""
POLL_INTERVAL = timedelta(seconds=0.5)
LATEST_VERSION = "latest-1"
"""Of a reflection that no model made."""


class Mode(Protocol):
    """`condense` of either mode; `waits`: a run stands still until it is done."""

    async def __call__(self, job: CompactionJob, *, waits: bool) -> str: ...


async def observe_ahead(job: CompactionJob, after_id: str | None, through_id: str) -> str:
    """Observe one slice of a running run's branch. It takes effect later, if at all."""
    current = await job.read_compacted(through_id)
    ends = [current.through, *(g.through_message_id for g in current.slices)]
    if after_id in ends[:-1]:
        return "nothing"  # another job observed it
    path = await job.path(after_id, through_id)
    if not path.free:
        return "nothing"
    # Slices are made at the same time: what the one before this leaves out is not known until it is there.
    base = current if after_id == ends[-1] else Compacted()
    generation = await _observe(job, path, path.free, after_id, base)
    if generation is None:
        return "failed"
    await _reflect(job, await job.read_compacted(through_id))
    return "compacted"


async def condense(job: CompactionJob, *, waits: bool) -> str:
    """Observe the messages that no slice covers yet, let slices take effect if the limit is reached, and
    condense observations that have become many. Raises RetryableError."""
    current = await job.read_compacted()
    path = await job.path(current.through)
    current = await _await_slices(job, current, path, waits=waits)
    has_changed = await _observe_rest(job, current, path, waits=waits)
    if waits or total_tokens(path.free) >= job.limits.start:
        current = await job.read_compacted()
        path = await job.path(current.through)
        has_changed = await _activate(job, current, path) or has_changed
    current = await job.read_compacted()
    return "compacted" if await _reflect(job, current, waits=waits) or has_changed else "nothing"


async def _await_slices(
    job: CompactionJob, current: Compacted, path: Path, *, waits: bool
) -> Compacted:
    """Wait a little for slices that are being observed already, and return all slices. A run that waits goes
    on as soon as it has enough."""
    limits, free = job.limits, path.free
    if waits and not compaction.count_leaving(free, limits.tail, limits.start):
        return current
    clock = job.runtime.clock
    until = clock.now() + (WAIT if waits else WAIT_AFTER_RUN)
    while job.is_under_way(free[_count_covered(path, current.slices) :]):
        ready = compaction.ready_slices(path, current.slices, limits.tail, limits.start)
        enough = total_tokens(free[_count_covered(path, ready) :]) < limits.start
        if (waits and ready and enough) or clock.now() > until:
            break
        await clock.sleep(POLL_INTERVAL)
        current = await job.read_compacted()
    return current


async def _observe_rest(job: CompactionJob, current: Compacted, path: Path, *, waits: bool) -> bool:
    """Observe the messages behind the last slice. If a run waits, the messages that it needs compacted are
    observed, however few they are. The first failure ends it: slices make a chain."""
    limits, free = job.limits, path.free
    start = _count_covered(path, current.slices)
    if waits:
        end = compaction.count_leaving(free, limits.tail, limits.start)
        pieces = list(_split_all(free[start:end], limits.ahead or limits.start))
    else:
        pieces = list(compaction.slices(free[start:], limits.ahead or limits.start))
    after, newest, has_changed = _end_of(path, current), current, False
    for first, last in pieces:
        piece = free[start + first : start + last]
        generation = await _observe(job, path, piece, after, newest)
        if generation is None:
            break
        after, has_changed = piece[-1].id, True
        newest = newest.model_copy(update={"slices": (*newest.slices, generation)})
    return has_changed


def _split_all(messages: Sequence[Message], tokens: int) -> list[tuple[int, int]]:
    """Return slices of all these messages: the rest goes with the last one."""
    pieces = list(compaction.slices(messages, tokens)) or [(0, 0)]
    pieces[-1] = (pieces[-1][0], len(messages))
    return [p for p in pieces if p[1] > p[0]]


async def _observe(
    job: CompactionJob,
    path: Path,
    piece: Sequence[Message],
    after: str | None,
    current: Compacted,
) -> Generation | None:
    """Observe a piece of a path, with what was left out before it and need not be any more, and store it as a
    slice. Return None if the model failed or the branch has changed."""
    earlier = job.left_before(current, piece)
    messages = [*without_places(earlier), *piece]
    before = latest((*current.observations, *(o for g in current.slices for o in g.observations)))
    answer = await job.ask(
        observer.request(job.model, messages, before, job.names),
        lambda text: observer.parse(text, messages, job.new_id),
        "no observations",
    )
    if answer is None:
        return None
    # Models note again what they are told is noted. A slice of repetitions is empty, and covers its messages.
    lines = without_repetition(answer.value, before)
    if len(lines) < len(answer.value):
        # Who repeats what is known has perhaps not read what is new.
        lines += overlooked(messages, (*before, *lines), job.new_id)
    slice = NewGeneration(
        kind="observations",
        after_message_id=after,
        through_message_id=messages[-1].id,
        left_out=path.left_out(after, messages[-1].id),
        taken=tuple(m.id for m in earlier),
        observations=lines,
        token_count=estimate(render_observations(lines)),
        prompt_version=observer.PROMPT_VERSION,
        model=answer.model,
        at=job.runtime.clock.now(),
    )
    generation = await job.add_slice(slice, answer.replies)
    if generation is not None:
        count = job.runtime.metrics.count
        count(Metric.OBSERVATIONS_MADE, len(lines), agent=job.meta.agent)
    return generation


async def _activate(job: CompactionJob, current: Compacted, path: Path) -> bool:
    """Let slices take effect, if no other job has changed the branch."""
    ready = compaction.ready_slices(path, current.slices, job.limits.tail, job.limits.start)
    if not ready:
        return False
    numbers = [g.number for g in ready]
    number = current.generation.number if current.generation else None
    meta = job.meta
    if not await job.runtime.memory.activate(meta.owner, meta.thread_id, numbers, number):
        return False
    after = with_slices(current, len(ready), path.messages)
    messages = path.free[: _count_covered(path, ready)]
    job.count_savings(
        messages, render_observations(after.observations), render_observations(current.observations)
    )
    return True


async def _reflect(job: CompactionJob, current: Compacted, *, waits: bool = False) -> bool:
    """Condense the observations that take effect: leave out those that later ones restate, and ask a model
    if there are still too many."""
    generation = current.generation
    if generation is None or generation.kind != "observations":
        return False
    lines = latest(current.observations)
    left = current.model_copy(update={"observations": lines})
    if job.limits.block is None or not is_due(left, job.limits.block):
        if len(lines) == len(current.observations):
            return False
        reflection = _reflection(job, current, lines, "", LATEST_VERSION)
        return await job.replace(reflection, generation, ()) is not None
    answer = await ask_reflector(job, lines, reflector.target_of(job.limits.block), waits=waits)
    if answer is None:
        return False
    # Stored even if nothing was condensed, so that no job asks again before new observations take effect.
    reflection = _reflection(job, current, answer.value, answer.model, reflector.PROMPT_VERSION)
    return await job.replace(reflection, generation, answer.replies) is not None


async def ask_reflector(
    job: CompactionJob, lines: Sequence[Observation], target: int, *, waits: bool
) -> ParsedReply[tuple[Observation, ...]] | None:
    """Return fewer observations. What is still above the target is condensed once more, unless a run waits
    or the model finds nothing to condense; what cannot be condensed further stays as the first answer left
    it."""
    first = await job.ask(*_reflection_of(job, lines, target), "no reflection")
    if first is None or waits or reflector.size(first.value) <= target:
        return first
    if first.value == tuple(lines):
        return first
    return await job.improve(first, *_reflection_of(job, first.value, target))


def _reflection_of(
    job: CompactionJob, lines: Sequence[Observation], target: int
) -> tuple[Prompt, Callable[[str], tuple[Observation, ...] | None]]:
    """Return the request to condense these lines, and how its answer is read."""
    request = reflector.request(job.model, lines, target)
    return request, lambda text: reflector.parse(text, lines, job.new_id)


def _reflection(
    job: CompactionJob,
    current: Compacted,
    observations: tuple[Observation, ...],
    model: str,
    version: str,
) -> NewGeneration:
    return NewGeneration(
        kind="reflection",
        through_message_id=str(current.through),
        left_out=tuple(m.id for m in current.left_out),
        observations=observations,
        token_count=estimate(render_observations(observations)),
        prompt_version=version,
        model=model,
        at=job.runtime.clock.now(),
    )


def _count_covered(path: Path, slices: Sequence[Generation]) -> int:
    """Count the free messages of the path that these slices cover. Slices may go on behind its end."""
    counts = path.counts()
    return max((counts.get(slice.through_message_id, 0) for slice in slices), default=0)


def _end_of(path: Path, current: Compacted) -> str | None:
    """Return the last message of the path that a slice covers; None: none does, and nothing is compacted."""
    ends = {slice.through_message_id for slice in current.slices}
    return next((m.id for m in reversed(path.messages) if m.id in ends), current.through)
