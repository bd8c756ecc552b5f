"""`Connection`: a user's account at another service, with which an agent's tools may work
(docs/guides/connections.md)."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from layover.declare.option_names import named_options
from layover.declare.schemas import checks
from layover.declare.secret import Secret
from layover.errors import DefinitionError, unknown_name

_SCOPE = re.compile(r"[!#-\[\]-~]{1,200}")
"""RFC 6749, 3.3."""
_OWN = frozenset(
    {
        "client_id",
        "code_challenge",
        "code_challenge_method",
        "redirect_uri",
        "response_type",
        "scope",
        "state",
    }
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ConsentNeeded(BaseException):
    """Makes a call wait until its user has connected an account. No `except Exception` of a tool swallows it.
    `payload`: what the user is shown."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        super().__init__("the user has to connect an account first")
        self.payload = dict(payload)


def consent_in(error: BaseException) -> ConsentNeeded | None:
    """Return the request for consent that a tool's exception is, or has among those of its tasks."""
    if isinstance(error, ConsentNeeded):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(consent_in, error.exceptions)), None)
    return None


@dataclass(frozen=True, eq=False)
class Connection:
    """An account at another service that agents use, by OAuth 2.1: a user's own, to which the user consents,
    or without `authorize_url` that of the deployment (client credentials).

    Args:
        name: 1 to 64 letters, digits, `_` or `-`. Agents that name the same connection share its grants.
        token_url: The service's token endpoint, `https://...`.
        client_id: The id of the deployment's registration at the service.
        authorize_url: The page at which a user consents, `https://...`; None: there is no user, and the token
            is the deployment's.
        client_secret: The secret of the registration, `secret("NAME")`; None: it is a public client, which
            PKCE protects.
        scopes: What is asked for. Adding one later asks each user again.
        client_auth: The way in which the token endpoint takes id and secret: in its form (`post`) or as HTTP
            Basic (`basic`).
        revoke_url: The service's revocation endpoint (RFC 7009), which is told when a user disconnects; None:
            the tokens are only forgotten.
        params: Further parameters of `authorize_url`, such as `{"access_type": "offline"}`.
        token_path: The place of the tokens in the service's answer, such as `body` or `data.user`; an empty
            text: the top. None: `authed_user`, where Slack has a user's token, or else the top.
        issuer: The service's `iss` (RFC 9207), which a consent then has to have. None: an `iss` that the
            service sends has to be of the host of `authorize_url`.

    Raises:
        DefinitionError: If no service could be asked as declared.

    Example:
        ```python
        from layover import Agent, Connection, ToolContext, secret, tool

        github = Connection(
            "github",
            authorize_url="https://github.com/login/oauth/authorize",
            token_url="https://github.com/login/oauth/access_token",
            client_id="Iv1.0123456789abcdef",
            client_secret=secret("GITHUB_SECRET"),
            scopes=["repo"],
        )


        @tool
        async def star(repository: str, ctx: ToolContext) -> str:
            \"\"\"Star a repository in the user's name.\"\"\"
            token = await ctx.token("github")
            return f"starred {repository} with a token of {len(token)} characters"


        clerk = Agent("clerk", tools=[star], connections=[github])
        assert clerk.connections == (github,)
        ```
    """

    name: str
    token_url: str
    client_id: str
    authorize_url: str | None = None
    client_secret: Secret | None = field(default=None, repr=False)
    scopes: tuple[str, ...] = ()
    client_auth: Literal["post", "basic"] = "post"
    revoke_url: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    token_path: str | None = None
    issuer: str | None = None

    @named_options(lambda *_, **__: "Connection")
    def __init__(
        self,
        name: str,
        *,
        token_url: str,
        client_id: str,
        authorize_url: str | None = None,
        client_secret: Secret | None = None,
        scopes: Sequence[str] = (),
        client_auth: Literal["post", "basic"] = "post",
        revoke_url: str | None = None,
        params: Mapping[str, str] | None = None,
        token_path: str | None = None,
        issuer: str | None = None,
    ) -> None:
        what = f"connection {name!r}: "
        checks.name("the name of a connection", name)
        if not isinstance(client_id, str) or not client_id.strip():
            raise checks.fail(f"{what}client_id", "the id of the registration", client_id)
        if client_secret is not None and not isinstance(client_secret, Secret):
            # Not shown: it may be the secret itself.
            raise checks.fail(f"{what}client_secret", 'secret("NAME")', type(client_secret))
        checks.one_of(f"{what}client_auth", client_auth, ("post", "basic"))
        if client_auth == "basic" and client_secret is None:
            raise DefinitionError(f"{what}client_auth='basic' needs client_secret")
        if authorize_url is None and client_secret is None:
            raise DefinitionError(
                f"{what}without authorize_url the deployment itself signs in, which needs client_secret"
            )
        fields = {
            "name": name,
            "token_url": _url(f"{what}token_url", token_url),
            "client_id": client_id,
            "authorize_url": authorize_url and _url(f"{what}authorize_url", authorize_url),
            "client_secret": client_secret,
            "scopes": _scopes(what, scopes),
            "client_auth": client_auth,
            "revoke_url": revoke_url and _url(f"{what}revoke_url", revoke_url),
            "params": _params(what, params or {}),
            "token_path": _path(what, token_path),
            "issuer": issuer and _url(f"{what}issuer", issuer),
        }
        for key, value in fields.items():
            object.__setattr__(self, key, value)

    @property
    def is_users(self) -> bool:
        """True if each user connects an account; False if the deployment has one."""
        return self.authorize_url is not None

    def as_facts(self) -> dict[str, Any]:
        """Return what belongs to an agent's definition: no credentials."""
        return {
            "connection": self.name,
            "token_url": self.token_url,
            "client_id": self.client_id,
            **({"authorize_url": self.authorize_url} if self.authorize_url else {}),
            **({"scopes": sorted(self.scopes)} if self.scopes else {}),
        }

    @property
    def service(self) -> str:
        """Return the service that the connection is with, and the registration there, as one short text:
        what a user has granted there is sent to no other."""
        where = [] if self.token_path is None else [self.token_path]
        facts = [self.authorize_url, self.token_url, self.client_id, *where]
        return sha256(json.dumps(facts).encode()).hexdigest()[:32]

    @property
    def identity(self) -> tuple[Any, ...]:
        """Return what has to be equal where two agents name the same connection."""
        secret_name = self.client_secret.name if self.client_secret else None
        return (self.service, secret_name, self.client_auth, self.issuer)

    def is_from(self, iss: str | None) -> bool:
        """Return whether a consent with this `iss` is of the connection's service."""
        if self.issuer is not None:
            return iss == self.issuer
        try:
            return iss is None or urlsplit(iss)[:2] == urlsplit(self.authorize_url or "")[:2]
        except ValueError:
            return False


def connections_of(what: str, value: Any) -> tuple[Connection, ...]:
    """Return the connections of an agent, as they were given. Raises DefinitionError."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise checks.fail(f"{what}connections", "a list of Connection(...)", value)
    connections = tuple(value)
    for each in connections:
        if not isinstance(each, Connection):
            raise checks.fail(f"{what}connections", "a list of Connection(...)", each)
    names = [each.name for each in connections]
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(f"{what}two connections are called {name!r}")
    return connections


class _Server(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def connection(self) -> str | None: ...


def check_servers(what: str, servers: Iterable[_Server], connections: Iterable[Connection]) -> None:
    """Raise DefinitionError if a server of tools needs a connection that the agent lacks."""
    names = [each.name for each in connections]
    for server in servers:
        if server.connection is not None and server.connection not in names:
            unknown = unknown_name("connection", server.connection, names)
            raise DefinitionError(f"{what}the server of tools {server.name}: {unknown}")


def check_same(connections: Iterable[Connection]) -> None:
    """Raise DefinitionError if two agents mean different services, or accounts, by one name."""
    by_name: dict[str, Connection] = {}
    for each in connections:
        if by_name.setdefault(each.name, each).identity != each.identity:
            raise DefinitionError(
                f"two agents have different connections called {each.name!r}: give one another name, or "
                "declare it once"
            )


def _url(what: str, url: Any) -> str:
    expected = "an address like https://accounts.example.com/oauth/token"
    if not isinstance(url, str):
        raise checks.fail(what, expected, url)
    try:
        parts = urlsplit(url)
        host, user, _ = parts.hostname, parts.username, parts.port
    except ValueError:
        raise checks.fail(what, expected, url) from None
    if user is not None:
        # Not shown: it has a password in it.
        raise checks.fail(what, "an address without credentials", str)
    is_plain = parts.scheme == "http" and host in _LOOPBACK
    if not host or (parts.scheme != "https" and not is_plain) or parts.fragment:
        raise checks.fail(what, expected, url)
    return url


def _scopes(what: str, scopes: Any) -> tuple[str, ...]:
    expected = "a list of scopes, each a word"
    if isinstance(scopes, str) or not isinstance(scopes, Iterable):
        raise checks.fail(f"{what}scopes", expected, scopes)
    words = tuple(scopes)
    if not all(isinstance(each, str) and _SCOPE.fullmatch(each) for each in words):
        raise checks.fail(f"{what}scopes", expected, words)
    return tuple(dict.fromkeys(words))


def _path(what: str, path: Any) -> str | None:
    if path is None or (isinstance(path, str) and (not path or all(path.split(".")))):
        return path
    raise checks.fail(f"{what}token_path", 'names of fields, such as "body" or "data.user"', path)


def _params(what: str, params: Any) -> dict[str, str]:
    if not isinstance(params, Mapping) or not all(
        isinstance(k, str) and isinstance(v, str) for k, v in params.items()
    ):
        raise checks.fail(f"{what}params", "a dict of texts", params)
    own = _OWN & params.keys()
    if own:
        raise DefinitionError(f"{what}params: Layover sets {', '.join(sorted(own))} itself")
    return dict(params)
