"""A token of a connection, whenever a tool needs one: opened, renewed before it expires, and renewed once for
all that want it at the same time.

Many processes may work for one user. A service that gives a new refresh token with each renewal refuses the
old one from then on, and some then end the whole grant. So only the process that has put its time into
`Grant.renewing_until` asks; the others wait for its answer. If it dies, the next one asks when that time is
over."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from layover.declare.connection import Connection
from layover.errors import ConfigurationError, LayoverError, RetryableError
from layover.futures import retrieve_exception
from layover.plugins.reach.connections.answers import ends_grant, passes, tokens_in
from layover.ports.grants import TokenRefused
from layover.runtime import Runtime
from layover.values.grant import Grant, Tokens

logger = logging.getLogger("layover")

RENEWAL = timedelta(seconds=30)
"""The time that a process has to renew a grant: that of the service's answer, and of keeping it."""
_LOOK_AGAIN = timedelta(milliseconds=200)
_ATTEMPTS_TO_KEEP = 4


_Work = dict[tuple[Hashable, ...], "asyncio.Task[Tokens | None]"]
_renewals: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Work]" = WeakKeyDictionary()
"""Renewals that this process is at, by owner, connection and service; the deployment's, by connection."""
_deployment_tokens: "WeakKeyDictionary[Connection, Tokens]" = WeakKeyDictionary()
"""Tokens of the deployment, in this process."""


async def token_of(
    runtime: Runtime, connection: Connection, owner: str, rejected: str | None = None
) -> str | None:
    """Return a token that is valid now. None: the owner has to consent first. `rejected`: a token that the
    service has refused: another one is asked for, once for all who got the same. Raises RetryableError if
    none could be had now, and ConfigurationError for a registration that the service does not take."""
    if connection.name in runtime.connections.fixed:
        return runtime.connections.fixed[connection.name]
    if not connection.is_users:
        return await _deployment_token(runtime, connection, rejected)
    look = await _look(runtime, connection, owner, rejected)
    if not isinstance(look, _Due):
        return None if look is None else look.access
    try:
        renewed = await _once(
            (owner, connection.name, connection.service),
            lambda: renew(runtime, connection, owner, rejected),
        )
    except RetryableError:
        if look.tokens.access == rejected or look.tokens.has_expired(look.at):
            raise
        # It is about to expire, and has not yet.
        return look.tokens.access
    return None if renewed is None else renewed.access


class _Due(NamedTuple):
    """Tokens that have to be renewed, as they were at this time."""

    grant: Grant
    tokens: Tokens
    at: datetime


async def _look(
    runtime: Runtime, connection: Connection, owner: str, rejected: str | None
) -> Tokens | _Due | None:
    """Return the tokens of the owner that need no renewal, or those that do. None: the owner has to
    consent."""
    grant = await runtime.connections.grants.get(owner, connection.name)
    if grant is None or grant.needs_consent(connection.service, connection.scopes):
        return None
    tokens = await open_tokens(runtime, connection, owner, grant)
    if tokens is None:
        await _end(runtime, grant)
        return None
    now = runtime.clock.now()
    if tokens.access != rejected and not tokens.is_due(now):
        return tokens
    if tokens.refresh is None:
        return await _used_to_its_end(runtime, grant, tokens, rejected)
    return _Due(grant, tokens, now)


def context_of(connection: Connection, owner: str, what: str) -> dict[str, str]:
    """Return what a sealed text belongs to: it opens for nothing else."""
    return {
        "layover": what,
        "owner": owner,
        "connection": connection.name,
        "service": connection.service,
    }


async def open_tokens(
    runtime: Runtime, connection: Connection, owner: str, grant: Grant
) -> Tokens | None:
    """Return the tokens of a grant of this owner's at this connection: whoever asks says whose it is, and
    never the record. None: they cannot be opened, because the deployment has another key, or the record was
    sealed for somebody else."""
    try:
        text = await runtime.connections.sealer.open(
            grant.sealed, context_of(connection, owner, "grant")
        )
    except ValueError:
        logger.warning(
            "a grant cannot be opened: its user is asked again",
            extra={"connection": connection.name},
        )
        return None
    return Tokens.model_validate_json(text)


async def seal_tokens(runtime: Runtime, connection: Connection, owner: str, tokens: Tokens) -> str:
    """Return the tokens, sealed."""
    context = context_of(connection, owner, "grant")
    return await runtime.connections.sealer.seal(tokens.model_dump_json(), context)


async def ask(
    connection: Connection,
    runtime: Runtime,
    form: Mapping[str, str],
    before: Tokens | None = None,
) -> Tokens:
    """Return the tokens that a form of a grant type is answered with. `before`: those that are renewed.
    Raises TokenRefused, RetryableError, ConfigurationError."""
    try:
        fields = await ask_endpoint(connection, runtime, connection.token_url, form)
    except TokenRefused as refused:
        if passes(refused.code):
            raise RetryableError(f"{connection.name} answered {refused.code}") from refused
        raise
    return tokens_in(fields, runtime.clock.now(), before, connection.token_path)


async def keep_refresh(
    runtime: Runtime, connection: Connection, grant: Grant, tokens: Tokens
) -> Tokens:
    """Return the tokens of a new grant, with the refresh token of the one before if the consent brought none:
    some services give one with a user's first consent only. One that is known to be of another account, or
    that was asked for with fewer scopes, is not kept; nor does it count for longer than it answers."""
    if tokens.refresh is not None or tokens.expires_at is None:
        return tokens
    before = await runtime.connections.grants.get(grant.owner, connection.name)
    if before is not None and not before.needs_consent(grant.service, grant.scopes):
        earlier = await open_tokens(runtime, connection, grant.owner, before)
        if earlier is not None and earlier.refresh and not tokens.is_of_another_account(earlier):
            account = tokens.account or earlier.account
            return tokens.model_copy(update={"refresh": earlier.refresh, "account": account})
    logger.warning(
        "a service gave no refresh token: its user is asked again when the access token ends (`params`)",
        extra={"connection": connection.name},
    )
    return tokens


async def ask_endpoint(
    connection: Connection, runtime: Runtime, url: str, form: Mapping[str, str]
) -> dict[str, Any]:
    """Send a form with the registration's id and secret."""
    secret = await connection.client_secret.aget() if connection.client_secret else None
    endpoints = runtime.connections.endpoints
    if connection.client_auth == "basic" and secret is not None:
        return await endpoints.ask(url, form, (connection.client_id, secret))
    own = {"client_id": connection.client_id}
    if secret is not None:
        own["client_secret"] = secret
    return await endpoints.ask(url, {**form, **own})


def can_be_told(connection: Connection, grant: Grant) -> bool:
    """Return whether the service of a grant takes word that it is over, and has given it."""
    is_its = grant.service == connection.service
    return connection.revoke_url is not None and grant.ended_at is None and is_its


async def give_up(runtime: Runtime, connection: Connection, owner: str, grant: Grant) -> None:
    """Have the service told of tokens that nobody keeps, because their grant was removed meanwhile."""
    if not await revoke(runtime, connection, owner, grant):
        await tell_later(runtime, grant)
        left = grant.model_copy(update={"left_at": runtime.clock.now()})
        await runtime.connections.grants.put_left(left)


async def tell_later(runtime: Runtime, grant: Grant) -> None:
    """Have the sweeper look whether the service of a grant that is over was told."""
    at = runtime.clock.now() + runtime.settings.sweep_patience
    await runtime.journal.dues.schedule(grant.owner, "grant", grant.connection, at)


async def revoke(runtime: Runtime, connection: Connection, owner: str, grant: Grant) -> bool:
    """Tell a service that a grant is over (RFC 7009). Return False if it is to be told again: it did not
    answer. Raises nothing."""
    if connection.revoke_url is None or not can_be_told(connection, grant):
        return True
    try:
        tokens = await open_tokens(runtime, connection, owner, grant)
        if tokens is not None:
            hint = "access_token" if tokens.refresh is None else "refresh_token"
            form = {"token": tokens.refresh or tokens.access, "token_type_hint": hint}
            await ask_endpoint(connection, runtime, connection.revoke_url, form)
    except LayoverError as error:
        logger.warning(
            "a service was not told that a grant is over",
            extra={"connection": grant.connection, "cause": type(error).__name__},
        )
        return isinstance(error, TokenRefused) and not passes(error.code)
    return True


async def _once(
    key: tuple[Hashable, ...], renew: Callable[[], Coroutine[Any, Any, Tokens | None]]
) -> Tokens | None:
    """Return what the renewal of this key gives that the process is at, or begins now. It goes on when those
    who wait for it are cancelled: a new refresh token that nobody keeps is lost."""
    work = _renewals.setdefault(asyncio.get_running_loop(), {})
    task = work.get(key)
    if task is None:
        task = work[key] = asyncio.ensure_future(renew())
        task.add_done_callback(lambda done: _forget(work, key, done))
    return await asyncio.shield(task)


def _forget(work: _Work, key: tuple[Hashable, ...], task: "asyncio.Task[Tokens | None]") -> None:
    del work[key]
    retrieve_exception(task)  # Those who waited for it have got it, if any are left.


async def renew(
    runtime: Runtime, connection: Connection, owner: str, rejected: str | None
) -> Tokens | None:
    """Return the tokens as this process, or another, has renewed them. None: the owner has to consent."""
    grants, clock = runtime.connections.grants, runtime.clock
    until = clock.now() + RENEWAL * 2
    while clock.now() < until:
        look = await _look(runtime, connection, owner, rejected)
        if not isinstance(look, _Due):
            return look  # Another process has renewed them, or another consent has come.
        grant, tokens, now = look
        if grant.renewing_until is not None and now < grant.renewing_until:
            # Another process is at it.
            await clock.sleep(_LOOK_AGAIN)
            continue
        claim = grant.model_copy(update={"renewing_until": now + RENEWAL})
        own = await grants.replace(grant, claim)
        if own is not None:
            return await _ask_for_new(runtime, connection, owner, own, tokens)
    raise RetryableError(
        f"the tokens of {connection.name} are being renewed, and are not there yet"
    )


async def _used_to_its_end(
    runtime: Runtime, grant: Grant, tokens: Tokens, rejected: str | None
) -> Tokens | None:
    """Return tokens that nothing renews, for as long as the service takes them; None: it does no more."""
    if tokens.access != rejected and not tokens.has_expired(runtime.clock.now()):
        return tokens
    await _end(runtime, grant)
    return None


async def _ask_for_new(
    runtime: Runtime, connection: Connection, owner: str, grant: Grant, tokens: Tokens
) -> Tokens | None:
    """Renew a grant that this process has claimed."""
    assert tokens.refresh is not None
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh}
    try:
        new = await ask(connection, runtime, form, tokens)
    except TokenRefused as refused:
        if ends_grant(refused.code):
            await _end(runtime, grant)
            return None
        await _give_back(runtime, grant)
        raise _misconfigured(connection, refused) from refused
    except BaseException:
        await _give_back(runtime, grant)
        raise
    if new.is_of_another_account(tokens):
        # The refresh token is of an earlier consent than the access token (`keep_refresh`).
        await _end(runtime, grant)
        return None
    sealed = await seal_tokens(runtime, connection, owner, new)
    renewed = grant.model_copy(
        update={
            "sealed": sealed,
            "granted": new.granted,
            "refreshed_at": runtime.clock.now(),
            "renewing_until": None,
        }
    )
    if await _keep(runtime, grant, renewed) is not None:
        return new
    newest = await runtime.connections.grants.get(owner, connection.name)
    if newest is not None and newest.sealed == grant.sealed:
        # This process was asleep for longer than it may, and another was told that the old token is used up.
        # The service has given the new ones.
        if await _keep(runtime, newest, renewed) is not None:
            return new
        newest = await runtime.connections.grants.get(owner, connection.name)
    if newest is None:
        # Whoever removed it told the service of the tokens before these.
        await give_up(runtime, connection, owner, renewed)
        return None
    # Another consent or renewal has replaced it: that one counts. To revoke these might end it as well.
    if newest.service != connection.service:
        return None
    return await open_tokens(runtime, connection, owner, newest)


async def _keep(runtime: Runtime, old: Grant, new: Grant) -> Grant | None:
    """Keep new tokens. It tries hard: the old ones are worth nothing any more."""
    for attempt in range(1, _ATTEMPTS_TO_KEEP + 1):
        try:
            return await runtime.connections.grants.replace(old, new)
        except RetryableError:
            if attempt == _ATTEMPTS_TO_KEEP:
                raise
            await runtime.clock.sleep(_LOOK_AGAIN * attempt)
    raise AssertionError


async def _give_back(runtime: Runtime, grant: Grant) -> None:
    """Let the next process ask at once. If that fails, it asks when the time is over."""
    try:
        await runtime.connections.grants.replace(
            grant, grant.model_copy(update={"renewing_until": None})
        )
    except RetryableError:
        logger.info("a renewal was not given back", extra={"connection": grant.connection})


async def _end(runtime: Runtime, grant: Grant) -> None:
    """Note that the service takes the tokens no more. If another consent has come meanwhile, it stands."""
    ended = grant.model_copy(update={"ended_at": runtime.clock.now(), "renewing_until": None})
    await runtime.connections.grants.replace(grant, ended)


async def _deployment_token(runtime: Runtime, connection: Connection, rejected: str | None) -> str:
    """Return a token of the deployment (client credentials). Each process asks for its own."""
    now: datetime = runtime.clock.now()
    cached = _deployment_tokens.get(connection)
    if cached is not None and cached.access != rejected and not cached.is_due(now):
        return cached.access

    async def sign_in() -> Tokens:
        form = {"grant_type": "client_credentials"}
        if connection.scopes:
            form["scope"] = " ".join(connection.scopes)
        try:
            tokens = await ask(connection, runtime, form)
        except TokenRefused as refused:
            raise _misconfigured(connection, refused) from refused
        _deployment_tokens[connection] = tokens
        return tokens

    try:
        tokens = await _once((connection,), sign_in)
    except RetryableError:
        if cached is None or cached.access == rejected or cached.has_expired(now):
            raise
        return cached.access
    assert tokens is not None
    return tokens.access


def _misconfigured(connection: Connection, refused: TokenRefused) -> ConfigurationError:
    return ConfigurationError(
        f"the service of the connection {connection.name!r} refused its registration ({refused.code}): the "
        "deployer has to look at client_id, client_secret, token_url, token_path, scopes and the service's "
        "settings"
    )
