"""The clients of models' providers, direct and through a proxy: servers that answer late, half or wrong."""

import asyncio
import gzip
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from layover.adapters.http import connection as connections
from layover.adapters.http import direct, pool, proxied
from layover.adapters.http.choice import choose_client
from layover.adapters.http.client import Client, Response
from layover.adapters.http.connection import ConnectionBroken
from layover.adapters.http.direct import DirectClient
from layover.adapters.http.near import is_this_machine
from layover.adapters.http.proxied import ProxiedClient
from layover.adapters.http.request import InvalidHeader, InvalidURL, Url, join_url
from layover.errors import ConfigurationError
from support.aws.loopback import CLOSE, HANG, Loopback, loopback
from support.certificates import loopback_certificate

SILENCE_S = 3600.0
HEADERS = {"content-type": "application/json"}
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CLIENTS: dict[str, Callable[[], Client]] = {
    "direct": DirectClient,
    "proxied": lambda: ProxiedClient(10, 60.0, 5.0),
}


@pytest.fixture(params=list(CLIENTS.values()), ids=list(CLIENTS))
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """Both clients; without a proxy in the environment, both ask the server itself."""
    client: Client = request.param()
    yield client
    await client.aclose()


@asynccontextmanager
async def ask(
    client: Client, served: Loopback, path: str = "/v1", **headers: str
) -> AsyncIterator[Response]:
    """One request and its open answer."""
    url = join_url(served.url, path)
    response = await client.post(url, {**HEADERS, **headers}, b"{}", SILENCE_S)
    try:
        yield response
    finally:
        await response.aclose()


async def text_of(client: Client, served: Loopback) -> str:
    async with ask(client, served) as response:
        await response.read()
        return response.text


async def last_text(client: Client, url: Url) -> str:
    """Ask, and close the client."""
    response = await client.post(url, HEADERS, b"{}", SILENCE_S)
    await response.read()
    await response.aclose()
    await client.aclose()
    return response.text


async def closed(served: Loopback, connection: int) -> None:
    """Wait until the server has seen the end of a connection."""
    async with asyncio.timeout(60):
        while not served.open[connection - 1].is_closing():
            await asyncio.sleep(0)


# What breaks


async def test_each_request_names_its_sender_unless_it_has_a_name(client: Client) -> None:
    async with loopback(OK) as served:
        assert await text_of(client, served) == "hi"
        async with ask(client, served, **{"user-agent": "another"}) as response:
            await response.read()
    assert [each.headers["user-agent"] for each in served.requests] == ["layover", "another"]


@pytest.mark.parametrize(
    "answer",
    [
        CLOSE,
        b"HTTP/1.1 200 OK\r\nConte" + CLOSE,
        OK[:-1] + CLOSE,
        CHUNKED + b"5\r\nhel" + CLOSE,
        CHUNKED + b"zz\r\nhello" + CLOSE,
        b"SSH-2.0-OpenSSH\r\n\r\n" + CLOSE,
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-encoding: gzip\r\n\r\nhi",
    ],
    ids=["closed", "head", "body", "chunk", "length", "no-http", "no-gzip"],
)
async def test_half_an_answer_is_a_broken_connection_and_leaves_its_room(
    client: Client, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "_LIMITS", pool.PoolLimits(1, 60.0, 60.0))
    async with loopback(answer, OK) as served:
        with pytest.raises((ConnectionBroken, OSError)):
            await text_of(client, served)
        assert await asyncio.wait_for(text_of(client, served), 60) == "hi"


async def test_head_without_an_end_is_given_up() -> None:
    client = DirectClient()
    async with loopback(b"HTTP/1.1 200 OK\r\nx: " + b"x" * 70_000) as served:
        with pytest.raises(ConnectionBroken):
            await asyncio.wait_for(text_of(client, served), 60)
    await client.aclose()


async def test_compression_that_nobody_asked_for_is_a_broken_answer() -> None:
    client = DirectClient()
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-encoding: br\r\n\r\nhi"
    async with loopback(answer, OK) as served:
        with pytest.raises(ConnectionBroken, match="br"):
            await text_of(client, served)
        assert await text_of(client, served) == "hi"
    await client.aclose()


async def test_nobody_listening_is_an_error_of_the_system(client: Client) -> None:
    async with loopback(OK) as served:
        pass
    with pytest.raises((ConnectionBroken, OSError)):
        await text_of(client, served)


async def test_silence_is_counted_from_the_last_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, client = asyncio.get_running_loop(), DirectClient()
    start = loop.time()
    async with loopback(CHUNKED + b"2\r\nhi\r\n") as served, ask(client, served) as response:
        pieces = response.pieces()
        assert await anext(pieces) == b"hi"
        monkeypatch.setattr(loop, "time", lambda: start + 0.9 * SILENCE_S)
        more = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        monkeypatch.setattr(loop, "time", lambda: start + 1.8 * SILENCE_S)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not more.done()
        monkeypatch.setattr(loop, "time", lambda: start + 2 * SILENCE_S)
        with pytest.raises(TimeoutError):
            await more
    await client.aclose()


async def test_header_that_no_request_may_have_is_named_without_its_value(client: Client) -> None:
    async with loopback(OK) as served:
        for value in ("secret\n", "secret\r\nx: y", "schlüssel", " secret"):
            with pytest.raises(InvalidHeader) as caught:
                async with ask(client, served, authorization=value):
                    pass
            assert "secret" not in str(caught.value)
        assert served.requests == []


async def test_certificate_that_nobody_vouches_for_is_refused(
    client: Client, tmp_path: Path
) -> None:
    _, tls = loopback_certificate(tmp_path)
    async with loopback(OK, tls=tls) as served:
        with pytest.raises((ConnectionBroken, ssl.SSLCertVerificationError), match=r"(?i)verify"):
            await text_of(client, served)
        assert served.requests == []


@pytest.mark.parametrize(
    "url", ["localhost:1/v1", "ftp://host/v1", "http:///v1", "http://h:99999/", "http://[::1/v1"]
)
def test_url_that_leads_nowhere_is_refused(url: str) -> None:
    with pytest.raises(InvalidURL):
        join_url(url, "/x")


# Connections


async def test_answer_that_was_read_leaves_its_connection_to_the_next(client: Client) -> None:
    stream = CHUNKED + b"2\r\nhi\r\n0\r\n\r\n"
    async with loopback(OK, stream, OK) as served:
        assert [await text_of(client, served) for _ in range(3)] == ["hi"] * 3
        assert [r.connection for r in served.requests] == [1, 1, 1]


@pytest.mark.parametrize("make_client", CLIENTS.values(), ids=CLIENTS.keys())
async def test_connection_over_tls_is_kept_as_well(
    make_client: Callable[[], Client], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, tls = loopback_certificate(tmp_path)
    trust = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr(pool, "system_trust", lambda: trust)
    monkeypatch.setattr(proxied, "system_trust", lambda: trust)
    client, stream = make_client(), CHUNKED + b"2\r\nhi\r\n0\r\n\r\n"
    async with loopback(OK, stream, OK, tls=tls) as served:
        assert [await text_of(client, served) for _ in range(3)] == ["hi"] * 3
        assert [r.connection for r in served.requests] == [1, 1, 1]
        await client.aclose()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_is_silent_for_long_is_not_forgotten_on_the_way(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """A NAT gateway forgets one after 350 s, and an answer that is not streamed may take 600 s."""

    async def main() -> None:
        async with loopback(OK) as served:
            connections = pool.Pool(join_url(served.url, "").target, pool.PoolLimits(1, 1.0, 1.0))
            connection = await connections.acquire()
            line = connection._transport.get_extra_info("socket")
            assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 350
            connections.release(connection)
            connections.close()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


def test_another_kind_of_event_loop_will_do() -> None:
    async def main() -> None:
        client = DirectClient()
        async with loopback(OK, CHUNKED + b"2\r\nhi\r\n0\r\n\r\n") as served:
            assert [await text_of(client, served) for _ in range(2)] == ["hi"] * 2
            assert [r.connection for r in served.requests] == [1, 1]
            await client.aclose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def test_answer_that_was_left_takes_its_connection_along(client: Client) -> None:
    async with loopback(CHUNKED + b"2\r\nhi\r\n", OK) as served:
        async with ask(client, served) as response:
            assert await anext(response.pieces()) == b"hi"
        await closed(served, 1)
        assert await text_of(client, served) == "hi"
        assert [r.connection for r in served.requests] == [1, 2]


async def test_request_that_was_cancelled_takes_its_connection_along(client: Client) -> None:
    async with loopback(HANG, OK) as served:
        lost = asyncio.create_task(text_of(client, served))
        await asyncio.wait_for(served.arrived.wait(), 60)
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        assert await text_of(client, served) == "hi"
        assert [r.connection for r in served.requests] == [1, 2]


async def test_end_that_came_while_the_process_was_frozen_is_seen(client: Client) -> None:
    async with loopback(OK) as served:
        await text_of(client, served)
        served.open[0].get_extra_info("socket").shutdown(socket.SHUT_WR)
        assert await text_of(client, served) == "hi"
        assert [r.connection for r in served.requests] == [1, 2]


async def test_connection_in_use_while_the_client_closes_is_closed_after_it() -> None:
    client = DirectClient()
    async with loopback(OK) as served:
        async with ask(client, served) as response:
            await client.aclose()
            await response.read()
        assert response.text == "hi"
        await closed(served, 1)
        assert await text_of(client, served) == "hi"
        await client.aclose()


async def test_body_that_nobody_reads_waits_at_its_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_UNREAD", 1000)
    client, body = DirectClient(), b"x" * 50_000_000
    whole = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    async with loopback(whole) as served, ask(client, served) as response:
        writer = served.open[0]
        for _ in range(100):
            await asyncio.sleep(0)
        assert writer.transport.get_write_buffer_size() > len(body) // 2
        await response.read()
        assert len(response.text) == len(body)
    await client.aclose()


# What arrives


async def test_request_says_where_it_goes_and_what_it_brings(client: Client) -> None:
    async with loopback(OK) as served:
        async with ask(client, served, "/chat", authorization="Bearer k"):
            pass
        [request] = served.requests
        assert request.first == "POST /chat HTTP/1.1"
        assert request.body == b"{}"
        assert request.headers["host"] == served.url.removeprefix("http://")
        assert request.headers["authorization"] == "Bearer k"
        assert request.headers["content-type"] == "application/json"


async def test_name_and_password_of_the_url_are_sent_as_such(client: Client) -> None:
    async with loopback(OK) as served:
        url = join_url(served.url.replace("//", "//me:p%40ss@"), "/v1")
        assert "me" not in str(url)
        response = await client.post(url, {**HEADERS, "authorization": "Bearer k"}, b"", SILENCE_S)
        await response.aclose()
        assert served.requests[0].headers["authorization"] == "Basic bWU6cEBzcw=="


async def test_compressed_body_is_read_as_it_comes(client: Client) -> None:
    body = gzip.compress("grüße".encode())
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    async with loopback(head + chunks + b"0\r\n\r\n") as served:
        assert await text_of(client, served) == "grüße"


async def test_trailers_are_no_headers(client: Client) -> None:
    async with loopback(CHUNKED + b"2\r\nhi\r\n0\r\nx: y\r\n\r\n") as served:
        async with ask(client, served) as response:
            await response.read()
        assert (response.text, response.headers.get("x")) == ("hi", None)


async def test_redirection_is_an_answer_and_not_followed(client: Client) -> None:
    moved = b"HTTP/1.1 308 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
    async with loopback(moved) as served, ask(client, served) as response:
        assert (response.status, response.headers["location"]) == (308, "http://127.0.0.1:1/")
        assert not response.is_success


async def test_variables_decide_between_the_two(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_client({"NO_PROXY": "*", "https_proxy": ""}) is DirectClient
    async with loopback(OK) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        client = choose_client(os.environ)()
        url = join_url("http://provider.example/v1", "/chat")
        assert await last_text(client, url) == "hi"
        assert proxy.requests[0].first == "POST http://provider.example/v1/chat HTTP/1.1"


DESKTOPS = {
    "gnome": {"all_proxy": "socks://127.0.0.1:9/", "ALL_PROXY": "socks://127.0.0.1:9/"},
    "vpn": {"http_proxy": "socks5h://127.0.0.1:9", "ALL_PROXY": "socks5h://u:secret@127.0.0.1:9"},
    "old": {"HTTP_PROXY": "socks4a://127.0.0.1:9"},
    "typo": {"HTTP_PROXY": "htp://127.0.0.1:9"},
    "http": {"HTTP_PROXY": "http://127.0.0.1:9"},
    "no port": {"HTTP_PROXY": "http://127.0.0.1:port"},
}
"""Variables that desktops, programs for a VPN and people set for every program."""


@pytest.fixture
def desktop(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Client]:
    """Return the client of a process with the variables of a desktop."""

    def make(name: str) -> Client:
        for variable in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            monkeypatch.delenv(variable, raising=False)
            monkeypatch.delenv(variable.upper(), raising=False)
        for variable, value in DESKTOPS[name].items():
            monkeypatch.setenv(variable, value)
        return choose_client(os.environ)()

    return make


@pytest.mark.parametrize("name", DESKTOPS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_server_of_this_machine_is_asked_directly_whatever_the_proxy(
    name: str, host: str, desktop: Callable[[str], Client]
) -> None:
    client = desktop(name)
    async with loopback(OK) as served:
        url = join_url(served.url.replace("127.0.0.1", host), "/v1")
        client.dial(url)
        assert await last_text(client, url) == "hi"


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("127.8.0.1", True),
        ("::1", True),
        ("0.0.0.0", True),
        ("models.localhost", True),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
    ],
)
def test_host_of_this_machine_is_known(host: str, is_here: bool) -> None:
    assert is_this_machine(host) is is_here


@pytest.mark.parametrize(
    ("name", "variable", "scheme"),
    [
        ("gnome", "all_proxy", "socks"),
        ("vpn", "http_proxy", "socks5h"),
        ("old", "HTTP_PROXY", "socks4a"),
        ("typo", "HTTP_PROXY", "htp"),
    ],
)
async def test_proxy_that_cannot_be_asked_is_named_without_its_password(
    name: str, variable: str, scheme: str, desktop: Callable[[str], Client]
) -> None:
    client = desktop(name)
    with pytest.raises(ConfigurationError) as caught:
        await client.post(join_url("http://provider.example", "/v1"), HEADERS, b"{}", SILENCE_S)
    assert variable.lower() in str(caught.value).lower()
    assert f"({scheme}://...)" in str(caught.value)
    assert "secret" not in str(caught.value)
    await client.aclose()


async def test_proxy_that_no_request_needs_ends_none(
    desktop: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GNOME sets a SOCKS proxy for all, and one for http and https."""
    desktop("gnome")
    async with loopback(OK) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        client = choose_client(os.environ)()
        url = join_url("http://provider.example", "/v1")
        assert await last_text(client, url) == "hi"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://api.example.com/v1", "https://api.example.com/v1/chat"),
        ("https://api.example.com:443/v1/", "https://api.example.com/v1/chat"),
        ("http://h:8080?api-version=1", "http://h:8080/chat?api-version=1"),
        ("http://[::1]:80/a b", "http://[::1]/a%20b/chat"),
        ("http://bücher.example/é", "http://xn--bcher-kva.example/%C3%A9/chat"),
        ("http://h/model/a%3Ab", "http://h/model/a%3Ab/chat"),
    ],
)
def test_path_follows_the_base_and_its_query_stays(base: str, url: str) -> None:
    assert str(join_url(base, "/chat")) == url
