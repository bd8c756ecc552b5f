"""An OpenID provider as a public client meets it: discovery, codes with PKCE, refresh tokens."""

import base64
import hashlib
import json
import secrets
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from layover.desk.cli.client import NO_ANSWER, REFUSED, ApiError
from layover.desk.local.doors import LOOPBACK

_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Provider:
    """An OIDC provider: its sign-in page, and the endpoint that exchanges codes for tokens."""

    authorize: str
    token: str

    @classmethod
    def of(cls, issuer: str) -> "Provider":
        """As the issuer says itself (OpenID Connect Discovery). Raises ApiError."""
        issuer = issuer.rstrip("/")
        document = _request(f"{issuer}/.well-known/openid-configuration")
        if str(document.get("issuer", "")).rstrip("/") != issuer:
            raise ApiError(f"{issuer} says that it is another issuer", REFUSED)
        return cls(
            over_tls(document["authorization_endpoint"]), over_tls(document["token_endpoint"])
        )


@dataclass(frozen=True)
class SignInAttempt:
    """One sign-in: what proves that the code was asked for by us (RFC 7636), and that the answer is ours."""

    client_id: str
    redirect_uri: str
    scope: str
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    state: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def url(self, provider: Provider) -> str:
        """The page to open in a browser."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": self.scope,
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(provider.authorize).query else "?"
        return f"{provider.authorize}{joint}{urlencode(query)}"

    def redeem(self, provider: Provider, code: str) -> dict[str, Any]:
        """The tokens of a code. Raises ApiError."""
        return _tokens(
            provider,
            {
                "grant_type": "authorization_code",
                "client_id": self.client_id,
                "redirect_uri": self.redirect_uri,
                "code": code,
                "code_verifier": self.verifier,
            },
        )


def refresh_tokens(provider: Provider, client_id: str, refresh: str) -> dict[str, Any]:
    """New tokens for a refresh token. Raises ApiError."""
    form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": refresh}
    return _tokens(provider, form)


def _tokens(provider: Provider, form: dict[str, str]) -> dict[str, Any]:
    answer = _request(provider.token, urlencode(form).encode())
    if not answer.get("access_token"):
        raise ApiError("the provider gave no access token", REFUSED)
    return answer


def over_tls(url: object) -> str:
    """Return the URL, if data sent there goes over TLS or stays on this machine. Raises ApiError."""
    parts = urlsplit(str(url))
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise ApiError(f"tokens would be sent in the clear, to {url}", REFUSED)
    return str(url)


def _request(url: str, form: bytes | None = None) -> dict[str, Any]:
    """A JSON object; nothing that was sent is in an error."""
    here = urlsplit(over_tls(url)).hostname in LOOPBACK
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if here else []))
    try:
        with opener.open(urllib.request.Request(url, form), timeout=_TIMEOUT_S) as answer:
            document = json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise ApiError(f"the provider refused: {_reason(error)}", REFUSED) from error
    except OSError as error:
        raise ApiError(f"no answer from {urlsplit(url).netloc}", NO_ANSWER) from error
    except ValueError as error:
        raise ApiError(
            f"{urlsplit(url).netloc} does not answer as a provider", NO_ANSWER
        ) from error
    if not isinstance(document, dict):
        raise ApiError(f"{urlsplit(url).netloc} does not answer as a provider", NO_ANSWER)
    return document


def _reason(error: urllib.error.HTTPError) -> str:
    """`error` of RFC 6749, or the status."""
    try:
        text = str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError, OSError):
        text = str(error.code)
    return text[:100]
