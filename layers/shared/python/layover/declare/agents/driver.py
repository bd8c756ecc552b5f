"""The protocol between an agent and the engine that runs it in this process."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

from layover.declare.agents.stream import RunStream
from layover.declare.result import AgentState, Input, Result
from layover.values.runs.event import Event


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run in this process, as `Agent.generate` documents them."""

    thread_id: str | None
    resource_id: str | None
    max_iterations: int | None
    groups: Collection[str]
    scopes: Collection[str]


class Driver(Protocol):
    """Runs one agent in this process."""

    async def generate(self, input: Input, options: RunOptions) -> Result:
        """Run until the end or a suspension. A failed run is a Result, not an exception."""
        ...

    def stream(self, input: Input, options: RunOptions) -> RunStream[Any]:
        """Run, and return the events, deltas included."""
        ...

    def stream_resume(self, run_id: str, tool_call_id: str, data: Any) -> RunStream[Any]:
        """Return the events that follow `resume`."""
        ...

    def stream_approve(
        self, run_id: str, tool_call_id: str, args: dict[str, Any] | None, reason: str | None
    ) -> RunStream[Any]:
        """Return the events that follow `approve`."""
        ...

    def stream_deny(self, run_id: str, tool_call_id: str, reason: str | None) -> RunStream[Any]:
        """Return the events that follow `deny`."""
        ...

    async def resume(self, run_id: str, tool_call_id: str, data: Any) -> Result:
        """Settle a programmatic suspension. Raises DecisionError."""
        ...

    async def approve(
        self, run_id: str, tool_call_id: str, args: dict[str, Any] | None, reason: str | None
    ) -> Result:
        """Let a call run. Raises DecisionError."""
        ...

    async def deny(self, run_id: str, tool_call_id: str, reason: str | None) -> Result:
        """Do not let a call run, or do not answer what it asked. Raises DecisionError."""
        ...

    def on(self, event: str, handler: Callable[[Event], Any]) -> None:
        """Call `handler` with each event of this type."""
        ...

    def abort(self) -> None:
        """Cancel the runs under way."""
        ...

    async def wait_for_memory(self) -> None:
        """Wait until memory has learned from the runs that are over."""
        ...

    def state(self) -> AgentState:
        """The newest run, as it is now."""
        ...
