"""Requests of the API that enter a loop which runs, several at once."""

import asyncio
import json
from typing import Any

import pytest

from layover.clock import loop_time
from support.worlds.arrivals import answered
from support.worlds.loops import skipping
from support.worlds.services import ANN, BOB, ServiceBench

from .kit import http_event

JSON = {"Content-Type": "application/json"}


async def send(
    world: ServiceBench, method: str, url: str, body: Any = None, sub: str | None = ANN
) -> tuple[int, Any]:
    sent = None if body is None else json.dumps(body)
    result = await answered(http_event(method, url, sent, JSON, sub), world.runtime)
    return result["statusCode"], json.loads(result["body"] or "null")


@skipping
async def test_a_request_waits_and_others_are_answered_meanwhile() -> None:
    world, began = ServiceBench(), loop_time()
    thread = await world.thread()
    _, run = await send(world, "POST", f"/threads/{thread.id}/runs", {"input": "x"})
    waiting = asyncio.create_task(send(world, "GET", f"/runs/{run['id']}?wait=20"))
    await asyncio.sleep(5)
    assert (await send(world, "GET", f"/threads/{thread.id}"))[1]["id"] == thread.id
    assert (await send(world, "GET", f"/runs/{run['id']}", sub=BOB))[0] == 404
    assert not waiting.done()
    await world.finish(run["id"], "there")
    status, shown = await waiting
    assert (status, shown["status"], shown["text"]) == (200, "success", "there")
    assert 5 < loop_time() - began < 7


@skipping
async def test_a_wait_ends_by_the_time_of_the_loop() -> None:
    world, began = ServiceBench(), loop_time()
    run = await world.run((await world.thread()).id)
    status, shown = await send(world, "GET", f"/runs/{run.id}?wait=20")
    assert (status, shown["status"]) == (200, "running")
    assert 20 <= loop_time() - began < 21


@skipping
async def test_requests_at_once_know_nothing_of_each_other() -> None:
    """The framework has one place for the request that it answers."""
    world = ServiceBench()
    threads = [await world.thread() for _ in range(3)]
    runs = [await world.run(thread.id) for thread in threads]
    waiting = [asyncio.create_task(send(world, "GET", f"/runs/{r.id}?wait=20")) for r in runs]
    await asyncio.sleep(5)
    assert (await send(world, "DELETE", f"/threads/{threads[0].id}"))[0] == 204
    await world.finish(runs[1].id, "there")
    gone, done, still = await asyncio.gather(*waiting)
    assert (gone[0], gone[1]["type"]) == (404, "urn:layover:problem:not-found")
    assert (done[1]["id"], done[1]["text"]) == (runs[1].id, "there")
    assert (still[1]["id"], still[1]["status"]) == (runs[2].id, "running")


@skipping
async def test_a_database_that_sleeps_is_503_for_those_who_ask_it() -> None:
    world = ServiceBench()
    thread = await world.thread()
    await world.finish((await world.run(thread.id)).id)
    world.threads.asleep = True
    url = f"/threads/{thread.id}"
    asleep, known = await asyncio.gather(
        send(world, "GET", f"{url}/messages"), send(world, "GET", url)
    )
    assert (asleep[0], known[0]) == (503, 200)


@skipping
async def test_a_request_that_is_cancelled_ends_where_it_waits() -> None:
    world = ServiceBench()
    run = await world.run((await world.thread()).id)
    waiting = asyncio.create_task(send(world, "GET", f"/runs/{run.id}?wait=20"))
    await asyncio.sleep(5)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await send(world, "GET", f"/runs/{run.id}"))[0] == 200
