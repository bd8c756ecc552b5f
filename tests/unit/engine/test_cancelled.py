"""Runs that are cancelled while calls wait or run, and branches that die."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, tool
from layover.errors import DecisionAlreadyMade, NotFound
from layover.inmemory.model import call, calls, say
from layover.runs.cancel import cancel
from layover.values.runs.event import MessageEvent
from layover.values.runs.run import CallState, FinishReason, Status
from support.worlds.loops import skipping
from support.worlds.runs import ANN, Bench, Ledger, suspended, told, types


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


async def test_cancelling_a_suspended_run_settles_each_waiting_call_and_wakes_it(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(calls(call("pay", amount=1), call("book", day="mo"), call("look", n=1)))
    run = await suspended(bench)
    await bench.wait(run.id, "call_1", "one")
    await bench.wait(run.id, "call_2", "two")
    meta = await cancel(bench.plain, ANN, run.id)
    assert (meta.status, meta.finish_reason) == (Status.CANCELLED, FinishReason.CANCELLED)
    assert bench.callbacks.woken == ["one", "two"]
    events = await bench.events(run.id)
    decided = [(e.tool_call_id, e.decision.value) for e in events if e.type == "tool-call-decided"]
    assert decided == [("call_1", "cancelled"), ("call_2", "cancelled")]
    assert types(events)[-1] == "finish"
    run = await bench.run(run.id)
    assert [r for role, r in told(run.messages) if role == "tool"] == [
        "Cancelled: pay was not run",
        "Cancelled: book was not run",
        1,
    ]
    assert (run.pending, run.unexecuted) == ((), ())
    with pytest.raises(DecisionAlreadyMade):
        await bench.decide(run.id, "call_1", "approve")
    assert (await bench.branch(run.id, "call_1", {"approved": True})).status == "done"
    assert ledger.done == [("look", 1)]
    assert (await bench.head()).active_run is None


async def test_calls_that_a_cancel_closes_are_told_as_they_are_stored(ledger: Ledger) -> None:
    bench = ledger.bench(calls(call("pay", amount=1), call("look", n=1)))
    run = await suspended(bench)
    await cancel(bench.plain, ANN, run.id)
    events = await bench.events(run.id)
    assert types(events)[-3:] == ["tool-call-decided", "tool-execution-end", "finish"]
    messages = [e.message for e in events if isinstance(e, MessageEvent)]
    stored = {m.id: m for m in await bench.stored()}
    assert [m.role.value for m in messages] == ["assistant", "tool", "tool"]
    assert told(messages)[-1] == ("tool", "Cancelled: pay was not run")
    assert [told([stored[m.id]]) for m in messages] == [told([m]) for m in messages]
    assert [stored[m.id].parent_id for m in messages] == [m.parent_id for m in messages]


async def test_a_cancelled_run_is_saved_before_its_finish(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    save, over = bench.threads.save_turn, []

    async def saving(record: Any) -> None:
        over.append((await bench.meta(run.id)).status.over)
        await save(record)

    bench.threads.save_turn = saving  # type: ignore[method-assign]
    assert (await cancel(bench.plain, ANN, run.id)).saved
    assert (over, (await bench.head()).unsaved) == ([False], ())
    assert told(await bench.stored())[-1] == ("tool", "Cancelled: pay was not run")


async def test_a_run_cancelled_while_the_database_is_away_wakes_its_calls_and_is_saved_later(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(call("pay", amount=1), say("fresh"))
    run = await suspended(bench)
    await bench.wait(run.id, "call_1", "one")
    bench.threads.away = True
    assert not (await cancel(bench.plain, ANN, run.id)).saved
    assert bench.callbacks.woken == ["one"]
    bench.threads.away = False
    again = await bench.go("again")
    assert [m.run_id for m in await bench.stored()] == [run.id] * 3 + [again.id] * 2


async def test_a_run_behind_one_that_is_unsaved_is_not_saved_before_it(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1), say("fresh"))
    bench.threads.away = True
    first = await suspended(bench)
    await cancel(bench.plain, ANN, first.id)
    second = await bench.start("second")
    bench.threads.away = False
    await cancel(bench.plain, ANN, second, holder_has_s=0)
    assert (await bench.head()).unsaved == (first.id, second)
    again = await bench.go("again")
    saved = [m.run_id for m in await bench.stored()]
    assert list(dict.fromkeys(saved)) == [first.id, second, again.id]


async def test_a_decided_call_that_a_cancel_overtakes_was_not_run(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")

    async def no_time(_: float) -> None:
        bench.clock.advance(timedelta(seconds=1))

    await cancel(bench.plain, ANN, run.id, holder_has_s=0, sleep=no_time)
    record = await bench.call(run.id, "call_1")
    assert (record.state, record.result) == (CallState.SETTLED, "Cancelled: pay was not run")
    assert record.decision.kind.value == "approved"
    assert types(await bench.events(run.id)).count("tool-call-decided") == 1


async def test_a_cancelled_queued_run_leaves_nothing_in_the_thread(ledger: Ledger) -> None:
    from layover.values.runs.run import OnBusy

    bench = ledger.bench(call("pay", amount=1))
    first = await suspended(bench)
    queued = await bench.start("later", on_busy=OnBusy.ENQUEUE)
    meta = await cancel(bench.plain, ANN, queued)
    assert meta.status is Status.CANCELLED
    assert types(await bench.events(queued)) == ["finish"]
    assert (await bench.run(first.id)).status is Status.SUSPENDED


async def test_a_finished_run_stays_as_it_is() -> None:
    bench = Bench(Agent("helper", model="m"), [say("done")])
    run = await bench.go()
    await cancel(bench.plain, ANN, run.id)
    assert await bench.run(run.id) == run
    with pytest.raises(NotFound):
        await cancel(bench.plain, ANN, "run_unknown")


async def test_the_thread_goes_on_after_a_cancel_without_what_was_not_answered(
    ledger: Ledger,
) -> None:
    step = calls(call("pay", amount=1), call("look", n=1))
    bench = ledger.bench(step, say("fresh"), concurrency=1)
    run = await suspended(bench)
    await cancel(bench.plain, ANN, run.id)
    again = await bench.go("again")
    assert (again.status, again.text) == (Status.SUCCESS, "fresh")
    prompt = bench.model.prompts[-1]
    named = [c.tool_call_id for m in prompt.messages for c in m.tool_calls]
    assert named == ["call_1"]


@pytest.mark.parametrize("sibling_waits", [True, False])
@skipping
async def test_a_cancel_overtakes_a_decided_call_that_is_running(sibling_waits: bool) -> None:
    running, release = asyncio.Event(), asyncio.Event()

    @tool(needs_approval=True)
    async def slow(n: int) -> str:
        """Take long."""
        running.set()
        await release.wait()
        return "late"

    agent = Agent("helper", model="m", tools=[slow], tool_concurrency=2)
    script = calls(*(call("slow", n=n) for n in range(2 if sibling_waits else 1)))
    bench = Bench(agent, [script])
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    settling = asyncio.create_task(bench.branch(run.id, "call_1"))
    await asyncio.wait_for(running.wait(), 60)
    meta = await asyncio.wait_for(cancel(bench.plain, ANN, run.id), 60)
    assert meta.status is Status.CANCELLED
    assert (await asyncio.wait_for(settling, 60)).status == "done"
    release.set()
    ended = await bench.run(run.id)
    assert told(ended.messages)[1] == (
        "tool",
        "Cancelled: slow may or may not have taken effect",
    )
    events = types(await bench.events(run.id))
    assert (events[-1], events.count("finish")) == ("finish", 1)


async def test_a_branch_that_dies_in_its_tool_leaves_its_siblings_to_finish(
    ledger: Ledger,
) -> None:
    died = asyncio.Event()

    @tool(needs_approval=True)
    async def send(n: int) -> str:
        """Send."""
        if n == 1:
            died.set()
            await asyncio.Event().wait()
        await asyncio.wait_for(died.wait(), 60)
        ledger.done.append(n)
        return f"sent {n}"

    agent = Agent("helper", model="m", tools=[send], tool_concurrency=3)
    step = calls(*(call("send", n=n) for n in (1, 2, 3)))
    bench = Bench(agent, [step, say("ok")])
    run = await suspended(bench)
    for n in (1, 2, 3):
        await bench.decide(run.id, f"call_{n}", "approve")
    dying = asyncio.create_task(bench.branch(run.id, "call_1"))
    await asyncio.wait_for(died.wait(), 60)
    await asyncio.gather(bench.branch(run.id, "call_2"), bench.branch(run.id, "call_3"))
    dying.cancel()
    await asyncio.wait({dying}, timeout=60)
    assert await bench.drive(run.id) == "over"
    assert sorted(ledger.done) == [2, 3]
    results = [r for role, r in told((await bench.run(run.id)).messages) if role == "tool"]
    assert results == ["Interrupted: send may or may not have taken effect", "sent 2", "sent 3"]
    events = types(await bench.events(run.id))
    assert (events.count("tool-execution-end"), events.count("turn-end")) == (3, 2)
