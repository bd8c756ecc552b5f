"""What a running tool reaches through its context. Called from the tool's own thread as well."""

from typing import Any

from layover.declare.context import Attempt, NodeHistory
from layover.errors import ConfigurationError
from layover.ports import Clock, RunLog
from layover.values.event import DataEvent
from layover.values.message import FilePart


class Hooks:
    """`declare.context.ToolHooks` over the run's log."""

    def __init__(self, log: RunLog, clock: Clock, tool_call_id: str) -> None:
        self._log = log
        self._clock = clock
        self._tool_call_id = tool_call_id
        self.stopping = False

    def cancelled(self) -> bool:
        """Whether the run is to be cancelled."""
        return self.stopping

    def emit(self, data: Any) -> None:
        """Add a `data` event. Appending to a list is atomic, whatever thread does it."""
        now = self._clock.now()
        self._log.emit(DataEvent(at=now, tool_call_id=self._tool_call_id, data=data))

    async def save_file(self, name: str, mime_type: str, data: bytes) -> FilePart:
        """Not built yet: says so instead of losing the file."""
        raise ConfigurationError("files are not available in this release")

    async def log_attempt(self, attempt: Attempt) -> None:
        """Not built yet: says so instead of losing the attempt."""
        raise ConfigurationError("the iteration log is not available in this release")

    def node_memory(self, node_id: str) -> NodeHistory:
        """Not built yet: says so instead of losing messages."""
        raise ConfigurationError("node memory is not available in this release")
