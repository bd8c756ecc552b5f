"""A proxy between the functions and their services. A test decides what becomes of each request."""

import http.client
import http.server
import io
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

TARGET_LIMIT_S = 30.0
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "host", "content-length"})


class Unbroken(io.BufferedReader):
    """A client's bytes, which end between requests or not at all.

    http.client takes an end for the end of the headers, Werkzeug a cut body for the whole one: half a
    request of an environment that was killed would be carried out."""

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


@dataclass(frozen=True)
class Request:
    """A request of an AWS client. `action`: `TransactWriteItems`, or the method for S3."""

    service: str
    action: str
    attempt: int
    body: str


@dataclass(frozen=True)
class Refused:
    """The connection is reset before anything was done."""


@dataclass(frozen=True)
class Lost:
    """It is done, and the connection is reset before the answer."""


@dataclass(frozen=True)
class Failed:
    """An error answer; nothing was done."""

    status: int
    code: str


Fault = Refused | Lost | Failed
Choose = Callable[[Request], Fault | None]

WRITES = frozenset(
    {
        *("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"),
        *("StartExecution", "SendTaskSuccess", "StopExecution", "PutEvents"),
    }
)


class AwsProxy:
    """Passes requests on to the endpoint whose URL the file holds; `choose` may spoil them."""

    def __init__(self, behind: Path) -> None:
        self.choose: Choose = lambda _: None
        self.spoilt = 0
        self._behind = behind
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Value of AWS_ENDPOINT_URL."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def target(self) -> tuple[str, int]:
        """Host and port of what is behind."""
        parts = urlsplit(_read(self._behind))
        return str(parts.hostname), int(parts.port or 80)

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    owner: AwsProxy

    def setup(self) -> None:
        super().setup()
        self.rfile = Unbroken(self.rfile.detach())
        self._onward: http.client.HTTPConnection | None = None

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        if self._onward is not None:
            self._onward.close()

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fault = self.owner.choose(self._named(body))
        self.owner.spoilt += fault is not None
        match fault:
            case Refused():
                self._reset()
            case Failed(status, code):
                document = json.dumps({"__type": code, "message": "the test says so"})
                self._send(
                    status, {"content-type": "application/x-amz-json-1.0"}, document.encode()
                )
            case Lost():
                self._forward(body)
                self._reset()
            case None:
                self._send(*self._forward(body))

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _pass

    def _named(self, body: bytes) -> Request:
        service, _, action = self.headers.get("x-amz-target", "").partition(".")
        attempt = re.search(r"attempt=(\d+)", self.headers.get("amz-sdk-request", ""))
        text = body.decode("utf-8", "replace")
        return Request(service, action or self.command, int(attempt[1]) if attempt else 1, text)

    def _forward(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        if self._onward is None:
            self._onward = http.client.HTTPConnection(*self.owner.target(), timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
        self._onward.request(self.command, self.path, body, headers)
        response = self._onward.getresponse()
        answer = response.read()
        return response.status, dict(response.getheaders()), answer

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        lines = [f"HTTP/1.1 {status} Status"]
        lines += [f"{k}: {v}" for k, v in headers.items() if k.lower() not in _HOP_BY_HOP]
        lines += [f"content-length: {len(body)}", "", ""]
        self.wfile.write("\r\n".join(lines).encode() + body)

    def _reset(self) -> None:
        _reset(self.connection)
        self.close_connection = True


class PostgresProxy:
    """Passes connections on to the Unix socket of the DSN that the file holds."""

    def __init__(self, behind: Path) -> None:
        self.up = True
        self._behind = behind
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Value of LAYOVER_DATABASE_URL."""
        port = self._listener.getsockname()[1]
        return f"postgresql://layover_runtime@127.0.0.1:{port}/postgres"

    def go_down(self) -> None:
        """Cut what is open, refuse what comes."""
        self.up = False
        with self._lock:
            for each in self._open:
                _reset(each, read=True)
            self._open.clear()

    def stop(self) -> None:
        """Stop listening, cut what is open."""
        self._stopped.set()
        self.go_down()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                # A client that was gone at once ends nothing; a closed listener does.
                if self._stopped.wait(0.05):
                    return
                continue
            if self.up:
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()
            else:
                _reset(client)

    def _connect(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        try:
            folder = parse_qs(urlsplit(_read(self._behind)).query)["host"][0]
            server.connect(f"{folder}/.s.PGSQL.5432")
        except OSError:
            # A function connects while its system stops.
            server.close()
            return _reset(client)
        with self._lock:
            # A connection that came just before it went down is cut as well.
            up = self.up
            if up:
                self._open |= {client, server}
        if not up:
            server.close()
            return _reset(client)
        threading.Thread(target=self._copy, args=(client, server), daemon=True).start()
        self._copy(server, client)
        with self._lock:
            self._open -= {client, server}
        for each in (client, server):
            each.close()
        return None

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _reset(connection: socket.socket, read: bool = False) -> None:
    """Close with RST, not FIN. `read`: another thread may be reading, and closing has no effect until it is
    woken."""
    with suppress(OSError):
        if connection.family == socket.AF_INET:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        if read or connection.family != socket.AF_INET:
            connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _read(path: Path) -> str:
    until = time.monotonic() + TARGET_LIMIT_S
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"no {path}")
        time.sleep(0.05)
    return path.read_text()
