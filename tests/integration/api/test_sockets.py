"""Tickets over HTTP."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from functions.api.app import answer
from integration.api.kit import Api, TestHost, http_event
from support.worlds.services import ANN
from support.worlds.sockets import SocketBench


@pytest.fixture
def bench() -> SocketBench:
    return SocketBench()


@pytest.fixture
def sockets(bench: SocketBench) -> Iterator[Api]:
    """The function, where sockets are served."""
    host = TestHost(bench)
    yield Api(bench, host)
    host.close()


def test_a_ticket_needs_a_token(sockets: Api) -> None:
    sockets.post("/socket-tickets", sub=None).problem(401, "unauthenticated")


def test_where_nothing_serves_sockets_there_is_no_ticket(api: Api) -> None:
    api.post("/socket-tickets").problem(404, "not-found")


def test_a_ticket_has_its_text_its_url_and_its_end(sockets: Api, bench: SocketBench) -> None:
    answered = sockets.post("/socket-tickets")
    assert answered.status == 201
    assert answered.headers["cache-control"] == "no-store"
    assert answered.json.keys() == {"ticket", "url", "expires_at"}
    assert answered.json["url"].endswith(f"?ticket={answered.json['ticket']}")
    expires_at = datetime.fromisoformat(answered.json["expires_at"])
    assert expires_at == bench.clock.now() + timedelta(seconds=60)


@pytest.mark.parametrize("exp", ["1767229200", "1.7672292E9", 1767229200])
def test_the_connection_ends_with_the_callers_token(
    sockets: Api, bench: SocketBench, exp: object
) -> None:
    event = http_event("POST", "/socket-tickets", None, {}, ANN)
    event["requestContext"]["authorizer"]["jwt"]["claims"]["exp"] = exp
    ticket = json.loads(answer(event, None, sockets.host)["body"])["ticket"]
    redeemed = sockets.do(bench.ports.connections.redeem(ticket, bench.clock.now()))
    assert redeemed is not None
    assert redeemed.owner == ANN
    assert redeemed.token_expires_at == datetime(2026, 1, 1, 1, tzinfo=UTC)


def test_a_token_whose_end_cannot_be_read_makes_no_ticket(sockets: Api) -> None:
    event = http_event("POST", "/socket-tickets", None, {}, ANN)
    event["requestContext"]["authorizer"]["jwt"]["claims"]["exp"] = "soon"
    assert answer(event, None, sockets.host)["statusCode"] == 401
