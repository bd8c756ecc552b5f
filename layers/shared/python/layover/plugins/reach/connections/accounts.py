"""Accounts at other services, as the runtime asks for them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from layover.declare.connection import Connection
from layover.plugins.reach.connections import consent, leaving, tokens
from layover.runtime import Runtime


@dataclass(frozen=True)
class GrantedAccounts:
    """`plugin.Accounts` over the grants of `Runtime.connections`."""

    runtime: Runtime

    async def token(
        self, connection: Connection, owner: str, rejected: str | None = None
    ) -> str | None:
        """See `plugin.Accounts`."""
        return await tokens.token_of(self.runtime, connection, owner, rejected)

    async def describe_consent(self, connection: Connection, owner: str) -> dict[str, Any]:
        """See `plugin.Accounts`."""
        return await consent.describe_consent(self.runtime, connection, owner)

    async def revoke_all(self, owner: str, until: datetime) -> None:
        """See `plugin.Accounts`."""
        await leaving.revoke_all(self.runtime, owner, until)

    async def tell_left(self, owner: str, connection: str) -> bool:
        """See `plugin.Accounts`."""
        return await leaving.tell_left(self.runtime, owner, connection)
