"""The cost of traces: a question, a tool call, its result, an answer, with a journal and a model in memory.

`python tests/benchmarks/tracing.py [PAIRS]` prints the CPU of one such turn without traces, and what
recording and sending them adds, to a receiver in another process. Turns with and without traces alternate in
one process, and medians are compared: the pace of a machine changes within seconds. The turn of `turn.py` has
its HTTP and its stores as well: compare the addition with that one. What importing adds to a cold start is
printed beside it."""

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]

from layover import Agent, tool
from layover.inmemory.model import call, say
from support.otlp import receiving
from support.worlds.runs import Bench, answers
from support.worlds.traces import TickingClock, TracedBench

PAIRS, WARM_UP = 200, 20


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "sunny"


AGENT = Agent("guide", instructions="Be brief.", model="openai/gpt-5-mini", tools=[weather])


class OneProcess(TracedBench):
    """All invocations in one process."""

    has_begun = False
    flush_s = 30.0

    def process(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            super().process()


class Measured:
    """Turns of one bench, and the CPU of this process for each, all threads, in ms."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.ms: list[float] = []

    async def turn(self) -> None:
        began = time.process_time()
        await self.bench.go(thread=f"t{len(self.ms)}")
        self.ms.append((time.process_time() - began) * 1_000)


async def compare(script: Any, pairs: int) -> tuple[list[float], list[float]]:
    """CPU of turns without traces, and of as many with them, in ms."""
    # By the same clock: what it costs is not the traces'.
    plain = Measured(Bench(AGENT, script, clock=TickingClock()))
    traced = Measured(OneProcess(AGENT, script))
    for number in range(WARM_UP + pairs):
        for each in (plain, traced) if number % 2 else (traced, plain):
            await each.turn()
    return plain.ms[WARM_UP:], traced.ms[WARM_UP:]


def import_ms() -> float:
    """CPU of importing what traces need, in a process that has imported what each turn does."""
    code = (
        "import time; from layover.ahead import import_all; import_all('turn', lambda: None)\n"
        "began = time.process_time(); import layover.plugins.traces.otlp\n"
        "print((time.process_time() - began) * 1_000)"
    )
    layer = str(TESTS.parent / "layers" / "shared" / "python")
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": layer},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout)


@contextmanager
def receiver() -> Iterator[str]:
    """A receiver in a process of its own; its URL."""
    with subprocess.Popen(
        [sys.executable, __file__, "receive"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def receive() -> None:
    """Serve until this process is killed."""
    with receiving() as served:
        print(served.url, flush=True)
        time.sleep(3_600)


def main(pairs: int) -> None:
    script = answers(call("weather", city="Rome"), say("It is sunny in Rome."))
    with receiver() as url:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = url
        # As little as possible of what is measured is the walk through what the bench keeps of all turns.
        gc.collect()
        gc.freeze()
        plain, traced = asyncio.run(compare(script, pairs))
    more = median(with_traces - without for with_traces, without in zip(traced, plain, strict=True))
    share = more / median(plain)
    print(f"turn in memory, without traces: CPU {median(plain):8.2f} ms")
    print(f"traces of it, recorded and sent: CPU {more:7.2f} ms, {share:.0%} of that turn")
    print(f"importing them, once a process: CPU {min(import_ms() for _ in range(3)):8.1f} ms")


if __name__ == "__main__":
    if sys.argv[1:] == ["receive"]:
        receive()
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else PAIRS)
