"""What one user's waiting costs another one.

`python tests/benchmarks/neighbours.py` starts the one-machine system and prints p50 and p95 of one user's
reads: alone, and while another user asks for more long polls and sockets than anybody may hold. The second
p95 is meant to be below twice the first."""

import statistics
import sys
import threading
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from support.providers.openai import FakeOpenAI, calls
from support.system.folders import folder
from support.system.system import Brain, Caller, System

READS = 300
GREEDY = 25
"""Long polls at once; a user may hold ten."""
WAIT_S = 25


def main() -> None:
    """Print both rows, and their ratio."""
    with FakeOpenAI() as provider, folder("neighbours") as data:
        brain = Brain(provider)
        with System(data / "system", brain, checked=False) as system:
            modest, greedy = system.caller("modest"), system.caller("greedy")
            mine, theirs = suspended(brain, modest), suspended(brain, greedy)
            measured(modest, mine)  # the functions start
            alone = measured(modest, mine)
            with beset(system, theirs) as answers:
                beside = measured(modest, mine)
    print(row("alone", alone))
    print(row("beside", beside))
    print(f"p95: {p95(beside) / p95(alone):.2f} times; the other's answers: {dict(answers)}")


def suspended(brain: Brain, caller: Caller) -> str:
    """A run that waits for a person."""
    text = brain.plan(calls(("refund", {"order": "o1"}, "c1")))
    run_id = str(caller.start(caller.thread(), text)["id"])
    caller.suspended(run_id)
    return run_id


def measured(caller: Caller, run_id: str) -> list[float]:
    """Seconds of each read of a run and of a list, in turn."""
    seconds = []
    for number in range(READS):
        path = f"/runs/{run_id}" if number % 2 else "/threads"
        seconds.append(caller.call("GET", path).seconds)
    return seconds


class beset:
    """While it lasts, a user holds all the long polls that they get, and asks for more."""

    def __init__(self, system: System, run_id: str) -> None:
        self._system, self._run_id = system, run_id
        self._over = threading.Event()
        self._answers: Counter[int] = Counter()
        self._threads = [threading.Thread(target=self._poll) for _ in range(GREEDY)]

    def __enter__(self) -> Counter[int]:
        for thread in self._threads:
            thread.start()
        time.sleep(3)
        return self._answers

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _poll(self) -> None:
        caller = self._system.caller("greedy")
        while not self._over.is_set():
            answer = caller.call("GET", f"/runs/{self._run_id}?wait={WAIT_S}")
            self._answers[answer.status] += 1
            # A client that is refused asks again no sooner than it is told.
            self._over.wait(float(answer.headers.get("retry-after", 0)))


def p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]


def row(name: str, seconds: list[float]) -> str:
    return f"{name:>7}: p50 {statistics.median(seconds) * 1e3:6.1f} ms, p95 {p95(seconds) * 1e3:6.1f} ms"


if __name__ == "__main__":
    main()
