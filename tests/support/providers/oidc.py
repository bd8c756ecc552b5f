"""A deployment and its OpenID provider on loopback: enough of both to sign in, and strict about it."""

import base64
import hashlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit


class Deployment:
    """The API and the provider in one server. Attributes change what they answer."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.issuer: str | None = f"{self.url}/pool"
        self.says_issuer = self.issuer
        self.token_endpoint = f"{self.url}/token"
        self.client_id: str | None = "people"
        self.login_scope: str | None = None
        self.expires_in = 3600
        self.tokens_begin = "access-"
        """With a number behind it, this is a token."""
        self.denies = False
        self.refuses_refresh = False
        self.given = 0
        """The number of access tokens given."""
        self._codes: dict[str, dict[str, str]] = {}
        self.places: list[str] = []
        """The URLs that sign-ins wanted to return to."""
        self.scopes: list[str] = []
        """The scopes that sign-ins requested."""
        self.refresh = "refresh"
        """The refresh token that works; revoking it makes it another one."""
        self.sessions = 0
        """1 if the browser is signed in at the provider, which then shows no page."""
        self.has_ends = True
        """Whether its document names how tokens and sessions are ended."""
        self.ends: list[dict[str, str]] = []
        """The requests that revoked a token or ended the session."""
        self.wrong: list[str] = []
        """The complaints that a careful provider would make."""

    def __enter__(self) -> "Deployment":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)

    @property
    def token(self) -> str:
        """The newest access token."""
        return f"{self.tokens_begin}{self.given}"

    def get(self, path: str, query: dict[str, str], headers: Any) -> tuple[int, Any]:
        """The answer to a GET: status and JSON, or a place to go to."""
        match path:
            case "/.well-known/layover":
                known = {"issuer": self.issuer, "client_id": self.client_id}
                known["login_scope"] = self.login_scope
                return 200, {**known, "scope": "layover/use", "act_as_scope": "layover/act-as"}
            case "/pool/.well-known/openid-configuration":
                found = {"issuer": self.says_issuer, "token_endpoint": self.token_endpoint}
                if self.has_ends:
                    found["revocation_endpoint"] = f"{self.url}/revoke"
                    found["end_session_endpoint"] = f"{self.url}/logout"
                return 200, {**found, "authorization_endpoint": f"{self.url}/authorize"}
            case "/authorize":
                self.sessions = 1
                return 302, self._authorize(query)
            case "/logout":
                self.sessions = 0
                self.ends.append(query)
                return 302, query["logout_uri"]
            case "/agents" if headers.get("Authorization") == f"Bearer {self.token}":
                return 200, {"items": [{"name": "support"}], "next_cursor": None}
        return 401, {"title": "no"}

    def _authorize(self, query: dict[str, str]) -> str:
        if query.get("response_type") != "code" or query.get("code_challenge_method") != "S256":
            self.wrong.append("no code with PKCE was asked for")
        self.places.append(query["redirect_uri"])
        self.scopes.append(query.get("scope", ""))
        scope = self.login_scope or "layover/use"
        if query.get("scope") not in (f"openid {scope}", "openid aws.cognito.signin.user.admin"):
            self.wrong.append(f"scope {query.get('scope')}")
        answer = {"state": query["state"]}
        if self.denies:
            return f"{query['redirect_uri']}?{urlencode(answer | {'error': 'access_denied'})}"
        code = f"code-{len(self._codes)}"
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode(answer | {'code': code})}"

    def post(self, path: str, form: dict[str, str]) -> tuple[int, Any]:
        """The token endpoint, and the one that revokes."""
        if path == "/revoke":
            self.ends.append(form)
            if form["token"] == self.refresh:
                self.refresh = f"{self.refresh}-again"
            return 200, {}
        if form.get("grant_type") == "refresh_token":
            known = form.get("refresh_token") == self.refresh and not self.refuses_refresh
            return (200, self._tokens()) if known else (400, {"error": "invalid_grant"})
        asked = self._codes.pop(form.get("code", ""), None)
        if asked is None:
            return 400, {"error": "invalid_grant"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        same = all(asked[name] == form[name] for name in ("client_id", "redirect_uri"))
        if proof != asked["code_challenge"] or not same:
            return 400, {"error": "invalid_grant"}
        return 200, self._tokens() | {"refresh_token": self.refresh, "id_token": "who"}

    def _tokens(self) -> dict[str, Any]:
        self.given += 1
        return {"access_token": self.token, "token_type": "Bearer", "expires_in": self.expires_in}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        deployment = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {k: v[0] for k, v in parse_qs(parts.query).items()}
                self._send(*deployment.get(parts.path, query, self.headers))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {k: v[0] for k, v in parse_qs(body).items()}
                self._send(*deployment.post(urlsplit(self.path).path, form))

            def _send(self, status: int, answer: Any) -> None:
                body = b"" if status == 302 else json.dumps(answer).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", answer)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Access-Control-Allow-Origin", "*")  # As Cognito answers.
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        return Handler


class Browser:
    """Opens a page in its own thread, as `webbrowser` does, and follows its redirects. `first`: what else
    comes to the callback before that."""

    def __init__(self, *first: Callable[[str], str]) -> None:
        self._first = first
        self._thread: threading.Thread | None = None
        self.shown = ""

    def __call__(self, page: str) -> bool:
        self._thread = threading.Thread(target=self._visit, args=(page,), daemon=True)
        self._thread.start()
        return True

    def _visit(self, page: str) -> None:
        back = parse_qs(urlsplit(page).query)["redirect_uri"][0]
        for other in self._first:
            self._open(other(back))
        self.shown = self._open(page)

    def _open(self, url: str) -> str:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(url, timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return str(error.code)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.join(60)
