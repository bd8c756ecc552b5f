"""Servers of tools that need an account of the run's user."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Connection, DefinitionError, mcp
from layover.plugins.reach.adapters.grants import TableGrants
from layover.plugins.reach.connections.bring import bring_consent
from layover.plugins.reach.connections.consent import ask_for_consent
from layover.plugins.reach.connections.leaving import disconnect_account
from layover.plugins.reach.mcp.servers import McpServers
from layover.ports.grants import GrantPorts
from layover.testing import call, say
from layover.values.deployment.access import Actor
from support.mcp_servers import Asked, Raw, ScriptedServer, listed, serving, text
from support.oauth import REDIRECT_URL, TOKEN_URL, Endpoints, OAuthServer, Sealed
from support.worlds.runs import ANN, Bench, answers
from unit.plugins.reach.mcp.test_elicitation import StatelessShop, asks, one

GITHUB = Connection(
    "github",
    authorize_url="https://accounts.example.com/authorize",
    token_url=TOKEN_URL,
    client_id="layover",
)


class World(Bench):
    """An agent with a server that lets in only who has a token of the service."""

    def __init__(self, server: ScriptedServer, *script: Any, **options: Any) -> None:
        tools = mcp(server.url, name="hub", connection="github", private=True, **options)
        agent = Agent("clerk", tools=[*tools], connections=[GITHUB])
        super().__init__(agent, answers(*script), tool_servers=McpServers())
        self.server, self.service = server, OAuthServer(self.clock)
        server.moved = self._refuse
        ports = GrantPorts(TableGrants(self.table), Sealed(), Endpoints(self.service), REDIRECT_URL)
        self.plain = replace(self.plain, connections=ports)
        self.runtime = replace(self.runtime, connections=ports)

    def _refuse(self, asked: Asked) -> Any:
        token = asked.headers.get("authorization", "").removeprefix("Bearer ")
        return None if self.service.who(token) else Raw(401)

    async def connect(self) -> None:
        page = await ask_for_consent(self.runtime, ANN, "github")
        back = self.service.consent(page["authorize_url"])
        await bring_consent(self.runtime, Actor(sub=ANN), back["code"], back["state"])

    async def results(self, run_id: str) -> list[Any]:
        run = await self.run(run_id)
        assert run.status == "success", run
        snapshot = await self.plain.journal.runs.snapshot(ANN, run_id)
        assert snapshot is not None
        return [c.result for c in snapshot.calls]

    def offered(self, turn: int) -> list[str]:
        return [spec.name for spec in self.model.turns[turn].tools]


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    scripted = ScriptedServer(
        listed("star", readOnlyHint=True),
        on={"tools/call": lambda asked: text(f"starred {asked.params['name']}")},
    )
    async with serving(scripted) as running:
        yield running


def test_agent_without_the_connection_of_its_server_is_refused() -> None:
    tools = mcp("https://mcp.example.com", connection="github")
    with pytest.raises(DefinitionError, match=r"the server of tools example: .*'github'"):
        Agent("clerk", tools=[*tools])


async def test_run_whose_user_has_connected_gets_the_tools_with_the_users_token(
    server: ScriptedServer,
) -> None:
    world = World(server, call("hub_star"), say("Done."))
    await world.connect()
    run = await world.go()
    assert await world.results(run.id) == ["starred star"]
    assert world.offered(0) == ["hub_star"]


async def test_run_whose_user_has_not_connected_can_ask_for_it_and_then_has_the_tools(
    server: ScriptedServer,
) -> None:
    world = World(server, call("connect_hub"), call("hub_star"), say("Done."))
    run = await world.go()
    [pending] = run.pending
    assert (pending.kind, pending.tool_name) == ("connect", "connect_hub")
    assert server.asked == []
    page = await ask_for_consent(world.runtime, ANN, pending.payload["connection"])
    back = world.service.consent(page["authorize_url"])
    await bring_consent(world.runtime, Actor(sub=ANN), back["code"], back["state"])
    await world.hear(run.id, pending.tool_call_id)
    connected, starred = await world.results(run.id)
    assert connected.startswith("The account is connected.")
    assert starred == "starred star"
    assert world.offered(0) == ["connect_hub"]
    assert world.offered(1) == world.offered(2) == ["connect_hub", "hub_star"]
    assert len(server.requests("tools/list")) == 1


async def test_user_who_does_not_connect_goes_on_without_the_tools(server: ScriptedServer) -> None:
    world = World(server, call("connect_hub"), say("Then without."))
    run = await world.go()
    [pending] = run.pending
    await world.answer(run.id, pending.tool_call_id, "deny")
    [result] = await world.results(run.id)
    assert result["declined"] is True
    assert server.asked == []


async def test_token_that_expired_while_the_run_waited_is_renewed(server: ScriptedServer) -> None:
    server.tools = [listed("star")]
    world = World(server, call("hub_star"), say("Done."))
    await world.connect()
    run = await world.go()
    [pending] = run.pending
    assert pending.kind == "approval"
    world.clock.advance(timedelta(days=31))
    await world.answer(run.id, pending.tool_call_id, "approve")
    assert await world.results(run.id) == ["starred star"]
    assert world.service.renewals == 1


async def test_token_that_the_server_refuses_is_renewed_and_the_call_sent_again(
    server: ScriptedServer,
) -> None:
    server.tools = [listed("star")]
    world = World(server, call("hub_star"), say("Done."))
    await world.connect()
    run = await world.go()
    [pending] = run.pending
    world.service.access.clear()
    await world.answer(run.id, pending.tool_call_id, "approve")
    assert await world.results(run.id) == ["starred star"]
    assert len(server.requests("tools/call")) == 1


async def test_account_that_is_disconnected_while_an_approval_waits_is_asked_for(
    server: ScriptedServer,
) -> None:
    server.tools = [listed("star")]
    world = World(server, call("hub_star"), say("Done."))
    await world.connect()
    run = await world.go()
    [pending] = run.pending
    await disconnect_account(world.runtime, ANN, "github")
    await world.answer(run.id, pending.tool_call_id, "approve")
    [pending] = (await world.run(run.id)).pending
    assert pending.kind == "connect"
    await world.connect()
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["starred star"]


async def test_tools_that_a_server_gives_do_not_change_what_is_deployed(
    server: ScriptedServer,
) -> None:
    server.tools = [listed("star")]
    world = World(server, call("hub_star"), say("Done."))
    await world.connect()
    run = await world.go()
    await world.answer(run.id, run.pending[0].tool_call_id, "approve")
    assert await world.results(run.id) == ["starred star"]
    assert "definition-changed" not in [event.type for event in await world.events(run.id)]


async def test_no_token_is_in_what_a_run_pins(server: ScriptedServer) -> None:
    world = World(server, call("hub_star"), say("Done."))
    await world.connect()
    run = await world.go()
    assert await world.results(run.id)
    stored = repr(world.table._items)
    assert [token for token in world.service.access if f"Bearer {token}" in stored] == []


async def test_answer_to_a_question_of_the_server_is_still_there_after_a_consent() -> None:
    """The account is disconnected while a person answers."""
    shop = StatelessShop(asks(one({"type": "string"})), text("done"))
    async with serving(shop) as server:
        world = World(server, call("hub_find"), say("Done."), elicitation=True)
        await world.connect()
        run = await world.go()
        [pending] = run.pending
        assert pending.kind == "input"
        await disconnect_account(world.runtime, ANN, "github")
        await world.answer(run.id, pending.tool_call_id, "resume", data={"x": "that"})
        [pending] = (await world.run(run.id)).pending
        assert pending.kind == "connect"
        await world.connect()
        await world.hear(run.id, pending.tool_call_id)
        assert await world.results(run.id) == ["done"]
        [response] = server.requests("tools/call")[-1].params["inputResponses"].values()
        assert response == {"action": "accept", "content": {"x": "that"}}
