"""Web pages that may call the API: those of this machine, and those that `--origin` names."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from starlette.middleware.cors import CORSMiddleware

from layover.desk.local.doors import is_from_page
from layover.desk.local.http.event import Response
from layover.values.deployment import pages

Headers = list[tuple[bytes, bytes]]
_LOCALHOST = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?"
_MAX_AGE_S = 3600


class Cors:
    """An ASGI application that adds to the API's answers whether a page may read them, and refuses the
    requests of other pages. `/_local/*` answers only programs."""

    def __init__(self, app: Any, origins: Sequence[str] = ()) -> None:
        self._app = app
        self._shared = CORSMiddleware(
            app,
            allow_origins=list(origins),
            allow_origin_regex=_LOCALHOST,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=list(pages.SENT),
            expose_headers=list(pages.READ),
            max_age=_MAX_AGE_S,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI entry."""
        is_local = scope["path"].startswith("/_local/")
        if self._is_strange(scope["headers"], is_local):
            await _refuse(scope["type"], receive, send)
        elif scope["type"] == "http" and not is_local:
            await self._shared(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_strange(self, headers: Headers, is_local: bool) -> bool:
        """Return whether a page asks that may not."""
        if is_local:
            return is_from_page(name.decode("latin-1").lower() for name, _ in headers)
        origins = [value.decode("latin-1") for name, value in headers if name.lower() == b"origin"]
        return not all(map(self._shared.is_allowed_origin, origins))


async def _refuse(kind: str, receive: Any, send: Any) -> None:
    """Refuse a request or, of the kind `websocket`, a handshake."""
    prefix = "websocket.http" if kind == "websocket" else "http"
    if kind == "websocket":
        await receive()
    detail = "this page may not call the system: name its origin with --origin (make dev)"
    answer = Response.problem(HTTPStatus.FORBIDDEN, "wrong-origin", detail)
    length = (b"content-length", str(len(answer.body)).encode())
    start = {"type": f"{prefix}.response.start", "status": answer.status}
    await send({**start, "headers": [*answer.headers, length]})
    await send({"type": f"{prefix}.response.body", "body": answer.body})
