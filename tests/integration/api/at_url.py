"""The API's function behind a URL of this machine, for commands that ask it over HTTP."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from functions.api.app import answer
from functions.api.call import Host
from integration.api.kit import USE, http_event


@contextmanager
def at_url(host: Host) -> Iterator[str]:
    """The URL while the block runs. Only the command asks meanwhile: the host has one loop."""
    server = HTTPServer(("127.0.0.1", 0), _handler(host))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(host: Host) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(size).decode() if size else None
            sub, scope = _caller(self.headers.get("authorization") or "")
            event = http_event(self.command, self.path, body, dict(self.headers), sub, scope=scope)
            self._send(answer(event, None, host))

        do_GET = do_POST = do_PUT = do_DELETE = handle_one

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def _send(self, result: Mapping[str, Any]) -> None:
            text = str(result["body"] or "").encode()
            self.send_response(result["statusCode"])
            for name, value in result["headers"].items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Handler


def _caller(header: str) -> tuple[str | None, str]:
    """Name and scopes of `Bearer dev:NAME;scopes=a,b`."""
    name, _, scopes = header.removeprefix("Bearer dev:").partition(";scopes=")
    return name or None, " ".join([USE, *(f"layover/{each}" for each in scopes.split(",") if each)])
