"""One rolling summary of a branch (docs/behaviour.md#rolling-summary)."""

from layover.context import compaction
from layover.context.tokens import estimate
from layover.memory.compaction import summary
from layover.memory.compaction.job import Work
from layover.values.memory.compaction import NewGeneration


async def condense(work: Work, *, waits: bool) -> str:
    """Summarise what is older than the tail, together with the summary before, where the branch has
    reached its limit (or a run waits for it): in several steps where it is more than the memory model can
    read. Raises RetryableError."""
    changed = False
    while (step := await _step(work, due=waits or changed)) == "compacted":
        changed = True
    return "compacted" if changed else step


async def _step(work: Work, *, due: bool) -> str:
    current = await work.read_compacted()
    path = await work.messages(current.through)
    if not due and compaction.total(path) < work.limits.start:
        return "nothing"
    old = path[: compaction.leaving(path, work.limits.tail, work.limits.start)]
    if compaction.total(old) < compaction.MIN_NEW:
        return "nothing"
    old = old[: compaction.within(old, work.readable)]
    request = summary.request(work.model, old, current.summary, work.names)
    answer = await work.ask(request, summary.parse, "no summary")
    if answer is None:
        return "failed"
    text = answer.value
    block = summary.render(text)
    generation = NewGeneration(
        kind="summary",
        after_message_id=current.through,
        through_message_id=old[-1].id,
        summary=text,
        token_count=estimate(block),
        prompt_version=summary.PROMPT_VERSION,
        model=answer.model,
        at=work.runtime.clock.now(),
    )
    if await work.replace(generation, current.generation, answer.replies) is None:
        return "nothing"
    work.count_savings(old, block, summary.render(current.summary) if current.summary else "")
    return "compacted"
