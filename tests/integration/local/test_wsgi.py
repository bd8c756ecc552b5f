"""The HTTP server in front of AWS on one machine, asked by clients that may die at any byte."""

import socket
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

import pytest

from layover.desk.local.aws.wsgi import Environ, StartResponse, WsgiServer

BODY = b'{"TableName": "layover"}'
PLAIN = b"PUT /x HTTP/1.1\r\nHost: HOST\r\nContent-Length: 24\r\n\r\n" + BODY
CHUNKED = (
    b"PUT /x HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"9\r\n" + BODY[:9] + b"\r\nf\r\n" + BODY[9:] + b"\r\n0\r\n\r\n"
)


class Application:
    """Keeps the body of each request."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        self.bodies.append(environ["wsgi.input"].read())
        start_response("200 OK", [])
        return [b"done"]


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def server(application: Application) -> Iterator[WsgiServer]:
    serving = WsgiServer(application)
    serving.start()
    yield serving
    serving.stop()


def answers(server: WsgiServer, data: bytes) -> bytes:
    """Return the response to a client that sends this and then no more, to the host that serves."""
    address = urlsplit(server.url)
    with socket.create_connection(("127.0.0.1", address.port), timeout=60) as client:
        client.sendall(data.replace(b"HOST", address.netloc.encode()))
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.parametrize("request_", [PLAIN, CHUNKED], ids=["plain", "chunked"])
def test_half_a_request_is_never_carried_out_and_never_spoken_of(
    server: WsgiServer,
    application: Application,
    request_: bytes,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for cut in range(len(request_)):
        assert answers(server, request_[:cut]) == b""
    assert application.bodies == []
    assert capfd.readouterr() == ("", "")
    assert caplog.messages == []


@pytest.mark.parametrize("request_", [PLAIN, CHUNKED], ids=["plain", "chunked"])
def test_half_of_a_second_request_leaves_the_first_done(
    server: WsgiServer, application: Application, request_: bytes
) -> None:
    heard = answers(server, request_ + request_[:-30])
    assert (heard.count(b"200 OK"), heard.count(b"done")) == (1, 1)
    assert application.bodies == [BODY]


def test_requests_of_one_connection_are_each_answered(
    server: WsgiServer, application: Application
) -> None:
    heard = answers(server, PLAIN + CHUNKED + PLAIN)
    assert heard.count(b"200 OK") == 3
    assert application.bodies == [BODY] * 3
