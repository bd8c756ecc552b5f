"""Calls that wait for their user's account at another service, and go on after the consent."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from layover import Agent, Approval, Connection, ToolContext, tool
from layover.errors import ConsentRefused, DecisionInvalid, NotFound
from layover.plugins.reach.adapters.grants import TableGrants
from layover.plugins.reach.connections.bring import bring_consent
from layover.plugins.reach.connections.consent import (
    ask_for_consent,
    begin_consent,
    finish_consent,
    list_connections,
)
from layover.plugins.reach.connections.leaving import disconnect_account
from layover.ports.grants import GrantPorts
from layover.recovery.sweep import sweep
from layover.testing import call, calls, say
from layover.values.deployment.access import Actor
from support.oauth import REDIRECT_URL, REVOKE_URL, TOKEN_URL, Endpoints, OAuthServer, Sealed
from support.worlds.runs import ANN, Bench, Choice, Crash, Offer, answers

SERVER: dict[str, OAuthServer] = {}
"""The service behind the tools of the test that runs."""
RAN: list[str] = []


def github(**options: Any) -> Connection:
    standard: dict[str, Any] = {
        "authorize_url": "https://accounts.example.com/authorize?tenant=1",
        "token_url": TOKEN_URL,
        "revoke_url": REVOKE_URL,
        "client_id": "layover",
        "scopes": ["repo"],
    }
    return Connection("github", **{**standard, **options})


@tool
async def star(repository: str, ctx: ToolContext) -> str:
    """Star a repository."""
    token = await ctx.token("github")
    who = SERVER["it"].who(token)
    if who is None:
        token = await ctx.token("github", rejected=token)
        who = SERVER["it"].who(token)
    RAN.append(repository)
    return f"{who} starred {repository}"


@tool(needs_approval=True)
async def delete(repository: str, ctx: ToolContext) -> str:
    """Delete a repository."""
    await ctx.token("github")
    RAN.append(repository)
    return f"deleted {repository}"


@tool
async def both(ctx: ToolContext) -> str:
    """Do two things at once, and swallow what can be swallowed."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.token("github"))
            group.create_task(ctx.token("github"))
    except Exception:
        return "swallowed"
    return "done"


class World(Bench):
    """A bench with connections."""

    def __init__(self, *script: Any, connection: Connection | None = None, **agent: Any) -> None:
        options: dict[str, Any] = {"tools": [star, delete, both], "tool_concurrency": 40}
        self.connection = connection or github()
        options["connections"] = [self.connection]
        super().__init__(Agent("clerk", **{**options, **agent}), answers(*script))
        self.server = SERVER["it"] = OAuthServer(self.clock)
        self.endpoints, self.sealer = Endpoints(self.server), Sealed()
        RAN.clear()
        self.set_up(self.endpoints)

    def set_up(self, endpoints: Any) -> None:
        ports = GrantPorts(TableGrants(self.table), self.sealer, endpoints, REDIRECT_URL)
        self.plain = replace(self.plain, connections=ports)
        self.runtime = replace(self.runtime, connections=ports)

    async def consents(self, authorize_url: str, owner: str = ANN) -> Any:
        back = self.server.consent(authorize_url)
        return await bring_consent(self.runtime, Actor(sub=owner), back["code"], back["state"])

    async def page(self) -> str:
        """Return the page at which the user consents: what *Connect* asks for."""
        page = await ask_for_consent(self.runtime, ANN, "github")
        return str(page["authorize_url"])

    async def connect(self) -> None:
        await self.consents(await self.page())

    async def results(self, run_id: str) -> list[Any]:
        run = await self.run(run_id)
        assert run.status == "success", run
        snapshot = await self.plain.journal.runs.snapshot(ANN, run_id)
        assert snapshot is not None
        return [c.result for c in snapshot.calls]


async def test_call_without_an_account_waits_and_goes_on_after_the_consent() -> None:
    world = World(call("star", repository="layover"), say("Done."))
    run = await world.go()
    assert run.status == "suspended"
    [pending] = run.pending
    assert pending.kind == "connect"
    assert set(pending.payload) == {"connection", "scopes"}
    assert (pending.payload["connection"], pending.payload["scopes"]) == ("github", ["repo"])
    assert RAN == []
    view = await world.consents(await world.page())
    assert (view.name, view.status, view.granted) == ("github", "connected", ("repo",))
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["octocat starred layover"]
    assert RAN == ["layover"]


@pytest.mark.parametrize("dies", [False, True])
async def test_a_call_that_the_consent_did_not_see_goes_on_with_the_sweepers_next_look(
    dies: bool,
) -> None:
    """The index of waiting calls lags behind the call; or the process dies behind the grant."""
    world = World(call("star", repository="layover"), say("Done."))
    page = await ask_for_consent(world.runtime, ANN, "github")
    run = await world.go()
    [pending] = run.pending
    await world.wait(run.id, pending.tool_call_id)

    async def lags(*args: Any, **kwargs: Any) -> list[Any]:
        if dies:
            raise Crash
        return []

    query_index, world.table.query_index = world.table.query_index, lags  # type: ignore[method-assign]
    with pytest.raises(Crash) if dies else nullcontext():
        await world.consents(page["authorize_url"])
    world.table.query_index = query_index  # type: ignore[method-assign]
    assert world.callbacks.woken == []
    world.clock.advance(timedelta(minutes=1))
    await sweep(world.plain)
    assert world.callbacks.woken == ["token"]
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["octocat starred layover"]


async def test_consent_of_another_user_is_not_found_and_connects_nobody() -> None:
    """Whoever sends the link to somebody else must not get that person's account."""
    world = World(call("star", repository="layover"), say("Done."))
    await world.go()
    with pytest.raises(NotFound) as refused:
        await world.consents(await world.page(), owner="mallory")
    with pytest.raises(NotFound) as unknown:
        await bring_consent(world.runtime, Actor(sub="mallory"), "code", "never-there")
    assert refused.value.message == unknown.value.message
    for owner in (ANN, "mallory"):
        [view] = await list_connections(world.runtime, owner)
        assert view.status == "missing"
    assert world.server.forms == []


async def test_consent_works_once_and_not_when_its_time_is_over() -> None:
    world = World()
    page = await ask_for_consent(world.runtime, ANN, "github")
    back = world.server.consent(page["authorize_url"])
    world.clock.advance(timedelta(hours=1))
    with pytest.raises(NotFound):
        await bring_consent(world.runtime, Actor(sub=ANN), back["code"], back["state"])
    page = await ask_for_consent(world.runtime, ANN, "github")
    back = world.server.consent(page["authorize_url"])
    first = await bring_consent(world.runtime, Actor(sub=ANN), back["code"], back["state"])
    # Its answer may have been lost.
    again = await bring_consent(world.runtime, Actor(sub=ANN), back["code"], back["state"])
    assert again == first
    assert len(world.server.forms) == 1
    await disconnect_account(world.runtime, ANN, "github")
    with pytest.raises(ConsentRefused):
        await bring_consent(world.runtime, Actor(sub=ANN), back["code"], back["state"])
    assert len(world.server.forms) == 1


async def test_consent_that_is_brought_again_lets_the_calls_go_on_that_a_death_left_waiting() -> (
    None
):
    world = World(call("star", repository="layover"), say("Done."))
    run = await world.go()
    [pending] = run.pending
    back = world.server.consent(await world.page())
    connections = {"github": world.connection}
    # The process dies between keeping the grant and waking the call.
    await finish_consent(world.runtime, connections, ANN, back["code"], back["state"])
    await bring_consent(world.runtime, Actor(sub=ANN), back["code"], back["state"])
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["octocat starred layover"]


async def test_code_that_the_service_refuses_connects_nothing_and_the_call_waits_on() -> None:
    world = World(call("star", repository="layover"), say("Done."))
    run = await world.go()
    [pending] = run.pending
    state = world.server.consent(await world.page())["state"]
    with pytest.raises(ConsentRefused, match="invalid_grant"):
        await bring_consent(world.runtime, Actor(sub=ANN), "a guess", state)
    assert (await world.run(run.id)).status == "suspended"
    await world.connect()
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["octocat starred layover"]


async def test_nobody_approves_or_resumes_what_waits_for_a_consent() -> None:
    world = World(call("star", repository="layover"), say("Done."))
    run = await world.go()
    [pending] = run.pending
    for verdict in ("approve", "resume"):
        with pytest.raises(DecisionInvalid, match="connect takes deny"):
            await world.decide(run.id, pending.tool_call_id, verdict)
    await world.hear(run.id, pending.tool_call_id, output={"answer": {"approved": True}})
    assert (await world.run(run.id)).status == "suspended"
    assert RAN == []


async def test_user_who_does_not_want_to_connect_denies_and_the_model_reads_it() -> None:
    world = World(call("star", repository="layover"), say("As you wish."))
    run = await world.go()
    [pending] = run.pending
    await world.answer(run.id, pending.tool_call_id, "deny", reason="not today")
    [result] = await world.results(run.id)
    assert (result["declined"], result["reason"]) == (True, "not today")
    assert RAN == []


async def test_approved_call_is_not_asked_for_again_because_it_waited_for_a_consent() -> None:
    world = World(call("delete", repository="layover"), say("Done."))
    run = await world.go()
    [pending] = run.pending
    assert pending.kind == "approval"
    await world.answer(run.id, pending.tool_call_id, "approve")
    [pending] = (await world.run(run.id)).pending
    assert (pending.kind, pending.attempt) == ("connect", 2)
    await world.connect()
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["deleted layover"]


async def test_approved_call_that_changes_meanwhile_is_asked_for_under_its_old_rule() -> None:
    @tool(needs_approval=Approval(by=["finance"], requester=True, reason_required=True))
    async def pay(ctx: ToolContext, euros: int = 5) -> str:
        """Pay."""
        await ctx.token("github")
        return f"paid {euros}"

    world = World(call("pay"), say("Done."), tools=[pay])
    run = await world.go()
    [pending] = run.pending
    ann = Actor(sub=ANN, groups=frozenset({"finance"}))
    await world.decide(run.id, pending.tool_call_id, "approve", actor=ann, reason="fine")
    await world.hear(run.id, pending.tool_call_id)
    [pending] = (await world.run(run.id)).pending
    assert pending.kind == "connect"

    @tool(name="pay")
    async def dearer(ctx: ToolContext, euros: int = 500) -> str:
        """Pay."""
        await ctx.token("github")
        return f"paid {euros}"

    world.agent.tools = [dearer]
    await world.connect()
    await world.hear(run.id, pending.tool_call_id)
    [pending] = (await world.run(run.id)).pending
    shown = (pending.kind, pending.args, pending.asked_again)
    assert shown == ("approval", {"euros": 500}, "definition")
    assert pending.approval is not None
    assert (pending.approval.by, pending.approval.reason_required) == (("finance",), True)


async def test_call_that_nobody_approved_runs_with_the_arguments_of_today() -> None:
    @tool
    async def pay(ctx: ToolContext, euros: int = 5) -> str:
        """Pay."""
        await ctx.token("github")
        return f"paid {euros}"

    @tool(name="pay")
    async def dearer(ctx: ToolContext, euros: int = 500) -> str:
        """Pay."""
        return f"paid {euros}"

    world = World(call("pay"), say("Done."), tools=[pay])
    run = await world.go()
    [pending] = run.pending
    world.agent.tools = [dearer]
    await world.connect()
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["paid 500"]


async def test_answer_to_a_form_is_still_there_after_a_consent() -> None:
    @tool(suspend=Offer, resume=Choice)
    async def book(ctx: ToolContext) -> str:
        """Book a slot."""
        if ctx.resume is None:
            return ctx.suspend(Offer(slots=["9:00"]))
        await ctx.token("github")
        return f"booked {ctx.resume.slot}"

    world = World(call("book"), say("Done."), tools=[book])
    run = await world.go()
    [pending] = run.pending
    await world.answer(run.id, pending.tool_call_id, "resume", data={"slot": "9:00"})
    [pending] = (await world.run(run.id)).pending
    assert pending.kind == "connect"
    await world.connect()
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["booked 9:00"]


async def test_no_except_swallows_the_wait_also_among_parallel_tasks() -> None:
    world = World(call("both"), say("Done."))
    run = await world.go()
    [pending] = run.pending
    assert pending.kind == "connect"
    await world.connect()
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["done"]


async def test_plain_function_asks_for_a_token_by_a_loop_of_its_own() -> None:
    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        return f"paid as {SERVER['it'].who(asyncio.run(ctx.token('github')))}"

    world = World(call("pay"), say("Done."), tools=[pay])
    run = await world.go()
    [pending] = run.pending
    assert pending.kind == "connect"
    await world.connect()
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["paid as octocat"]


async def test_rule_that_asks_for_an_account_which_is_missing_is_an_error_of_its_call() -> None:
    """Nothing but the tool itself can wait, and the call must not run unasked."""

    async def needs(args: dict[str, Any], ctx: ToolContext) -> bool:
        await ctx.token("github")
        return False

    @tool(needs_approval=needs)
    async def pay(ctx: ToolContext) -> str:
        """Pay."""
        RAN.append("paid")
        return "paid"

    world = World(call("pay"), say("Done."), tools=[pay])
    run = await world.go()
    [result] = await world.results(run.id)
    assert "only the tool's own function makes its call wait" in result
    assert RAN == []


async def test_tool_whose_agent_lacks_the_connection_is_told_so() -> None:
    world = World(call("star", repository="layover"), say("Done."), connections=[])
    run = await world.go()
    [result] = await world.results(run.id)
    assert "ConfigurationError" in result
    assert "agent 'clerk': connections" in result


async def test_one_consent_lets_all_calls_of_all_runs_go_on() -> None:
    world = World(calls(*(call("star", repository=f"r{n}") for n in range(3))), say("Done."))
    first = await world.start(thread="t1")
    await world.drive(first)
    second = await world.start(thread="t2")
    await world.drive(second)
    pending = [*(await world.run(first)).pending, *(await world.run(second)).pending]
    assert [each.kind for each in pending] == ["connect"] * 6
    await world.consents(await world.page())
    for run_id in (first, second):
        assert (await world.meta(run_id)).waiting == frozenset()
        await world.drive(run_id)
        assert len(await world.results(run_id)) == 3
    assert world.server.renewals == 0
    assert len(RAN) == 6


async def test_call_that_begins_to_wait_while_its_user_consents_goes_on() -> None:
    world = World(call("star", repository="layover"), say("Done."))
    run = await world.go()
    [pending] = run.pending
    # The grant is kept, and whoever kept it saw no call that waits: as if this one had come a moment later.
    page = await ask_for_consent(world.runtime, ANN, "github")
    back = world.server.consent(page["authorize_url"])
    await finish_consent(
        world.runtime, {"github": world.connection}, ANN, back["code"], back["state"]
    )
    assert (await world.meta(run.id)).waiting
    await world.wait(run.id, pending.tool_call_id)
    assert not (await world.meta(run.id)).waiting


async def test_month_later_the_token_is_renewed_and_the_call_runs() -> None:
    world = World(call("delete", repository="layover"), say("Done."))
    await world.connect()
    run = await world.go()
    [pending] = run.pending
    world.clock.advance(timedelta(days=31))
    await world.answer(run.id, pending.tool_call_id, "approve")
    assert await world.results(run.id) == ["deleted layover"]
    assert world.server.renewals == 1


async def test_user_who_took_the_consent_back_is_asked_again() -> None:
    world = World(call("star", repository="layover"), say("Done."))
    await world.connect()
    world.server.end()
    world.clock.advance(timedelta(hours=2))
    run = await world.go()
    [pending] = run.pending
    assert pending.kind == "connect"
    [view] = await list_connections(world.runtime, ANN)
    assert view.status == "expired"
    await world.consents(await world.page())
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["octocat starred layover"]


async def test_scope_that_is_added_later_asks_again_and_keeps_the_old_ones() -> None:
    world = World(call("star", repository="layover"), say("Done."))
    await world.connect()
    world.agent.connections = (github(scopes=["user"]),)
    [view] = await list_connections(world.runtime, ANN)
    assert view.status == "more"
    run = await world.go()
    [pending] = run.pending
    assert pending.payload["scopes"] == ["user", "repo"]
    await world.consents(await world.page())
    await world.hear(run.id, pending.tool_call_id)
    assert await world.results(run.id) == ["octocat starred layover"]


async def test_account_that_is_disconnected_is_revoked_and_asked_for_again() -> None:
    world = World(call("star", repository="layover"), say("Done."))
    await world.connect()
    view = await disconnect_account(world.runtime, ANN, "github")
    assert view.status == "missing"
    assert world.server.revoked == ["refresh-3"]
    with pytest.raises(NotFound):
        await disconnect_account(world.runtime, ANN, "github")
    assert [p.kind for p in (await world.go()).pending] == ["connect"]


async def test_service_that_cannot_be_told_keeps_nobody_connected() -> None:
    world = World()
    await world.connect()
    world.endpoints.down = True
    await disconnect_account(world.runtime, ANN, "github")
    [view] = await list_connections(world.runtime, ANN)
    assert view.status == "missing"


async def test_no_token_is_in_a_record_an_event_or_a_message() -> None:
    world = World(call("star", repository="layover"), say("Done."))
    await world.connect()
    run = await world.go()
    world.clock.advance(timedelta(hours=2))
    await world.go("again", thread="t1")
    secrets = [*world.server.access, *world.server.refresh]
    assert len(secrets) >= 4
    stored = repr(world.table._items) + repr(await world.events(run.id))
    assert [each for each in secrets if each in stored.replace("refreshed", "")] == []


async def test_service_that_is_down_is_a_tool_error_and_the_next_call_works() -> None:
    world = World(call("star", repository="a"), call("star", repository="b"), say("Done."))
    await world.connect()
    world.clock.advance(timedelta(hours=2))
    world.server.odd = [(503, {})]
    run = await world.go()
    first, second = await world.results(run.id)
    assert first.startswith("RetryableError: accounts.example.com")
    assert second == "octocat starred b"


async def test_registration_that_the_service_refuses_names_who_must_act() -> None:
    world = World(call("star", repository="a"), say("Done."))
    await world.connect()
    world.clock.advance(timedelta(hours=2))
    world.server.odd = [(401, {"error": "invalid_client"})]
    run = await world.go()
    [result] = await world.results(run.id)
    assert "the deployer has to look at client_id" in result
    [view] = await list_connections(world.runtime, ANN)
    assert view.status == "connected"


async def test_token_that_the_api_refuses_is_renewed_before_its_time() -> None:
    world = World(call("star", repository="a"), say("Done."))
    await world.connect()
    world.server.access.clear()
    run = await world.go()
    assert await world.results(run.id) == ["octocat starred a"]
    assert world.server.renewals == 1


async def test_call_waits_for_its_own_service_though_another_of_its_name_is_connected() -> None:
    elsewhere = github(token_url="https://other.example/token")
    world = World(call("star", repository="layover"), say("Done."), connection=elsewhere)
    page = await begin_consent(world.runtime, github(), ANN)
    back = world.server.consent(page["authorize_url"])
    await finish_consent(world.runtime, {"github": github()}, ANN, back["code"], back["state"])
    [view] = await list_connections(world.runtime, ANN)
    assert view.status == "missing"
    run = await world.go()
    [pending] = run.pending
    await world.wait(run.id, pending.tool_call_id)
    world.clock.advance(timedelta(minutes=1))
    await sweep(world.plain)
    assert world.callbacks.woken == []
    assert RAN == []


async def test_call_that_waits_tells_nobody_an_address_or_a_state() -> None:
    """Whoever has it links an account of their own to its user: the bus and readers see payloads."""
    world = World(call("star", repository="layover"), say("Done."))
    run = await world.go()
    [pending] = run.pending
    assert pending.payload == {"connection": "github", "scopes": ["repo"]}
    await world.wait(run.id, pending.tool_call_id)
    state = parse_qs(urlsplit(await world.page()).query)["state"][0]
    events = await world.plain.journal.events.page(ANN, run.id, 0, 100)
    for told in (events.model_dump_json(), repr(world.published)):
        assert "accounts.example.com" not in told
        assert state not in told
