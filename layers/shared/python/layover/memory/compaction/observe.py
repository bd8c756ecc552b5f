"""Observations of a branch: made ahead in slices, taken up together, condensed again
(docs/behaviour.md#compaction-ahead)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from layover.context import compaction
from layover.context.compaction import with_slices
from layover.context.tokens import estimate
from layover.memory.compaction import observer, reflector
from layover.memory.compaction.job import Work
from layover.values.memory.compaction import Compacted, Generation, NewGeneration, Observation
from layover.values.message import Message
from layover.values.metrics import Metric

PATIENCE = timedelta(seconds=8)
"""Of a run that waits, for slices that somebody observes already: one call more would take as long."""
PATIENCE_AFTER = timedelta(seconds=20)
"""Of nobody who waits: what is under way is not asked for again."""
LOOK_EVERY = timedelta(seconds=0.5)


class Mode(Protocol):
    """`condense` of either mode; `waits`: a run stands still until it is done."""

    async def __call__(self, work: Work, *, waits: bool) -> str: ...


async def ahead(work: Work, after_id: str | None, through_id: str) -> str:
    """Observe one slice of a running run's branch. It takes effect later, if at all."""
    found = await work.compacted(through_id)
    begun = [found.through, *(g.through_message_id for g in found.slices)]
    if after_id in begun[:-1]:
        return "nothing"  # somebody else observed it
    messages = await work.messages(after_id, through_id)
    if not messages:
        return "nothing"
    made = await _observed(work, messages, after_id, found)
    if made is None:
        return "failed"
    await _reflect(work, await work.compacted(through_id))
    return "compacted"


async def condense(work: Work, *, waits: bool) -> str:
    """Observe what no slice covers yet, let slices take effect where the limit is reached, condense
    observations that have become many. Raises RetryableError."""
    found = await work.compacted()
    path = await work.messages(found.through)
    found = await _under_way(work, found, path, waits=waits)
    done = await _observe_rest(work, found, path, waits=waits)
    if waits or compaction.total(path) >= work.limits.start:
        found = await work.compacted()
        path = await work.messages(found.through)
        done = await _take_up(work, found, path) or done
    found = await work.compacted()
    return "compacted" if await _reflect(work, found) or done else "nothing"


async def _under_way(
    work: Work, found: Compacted, path: Sequence[Message], *, waits: bool
) -> Compacted:
    """Returns the slices after waiting a little for those that are being observed already: a run that
    waits takes what is enough for it."""
    if waits and not compaction.leaving(path, work.limits.tail, work.limits.start):
        return found
    clock = work.runtime.clock
    until = clock.now() + (PATIENCE if waits else PATIENCE_AFTER)
    while work.is_under_way(path[_place(path, found.slices) :]):
        chosen = compaction.ready(path, found.slices, work.limits.tail, work.limits.start)
        enough = compaction.total(path[_place(path, chosen) :]) < work.limits.start
        if (waits and chosen and enough) or clock.now() > until:
            break
        await clock.sleep(LOOK_EVERY)
        found = await work.compacted()
    return found


async def _observe_rest(
    work: Work, found: Compacted, path: Sequence[Message], *, waits: bool
) -> bool:
    """Slices of all that is behind the last one; a run that waits has what it needs observed, however
    little that is. The first failure ends it: slices make a chain."""
    limits = work.limits
    begun = _place(path, found.slices)
    if waits:
        end = compaction.leaving(path, limits.tail, limits.start)
        pieces = list(_whole(path[begun:end], limits.ahead or limits.start))
    else:
        pieces = list(compaction.slices(path[begun:], limits.ahead or limits.start))
    after, known, done = _end(found), found, False
    for first, last in pieces:
        piece = path[begun + first : begun + last]
        made = await _observed(work, piece, after, known)
        if made is None:
            break
        after, done = piece[-1].id, True
        known = known.model_copy(update={"slices": (*known.slices, made)})
    return done


def _whole(messages: Sequence[Message], tokens: int) -> list[tuple[int, int]]:
    """Slices of all of these: what is left over goes with the last one."""
    pieces = list(compaction.slices(messages, tokens)) or [(0, 0)]
    pieces[-1] = (pieces[-1][0], len(messages))
    return [p for p in pieces if p[1] > p[0]]


async def _observed(
    work: Work, messages: Sequence[Message], after: str | None, known: Compacted
) -> Generation | None:
    """Observe a piece and keep it as a slice; None where the model failed or the branch moved on."""
    before = (*known.observations, *(o for g in known.slices for o in g.observations))
    answer = await work.ask(
        observer.request(work.model, messages, before, work.names),
        lambda text: observer.observed(text, messages, work.new_id),
        "no observations",
    )
    if answer is None:
        return None
    lines = answer.found
    slice = NewGeneration(
        kind="observations",
        after_message_id=after,
        through_message_id=messages[-1].id,
        observations=lines,
        token_count=estimate(observer.rendered(lines)),
        prompt_version=observer.PROMPT_VERSION,
        model=answer.model,
        at=work.runtime.clock.now(),
    )
    made = await work.add_slice(slice, answer.replies)
    if made is not None:
        count = work.runtime.metrics.count
        count(Metric.OBSERVATIONS_MADE, len(lines), agent=work.meta.agent)
    return made


async def _take_up(work: Work, found: Compacted, path: Sequence[Message]) -> bool:
    """Let slices take effect, if nobody else changed the branch meanwhile."""
    chosen = compaction.ready(path, found.slices, work.limits.tail, work.limits.start)
    if not chosen:
        return False
    numbers = [g.number for g in chosen]
    expected = found.generation.number if found.generation else None
    meta = work.meta
    if not await work.runtime.memory.activate(meta.owner, meta.thread_id, numbers, expected):
        return False
    after = with_slices(found, len(chosen))
    taken = path[: _place(path, chosen)]
    work.spared(taken, observer.rendered(after.observations), observer.rendered(found.observations))
    return True


async def _reflect(work: Work, found: Compacted) -> bool:
    """Condense the observations that take effect, where they have become too many."""
    generation = found.generation
    if generation is None or not reflector.is_due(found, work.limits.block):
        return False
    answer = await work.ask(
        reflector.request(work.model, found.observations),
        lambda text: reflector.reflected(text, found.observations, work.new_id),
        "no reflection",
    )
    if answer is None:
        return False
    # Kept even where nothing was condensed: nobody asks again until new observations take effect.
    made = _reflection(work, generation, answer.found, answer.model)
    return await work.replace(made, generation, answer.replies) is not None


def _reflection(
    work: Work, generation: Generation, kept: tuple[Observation, ...], model: str
) -> NewGeneration:
    return NewGeneration(
        kind="reflection",
        through_message_id=generation.through_message_id,
        observations=kept,
        token_count=estimate(observer.rendered(kept)),
        prompt_version=reflector.PROMPT_VERSION,
        model=model,
        at=work.runtime.clock.now(),
    )


def _end(found: Compacted) -> str | None:
    """Returns the end of the last slice."""
    return found.slices[-1].through_message_id if found.slices else found.through


def _place(path: Sequence[Message], slices: Sequence[Generation]) -> int:
    """Counts the messages of the path that these slices cover."""
    last = slices[-1].through_message_id if slices else None
    return next((i + 1 for i, m in enumerate(path) if m.id == last), 0)
