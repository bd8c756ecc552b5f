"""Requests through the proxy that the environment names, by a library that knows proxies."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import httpx2

from layover.adapters.http.client import Response
from layover.adapters.http.connection import ConnectionBroken
from layover.adapters.http.request import InvalidHeader, InvalidURL, Url
from layover.adapters.http.tls import system_trust


class ProxiedClient:
    """See Client; `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say which proxy is for what."""

    def __init__(self, max_connections: int, keep_alive_s: float, connect_timeout_s: float) -> None:
        self._limits = httpx2.Limits(max_connections=max_connections, keepalive_expiry=keep_alive_s)
        self._connect_timeout_s = connect_timeout_s
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = (
            WeakKeyDictionary()
        )

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        """See Client."""
        user = f"{url.user}@" if url.user else ""
        text = f"{url.scheme}://{user}{url.host}{url.path}"
        timeout = httpx2.Timeout(silence_s, connect=self._connect_timeout_s)
        with _translated():
            client = self._client()
            request = client.build_request(
                "POST", text, content=body, headers=dict(headers), timeout=timeout
            )
            return _ProxiedResponse(await client.send(request, stream=True))

    def dial(self, url: Url) -> None:
        """Nothing: the library connects only with a request."""

    async def aclose(self) -> None:
        """See Client."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _client(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            # It logs each request's URL, and some URLs are secrets.
            logging.getLogger("httpx2").setLevel(logging.WARNING)
            client = httpx2.AsyncClient(limits=self._limits, verify=system_trust())
            self._clients[loop] = client
        return client


class _ProxiedResponse(Response):
    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(response.status_code, response.headers)
        self._response = response

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        with _translated():
            async for piece in self._response.aiter_bytes():
                yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _translated() -> Iterator[None]:
    """Raise Client's errors for the library's."""
    try:
        yield
    except httpx2.TimeoutException as error:
        raise TimeoutError(str(error)) from error
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, ExceptionGroup) as error:
        raise InvalidURL(str(error)) from error
    except httpx2.LocalProtocolError as error:
        raise InvalidHeader("a header") from error
    except UnicodeEncodeError as error:
        raise InvalidHeader("a header") from error
    except httpx2.HTTPError as error:
        raise ConnectionBroken(str(error) or type(error).__name__) from error
