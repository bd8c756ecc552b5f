"""A run that is to stop while a fact of it is on its way to the journal: what the journal has, stays."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Limits, tool
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.model import call, calls, say
from layover.ports.table import Action, Put
from layover.values.runs.event import Finish
from layover.values.runs.run import CallState, Status
from layover.values.runs.views import Run
from support.worlds.loops import LoopClock, LoopDeadline, played
from support.worlds.runs import ANN, Bench, Ledger, answers, suspended, told, types
from support.worlds.writes import Proceed, around_writes

Fact = Callable[[Put], bool]
LARGE = random.Random(5).randbytes(350_000).hex()
"""No item holds it: it goes to S3 first."""
TIME_ENOUGH = timedelta(minutes=1)
"""The time that running tools have here."""


def puts(state: CallState, name: str = "call_1") -> Fact:
    """A call gets this state."""
    return lambda put: put.sk.endswith(f"#{name}") and put.item.get("state") == state.value


def is_step(put: Put) -> bool:
    return put.sk == "STEP#0001"


def slowed(bench: Bench, fact: Fact) -> asyncio.Event:
    """The answer to this write takes half a minute. Returns what is set while it is waited for."""
    waiting = asyncio.Event()

    async def slow(actions: Sequence[Action], proceed: Proceed) -> None:
        await proceed()
        if not waiting.is_set() and any(isinstance(a, Put) and fact(a) for a in actions):
            waiting.set()
            await asyncio.sleep(30)

    around_writes(bench, slow)
    return waiting


async def stopped(bench: Bench, waiting: asyncio.Event) -> Run:
    """The run, stopped by its holder while the write is under way; tools have no time."""
    run_id = await bench.start()
    turn = asyncio.create_task(bench.turn(run_id))
    await waiting.wait()
    await bench.plain.journal.commands.request_cancel(ANN, run_id, timedelta(0))
    assert (await turn)["status"] == "over"
    return await bench.run(run_id)


async def judge(bench: Bench, run: Run, steps: int = 1) -> None:
    """Everything is told once and kept as it was told; nothing waits any more."""
    assert run.status is Status.CANCELLED
    events = await bench.events(run.id)
    named = [(e.type, e.tool_call_id) for e in events if hasattr(e, "tool_call_id")]
    assert max(Counter(named).values(), default=1) == 1
    found: dict[str, set[str]] = {}
    for kind, name in named:
        found.setdefault(kind, set()).add(name)
    of = found.get
    assert of("tool-execution-start", set()) <= of("tool-execution-end", set())
    assert of("tool-call-suspended", set()) == of("tool-call-decided", set())
    assert [e.usage for e in events if isinstance(e, Finish)] == [run.usage]
    assert run.usage.total_tokens == 15 * steps
    assert [m.id for m in (await bench.stored())[1:]] == [m.id for m in run.messages]
    assert (await bench.plain.journal.decisions.page_pending(ANN, None, 9, None)).items == ()


@pytest.mark.parametrize(
    ("name", "fact", "result"),
    [
        ("pay", is_step, None),
        ("look", is_step, "Cancelled: look was not run"),
        ("look", puts(CallState.OPEN), "Cancelled: look was not run"),
        ("look", puts(CallState.SETTLED), 1),
        ("pay", puts(CallState.WAITING), "Cancelled: pay was not run"),
        ("book", puts(CallState.WAITING), "Cancelled: book was not run"),
    ],
    ids=[
        "a step",
        "a step that begins a call",
        "a call begins",
        "a call ends",
        "a call needs approval",
        "a call suspends",
    ],
)
def test_a_cancel_keeps_and_tells_once_what_is_being_journaled(
    name: str, fact: Fact, result: Any
) -> None:
    given: dict[str, dict[str, Any]] = {
        "look": {"n": 1},
        "pay": {"amount": 1},
        "book": {"day": "mo"},
    }
    args = given[name]

    async def scene() -> None:
        ledger = Ledger()
        tools: list[Any] = [ledger.look, ledger.pay, ledger.book]
        agent = Agent("helper", model="m", tools=tools)
        bench = Bench(agent, [call(name, **args), say("next")], clock=LoopClock())
        run = await stopped(bench, slowed(bench, fact))
        # While the end of a call is journaled, the model answers already: its answer is kept, too.
        await judge(bench, run, steps=2 if result == 1 else 1)
        results = [r for role, r in told(run.messages) if role == "tool"]
        assert results == ([] if result is None else [result])

    played(scene())


def test_a_cancel_decides_a_wait_for_more_budget_that_is_being_journaled() -> None:
    async def scene() -> None:
        ledger = Ledger()
        agent = Agent("helper", model="m", tools=[ledger.look], limits=Limits(tokens=1))
        bench = Bench(agent, [call("look", n=1), say("next")], clock=LoopClock())
        run = await stopped(bench, slowed(bench, puts(CallState.WAITING, "budget_1")))
        await judge(bench, run)
        assert types(await bench.events(run.id))[-2:] == ["tool-call-decided", "finish"]

    played(scene())


class SlowBlobs(InMemoryBlobs):
    """S3 that takes its time."""

    def __init__(self, takes: float) -> None:
        super().__init__()
        self._takes = takes
        self.putting = asyncio.Event()

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        self.putting.set()
        await asyncio.sleep(self._takes)
        await super().put(key, data, content_type)


def large_bench(takes: float) -> tuple[Bench, SlowBlobs]:
    """A tool that is through at once; what it returns takes so many seconds to be kept."""

    @tool(to_model_output=lambda _: "large")
    async def fetch() -> str:
        """Fetch."""
        return LARGE

    blobs = SlowBlobs(takes)
    agent = Agent("helper", model="m", tools=[fetch])
    return Bench(agent, answers(call("fetch"), say("next")), clock=LoopClock(), blobs=blobs), blobs


def test_a_tool_that_ended_is_kept_though_a_cancel_comes_before_its_result_is_journaled() -> None:
    async def scene() -> None:
        bench, blobs = large_bench(takes=5)
        run_id = await bench.start()
        turn = asyncio.create_task(bench.turn(run_id))
        await blobs.putting.wait()
        await bench.plain.journal.commands.request_cancel(ANN, run_id, TIME_ENOUGH)
        assert (await turn)["status"] == "over"
        run = await bench.run(run_id)
        await judge(bench, run)
        assert told(run.messages)[1] == ("tool", LARGE)

    played(scene())


def test_a_call_that_must_not_run_twice_is_not_let_go_before_its_result_is_journaled() -> None:
    async def scene() -> None:
        bench, _ = large_bench(takes=9.5)
        run_id = await bench.start()
        time = asyncio.get_running_loop().time
        # From the ninth second on, what may be repeated is left to a fresh invocation.
        assert (await bench.turn(run_id, LoopDeadline(time() + 10)))["status"] == "yielded"
        assert (await bench.turn(run_id))["status"] == "over"
        assert told((await bench.run(run_id)).messages)[1] == ("tool", LARGE)

    played(scene())


def test_a_decided_call_does_not_begin_once_the_run_is_to_stop() -> None:
    done: list[int] = []

    async def scene() -> None:
        running = asyncio.Event()

        @tool(needs_approval=True)
        async def slow(n: int) -> str:
            """Take five seconds."""
            running.set()
            await asyncio.sleep(5)
            done.append(n)
            return "ok"

        agent = Agent("helper", model="m", tools=[slow], tool_concurrency=2)
        script = [calls(call("slow", n=1), call("slow", n=2))]
        bench = Bench(agent, script, clock=LoopClock())
        run = await suspended(bench)
        for name in ("call_1", "call_2"):
            await bench.decide(run.id, name, "approve")
        turn = asyncio.create_task(bench.turn(run.id))
        await running.wait()
        await bench.plain.journal.commands.request_cancel(ANN, run.id, TIME_ENOUGH)
        assert (await turn)["status"] == "over"
        ended = await bench.run(run.id)
        await judge(bench, ended)
        results = [r for role, r in told(ended.messages) if role == "tool"]
        assert (done, results) == ([1], ["ok", "Cancelled: slow was not run"])

    played(scene())
