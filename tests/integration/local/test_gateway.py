"""The front: API Gateway's events and answers, its authorizer, and the runner's own routes."""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from layover.desk.local.functions.invocation import InvokeResult
from layover.desk.local.http import server as http_server
from layover.desk.local.http.gateway import Front
from layover.desk.local.http.server import HttpServer
from layover.errors import SEND_LESS
from layover.values.deployment.access import OPEN_PATHS, OPEN_POSTS

from .conftest import Served, eventually

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
ANN = {"Authorization": "Bearer dev:ann"}
LOCAL = {"X-Layover-Local": "1"}
STRANGE_HOSTS = [
    *("evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost.evil.example"),
    *("127.0.0.1@evil.example", "0.0.0.0", "[::2]", "[::1", "", "127.0.0.1, evil.example"),
]
OWN_HOSTS = ["127.0.0.1", "127.0.0.1:1", "localhost", "LocalHost:8787", "[::1]", "[::1]:8787"]


@pytest.fixture
async def http(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=served.runner.url, timeout=30, verify=False) as client:
        yield client


def answering(answer: object) -> str:
    return f"/x?answer={quote(json.dumps(answer))}"


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer x", "Bearer dev:", "Basic dev:ann", "dev:ann"]
)
async def test_request_without_a_token_is_refused(
    http: httpx2.AsyncClient, header: str | None
) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = await http.get("/threads", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json().keys() >= {"type", "title", "status", "detail"}


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
async def test_open_routes_need_no_token(http: httpx2.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 200
    assert "authorizer" not in answer.json()["requestContext"]


@pytest.mark.parametrize("path", sorted(OPEN_POSTS))
async def test_open_posts_need_no_token_and_keep_their_bytes(
    http: httpx2.AsyncClient, path: str
) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "X-Slack-Signature": "v0=1"}
    answer = await http.post(path, headers=headers, content=b"payload=%7B%7D&a=+b%20")
    assert answer.status_code == 200
    event = answer.json()
    assert "authorizer" not in event["requestContext"]
    assert event["headers"]["x-slack-signature"] == "v0=1"
    assert event["headers"]["content-type"] == "application/x-www-form-urlencoded"
    text = base64.b64decode(event["body"]) if event["isBase64Encoded"] else event["body"].encode()
    assert text == b"payload=%7B%7D&a=+b%20"


async def test_body_above_the_limit_is_refused(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/x", headers=ANN, content=b"x" * (6 * 1024 * 1024 + 1))
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert SEND_LESS in answer.json()["detail"]


async def test_body_that_is_too_large_only_as_an_event_is_refused(
    http: httpx2.AsyncClient,
) -> None:
    answer = await http.post("/x", headers=ANN, content=b'"' * (4 * 1024 * 1024))
    assert answer.status_code == 413
    assert SEND_LESS in answer.json()["detail"]


@pytest.mark.parametrize("do", ["raise", "exit"])
async def test_failing_function_is_a_bad_gateway(http: httpx2.AsyncClient, do: str) -> None:
    answer = await http.get(f"/x?do={do}", headers=ANN)
    assert answer.status_code == 502
    assert answer.json()["type"] == "function-error"


async def test_function_that_does_not_answer_is_a_gateway_timeout(
    http: httpx2.AsyncClient,
) -> None:
    answer = await http.get("/x?do=hang", headers=ANN)
    assert answer.status_code == 504
    assert answer.json()["type"] == "function-timeout"


@pytest.mark.parametrize(
    "result", [{"statusCode": "x"}, {"statusCode": 99}, {"statusCode": 200, "headers": "no"}]
)
async def test_answer_that_is_no_http_response_is_a_bad_gateway(
    http: httpx2.AsyncClient, result: object
) -> None:
    assert (await http.get(answering(result), headers=ANN)).status_code == 502


async def test_malformed_bytes_do_not_stop_the_front(
    served: Served, http: httpx2.AsyncClient
) -> None:
    host, port = served.runner.url.removeprefix("http://").split(":")
    garbage = [
        b"\x00\xff\xfe\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /%ff%00?%ff=%fe&& HTTP/1.1\r\nHost: \xff\r\nAuthorization: Bearer dev:\xff\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ]
    for line in garbage:
        await asyncio.to_thread(_send_and_hang_up, host, int(port), line)
    assert (await http.get("/healthz")).status_code == 200


def _send_and_hang_up(host: str, port: int, data: bytes) -> None:
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


class Heard:
    """A Lambda service that answers nothing and keeps every event."""

    def __init__(self) -> None:
        self.events: list[bytes] = []

    async def invoke(self, name: str, payload: bytes) -> InvokeResult:
        self.events.append(payload)
        return InvokeResult(b"{}")


async def test_client_that_leaves_in_mid_body_makes_no_event() -> None:
    functions = Heard()
    front, over = Front(functions), asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await front(scope, receive, send)
        over.set()

    server = HttpServer(application)
    await server.start()
    try:
        host, port = server.url.removeprefix("http://").split(":")
        head = b"POST /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer dev:ann\r\n"
        half = head + b"Content-Length: 1000\r\n\r\nhalf of it"
        await asyncio.to_thread(_send_and_hang_up, host, int(port), half)
        await asyncio.wait_for(over.wait(), 60)
    finally:
        await server.stop()
    assert functions.events == []


@asynccontextmanager
async def stopping(application: Any) -> AsyncIterator[tuple[HttpServer, socket.socket]]:
    """A server and a connection to it; at the end of the block it is stopped, the client still there."""
    server = HttpServer(application)
    await server.start()
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        try:
            yield server, client
        finally:
            await server.stop()


async def test_client_that_stalls_in_mid_body_is_cut_off_by_the_stop_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    functions = Heard()
    front, begun, over = Front(functions), asyncio.Event(), asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await front(scope, receive, send)
        over.set()

    async with stopping(application) as (_, client):
        head = b"POST /x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer dev:ann\r\n"
        client.sendall(head + b"Content-Length: 1000\r\n\r\nhalf of it")
        await asyncio.wait_for(begun.wait(), 60)
    await asyncio.wait_for(over.wait(), 60)
    assert functions.events == []
    assert caplog.messages == []


# A loop of its own: what else runs in the common one would take part in the jump of the time.
@pytest.mark.asyncio(loop_scope="function")
async def test_stop_says_nothing_in_a_process_that_was_paused(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, waits = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await receive()

    async with stopping(application) as (server, client):
        wait = server._server._wait_tasks_to_complete

        async def noted() -> None:
            waits.set()
            await wait()

        monkeypatch.setattr(server._server, "_wait_tasks_to_complete", noted)
        client.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        await asyncio.wait_for(begun.wait(), 60)
        stop = asyncio.create_task(server.stop())
        await asyncio.wait_for(waits.wait(), 60)
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 5)
        await stop
    assert caplog.messages == []


async def test_socket_that_does_not_read_is_cut_off_by_the_stop_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    full, over = asyncio.Event(), asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        try:
            while True:
                full.clear()
                asyncio.get_running_loop().call_later(0.2, full.set)
                await send({"type": "websocket.send", "text": "x" * 1024 * 1024})
        finally:
            over.set()

    async with stopping(application) as (_, client):
        head = b"GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        client.sendall(
            head + b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY + b"\r\n\r\n"
        )
        await asyncio.wait_for(full.wait(), 60)
    await asyncio.wait_for(over.wait(), 60)
    assert caplog.messages == []


async def test_request_that_is_answered_within_the_grace_is_not_cut_off(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_GRACE_S", 20)
    begun, answered = asyncio.Event(), asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await answered.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"in time"})

    async with stopping(application) as (server, client):
        client.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(begun.wait(), 60)
        url, stop = server.url, asyncio.create_task(server.stop())
        await eventually(lambda: refuses(url))
        answered.set()
        heard = await asyncio.to_thread(_to_the_end, client)
        await stop
    assert b"in time" in heard
    assert caplog.messages == []


def refuses(url: str) -> bool:
    """Return whether the server accepts no connection any more."""
    host, port = url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=60).close()
    except ConnectionError:
        return True
    return False


def _to_the_end(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


async def test_idle_connection_is_kept_for_longer_than_its_client_keeps_it() -> None:
    """One that both give up at the same moment fails the request that is sent then."""
    server = HttpServer(Front(Heard()))
    try:
        kept = httpx2.Limits().keepalive_expiry
        assert kept is not None
        assert server._server.config.timeout_keep_alive > 2 * kept
    finally:
        server.close()


async def test_body_that_is_no_text_arrives_as_base64(http: httpx2.AsyncClient) -> None:
    body = b'{"a": "\xff\xfe"}'
    headers = ANN | {"Content-Type": "application/json"}
    event = (await http.post("/x", headers=headers, content=body)).json()
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == body


@pytest.mark.parametrize("host", STRANGE_HOSTS)
@pytest.mark.parametrize("path", ["/threads", "/healthz", "/_local/services", "/nothing"])
async def test_name_of_another_host_is_refused_on_every_path(
    http: httpx2.AsyncClient, host: str, path: str
) -> None:
    answer = await http.get(path, headers=ANN | LOCAL | {"Host": host})
    assert (answer.status_code, answer.json()["type"]) == (421, "wrong-host")


@pytest.mark.parametrize("host", OWN_HOSTS)
async def test_names_of_this_machine_are_answered(http: httpx2.AsyncClient, host: str) -> None:
    for path in ("/healthz", "/_local/services"):
        answer = await http.get(path, headers=LOCAL | {"Host": host})
        assert answer.status_code == 200


@pytest.mark.parametrize("hosts", [[], ["127.0.0.1", "evil.example"]], ids=["none", "two"])
async def test_request_that_names_no_host_or_two_is_refused(
    served: Served, hosts: list[str]
) -> None:
    lines = ["GET /_local/services HTTP/1.0", "X-Layover-Local: 1", *(f"Host: {h}" for h in hosts)]
    answer = await sent(served, "\r\n".join([*lines, "", ""]).encode())
    assert b" 200 " not in answer.split(b"\r\n")[0]
    assert b"postgres" not in answer


async def sent(served: Served, request: bytes) -> bytes:
    """Return everything that comes back until the server closes."""
    host, port = served.runner.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


@pytest.mark.parametrize("host", STRANGE_HOSTS[:3])
async def test_services_of_aws_answer_this_machine_alone(served: Served, host: str) -> None:
    url = f"{served.runner.aws.endpoint_url}/2015-03-31/functions/turn/invocations"
    async with httpx2.AsyncClient(timeout=30, trust_env=False, verify=False) as client:
        answer = await client.post(url, content=b"{}", headers={"Host": host})
    assert answer.status_code == 421


@pytest.mark.parametrize("sent", [{}, {"X-Layover-Local": "0"}, {"X-Layover-Local": ""}], ids=str)
@pytest.mark.parametrize("path", ["services", "events", "environments", "nothing"])
async def test_local_route_without_its_header_is_refused(
    http: httpx2.AsyncClient, sent: dict[str, str], path: str
) -> None:
    answer = await http.get(f"/_local/{path}", headers=ANN | sent)
    assert (answer.status_code, answer.json()["type"]) == (403, "not-local")


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/jsonp", "text/plain; application/json"]
)
async def test_page_of_another_site_cannot_move_the_clock(
    served: Served, http: httpx2.AsyncClient, kind: str
) -> None:
    """A browser sends such a body without asking first; with the header, it would have asked."""
    body, headers = b'{"advance_s": 3600}', {"Content-Type": kind} if kind else {}
    before = served.runner.clock.offset()
    simple = await http.post("/_local/clock", content=body, headers=headers)
    asked = await http.post("/_local/clock", content=body, headers=headers | LOCAL)
    assert (simple.status_code, asked.status_code) == (403, 415)
    assert served.runner.clock.offset() == before


async def test_unknown_local_route_is_not_found(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/_local/nothing", headers=LOCAL)
    assert answer.status_code == 404
    assert answer.json()["type"] == "not-found"


@pytest.mark.parametrize(
    "body",
    [
        *("", "{}", '{"advance_s": "soon"}', '{"advance_s": 1e300}', "[1]"),
        '{"advance_s": 1, "timers": "yes"}',
    ],
)
async def test_clock_is_moved_by_numbers_only(http: httpx2.AsyncClient, body: str) -> None:
    headers = LOCAL | {"Content-Type": "application/json"}
    assert (await http.post("/_local/clock", content=body, headers=headers)).status_code == 422


async def test_event_has_the_shape_of_payload_version_two(http: httpx2.AsyncClient) -> None:
    headers = [*ANN.items(), ("X-Twice", "1"), ("X-Twice", "2"), ("Cookie", "a=1; b=2")]
    url = "/a%20b/c?x=1&x=2&y="
    event = (await http.request("PATCH", url, headers=headers, json={"k": "é"})).json()
    assert event["version"] == "2.0"
    assert event["rawPath"] == "/a b/c"
    assert event["rawQueryString"] == "x=1&x=2&y="
    assert event["queryStringParameters"] == {"x": "1,2", "y": ""}
    assert event["headers"]["x-twice"] == "1,2"
    assert event["cookies"] == ["a=1", "b=2"]
    assert "cookie" not in event["headers"]
    assert json.loads(event["body"]) == {"k": "é"}
    assert event["isBase64Encoded"] is False


async def test_event_names_the_verified_caller(http: httpx2.AsyncClient) -> None:
    headers = {"Authorization": "bearer dev:ann@example.com/x"}
    context = (await http.get("/a", headers=headers)).json()["requestContext"]
    claims = {"sub": "ann@example.com/x", "scope": "layover/use"}
    assert context["authorizer"] == {"jwt": {"claims": claims, "scopes": None}}
    assert context["http"].keys() == {"method", "path", "protocol", "sourceIp", "userAgent"}
    assert context["stage"] == context["routeKey"] == "$default"
    assert isinstance(context["timeEpoch"], int)


async def test_backend_is_granted_to_act_for_others(http: httpx2.AsyncClient) -> None:
    headers = {"Authorization": "Bearer dev+act-as:shop"}
    context = (await http.get("/a", headers=headers)).json()["requestContext"]
    claims = {"sub": "shop", "scope": "layover/use layover/act-as"}
    assert context["authorizer"]["jwt"]["claims"] == claims


@pytest.mark.parametrize(
    "token",
    [
        "dev:;groups=a",
        "dev: ;scopes=audit",
        "dev:ann;group=finance",
        "dev:ann;role=admin",
        "dev:a;groups=b;groups=c",
    ],
)
async def test_token_that_says_something_else_is_none(http: httpx2.AsyncClient, token: str) -> None:
    answer = await http.get("/a", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 401


async def test_token_names_groups_and_scopes_as_the_authorizer_passes_them_on(
    http: httpx2.AsyncClient,
) -> None:
    headers = {"Authorization": "Bearer dev:bob;groups=finance, ops;scopes=audit,operate,act-as"}
    context = (await http.get("/a", headers=headers)).json()["requestContext"]
    assert context["authorizer"]["jwt"]["claims"] == {
        "sub": "bob",
        "scope": "layover/use layover/audit layover/operate layover/act-as",
        "cognito:groups": "[finance ops]",
    }


async def test_answer_keeps_status_headers_cookies_and_binary_bodies(
    http: httpx2.AsyncClient,
) -> None:
    body = base64.b64encode(b"\x00\xff").decode()
    headers = {"Content-Type": "image/png", "X-Note": "a\r\nb"}
    result = {"statusCode": 201, "headers": headers, "body": body, "isBase64Encoded": True}
    answer = await http.get(answering(result | {"cookies": ["a=1", "b=2"]}), headers=ANN)
    assert answer.status_code == 201
    assert answer.content == b"\x00\xff"
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-note"] == "a b"
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]


async def test_answer_that_is_only_a_document_is_a_body(http: httpx2.AsyncClient) -> None:
    answer = await http.get(answering({"hello": 1}), headers=ANN)
    assert answer.status_code == 200
    assert answer.json() == {"hello": 1}


async def test_empty_answer_has_no_body(http: httpx2.AsyncClient) -> None:
    answer = await http.get(answering({"statusCode": 204}), headers=ANN)
    assert answer.status_code == 204
    assert answer.content == b""


async def test_advanced_clock_is_what_functions_read(
    served: Served, http: httpx2.AsyncClient
) -> None:
    before = await _now(served)
    answer = await http.post("/_local/clock", json={"advance_s": 3600}, headers=LOCAL)
    assert answer.json()["offset_s"] == pytest.approx(3600)
    assert 3600 <= await _now(served) - before < 3660


async def _now(served: Served) -> float:
    result = await served.runner.functions.invoke("turn", b"{}")
    return float(json.loads(result.payload)["now"])


async def test_published_events_are_listed(served: Served, http: httpx2.AsyncClient) -> None:
    detail = {"run_id": "r", "n": 1}
    entry = {"Source": "layover", "DetailType": "ApprovalRequested", "Detail": json.dumps(detail)}
    put = served.client("events").put_events
    bad = entry | {"Detail": "{no"}
    answer = await asyncio.to_thread(lambda: put(Entries=[entry, bad]))
    assert answer["FailedEntryCount"] == 1
    assert answer["Entries"][1]["ErrorCode"] == "MalformedDetail"
    [event] = (await http.get("/_local/events", headers=LOCAL)).json()
    assert event["source"] == "layover"
    assert event["detail_type"] == "ApprovalRequested"
    assert event["detail"] == detail


async def test_services_and_environments_are_listed(
    served: Served, http: httpx2.AsyncClient
) -> None:
    services: dict[str, Any] = (await http.get("/_local/services", headers=LOCAL)).json()
    assert services.keys() == {
        *("endpoint_url", "access_key_id", "secret_access_key", "region"),
        *("table", "bucket", "state_machine_arn"),
        *("postgres", "postgres_admin", "events"),
    }
    await http.get("/healthz")
    environments = (await http.get("/_local/environments", headers=LOCAL)).json()
    assert {"api"} <= {each["function"] for each in environments}
    assert all(each.keys() == {"function", "pid", "busy"} for each in environments)


async def test_sweeper_is_called_again_and_again(served: Served) -> None:
    await eventually(lambda: len(served.lines("sweeps")) > 2)


async def test_a_service_for_programs_is_found_by_its_whole_prefix_only() -> None:
    """Programs send no header of ours; the prefix has a part that no page knows."""
    asked: list[tuple[str, str, str, bytes]] = []

    def respond(
        method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        asked.append((method, path, headers["content-type"], body))
        return 202, {"X-Kind": "card"}, b"accepted"

    front = Front(Heard())
    front.add_service("channels/key", respond)
    server = HttpServer(front)
    await server.start()
    plain = {"content-type": "text/plain"}
    try:
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as http:
            answer = await http.post("/_local/channels/key/teams/X", content=b"{}", headers=plain)
            assert (answer.status_code, answer.content) == (202, b"accepted")
            assert answer.headers["x-kind"] == "card"
            for other in ("key", "ke/teams/X", "keys/teams/X", "other/teams/X"):
                refused = await http.post(f"/_local/channels/{other}", headers=plain)
                assert refused.status_code == 403, other
            rebound = {**plain, "host": "evil.example"}
            answer = await http.post("/_local/channels/key/teams/X", headers=rebound)
            assert answer.status_code == 421
    finally:
        await server.stop()
    assert asked == [("POST", "/teams/X", "text/plain", b"{}")]
