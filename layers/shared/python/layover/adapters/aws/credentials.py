"""Credentials for signatures: the environment's, or those that botocore finds."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from layover.errors import ConfigurationError, RetryableError


class Credentials(NamedTuple):
    """An access key. `token`: of temporary ones."""

    key_id: str
    secret: str
    token: str | None


class CredentialChain:
    """Lambda's variables, read for each request. botocore is imported only if they are absent: for profiles,
    containers, and functions restored from a snapshot. It renews credentials that expire."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._provider: Any = None

    async def get(self) -> Credentials:
        """The current credentials. Raises ConfigurationError if there are none, RetryableError if they were
        not renewed."""
        at_hand = self._at_hand()
        return await asyncio.to_thread(self.get_blocking) if at_hand is None else at_hand

    def get_blocking(self) -> Credentials:
        """The same, for a worker thread."""
        at_hand = self._at_hand()
        if at_hand is not None:
            return at_hand
        if self._provider is None:
            self._provider = _resolve()
        return _frozen(self._provider)

    def _at_hand(self) -> Credentials | None:
        """Return credentials that need no request: Lambda's, or those that botocore has found and need not
        renew."""
        get, provider = self._variables.get, self._provider
        key_id, secret = get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")
        if key_id and secret:
            return Credentials(key_id, secret, get("AWS_SESSION_TOKEN") or None)
        expires = getattr(provider, "refresh_needed", None)
        if provider is None or (expires is not None and expires()):
            return None
        return _frozen(provider)

    async def renew(self, expired: Credentials) -> bool:
        """Look again after AWS refused these as expired. Return False if they are still the same."""
        self._provider = None
        return await self.get() != expired


def _resolve() -> Any:
    from botocore.exceptions import BotoCoreError
    from botocore.session import get_session

    try:
        credentials = get_session().get_credentials()
    except BotoCoreError as error:  # An unknown profile, a package that its sign-in needs.
        raise ConfigurationError(f"the AWS credentials cannot be used: {error}") from error
    if credentials is None:
        raise ConfigurationError("there are no AWS credentials: set AWS_PROFILE or the access key")
    return credentials


def _frozen(provider: Any) -> Credentials:
    from botocore.exceptions import BotoCoreError

    try:
        frozen = provider.get_frozen_credentials()
    except BotoCoreError as error:
        kind = type(error).__name__
        raise RetryableError(f"the AWS credentials were not renewed: {kind}") from error
    return Credentials(frozen.access_key, frozen.secret_key, frozen.token)
