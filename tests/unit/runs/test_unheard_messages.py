"""A message that comes before a call with an effect begins is read before it (docs/behaviour.md#unheard)."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from layover import Agent, tool
from layover.engine.declines import Advice
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.runs.messages import send
from layover.values.deployment.access import Actor
from layover.values.message import Role, TextPart
from layover.values.prompt import Prompt
from layover.values.runs.run import Status
from support.worlds.runs import ANN, Bench

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_is_done() -> None:
    DONE.clear()


@tool
async def delete(name: str) -> str:
    """Delete."""
    DONE.append(f"delete {name}")
    return "deleted"


@tool(idempotent=True)
async def look(name: str) -> str:
    """Look."""
    DONE.append(f"look {name}")
    return "seen"


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    DONE.append(f"pay {amount}")
    return "paid"


DELETE = call("delete", name="x", tool_call_id="c1")
LOOK = call("look", name="x", tool_call_id="c2")
Reply = Callable[[Prompt], Awaitable[Any]]


class Meddled:
    """A run whose user writes while the model thinks: `at` is the number of the step, from 1."""

    def __init__(self, *replies: Any, at: int = 1, concurrency: int = 3) -> None:
        self.replies = list(replies)
        self.at = at
        self.run_id = ""
        desk = Agent("desk", model="m", tools=[delete])
        tools: list[Any] = [delete, look, pay, desk.as_tool("Deletes.")]
        agent = Agent("shop", model="m", tools=tools, tool_concurrency=concurrency)
        self.answer: Reply = self._scripted
        self.bench = Bench(agent, ScriptedModel(lambda prompt: self.answer(prompt)))

    async def _scripted(self, prompt: Prompt) -> Any:
        self.at -= 1
        if self.at == 0:
            await self.tell("do not do that")
        return self.replies.pop(0)

    async def tell(self, text: str) -> None:
        await send(self.bench.plain, Actor(sub=ANN), self.run_id, [TextPart(text=text)])

    async def go(self, text: str = "delete x") -> str:
        self.run_id = await self.bench.start(text)
        return await self.bench.drive(self.run_id)

    @property
    def last(self) -> list[tuple[str, str]]:
        """Roles and words of the newest prompt, results as the model reads them."""
        return [
            (m.role.value, (m.model_output or "") if m.role is Role.TOOL else m.text)
            for m in self.bench.model.turns[-1].messages
        ]


async def test_a_call_that_was_asked_for_before_the_message_does_not_begin() -> None:
    run = Meddled(DELETE, say("Left alone."))
    assert await run.go() == "over"
    assert DONE == []
    (_, _, (role, result), told) = run.last
    assert role == "tool"
    assert Advice.UNHEARD.value in result
    assert told == ("user", "do not do that")
    assert (await run.bench.run(run.run_id)).text == "Left alone."


async def test_the_same_call_begins_once_its_model_has_read_the_message() -> None:
    run = Meddled(DELETE, call("delete", name="x", tool_call_id="c9"), say("Deleted."))
    assert await run.go() == "over"
    assert DONE == ["delete x"]


async def test_a_call_without_an_effect_runs_and_the_next_step_reads_the_message() -> None:
    run = Meddled(LOOK, say("Seen."), say("Well."))
    assert await run.go() == "over"
    assert DONE == ["look x"]
    assert ("user", "do not do that") in run.last


async def test_of_several_calls_those_without_an_effect_run() -> None:
    run = Meddled(calls(DELETE, LOOK), say("Seen."))
    assert await run.go() == "over"
    assert DONE == ["look x"]
    assert [role for role, _ in run.last] == ["user", "assistant", "tool", "tool", "user"]


async def test_a_later_window_of_the_step_does_not_begin_either() -> None:
    run = Meddled(calls(LOOK, DELETE), say("Seen."), concurrency=1)
    assert await run.go() == "over"
    assert DONE == ["look x"]


async def test_a_message_after_the_first_step_is_read_before_the_second_acts() -> None:
    run = Meddled(LOOK, DELETE, say("Left alone."), at=2)
    assert await run.go() == "over"
    assert DONE == ["look x"]


async def test_a_sub_agent_does_not_begin() -> None:
    run = Meddled(call("desk", input="delete x", tool_call_id="d1"), say("Left alone."))
    assert await run.go() == "over"
    assert DONE == []


async def test_a_call_that_a_person_decided_runs_whatever_was_said() -> None:
    run = Meddled(call("pay", amount=7, tool_call_id="p"), say("Paid."), at=0)
    assert await run.go() == "suspended"
    await run.tell("how is the weather?")
    assert await run.bench.answer(run.run_id, "p", "approve") == "over"
    assert DONE == ["pay 7"]


async def test_without_a_message_a_step_makes_the_requests_that_it_made() -> None:
    run = Meddled(DELETE, say("Deleted."), at=0)
    made = 0
    transact = run.bench.table.transact

    async def counts(*args: Any, **more: Any) -> None:
        nonlocal made
        made += 1
        await transact(*args, **more)

    run.bench.table.transact = counts  # type: ignore[method-assign]
    run.run_id = await run.bench.start("delete x")
    before = made
    assert await run.bench.drive(run.run_id) == "over"
    assert made - before == 3, "the step with its call, the answer, the end"
    assert (await run.bench.run(run.run_id)).status is Status.SUCCESS


@pytest.mark.parametrize("after", [False, True])
async def test_a_process_that_dies_before_the_call_is_settled_does_not_run_it(after: bool) -> None:
    points = 0
    for point in count(1):
        run = Meddled()

        async def reply(prompt: Prompt, run: Meddled = run) -> Any:
            if any(m.text == "do not do that" for m in prompt.messages):
                return say("Left alone.")
            if not (await run.bench.meta(run.run_id)).said:
                await run.tell("do not do that")
            return DELETE

        run.answer = reply
        run.bench.power.cut_at, run.bench.power.after = point, after
        assert await run.go() == "over"
        assert DONE == []
        assert (await run.bench.run(run.run_id)).text == "Left alone."
        if run.bench.power.calls < point:
            break
        points += 1
    assert points > 10
