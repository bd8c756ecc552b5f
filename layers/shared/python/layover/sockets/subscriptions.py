"""Sockets: tickets, connections, and the runs that a connection follows (docs/behaviour.md#sockets)."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, Strict, TypeAdapter

from layover.clock import loop_time
from layover.errors import LimitReached, NotFound, RetryableError
from layover.keys import Keys
from layover.ports import SocketPorts
from layover.ports.sockets import SocketGone, SocketUnsure
from layover.records.runs import MAX_SEQ, meta_of
from layover.runtime import Runtime
from layover.sockets.delivery import SocketDelivery
from layover.values.lease import MAX_SOCKETS
from layover.values.runs.run import RunMeta
from layover.values.socket import (
    MAX_FOLLOWERS,
    Connection,
    SocketTicket,
    Subscription,
    Ticket,
)

TICKET_LIVES = timedelta(seconds=60)
STREAM_TICKET_LIVES = timedelta(hours=1)
"""The life of a stream's ticket: an `EventSource` reconnects with the ticket that it has. No ticket outlives
the token with which it was made."""
CONNECTION_LIVES = timedelta(hours=2)
"""API Gateway's limit (docs/aws-facts.md#api-gateway)."""
RECORDS_LIVE = timedelta(hours=1)
"""The time for which a connection's records are kept after its end."""
REPLAY_S = 20.0
"""Seconds for which one request may send events before another invocation takes over. API Gateway waits
29."""
RECOVERY_S = 2.0
"""Seconds before another invocation repeats a delivery after a passing fault."""
_BUSY_S = 0.1
_TICKET = re.compile(r"[0-9a-f]{32}\.[\w-]{43}", re.ASCII)
_MAX_ID = 500


class _Request(BaseModel):
    """The base of clients' requests. An unknown field is refused as a typing error."""

    model_config = ConfigDict(extra="forbid")


class Subscribe(_Request):
    """Send the run's events after this seq, then each new one."""

    action: Literal["subscribe"]
    run_id: str = Field(max_length=_MAX_ID)
    after: Annotated[int, Strict(), Field(ge=0)] = 0


class Unsubscribe(_Request):
    """Send no more events of the run."""

    action: Literal["unsubscribe"]
    run_id: str = Field(max_length=_MAX_ID)


class Ping(_Request):
    """Answered by `{"action": "pong"}`: an idle connection ends after 10 minutes."""

    action: Literal["ping"]


Request = Annotated[Subscribe | Unsubscribe | Ping, Field(discriminator="action")]
REQUEST: TypeAdapter[Request] = TypeAdapter(Request, config={"defer_build": True})


async def make_ticket(
    runtime: Runtime, owner: str, token_expires_at: datetime | None
) -> SocketTicket:
    """Return a ticket for one connection within a minute. Raises NotFound if the deployment has no
    sockets."""
    ports = _ports(runtime)
    text = _ticket_text(runtime, owner)
    expires_at = runtime.clock.now() + TICKET_LIVES
    await ports.connections.put_ticket(
        Ticket(text=text, owner=owner, expires_at=expires_at, token_expires_at=token_expires_at)
    )
    url = f"{ports.url}?ticket={quote(text)}"
    return SocketTicket(ticket=text, url=url, expires_at=expires_at)


async def make_stream_ticket(
    runtime: Runtime, owner: str, run_id: str, token_expires_at: datetime | None, base_url: str
) -> SocketTicket:
    """Return a ticket for the events of one run, for an hour. `url`: the base URL of the streams. Raises
    NotFound."""
    run = await meta_of(runtime, owner, run_id)
    now = runtime.clock.now()
    expires_at = min(
        now + STREAM_TICKET_LIVES, token_expires_at or datetime.max.replace(tzinfo=UTC)
    )
    ticket = Ticket(
        text=_ticket_text(runtime, owner),
        owner=owner,
        run_id=run.id,
        expires_at=expires_at,
        token_expires_at=token_expires_at,
    )
    await _ports(runtime).connections.put_ticket(ticket)
    url = f"{base_url}/runs/{quote(run.id)}/events?ticket={quote(ticket.text)}"
    return SocketTicket(ticket=ticket.text, url=url, expires_at=expires_at)


async def check_stream_ticket(runtime: Runtime, run_id: str, text: str) -> Ticket | None:
    """Return a valid ticket for this run's events; None for any other."""
    match = _TICKET.fullmatch(text)
    if match is None or runtime.sockets is None:
        return None
    ticket = await runtime.sockets.connections.stream_ticket(text, runtime.clock.now())
    return ticket if ticket is not None and ticket.run_id == run_id else None


async def connect(runtime: Runtime, connection_id: str, ticket: str) -> bool:
    """Record a connection whose ticket is valid. Return False for any other ticket. Raises LimitReached."""
    # `url` has the ticket already; some clients append it once more.
    match = _TICKET.match(ticket)
    if match is None:
        return False
    now = runtime.clock.now()
    record = await _ports(runtime).connections.redeem(match[0], now)
    if record is None or _is_expired(record.token_expires_at, now):
        return False
    connection = Connection(
        id=connection_id,
        owner=record.owner,
        token_expires_at=record.token_expires_at,
        ends_at=now + CONNECTION_LIVES + RECORDS_LIVE,
    )
    if not await runtime.leases.take(connection.lease, MAX_SOCKETS, now):
        raise LimitReached(f"{MAX_SOCKETS} connections of this user are open already")
    await _ports(runtime).connections.open(connection)
    return True


async def disconnect(runtime: Runtime, connection_id: str) -> None:
    """Forget a connection that is closed."""
    await _ports(runtime).connections.close(connection_id)


async def receive(runtime: Runtime, connection_id: str, request: Request) -> None:
    """Act on a client's request. A connection whose token has expired is closed instead. Raises NotFound
    (also for other users' runs), LimitReached, RetryableError."""
    connection = await _ports(runtime).connections.get(connection_id)
    if connection is None or _is_expired(connection.token_expires_at, runtime.clock.now()):
        await close(runtime, connection_id)
        return
    match request:
        case Subscribe():
            await _subscribe(runtime, connection, request)
        case Unsubscribe():
            subscription = Subscription(connection.owner, request.run_id, connection_id)
            await _ports(runtime).connections.unsubscribe(subscription)
        case Ping():
            await tell(runtime, connection_id, {"action": "pong"})


async def close(runtime: Runtime, connection_id: str) -> None:
    """Close a connection, and forget it. Raises RetryableError."""
    await _delivery(runtime).drop(connection_id)


async def tell(runtime: Runtime, connection_id: str, answer: object) -> None:
    """Send an answer that is not an event. If that fails, the connection is useless."""
    try:
        await _ports(runtime).sockets.post(connection_id, json.dumps(answer))
    except (SocketGone, SocketUnsure):
        await close(runtime, connection_id)


async def push(
    runtime: Runtime,
    subscription: Subscription,
    seconds: float = REPLAY_S,
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Send the run's events for this long; another invocation sends the rest."""
    try:
        is_all = await _deliver(runtime, subscription, seconds)
    except RetryableError:
        is_all = False
        # Without the pause, invocations would follow each other as fast as they fail, for as long as the
        # fault lasts.
        await pause(RECOVERY_S)
    if not is_all:
        await _delivery(runtime).defer(subscription)


async def catch_up(runtime: Runtime, run: RunMeta) -> None:
    """Deliver the events that the writer of a run's last event died before sending."""
    if runtime.sockets is not None:
        for connection_id in sorted(run.sockets):
            await _delivery(runtime).defer(Subscription(run.owner, run.id, connection_id))


async def _subscribe(runtime: Runtime, connection: Connection, request: Subscribe) -> None:
    run = await meta_of(runtime, connection.owner, request.run_id)
    if connection.id not in run.sockets and len(run.sockets) >= MAX_FOLLOWERS:
        raise LimitReached(f"{MAX_FOLLOWERS} connections follow this run already", run_id=run.id)
    subscription = Subscription(connection.owner, run.id, connection.id)
    after = min(request.after, MAX_SEQ)
    connections = _ports(runtime).connections
    until = loop_time() + REPLAY_S
    while not await connections.subscribe(subscription, connection.token_expires_at, after):
        # The subscription exists, and another process is sending to it.
        if loop_time() > until:
            return await close(runtime, connection.id)
        # Waits a moment, or closes the connection if that process is gone.
        await _deliver(runtime, subscription, _BUSY_S)
    return await push(runtime, subscription)


async def _deliver(runtime: Runtime, subscription: Subscription, seconds: float) -> bool:
    until = loop_time() + seconds
    return await _delivery(runtime).deliver(subscription, lambda: loop_time() < until)


def _ticket_text(runtime: Runtime, owner: str) -> str:
    return f"{Keys(owner).hash}.{runtime.dice.text(32)}"


def _ports(runtime: Runtime) -> SocketPorts:
    if runtime.sockets is None:
        raise NotFound("this deployment has no WebSockets")
    return runtime.sockets


def _delivery(runtime: Runtime) -> SocketDelivery:
    return SocketDelivery(runtime.journal, _ports(runtime), runtime.clock)


def _is_expired(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment <= now
