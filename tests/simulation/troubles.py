"""Two days on which the models' provider is in every kind of trouble, played by the whole deployment: many
runs begin at each, their users decide what waits, and an operator redrives what failed once the cause is
mended."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from layover.errors import ModelError
from layover.inmemory.model import fail
from layover.plugins.people.words import headline
from layover.threads.messages import list_messages
from layover.values.channels import OPERATORS_GROUP, Address
from layover.values.message import Role
from layover.values.notices import OutageNotice
from layover.values.runs.run import RunSnapshot, Status
from simulation.agents import reply
from simulation.clients import ANN, OPERATOR, Clients
from simulation.faults import Faults, Features, Story
from simulation.judge import Judge, judge_the_end
from simulation.services import CHANNELS, Services
from simulation.world import BEGINNING, World, live

_HOUR_S = 3_600.0
_MENDED_S = 300.0
"""Time from the end of a trouble until the operator looks."""
_AGAIN_S = 90.0
"""Time from one redrive to the next of what failed all the same, longer than that between two of a run."""
_SWEEP_S = 300.0
_FIRST_LOOK_S, _LONGEST_LOOK_S = 5.0, 600.0
"""Users look for what waits again and again, more rarely each time."""


@dataclass(frozen=True)
class Trouble:
    """A time in which the provider refuses each request. `failure`: the type of the error with which runs
    fail meanwhile; empty: all outlive it."""

    name: str
    at_h: float
    lasts_s: float
    refusal: Callable[[], ModelError]
    failure: str = ""

    @property
    def begin_s(self) -> float:
        return self.at_h * _HOUR_S

    @property
    def end_s(self) -> float:
        return self.begin_s + self.lasts_s


def _away() -> ModelError:
    return fail("overloaded", status=503, passes=True)


def _keyless() -> ModelError:
    return fail("Incorrect API key provided", status=401)


def _unpaid() -> ModelError:
    return fail("You exceeded your current quota", status=429)


TROUBLES = (
    Trouble("away for 30 s", 1, 30, _away),
    Trouble("away for 20 minutes", 2, 1_200, _away),
    Trouble("away for 2 hours", 3, 2 * _HOUR_S, _away, "ProviderAway"),
    Trouble("a wrong key for an hour", 8, _HOUR_S, _keyless, "AuthenticationError"),
    Trouble("no quota until midnight", 14, 10 * _HOUR_S, _unpaid, "RateLimitError"),
    Trouble("away for a day", 26, 24 * _HOUR_S, _away, "ProviderAway"),
)
_END_S = TROUBLES[-1].end_s + 2 * _HOUR_S
"""The time at which nobody looks any more: whatever has not succeeded by then does not."""
FAILURES = tuple(trouble for trouble in TROUBLES if trouble.failure)
"""Those by which runs fail."""
TOLD = tuple(
    line
    for trouble in FAILURES
    for line in (
        f"1 run of shop failed: {trouble.failure}",
        f"Over: no run of shop failed for 15 minutes by {trouble.failure}",
    )
)
"""What operators are sent: all runs of a trouble fail within one window."""


class TroubledWorld(World):
    """A world whose provider has these troubles."""

    @property
    def refusal(self) -> ModelError | None:
        now = self.elapsed_s
        return next((t.refusal() for t in TROUBLES if t.begin_s <= now < t.end_s), None)


class TroubledDays:
    """What became of so many runs at each trouble. They live in the event loop of a world."""

    def __init__(self, runs_each: int) -> None:
        count = runs_each * len(TROUBLES)
        features = Features(threads=count, channels=True, sweeper=False)
        self.world = TroubledWorld(Story(1, "outages", Faults(), features, (), 0.0))
        self.failed: dict[str, set[str]] = {trouble.name: set() for trouble in TROUBLES}
        """Runs that failed, by the trouble."""
        self.runs: list[RunSnapshot] = []
        """All runs, as they ended."""
        self.roles: list[list[Role]] = []
        """The roles of the messages of each thread."""
        self._runs_each = runs_each

    def play(self) -> None:
        """Live through them, and judge."""
        live(self.world, self._scene)

    @property
    def effects(self) -> Counter[str]:
        """How often the tool of each run has taken effect."""
        return Counter(effect.run_id for effect in self.world.effects)

    def told(self, channel: str) -> tuple[str, ...]:
        """Return what operators were sent, in order."""
        messages = self._services.senders[channel].messages.values()
        return tuple(headline(m.notice) for m in messages if isinstance(m.notice, OutageNotice))

    async def _scene(self) -> None:
        places = (
            Address(channel="slack", to="#ops"),
            Address(channel="mail", to="ops@example.com"),
        )
        config = CHANNELS.model_copy(
            update={"groups": {**CHANNELS.groups, OPERATORS_GROUP: places}}
        )
        self._services = Services(self.world, reply, config)
        self._clients = Clients(self._services)
        Judge(self._clients)
        await self._clients.begin()
        sweeper = asyncio.ensure_future(self._sweep())
        dice = random.Random("troubled days")
        await asyncio.gather(
            *(self._user(n, *each) for n, each in enumerate(self._beginnings(dice), 1)),
            *(self._operator(trouble, dice) for trouble in FAILURES),
        )
        # Until it is told that the last failures are over.
        await asyncio.sleep(_HOUR_S)
        sweeper.cancel()
        for thread in self._clients.threads:
            page = await list_messages(self._clients.plain, ANN, thread, None, 20, None)
            self.roles.append([message.role for message in page.items])
        self.runs = await self._clients.runs()
        await judge_the_end(self._clients)

    def _beginnings(self, dice: random.Random) -> Iterator[tuple[float, random.Random]]:
        """Yield the time at which each run begins, and its dice: from just before a trouble on."""
        for trouble in TROUBLES:
            for _ in range(self._runs_each):
                late_s = dice.uniform(-4, min(trouble.lasts_s, 480))
                yield trouble.begin_s + late_s, random.Random(dice.getrandbits(32))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            await self._services.sweep()

    async def _user(self, n: int, begin_s: float, dice: random.Random) -> None:
        """Begin a run, and approve what waits, until the run has succeeded or nobody looks any more."""
        await asyncio.sleep(begin_s)
        clients, thread = self._clients, f"t{n}"
        text = f"{dice.choice(['look', 'pay'])} {n}"
        path = f"/threads/{thread}/runs"
        run = await clients.send(dice, "say", "POST", path, {"input": text}, key=f"key {n}")
        clients.known.said[text] = run["id"]
        pause_s = _FIRST_LOOK_S
        while self.world.elapsed_s < _END_S:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
            now = await clients.plain.journal.runs.snapshot(ANN, run["id"])
            assert now is not None
            if now.meta.status is Status.SUCCESS:
                return
            await clients.approve([call for call in now.calls if call.undecided], dice)

    async def _operator(self, trouble: Trouble, dice: random.Random) -> None:
        """Redrive what failed by the trouble, until nothing is left of it."""
        await asyncio.sleep(trouble.end_s + _MENDED_S)
        since = datetime.fromtimestamp(BEGINNING + trouble.begin_s - 60, UTC)
        body: dict[str, Any] = {"error": trouble.failure, "since": since.isoformat()}
        while self.world.elapsed_s < _END_S:
            failed = {run.meta.id for run in await self._clients.failed_runs()}
            if not failed:
                return
            self.failed[trouble.name] |= failed
            self._clients.known.redriven |= failed
            path = "/operate/runs/redrive"
            await self._clients.send(dice, "redrive", "POST", path, body, by=OPERATOR)
            await asyncio.sleep(_AGAIN_S)
