"""Tickets, connections and requests of clients, behind API Gateway's WebSocket events."""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.sockets.routes import answer
from layover.adapters.journal.followers.connections import TableConnections
from layover.errors import NotFound, RetryableError
from layover.inmemory.table import InMemoryTable
from layover.ports.table import Action
from layover.runs.accept import StartRun, start_run
from layover.sockets import subscriptions as sockets
from layover.sockets.delivery import STALE
from layover.threads import threads as thread_service
from layover.values.deployment.access import Actor
from layover.values.lease import MAX_SOCKETS
from layover.values.socket import MAX_FOLLOWERS, Claim
from support.inmemory.sockets import InMemorySockets
from support.worlds.services import ANN, BOB
from support.worlds.sockets import SocketBench


@pytest.fixture
def world() -> SocketBench:
    return SocketBench()


async def happens(
    world: SocketBench, route: str, body: Any = None, connection_id: str = "c1", **more: Any
) -> int:
    """One of API Gateway's events; the status that it gets."""
    text = body if isinstance(body, str) else json.dumps(body)
    context = {"routeKey": route, "connectionId": connection_id, "requestId": "req-1"}
    event = {"requestContext": context, "body": text, "isBase64Encoded": False, **more}
    return await answer(world.runtime, event)


async def connects(world: SocketBench, ticket: str | None, connection_id: str = "c1") -> int:
    query = None if ticket is None else {"ticket": ticket}
    return await happens(
        world, "$connect", connection_id=connection_id, queryStringParameters=query
    )


# Tickets


@pytest.mark.parametrize("ticket", [None, "", "x", "a" * 32 + "." + "b" * 43, "ä" * 76, "." * 9999])
async def test_connect_without_a_good_ticket_is_refused(
    world: SocketBench, ticket: str | None
) -> None:
    assert await connects(world, ticket) == 401
    assert await world.ports.connections.get("c1") is None


async def test_a_user_has_so_many_connections_and_another_has_their_own(
    world: SocketBench,
) -> None:
    for n in range(MAX_SOCKETS):
        ticket = await sockets.make_ticket(world.runtime, ANN, None)
        assert await connects(world, ticket.ticket, f"c{n}") == 200
    one_more = await sockets.make_ticket(world.runtime, ANN, None)
    assert await connects(world, one_more.ticket, "more") == 429
    assert await world.ports.connections.get("more") is None
    bobs = await sockets.make_ticket(world.runtime, BOB, None)
    assert await connects(world, bobs.ticket, "bobs") == 200
    await sockets.disconnect(world.runtime, "c0")
    again = await sockets.make_ticket(world.runtime, ANN, None)
    assert await connects(world, again.ticket, "again") == 200


async def test_a_ticket_lives_for_a_minute(world: SocketBench) -> None:
    tickets = [await sockets.make_ticket(world.runtime, ANN, None) for _ in range(2)]
    assert {t.expires_at for t in tickets} == {world.clock.now() + timedelta(seconds=60)}
    world.clock.advance(timedelta(seconds=59.9))
    assert await connects(world, tickets[0].ticket) == 200
    world.clock.advance(timedelta(seconds=0.1))
    assert await connects(world, tickets[1].ticket, "c2") == 401


async def test_a_ticket_outlives_its_token_by_nothing(world: SocketBench) -> None:
    soon = world.clock.now() + timedelta(seconds=5)
    ticket = await sockets.make_ticket(world.runtime, ANN, soon)
    world.clock.advance(timedelta(seconds=5))
    assert await connects(world, ticket.ticket) == 401


async def test_the_ticket_is_in_the_url_and_may_be_appended_once_more(world: SocketBench) -> None:
    ticket = await sockets.make_ticket(world.runtime, ANN, None)
    assert ticket.url == f"ws://localhost?ticket={ticket.ticket}"
    assert await connects(world, f"{ticket.ticket}?ticket={ticket.ticket}") == 200


async def test_the_connection_belongs_to_the_tickets_owner_until_the_token_expires(
    world: SocketBench,
) -> None:
    until = world.clock.now() + timedelta(hours=1)
    ticket = await sockets.make_ticket(world.runtime, BOB, until)
    assert await connects(world, ticket.ticket) == 200
    connection = await world.ports.connections.get("c1")
    assert connection is not None
    assert (connection.owner, connection.token_expires_at) == (BOB, until)


async def test_where_nothing_serves_sockets_there_are_no_tickets(world: SocketBench) -> None:
    with pytest.raises(NotFound):
        await sockets.make_ticket(replace(world.runtime, sockets=None), ANN, None)


# Requests


async def test_somebody_elses_run_is_not_found(world: SocketBench) -> None:
    await world.connect()
    theirs = await thread_service.create(world.runtime, BOB, "support", None, {})
    run = await start_run(world.runtime, Actor(sub=BOB), theirs.id, StartRun("hello"))
    await happens(world, "$default", {"action": "subscribe", "run_id": run.id})
    [told] = world.sent()
    assert told["error"]["status"] == 404
    assert told["error"]["run_id"] == run.id
    meta = await world.journal.runs.get(BOB, run.id)
    assert meta is not None
    assert meta.sockets == frozenset()


async def test_a_run_of_a_deleted_thread_is_not_found(world: SocketBench) -> None:
    await world.connect()
    thread = await world.thread()
    run = await world.run(thread.id)
    await world.journal.erasure.mark_deleted(ANN, thread.id)
    await happens(world, "$default", {"action": "subscribe", "run_id": run.id})
    assert world.sent()[0]["error"]["status"] == 404


async def test_a_connection_that_nobody_knows_is_closed(world: SocketBench) -> None:
    assert await happens(world, "$default", {"action": "ping"}) == 200
    assert world.sockets.open == {"c2"}
    assert world.sent() == []


async def test_a_connection_whose_token_expired_is_closed_by_its_next_word(
    world: SocketBench,
) -> None:
    await world.connect(token_lives=60)
    run = await world.run((await world.thread()).id)
    world.clock.advance(timedelta(seconds=60))
    await happens(world, "$default", {"action": "subscribe", "run_id": run.id})
    assert world.sockets.open == {"c2"}
    assert world.sent() == []
    assert await world.ports.connections.get("c1") is None


async def test_a_run_has_a_limit_of_followers(world: SocketBench) -> None:
    run = await world.run((await world.thread()).id)
    for number in range(MAX_FOLLOWERS):
        await world.connect(f"many{number}")
        await world.subscribe(run.id, f"many{number}")
    await world.connect()
    await happens(world, "$default", {"action": "subscribe", "run_id": run.id})
    assert world.sent()[0]["error"]["status"] == 429
    # A connection that follows already may begin anew.
    world.sockets.open.add("many0")
    await happens(
        world, "$default", {"action": "subscribe", "run_id": run.id}, connection_id="many0"
    )
    assert world.sent("many0") == []


async def test_a_failure_that_nobody_foresaw_is_told_without_a_word_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Breaks(InMemoryTable):
        async def transact(self, actions: Sequence[Action], token: str) -> None:
            if any(a.sk.startswith("SUB#") for a in actions):
                raise ZeroDivisionError("a secret")
            await super().transact(actions, token)

    world = SocketBench(Breaks())
    await world.connect()
    run = await world.run((await world.thread()).id)
    assert await happens(world, "$default", {"action": "subscribe", "run_id": run.id}) == 200
    [told] = world.sent()
    assert told["error"]["status"] == 500
    assert told["error"]["request_id"] == "req-1"
    assert "secret" not in json.dumps(told)
    assert "secret" not in caplog.text


async def test_an_answer_that_cannot_be_sent_ends_the_connection(world: SocketBench) -> None:
    await world.connect()
    world.sockets.open.discard("c1")
    assert await happens(world, "$default", "no json") == 200
    assert await world.ports.connections.get("c1") is None


async def test_subscribing_again_begins_after_the_given_seq(world: SocketBench) -> None:
    await world.connect()
    log = await world.running()
    run_id = log.snapshot.meta.id
    await world.tell(log, 1, 2, 3)
    await world.ask(action="subscribe", run_id=run_id)
    await world.ask(action="subscribe", run_id=run_id, after=1)
    assert world.seqs() == [1, 2, 3, 2, 3]


async def test_a_line_that_a_dead_process_holds_is_closed_rather_than_begun_anew(
    world: SocketBench,
) -> None:
    await world.connect()
    run = await world.run((await world.thread()).id)
    line = await world.subscribe(run.id)
    assert isinstance(await world.ports.connections.claim(line, world.clock.now()), Claim)
    world.clock.advance(STALE * 2)
    await happens(world, "$default", {"action": "subscribe", "run_id": run.id})
    assert world.sockets.open == {"c2"}
    assert await world.ports.connections.get("c1") is None


async def test_what_takes_too_long_is_left_to_another_invocation() -> None:
    class Full(InMemorySockets):
        async def post(self, connection_id: str, frame: str) -> None:
            self.busy = 1
            await super().post(connection_id, frame)

    world = SocketBench(sockets=Full("c1"))
    await world.connect()
    log = await world.running()
    await world.tell(log, 1)
    line = await world.subscribe(log.snapshot.meta.id)
    await sockets.push(world.runtime, line, seconds=0.05)
    assert world.left == [line]
    assert isinstance(await world.ports.connections.claim(line, world.clock.now()), Claim)


async def test_what_failed_in_passing_is_tried_again_after_a_pause() -> None:
    """By another invocation: without the pause they would follow each other as fast as they fail."""
    world = SocketBench()
    await world.connect()
    log = await world.running()
    line = await world.subscribe(log.snapshot.meta.id)
    done: list[object] = []

    async def pause(seconds: float) -> None:
        done.extend([seconds, *world.left])

    class Away(InMemoryTable):
        async def write(self, action: Any) -> Any:
            raise RetryableError("the table is busy")

    ports = replace(world.ports, connections=TableConnections(Away()))
    away = replace(world.runtime, sockets=ports)
    await sockets.push(away, line, pause=pause)
    assert (done, world.left) == ([sockets.RECOVERY_S], [line])


async def test_disconnect_forgets_everything(world: SocketBench) -> None:
    await world.connect()
    run = await world.run((await world.thread()).id)
    line = await world.subscribe(run.id)
    assert await happens(world, "$disconnect") == 200
    assert await world.ports.connections.claim(line, world.clock.now()) is None
    assert await happens(world, "$disconnect") == 200


async def test_binary_messages_are_understood(world: SocketBench) -> None:
    await world.connect()
    body = base64.b64encode(b'{"action": "ping"}').decode()
    await happens(world, "$default", body, isBase64Encoded=True)
    assert world.sent() == [{"action": "pong"}]
