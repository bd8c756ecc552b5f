"""The cost of traces: a question, a tool call, its result, an answer, with a journal and a model in memory.

`python tests/benchmarks/tracing.py [TURNS]` prints the CPU of one such turn without traces, and what
recording and sending them adds, to a receiver in another process. The turn of `turn.py` has its HTTP and its
stores as well: compare the addition with that one."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS)]

from layover import Agent, tool
from layover.adapters.inmemory.model import call, say
from support.otlp import receiving
from support.worlds.runs import Bench, answers
from support.worlds.traces import TracedBench

TURNS, WARM_UP = 200, 20


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "sunny"


AGENT = Agent("guide", instructions="Be brief.", model="openai/gpt-5-mini", tools=[weather])


class OneProcess(TracedBench):
    """All invocations in one process."""

    has_begun = False
    flush_s = 1.0

    def process(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            super().process()


async def cpu_ms(bench: Bench, turns: int) -> float:
    """CPU of this process for one turn, all threads, in ms."""
    for number in range(WARM_UP):
        await bench.go(thread=f"w{number}")
    began = time.process_time()
    for number in range(turns):
        await bench.go(thread=f"t{number}")
    return (time.process_time() - began) * 1_000 / turns


@contextmanager
def receiver() -> Iterator[str]:
    """A receiver in a process of its own; its URL."""
    with subprocess.Popen(
        [sys.executable, __file__, "receive"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def receive() -> None:
    """Serve until this process is killed."""
    with receiving() as served:
        print(served.url, flush=True)
        time.sleep(3_600)


def main(turns: int) -> None:
    script = answers(call("weather", city="Rome"), say("It is sunny in Rome."))
    rounds = []
    with receiver() as url:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = url
        for _ in range(3):
            plain = asyncio.run(cpu_ms(Bench(AGENT, script), turns))
            traced = asyncio.run(cpu_ms(OneProcess(AGENT, script), turns))
            rounds.append((plain, traced - plain))
    plain, more = min(r[0] for r in rounds), min(r[1] for r in rounds)
    print(f"turn in memory, without traces: CPU {plain:8.2f} ms")
    print(f"traces of it, recorded and sent: CPU {more:7.2f} ms")


if __name__ == "__main__":
    if sys.argv[1:] == ["receive"]:
        receive()
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else TURNS)
