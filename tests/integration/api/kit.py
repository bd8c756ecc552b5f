"""The API's function on in-memory ports, fed with API Gateway events (HTTP API, payload 2.0)."""

import asyncio
import gzip
import json
import time
from base64 import b64decode
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

from functions.api.app import answer
from layover.runtime import Runtime
from support.system.documented import Documented
from support.system.documented import Response as Judged
from support.worlds.services import ANN, ServiceBench

T = TypeVar("T")
USE = "openid layover/use"
LARGE = 100_000
"""Bytes of an answer that would take long to hold against the document."""


class TestHost:
    """Stands for `layover.wiring`: a world's ports, and a loop that lives as long as the test."""

    __test__ = False

    def __init__(self, world: ServiceBench) -> None:
        self._world = world
        self._runner = asyncio.Runner()

    def runtime(self) -> Runtime:
        return self._world.runtime

    def run(self, work: Coroutine[Any, Any, T], /) -> T:
        return self._runner.run(work)

    def close(self) -> None:
        self._runner.close()


@dataclass(frozen=True)
class Response:
    """The function's answer."""

    status: int
    headers: dict[str, str]
    body: str
    raw: dict[str, Any]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def judged(self) -> Judged:
        """The same, as `Documented` reads it."""
        raw = b64decode(self.body) if self.raw.get("isBase64Encoded") else self.body.encode()
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        is_json = self.headers.get("content-type", "").partition(";")[0].endswith("json")
        read = json.loads(raw) if is_json else raw or None
        return Judged(self.status, self.headers, read, 0.0)

    def problem(self, status: int, slug: str) -> dict[str, Any]:
        """The problem document, which has to be this one."""
        assert self.status == status, self.body
        assert self.headers["content-type"] == "application/problem+json"
        document: dict[str, Any] = self.json
        assert document["status"] == status
        assert document["type"].endswith(f":{slug}"), document
        assert {"title", "detail"} <= document.keys()
        return document


def http_event(
    method: str,
    url: str,
    body: str | None,
    headers: Mapping[str, str],
    sub: str | None,
    is_base64: bool = False,
    scope: str = USE,
    claims: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """As API Gateway makes it: the path decoded, headers in lower case."""
    path, _, query = url.partition("?")
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    context: dict[str, Any] = {
        "requestId": "req-1",
        "stage": "$default",
        "http": {"method": method, "path": unquote(path)},
    }
    if host := headers.get("Host") or headers.get("host"):
        context["domainName"] = host
    if sub is not None:
        given = {"sub": sub, "scope": scope, **(claims or {})}
        context["authorizer"] = {"jwt": {"claims": given, "scopes": None}}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": unquote(path),
        "rawQueryString": query,
        "headers": {name.lower(): value for name, value in headers.items()},
        "queryStringParameters": parameters,
        "requestContext": context,
        "body": body,
        "isBase64Encoded": is_base64,
    }


@cache
def documented() -> Documented:
    """The API's own description, which every answer has to keep to."""
    api = TestHost(ServiceBench())
    served = answer(http_event("GET", "/openapi.json", None, {}, None), None, api)
    api.close()
    return Documented(json.loads(served["body"]))


class Api:
    """A client of the function; `world` is behind it. Answers are held against the OpenAPI document."""

    def __init__(self, world: ServiceBench, host: TestHost) -> None:
        self.world = world
        self.host = host
        self.now: Callable[[], float] = time.monotonic

    def send(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        sub: str | None = ANN,
        headers: Mapping[str, str] | None = None,
        text: str | None = None,
        is_base64: bool = False,
        scope: str = USE,
        claims: Mapping[str, Any] | None = None,
    ) -> Response:
        """Send one request; `body` goes as JSON, `text` as it is; `claims`: more than the caller and the
        scope."""
        sent = text if text is not None else None if body is None else json.dumps(body)
        given = {"Content-Type": "application/json", **(headers or {})}
        event = http_event(method, url, sent, given, sub, is_base64, scope, claims)
        result = answer(event, None, self.host, now=self.now)
        assert json.loads(json.dumps(result)) == result
        lowered = {name.lower(): value for name, value in result["headers"].items()}
        answered = Response(result["statusCode"], lowered, result["body"], result)
        if len(answered.body) < LARGE:
            documented().check(method, url.partition("?")[0], answered.judged())
        return answered

    def get(self, url: str, **options: Any) -> Response:
        return self.send("GET", url, **options)

    def post(self, url: str, body: Any = None, **options: Any) -> Response:
        return self.send("POST", url, body, **options)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Drive the world on the function's loop."""
        return self.host.run(work)
