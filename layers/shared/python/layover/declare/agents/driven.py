"""An agent that runs in this process: `generate`, `stream`, decisions, handlers."""

import asyncio
import logging
import warnings
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any, Generic

from layover.declare.agents.driver import Driver, RunOptions
from layover.declare.agents.stream import RunStream
from layover.declare.generics import Output
from layover.declare.result import AgentState, Input, Result
from layover.declare.schemas import checks
from layover.errors import ConfigurationError
from layover.values.runs.event import event_types

logger = logging.getLogger("layover")

_UNHEARD = (
    "agent %r: handlers of `on` hear only runs of this process (`generate`, `stream`), and no run that "
    "is served: follow those at GET /runs/{id}/events"
)


def _has_loop() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


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
        groups: Collection[str] = (),
        scopes: Collection[str] = (),
    ) -> "Result[Output]":
        """Run in this process, until the end or a suspension. A failed run is a Result, too.

        Memory learns from the run (a title, facts, compaction) after it, without delaying the result: see
        `wait_for_memory`.

        Args:
            input: What the user says: a text, or a list of parts (`TextPart`, `FilePart`, ... or dicts of
                their shapes).
            thread_id: The conversation that the run belongs to, made if there is none of this id; None: the
                run is in no thread. Its tools' contexts then name none, and it has no node memory
                (ConfigurationError).
            resource_id: The user who owns the thread and the run; None: `local`.
            max_iterations: Model calls of this run, at least 1; None: the agent's.
            groups: The groups of the user, as `ctx.groups` has them: on AWS, those of the verified token.
            scopes: The scopes of the user's token (`ctx.scopes`).

        Raises:
            RequestError: If the run cannot begin: the thread belongs to another agent (InvalidRequest), or
                has an active run (ThreadBusy).
            ConfigurationError: If the agent's history is a `NodeMemory`, and there is no `thread_id`.

        Example:
            ```python
            import asyncio

            from layover import Agent
            from layover.testing import ScriptedModel, say

            greeter = Agent("greeter", instructions="Greet people in one sentence.")


            async def main() -> None:
                with greeter.override(model=ScriptedModel([say("Good morning, Ada.")])):
                    result = await greeter.generate("I am Ada.", thread_id="t1", resource_id="ada")
                assert result.status == "success"
                assert result.text == "Good morning, Ada."
                assert result.usage.total_tokens == 15


            asyncio.run(main())
            ```
        """
        options = RunOptions(
            thread_id=thread_id,
            resource_id=resource_id,
            max_iterations=max_iterations,
            groups=groups,
            scopes=scopes,
        )
        return await self._driver.generate(input, options)

    def run_sync(
        self,
        input: Input,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        max_iterations: int | None = None,
        groups: Collection[str] = (),
        scopes: Collection[str] = (),
    ) -> "Result[Output]":
        """Run as `generate` does, in a script without `async`, and return the same Result.

        Each call makes an event loop and closes it. It therefore also waits until memory has learned.

        Args:
            input: What the user says: a text, or a list of parts (`TextPart`, `FilePart`, ... or dicts of
                their shapes).
            thread_id: The conversation that the run belongs to, made if there is none of this id; None: the
                run is in no thread (see `generate`).
            resource_id: The user who owns the thread and the run; None: `local`.
            max_iterations: Model calls of this run, at least 1; None: the agent's.
            groups: The groups of the user, as `ctx.groups` has them.
            scopes: The scopes of the user's token (`ctx.scopes`).

        Returns:
            The run at its end, or as it waits for a person. A failed run is a Result, too.

        Raises:
            ConfigurationError: If an event loop runs in this thread (async code, a notebook): there,
                `await agent.generate(...)`. Also as `generate` raises it.
            RequestError: If the run cannot begin (see `generate`).

        Example:
            ```python
            from layover import Agent
            from layover.testing import ScriptedModel, say

            greeter = Agent("greeter", instructions="Greet people in one sentence.")
            with greeter.override(model=ScriptedModel([say("Good morning, Ada.")])):
                result = greeter.run_sync("I am Ada.")
            assert result.text == "Good morning, Ada."
            ```
        """
        if _has_loop():
            raise ConfigurationError(
                f"agent {self.name!r}: run_sync is for scripts, and an event loop runs in this thread: "
                "use `await agent.generate(...)`"
            )
        return asyncio.run(
            self.generate(
                input,
                thread_id=thread_id,
                resource_id=resource_id,
                max_iterations=max_iterations,
                groups=groups,
                scopes=scopes,
            )
        )

    def stream(
        self,
        input: Input,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        max_iterations: int | None = None,
        groups: Collection[str] = (),
        scopes: Collection[str] = (),
    ) -> "RunStream[Output]":
        """Run in this process, and return the events, deltas included, until the end or a suspension.

        The run begins with the first event that is asked for. The stream has the `run_id`,
        `await stream.result()` and `stream.abort()`.

        Args:
            input: What the user says: a text, or a list of parts (`TextPart`, `FilePart`, ... or dicts of
                their shapes).
            thread_id: The conversation that the run belongs to, made if there is none of this id; None: the
                run is in no thread. Its tools' contexts then name none, and it has no node memory
                (ConfigurationError).
            resource_id: The user who owns the thread and the run; None: `local`.
            max_iterations: Model calls of this run, at least 1; None: the agent's.
            groups: The groups of the user, as `ctx.groups` has them: on AWS, those of the verified token.
            scopes: The scopes of the user's token (`ctx.scopes`).

        Raises:
            RequestError: With the first event, if the run cannot begin (see `generate`).
            ConfigurationError: With the first event, if node memory has no thread (see `generate`).

        Example:
            ```python
            import asyncio

            from layover import Agent
            from layover.testing import ScriptedModel, say

            greeter = Agent("greeter", instructions="Greet people in one sentence.")


            async def main() -> None:
                with greeter.override(model=ScriptedModel([say("Good morning.")])):
                    stream = greeter.stream("Hello!")
                    deltas = [event.text async for event in stream if event.type == "text-delta"]
                    result = await stream.result()
                assert "".join(deltas) == result.text == "Good morning."


            asyncio.run(main())
            ```
        """
        options = RunOptions(
            thread_id=thread_id,
            resource_id=resource_id,
            max_iterations=max_iterations,
            groups=groups,
            scopes=scopes,
        )
        return self._driver.stream(input, options)

    async def resume(self, run_id: str, tool_call_id: str, data: Any) -> "Result[Output]":
        """Go on with a call that suspended itself, and return the run as `generate` does.

        Args:
            run_id: The run that waits (`result.run_id`).
            tool_call_id: Its call that waits (`result.pending[i].tool_call_id`).
            data: What the person answers, as JSON of the tool's type `resume`.

        Raises:
            DecisionError: If the decision is refused; nothing has changed then.
        """
        return await self._driver.resume(run_id, tool_call_id, data)

    async def approve(
        self,
        run_id: str,
        tool_call_id: str,
        args: dict[str, Any] | None = None,
        *,
        reason: str | None = None,
    ) -> "Result[Output]":
        '''Let a call run, with other arguments if given, and return the run as `generate` does.

        A caller that runs the agent in its own process counts as all of an `Approval`'s approvers.

        Args:
            run_id: The run that waits (`result.run_id`).
            tool_call_id: Its call that waits (`result.pending[i].tool_call_id`).
            args: Arguments that the call runs with instead of the model's, all of them; None: the
                model's.
            reason: Why, for the journal; None: no reason.

        Raises:
            DecisionError: If the decision is refused; nothing has changed then.

        Example:
            ```python
            import asyncio

            from layover import Agent, tool
            from layover.testing import ScriptedModel, call, say, tool_results


            @tool(needs_approval=True)
            def refund(order_id: str, euros: int) -> str:
                """Pay money back."""
                return f"paid {euros} euros back for {order_id}"


            shop = Agent("shop", tools=[refund])


            async def main() -> None:
                script = [call("refund", order_id="o1", euros=50), say("You get 40 euros back.")]
                with shop.override(model=ScriptedModel(script)):
                    waiting = await shop.generate("I want my 50 euros back.")
                    assert waiting.status == "suspended"
                    (pending,) = waiting.pending
                    args = {**pending.args, "euros": 40}
                    result = await shop.approve(waiting.run_id, pending.tool_call_id, args)
                assert tool_results(result, "refund") == ["paid 40 euros back for o1"]
                assert result.text == "You get 40 euros back."


            asyncio.run(main())
            ```
        '''
        return await self._driver.approve(run_id, tool_call_id, args, reason)

    async def deny(
        self, run_id: str, tool_call_id: str, reason: str | None = None
    ) -> "Result[Output]":
        """Do not let a call run, or do not answer what it asked by `ctx.suspend`, and return the run as
        `generate` does. The model reads the denial.

        Args:
            run_id: The run that waits (`result.run_id`).
            tool_call_id: Its call that waits (`result.pending[i].tool_call_id`).
            reason: Why, for the journal and the model; None: no reason.

        Raises:
            DecisionError: If the decision is refused; nothing has changed then.
        """
        return await self._driver.deny(run_id, tool_call_id, reason)

    def stream_resume(self, run_id: str, tool_call_id: str, data: Any) -> "RunStream[Output]":
        """Return the events that follow `resume`.

        Args:
            run_id: The run that waits (`result.run_id`).
            tool_call_id: Its call that waits (`result.pending[i].tool_call_id`).
            data: What the person answers, as JSON of the tool's type `resume`.

        Raises:
            DecisionError: With the first event, if the decision is refused; nothing has changed then.
        """
        return self._driver.stream_resume(run_id, tool_call_id, data)

    def stream_approve(
        self,
        run_id: str,
        tool_call_id: str,
        args: dict[str, Any] | None = None,
        *,
        reason: str | None = None,
    ) -> "RunStream[Output]":
        """Return the events that follow `approve`.

        Args:
            run_id: The run that waits (`result.run_id`).
            tool_call_id: Its call that waits (`result.pending[i].tool_call_id`).
            args: Arguments that the call runs with instead of the model's, all of them; None: the
                model's.
            reason: Why, for the journal; None: no reason.

        Raises:
            DecisionError: With the first event, if the decision is refused; nothing has changed then.
        """
        return self._driver.stream_approve(run_id, tool_call_id, args, reason)

    def stream_deny(
        self, run_id: str, tool_call_id: str, reason: str | None = None
    ) -> "RunStream[Output]":
        """Return the events that follow `deny`.

        Args:
            run_id: The run that waits (`result.run_id`).
            tool_call_id: Its call that waits (`result.pending[i].tool_call_id`).
            reason: Why, for the journal and the model; None: no reason.

        Raises:
            DecisionError: With the first event, if the decision is refused; nothing has changed then.
        """
        return self._driver.stream_deny(run_id, tool_call_id, reason)

    def on(self, event: str, handler: "Callable[[Any], Any]") -> None:
        """Call `handler` with each event of this type, of every run that `generate` and `stream` began here.

        Runs of a served agent go on in functions and call no handler; a warning says so.

        Args:
            event: A type of event (`finish`, `tool-execution-end`, ...): docs/reference/http-api.md#events
                lists them.
            handler: A function of the event, plain or async.

        Raises:
            DefinitionError: If there is no such type, or the handler is not a function.
        """
        checks.one_of(f"agent {self.name!r}: the event", event, event_types())
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
