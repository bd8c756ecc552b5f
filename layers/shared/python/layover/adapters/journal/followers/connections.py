"""Tickets, connections and subscriptions (`ports.Connections`) in the journal's table.

A ticket's text carries its owner's hash, so that the text suffices to make its key. A connection's key has no
owner: `$disconnect` knows only API Gateway's id, which no caller can choose."""

from contextlib import suppress
from datetime import datetime
from typing import Any

from layover.adapters.journal.leases import TableLeases
from layover.adapters.once import change_once, write_once
from layover.clock import from_rfc3339, rfc3339
from layover.dice import SYSTEM_DICE
from layover.errors import NotFound
from layover.keys import CONNECTION, META, Keys, connection_key, subscription_key, ticket_key
from layover.ports import Dice
from layover.ports.table import (
    Above,
    Action,
    Check,
    ConditionFailed,
    Delete,
    Equals,
    Exists,
    Item,
    Missing,
    Put,
    Table,
    TransactionFailed,
    Update,
    all_of,
)
from layover.values.socket import Claim, Connection, Held, Subscription, Ticket

_TICKET = "TICKET"
_STREAM_TICKET = "STREAM"
"""Tickets of streams are kept apart from those of sockets, so that neither is ever taken for the other."""
_CONNECTIONS = "C#"
"""The prefix of connections in the owner's index."""
_PAGE = 100


class TableConnections:
    """`Connections`: DynamoDB with `DynamoTable`, memory with `InMemoryTable`."""

    def __init__(self, table: Table, dice: Dice = SYSTEM_DICE) -> None:
        self._table = table
        self._dice = dice
        self._leases = TableLeases(table)

    async def put_ticket(self, ticket: Ticket) -> None:
        """See `ports.Connections`."""
        item = {
            "owner": ticket.owner,
            "run_id": ticket.run_id,
            "until": rfc3339(ticket.expires_at),
            "token_until": _time(ticket.token_expires_at),
            "expires": int(ticket.expires_at.timestamp()) + 1,
        }
        kind = _TICKET if ticket.run_id is None else _STREAM_TICKET
        await self._table.write(Put(ticket_key(ticket.text), kind, item))

    async def redeem(self, text: str, now: datetime) -> Ticket | None:
        """See `ports.Connections`. The ticket stays until TTL deletes it: that of a repeated request tells
        whose it was."""
        unused = all_of(Exists("pk"), Above("until", rfc3339(now)), Missing("by"))
        use = Update(ticket_key(text), _TICKET, when=unused)
        item = await change_once(self._table, use, self._dice)
        return None if item is None else _ticket(text, item)

    async def stream_ticket(self, text: str, now: datetime) -> Ticket | None:
        """See `ports.Connections`."""
        item = await self._table.get(ticket_key(text), _STREAM_TICKET)
        ticket = None if item is None else _ticket(text, item)
        return ticket if ticket is not None and ticket.expires_at > now else None

    async def open(self, connection: Connection) -> None:
        """See `ports.Connections`. The sweeper watches a connection whose token expires."""
        until = _time(connection.token_expires_at)
        item = {
            "id": connection.id,
            "owner": connection.owner,
            "token_until": until,
            "ends_at": rfc3339(connection.ends_at),
            "expires": int(connection.ends_at.timestamp()),
            "gsi2pk": Keys(connection.owner).watch(connection.id) if until else None,
            "gsi2sk": until,
            "gsi1pk": Keys(connection.owner).partition,
            "gsi1sk": f"{_CONNECTIONS}{connection.id}",
        }
        await self._table.write(Put(connection_key(connection.id), CONNECTION, item))

    async def get(self, connection_id: str) -> Connection | None:
        """See `ports.Connections`."""
        item = await self._item(connection_id)
        return None if item is None else _connection(item)

    async def of(self, owner: str) -> list[str]:
        """See `ports.Connections`."""
        ids: list[str] = []
        after: str | None = None
        while True:
            page = await self._table.query_index(
                Keys(owner).partition, _CONNECTIONS, limit=_PAGE, forward=True, after=after
            )
            ids += [item["id"] for item in page]
            if len(page) < _PAGE:
                return ids
            after = page[-1]["gsi1sk"]

    async def close(self, connection_id: str) -> None:
        """See `ports.Connections`. The connection itself goes last, once it follows nothing. A repeated close
        finds the rest, including runs that the connection has begun to follow since."""
        while (item := await self._item(connection_id)) is not None:
            for run_id in item.get("runs", ()):
                await self.unsubscribe(Subscription(item["owner"], run_id, connection_id))
            with suppress(ConditionFailed):
                record_only = Delete(
                    connection_key(connection_id), CONNECTION, when=Missing("runs")
                )
                await self._table.write(record_only)
            await self._leases.release(_connection(item).lease)

    async def subscribe(
        self, line: Subscription, token_expires_at: datetime | None, after: int
    ) -> bool:
        """See `ports.Connections`. The run's number of subscriptions is part of every condition of its
        writers: none of them misses a new one."""
        item = {"sent": after, "token_until": _time(token_expires_at)}
        connection = connection_key(line.connection_id)
        # Both ends are written with the line, so that the run's writers know whom to notify, and the
        # connection knows which runs to leave when it closes. A line that a sender has claimed stays
        # unchanged.
        actions: list[Action] = [
            Put(_run(line), _line(line), item, when=Missing("claim")),
            Update(
                _run(line),
                META,
                add={"subscribed": 1},
                include={"sockets": line.connection_id},
                when=Exists("pk"),
            ),
            Update(connection, CONNECTION, include={"runs": line.run_id}, when=Exists("pk")),
        ]
        try:
            await self._table.transact(actions, self._dice.hex(16))
        except TransactionFailed as failure:
            if failure.failed.keys() & {1, 2}:
                raise NotFound("the run or the connection is gone", run_id=line.run_id) from failure
            return False
        return True

    async def unsubscribe(self, line: Subscription) -> None:
        """See `ports.Connections`."""
        # The line first, because without it no sender posts, whatever META still lists.
        await self._table.write(Delete(_run(line), _line(line)))
        await self.forget(line)

    async def forget(self, line: Subscription) -> None:
        """See `ports.Connections`. A line that exists again stays."""
        connection = connection_key(line.connection_id)
        for items in (
            Update(_run(line), META, exclude={"sockets": line.connection_id}, when=Exists("pk")),
            Update(connection, CONNECTION, exclude={"runs": line.run_id}, when=Exists("pk")),
        ):
            is_unfollowed = Check(_run(line), _line(line), Missing("pk"))
            with suppress(TransactionFailed):
                await self._table.transact([is_unfollowed, items], self._dice.hex(16))

    async def claim(self, line: Subscription, now: datetime) -> Claim | Held | None:
        """See `ports.Connections`."""
        # One sender at a time, so that frames keep their order. No clock ends a claim. Whoever finds an old
        # one closes the connection, since it is not known what was sent.
        me = self._dice.hex(8)
        free = all_of(Exists("pk"), Missing("claim"))
        claim = Update(_run(line), _line(line), set={"claimed_at": rfc3339(now)}, when=free)
        try:
            item = await write_once(self._table, claim, {"claim": me})
        except ConditionFailed as failure:
            old = failure.old
            return None if old is None else Held(from_rfc3339(old["claimed_at"]))
        assert item is not None
        return Claim(line, me, item["sent"], _moment(item.get("token_until")))

    async def release(self, claim: Claim, last_seq: int) -> bool:
        """See `ports.Connections`."""
        changes = {"sent": last_seq, "claim": None, "claimed_at": None}
        mine = Equals("claim", claim.id)
        line = claim.subscription
        release = Update(_run(line), _line(line), set=changes, when=mine)
        return await change_once(self._table, release, self._dice) is not None

    async def _item(self, connection_id: str) -> Item | None:
        return await self._table.get(connection_key(connection_id), CONNECTION)


def _ticket(text: str, item: Item) -> Ticket:
    return Ticket(
        text=text,
        owner=item["owner"],
        run_id=item.get("run_id"),
        expires_at=from_rfc3339(item["until"]),
        token_expires_at=_moment(item.get("token_until")),
    )


def _connection(item: Item) -> Connection:
    return Connection(
        id=item["id"],
        owner=item["owner"],
        token_expires_at=_moment(item.get("token_until")),
        ends_at=from_rfc3339(item["ends_at"]),
    )


def _run(line: Subscription) -> str:
    return Keys(line.owner).run(line.run_id)


def _line(line: Subscription) -> str:
    return subscription_key(line.connection_id)


def _time(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment else None


def _moment(text: Any) -> datetime | None:
    return from_rfc3339(text) if text else None
