"""The state that tells a writer whether its work on a run has to stop."""

from dataclasses import dataclass, field

from layover.engine.progress import Stopped
from layover.ports import Aborts, RunLog


@dataclass
class Stopping:
    """The state of this writer's work on the run: whether it has to stop, and how many tools run now."""

    log: RunLog | None = None
    aborts: Aborts | None = None
    is_requested: bool = False
    tools: int = 0
    started_keys: set[str] = field(default_factory=set)
    """Keys of the calls that this writer has begun to run."""

    async def check(self) -> None:
        """Raise Stopped if no further model or tool may be called."""
        if self.is_requested:
            raise Stopped
        if self.aborts is None or self.log is None:
            return
        await self.log.flush()
        if await self.aborts.is_aborted(self.log.snapshot.meta.id):
            raise Stopped
