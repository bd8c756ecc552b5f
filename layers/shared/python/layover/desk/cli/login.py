"""`layover login`: the browser signs in at the deployment's provider, and the code comes back over
loopback."""

import hmac
import time
import webbrowser
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from layover.desk.cli.client import REFUSED, USAGE, Api, ApiError
from layover.desk.cli.oidc import Provider, SignInAttempt, over_tls
from layover.desk.cli.tokens import TokenFile, Tokens, tokens_of
from layover.desk.failures import report_failure
from layover.values.deployment.access import DISCOVERY

PORT = 8976
"""Part of the callback that a provider compares letter by letter."""
SIGN_IN_TIMEOUT_S = 300.0
"""Time for a user to sign in."""
_PAGE = b"<!doctype html><meta charset=utf-8><title>Layover</title><p>You may close this page.</p>"


@report_failure
def login(
    url: str,
    tokens: TokenFile,
    port: int = PORT,
    browse: Callable[[str], Any] = webbrowser.open,
    patience_s: float = SIGN_IN_TIMEOUT_S,
) -> int:
    """Sign in and keep the tokens. Return the exit code."""
    signed_in = sign_in(url, port, browse, patience_s)
    agents = Api(url, signed_in.access).get("/agents")["items"]
    tokens.save(url, signed_in)
    print(f"signed in to {url}: {', '.join(a['name'] for a in agents) or 'no agents'}")
    return 0


def sign_in(
    url: str,
    port: int,
    browse: Callable[[str], Any],
    patience_s: float,
    scope: str | None = None,
) -> Tokens:
    """Return the tokens of the user who signs in, for this scope or the API's. Raises ApiError."""
    access = Api(over_tls(url), "").get(DISCOVERY)
    issuer, client_id = access["issuer"], access["client_id"]
    if issuer is None:
        raise ApiError(f"{url} needs no sign-in: use --user NAME", USAGE)
    if client_id is None:
        raise ApiError(f"{url} names no client of {issuer} to sign in with", REFUSED)
    provider = Provider.of(issuer)
    with Callback(port) as callback:
        scopes = scope or f"openid {access['login_scope'] or access['scope']}"
        attempt = SignInAttempt(client_id, callback.uri, scopes)
        page = attempt.url(provider)
        print(f"sign in with a browser of this machine:\n  {page}", flush=True)
        browse(page)
        code = callback.code(attempt.state, patience_s)
    return tokens_of(attempt.redeem(provider, code), issuer, client_id)


class Callback:
    """Listens, only on this machine, for the browser to come back."""

    def __init__(self, port: int) -> None:
        try:
            self._server = _Server(("127.0.0.1", port), _Page)
        except OSError as error:
            raise ApiError(f"port {port} is taken: {error.strerror}", USAGE) from error
        self.uri = f"http://localhost:{self._server.server_port}/callback"

    def __enter__(self) -> "Callback":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def code(self, state: str, patience_s: float) -> str:
        """The code of the answer with this state; other requests are ignored. Raises ApiError."""
        until = time.monotonic() + patience_s
        while (rest := until - time.monotonic()) > 0:
            self._server.timeout = rest
            self._server.handle_request()
            for answer in self._server.take_answers():
                if not hmac.compare_digest(answer.get("state", ""), state):
                    continue
                if "code" in answer:
                    return answer["code"]
                raise ApiError(
                    f"the sign-in failed: {answer.get('error', 'no code')[:100]}", REFUSED
                )
        raise ApiError("nobody signed in", REFUSED)


class _Server(HTTPServer):
    """Keeps the requests to /callback."""

    def __init__(self, *args: Any) -> None:
        self._came: list[dict[str, str]] = []
        super().__init__(*args)

    def keep(self, query: str) -> None:
        """One answer of the provider's."""
        self._came.append({name: values[0] for name, values in parse_qs(query).items()})

    def take_answers(self) -> list[dict[str, str]]:
        """Return the lines since the last call."""
        came, self._came = self._came, []
        return came


class _Page(BaseHTTPRequestHandler):
    """Answers with a page that repeats nothing of the request."""

    server: _Server
    timeout = 5

    def do_GET(self) -> None:
        """The browser's way back, or its question for an icon."""
        parts = urlsplit(self.path)
        is_callback = parts.path == "/callback"
        if is_callback:
            self.server.keep(parts.query)
        self.send_response(200 if is_callback else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(_PAGE)))
        self.end_headers()
        self.wfile.write(_PAGE)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the code is in the request's line."""
