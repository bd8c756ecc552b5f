"""Tickets, connections and lines: what `ports.Connections` promises."""

import asyncio
import secrets
from datetime import timedelta

import pytest

from layover.adapters.journal.followers.connections import TableConnections
from layover.errors import NotFound
from layover.keys import CONNECTION, META, Keys, connection_key, subscription_key, ticket_key
from layover.ports.table import Item
from layover.values.socket import Claim, Connection, Held, Subscription, Ticket
from support.worlds.journal import JournalBench

LIVES = timedelta(seconds=60)


@pytest.fixture
def connections(world: JournalBench) -> TableConnections:
    return TableConnections(world.table)


def ticket_of(world: JournalBench, **fields: object) -> Ticket:
    text = f"{world.keys.hash}.{secrets.token_urlsafe(32)}"
    expires_at = world.clock.now() + LIVES
    return Ticket.model_validate(
        {"text": text, "owner": world.owner, "expires_at": expires_at, **fields}
    )


async def opened(
    world: JournalBench, connections: TableConnections, **fields: object
) -> Connection:
    made = Connection.model_validate(
        {
            "id": secrets.token_hex(6) + "=",
            "owner": world.owner,
            "ends_at": world.clock.now() + timedelta(hours=2),
            **fields,
        }
    )
    await connections.open(made)
    return made


async def followed(
    world: JournalBench, connections: TableConnections, after: int = 0
) -> Subscription:
    """A running run and an open connection that follows it."""
    connection = await opened(world, connections)
    line = Subscription(world.owner, await world.started(), connection.id)
    assert await connections.subscribe(line, None, after)
    return line


async def meta(world: JournalBench, line: Subscription) -> Item:
    item = await world.table.get(world.keys.run(line.run_id), META)
    assert item is not None
    return item


# Tickets


async def test_a_ticket_is_good_once(world: JournalBench, connections: TableConnections) -> None:
    ticket = ticket_of(world, token_expires_at=world.clock.now() + timedelta(hours=1))
    await connections.put_ticket(ticket)
    assert await connections.redeem(ticket.text, world.clock.now()) == ticket
    assert await connections.redeem(ticket.text, world.clock.now()) is None


@pytest.mark.both_stores
async def test_of_many_who_redeem_a_ticket_one_gets_it(
    world: JournalBench, connections: TableConnections
) -> None:
    ticket = ticket_of(world)
    await connections.put_ticket(ticket)
    now = world.clock.now()
    found = await asyncio.gather(*(connections.redeem(ticket.text, now) for _ in range(8)))
    assert [f for f in found if f is not None] == [ticket]


async def test_an_expired_ticket_is_no_good_though_it_is_still_there(
    world: JournalBench, connections: TableConnections
) -> None:
    ticket = ticket_of(world)
    await connections.put_ticket(ticket)
    assert await connections.redeem(ticket.text, ticket.expires_at) is None
    just_before = ticket.expires_at - timedelta(microseconds=1)
    assert await connections.redeem(ticket.text, just_before) == ticket


async def test_a_ticket_is_kept_under_its_owner_and_only_as_a_hash(
    world: JournalBench, connections: TableConnections
) -> None:
    ticket = ticket_of(world)
    await connections.put_ticket(ticket)
    other = f"{Keys('somebody else').hash}.{ticket.text.partition('.')[2]}"
    assert await connections.redeem(other, world.clock.now()) is None
    secret = ticket.text.partition(".")[2]
    kept = await world.table.get(ticket_key(ticket.text), "TICKET")
    assert kept is not None
    assert kept["pk"].startswith(f"{world.keys.partition}#TICKET#")
    assert secret not in str(kept)


# Connections


async def test_a_connection_is_found_until_it_is_closed(
    world: JournalBench, connections: TableConnections
) -> None:
    until = world.clock.now() + timedelta(minutes=5)
    connection = await opened(world, connections, token_expires_at=until)
    assert await connections.get(connection.id) == connection
    await connections.close(connection.id)
    assert await connections.get(connection.id) is None
    await connections.close(connection.id)


async def test_a_connection_whose_token_expired_is_due_for_the_sweeper(
    world: JournalBench, connections: TableConnections
) -> None:
    until = world.clock.now() + timedelta(minutes=5)
    connection = await opened(world, connections, token_expires_at=until)
    forever = await opened(world, connections)
    before = {w.connection_id for w in await world.journal.watch.due(until - LIVES, 1000)}
    assert connection.id not in before
    due = [w for w in await world.journal.watch.due(until, 1000) if w.connection_id is not None]
    assert [(w.owner, w.run_id) for w in due if w.connection_id == connection.id] == [
        (world.owner, None)
    ]
    assert forever.id not in {w.connection_id for w in due}


async def test_closing_a_connection_ends_all_that_it_follows(
    world: JournalBench, connections: TableConnections
) -> None:
    line = await followed(world, connections)
    second = Subscription(world.owner, await world.started(), line.connection_id)
    assert await connections.subscribe(second, None, 0)
    await connections.close(line.connection_id)
    for each in (line, second):
        assert await connections.claim(each, world.clock.now()) is None
        assert "sockets" not in await meta(world, each)


# Lines


async def test_nothing_follows_a_run_that_is_not_there(
    world: JournalBench, connections: TableConnections, stranger: JournalBench
) -> None:
    connection = await opened(world, connections)
    theirs = await stranger.started()
    for run_id in ("run_none", theirs):
        line = Subscription(world.owner, run_id, connection.id)
        with pytest.raises(NotFound):
            await connections.subscribe(line, None, 0)
        assert await connections.claim(line, world.clock.now()) is None
    assert await world.table.get(world.keys.run(theirs), META) is None


async def test_a_connection_that_is_gone_follows_nothing(
    world: JournalBench, connections: TableConnections
) -> None:
    run_id = await world.started()
    line = Subscription(world.owner, run_id, "gone=")
    with pytest.raises(NotFound):
        await connections.subscribe(line, None, 0)
    assert await world.table.get(world.keys.run(run_id), subscription_key("gone=")) is None
    assert await world.table.get(connection_key("gone="), CONNECTION) is None


async def test_one_at_a_time_may_send(world: JournalBench, connections: TableConnections) -> None:
    line = await followed(world, connections, after=3)
    now = world.clock.now()
    found = await asyncio.gather(*(connections.claim(line, now) for _ in range(8)))
    [claim] = [c for c in found if isinstance(c, Claim)]
    assert claim.sent == 3
    assert [c for c in found if isinstance(c, Held)] == [Held(now)] * 7
    assert await connections.release(claim, 5)
    again = await connections.claim(line, now)
    assert isinstance(again, Claim)
    assert again.sent == 5


async def test_a_claim_that_was_taken_away_releases_nothing(
    world: JournalBench, connections: TableConnections
) -> None:
    line = await followed(world, connections)
    claim = await connections.claim(line, world.clock.now())
    assert isinstance(claim, Claim)
    await connections.unsubscribe(line)
    assert not await connections.release(claim, 1)
    assert await connections.claim(line, world.clock.now()) is None
    assert await connections.subscribe(line, None, 4)
    theirs = await connections.claim(line, world.clock.now())
    assert isinstance(theirs, Claim)
    assert not await connections.release(claim, 1)
    assert await connections.release(theirs, 6)


async def test_a_line_on_which_somebody_sends_is_not_begun_anew(
    world: JournalBench, connections: TableConnections
) -> None:
    line = await followed(world, connections)
    claim = await connections.claim(line, world.clock.now())
    assert isinstance(claim, Claim)
    assert not await connections.subscribe(line, None, 7)
    assert await connections.release(claim, 2)
    assert await connections.subscribe(line, None, 7)
    again = await connections.claim(line, world.clock.now())
    assert isinstance(again, Claim)
    assert again.sent == 7


@pytest.mark.both_stores
async def test_the_run_knows_who_follows_it(
    world: JournalBench, connections: TableConnections
) -> None:
    line = await followed(world, connections)
    other = Subscription(world.owner, line.run_id, (await opened(world, connections)).id)
    assert await connections.subscribe(other, None, 0)
    run = await world.journal.runs.get(world.owner, line.run_id)
    assert run is not None
    assert run.sockets == {line.connection_id, other.connection_id}
    assert run.subscribed == 2
    await connections.unsubscribe(line)
    run = await world.journal.runs.get(world.owner, line.run_id)
    assert run is not None
    assert (run.sockets, run.subscribed) == (frozenset({other.connection_id}), 2)


@pytest.mark.both_stores
async def test_what_is_there_is_not_forgotten(
    world: JournalBench, connections: TableConnections
) -> None:
    line = await followed(world, connections)
    await connections.forget(line)
    assert (await meta(world, line))["sockets"] == {line.connection_id}


async def test_records_that_nobody_took_away_have_their_time_to_live(
    world: JournalBench, connections: TableConnections
) -> None:
    connection = await opened(world, connections)
    item = await world.table.get(connection_key(connection.id), CONNECTION)
    assert item is not None
    assert item["expires"] == int(connection.ends_at.timestamp())


@pytest.mark.both_stores
async def test_a_writer_meets_new_followers_in_its_next_fact_and_writes_it_once(
    world: JournalBench, connections: TableConnections
) -> None:
    run_id = await world.started()
    log = await world.take(run_id)
    connection = await opened(world, connections)
    assert await connections.subscribe(Subscription(world.owner, run_id, connection.id), None, 0)
    await log.end_step(world.step(log), world.data(1))
    other = await opened(world, connections)
    assert await connections.subscribe(Subscription(world.owner, run_id, other.id), None, 0)
    await log.end_step(world.step(log, index=2), world.data(2))
    page = await world.journal.events.page(world.owner, run_id, 0, 10)
    assert [e.seq for e in page.items] == [1, 2]
