"""The process dies at any port call of a run with the tools of a server. The server gets each call that
changes something at most once, and the run keeps to the list that it began with."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from layover import Agent, mcp
from layover.ports.tool_servers import (
    Answers,
    Endpoint,
    OnEvent,
    ServerAnswer,
    ServerAsks,
    TextContent,
)
from layover.testing import ScriptedModel, call, calls, say
from layover.values.prompt import Prompt
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.examples import choose_deaths
from support.mcp_servers import listed
from support.worlds.runs import Bench, Power, told

INTERRUPTED = "may or may not have taken effect"
ORDER = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
TOOLS = (
    listed("find", ORDER, readOnlyHint=True),
    listed("ship", ORDER, idempotentHint=True),
    listed("note", ORDER),
    listed("pay", ORDER),
    listed("book", ORDER),
    listed("rebook", ORDER, idempotentHint=True),
)


def question(message: str) -> dict[str, Any]:
    """What a server asks its user."""
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    return {"mode": "form", "message": message, "requestedSchema": schema}


class ShopServer:
    """A server whose list changes with every look, and the orders that it got. `power`: of the process that
    asks it."""

    def __init__(self, power: Power) -> None:
        self.power = power
        self.lists = 0
        self.done: list[tuple[str, str]] = []

    async def list_tools(self, endpoint: Endpoint) -> list[dict[str, Any]]:
        self.power.point()
        self.lists += 1
        return [{**each, "description": f"as of look {self.lists}"} for each in TOOLS]

    async def call(
        self,
        endpoint: Endpoint,
        tool: str,
        args: Mapping[str, Any],
        on_event: OnEvent,
        answers: Answers | None = None,
    ) -> ServerAnswer | ServerAsks:
        self.power.point()
        if tool in ("book", "rebook") and (answers is None or answers.state != "asked twice"):
            # It acts when it has been answered twice.
            state = "asked once" if answers is None else "asked twice"
            return ServerAsks({"q": question(state)}, state)
        self.done.append((tool, str(args["id"])))
        self.power.point()
        return ServerAnswer((TextContent(f"{tool} of {args['id']}"),))


SCRIPT = (
    calls(call("shop_find", id="1"), call("shop_note", id="2")),
    calls(
        call("shop_pay", id="3", tool_call_id="pay_1"),
        call("shop_ship", id="4", tool_call_id="ship_1"),
    ),
    say("all is done"),
)


async def tell(power: Power) -> tuple[ShopServer, Bench, Run]:
    """A run that looks, writes, asks a person about two calls, and is done."""
    server = ShopServer(power)
    shop = mcp("https://shop.example.com", name="shop", approve=lambda t: t.name in ("pay", "ship"))
    clerk = Agent("clerk", tools=[*shop], tool_concurrency=2)

    def reply(prompt: Prompt) -> Any:
        return SCRIPT[sum(m.role == "assistant" for m in prompt.messages)]

    bench = Bench(clerk, ScriptedModel(reply), power=power, tool_servers=server)
    run_id = await bench.start()
    assert await bench.drive(run_id) == "suspended"
    await bench.answer(run_id, "pay_1", "approve")
    await bench.answer(run_id, "ship_1", "approve")
    return server, bench, await bench.run(run_id)


def check(where: str, server: ShopServer, bench: Bench, run: Run) -> None:
    assert (run.status, run.text) == (Status.SUCCESS, "all is done"), where
    doubts = sum(INTERRUPTED in str(said) for role, said in told(run.messages) if role == "tool")
    times = Counter(server.done)
    assert max(times[("note", "2")], times[("pay", "3")]) <= 1, where
    assert times[("note", "2")] + times[("pay", "3")] >= 2 - doubts, where
    assert times[("find", "1")] >= 1, where
    assert times[("ship", "4")] >= 1, where
    # Steps that were journaled read one list. One that was asked for and lost may have read an earlier.
    read = [tuple(spec.description for spec in prompt.tools) for prompt in bench.model.prompts[1:]]
    assert len(set(read[-2:])) == 1, where


async def test_without_a_death_the_server_is_asked_once_and_gets_each_call_once() -> None:
    server, bench, run = await tell(Power())
    check("calm", server, bench, run)
    assert server.lists == 1
    assert Counter(server.done) == Counter(
        [("find", "1"), ("note", "2"), ("pay", "3"), ("ship", "4")]
    )


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_death_at_any_port_call_pays_nothing_twice(after: bool) -> None:
    k = 0
    for k in choose_deaths(after):
        power = Power(k, after=after)
        server, bench, run = await asyncio.wait_for(tell(power), 60)
        if not power.cuts:
            break
        check(f"death {k}", server, bench, run)
    assert k > 20


async def tell_of_a_booking(power: Power, tool: str) -> tuple[ShopServer, Bench, Run]:
    """A run whose server asks its user twice in the middle of a call of the tool."""
    server = ShopServer(power)
    shop = mcp(
        "https://shop.example.com", name="shop", approve=lambda tool: False, elicitation=True
    )
    script = (call(f"shop_{tool}", id="5", tool_call_id="book_1"), say("all is done"))

    def reply(prompt: Prompt) -> Any:
        return script[sum(m.role == "assistant" for m in prompt.messages)]

    bench = Bench(
        Agent("clerk", tools=[*shop]), ScriptedModel(reply), power=power, tool_servers=server
    )
    run_id = await bench.start()
    status = await bench.drive(run_id)
    while status == "suspended":
        status = await bench.answer(run_id, "book_1", "resume", data={"ok": True})
    return server, bench, await bench.run(run_id)


@pytest.mark.parametrize("tool", ["book", "rebook"])
async def test_death_at_any_port_call_while_a_server_asks_acts_once_unless_it_may_be_repeated(
    tool: str,
) -> None:
    for after in (False, True):
        k = 0
        for k in choose_deaths(after):
            power = Power(k, after=after)
            server, _, run = await asyncio.wait_for(tell_of_a_booking(power, tool), 60)
            where = f"death {k}, {after}"
            assert (run.status, run.text) == (Status.SUCCESS, "all is done"), where
            doubts = sum(INTERRUPTED in str(s) for role, s in told(run.messages) if role == "tool")
            booked = Counter(server.done)[(tool, "5")]
            if tool == "rebook":
                assert (booked >= 1, doubts) == (True, 0), where
            else:
                assert booked <= 1, where
                assert booked == 1 or doubts == 1, where
            if not power.cuts:
                assert (booked, doubts) == (1, 0)
                break
        assert k > 15
