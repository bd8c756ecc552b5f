"""The handle of a run that is read while it runs."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic

from layover.declare.generics import Output

if TYPE_CHECKING:
    from layover.declare.result import Result
    from layover.values.runs.event import Event


class RunStream(Generic[Output]):
    """A run as its events, until its end or a suspension: `async for event in agent.stream("hi")`.

    `Agent.stream` and the methods that stream a decision make it. The run begins with the first event that
    is asked for. A consumer that leaves early does not end the run: it goes on.

    Args:
        run_id: The run's id, known before the first event. It is the stream's one attribute.
        events: The run's events, in order.
        result: Returns the run as it is after its last event.
        abort: Cancels the run.

    Example:
        ```python
        import asyncio

        from layover import Agent
        from layover.testing import ScriptedModel, say

        greeter = Agent("greeter", instructions="Greet people in one sentence.")


        async def main() -> None:
            with greeter.override(model=ScriptedModel([say("Good morning.")])):
                stream = greeter.stream("Hello!")
                types = [event.type async for event in stream]
                result = await stream.result()
            assert types[0] == "agent-start"
            assert types[-1] == "agent-end"
            assert result.run_id == stream.run_id


        asyncio.run(main())
        ```
    """

    def __init__(
        self,
        run_id: str,
        events: "AsyncGenerator[Event, None]",
        result: "Callable[[], Awaitable[Result[Any]]]",
        abort: Callable[[], None],
    ) -> None:
        self.run_id = run_id
        self._events = events
        self._result = result
        self._abort = abort

    def __aiter__(self) -> "AsyncIterator[Event]":
        return self

    async def __anext__(self) -> "Event":
        return await anext(self._events)

    async def result(self) -> "Result[Output]":
        """Read the remaining events, and return the run as `generate` does.

        Raises:
            DecisionError: If the stream is that of a decision that was refused.
        """
        async for _ in self._events:
            pass
        return await self._result()

    def abort(self) -> None:
        """Cancel this run, and no other. Before the first event: the run ends as cancelled as soon as it
        begins, and a decision is not made. A run that waits after its stream's end waits on."""
        self._abort()

    async def aclose(self) -> None:
        """Read no more. The run goes on."""
        await self._events.aclose()
