"""A follower by server-sent events gets the run's log: while the run is made, whatever dies of it, and
wherever in a frame the connection is cut."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from layover.plugins.fronts.protocols import sse
from layover.runs.follow import follow, with_heartbeat
from layover.runs.long_polls import Pace
from support.event_source import EventSource
from support.examples import examples
from support.worlds.random_runs import Driver, Script, scripts
from support.worlds.runs import ANN, Bench, Power

CUTS = st.lists(st.integers(0, 3_000), max_size=12)
"""Bytes after which connections are cut, one after the other; then one stays."""
LAGS = st.integers(0, 40)
"""Turns of the loop that a follower sleeps for: how far behind the run it is."""


class Shared(Power):
    """Other tasks have their turn before each port call."""

    async def through(self, name: str, work: Any) -> Any:
        try:
            await asyncio.sleep(0)
        except BaseException:
            work.close()
            raise
        return await super().through(name, work)


async def _follow(bench: Bench, run_id: str, cuts: Iterator[int], lag: int) -> list[Any]:
    """All that a client was shown, over as many connections as it takes."""
    client, slept = EventSource(), 0.0

    async def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds
        for _ in range(lag + 1):
            await asyncio.sleep(0)

    pace = Pace(sleep, lambda: slept)
    while True:
        after = sse.last_seq(client.last_event_id) or 0
        page = await bench.plain.journal.events.page(ANN, run_id, after, 1)
        if page.done and not page.items:  # A browser is answered 204, and stays away.
            return client.seen
        looks = follow(bench.plain, ANN, run_id, after, None, pace, returns=True)
        left = next(cuts, None)
        async with aclosing(with_heartbeat(sse.event_frames(looks), sse.HEARTBEAT, pace)) as pieces:
            async for piece in pieces:
                client.read(piece if left is None else piece[:left])
                if left is not None and (left := left - len(piece)) <= 0:
                    client.break_off()
                    break
        await sleep(0)


async def _play(script: Script, cuts: list[int], lag: int) -> None:
    driver = Driver(script, Shared())
    bench = driver.bench
    run_id = await bench.start(stream=True)
    async with asyncio.TaskGroup() as group:
        cut_off = group.create_task(_follow(bench, run_id, iter(cuts), lag))
        calm = group.create_task(_follow(bench, run_id, iter(()), lag))
        group.create_task(driver.drive(run_id))
    log = [json.loads(event.model_dump_json()) for event in await bench.events(run_id)]
    assert cut_off.result() == calm.result() == log
    again = await _follow(bench, run_id, iter(cuts), 0)
    assert again == log, "replay equals live"


@examples(80)
@given(scripts(), CUTS, LAGS)
def test_a_stream_is_the_log_whatever_dies_and_wherever_it_is_cut(
    script: Script, cuts: list[int], lag: int
) -> None:
    asyncio.run(_play(script, cuts, lag))


def test_the_follower_is_there_while_the_run_is_made() -> None:
    """The property above would hold of anything if each follower came when all is over."""
    script = Script([["plain", "once"]], 1, ["yes"], [3, 7], [False, True, False, False], 0, None)
    driver = Driver(script, Shared())

    async def play() -> list[int]:
        run_id = await driver.bench.start(stream=True)
        drive = asyncio.create_task(driver.drive(run_id))
        found = []
        async for events in follow(driver.bench.plain, ANN, run_id, 0, None, Pace(_give_way)):
            found += [len(events)] if events else []
        await drive
        return found

    assert len(asyncio.run(play())) > 3
    assert driver.bench.power.cuts == 2


async def _give_way(_: float) -> None:
    await asyncio.sleep(0)
