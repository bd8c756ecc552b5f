"""HTTP to a model's provider: pooled connections of each event loop, and faults in this project's words.

Nothing here imports a provider's package: `openai` alone costs 0.2 s of a cold start
(docs/performance.md#openai-client)."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from layover.adapters.models.faults import (
    ProviderFault,
    from_status,
    make_disconnect_fault,
    not_configured,
    unusable,
)
from layover.adapters.tls import system_trust
from layover.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT_S = 5.0
KEEP_ALIVE_S = 120.0
"""Longer than the 5 s of the client's default: a tool may run between two model calls."""
MAX_CONNECTIONS = 1000
MAX_IDLE_CONNECTIONS = 100

Headers = Mapping[str, str]
Authorize = Callable[[str, bytes], Awaitable[Headers]]
"""The headers, names in lower case, that let a POST of JSON with this URL and body in. Raises
ProviderFault."""
Key = str | Callable[[], str | None] | None
"""A provider's key, or a function that reads it; None: it needs none."""
Refusal = Callable[[int, object, Headers], ProviderFault]
"""Translates an error status into a fault, given the decoded body (or its text) and the headers."""


def bearer(key: Key) -> Authorize:
    """The same key for every request. A function is called before the first one: it blocks until the key is
    read, and the request fails with its ConfigurationError as a fault, or with its RetryableError."""
    headers: dict[str, str] = {}

    async def authorize(url: str, body: bytes) -> Headers:
        if not headers:
            try:
                value = key() if callable(key) else key
            except ConfigurationError as error:
                raise not_configured(str(error)) from error
            # A user's own servers often need no key.
            headers["authorization"] = f"Bearer {value or 'none'}"
        return headers

    return authorize


class Endpoint:
    """One provider's base URL. Nothing is imported or opened before the first request."""

    def __init__(self, base_url: str, authorize: Authorize, refusal: Refusal = from_status) -> None:
        self.base_url = base_url
        self._authorize = authorize
        self._refusal = refusal
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = (
            WeakKeyDictionary()
        )

    async def post(
        self, path: str, body: bytes, headers: Headers, silence_s: float, *, stream: bool = False
    ) -> "httpx2.Response":
        """The answer to a JSON body: read, or open where `stream`. `silence_s`: the longest pause
        between two of its bytes. Raises ProviderFault, for an answer with an error status, too."""
        import httpx2

        try:
            url = _joined(httpx2.URL(self.base_url), path)
            all_headers = {
                "accept": "application/json",
                "content-type": "application/json",
                **await self._authorize(str(url), body),
                **headers,
            }
            timeout = httpx2.Timeout(silence_s, connect=CONNECT_TIMEOUT_S)
            client = self._client()
            request = client.build_request(
                "POST", url, content=body, headers=all_headers, timeout=timeout
            )
            response = await client.send(request, stream=stream)
        except httpx2.HTTPError as error:
            raise broken(error) from error
        except (httpx2.InvalidURL, UnicodeError, ExceptionGroup) as error:
            raise unusable(error) from error
        if response.is_success:
            return response
        try:
            await read(response)
            error_body = json_or_text(response.text)
            raise self._refusal(response.status_code, error_body, response.headers)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close this event loop's connections; the next request opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _client(self) -> "httpx2.AsyncClient":
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = _connections()
        return client


async def read(response: "httpx2.Response") -> None:
    """Read an open answer to its end. Raises ProviderFault."""
    import httpx2

    try:
        await response.aread()
    except httpx2.HTTPError as error:
        raise broken(error) from error


def broken(error: "httpx2.HTTPError") -> ProviderFault:
    """The connection was refused, or broke before the answer's end."""
    import httpx2

    return make_disconnect_fault(error, timeout=isinstance(error, httpx2.TimeoutException))


def json_or_text(text: str) -> object:
    """The decoded JSON, or the text where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _connections() -> "httpx2.AsyncClient":
    import httpx2

    limits = httpx2.Limits(
        max_connections=MAX_CONNECTIONS,
        max_keepalive_connections=MAX_IDLE_CONNECTIONS,
        keepalive_expiry=KEEP_ALIVE_S,
    )
    # One trust for all: each reading of the system's roots takes some 50 ms.
    return httpx2.AsyncClient(limits=limits, follow_redirects=True, verify=system_trust())


def _joined(base: "httpx2.URL", path: str) -> "httpx2.URL":
    """The path behind the base URL's own; a query of the base stays (some gateways want a version)."""
    own, mark, query = base.raw_path.partition(b"?")
    return base.copy_with(raw_path=own.rstrip(b"/") + path.encode() + mark + query)
