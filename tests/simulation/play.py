"""Play stories: `python -m simulation.play --seed 7 --mode calm` shows one, `--first 0 --last 99` plays many.

Run it as `make simulate SEED=7 MODE=calm`. A story that breaks a promise is shown with the promise, what was
seen, and its trace; `--shrink` shows a shorter one that breaks the same promise."""

import argparse
import asyncio
import contextvars
import hashlib
import logging
import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from simulation.agents import reply
from simulation.clients import Clients
from simulation.faults import MODES, Mutation, Story, write_story
from simulation.judge import Judge, judge_the_end
from simulation.services import Services
from simulation.shrink import shrink
from simulation.world import World, live, loop_time

_LOOK_S = 5.0
"""How often people decide what waits, once nothing fails."""
_THAWED_WITHIN_S = 1_200.0
"""Time within which whatever was frozen when the faults ended goes on."""
_DEBTS_S = 1_200.0
"""Time within which a sweeper has told what a run owes (docs/behaviour.md#callbacks), in seconds."""
_LAST_REQUESTS_S = 60.0
"""Time within which processes are done with runs that are over."""
_ERASED_WITHIN = 25
"""Looks of the sweeper, a minute apart, within which a deleted thread is gone."""


@dataclass(frozen=True)
class Played:
    """A story, and what became of it."""

    story: Story
    complaints: tuple[tuple[str, str], ...]
    """The promises that were broken, each with what was seen."""
    trace: tuple[str, ...]
    counts: Counter[str]

    @property
    def promises(self) -> tuple[str, ...]:
        """The promises that were broken, each once, in the order in which it was noticed."""
        return tuple(dict.fromkeys(promise for promise, _ in self.complaints))

    @property
    def digest(self) -> str:
        """A hash of the trace: the same story has the same one, in any process."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]


def play(
    story: Story,
    show: Callable[[str], None] | None = None,
    mutation: Mutation = Mutation(),  # noqa: B008
) -> Played:
    """Play a story to its end, and judge it. `show`: takes each line of its trace. `mutation`: a way in which
    the product is broken."""
    world = World(story, show, mutation)
    with _logged_in(world):
        try:
            live(world, lambda: _scene(world))
        except Exception as error:
            where = traceback.format_exception(error)[-4:]
            world.complaints.append(("a story comes to its end", f"{error!r}\n{''.join(where)}"))
    counts = world.counts + Counter({f"swept {name}": n for name, n in world.swept.items()})
    counts["effects"] = len(world.effects)
    return Played(story, tuple(world.complaints), tuple(world.trace), counts)


def stories_of(mode: str, count: int) -> list[Story]:
    """Return the mode's part of so many stories."""
    place, modes = list(MODES).index(mode), len(MODES)
    return [write_story(seed, mode) for seed in range(place, count, modes)]


def said(played: Played) -> str:
    """Return how to see a story, and what it has shown."""
    story = played.story
    seen = [f"{promise}: {what}" for promise, what in played.complaints]
    return "\n".join([f"make simulate SEED={story.seed} MODE={story.mode}", *seen])


async def _scene(world: World) -> None:
    story, dice = world.story, random.Random(f"scene {world.story.seed}")
    services = Services(world, reply)
    clients = Clients(services)
    Judge(clients)
    await clients.begin()
    sweeper = asyncio.ensure_future(_sweep(services, dice)) if story.features.sweeper else None
    await asyncio.gather(*(clients.act(act) for act in story.acts))
    await asyncio.sleep(story.rest_s)
    world.is_quiet = True
    world.note("nothing fails from here on")
    await _decide_all(clients, dice)
    if story.faults.outages:
        await asyncio.sleep(max(0.0, world.outage_left_s) + dice.choice([0.0, 1_200.0]))
        await clients.redrive_what_failed(dice)
        await _decide_all(clients, dice)
    if story.faults.stalls:
        # A request that its client has given up may thaw, and begin a run.
        await asyncio.sleep(_THAWED_WITHIN_S)
        await _decide_all(clients, dice)
    if clients.followers:
        await asyncio.wait(clients.followers, timeout=1_200)
    clients.is_over = True
    await asyncio.sleep(_DEBTS_S if sweeper is not None else _LAST_REQUESTS_S)
    if sweeper is not None:
        sweeper.cancel()
    if clients.known.deleted:
        for _ in range(_ERASED_WITHIN):
            await asyncio.sleep(60)
            await services.sweep()
    while services.on_their_way:
        await asyncio.sleep(_LOOK_S)
    await judge_the_end(clients)


async def _decide_all(clients: Clients, dice: random.Random) -> None:
    """Decide whatever waits until every run is over, for as long as people are patient."""
    until = loop_time() + clients.features.patience_s
    while loop_time() < until and await clients.open_runs():
        await clients.decide_all_that_waits(dice)
        await asyncio.sleep(_LOOK_S)


async def _sweep(services: Services, dice: random.Random) -> None:
    """Sweep on a schedule. Now and then one sweep begins before the last has ended."""
    patience_s = services.world.settings.sweep_patience.total_seconds()
    while True:
        is_early = dice.random() < 0.1 and not services.world.is_quiet
        await asyncio.sleep(patience_s * (0.2 if is_early else 1))
        sweep = asyncio.get_running_loop().create_task(
            services.sweep(), context=contextvars.Context()
        )
        if dice.random() < 0.8 or services.world.is_quiet:
            await sweep


class _Noted(logging.Handler):
    """What the product logs as an error, in the trace."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        facts = {name: getattr(record, name, None) for name in ("error", "cause", "where")}
        told = {name: value for name, value in facts.items() if value}
        self._world.note("logged:", record.getMessage(), told)


@contextmanager
def _logged_in(world: World) -> Iterator[None]:
    """Keep the log to the trace: stories break what it warns of. What asyncio logs depends on when memory is
    freed."""
    log, of_loops = logging.getLogger("layover"), logging.getLogger("asyncio")
    before = log.level, log.propagate, of_loops.disabled
    noted = _Noted(world)
    log.addHandler(noted)
    log.setLevel(logging.ERROR)
    log.propagate, of_loops.disabled = False, True
    try:
        yield
    finally:
        log.removeHandler(noted)
        log.setLevel(before[0])
        log.propagate, of_loops.disabled = before[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", default="", help=f"one of {', '.join(MODES)}; empty: all in turn")
    parser.add_argument("--seed", type=int, help="play this story, and show its trace")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=299)
    parser.add_argument(
        "--shrink", action="store_true", help="of a story that fails, show a shorter one"
    )
    given = parser.parse_args()
    modes = [given.mode] if given.mode else list(MODES)
    seeds = range(given.first, given.last + 1) if given.seed is None else [given.seed]
    begun, bad, counts = time.monotonic(), 0, Counter[str]()
    for seed in seeds:
        story = write_story(seed, modes[seed % len(modes)])
        played = play(story, None if given.seed is None or given.shrink else print)
        counts += played.counts
        if played.complaints:
            bad += 1
            print(said(played), flush=True)
            if given.shrink:
                _show_shorter(played)
    took = time.monotonic() - begun
    print(f"{len(seeds)} stories in {took:.0f} s, {bad} of them broke a promise. {dict(counts)}")
    raise SystemExit(bool(bad))


def _show_shorter(played: Played) -> None:
    """Show the shortest story that is found which breaks the same promise."""
    promise = played.promises[0]
    shorter = shrink(played.story, lambda story: promise in play(story).promises)
    print(f"{shorter}", *play(shorter).trace, sep="\n", flush=True)


if __name__ == "__main__":
    main()
