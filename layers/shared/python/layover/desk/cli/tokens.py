"""Tokens of deployments after a sign-in, in a file that only its owner can read."""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from layover.desk.cli.client import USAGE, ApiError
from layover.desk.cli.oidc import Provider, refresh_tokens

EARLY_S = 60.0
"""An access token that ends sooner is renewed first."""
FILE = "tokens.json"
LOCAL = "http://127.0.0.1:8787"
"""Base URL of `layover dev`."""
LOCAL_USER = "cli"
"""The user of a system on this machine, if none is named."""


@dataclass(frozen=True)
class Tokens:
    """Tokens of a provider. `expires_at`: Unix time of the access token's end."""

    access: str
    refresh: str | None
    expires_at: float
    issuer: str
    client_id: str


class TokenFile:
    """The tokens of one user of this machine, by the deployment's URL; only they can read `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def path(self) -> Path:
        """Return the path of the saved tokens."""
        return self._folder / FILE

    def save(self, url: str, tokens: Tokens) -> None:
        """Keep the tokens of a deployment, which becomes the one that is meant where none is named."""
        document = self._read()
        document["last"] = _plain(url)
        document.setdefault("tokens", {})[_plain(url)] = asdict(tokens)
        self._write(document)

    def last(self) -> str | None:
        """The deployment of the newest sign-in."""
        url: str | None = self._read().get("last")
        return url

    def has(self, url: str) -> bool:
        """Return whether somebody has signed in to this deployment."""
        return _plain(url) in self._read().get("tokens", {})

    def access(self, url: str) -> str:
        """A token for this deployment, renewed if it has to be. Raises ApiError."""
        fields = self._read().get("tokens", {}).get(_plain(url))
        if fields is None:
            raise ApiError(f"sign in first: layover login --url {url}", USAGE)
        tokens = Tokens(**fields)
        if tokens.expires_at - EARLY_S > time.time():
            return tokens.access
        if tokens.refresh is None:
            raise ApiError(f"sign in again: layover login --url {url}", USAGE)
        answer = refresh_tokens(Provider.of(tokens.issuer), tokens.client_id, tokens.refresh)
        self.save(url, tokens_of(answer, tokens.issuer, tokens.client_id, tokens.refresh))
        return str(answer["access_token"])

    def _read(self) -> dict[str, Any]:
        try:
            document: dict[str, Any] = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ApiError(f"{self.path} is damaged: delete it and sign in again", USAGE) from error
        return document

    def _write(self, document: dict[str, Any]) -> None:
        """Whole or not at all, and never readable by others, not even for a moment."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self.path.with_name(f"{FILE}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(fresh, flags, 0o600), "w") as file:
            json.dump(document, file)
        fresh.replace(self.path)


def caller(
    url: str, user: str, token: str, tokens: TokenFile, local: str = LOCAL
) -> tuple[str, str]:
    """Return the API's address and the caller's header: this token, this user of a system here (`local`), or
    the user that is signed in. Raises ApiError."""
    where = url or (local if user or token else tokens.last())
    if where is None:
        raise ApiError(
            "sign in first: layover login --url URL (the deployment's output ApiUrl)", USAGE
        )
    return where, token or (f"dev:{user}" if user else tokens.access(where))


def tokens_of(
    answer: dict[str, Any], issuer: str, client_id: str, refresh: str | None = None
) -> Tokens:
    """The tokens of a token endpoint's answer; one that gives no new refresh token leaves the old."""
    return Tokens(
        access=str(answer["access_token"]),
        refresh=answer.get("refresh_token", refresh),
        expires_at=time.time() + float(answer.get("expires_in", 3600)),
        issuer=issuer,
        client_id=client_id,
    )


def _plain(url: str) -> str:
    return url.rstrip("/")
