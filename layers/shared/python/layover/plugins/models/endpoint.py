"""HTTP to a model's provider: pooled connections of each event loop, and faults in this project's words.

Nothing here imports a provider's package: `openai` by itself costs 0.2 s of a cold start
(docs/performance.md#openai-client)."""

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Protocol

from layover.adapters.http.client import Client, MakeClient, Response
from layover.adapters.http.direct import DirectClient
from layover.adapters.http.request import InvalidHeader, InvalidURL, join_url
from layover.errors import ConfigurationError
from layover.plugins.models.faults import (
    ProviderFault,
    from_status,
    make_disconnect_fault,
    not_configured,
    redirected,
    unusable,
)

Headers = Mapping[str, str]
Authorize = Callable[[str, bytes], Awaitable[Headers]]
"""The headers, names in lower case, that let a POST of JSON with this URL and body in. Raises
ProviderFault."""
Key = str | Callable[[], str | None] | None
"""A provider's key, or a function that reads it; None: it needs none."""
Refusal = Callable[[int, object, Headers], ProviderFault]
"""Translates an error status into a fault, given the decoded body (or its text) and the headers."""


def bearer(key: Key) -> Authorize:
    """The same key for every request, as OpenAI takes it; see `header_with`."""
    return header_with(key, "authorization", "Bearer ")


def header_with(key: Key, name: str, before: str = "") -> Authorize:
    """The same key for every request, in the header of this name. A function is called before the first one:
    it blocks until the key is read, and the request fails with its error."""
    headers: dict[str, str] = {}

    async def authorize(url: str, body: bytes) -> Headers:
        if not headers:
            value = key() if callable(key) else key
            # What a file or a copy has around a key is no part of it. A user's own servers often need none.
            headers[name] = f"{before}{(value or '').strip() or 'none'}"
        return headers

    return authorize


class Transport(Protocol):
    """Carries requests to one provider."""

    @property
    def base_url(self) -> str:
        """The URL that requests go to."""
        ...

    async def post(
        self, path: str, body: bytes, headers: Headers, silence_s: float, *, stream: bool = False
    ) -> Response:
        """See `Endpoint`."""
        ...

    def dial(self) -> None:
        """See `Endpoint`."""
        ...

    async def aclose(self) -> None:
        """See `Endpoint`."""
        ...


class Endpoint(Transport):
    """One provider's base URL. Nothing is opened before the first request."""

    def __init__(
        self,
        base_url: str,
        authorize: Authorize,
        refusal: Refusal = from_status,
        make_client: MakeClient = DirectClient,
    ) -> None:
        self._base_url = base_url
        self._authorize = authorize
        self._refusal = refusal
        self._make_client = make_client
        self._client: Client | None = None

    @property
    def base_url(self) -> str:
        """The URL that requests go to."""
        return self._base_url

    async def post(
        self, path: str, body: bytes, headers: Headers, silence_s: float, *, stream: bool = False
    ) -> Response:
        """The answer to a JSON body: read, or open where `stream`. `silence_s`: the longest pause
        between two of its bytes. Raises ProviderFault, for an answer with an error status, too."""
        try:
            url = join_url(self.base_url, path)
            all_headers = {
                "accept": "application/json",
                "content-type": "application/json",
                **await self._authorize(str(url), body),
                **headers,
            }
            response = await self._get_client().post(url, all_headers, body, silence_s)
        except (InvalidURL, InvalidHeader, UnicodeError) as error:
            raise unusable(error) from error
        except ConfigurationError as error:  # of the key, or of the proxy
            raise not_configured(str(error)) from error
        except OSError as error:
            raise broken(error) from error
        if response.is_success and stream:
            return response
        try:
            await read(response)
        finally:
            await response.aclose()
        if response.is_success:
            return response
        if response.status < 400:
            raise redirected(response.status, response.headers.get("location", ""))
        raise self._refusal(response.status, json_or_text(response.text), response.headers)

    def dial(self) -> None:
        """Begin to connect, unless a connection is idle. A request says what is wrong with the URL."""
        with suppress(InvalidURL, UnicodeError):
            self._get_client().dial(join_url(self.base_url, ""))

    def _get_client(self) -> Client:
        if self._client is None:
            self._client = self._make_client()
        return self._client

    async def aclose(self) -> None:
        """Close this event loop's connections; the next request opens new ones."""
        if self._client is not None:
            await self._client.aclose()


async def read(response: Response) -> None:
    """Read an open answer to its end. Raises ProviderFault."""
    try:
        await response.read()
    except OSError as error:
        raise broken(error) from error


def broken(error: OSError) -> ProviderFault:
    """The connection was refused, or broke before the answer's end."""
    return make_disconnect_fault(error, timeout=isinstance(error, TimeoutError))


def json_or_text(text: str) -> object:
    """The decoded JSON, or the text where it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
