"""`layover chat` against a deployment whose streams have a URL of their own, as on AWS."""

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from layover.desk.cli.chat.commands import Talk
from layover.desk.cli.chat.loop import Chat
from layover.desk.cli.client import NO_ANSWER, Api, ApiError, stream_base

Json = dict[str, Any]
PATH = "/runs/run_1/events"
TOKEN = "Bearer access-1"
MESSAGE = {"content": [{"type": "text", "text": "one two"}]}
EVENTS: list[Json] = [
    {"seq": 1, "type": "turn-start", "step": 1},
    {"seq": 2, "type": "text-delta", "step": 1, "text": "one "},
    {"seq": 3, "type": "text-delta", "step": 1, "text": "two"},
    {"seq": 4, "type": "turn-end", "step": 1, "message": MESSAGE},
    {"seq": 5, "type": "finish", "status": "success", "finish_reason": "stop", "usage": None},
]


class Front:
    """A gateway on loopback. `asked`: path, query and how it was accepted, of each request for events."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.tokens: set[str | None] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)

    def answer(self, path: str, after: int) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        raise NotImplementedError

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        front = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                named = dict(part.partition("=")[::2] for part in query.split("&"))
                if path.endswith("/events"):
                    front.asked.append((path, named["after"]))
                front.tokens.add(self.headers["Authorization"])
                self._send(*front.answer(path, int(named.get("after", "0"))))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                id = "run_1" if self.path.endswith("/runs") else "thread_1"
                self._send(200, "application/json", json.dumps({"id": id}).encode())

            def _send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        return Handler


class HttpApi(Front):
    """An HTTP API: it answers pages and says where streams are."""

    stream_url: str | None = None

    def answer(self, path: str, after: int) -> tuple[int, str, bytes]:
        """Events come two at a time."""
        body: Mapping[str, Any] = {"stream_url": self.stream_url}
        if path == PATH:
            items = EVENTS[after : after + 2]
            last = after + len(items)
            body = {"items": items, "last_seq": last, "done": last == len(EVENTS)}
        return 200, "application/json", json.dumps(body).encode()


class RestApi(Front):
    """A REST API that streams, under a stage's path. `pieces`: events of the first connections."""

    refusal = 0
    pieces: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.pieces = []

    def answer(self, path: str, after: int) -> tuple[int, str, bytes]:
        """The rest of the events, as far as this connection goes."""
        if self.refusal:
            return self.refusal, "application/json", b'{"message": "Forbidden"}'
        many = self.pieces.pop(0) if self.pieces else len(EVENTS)
        blocks = [f"id: {e['seq']}\ndata: {json.dumps(e)}\n\n" for e in EVENTS[after:]][:many]
        return 200, "text/event-stream", ("retry: 1000\n" + "".join(blocks)).encode()


class Paper:
    """A pipe with one line."""

    interactive = False

    def __init__(self) -> None:
        self.typed = ["hi"]
        self.written: list[str] = []

    def read(self, prompt: str, text: str = "") -> str | None:
        return self.typed.pop() if self.typed else None

    def write(self, text: str) -> None:
        self.written.append(text)

    def end(self) -> None:
        """Nothing."""

    def note(self, text: str, style: str = "dim") -> None:
        """Nothing."""


@pytest.fixture
def fronts() -> Iterator[tuple[HttpApi, RestApi]]:
    with ExitStack() as stack:
        http, rest = stack.enter_context(HttpApi()), stack.enter_context(RestApi())
        http.stream_url = f"{rest.url}/prod"
        yield http, rest


def talk(http: HttpApi) -> str:
    """Return the answer to one message."""
    paper = Paper()
    chat = Chat(Api(http.url, "access-1"), paper, Talk("shop"), lambda _: None)
    chat.hold()
    assert not chat.ended_badly
    return "".join(paper.written)


def test_refused_stream_is_polled(fronts: tuple[HttpApi, RestApi]) -> None:
    http, rest = fronts
    rest.refusal = 403
    assert talk(http) == "one two"
    assert rest.asked == [(f"/prod{PATH}", "0")]
    assert [after for _, after in http.asked] == ["0", "2", "4"]


def test_unreachable_stream_is_polled(fronts: tuple[HttpApi, RestApi]) -> None:
    http, _ = fronts
    with socket.create_server(("127.0.0.1", 0)) as free:
        http.stream_url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert talk(http) == "one two"
    assert len(http.asked) == 3


def test_stream_that_breaks_goes_on_where_it_broke(fronts: tuple[HttpApi, RestApi]) -> None:
    http, rest = fronts
    rest.pieces = [2]
    assert talk(http) == "one two"
    assert [after for _, after in http.asked] == ["2", "5"]  # Whether anything can follow.
    assert [after for _, after in rest.asked] == ["0", "4"]


def test_answer_is_streamed_where_the_deployment_says(fronts: tuple[HttpApi, RestApi]) -> None:
    http, rest = fronts
    assert talk(http) == "one two"
    assert rest.asked == [(f"/prod{PATH}", "0")]
    assert rest.tokens == http.tokens == {TOKEN}
    assert [after for _, after in http.asked] == ["5"]


def test_api_without_streams_of_its_own_is_asked_itself(fronts: tuple[HttpApi, RestApi]) -> None:
    http, rest = fronts
    http.stream_url = None
    assert talk(http) == "one two"
    assert rest.asked == []


def test_api_that_is_away_is_told_as_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ApiError, match="no answer from") as told:
        list(Api(url, "access-1").follow(PATH, after=0))
    assert told.value.exit_code == NO_ANSWER


@pytest.mark.parametrize(
    ("url", "stream_url", "base"),
    [
        ("https://api.example", "http://streams.example", "https://api.example"),
        ("https://api.example", "https://streams.example/prod/", "https://streams.example/prod"),
        ("http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:2"),
        ("https://api.example", None, "https://api.example"),
    ],
)
def test_token_that_came_with_tls_goes_nowhere_without(
    url: str, stream_url: str | None, base: str
) -> None:
    assert stream_base(url, stream_url) == base
