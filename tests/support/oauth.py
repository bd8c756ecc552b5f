"""An authorization server that keeps the rules of OAuth 2.1: PKCE, codes that work once, refresh tokens that
rotate, and the end of a grant whose old refresh token comes back."""

import asyncio
import json
import threading
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from layover.clock import ManualClock
from layover.errors import RetryableError
from layover.ports.grants import Grants, TokenRefused
from layover.values.grant import Consent, Grant

Answer = tuple[int, Any]
TOKEN_URL = "https://accounts.example.com/token"
REVOKE_URL = "https://accounts.example.com/revoke"
REDIRECT_URL = "https://layover.example.com/connected"


@dataclass
class _Code:
    user: str
    scope: str
    challenge: str
    redirect_uri: str


@dataclass
class OAuthServer:
    """`lives`: seconds of an access token; None: it does not say. `rotates`: each renewal gives a new refresh
    token, and the old one ends the grant. `odd`: answers in place of its own, one for each request to the
    token endpoint."""

    clock: Any = field(default_factory=ManualClock)
    client_id: str = "layover"
    client_secret: str | None = None
    basic: bool = False
    lives: float | None = 3600
    rotates: bool = True
    gives_refresh: bool = True
    odd: list[Any] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of each request over HTTP, names in lower case."""
    revoked: list[str] = field(default_factory=list)
    codes: dict[str, _Code] = field(default_factory=dict)
    access: dict[str, tuple[str, float | None]] = field(default_factory=dict)
    """User and expiry, by access token."""
    refresh: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """User, and whether it was used, by refresh token."""
    ended: set[str] = field(default_factory=set)
    """Users whose grant is over."""
    _n: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def renewals(self) -> int:
        return sum(form.get("grant_type") == "refresh_token" for form in self.forms)

    def consent(self, authorize_url: str, user: str = "octocat") -> dict[str, str]:
        """Consent at the page; return what the browser comes back with: `{code, state}`."""
        asked = dict(parse_qsl(urlsplit(authorize_url).query))
        assert asked["response_type"] == "code"
        assert asked["client_id"] == self.client_id
        assert asked["code_challenge_method"] == "S256"
        code = self._new("code")
        scope = asked.get("scope", "")
        self.codes[code] = _Code(user, scope, asked["code_challenge"], asked["redirect_uri"])
        self.ended.discard(user)
        return {"code": code, "state": asked["state"]}

    def who(self, token: str) -> str | None:
        """Return the user of a valid access token: what an API behind it does."""
        user, until = self.access.get(token, ("", 0.0))
        valid = user and user not in self.ended and (until is None or self._now() < until)
        return user if valid else None

    def live(self, user: str) -> list[str]:
        """Return the refresh tokens of a user that would be taken, of those that nobody has ended."""
        mine = [
            token for token, (whose, used) in self.refresh.items() if whose == user and not used
        ]
        return [token for token in mine if token not in self.revoked]

    def end(self, user: str = "octocat") -> None:
        """The user takes the consent back at the service."""
        self.ended.add(user)

    def token(self, form: Mapping[str, str], client: tuple[str, str] | None) -> Answer:
        """Answer a request to the token endpoint."""
        with self._lock:
            self.forms.append(dict(form))
            if self.odd:
                odd = self.odd.pop(0)
                if odd is not None:
                    return (200, odd) if not isinstance(odd, tuple) else odd
            return self._token(form, client)

    def _token(self, form: Mapping[str, str], client: tuple[str, str] | None) -> Answer:
        given = client or (form.get("client_id", ""), form.get("client_secret", ""))
        if given != (self.client_id, self.client_secret or "") or (client is None) is self.basic:
            return 401, {"error": "invalid_client"}
        match form.get("grant_type"):
            case "authorization_code":
                return self._exchange(form)
            case "refresh_token":
                return self._renew(form)
            case "client_credentials":
                return 200, self._tokens("machine", form.get("scope", ""), refresh=False)
        return 400, {"error": "unsupported_grant_type"}

    def _exchange(self, form: Mapping[str, str]) -> Answer:
        code = self.codes.pop(form.get("code", ""), None)
        verifier = form.get("code_verifier", "")
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        if code is None or code.challenge != challenge:
            return 400, {"error": "invalid_grant"}
        if code.redirect_uri != form.get("redirect_uri"):
            return 400, {"error": "invalid_grant"}
        return 200, self._tokens(code.user, code.scope, refresh=self.gives_refresh)

    def _renew(self, form: Mapping[str, str]) -> Answer:
        old = form.get("refresh_token", "")
        user, was_used = self.refresh.get(old, ("", False))
        if not user or user in self.ended:
            return 400, {"error": "invalid_grant"}
        if was_used:
            # A token that comes back was stolen, or kept by nobody.
            self.ended.add(user)
            return 400, {"error": "invalid_grant"}
        if self.rotates:
            self.refresh[old] = (user, True)
        return 200, self._tokens(user, "", refresh=self.rotates)

    def _tokens(self, user: str, scope: str, *, refresh: bool) -> dict[str, Any]:
        access = self._new("access")
        until = None if self.lives is None else self._now() + self.lives
        self.access[access] = (user, until)
        answer: dict[str, Any] = {"access_token": access, "token_type": "bearer"}
        if self.lives is not None:
            answer["expires_in"] = self.lives
        if scope:
            answer["scope"] = scope
        if refresh:
            answer["refresh_token"] = self._new("refresh")
            self.refresh[answer["refresh_token"]] = (user, False)
        return answer

    def _new(self, kind: str) -> str:
        self._n += 1
        return f"{kind}-{self._n}"

    def _now(self) -> float:
        return float(self.clock.now().timestamp())


class Endpoints:
    """`TokenEndpoints` in this process, before the server. `gate`: an answer waits until it is set, and
    `waiting` counts them. `down`: the service answers nothing; `is_deaf`: it takes no word that a grant is
    over; `refuses`: its answer to that."""

    def __init__(self, server: OAuthServer) -> None:
        self.server = server
        self.gate: asyncio.Event | None = None
        self.waiting = 0
        self.down = False
        self.is_deaf = False
        self.refuses: str | None = None

    async def ask(
        self, url: str, form: Mapping[str, str], client: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        if self.down:
            raise RetryableError("accounts.example.com did not answer")
        if url == REVOKE_URL and self.refuses is not None:
            raise TokenRefused(self.refuses)
        if url == REVOKE_URL and self.is_deaf:
            raise RetryableError("accounts.example.com did not answer")
        if url == REVOKE_URL:
            self.server.revoked.append(form["token"])
            return {}
        assert url == TOKEN_URL
        status, answer = self.server.token(form, client)
        if self.gate is not None:
            self.waiting += 1
            await self.gate.wait()
        if status == 429 or status >= 500:
            raise RetryableError(f"accounts.example.com answered with status {status}")
        if status != 200:
            raise TokenRefused(answer["error"])
        return dict(answer)


@contextmanager
def served(server: OAuthServer) -> Iterator[str]:
    """Serve the token endpoint over HTTP on loopback; its URL. An odd answer may be bytes, with a status:
    `(status, bytes)`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """The page at which everybody consents, each time as another user; and the tokens of one."""
            asked = dict(parse_qsl(urlsplit(self.path).query))
            if self.path.startswith("/live"):
                tokens = json.dumps(server.live(asked["user"])).encode()
                self._answer(200, "application/json", tokens)
                return
            back = urlencode(server.consent(self.path, user=asked["state"]))
            self.send_response(302)
            self.send_header("location", f"{asked['redirect_uri']}?{back}")
            self.send_header("content-length", "0")
            self.end_headers()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            client = None
            if (header := self.headers.get("authorization")) is not None:
                pair = b64decode(header.removeprefix("Basic ")).decode().partition(":")
                client = (unquote(pair[0]), unquote(pair[2]))
            form = dict(parse_qsl(body))
            if self.path.endswith("/revoke"):
                server.revoked.append(form["token"])
                self._answer(200, "application/json", b"{}")
                return
            status, answer = server.token(form, client)
            kind = "application/json"
            if isinstance(answer, tuple):
                kind, answer = answer
            raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self._answer(status, kind, raw)

        def _answer(self, status: int, kind: str, raw: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(raw)))
            if 300 <= status < 400:
                self.send_header("location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/token"
        finally:
            http.shutdown()
            thread.join()


async def keep(grants: Grants, grant: Grant, state: str = "kept") -> Grant:
    """Keep a grant whose owner was asked for it; return it as it is kept."""
    asked = Consent(
        owner=grant.owner,
        connection=grant.connection,
        scopes=grant.scopes,
        redirect_url=REDIRECT_URL,
        sealed_verifier="v",
        asked_at=grant.began_at,
        expires_at=grant.began_at + timedelta(hours=1),
    )
    await grants.put_consent(state, asked)
    kept = await grants.put(grant, state)
    assert kept is not None
    return kept


class Sealed:
    """A sealer whose texts say nothing of what is in them, and open only with their context."""

    def __init__(self) -> None:
        self.texts: dict[str, tuple[str, dict[str, str]]] = {}
        self.opened = 0

    async def seal(self, text: str, context: Mapping[str, str]) -> str:
        name = f"sealed-{len(self.texts)}"
        self.texts[name] = (text, dict(context))
        return name

    async def open(self, sealed: str, context: Mapping[str, str]) -> str:
        text, own = self.texts.get(sealed, ("", {}))
        if own != dict(context):
            raise ValueError("sealed with another context")
        self.opened += 1
        return text
