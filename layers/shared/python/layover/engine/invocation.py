"""`Invocation`: one process's work on a run, as all frames of the run share it."""

from dataclasses import dataclass, field

from layover.declare.tools.tool import AnyTool
from layover.engine.progress import Stopped
from layover.engine.time_left import TimeLeft
from layover.ports import RunLog
from layover.runtime import Runtime


@dataclass
class Invocation:
    """The ports, the log and the time of one process that works on a run, and whether it has to stop."""

    runtime: Runtime
    log: RunLog
    time: TimeLeft = field(default_factory=TimeLeft)
    holds_thread: bool = True
    """False while another run has the thread: calls are settled, and the run's own model is not asked."""
    is_stopping: bool = False
    """True once the run has to stop, at every depth."""
    running: dict[str, AnyTool] = field(default_factory=dict)
    """The tools of the calls that run now, at every depth, by the calls' keys."""
    started_keys: set[str] = field(default_factory=set)
    """Keys of the calls that this process has begun to run: all others have not run."""

    async def check(self) -> None:
        """Raise Stopped if no further model or tool may be called."""
        if self.is_stopping:
            raise Stopped
        if self.runtime.aborts is None:
            return
        await self.log.flush()
        if await self.runtime.aborts.is_aborted(self.log.snapshot.meta.id):
            raise Stopped
