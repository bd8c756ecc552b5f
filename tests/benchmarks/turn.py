"""The cost of a turn: a question, a tool call, its result, an answer, with a model that answers at once.

`python tests/benchmarks/turn.py [TURNS]` starts the one-machine system, whose functions are processes as on
Lambda, and prints a table: CPU of the functions' processes, waits of a caller, state transitions, memory,
write units. CPU stands beside the floor of the same run (`floor.py`): compare ratios, never milliseconds of
two machines."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]

import psutil

from benchmarks.sample import get_weather
from layover import Agent
from layover.inmemory.model import call as scripted_call
from layover.inmemory.model import say as scripted_say
from layover.inmemory.table import InMemoryTable
from support.providers.openai import FakeOpenAI, Reply, call, fail, say
from support.system.folders import folder
from support.system.system import Brain, Caller, Json, System, eventually
from support.worlds.runs import Bench
from support.worlds.write_units import CountingTable

TURNS = 100
WARM_UP = 10
COLD = 3
CLIENTS, LOAD = 50, 200
QUESTION = "What is the weather like in Paris today, and do I need an umbrella?"
ANSWER = "It is sunny in Paris at 21 C, and you need no umbrella. " * 2
AWS_MS = {"get": 3, "query": 3, "write": 5, "transact": 12}
"""Answer times of DynamoDB within a region, in ms."""


def show(figure: str, value: float, unit: str, floor: float | None = None) -> None:
    """Print a line: the figure, and how often it is the floor's (in the same unit)."""
    ratio = f"{value / floor:.2f}" if floor else ""
    print(f"{figure:<58} {f'{value:,.1f} {unit}':>16} {ratio:>8}", flush=True)


def respond(body: Any) -> Reply:
    """A call of the first tool that fits the question, then an answer."""
    messages = body["messages"]
    newest = max(i for i, m in enumerate(messages) if m["role"] == "user")
    if any(m["role"] == "tool" for m in messages[newest:]):
        return say(ANSWER)
    if "refund" in str(messages[newest]["content"]):
        return call("issue_refund", order_id="o1")
    return call("get_weather", city="Paris")


def respond_plainly(body: Any) -> Reply:
    """As `respond`, from a server that does not stream."""
    if body.get("stream"):
        return fail(400, "Streaming is not supported")
    return respond(body)


def cpu_ms(system: System, *functions: str) -> dict[int, float]:
    """CPU time of the functions' processes so far, by process."""
    times = {
        e["pid"]: psutil.Process(e["pid"]).cpu_times() for e in system.environments(*functions)
    }
    return {pid: (t.user + t.system) * 1_000 for pid, t in times.items()}


def since(before: dict[int, float], after: dict[int, float]) -> float:
    """Return what the processes used since then; new processes count from their start."""
    return sum(value - before.get(pid, 0.0) for pid, value in after.items())


def ask(caller: Caller, thread: str, text: str = QUESTION, **more: Any) -> tuple[Json, float]:
    """A run that is over or suspended, and the milliseconds of the wait."""
    began = time.perf_counter()
    run = caller.ask(thread, text, **more)
    return run, (time.perf_counter() - began) * 1_000


def warm(system: System, brain: Brain, floor: Json, turns: int) -> None:
    """Turns one after the other in one environment. For the plain ones the provider refuses streams: one
    on this machine is asked for them even if nobody follows."""
    caller = system.caller()
    for stream in (False, True):
        system.kill("turn")
        brain.provider.respond_with(respond if stream else respond_plainly)
        thread = caller.thread("weather")
        for _ in range(WARM_UP):
            ask(caller, thread, stream=stream)
        before, api = cpu_ms(system, "turn"), cpu_ms(system, "api")
        waits = [ask(caller, thread, stream=stream)[1] for _ in range(turns)]
        kind = "streamed" if stream else "plain"
        used = since(before, cpu_ms(system, "turn")) / turns
        show(f"warm turn, {kind}: CPU of turn", used, "ms", floor["cpu_ms"])
        if not stream:
            used = since(api, cpu_ms(system, "api")) / turns
            show("warm turn: CPU of api, waiting included", used, "ms", floor["cpu_ms"])
            show("whole run, p50", statistics.median(waits), "ms")
            show("whole run, p95", statistics.quantiles(waits, n=20)[18], "ms")
    rss = max(psutil.Process(e["pid"]).memory_info().rss for e in system.environments("turn"))
    show("memory of turn after these", rss / 2**20, "MB", floor["rss_mb"])


def cold(system: System) -> None:
    """Fresh processes: to the first answer, and from an approval to the end."""
    caller = system.caller()
    first, approval = [], []
    for _ in range(COLD):
        thread = caller.thread("refunds")
        system.kill("turn", "resume")
        run, _ = ask(caller, thread)
        first.append(sum(cpu_ms(system, "turn").values()))
        run, _ = ask(caller, thread, "please refund my order")
        eventually(partial(system.published, run["id"]))
        system.kill("turn", "resume")
        caller.decide(run["id"], run["pending"][0]["tool_call_id"], "approve")
        caller.over(run["id"])
        approval.append(sum(cpu_ms(system, "turn", "resume").values()))
    show("cold turn to its answer: CPU of turn", statistics.median(first), "ms")
    show("approval in fresh processes: CPU", statistics.median(approval), "ms")


def transitions(system: System) -> None:
    """States entered by a plain run, and by one with an approval."""
    caller = system.caller()
    thread = caller.thread("refunds")
    plain, _ = ask(caller, thread)
    approved, _ = ask(caller, thread, "please refund my order")
    caller.decide(approved["id"], approved["pending"][0]["tool_call_id"], "approve")
    caller.over(approved["id"])
    show("state transitions of a plain run", entered(system, plain["id"]), "")
    show("state transitions of a run with an approval", entered(system, approved["id"]), "")


def entered(system: System, run_id: str) -> int:
    """States that the run's execution entered, once it is over."""
    states = system.aws("stepfunctions")
    machine = system.services["state_machine_arn"]
    arn = machine.replace(":stateMachine:", ":execution:") + f":{run_id}-1"
    eventually(lambda: states.describe_execution(executionArn=arn)["status"] != "RUNNING")
    pages = states.get_paginator("get_execution_history").paginate(executionArn=arn)
    return sum(e["type"].endswith("StateEntered") for page in pages for e in page["events"])


def load(system: System) -> None:
    """Clients that each go on as soon as they have an answer."""
    for figure in ("", "runs a second, 50 clients"):
        left, lock = [LOAD], threading.Lock()

        def client(caller: Caller, left: list[int] = left, lock: Any = lock) -> None:
            thread = caller.thread("weather")
            while True:
                with lock:
                    if not left[0]:
                        return
                    left[0] -= 1
                # Beyond the places to wait, a run that goes on is answered at once.
                run = caller.start(thread, QUESTION)
                while caller.run(run["id"], 5)["status"] != "success":
                    time.sleep(0.1)

        callers = [system.caller() for _ in range(CLIENTS)]
        threads = [threading.Thread(target=client, args=(caller,)) for caller in callers]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if figure:  # The first round starts the environments.
            show(figure, LOAD / (time.perf_counter() - began), "runs/s")


class DistantTable(InMemoryTable):
    """A table that answers as late as DynamoDB does."""

    async def get(self, *args: Any, **more: Any) -> Any:
        await asyncio.sleep(AWS_MS["get"] / 1_000)
        return await super().get(*args, **more)

    async def query(self, *args: Any, **more: Any) -> Any:
        await asyncio.sleep(AWS_MS["query"] / 1_000)
        return await super().query(*args, **more)

    async def write(self, *args: Any, **more: Any) -> Any:
        await asyncio.sleep(AWS_MS["write"] / 1_000)
        return await super().write(*args, **more)

    async def transact(self, *args: Any, **more: Any) -> None:
        await asyncio.sleep(AWS_MS["transact"] / 1_000)
        await super().transact(*args, **more)


async def in_memory(steps: int, table: InMemoryTable, text: str = QUESTION) -> tuple[float, float]:
    """Seconds and CPU seconds of a turn with so many steps, on a journal in memory."""
    agent = Agent("weather", model="m", tools=[get_weather], max_iterations=steps + 1)
    script: Sequence[Any] = [scripted_call("get_weather", city="Paris")] * (steps - 1)
    bench = Bench(agent, [*script, scripted_say(ANSWER)], table=table)
    run_id = await bench.start(text)
    began, cpu = time.perf_counter(), time.process_time()
    status = (await bench.turn(run_id))["status"]
    assert status == "over", status
    return time.perf_counter() - began, time.process_time() - cpu


def journal() -> None:
    """Writes of a turn in DynamoDB's units, its waits, and what a step of a long run costs."""
    for figure, text in (("", QUESTION), (", input of 20 KB", os.urandom(10_000).hex())):
        counting = CountingTable()
        asyncio.run(in_memory(2, counting, text))
        show(f"write units of accepting and turn{figure}", counting.total, "WRU")
    waits = [asyncio.run(in_memory(2, DistantTable()))[0] for _ in range(5)]
    show("turn on a journal as far as DynamoDB", statistics.median(waits) * 1_000, "ms")
    costs = {
        n: min(asyncio.run(in_memory(n, InMemoryTable()))[1] for _ in range(3)) for n in (10, 200)
    }
    show("CPU of a step in a run of 200 against 10", costs[200] / 200 / (costs[10] / 10), "x")


def floor_of(system: System, brain: Brain, turns: int) -> Json:
    """The floor's figures, from a process of its own."""
    dsn, url = system.services["postgres_admin"], brain.provider.base_url
    command = [sys.executable, str(TESTS / "benchmarks/floor.py"), dsn, url, str(turns)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found: Json = json.loads(done.stdout)
    return found


def main(turns: int) -> None:
    print(f"{'figure':<58} {'measured':>16} {'x floor':>8}")
    journal()
    with FakeOpenAI() as provider, folder("bench") as data:
        brain = Brain(provider)
        provider.respond_with(respond)
        provider.respond_with(lambda _: say("A title"), task="title")
        options = {"agents": "benchmarks.sample", "checked": False}
        with System(data, brain, **options) as system:  # type: ignore[arg-type]
            floor = floor_of(system, brain, turns)
            show("floor: CPU of a turn by hand", floor["cpu_ms"], "ms")
            warm(system, brain, floor, turns)
            cold(system)
            transitions(system)
            load(system)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TURNS)
