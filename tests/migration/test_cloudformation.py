"""The answer of the migrate function to CloudFormation."""

import http.server
import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from functions.migrate.cloudformation import answer_cloudformation, put
from layover.records.migrate import RESOURCE_ID

URL = "https://bucket.example/key?signature=secret"
EVENT = {
    "RequestType": "Create",
    "ResponseURL": URL,
    "StackId": "stack",
    "RequestId": "request",
    "LogicalResourceId": "Schema",
}


@dataclass
class CloudFormation:
    """Takes answers, after it refused some."""

    refusals: int = 0
    answers: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0

    def __call__(self, url: str, body: bytes) -> None:
        assert url == URL
        self.calls += 1
        if self.calls <= self.refusals:
            raise ConnectionResetError
        self.answers.append(json.loads(body))


def failing() -> dict[str, Any]:
    raise RuntimeError("the migration is wrong" * 1000)


def test_failed_migration_fails_the_deploy_at_once() -> None:
    cloudformation = CloudFormation()
    answer_cloudformation(EVENT, failing, cloudformation)
    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert answer["PhysicalResourceId"] == RESOURCE_ID
    assert answer["Reason"].startswith("RuntimeError: the migration is wrong")
    assert len(json.dumps(answer)) < 4096


def test_failure_that_was_told_is_no_failure_of_the_function(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Lambda would begin again, in the middle of the rollback."""
    assert answer_cloudformation(EVENT, failing, CloudFormation()) == {}
    assert [r.levelname for r in caplog.records] == ["ERROR"]


def test_failure_that_could_not_be_told_is_one() -> None:
    with pytest.raises(ConnectionError):
        answer_cloudformation(EVENT, failing, CloudFormation(refusals=9))


def test_lost_connection_is_tried_again() -> None:
    cloudformation = CloudFormation(refusals=2)
    answer_cloudformation(EVENT, lambda: {"Data": {"Applied": "0001"}}, cloudformation)
    assert [a["Status"] for a in cloudformation.answers] == ["SUCCESS"]


def test_the_url_is_in_no_log_and_in_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(ConnectionError) as raised:
        answer_cloudformation(EVENT, dict, CloudFormation(refusals=9))
    assert "signature" not in caplog.text + str(raised.value)


def test_answer_names_what_was_asked_and_keeps_the_resource() -> None:
    cloudformation = CloudFormation()
    answer_cloudformation(
        {**EVENT, "RequestType": "Update"}, lambda: {"Data": {"Applied": ""}}, cloudformation
    )
    assert cloudformation.answers == [
        {
            "Status": "SUCCESS",
            "StackId": "stack",
            "RequestId": "request",
            "LogicalResourceId": "Schema",
            "PhysicalResourceId": RESOURCE_ID,
            "Data": {"Applied": ""},
        }
    ]


@pytest.fixture
def storage() -> Iterator[tuple[str, Callable[[], tuple[str, Any, bytes]]]]:
    """An HTTP server's URL, and what was last sent to it: method, headers, body."""
    seen: list[tuple[str, Any, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.command, self.headers, body))
            self.send_response(200 if self.path == "/good" else 403)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", lambda: seen[-1]
        server.shutdown()
        thread.join(60)


def test_answer_is_put_without_a_content_type(
    storage: tuple[str, Callable[[], tuple[str, Any, bytes]]],
) -> None:
    """The URL is signed for an empty one; urllib would add its own."""
    url, last = storage
    put(f"{url}/good", b"{}")
    method, headers, body = last()
    assert (method, headers["Content-Type"], body) == ("PUT", "", b"{}")


def test_refused_answer_is_an_error_that_is_tried_again(
    storage: tuple[str, Callable[[], tuple[str, Any, bytes]]],
) -> None:
    url, _ = storage
    with pytest.raises(OSError, match="403"):
        put(f"{url}/bad", b"{}")
