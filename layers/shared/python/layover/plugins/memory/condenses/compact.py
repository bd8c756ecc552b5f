"""Compact: older messages of a branch become observations or a summary. It works after a run, ahead of a
running one, or while a run waits for it. A memory model that fails changes nothing."""

import asyncio
import logging
from datetime import timedelta

from layover import logs
from layover.context.compaction import limits_of
from layover.context.fit import learned_windows
from layover.context.transcript import branch, own_steps
from layover.errors import LayoverError
from layover.plugins.memory.condenses import observe, summarise
from layover.plugins.memory.condenses.job import CompactionJob
from layover.runtime import Runtime
from layover.values.runs.payload import CompactPayload
from layover.values.runs.run import RunSnapshot

TIMEOUT = timedelta(seconds=60)
"""The longest time that a run waits."""
NOW, AHEAD = "compact_now", "observe"
"""Operations while a run waits, and ahead of it; any other is the one after a run."""
logger = logging.getLogger("layover")


async def compact(runtime: Runtime, payload: CompactPayload) -> dict[str, str]:
    """Compact, and return the status: `nothing`, `compacted` or `failed`. Raises RetryableError (the
    database) only if no run waits for the compaction."""
    snapshot = await runtime.journal.runs.snapshot(payload.owner, payload.run_id)
    if snapshot is not None:
        logs.name(thread_id=snapshot.meta.thread_id)
    job = await _job(runtime, snapshot, payload.op) if snapshot is not None else None
    if job is None or await runtime.allowance.stopped():
        return {"status": "nothing"}
    if payload.op == NOW:
        return {"status": await _compact_in_time(job)}
    if payload.op == AHEAD and payload.through_id is not None:
        return {"status": await observe.observe_ahead(job, payload.after_id, payload.through_id)}
    return {"status": await _mode(job)(job, waits=False)}


async def _job(runtime: Runtime, snapshot: RunSnapshot, op: str) -> CompactionJob | None:
    """Return the job; None if the agent compacts nothing."""
    meta = snapshot.meta
    before = meta.compacted_before if op == NOW else meta.compacted_for
    agent = runtime.agents().get(meta.agent)
    head = await runtime.journal.heads.get(meta.owner, meta.thread_id)
    windows = learned_windows(head, snapshot.steps)
    limits = limits_of(runtime, agent, windows) if agent else None
    if agent is None or limits is None:
        return None
    # What is loose may not be stored yet, and no model reads it.
    leaf = [meta.input, *branch(snapshot, ended=False).response][-1].id
    steps = own_steps(snapshot)
    asked_through = steps[-1].asked_through if steps else None
    waited_through = steps[before - 1].asked_through if 0 < before <= len(steps) else None
    return CompactionJob(
        runtime=runtime,
        agent=agent,
        meta=meta,
        limits=limits,
        windows=windows,
        leaf_id=leaf,
        asked_through=asked_through,
        waited_through=waited_through,
        names=agent.memory.role_prefix,
        waiting=head.unfinished(meta.id) if head else (),
    )


async def _compact_in_time(job: CompactionJob) -> str:
    try:
        async with asyncio.timeout(TIMEOUT.total_seconds()):
            return await _mode(job)(job, waits=True)
    except (LayoverError, TimeoutError) as error:
        job.count_failure(type(error).__name__)
        return "failed"


def _mode(job: CompactionJob) -> "observe.Mode":
    return summarise.condense if job.limits.kind == "summary" else observe.condense
