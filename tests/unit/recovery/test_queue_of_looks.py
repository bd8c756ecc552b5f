"""The sweeper's queue: whatever fails is put off, for longer each time, and each owner gets a turn."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

from layover import Agent, Approval, tool
from layover.adapters.journal.followers.connections import TableConnections
from layover.adapters.journal.sweep import in_turn
from layover.approvals.extend import extend
from layover.inmemory.model import call, say
from layover.keys import CONNECTION, DUE, META, Keys
from layover.recovery.reminders import expire_due
from layover.recovery.sweep import sweep
from layover.retention.expire import MAX_PAUSE
from layover.runs.accept import StartRun, start_run
from layover.values.deployment.access import Actor
from layover.values.socket import Connection
from support.worlds.runs import ANN, Bench, suspended

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def bench_of(*script: Any, **agent: Any) -> Bench:
    return Bench(Agent("shop", model="m", **agent), [*script, say("hi")])


async def swept(bench: Bench, after: timedelta = MINUTE) -> dict[str, int]:
    """Sweep after this time, and return the counts."""
    bench.clock.advance(after)
    return await sweep(bench.plain)


async def connected(bench: Bench, number: int) -> None:
    """Connections whose token is over, in a deployment that has no sockets any more."""
    connections, now = TableConnections(bench.table), bench.clock.now()
    for n in range(number):
        await connections.open(
            Connection(id=f"c{n}", owner=f"user{n}", token_expires_at=now, ends_at=now + 300 * HOUR)
        )


async def test_connections_that_nobody_can_close_keep_no_run_from_its_look() -> None:
    bench = bench_of()
    await connected(bench, 500)
    bench.clock.advance(5 * MINUTE)
    runs = [await bench.start(thread=f"t{n}") for n in range(8)]
    bench.callbacks.started.clear()
    for _ in range(3):
        await swept(bench)
    assert {run_id for _, run_id, _ in bench.callbacks.started} == set(runs)


async def test_what_fails_for_long_is_looked_at_ever_more_rarely() -> None:
    bench = bench_of()
    await connected(bench, 1)
    at = [minute for minute in range(120) if "trouble" in await swept(bench)]
    pauses = [later - earlier for earlier, later in pairwise(at)]
    assert pauses == [1, 2, 4, 8, *[MAX_PAUSE] * (len(pauses) - 4)]
    assert len(pauses) > 6


async def test_the_runs_of_one_owner_leave_a_turn_to_others() -> None:
    many = [(f"{Keys(ANN).run(str(n))}", META) for n in range(1_000)]
    bea, connections = (Keys("bea").run("r"), META), [(f"CONN#{n}", CONNECTION) for n in range(9)]
    assert in_turn([*many, *connections, bea], 5) == [
        many[0],
        connections[0],
        bea,
        many[1],
        connections[1],
    ]
    assert in_turn([(Keys(o).partition, "DUE#file#f") for o in "abab"], 2) == [
        (Keys(o).partition, "DUE#file#f") for o in "ab"
    ]
    assert in_turn([], 5) == []


async def test_a_thousand_dues_of_one_owner_keep_no_export_of_another_from_its_look() -> None:
    bench = bench_of()
    dues, now = bench.plain.journal.dues, bench.clock.now()
    for n in range(1_000):
        await dues.schedule(ANN, "file", f"f{n}", now)
    await dues.schedule("bea", "export", "e", now + MINUTE)
    bench.clock.advance(2 * MINUTE)
    first = await dues.overdue(bench.clock.now(), 100)
    assert [due.owner for due in first[:2]] == [ANN, "bea"]
    await sweep(bench.plain)
    assert await bench.table.due(DUE, "9999", 10) == []


async def ready(expires_after: timedelta | None = None) -> tuple[Bench, str]:
    """A run that waits for its thread, which another one holds, and still for a decision, which it reminds
    people of after an hour."""

    @tool(needs_approval=Approval(by=["finance"], remind_after=HOUR), expires_after=expires_after)
    async def pay_out(amount: int) -> str:
        """Pay out."""
        return f"paid {amount}"

    bench = bench_of(call("pay_out", amount=9), tools=[pay_out])
    run_id = (await suspended(bench)).id
    await bench.wait(run_id, "call_1")
    busy = await start_run(bench.plain, Actor(sub=ANN), "t1", StartRun("weather?"))
    log = await bench.plain.journal.writers.acquire(ANN, run_id, f"{run_id}-1")
    assert log is not None
    assert await log.wait_for_thread(await bench.head(), await bench.meta(busy.id))
    meta = await bench.meta(run_id)
    assert (meta.ready, len(meta.waiting)) == (True, 1)
    return bench, run_id


async def test_a_run_that_waits_for_its_thread_reminds_all_the_same() -> None:
    bench, _ = await ready()
    for _ in range(130):
        await swept(bench)
    sent = [d["n"] for kind, d in bench.callbacks.events if kind == "ApprovalReminder"]
    assert sent == [1, 2]


async def test_a_call_of_a_run_that_waits_for_its_thread_expires_all_the_same() -> None:
    bench, run_id = await ready(expires_after=90 * MINUTE)
    for _ in range(95):
        await swept(bench)
    decision = (await bench.call(run_id, "call_1")).decision
    assert decision.kind == "expired"
    kinds = [kind for kind, _ in bench.callbacks.events]
    assert kinds.count("ApprovalDecided") in (1, 2)


async def test_a_call_that_expires_later_since_it_was_read_goes_on_waiting() -> None:
    bench, run_id = await ready(expires_after=90 * MINUTE)
    read = await bench.call(run_id, "call_1")
    later = bench.clock.now() + 10 * HOUR
    bea = Actor(sub="bea", groups=frozenset({"finance"}))
    await extend(bench.plain, bea, run_id, "call_1", later, attempt=1)
    bench.clock.advance(2 * HOUR)
    await expire_due(bench.plain, await bench.meta(run_id), [read])
    assert (await bench.call(run_id, "call_1")).decision is None
    assert (
        await expire_due(
            bench.plain, await bench.meta(run_id), [await bench.call(run_id, "call_1")]
        )
        == later
    )
