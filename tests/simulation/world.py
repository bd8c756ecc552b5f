"""One process, one event loop, virtual time: the processes of a deployment, and what lies between them and
their services.

Real are the services behind every function, the journal on an in-memory table, and the interpreter of
`infra/run.asl.json`. Simulated are time, chance, and the network: each request of a process to a port takes
time, and the process may die, stall or lose the answer at it."""

import asyncio
import contextvars
import copy
import json
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from layover import Agent
from layover.desk.local.aws.states.errors import StateFailed
from layover.desk.local.aws.states.service import StepFunctions
from layover.desk.local.aws.storage import Storage
from layover.dice import SeededDice
from layover.errors import ModelError, RetryableError
from layover.ids import RandomIds
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.model import fail
from layover.inmemory.stores.memory import InMemoryMemory
from layover.inmemory.stores.threads import InMemoryThreads
from layover.inmemory.table import InMemoryTable
from layover.ports.table import Action, Item
from layover.values.deployment.settings import Settings
from simulation.faults import Features, Mutation, Story
from support.worlds.loops import Skipping

ROOT = Path(__file__).parents[2]
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
"""The calendar's time at the loop's zero."""
_LOOP_BEGINS = 1_000.0
_LONGEST_S = 960.0
"""Time limit of the functions that the state machine invokes, and some, in seconds."""

Work = Callable[["Process"], Awaitable[Any]]


class Crash(BaseException):
    """The process is dead. No handler of the code that it runs may catch this."""


def loop_time() -> float:
    return asyncio.get_running_loop().time()


current: contextvars.ContextVar["Process"] = contextvars.ContextVar("process")
"""The process whose code runs."""


class Process:
    """One invocation of a function, or one request of a client, with a clock, agents and dice of its own."""

    def __init__(self, world: "World", name: str) -> None:
        world.names[name] += 1
        self.world = world
        self.name = f"{name}.{world.names[name]}"
        # By its name, so that a story that has lost an act goes on as before wherever it still can.
        self.dice = random.Random(f"{world.story.seed} {self.name}")
        self.dead = False
        self.frozen_until = 0.0
        self.task: asyncio.Task[None] | None = None
        faults, roll = world.story.faults, self.dice.random
        self.skew = timedelta(seconds=self.dice.uniform(-faults.skew_s, faults.skew_s))
        self.requests = 0
        self.dies_at = self.dice.randint(1, faults.span) if roll() < faults.deaths else 0
        self.stalls_at = self.dice.randint(1, faults.span) if roll() < faults.stalls else 0
        self.stall_s = 0.0
        self.limit_s = _LONGEST_S
        self.agents = world.agents_of(self)
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def kill(self) -> None:
        """End the process where it is: nothing that it does from here on has an effect."""
        if self.dead:
            return
        self.dead = True
        if self.task is not None:
            self.task.cancel()
        self.fail(StateFailed("Lambda.Unknown", "the process died"))

    def fail(self, error: BaseException) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)
            self.outcome.exception()


class ProcessDice(SeededDice):
    """The dice of whichever process rolls them: `ports.Dice`."""

    def __init__(self, world: "World") -> None:
        super().__init__(world.story.seed)
        self._world = world

    def bits(self, count: int) -> int:
        return self._world.chance().getrandbits(count)


class _Blind(Skipping):
    """A loop that looks at no socket: nothing is outside of a story."""

    def __init__(self) -> None:
        super().__init__()
        self._look = lambda _: []


class WatchedTable(InMemoryTable):
    """A table that shows each change to `watch`, and keeps what was there a moment ago."""

    def __init__(self, lag_s: float) -> None:
        super().__init__()
        self.watch: Callable[[Item | None, Item | None], None] | None = None
        self.changes = 0
        """How often anything was written."""
        self._lag_s = lag_s
        self._past: deque[tuple[float, dict[tuple[str, str], Item]]] = deque()

    def _store(self, action: Action, item: Item | None) -> None:
        old = self._items.get((action.pk, action.sk))
        super()._store(action, item)
        self.changes += 1
        if self.watch is not None:
            self.watch(old, item)
        if self._lag_s:
            now = loop_time()
            self._past.append((now, dict(self._items)))
            while len(self._past) > 1 and self._past[1][0] < now - self._lag_s:
                self._past.popleft()

    def seen_at(self, moment: float) -> InMemoryTable:
        """Return the table as it was then."""
        items = next((items for at, items in reversed(self._past) if at <= moment), {})
        old = InMemoryTable()
        old._items = items
        return old

    @property
    def items(self) -> Mapping[tuple[str, str], Item]:
        """Everything that is stored, for the judge."""
        return self._items


class World:
    """Everything outside the processes: services, time, what happened."""

    def __init__(
        self,
        story: Story,
        show: Callable[[str], None] | None = None,
        mutation: Mutation = Mutation(),  # noqa: B008
    ) -> None:
        self.story = story
        self.mutation = mutation
        self.dice = random.Random(f"world {story.seed}")
        features = story.features
        self.settings = Settings(
            max_history=features.max_history, daily_tokens=features.daily_tokens
        )
        self.table = WatchedTable(max(story.faults.lag_s, mutation.stale_s))
        self.blobs = InMemoryBlobs()
        self.threads = InMemoryThreads()
        self.memory = InMemoryMemory(self.threads)
        self.rolls = ProcessDice(self)
        self.ids = RandomIds(lambda: int(_seconds() * 1e9), self.rolls.bits)
        self.names: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.swept: Counter[str] = Counter()
        self.events: list[tuple[str, dict[str, Any]]] = []
        """What the bus was told: types and details, in order."""
        self.effects: list[Effect] = []
        self.trace: list[str] = []
        self.errors: Counter[str] = Counter()
        """Errors of functions, which the state machine answers, by their words."""
        self.complaints: list[tuple[str, str]] = []
        """The names of promises that were broken, each with what was seen."""
        self.is_quiet = False
        """True once nothing fails any more."""
        self.deployments: list[tuple[float, float, Mapping[str, Agent]]] = []
        self._show = show
        self.machine: StepFunctions
        self.machine_arn = ""
        self.run_function: Callable[[str, Mapping[str, Any], Process], Awaitable[Any]]
        self.on_effect: Callable[[Effect], None] = lambda _: None
        self.told: Callable[[Mapping[str, Any]], None] = lambda _: None
        """Takes an event from the bus."""

    @property
    def features(self) -> Features:
        return self.story.features

    def begin(self) -> None:
        """Make the state machine, as a deployment does."""
        self.machine = StepFunctions(Storage(), self._invoke, _seconds, self.rolls)
        definition = (ROOT / "infra/run.asl.json").read_text()
        for name in ("Turn", "Resume", "Settle", "Compact", "Extract"):
            definition = definition.replace("${%sFunctionArn}" % name, name.lower())  # noqa: UP031
        made = self.machine.call(
            "CreateStateMachine", {"name": "layover", "definition": definition, "roleArn": "role"}
        )
        self.machine_arn = made["stateMachineArn"]

    @property
    def elapsed_s(self) -> float:
        """Seconds since the story began."""
        return loop_time() - _LOOP_BEGINS

    @property
    def is_away(self) -> bool:
        """True while the database is away."""
        begin, end = self.story.away
        return begin <= self.elapsed_s < end

    @property
    def refusal(self) -> ModelError | None:
        """The error with which the models' provider refuses a request now; None: it answers."""
        is_back = self.elapsed_s < self.story.outage[0] or self.outage_left_s <= 0
        return None if is_back else fail("overloaded", status=503, passes=True)

    @property
    def outage_left_s(self) -> float:
        """Seconds until the models' provider is back."""
        return self.story.outage[1] - self.elapsed_s

    def note(self, *words: object) -> None:
        """Write a line of the trace."""
        line = f"{self.elapsed_s:9.3f} {' '.join(map(str, words))}"
        self.trace.append(line)
        if self._show is not None:
            self._show(line)

    def complain(self, promise: str, seen: str) -> None:
        """Keep that a promise was broken."""
        self.note("BROKEN", promise, seen)
        self.complaints.append((promise, seen))

    def take_effect(self, effect: "Effect") -> None:
        """Let a tool do something that cannot be undone."""
        self.note("effect", effect)
        self.effects.append(effect)
        self.on_effect(effect)

    # A clock, as a process reads it: `ports.Clock`.

    def now(self) -> datetime:
        process = current.get(None)
        skew = process.skew if process is not None else timedelta(0)
        return datetime.fromtimestamp(loop_time() + BEGINNING, UTC) + skew

    async def sleep(self, delay: timedelta) -> None:
        await asyncio.sleep(delay.total_seconds())

    def chance(self) -> random.Random:
        """Return the numbers of whoever asks."""
        process = current.get(None)
        return self.dice if process is None else process.dice

    # Deployments.

    def deploy(self, agents: Mapping[str, Agent], window_s: float = 0.0) -> None:
        """Replace the agents. For `window_s`, a new process may still have the old ones."""
        self.deployments.append((loop_time(), window_s, agents))

    def agents_of(self, process: Process) -> Mapping[str, Agent]:
        """Return the agents that a process begins with."""
        since, window_s, agents = self.deployments[-1]
        is_between = len(self.deployments) > 1 and loop_time() < since + window_s
        if is_between and process.dice.random() < 0.5:
            return self.deployments[-2][2]
        return agents

    # Processes.

    async def pause(self) -> None:
        """Return once the process that runs is neither dead nor frozen."""
        process = current.get(None)
        if process is None:
            return
        if process.dead:
            raise Crash
        while process.frozen_until > loop_time():
            await asyncio.sleep(process.frozen_until - loop_time())
            if process.dead:
                raise Crash

    async def run(self, name: str, work: Work, limit_s: float | None = None) -> Any:
        """Return the result of `work` in a process of its own. Raises StateFailed (it died), or its error."""
        process = Process(self, name)
        process.limit_s = limit_s or _LONGEST_S
        context = contextvars.copy_context()
        context.run(current.set, process)
        loop = asyncio.get_running_loop()
        process.task = loop.create_task(self._live(process, work), context=context)
        if limit_s is None:
            return await asyncio.shield(process.outcome)
        timer = loop.call_later(limit_s, self._time_out, process)
        try:
            return await asyncio.shield(process.outcome)
        finally:
            timer.cancel()

    async def _live(self, process: Process, work: Work) -> None:
        try:
            result = await work(process)
        except Crash:
            process.kill()
        except asyncio.CancelledError:
            if not process.dead:
                process.kill()
                raise
        except BaseException as error:
            process.fail(error)
        else:
            if not process.outcome.done():
                process.outcome.set_result(result)

    def _time_out(self, process: Process) -> None:
        if process.outcome.done():
            return
        self.counts["time-outs"] += 1
        if process.frozen_until > loop_time():
            # A frozen sandbox does not notice its time limit. It thaws next to its own repetition.
            process.fail(StateFailed("Lambda.Unknown", "the process timed out"))
        else:
            process.kill()

    # The network.

    async def ask(
        self,
        label: str,
        work: Callable[[], Awaitable[Any]],
        *,
        writes: bool = False,
        takes_s: tuple[float, float] = (0.001, 0.02),
        fails: float | None = None,
    ) -> Any:
        """Return the answer to one request of a process. It may arrive although its sender is dead."""
        process = current.get(None)
        if process is None:
            return await work()
        await self.pause()
        self.counts["requests"] += 1
        loop = asyncio.get_running_loop()
        fate = self._fate(process, fails)
        if fate:
            self.counts[fate] += 1
            self.note(process.name, label, "->", fate)
        if fate == "dies before":
            process.kill()
            raise Crash
        if fate == "stalls before":
            process.frozen_until = loop_time() + process.stall_s
            await self.pause()
        dice = process.dice
        if fate == "dies after":
            loop.call_later(dice.uniform(0, 0.03), process.kill)
        request = loop.create_task(self._answer(work, fate, dice, writes, takes_s))
        request.add_done_callback(_hear)
        if fate == "stalls after":
            process.frozen_until = loop_time() + process.stall_s
        try:
            return await asyncio.shield(request)
        finally:
            await self.pause()

    def _fate(self, process: Process, fails: float | None) -> str:
        """Return what becomes of a request; "" if nothing does."""
        if self.is_quiet:
            return ""
        process.requests += 1
        faults, roll = self.story.faults, process.dice.random
        if process.requests == process.dies_at:
            return "dies before" if roll() < 0.5 else "dies after"
        if process.requests == process.stalls_at:
            is_long = roll() < faults.zombies
            beyond = process.limit_s + 5, process.limit_s + 240
            process.stall_s = process.dice.uniform(*(beyond if is_long else faults.stall_s))
            return "stalls before" if roll() < 0.5 else "stalls after"
        share = roll()
        for fate, rate in (
            ("fails", faults.fails if fails is None else fails),
            ("lost", faults.lost),
            ("doubled", faults.doubled),
        ):
            if share < rate:
                return fate
            share -= rate
        return ""

    async def _answer(
        self,
        work: Callable[[], Awaitable[Any]],
        fate: str,
        dice: random.Random,
        writes: bool,
        takes_s: tuple[float, float],
    ) -> Any:
        is_late = not self.is_quiet and dice.random() < self.story.faults.late
        await asyncio.sleep(dice.uniform(*takes_s) + (dice.uniform(0.2, 3) if is_late else 0))
        if fate == "fails":
            raise RetryableError("it fails")
        try:
            result = await work()
        except Exception:
            await asyncio.sleep(dice.uniform(*takes_s))
            raise
        if fate == "doubled" and writes:
            await asyncio.sleep(dice.uniform(0.01, 0.3))
            result = await work()
        if fate == "lost":
            await asyncio.sleep(dice.uniform(0.01, 0.3))
            raise RetryableError("no answer")
        await asyncio.sleep(dice.uniform(*takes_s))
        return result

    # The state machine.

    async def _invoke(self, _: str, parameters: Mapping[str, Any]) -> Any:
        """Do what Step Functions does with a function: wait for the answer, or learn that there is none."""
        function, payload = parameters["FunctionName"], parameters["Payload"]
        name = f"{function} {payload['execution']}"
        dice = random.Random(f"{self.story.seed} {name} {self.names[name]}")
        await asyncio.sleep(dice.uniform(0.005, 0.06))
        refused = 0.0 if self.is_quiet else self.story.faults.refused
        if dice.random() < refused:
            self.counts["refused"] += 1
            raise StateFailed("Lambda.TooManyRequestsException", "later")
        self.note("invoke", name, payload.get("op", ""), str(payload.get("output", ""))[:80])
        try:
            result = await self.run(
                name,
                lambda process: self.run_function(function, payload, process),
                self.features.turn_s if function == "turn" else 900,
            )
        except StateFailed:
            raise
        except Exception as error:
            said = f"{function}: {type(error).__name__}: {error}"[:120]
            self.errors[said] += 1
            self.note("raised", said)
            raise StateFailed(type(error).__name__, str(error)) from error
        self.note("answer", name, str(result)[:100])
        if dice.random() < refused:
            self.counts["answers lost"] += 1
            raise StateFailed("Lambda.SdkClientException", "the answer was lost")
        return {"Payload": json.loads(json.dumps(result)), "StatusCode": 200}

    def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        """Give an event to the bus, which delivers it at least once."""
        self.events.append((detail_type, copy.deepcopy(dict(detail))))
        plain = json.loads(json.dumps(dict(detail), default=str))
        self.told({"detail-type": detail_type, "detail": plain})


class Effect:
    """Something that a tool did in the world: it cannot be undone."""

    def __init__(self, run_id: str, call_id: str, tool: str, given: Any) -> None:
        process = current.get()
        self.run_id, self.call_id, self.tool, self.given = run_id, call_id, tool, given
        self.process = process.name
        self.at = loop_time() + BEGINNING

    def __str__(self) -> str:
        return f"{self.tool}({self.given}) of {self.call_id} by {self.process}"


def live(world: World, scene: Callable[[], Awaitable[None]]) -> None:
    """Play a scene from its beginning to its end."""

    async def main() -> None:
        world.begin()
        try:
            await scene()
        finally:
            await world.machine.suspend()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    with asyncio.Runner(loop_factory=_Blind) as runner:
        runner.run(main())


def _seconds() -> float:
    """Return the calendar's time in seconds since 1970, by a clock that is right."""
    return loop_time() + BEGINNING


def _hear(request: "asyncio.Task[Any]") -> None:
    """Take notice of an error that nobody waits for any more."""
    if not request.cancelled():
        request.exception()
