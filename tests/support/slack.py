"""Slack's stand-in behind the layer's HTTP client, and notices to send."""

import re
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from layover.adapters.http.client import Response
from layover.adapters.http.request import Url
from layover.clock import ManualClock
from layover.declare.secret import Secret
from layover.plugins.people.channels.slack import BASE_URL
from layover.plugins.people.channels.slack.sender import SlackSender
from layover.plugins.people.channels.slack.twin import FakeSlack
from layover.plugins.people.channels.twins import Outbox
from layover.plugins.people.config import read_channels
from layover.values.channels import Notice, NoticeKind, NoticeLinks
from layover.values.decision import ApprovalRule
from layover.values.runs.run import SuspensionKind
from layover.values.runs.views import OpenApproval

TOKEN, SIGNING_SECRET = "xoxb-of-the-test", "signing-secret-of-the-test"
TOKEN_VARIABLE = "SLACK_BOT_TOKEN"
LINKS = NoticeLinks(console="https://layover.example.com/#approvals/run_1/c1")
MARKUP = re.compile(r"<([^>]*)>")


class LocalResponse(Response):
    """An answer that is there at once."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status, headers)
        self._body = body

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        yield self._body

    async def aclose(self) -> None:
        pass


class LocalClient:
    """`Client`: asks the stand-in in this process. `down`: nothing answers."""

    def __init__(self, slack: FakeSlack) -> None:
        self._slack = slack
        self.down = False
        self.hosts: list[str] = []

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        self.hosts.append(url.host)
        if self.down:
            raise ConnectionRefusedError
        return LocalResponse(*self._slack.respond("POST", url.path, headers, body))

    def dial(self, url: Url) -> None:
        pass

    async def aclose(self) -> None:
        pass


@contextmanager
def served(slack: FakeSlack) -> Iterator[str]:
    """Slack's stand-in on a port of this machine; the URL of its API."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("content-length", 0))
            body = self.rfile.read(size)
            status, headers, answer = slack.respond("POST", self.path, dict(self.headers), body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.title(), value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/api"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class SlackBench:
    """A workspace, the app's sender, and a clock that both stand on. The token is in the environment."""

    def __init__(self, clock: ManualClock | None = None, **options: Any) -> None:
        self.clock = clock or ManualClock()
        self.outbox = Outbox()
        self.slack = FakeSlack(
            self.outbox,
            TOKEN,
            SIGNING_SECRET,
            now=lambda: self.clock.now().timestamp(),
            **options,
        )
        self.client = LocalClient(self.slack)
        self.sender = SlackSender(Secret(TOKEN_VARIABLE), BASE_URL, http=lambda: self.client)

    def pass_a_second(self) -> None:
        self.clock.advance(timedelta(seconds=1))


def make_notice(
    clock: ManualClock, kind: NoticeKind = NoticeKind.REQUESTED, **fields: Any
) -> Notice:
    """A call that waits for finance. `fields`: of the notice, or of its call."""
    now = clock.now()
    own = {name: fields.pop(name) for name in ("n", "decision", "rule") if name in fields}
    rule = own.get("rule", ApprovalRule(by=("finance",)))
    call = {
        "run_id": "run_1",
        "thread_id": "thread_1",
        "agent": "support",
        "tool_call_id": "c1",
        "tool_name": "refund",
        "args": {"order_id": "o1", "amount": 80},
        "kind": SuspensionKind.APPROVAL,
        "payload": {"type": "approval"},
        "resume_schema": {},
        "attempt": 1,
        "agent_path": ("support",),
        "requested_at": now,
        "approval": None if rule is None else rule.model_dump(),
        **fields,
    }
    own["rule"] = rule
    return Notice(kind=kind, owner="ann", call=OpenApproval.model_validate(call), at=now, **own)


def texts(value: Any) -> Iterator[str]:
    """Every text that a person sees, or Slack reads as markup, in a message or a view."""
    if isinstance(value, dict):
        if value.get("type") in ("plain_text", "mrkdwn") and isinstance(value.get("text"), str):
            yield value["text"]
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def markup(message: Mapping[str, Any]) -> list[str]:
    """What Slack reads as a link, a mention or a broadcast: all between `<` and `>`, in every text."""
    said = [str(message.get("text", "")), *texts(message.get("blocks"))]
    return [inside for text in said for inside in MARKUP.findall(text)]


def visible(message: Mapping[str, Any]) -> str:
    """The words of a message as people read them."""
    text = "\n".join(texts(message.get("blocks")))
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def buttons(message: Mapping[str, Any]) -> list[str]:
    """The texts of a message's buttons."""
    return [
        element["text"]["text"]
        for block in message["blocks"]
        for element in block.get("elements", ())
        if element["type"] == "button"
    ]


FINANCE = read_channels(
    {
        "finance": [{"slack": "#payouts"}],
        "people": {
            "bob@example.com": {"id": "bob", "groups": ["finance"], "slack": "U2BOB"},
            "carol@example.com": {"id": "carol", "groups": ["finance"], "slack": "U3CAROL"},
            "dave@example.com": {"id": "dave", "groups": ["ops"], "slack": "U4DAVE"},
            "ann@example.com": {"id": "ann", "slack": "U1ANN"},
        },
    }
)
