"""The services that a running tool reaches through its context. They are called from the tool's own thread as
well."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

from layover.declare.connection import ConsentNeeded
from layover.declare.context import Attempt, NodeHistory
from layover.engine.work import RunWork
from layover.errors import ConfigurationError, unknown_name
from layover.ids import derive_id
from layover.values.memory.context import LoggedAttempt
from layover.values.message import FilePart
from layover.values.runs.event import DataEvent
from layover.values.text import sanitise

T = TypeVar("T")


class LoggedServices:
    """`declare.context.ToolServices` over the run's log. It must be made on the event loop."""

    def __init__(self, work: RunWork, tool_call_id: str) -> None:
        self._work = work
        self._tool_call_id = tool_call_id
        self._logged = 0
        self._loop = asyncio.get_running_loop()

    def cancelled(self) -> bool:
        """Return whether the run is to be cancelled."""
        return self._work.invocation.is_stopping

    def emit(self, data: Any) -> None:
        """Add a `data` event. The log belongs to the loop: another thread hands the event over, and
        its result, handed over the same way, comes after it."""
        event = DataEvent(at=self._work.clock.now(), tool_call_id=self._tool_call_id, data=data)
        if _running_loop() is self._loop:
            return self._work.emit(event)
        with suppress(RuntimeError):  # the loop is closed: nobody follows the run any more
            self._loop.call_soon_threadsafe(self._work.emit, event)
        return None

    async def save_file(self, name: str, mime_type: str, data: bytes) -> FilePart:
        """Store a file in the thread."""
        return await self._on_loop(self._work.run_files.save_file(name, mime_type, data))

    async def token(self, connection: str, rejected: str | None) -> str:
        """Return a token. The agent that has the tool has to have the connection."""
        return await self._on_loop(self._token(connection, rejected))

    async def _token(self, name: str, rejected: str | None) -> str:
        work, meta = self._work, self._work.state.meta
        connections = {each.name: each for each in work.agent.connections}
        if name not in connections:
            unknown = unknown_name("connection", name, connections)
            raise ConfigurationError(f"agent {work.agent.name!r}: connections: {unknown}")
        connection, accounts = connections[name], work.runtime.accounts
        token = await accounts.token(connection, meta.owner, rejected)
        if token is None:
            raise ConsentNeeded(await accounts.describe_consent(connection, meta.owner))
        return token

    async def log_attempt(self, attempt: Attempt) -> None:
        """Append to the thread's iteration log. A call that runs again (after a crash, or when it is
        resumed) and says the same at the same place logs it once."""
        meta = self._work.state.meta
        self._logged += 1
        fields = {k: v if v is None else sanitise(str(v)) for k, v in asdict(attempt).items()}
        id = derive_id("att", meta.id, self._tool_call_id, self._logged, *fields.values())
        line = LoggedAttempt(**fields, run_id=meta.id, created_at=self._work.clock.now())
        memory = self._work.runtime.memory
        await self._on_loop(memory.log_attempt(meta.owner, meta.thread_id, line, id))

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Await the work on the loop: stores belong to it as well."""
        if _running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def node_memory(self, node_id: str) -> NodeHistory:
        """Return the history of a node."""
        return self._work.run_files.node(node_id)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
