"""Users' grants at other services: where they are kept, what seals their tokens, and the services' token
endpoints (docs/guides/connections.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from layover.errors import ConfigurationError, LayoverError
from layover.values.grant import Consent, Grant

_NOT_SET_UP = (
    "connections of users are not set up here: a deployment sets them up if an agent has some, and a test "
    "gives tokens by ToolContext.for_test(hooks=RecordedHooks(tokens={...}))"
)


INVALID_RESPONSE = "invalid_response"
"""Our own code for an answer that has neither tokens nor an error."""


class TokenRefused(LayoverError):
    """A token endpoint has refused a request, and would refuse it again. `code`: of RFC 6749, such as
    `invalid_grant`. The message has nothing else of what the service said."""

    def __init__(self, code: str) -> None:
        super().__init__(f"the token endpoint answered {code}")
        self.code = code


class Grants(Protocol):
    """Grants and requests for consent, by owner. Nobody finds those of another owner."""

    async def get(self, owner: str, connection: str) -> Grant | None:
        """Return the owner's grant at a connection."""
        ...

    async def list_grants(self, owner: str) -> list[Grant]:
        """Return all of the owner's grants, by the connections' names."""
        ...

    async def put(self, grant: Grant, state: str) -> Grant | None:
        """Keep a grant in place of any other of its connection, and return it with its version. None: the
        request for consent that it comes from, with this state, is gone, because its owner was erased."""
        ...

    async def replace(self, old: Grant, new: Grant) -> Grant | None:
        """Keep `new` in place of `old`, and return it with its version. None: `old` is not what is kept any
        more, and nothing was written."""
        ...

    async def remove(self, grant: Grant) -> bool:
        """Forget a grant as it was read. Return whether there is none now: False if it has changed since."""
        ...

    async def put_left(self, grant: Grant) -> None:
        """Keep a grant that was left (`left_at`), in place of older tokens of it, but of no other grant."""
        ...

    async def list_left(self, owner: str) -> list[Grant]:
        """Return the owner's grants that were left (`left_at`), which no other method returns."""
        ...

    async def list_consents(self, owner: str, now: datetime) -> list[Consent]:
        """Return the owner's requests for consent that may still be brought back."""
        ...

    async def put_consent(self, state: str, consent: Consent) -> None:
        """Keep a request for consent under its state, of which only a hash is stored."""
        ...

    async def get_consent(self, owner: str, state: str, now: datetime) -> Consent | None:
        """Return the owner's request for consent. None: there is none, or its time is over."""
        ...

    async def use_consent(self, owner: str, state: str) -> bool:
        """Note that the code of a request for consent is about to be exchanged. Of all callers, one gets
        True."""
        ...

    async def erase(self, owner: str, until: datetime) -> None:
        """Forget all of an owner's grants and requests from before this time, but those that were left.
        Repeatable."""
        ...


class Sealer(Protocol):
    """Makes texts unreadable for all who lack the deployment's key. A sealed text opens only with the context
    that it was sealed with: one that is put in another user's place opens for nobody."""

    async def seal(self, text: str, context: Mapping[str, str]) -> str:
        """Return the sealed text. Raises RetryableError."""
        ...

    async def open(self, sealed: str, context: Mapping[str, str]) -> str:
        """Return the text. Raises ValueError if it was sealed by another key or with another context, and
        RetryableError."""
        ...


class TokenEndpoints(Protocol):
    """Token endpoints of services (RFC 6749)."""

    async def ask(
        self, url: str, form: Mapping[str, str], client: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Send a form, and return the fields of the answer. `client`: id and secret, if the service takes
        them as HTTP Basic. Nothing is sent twice. Raises TokenRefused; RetryableError if the service did not
        answer, or is broken: the request may have taken effect."""
        ...


class NoGrants:
    """`Grants` of a runtime without connections: nobody has granted anything."""

    async def get(self, owner: str, connection: str) -> Grant | None:
        """Return None."""
        return None

    async def list_grants(self, owner: str) -> list[Grant]:
        """Return nothing."""
        return []

    async def put(self, grant: Grant, state: str) -> Grant | None:
        """Raise ConfigurationError."""
        raise ConfigurationError(_NOT_SET_UP)

    async def replace(self, old: Grant, new: Grant) -> Grant | None:
        """Return None: there is none."""
        return None

    async def remove(self, grant: Grant) -> bool:
        """Return True: there is none."""
        return True

    async def put_left(self, grant: Grant) -> None:
        """Raise ConfigurationError."""
        raise ConfigurationError(_NOT_SET_UP)

    async def list_left(self, owner: str) -> list[Grant]:
        """Return nothing."""
        return []

    async def list_consents(self, owner: str, now: datetime) -> list[Consent]:
        """Return nothing."""
        return []

    async def put_consent(self, state: str, consent: Consent) -> None:
        """Raise ConfigurationError."""
        raise ConfigurationError(_NOT_SET_UP)

    async def get_consent(self, owner: str, state: str, now: datetime) -> Consent | None:
        """Return None."""
        return None

    async def use_consent(self, owner: str, state: str) -> bool:
        """Return False."""
        return False

    async def erase(self, owner: str, until: datetime) -> None:
        """Do nothing."""


class _Nowhere:
    """Has no connections, and says so."""

    def __getattr__(self, name: str) -> Any:
        raise ConfigurationError(_NOT_SET_UP)


@dataclass(frozen=True)
class GrantPorts:
    """The ports of connections. `redirect_url`: the page to which services send users back."""

    grants: Grants = field(default_factory=NoGrants)
    sealer: Sealer = field(default_factory=_Nowhere)
    endpoints: TokenEndpoints = field(default_factory=_Nowhere)
    redirect_url: str = ""
    fixed: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Tokens by connection, which count before all others: those of a test."""
