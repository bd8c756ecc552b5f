"""One rolling summary of a branch (docs/behaviour.md#rolling-summary)."""

from layover.context import compaction
from layover.context.tokens import estimate, total_tokens
from layover.plugins.memory.condenses import summary
from layover.plugins.memory.condenses.job import CompactionJob, without_places
from layover.plugins.memory.learns.requests import is_cut
from layover.plugins.memory.reads.blocks import render_summary
from layover.values.memory.compaction import NewGeneration


async def condense(job: CompactionJob, *, waits: bool) -> str:
    """Summarise the messages older than the tail, together with the previous summary, if the branch has
    reached its limit (or a run waits for it). It takes several steps if they exceed what the memory model can
    read. Raises RetryableError."""
    has_changed = False
    while (step := await _step(job, due=waits or has_changed)) == "compacted":
        has_changed = True
    return "compacted" if has_changed else step


async def _step(job: CompactionJob, *, due: bool) -> str:
    current = await job.read_compacted()
    path = await job.path(current.through)
    if not due and total_tokens(path.free) < job.limits.start:
        return "nothing"
    old = path.free[: compaction.count_leaving(path.free, job.limits.tail, job.limits.start)]
    if total_tokens(old) < compaction.MIN_NEW:
        return "nothing"
    old = old[: compaction.count_within(old, job.readable)]
    earlier = job.left_before(current, old)
    taken_ids, through = {m.id for m in earlier}, old[-1].id
    old = [*without_places(earlier), *old]
    request = summary.request(job.model, old, current.summary, job.names)
    answer = await job.ask(request, summary.parse, "no summary")
    if answer is None:
        return "failed"
    if is_cut(answer.replies[-1]):
        # What the limit cut off would be missed from then on.
        answer = await job.improve(answer, summary.shorter(request), summary.parse)
    text = answer.value
    block = render_summary(text)
    generation = NewGeneration(
        kind="summary",
        after_message_id=current.through,
        through_message_id=through,
        summary=text,
        left_out=(
            *(m.id for m in current.left_out if m.id not in taken_ids),
            *path.left_out(current.through, through),
        ),
        token_count=estimate(block),
        prompt_version=summary.PROMPT_VERSION,
        model=answer.model,
        at=job.runtime.clock.now(),
    )
    if await job.replace(generation, current.generation, answer.replies) is None:
        return "nothing"
    job.count_savings(old, block, render_summary(current.summary) if current.summary else "")
    return "compacted"
