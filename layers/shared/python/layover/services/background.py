"""Work that nobody waits for, where no orchestrator and no function is: tasks of this process."""

import asyncio
import logging

from layover.ports import Runtime
from layover.services.compact import AHEAD, compact
from layover.services.payloads import CompactPayload

logger = logging.getLogger("layover")


class InThisProcess:
    """`ports.Background` for agents that run in this process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tasks: set[asyncio.Task[None]] = set()

    async def observe(self, owner: str, run_id: str, after_id: str | None, through_id: str) -> None:
        """Begin to observe a slice."""
        payload = CompactPayload(
            op=AHEAD, owner=owner, run_id=run_id, after_id=after_id, through_id=through_id
        )
        task = asyncio.create_task(self._observe(payload))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _observe(self, payload: CompactPayload) -> None:
        try:
            await compact(self._runtime, payload)
        except Exception:
            logger.warning("a slice was not observed", extra={"run_id": payload.run_id})
