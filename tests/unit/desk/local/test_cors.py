"""Web pages that may read the API's answers."""

from typing import Any

import httpx2
import pytest

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
