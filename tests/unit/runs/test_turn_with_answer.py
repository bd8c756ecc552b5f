"""A call that waits alone has no branch: the turn that follows its token's answer settles it."""

from dataclasses import replace
from typing import Any

import pytest

from layover import Agent, Memory
from layover.approvals.token_answer import DECIDED
from layover.inmemory.model import call, calls, say
from layover.ports.allowance import NoAllowance
from layover.values.runs.payload import RunPayload
from layover.values.runs.run import Status
from support.worlds.runs import ANN, Bench, Ledger, answers, suspended

FAULT = {"Error": "Lambda.ResourceNotReadyException", "Cause": ""}


class Stopped(NoAllowance):
    """The operator stopped everything."""

    async def stopped(self) -> bool:
        return True


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


async def test_a_turn_settles_the_call_that_was_decided_and_ends_the_run(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1), say("done"))
    run = await suspended(bench)
    await bench.decide(run.id, "call_1", "approve")
    assert (await bench.hear(run.id, "call_1"))["status"] == "over"
    assert ledger.done == [1]


async def test_a_decision_that_came_through_the_token_is_recorded_and_settled(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(call("pay", amount=100), say("done"))
    run = await suspended(bench)
    answer = {"answer": {"approved": True, "args": {"amount": 4}}}
    assert (await bench.hear(run.id, "call_1", answer))["status"] == "over"
    record = await bench.call(run.id, "call_1")
    assert (record.decision.decided_by, ledger.done) == ("callback", [4])


@pytest.mark.parametrize(
    "output", [{"answer": "yes"}, {"answer": {"approved": "yes"}}, FAULT, DECIDED], ids=str
)
async def test_an_answer_that_decides_nothing_waits_again_and_uses_up_no_attempt(
    ledger: Ledger, output: Any
) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    before = await bench.meta(run.id)
    heard = await bench.hear(run.id, "call_1", output)
    assert heard["status"] == "suspended"
    assert heard["next"] == ("await" if output == DECIDED else "rest")
    assert heard["call"] == heard["waiting"][0]
    after = await bench.meta(run.id)
    assert (after.epoch, after.attempts) == (before.epoch, before.attempts)
    assert (await bench.call(run.id, "call_1")).undecided


async def test_a_call_rests_longer_and_longer_after_what_was_no_decision(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    rests, pause_s = [], 0
    for _ in range(8):
        heard = await bench.hear(run.id, "call_1", FAULT, pause_s=pause_s)
        pause_s = heard["call"]["pause_s"]
        rests.append(pause_s)
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_an_answer_of_an_earlier_attempt_decides_nothing(ledger: Ledger) -> None:
    bench = ledger.bench(call("book", day="mon"), say("done"))
    run = await suspended(bench)
    stale = await bench.item(run.id, "call_1")
    await bench.decide(run.id, "call_1", "resume", data={"slot": "full"})
    assert (await bench.hear(run.id, "call_1"))["next"] == "await"
    answer = {"answer": {"data": {"slot": "mon-1"}}}
    heard = await bench.turn(run.id, call=stale, output=answer)
    assert (heard["status"], heard["call"]["attempt"]) == ("suspended", 2)
    assert ledger.done == []


async def test_a_decision_is_carried_out_while_everything_is_stopped(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1), say("done"))
    run = await suspended(bench)
    bench.runtime = replace(bench.runtime, allowance=Stopped())
    heard = await bench.hear(run.id, "call_1", {"answer": {"approved": True}})
    assert (heard["status"], heard["next"], ledger.done) == ("paused", "pause", [1])
    bench.runtime = bench.plain
    assert await bench.drive(run.id) == "over"
    assert ledger.done == [1]


async def test_a_call_that_asks_again_while_everything_is_stopped_gets_a_token(
    ledger: Ledger,
) -> None:
    bench = ledger.bench(call("book", day="mon"))
    run = await suspended(bench)
    bench.runtime = replace(bench.runtime, allowance=Stopped())
    heard = await bench.hear(run.id, "call_1", {"answer": {"data": {"slot": "full"}}})
    assert (heard["status"], heard["call"]["attempt"]) == ("suspended", 2)


async def test_another_execution_hears_nothing(ledger: Ledger) -> None:
    bench = ledger.bench(call("pay", amount=1))
    run = await suspended(bench)
    item = await bench.item(run.id, "call_1")
    heard = await bench.turn(
        run.id, call=item, output={"answer": {"approved": True}}, execution="other"
    )
    assert heard["status"] == "left"
    assert (await bench.call(run.id, "call_1")).undecided


async def test_several_calls_that_wait_are_all_asked_for(ledger: Ledger) -> None:
    asked = calls(call("pay", amount=1), call("pay", amount=2))
    bench = ledger.bench(asked)
    run_id = await bench.start()
    heard = await bench.turn(run_id)
    assert (heard["next"], heard["call"], len(heard["waiting"])) == ("await_all", None, 2)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_process_that_dies_anywhere_behind_the_answer_settles_the_call_once(
    after: bool,
) -> None:
    """The answer holds a decision that is nowhere else: every attempt gets it."""
    deaths = 0
    for cut_at in range(1, 200):
        ledger = Ledger()
        tools: list[Any] = [ledger.pay]
        bench = Bench(Agent("helper", model="m", tools=tools), answers(*_script()))
        run = await suspended(bench)
        item = await bench.item(run.id, "call_1")
        bench.power.cut_at, bench.power.after = bench.power.calls + cut_at, after
        output = {"answer": {"approved": True}}
        assert await bench.drive(run.id, call=item, output=output) == "over"
        record = await bench.call(run.id, "call_1")
        assert (await bench.run(run.id)).status is Status.SUCCESS
        assert record.decision.decided_by == "callback"
        in_doubt = str(record.model_output).startswith("Interrupted")
        assert len(ledger.done) <= 1
        assert in_doubt or ledger.done == [1]
        if not bench.power.cuts:
            break
        deaths += 1
    assert deaths > 10


def _script() -> list[Any]:
    return [call("pay", amount=1, tool_call_id="call_1"), say("done")]


async def test_an_agent_without_anything_to_remember_is_done_and_its_records_expire() -> None:
    agent = Agent("helper", model="m", memory=Memory(titles=False))
    bench = Bench(agent, [say("hi")])
    run_id = await bench.start()
    assert (await bench.turn(run_id))["next"] == "done"
    items = await bench._table.query(_partition(run_id), "A", "~")
    assert items
    assert all("expires" in item for item in items)
    assert not [item for item in items if item.get("gsi2pk", "").startswith("WATCH#")]


async def test_a_title_is_left_to_extract_only_where_the_thread_has_none() -> None:
    bench = Bench(Agent("helper", model="m"), [say("hi"), say("ho")])
    run_id = await bench.start()
    assert (await bench.turn(run_id))["next"] == "learn"
    await bench.plain.journal.heads.edit(ANN, "t1", title="a title")
    run_id = await bench.start()
    assert (await bench.turn(run_id))["next"] == "done"


async def test_an_execution_that_began_before_there_was_a_way_goes_by_the_status(
    ledger: Ledger,
) -> None:
    from layover.engine.time_left import NoDeadline
    from layover.runs.turn import turn

    bench = ledger.bench(call("pay", amount=1), say("done"))
    run_id = await bench.start()
    payload = RunPayload(owner=ANN, run_id=run_id, execution=f"{run_id}-1")
    heard = await turn(bench.runtime, payload, NoDeadline())
    assert (heard["status"], len(heard["waiting"])) == ("suspended", 1)
    await bench.decide(run_id, "call_1", "approve")
    assert (await bench.branch(run_id, "call_1")).status == "done"
    assert (await turn(bench.runtime, payload, NoDeadline()))["status"] == "over"


def _partition(run_id: str) -> str:
    from layover.keys import Keys

    return Keys(ANN).run(run_id)
