"""A threaded HTTP/1.1 server for WSGI applications that keeps connections and answers in one write.

Werkzeug's own closes every connection and writes head and body apart, which costs a TCP handshake
and, with Nagle and delayed ACK, up to 40 ms a request.
"""

import io
import logging
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable
from http.client import responses
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler

logger = logging.getLogger(__name__)

Environ = dict[str, Any]
StartResponse = Callable[..., object]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class Unbroken(io.BufferedReader):
    """What a client sends, which ends between requests or not at all.

    http.client takes an end for the end of the headers, Werkzeug a cut body for the whole one: half a
    request of an environment that was killed would be carried out.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        """`size` bytes. Raises ConnectionAbortedError if the client left before."""
        data = super().read(size)
        if size is not None and len(data) < size:
            raise ConnectionAbortedError
        return data

    def readline(self, size: int | None = -1, /) -> bytes:
        """A line, or `size` bytes of it. Raises ConnectionAbortedError if the client left before."""
        line = super().readline(size)
        if not line.endswith(b"\n") and len(line) != size:
            raise ConnectionAbortedError
        return line


class _Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    rfile: io.BufferedReader

    def setup(self) -> None:
        super().setup()
        self.rfile = Unbroken(self.rfile.detach())

    def handle_one_request(self) -> None:
        if not self.rfile.peek(1):
            self.close_connection = True
            return
        super().handle_one_request()

    def run_wsgi(self) -> None:
        if self.headers.get("Expect", "").strip().lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.wfile.flush()
        environ = self.make_environ()
        # The whole body, read or not by the application: what is left over would be taken for
        # the next request of this connection.
        body = self._whole_body(environ)
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        environ.pop("wsgi.input_terminated", None)
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        app: Any = self.server.app
        try:
            answer = _call(app, environ)
        except Exception:
            logger.exception("%s %s", self.command, environ.get("HTTP_X_AMZ_TARGET", self.path))
            answer = ("500 Error", [], b"")
        self._answer(*answer)

    def _whole_body(self, environ: Environ) -> bytes:
        stream = environ["wsgi.input"]
        if environ.get("wsgi.input_terminated"):
            return bytes(stream.read())
        return bytes(stream.read(int(environ.get("CONTENT_LENGTH") or 0)))

    def _answer(self, status: str, headers: list[tuple[str, str]], body: bytes) -> None:
        code = int(status.split(" ", 1)[0])
        self.send_response(code, responses.get(code, ""))
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and code not in (204, 304):
            self.wfile.write(body)
        self.wfile.flush()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing: the caller sees the status."""


def _call(app: App, environ: Environ) -> tuple[str, list[tuple[str, str]], bytes]:
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], exc_info: object = None
    ) -> Callable[[bytes], None]:
        started[:] = [(status, headers)]
        return lambda data: None

    chunks = app(environ, start_response)
    try:
        body = b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    return (*started[0], body)


class WsgiServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves `app` on a free loopback port until `stop`; a thread a connection."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256
    multithread = True
    multiprocess = False
    ssl_context = None
    passthrough_errors = False
    _server_version = "Layover"

    def __init__(self, app: App) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.app = app
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def url(self) -> str:
        """Base URL, without a slash at the end."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        """Serve in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop accepting; connections that are open end with their clients."""
        self.shutdown()
        self._thread.join(5)
        self.server_close()

    def log(self, level: str, message: str, *arguments: object) -> None:
        """Werkzeug's handler reports errors here."""
        if level == "error":
            print(message % arguments if arguments else message, file=sys.stderr)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no event; anything else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]
