"""The end of a grant: its user disconnects it or is erased, and its service is told.

A service that is away then is told later. Until it was, for a day at most, the grant is set apart: nobody
uses or sees it, and the sweeper looks at it."""

import asyncio
import logging
from datetime import datetime, timedelta

from layover.declare.connection import Connection
from layover.errors import LayoverError, NotFound
from layover.plugins.reach.connections.consent import connections_by_name, view_of
from layover.plugins.reach.connections.tokens import can_be_told, revoke, tell_later
from layover.runtime import Runtime
from layover.values.grant import ConnectionView, Grant

logger = logging.getLogger("layover")

TOLD_WITHIN = timedelta(days=1)
"""The time after which a service that was away is told no more."""


async def disconnect_account(runtime: Runtime, owner: str, name: str) -> ConnectionView:
    """Forget the owner's grant, and return the connection without it. Raises NotFound if there was none."""
    declared = connections_by_name(runtime.agents()).get(name)
    connection = declared[0] if declared is not None else None
    if not await disconnect(runtime, connection, owner, name):
        raise NotFound("this account is not connected")
    return view_of(name, declared, None)


async def disconnect(
    runtime: Runtime, connection: Connection | None, owner: str, name: str
) -> bool:
    """Forget a grant, and have its service told. Return False if there was none."""
    grants = runtime.connections.grants
    while (grant := await grants.get(owner, name)) is not None:
        # As it was read: a renewal may have brought other tokens meanwhile, which the service has to know.
        if connection is None or not can_be_told(connection, grant):
            is_over = await grants.remove(grant)
        else:
            is_over = await _set_apart(runtime, connection, grant)
        if is_over:
            return True
    return False


async def _set_apart(runtime: Runtime, connection: Connection, grant: Grant) -> bool:
    """Have nobody use a grant any more, and its service told. Return False if it has changed since it was
    read."""
    await tell_later(runtime, grant)
    left = grant.model_copy(update={"left_at": runtime.clock.now()})
    if await runtime.connections.grants.replace(grant, left) is None:
        return False
    is_told = await _tell(runtime, connection, grant.owner, grant.connection)
    looks = await runtime.journal.dues.of(grant.owner, "grant") if is_told else []
    for look in looks:
        if look.name == grant.connection:
            await runtime.journal.dues.remove(look)
    return True


async def tell_left(runtime: Runtime, owner: str, name: str) -> bool:
    """Tell the service of a grant that was set apart. Return whether nothing is left to do."""
    try:
        connection, _ = connections_by_name(runtime.agents()).get(name, (None, ()))
    except LayoverError:
        connection = None
    return await _tell(runtime, connection, owner, name)


async def _tell(runtime: Runtime, connection: Connection | None, owner: str, name: str) -> bool:
    is_done = True
    for grant in await runtime.connections.grants.list_left(owner):
        if grant.connection != name or grant.left_at is None:
            continue
        is_told = connection is not None and await revoke(runtime, connection, owner, grant)
        if is_told or runtime.clock.now() >= grant.left_at + TOLD_WITHIN:
            await runtime.connections.grants.remove(grant)
        else:
            is_done = False
    return is_done


async def revoke_all(runtime: Runtime, owner: str, until: datetime) -> None:
    """Forget an owner's grants from before this time, and have their services told. Repeatable."""
    try:
        declared = connections_by_name(runtime.agents())
    except LayoverError:
        # Agents that cannot be loaded keep nobody's data.
        logger.warning("no service is told that grants are over: the agents cannot be loaded")
        declared = {}
    grants = await runtime.connections.grants.list_grants(owner)
    names = [grant.connection for grant in grants if grant.began_at <= until]
    # Side by side: one service that does not answer costs no other its turn.
    await asyncio.gather(
        *(disconnect(runtime, declared.get(name, (None, ()))[0], owner, name) for name in names)
    )
