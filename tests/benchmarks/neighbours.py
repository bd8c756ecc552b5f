"""The cost to other users of a user who holds every connection that one user may hold.

`python tests/benchmarks/neighbours.py` starts the one-machine system and prints p50 and p95 of one user's
`GET /threads` and `POST /threads`: alone, and while another user holds all streams, long polls, sockets and
announced files that one user may. Each is measured twice, in turn, so that the machine's own pauses are in
both. The second p95 is meant to be within twice the first."""

import statistics
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1])]

from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.greedy import Greedy
from support.system.system import Brain, Caller, System

REQUESTS = 200
"""Of each kind, in each round."""
WARM_UP = 20
ROUNDS = 2
KINDS = ("GET", "POST")


def main() -> None:
    """Print a row for each kind of request, alone and beside the other user."""
    alone: dict[str, list[float]] = {kind: [] for kind in KINDS}
    beside: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with FakeOpenAI() as provider, folder("neighbours") as data:
        brain = Brain(provider)
        with System(data / "system", brain, checked=False) as system:
            bob = system.caller()
            for number in range(ROUNDS):
                measure(bob, alone, f"round {number + 1}, alone")
                with Greedy(system, brain):
                    measure(bob, beside, f"round {number + 1}, beside")
    for kind in KINDS:
        ratio = p95(beside[kind]) / p95(alone[kind])
        print(row(f"{kind} /threads, alone", alone[kind]))
        print(f"{row(f'{kind} /threads, beside', beside[kind])}: {ratio:.2f} times")


def measure(caller: Caller, found: dict[str, list[float]], title: str) -> None:
    """Add seconds of each request, by kind; those that start the functions are not counted."""
    for _ in range(WARM_UP):
        request(caller, "GET")
        request(caller, "POST")
    for kind in KINDS:
        seconds = [request(caller, kind) for _ in range(REQUESTS)]
        print(row(f"{title}, {kind}", seconds), flush=True)
        found[kind] += seconds


def request(caller: Caller, kind: str) -> float:
    """Seconds of one request that was answered."""
    body = {"agent": "support"} if kind == "POST" else None
    answer = caller.call(kind, "/threads", body)
    assert answer.status in (200, 201), answer
    return answer.seconds


def p95(seconds: list[float]) -> float:
    """The time within which 19 of 20 requests were answered."""
    return statistics.quantiles(seconds, n=20)[-1]


def row(title: str, seconds: list[float]) -> str:
    """Milliseconds of these requests."""
    half = statistics.median(seconds)
    return f"{title:>22}: p50 {half * 1e3:6.1f} ms, p95 {p95(seconds) * 1e3:6.1f} ms"


if __name__ == "__main__":
    main()
