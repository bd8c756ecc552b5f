"""An agent that runs in this process: `generate`, `stream`, decisions, handlers."""

import logging
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic

from layover.declare.agents.driver import Driver
from layover.declare.agents.stream import RunStream
from layover.declare.generics import Output
from layover.declare.result import AgentState, Input, Result
from layover.declare.schemas import checks
from layover.values.runs.event import event_types

logger = logging.getLogger("layover")

_UNHEARD = (
    "agent %r: handlers of `on` hear runs of this process alone (`generate`, `stream`), and no run that "
    "is served: follow those at GET /runs/{id}/events"
)


class Driven(Generic[Output]):
    """The methods by which an agent runs in this process."""

    name: str
    _handlers: list[tuple[str, Callable[[Any], Any]]]
    _served = False

    def _new_driver(self) -> Driver:
        raise NotImplementedError

    @cached_property
    def _driver(self) -> Driver:
        driver = self._new_driver()
        for event, handler in self._handlers:
            driver.on(event, handler)
        return driver

    async def generate(
        self,
        input: Input,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        max_iterations: int | None = None,
    ) -> "Result[Output]":
        """Run in this process, until the end or a suspension. A failed run is a Result, too.

        Memory learns from the run (a title, facts, compaction) after it, without delaying the result: see
        `wait_for_memory`. Without `thread_id` it is in no thread: its tools' contexts name none, and it has
        no node memory (ConfigurationError)."""
        return await self._driver.generate(
            input, thread_id=thread_id, resource_id=resource_id, max_iterations=max_iterations
        )

    def stream(
        self,
        input: Input,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        max_iterations: int | None = None,
    ) -> "RunStream[Output]":
        """Run in this process, and return the events, deltas included: `async for event in
        agent.stream("hi")`. The stream has the `run_id`, `await stream.result()` and `stream.abort()`."""
        return self._driver.stream(
            input, thread_id=thread_id, resource_id=resource_id, max_iterations=max_iterations
        )

    async def resume(self, run_id: str, tool_call_id: str, data: Any) -> "Result[Output]":
        """Go on with a call that suspended itself. Raises DecisionError; nothing has changed then."""
        return await self._driver.resume(run_id, tool_call_id, data)

    async def approve(
        self,
        run_id: str,
        tool_call_id: str,
        args: dict[str, Any] | None = None,
        *,
        reason: str | None = None,
    ) -> "Result[Output]":
        """Let a call run, with other arguments if given. A caller that runs the agent in its own process
        counts as all of an `Approval`'s approvers. Raises DecisionError."""
        return await self._driver.approve(run_id, tool_call_id, args, reason)

    async def deny(
        self, run_id: str, tool_call_id: str, reason: str | None = None
    ) -> "Result[Output]":
        """Do not let a call run; the model reads the denial. Raises DecisionError."""
        return await self._driver.deny(run_id, tool_call_id, reason)

    def stream_resume(self, run_id: str, tool_call_id: str, data: Any) -> "RunStream[Output]":
        """Return the events that follow `resume`. A refused decision is raised with the first."""
        return self._driver.stream_resume(run_id, tool_call_id, data)

    def stream_approve(
        self,
        run_id: str,
        tool_call_id: str,
        args: dict[str, Any] | None = None,
        *,
        reason: str | None = None,
    ) -> "RunStream[Output]":
        """Return the events that follow `approve`. A refused decision is raised with the first."""
        return self._driver.stream_approve(run_id, tool_call_id, args, reason)

    def stream_deny(
        self, run_id: str, tool_call_id: str, reason: str | None = None
    ) -> "RunStream[Output]":
        """Return the events that follow `deny`. A refused decision is raised with the first."""
        return self._driver.stream_deny(run_id, tool_call_id, reason)

    def on(self, event: str, handler: "Callable[[Any], Any]") -> None:
        """Call `handler` with each event of this type, of every run that `generate` and `stream` began here.
        Runs of a served agent go on in functions and call no handler; a warning says so."""
        checks.one_of("the event", event, event_types())
        if not callable(handler):
            raise checks.fail("the handler", "a function of the event", handler)
        self._handlers.append((event, handler))
        if "_driver" in self.__dict__:
            self._driver.on(event, handler)
        if self._served:
            logger.warning(_UNHEARD, self.name)

    def mark_served(self) -> None:
        """Warn from here on of handlers: functions run the agent, and call none."""
        if self._handlers and not self._served:
            logger.warning(_UNHEARD, self.name)
        self._served = True

    def abort(self) -> None:
        """Cancel the runs that this agent has under way in this process."""
        self._driver.abort()

    async def wait_for_memory(self) -> None:
        """Wait until memory has learned from the runs of this process that are over: for tests, and for
        a script whose next run has to know of the last one. `asyncio.run` does not return before
        that either; a second Ctrl-C leaves it undone."""
        await self._driver.wait_for_memory()

    async def remembered(self) -> None:
        """Deprecated: the former name of `wait_for_memory`."""
        warnings.warn(
            "Agent.remembered is called wait_for_memory", DeprecationWarning, stacklevel=2
        )
        await self.wait_for_memory()

    def state(self) -> AgentState:
        """The newest run of this process; `idle` and empty before the first."""
        return self._driver.state()
