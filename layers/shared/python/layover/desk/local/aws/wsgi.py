"""A server for a WSGI application, with a thread for each request, and a shortcut for requests that need
none.

Werkzeug's own server closes every connection and writes head and body separately. That costs a TCP handshake
and, with Nagle's algorithm and delayed ACK, up to 40 ms for each request."""

import asyncio
import io
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from layover.desk.local.wire import Admits, Request, Response, WireServer, listen_on_loopback

T = TypeVar("T")
logger = logging.getLogger(__name__)

Environ = dict[str, Any]
StartResponse = Callable[..., object]
App = Callable[[Environ, StartResponse], Iterable[bytes]]
Shortcut = Callable[[Request], Response | None]

_THREADS = 256
"""An invocation holds one for as long as its function runs."""
_LIMIT_S = 5.0
# The key that moto.core.request reads. Importing the constant would import moto, for which a start does not
# wait.
_PRESERVED_NAMES = "moto.preserved_header_names"


class WsgiServer:
    """Serves `app` on a free loopback port until `stop`, in its own thread and event loop. It calls
    `shortcut` first, in that loop: that responds to requests that take no time, and returns None for the
    application's. Requests of web pages are refused, except for those that `admits_page` takes."""

    def __init__(
        self,
        app: App,
        shortcut: Shortcut | None = None,
        admits_page: Admits = lambda _: False,
    ) -> None:
        self._app = app
        self._shortcut = shortcut or (lambda _: None)
        self._server = WireServer(self._respond, admits_page)
        self._listener = listen_on_loopback()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._pool: ThreadPoolExecutor

    @property
    def url(self) -> str:
        """Base URL, without a slash at the end."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def start(self) -> None:
        """Serve in a thread."""
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="aws")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.run(self._server.start(self._listener))

    def stop(self) -> None:
        """Stop accepting, and close the connections."""
        if self._thread is not None:
            self.run(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_LIMIT_S)
            self._loop.close()
            # No client is left for what its threads still respond. They end with the process at the latest.
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._listener.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the server's loop, and return its result. For other threads, once the server has
        started."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_LIMIT_S)

    async def _close(self) -> None:
        self._server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _respond(self, request: Request) -> Response:
        try:
            response = self._shortcut(request)
            if response is None:
                response = await self._loop.run_in_executor(self._pool, _call, self._app, request)
        except Exception:
            target = request.headers.get("x-amz-target", request.path)
            logger.exception("%s %s", request.method, target)
            return Response(HTTPStatus.INTERNAL_SERVER_ERROR)
        return response


def _call(app: App, request: Request) -> Response:
    responses: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], exc_info: object = None
    ) -> Callable[[bytes], None]:
        responses[:] = [(status, headers)]
        return lambda data: None

    chunks = app(_environ(request), start_response)
    try:
        body = b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    ((status, headers),) = responses
    code = HTTPStatus(int(status.split(" ", 1)[0]))
    passed_headers = tuple(
        (name, value)
        for name, value in headers
        if name.lower() not in ("connection", "transfer-encoding")
    )
    bare = request.method == "HEAD" or code in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
    return Response(code, body, passed_headers, bare)


def _environ(request: Request) -> Environ:
    """Return the environment of PEP 3333, with the header names that moto reads."""
    path, _, query = request.path.partition("?")
    host, _, port = request.headers.get("host", "127.0.0.1:80").partition(":")
    environ: Environ = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "REQUEST_URI": request.path,
        "RAW_URI": request.path,
        "SERVER_NAME": host,
        "SERVER_PORT": port or "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    preserved: dict[str, str] = {}
    for name, value in request.headers.items():
        variable = name.upper().replace("-", "_")
        if variable == "CONTENT_TYPE":
            environ[variable] = value
        elif "_" in name:
            # WSGI cannot tell underscores from dashes; S3's metadata may have both.
            if name.startswith("x-amz-meta-"):
                preserved[f"HTTP_{variable}"] = name
                environ.setdefault(f"HTTP_{variable}", value)
        elif name not in ("content-length", "transfer-encoding"):
            environ[f"HTTP_{variable}"] = value
    return environ | {_PRESERVED_NAMES: preserved}
