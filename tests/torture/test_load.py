"""Many runs on many threads while processes are killed at random: nothing lost, nothing twice."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

from support.kills.story import Scenario
from support.kills.torture import OVER, Client, Torture
from support.providers.openai import calls, say
from support.system.system import Json

BRIEF = Scenario(
    "brief",
    (calls(("charge", {"order": "this"}, "b1")), say("charged")),
    "please charge this order now",
)
VICTIMS = ("api", "turn", "resume", "settle", "extract", "compact", "sweep")
TOLD = "Interrupted: charge may or may not have taken effect"
LIMIT_S = 420.0


@dataclass
class Load:
    """The size of a load: users x threads x runs, and the interval and duration of the kills in seconds."""

    users: int
    threads: int
    runs: int
    every_s: float
    for_s: float


@contextmanager
def killing(system: Torture, load: Load) -> Iterator[Counter[str]]:
    """SIGKILL a random process of a random function, again and again; a summary."""
    seed, over, done = random.randrange(10**6), threading.Event(), Counter[str]()
    dice = random.Random(seed)

    def kill() -> None:
        until = time.monotonic() + load.for_s
        while not over.wait(load.every_s) and time.monotonic() < until:
            there = system.environments(*VICTIMS)
            if there:
                victim = dice.choice(there)
                with suppress(ProcessLookupError):
                    os.kill(victim["pid"], signal.SIGKILL)
                    done[victim["function"]] += 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()
        print(f"\nseed {seed}, killed {dict(done)}")


def one_thread(client: Client, load: Load) -> tuple[str, list[str]]:
    """A thread and its runs in the order in which they were accepted."""
    thread = client.thread()
    return thread, [client.start(thread, BRIEF, on_busy="enqueue") for _ in range(load.runs)]


def one_user(system: Torture, load: Load) -> Counter[str]:
    """All of a user's threads; what became of the runs."""
    with system.client() as client:
        client.give_until(LIMIT_S)
        threads = [one_thread(client, load) for _ in range(load.threads)]
        found = Counter[str]()
        for thread, run_ids in threads:
            runs = [client.drive(run_id) for run_id in run_ids]
            found += check_thread(system, client, thread, runs)
        return found


def check_thread(system: Torture, client: Client, thread: str, runs: list[Json]) -> Counter[str]:
    """Nothing lost, nothing twice, in order, and the thread is free."""
    assert all(run["status"] in OVER for run in runs)
    assert client.want(200, "GET", f"/threads/{thread}")["active_run"] is None
    messages = client.caller.messages(thread)
    order = list(dict.fromkeys(m["run_id"] for m in messages))
    assert order == [run["id"] for run in runs]
    rows = (
        "select m.id from messages m join threads t on t.key = m.thread "
        "where t.resource_id = %s and t.id = %s order by m.created_at, m.id"
    )
    saved = [row[0] for row in system.sql(rows, client.name, thread)]
    assert saved == [m["id"] for m in messages]
    return Counter(check_run(system, client, run) for run in runs)


def check_run(system: Torture, client: Client, run: Json) -> str:
    """Check one run, and return its end: `done`, `interrupted` or `failed`."""
    charged = [e for e in system.ledger_of(client.name) if e["run"] == run["id"]]
    assert len(charged) <= 1, charged
    events = client.caller.events(run["id"])
    types = Counter(e["type"] for e in events)
    assert types["finish"] == 1
    if run["status"] == "failed":
        assert run["error"]["type"] == "AttemptsUsedUp", run
        return "failed"
    assert run["status"] == "success", run
    roles = [m["role"] for m in run["messages"]]
    assert roles == ["assistant", "tool", "assistant"], roles
    assert types["agent-start"] == types["agent-end"] == 1
    (result,) = [p["result"] for p in run["messages"][1]["content"]]
    if result == TOLD:
        return "interrupted"
    assert len(charged) == 1
    return "done"


def stand(system: Torture, load: Load) -> Counter[str]:
    """The whole load at once; what became of the runs."""
    began = time.monotonic()
    found = Counter[str]()
    with killing(system, load), ThreadPoolExecutor(load.users) as pool:
        for part in pool.map(lambda _: one_user(system, load), range(load.users)):
            found += part
    print(f"{found.total()} runs in {time.monotonic() - began:.0f} s: {dict(found)}")
    assert found.total() == load.users * load.threads * load.runs
    return found


def test_some_runs_on_some_threads_survive_random_kills(system: Torture) -> None:
    found = stand(system, Load(users=5, threads=1, runs=2, every_s=0.7, for_s=4))
    assert found["failed"] == 0


@pytest.mark.torture
def test_many_runs_on_many_threads_survive_random_kills(system: Torture) -> None:
    found = stand(system, Load(users=10, threads=5, runs=4, every_s=0.5, for_s=60))
    # Five deaths in a row without a step end a run (docs/behaviour.md#attempts): rare, and said so.
    assert found["failed"] <= 2
