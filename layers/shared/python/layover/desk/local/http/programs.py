"""A port for programs of the runner: the one of the stand-in model."""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from layover.desk.local.doors import Refusal, refusal_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_UNKNOWN_KEY = Refusal(
    HTTPStatus.UNAUTHORIZED, "the key is not this runner's: it is new at each start"
)


class ForPrograms:
    """An ASGI application that lets programs with `Authorization: Bearer KEY` reach `app`, and neither web
    pages nor other hosts."""

    def __init__(self, app: Callable[..., Awaitable[None]], key: str) -> None:
        self._app = app
        self._authorization = f"Bearer {key}".encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """ASGI entry."""
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        status = refusal.status.value
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": f"{refusal.detail}\n".encode()})

    def _refusal(self, scope: Message) -> Refusal | None:
        headers: dict[str, str] = {}
        for raw_name, raw_value in scope["headers"]:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]},{value}" if name in headers else value
        refusal = refusal_of(headers, scope["server"][1])
        sent = headers.get("authorization", "").encode("latin-1")
        is_known = hmac.compare_digest(sent, self._authorization)
        return refusal or (None if is_known else _UNKNOWN_KEY)
