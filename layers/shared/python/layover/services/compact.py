"""Compact: condense what a thread's branch holds. Wired, retried and observable; no agent setting asks
for compaction to be done yet, so it reports what it sees and changes nothing."""

import logging

from layover.ports import Runtime
from layover.services.payloads import RunPayload

logger = logging.getLogger("layover")


async def compact(runtime: Runtime, payload: RunPayload) -> dict[str, str]:
    """Answers `nothing` or `unavailable` (the agent names a compaction mode)."""
    run = await runtime.journal.run(payload.owner, payload.run_id)
    agent = runtime.agents().get(run.agent) if run else None
    if agent is None or agent.memory.compaction is None:
        return {"status": "nothing"}
    logger.warning("compaction is not available yet", extra={"run_id": payload.run_id})
    return {"status": "unavailable"}
