"""The journal's answer to a write is lost: the write took effect, and its writer does not know. Nothing that
it told is told again."""

from collections import Counter
from typing import Any

import pytest

from layover import Agent, tool
from layover.declare.context import ToolContext
from layover.errors import RetryableError
from layover.inmemory.model import call, calls, say
from layover.inmemory.table import InMemoryTable
from layover.values.runs.event import Event
from layover.values.runs.run import Status
from support.worlds.runs import Bench, answers, told


class LosesAnswers:
    """A table that loses the answer to a write, or the request itself."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._lost, self._arrives = 0, True
        self.writes = 0

    def lose(self, nth: int, *, arrives: bool) -> None:
        """Lose the n-th write from now on, or only the answer to it if it `arrives`."""
        self.writes, self._lost, self._arrives = 0, nth, arrives

    async def write(self, action: Any) -> Any:
        return await self._once(self._table.write, action)

    async def transact(self, actions: Any, token: str) -> None:
        await self._once(self._table.transact, actions, token)

    async def _once(self, write: Any, *args: Any) -> Any:
        self.writes += 1
        lost = self.writes == self._lost
        result = None if lost and not self._arrives else await write(*args)
        if lost:
            raise RetryableError("no answer")
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


def tells(event: Event) -> str | None:
    """What an event tells, by a name that no other event of a run has; None for what may be told again by
    another attempt."""
    match event.type:
        case "tool-execution-end" | "data":
            return f"{event.type} {event.tool_call_id} {getattr(event, 'data', '')}"
        case "message":
            return f"message {event.message.id}"
        case "turn-end":
            return f"turn-end {event.step}"
        case "agent-end" | "finish":
            return event.type
    return None


async def drive(lost: int, *, arrives: bool) -> int:
    """Drive a run to its end while the n-th write's answer is lost. Return the number of writes."""

    @tool(idempotent=True)
    async def look(n: int, ctx: ToolContext) -> int:
        """Look."""
        ctx.emit({"looked": n})
        return n

    table: Any = LosesAnswers(InMemoryTable())
    script = [
        call("look", n=1, tool_call_id="c1"),
        calls(call("look", n=2, tool_call_id="c2"), call("look", n=3, tool_call_id="c3")),
        call("look", n=4, tool_call_id="c4"),
        say("done"),
    ]
    agent = Agent("helper", model="m", tools=[look], tool_concurrency=2)
    bench = Bench(agent, answers(*script), table=table)
    run_id = await bench.start()
    table.lose(lost, arrives=arrives)
    assert await bench.drive(run_id) == "over"
    run = await bench.run(run_id)
    assert (run.status, told(run.messages)[-1]) == (Status.SUCCESS, ("assistant", "done"))
    events = await bench.events(run_id)
    assert [e.seq for e in events] == [*range(1, len(events) + 1)]
    names = Counter(name for e in events if (name := tells(e)))
    again = {name: n for name, n in names.items() if n > 1 and not name.startswith("data ")}
    assert again == {}
    assert {f"tool-execution-end c{n} " for n in range(1, 5)} <= names.keys()
    return int(table.writes)


@pytest.mark.parametrize("arrives", [True, False])
async def test_answer_that_is_lost_makes_no_event_stand_twice(arrives: bool) -> None:
    writes = await drive(0, arrives=arrives)
    assert writes > 8
    for lost in range(1, writes + 1):
        await drive(lost, arrives=arrives)
