"""The consent of a user: asked for by a call that waits or by the user, given at the service, and brought
back by the user's own signed-in page. A consent that somebody else brings is not found: nobody can put
another person's account into their own."""

import logging
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from layover.declare.connection import Connection, check_same
from layover.declare.tools.delegate import with_delegates
from layover.errors import ConfigurationError, ConsentRefused, LimitReached, NotFound
from layover.plugins.reach.connections.tokens import (
    ask,
    context_of,
    give_up,
    keep_refresh,
    seal_tokens,
)
from layover.ports.grants import TokenRefused
from layover.runtime import Runtime
from layover.values.grant import Arrival, ConnectionView, Consent, Grant, Tokens

if TYPE_CHECKING:
    from layover.declare.agent import Agent

logger = logging.getLogger("layover")

ASKED_FOR = timedelta(hours=1)
"""The life of a request for consent."""
MAX_OPEN = 20
"""Requests for consent of a user that may be open at a time."""
_NOT_ASKED = (
    "there is no such request for consent: it is over, or another person's. Ask for it again"
)


def connections_by_name(
    agents: "Mapping[str, Agent]",
) -> dict[str, tuple[Connection, tuple[str, ...]]]:
    """Return all connections of users, with all scopes that any agent wants, and the names of the agents that
    have them. Raises DefinitionError for two services of one name."""
    everywhere = with_delegates(agents.values())
    check_same(connection for agent in everywhere for connection in agent.connections)
    by_name: dict[str, tuple[Connection, list[str], list[str]]] = {}
    for agent in everywhere:
        for connection in agent.connections:
            if not connection.is_users:
                continue
            _, names, scopes = by_name.setdefault(connection.name, (connection, [], []))
            names.append(agent.name)
            scopes += connection.scopes
    return {
        name: (with_scopes(connection, scopes), tuple(dict.fromkeys(names)))
        for name, (connection, names, scopes) in by_name.items()
    }


def with_scopes(connection: Connection, scopes: Iterable[str]) -> Connection:
    """Return the same connection with these scopes."""
    return replace(connection, scopes=tuple(dict.fromkeys(scopes)))


async def describe_consent(runtime: Runtime, connection: Connection, owner: str) -> dict[str, Any]:
    """Return what the owner is asked for: `{connection, scopes}`. A call that waits shows it to others, too:
    the page itself is made for its owner when they ask for it."""
    _redirect_url(runtime, connection)
    grant = await runtime.connections.grants.get(owner, connection.name)
    is_of_it = grant is not None and grant.service == connection.service
    # What was allowed before stays allowed: another agent may need it.
    before = grant.scopes if grant is not None and is_of_it else ()
    scopes = list(dict.fromkeys((*connection.scopes, *before)))
    return {"connection": connection.name, "scopes": scopes}


def _redirect_url(runtime: Runtime, connection: Connection) -> str:
    """Return the address to which only the service of this connection sends users back."""
    if not runtime.connections.redirect_url:
        raise ConfigurationError(
            "LAYOVER_CONNECTIONS_URL is not set: it is the page to which services send users back"
        )
    parts = urlsplit(runtime.connections.redirect_url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{connection.name}"))


async def begin_consent(
    runtime: Runtime, connection: Connection, owner: str, proof_hash: str | None = None
) -> dict[str, Any]:
    """Return the page that the owner is shown: `{connection, authorize_url, scopes}`. The URL is the owner's
    only, and works once, for whoever has the secret of this hash. Raises LimitReached."""
    ports, redirect_url = runtime.connections, _redirect_url(runtime, connection)
    described = await describe_consent(runtime, connection, owner)
    scopes = tuple(described["scopes"])
    dice, now = runtime.dice, runtime.clock.now()
    ends = [each.expires_at for each in await ports.grants.list_consents(owner, now)]
    if len(ends) >= MAX_OPEN:
        wait = min(ends) - now
        raise LimitReached(f"{MAX_OPEN} requests for consent are open: use one of them", wait)
    state, verifier = dice.text(32), dice.text(48)
    consent = Consent(
        owner=owner,
        connection=connection.name,
        service=connection.service,
        scopes=scopes,
        redirect_url=redirect_url,
        sealed_verifier=await ports.sealer.seal(verifier, _context_of(connection, owner, state)),
        proof_hash=proof_hash,
        asked_at=now,
        expires_at=now + ASKED_FOR,
    )
    await ports.grants.put_consent(state, consent)
    fields = {
        "response_type": "code",
        "client_id": connection.client_id,
        "redirect_uri": redirect_url,
        "state": state,
        # The S256 challenge of RFC 7636.
        "code_challenge": urlsafe_b64encode(sha256(verifier.encode()).digest())
        .rstrip(b"=")
        .decode(),
        "code_challenge_method": "S256",
        **connection.params,
    }
    if scopes:
        fields["scope"] = " ".join(scopes)
    return {**described, "authorize_url": _with_query(connection.authorize_url or "", fields)}


def _check(arrival: Arrival, consent: Consent, connection: Connection) -> None:
    """Raise ConsentRefused unless the browser came back from where it was sent, and is the one that was."""
    if arrival.connection not in (None, consent.connection):
        raise ConsentRefused("this consent came back to the page of another connection")
    if not connection.is_from(arrival.iss):
        facts = {"connection": connection.name, "iss": str(arrival.iss)[:200]}
        logger.warning("a consent of another issuer is refused (`issuer`)", extra=facts)
        raise ConsentRefused(f"this consent is not of {connection.name}, but of another service")
    proof_hash = b64encode(sha256((arrival.proof or "").encode()).digest()).decode()
    if consent.proof_hash not in (None, proof_hash):
        raise ConsentRefused("another browser asked for this consent: ask for it in this one")


async def finish_consent(
    runtime: Runtime,
    connections: Mapping[str, Connection],
    owner: str,
    code: str,
    state: str,
    *,
    arrival: Arrival | None = None,
) -> Grant:
    """Return the grant that a service's code is exchanged for. Raises NotFound if this owner was not asked,
    or the time is over; ConsentRefused if service or browser is another one, or refuses; RetryableError."""
    ports = runtime.connections
    consent = await ports.grants.get_consent(owner, state, runtime.clock.now())
    connection = connections.get(consent.connection) if consent is not None else None
    if consent is None or connection is None or consent.service != connection.service:
        raise NotFound(_NOT_ASKED)
    _check(arrival or Arrival(), consent, connection)
    # Of two that bring the same code, one exchanges it: a service that sees a code twice may end the grant.
    if consent.is_used or not await ports.grants.use_consent(owner, state):
        return await _brought_before(runtime, owner, consent)
    tokens = await _exchange(runtime, connection, consent, code, state)
    grant = Grant(
        owner=owner,
        connection=connection.name,
        service=connection.service,
        scopes=consent.scopes,
        granted=tokens.granted,
        sealed="",
        asked_at=consent.asked_at,
        connected_at=runtime.clock.now(),
    )
    tokens = await keep_refresh(runtime, connection, grant, tokens)
    sealed = await seal_tokens(runtime, connection, owner, tokens)
    grant = grant.model_copy(update={"sealed": sealed})
    stored = await ports.grants.put(grant, state)
    if stored is None:
        # Its owner was erased in the meantime.
        await give_up(runtime, connection, owner, grant)
        raise NotFound(_NOT_ASKED)
    return stored


async def _exchange(
    runtime: Runtime, connection: Connection, consent: Consent, code: str, state: str
) -> Tokens:
    """Return the tokens that a service gives for a code."""
    context = _context_of(connection, consent.owner, state)
    try:
        verifier = await runtime.connections.sealer.open(consent.sealed_verifier, context)
    except ValueError:
        raise ConsentRefused(
            "the request for consent cannot be read any more: ask for it again"
        ) from None
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": consent.redirect_url,
        "code_verifier": verifier,
    }
    try:
        return await ask(connection, runtime, form)
    except TokenRefused as refused:
        logger.warning(
            "a service refused a consent",
            extra={"connection": connection.name, "code": refused.code},
        )
        raise ConsentRefused(
            f"{connection.name} did not take the consent ({refused.code}): ask for it again"
        ) from refused


def _context_of(connection: Connection, owner: str, state: str) -> dict[str, str]:
    """Return what the verifier of a request for consent belongs to."""
    return {**context_of(connection, owner, "consent"), "state": state}


async def _brought_before(runtime: Runtime, owner: str, consent: Consent) -> Grant:
    """Return the grant of a consent that comes once more: its bringer may have got no answer. Raises
    ConsentRefused if there is none: the process died in between, or the owner has disconnected it."""
    grant = await runtime.connections.grants.get(owner, consent.connection)
    is_there = grant is not None and not grant.needs_consent(consent.service, consent.scopes)
    if grant is None or not is_there or grant.connected_at < consent.asked_at:
        raise ConsentRefused(
            f"this consent was brought before, and {consent.connection} is not connected: ask for it again"
        )
    return grant


async def ask_for_consent(
    runtime: Runtime, owner: str, name: str, proof_hash: str | None = None
) -> dict[str, Any]:
    """Return the page of `begin_consent` for a connection of any agent. Raises NotFound."""
    connection, _ = connections_by_name(runtime.agents()).get(name, (None, ()))
    if connection is None:
        raise NotFound("no agent here has a connection of this name")
    return await begin_consent(runtime, connection, owner, proof_hash)


async def list_connections(runtime: Runtime, owner: str) -> list[ConnectionView]:
    """Return all connections that agents have, and those that the owner has granted before, by name."""
    declared = connections_by_name(runtime.agents())
    grants = {each.connection: each for each in await runtime.connections.grants.list_grants(owner)}
    return [
        view_of(name, declared.get(name), grants.get(name)) for name in sorted({*declared, *grants})
    ]


def view_of(
    name: str, declared: tuple[Connection, tuple[str, ...]] | None, grant: Grant | None
) -> ConnectionView:
    """Return a connection as its user sees it."""
    connection, agents = declared if declared is not None else (None, ())
    scopes = connection.scopes if connection is not None else ()
    if grant is None or (connection is not None and grant.service != connection.service):
        return ConnectionView(name=name, status="missing", scopes=scopes, agents=agents)
    is_less = grant.needs_consent(grant.service, scopes) or grant.lacks(scopes)
    more = "more" if is_less else "connected"
    return ConnectionView(
        name=name,
        status="expired" if grant.ended_at is not None else more,
        scopes=scopes,
        granted=grant.granted if grant.granted is not None else grant.scopes,
        agents=agents,
        connected_at=grant.connected_at,
        refreshed_at=grant.refreshed_at,
    )


def _with_query(url: str, fields: Mapping[str, str]) -> str:
    parts = urlsplit(url)
    query = urlencode([*parse_qsl(parts.query, keep_blank_values=True), *fields.items()])
    return urlunsplit(parts._replace(query=query))
