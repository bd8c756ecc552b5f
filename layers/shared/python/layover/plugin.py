"""The protocols that plugins implement for the runtime. They come in by fields of `Runtime`."""

from datetime import datetime
from typing import Any, Protocol

from layover.declare.connection import Connection


class Accounts(Protocol):
    """Accounts at other services, of users and of the deployment, for tools that need them."""

    async def token(
        self, connection: Connection, owner: str, rejected: str | None = None
    ) -> str | None:
        """Return a token that is valid now. None: the owner has to consent first. `rejected`: a token that
        the service has refused. Raises RetryableError if none could be had now, and ConfigurationError for a
        registration that the service does not take."""
        ...

    async def begin_consent(
        self, connection: Connection, owner: str, run_id: str, tool_call_id: str
    ) -> dict[str, Any]:
        """Return the page that the owner of a call that waits is shown:
        `{connection, authorize_url, scopes}`."""
        ...

    async def revoke_all(self, owner: str, until: datetime) -> None:
        """Forget the owner's grants from before this time, and tell their services. Repeatable."""
        ...
