"""Web pages that may read the API's answers."""

from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from functions.api.streaming import shared_with
from layover.desk.local.http.cors import Cors


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


async def allowed(origin: str, path: str = "/threads", *origins: str) -> str | None:
    transport = httpx2.ASGITransport(app=Cors(app, origins))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        asked = {"Access-Control-Request-Method": "POST"}
        asked["Access-Control-Request-Headers"] = "authorization, last-event-id"
        answer = await http.options(path, headers={"Origin": origin, **asked})
        plain = await http.get(path, headers={"Origin": origin})
    name = "access-control-allow-origin"
    if path.startswith("/_local"):
        assert name not in answer.headers
    else:
        assert plain.headers.get(name) == answer.headers.get(name)
    found: str | None = plain.headers.get(name)
    return found


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://localhost.evil.example", "http://127.0.0.1.evil", "null"],
)
async def test_pages_of_other_hosts_may_not(origin: str) -> None:
    assert await allowed(origin) is None


async def test_the_runners_own_routes_are_for_no_page() -> None:
    assert await allowed("http://localhost:3000", "/_local/clock") is None


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:3000", "http://127.0.0.1:5173", "https://localhost", "http://[::1]:80"],
)
async def test_pages_of_this_machine_may(origin: str) -> None:
    assert await allowed(origin) == origin


async def test_an_origin_that_was_named_may() -> None:
    named = "https://app.example"
    assert await allowed(named, "/threads", named) == named


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("authorization, content-type, traceparent, tracestate, baggage", 200),
        ("authorization, user-agent", 200),
        ("mcp-protocol-version, last-event-id", 200),
        ("sentry-trace, x-datadog-trace-id, B3", 200),
        ("authorization, x-layover-resource", 400),
        ("x-anything", 400),
    ],
)
async def test_pages_send_here_what_they_may_send_to_aws(headers: str, status: int) -> None:
    transport = httpx2.ASGITransport(app=Cors(app))
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": headers}
    page = {"Origin": "http://localhost:3000"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        assert (await http.options("/chat/desk", headers={**page, **asked})).status_code == status
        answer = await http.get("/threads", headers=page)
    shown = answer.headers["access-control-expose-headers"].split(", ")
    assert {"x-layover-passed-over", "retry-after"} <= {*shown}


@pytest.mark.parametrize("origin", ["https://a.example", "https://b.example"])
def test_answer_of_a_stream_names_itself_what_its_page_may_read(origin: str) -> None:
    """API Gateway adds nothing to the answers that a function streams, and browsers read the list of a
    preflight's answer for nothing."""
    runtime: Any = SimpleNamespace(settings=SimpleNamespace(origins=("https://a.example",)))
    host: Any = SimpleNamespace(runtime=lambda: runtime)
    headers = shared_with({"headers": {"Origin": origin}}, host)
    shown = headers.get("Access-Control-Expose-Headers", "")
    assert ("x-layover-passed-over" in shown) is (origin == "https://a.example")
    assert headers.get("Access-Control-Allow-Origin") in (origin, None)
