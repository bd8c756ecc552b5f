"""The time of operators' requests over many runs.

`python tests/benchmarks/operators.py [RUNS]` starts the one-machine system, writes runs of many users into
its table (5,000 if not given: a fifth wait, an eighth of the others failed), and prints p50 and p95 of each
request. The lists are meant to be answered within 300 ms."""

import asyncio
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1])]

from layover.adapters.aws.services import AwsServices
from layover.adapters.blobs.s3 import S3Blobs
from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.clock import ManualClock
from layover.ids import RandomIds
from layover.values.runs.run import Status
from support.providers.openai import FakeOpenAI
from support.system.folders import folder
from support.system.system import Brain, Caller, System
from support.worlds.journal import JournalBench

RUNS = 5_000
USERS = 50
REQUESTS = 40
RETENTION = timedelta(days=1)
QUERIES = (
    # One query of the table, to compare with: how busy the machine is.
    "/threads",
    "/operate/runs",
    "/operate/runs?limit=100",
    "/operate/runs?status=failed",
    "/operate/runs?status=suspended",
    "/operate/runs?agent=shop",
    "/operate/runs?owner=user-7",
    "/operate/runs?error=Boom",
    "/operate/runs?agent=nobody",
    "/operate/summary",
)


def main() -> None:
    """Print a row for each request."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with (
        FakeOpenAI() as provider,
        folder("operators") as data,
        System(data / "system", Brain(provider), checked=False) as system,
    ):
        began = time.monotonic()
        asyncio.run(fill(system, count))
        print(f"{count} runs written in {time.monotonic() - began:.0f} s", flush=True)
        olga = system.caller("olga;scopes=operate")
        for path in QUERIES:
            print(row(path, measure(olga, path)), flush=True)
        run_id = olga.call("GET", "/operate/runs").body["items"][0]["id"]
        seconds = measure(olga, f"/operate/runs/{run_id}")
        print(row("/operate/runs/{run_id}", seconds), flush=True)


async def fill(system: System, count: int) -> None:
    """Write runs, the oldest first: of some users, with two steps each."""
    s3, services = system.aws("s3"), system.services
    variables = {
        "AWS_ACCESS_KEY_ID": services["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": services["secret_access_key"],
        "AWS_ENDPOINT_URL": services["endpoint_url"],
        "AWS_REGION": "us-east-1",
    }
    table = DynamoTable(AwsServices(variables).client("dynamodb"), services["table"])
    blobs = S3Blobs(lambda: s3, system.services["bucket"])
    clock, ids = ManualClock(datetime.now(UTC) - timedelta(hours=6)), RandomIds()
    users = [JournalBench(table, blobs, f"user-{n}", clock) for n in range(USERS)]
    for number in range(count):
        clock.advance(timedelta(seconds=2))
        await write(users[number % USERS], ids.new("run"), number)


async def write(user: JournalBench, run_id: str, number: int) -> None:
    """Write one run."""
    agent = "shop" if number % 3 else "support"
    head = await user.thread(agent=agent)
    expire_at = user.clock.now() + RETENTION + timedelta(hours=1)
    await user.accept(head.id, id=run_id, records_expire_at=expire_at)
    log = await user.take(run_id)
    if number % 5 == 0:
        await user.waiting(log, "c1")
        # Nothing drives it, and the sweeper is to leave it alone.
        far = datetime.now(UTC) + timedelta(days=1)
        await user.journal.watch.reschedule(await user.look(run_id), far)
        return
    await user.journaled(log, "c1")
    status = Status.FAILED if number % 8 == 0 else Status.SUCCESS
    outcome: Any = user.outcome(log.snapshot.meta, status)
    await log.end(outcome, user.finish(outcome), retention=RETENTION)


def measure(caller: Caller, path: str) -> list[float]:
    """Seconds of each request; the first ones start the functions."""
    for _ in range(5):
        caller.call("GET", path)
    found = []
    for _ in range(REQUESTS):
        answer = caller.call("GET", path)
        assert answer.status == 200, answer
        found.append(answer.seconds)
    return found


def row(title: str, seconds: list[float]) -> str:
    """Milliseconds of these requests."""
    half, most = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
    return f"{title:<40} p50 {half * 1e3:6.1f} ms  p95 {most * 1e3:6.1f} ms"


if __name__ == "__main__":
    main()
