"""Requests through the proxy that the environment names, by a library that knows proxies."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import httpx2
from httpx2._utils import get_environment_proxies

from layover.adapters.http.client import USER_AGENT, Client, Response
from layover.adapters.http.connection import ConnectionBroken
from layover.adapters.http.near import is_this_machine
from layover.adapters.http.request import InvalidHeader, InvalidURL, Url
from layover.adapters.http.tls import system_trust
from layover.errors import ConfigurationError


class RoutedClient:
    """See Client; servers of this machine are asked directly, all others as `far` asks them."""

    def __init__(self, near: Client, far: Client) -> None:
        self._near = near
        self._far = far

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        """See Client."""
        return await self._of(url).post(url, headers, body, silence_s)

    def dial(self, url: Url) -> None:
        """See Client."""
        self._of(url).dial(url)

    async def aclose(self) -> None:
        """See Client."""
        await self._near.aclose()
        await self._far.aclose()

    def _of(self, url: Url) -> Client:
        return self._near if is_this_machine(url.target.host) else self._far


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
            client = httpx2.AsyncClient(
                headers={"user-agent": USER_AGENT},
                limits=self._limits,
                verify=system_trust(),
                trust_env=False,
                mounts=self._mounts(),
            )
            self._clients[loop] = client
        return client

    def _mounts(self) -> dict[str, httpx2.AsyncBaseTransport | None]:
        """Return the library's ways by the addresses that take them. A proxy that it does not speak fails
        only the requests that need it: desktops set several at once."""
        mounts: dict[str, httpx2.AsyncBaseTransport | None] = {}
        for pattern, address in get_environment_proxies().items():
            mounts[pattern] = None if address is None else self._way(pattern, address)
        return mounts

    def _way(self, pattern: str, address: str) -> httpx2.AsyncBaseTransport:
        # GNOME's word for a SOCKS proxy, whose names it resolves.
        url = address.replace("socks://", "socks5h://", 1)
        try:
            return httpx2.AsyncHTTPTransport(
                verify=system_trust(), limits=self._limits, trust_env=False, proxy=url
            )
        except (ImportError, ValueError, httpx2.InvalidURL):
            return _Unspoken(pattern.partition(":")[0], address.partition(":")[0])


class _Unspoken(httpx2.AsyncBaseTransport):
    """The way through a proxy that cannot be asked. The address may have a password in it."""

    def __init__(self, kind: str, scheme: str) -> None:
        self._kind = kind
        self._scheme = scheme

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raise ConfigurationError."""
        raise ConfigurationError(
            f"{self._kind.upper()}_PROXY, of the environment or the system, names a proxy that cannot be "
            f"asked ({self._scheme}://...): name one like http://proxy.example:3128, add the host to "
            "NO_PROXY, or install socksio for SOCKS"
        )


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
