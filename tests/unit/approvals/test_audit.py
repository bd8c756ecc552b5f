"""The audit of a run, whichever way its calls were decided; and reasons that can be read afterwards."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest

from layover import (
    Agent,
    Allow,
    Hook,
    Policy,
    Refuse,
    RememberDecisions,
    Suspend,
    ToolCall,
    tool,
)
from layover.approvals.lists import list_decisions
from layover.engine.progress import failed
from layover.engine.state import RunState
from layover.inmemory.model import call, calls, say
from layover.recovery.give_up import attempts_used_up
from layover.runs.cancel import cancel
from layover.runs.finish import end_even_unsaved, thread_of
from layover.values.decision import DecisionNote
from layover.values.deployment.access import Actor
from layover.values.runs.audit import AuditRow
from layover.values.runs.views import Run
from support.examples import choose_deaths
from support.worlds.runs import ANN, Bench, Ledger, Power, answers, suspended


async def two_wait(*more: object) -> tuple[Bench, Run]:
    asked = calls(call("pay", amount=1), call("pay", amount=2))
    bench = Ledger().bench(asked, *(more or (say("done"),)))
    return bench, await suspended(bench)


async def rows(bench: Bench) -> list[AuditRow]:
    return list((await list_decisions(bench.plain, None, None, 100, None)).items)


async def facts(bench: Bench) -> list[tuple[str, str, str, str | None]]:
    found = await rows(bench)
    return sorted((r.decision.value, r.decided_by, r.via.value, r.reason) for r in found)


def notes(run: Run) -> list[DecisionNote]:
    parts = [p for m in run.messages for p in m.content if p.type == "tool_result"]
    return [p.decision for p in parts if p.decision is not None]


async def test_whoever_decides_is_in_the_audit() -> None:
    bench, run = await two_wait()
    await bench.decide(run.id, "call_1", "approve", reason="the customer is right")
    await bench.branch(run.id, "call_2", {"answer": {"approved": False, "reason": "too much"}})
    assert await facts(bench) == [
        ("approved", ANN, "api", "the customer is right"),
        ("denied", "callback", "callback", "too much"),
    ]
    assert {r.settled for r in await rows(bench)} == {True}


async def test_what_nobody_decided_is_in_the_audit() -> None:
    bench, run = await two_wait()
    bench.clock.advance(timedelta(hours=1))
    await bench.branch(run.id, "call_1", {"Error": "States.Timeout"})
    await cancel(bench.plain, ANN, run.id)
    assert await facts(bench) == [
        ("cancelled", "system", "system", None),
        ("expired", "system", "system", None),
    ]


@pytest.mark.parametrize("finished_by", ["the request", "the sweeper"])
async def test_calls_that_waited_in_a_run_that_a_person_cancelled_were_cancelled_by_them(
    finished_by: str,
) -> None:
    bench, run = await two_wait()
    person = Actor(sub="shop", on_behalf_of=ANN)
    if finished_by == "the sweeper":
        await bench.plain.journal.commands.request_cancel(ANN, run.id, by=person)
        await cancel(bench.plain, ANN, run.id)
    else:
        await cancel(bench.plain, ANN, run.id, by=person)
    assert await facts(bench) == [("cancelled", "shop", "api", None)] * 2
    assert {r.on_behalf_of for r in await rows(bench)} == {ANN}
    events = await bench.events(run.id)
    told = [(e.decided_by, e.on_behalf_of, e.via) for e in events if e.type == "tool-call-decided"]
    noted = [(n.decided_by, n.on_behalf_of, n.via) for n in notes(await bench.run(run.id))]
    assert told == noted == [("shop", ANN, "api")] * 2


async def test_calls_that_waited_in_a_run_that_failed_were_cancelled_by_nobody() -> None:
    """A person's request that comes too late to end the run decides nothing."""
    bench, run = await two_wait()
    await bench.plain.journal.commands.request_cancel(ANN, run.id, by=Actor(sub=ANN))
    log = await bench.plain.journal.writers.seize(ANN, run.id)
    assert log is not None
    failure = failed(attempts_used_up(run.id), run.id)
    await end_even_unsaved(bench.plain, log, RunState(log.snapshot), thread_of(log), failure)
    assert (await bench.run(run.id)).status == "failed"
    assert await facts(bench) == [("cancelled", "system", "system", None)] * 2


async def test_reasons_are_read_beside_the_results() -> None:
    bench, run = await two_wait()
    await bench.decide(run.id, "call_1", "approve", reason="the customer is right")
    await bench.decide(run.id, "call_2", "deny", reason="too much")
    for name in ("call_1", "call_2"):
        await bench.branch(run.id, name)
    await bench.drive(run.id)
    approved, denied = notes(await bench.run(run.id))
    assert (approved.decision, approved.reason) == ("approved", "the customer is right")
    assert (denied.decision, denied.reason) == ("denied", "too much")
    assert {n.decided_by for n in (approved, denied)} == {ANN}


class Once(Hook):
    """Allows every call, with an argument of its own; a second one then has its word."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    def before_tool(self, ctx: Any, call: ToolCall) -> Any:
        return self.answers[0] if call.tool_name == "pay" else None


def hooked(*hooks: Any, power: Power | None = None) -> Bench:
    agent = Agent("helper", model="m", tools=[Ledger().pay], hooks=hooks)
    script = [call("pay", amount=3), call("pay", amount=3), call("pay", amount=3), say("done")]
    return Bench(agent, answers(*script), power=power)


async def test_a_call_that_does_not_begin_by_a_hooks_leave_has_no_row_of_it() -> None:
    class Later(Once):
        pass

    for second in (Refuse("no"), Suspend("look")):
        bench = hooked(Once(Allow(reason="small")), Later(second))
        await bench.go()
        assert await rows(bench) == []
    bench = hooked(Once(Allow({"amount": "much"}, "wrong")))
    # Three times the same call with what does not fit.
    assert (await bench.go()).finish_reason == "loop"
    assert await rows(bench) == []


async def test_what_a_hook_allowed_is_in_the_audit_and_outlives_the_run() -> None:
    bench = hooked(Policy({"pay": lambda args, ctx: "a small amount"}), Once(Allow({"amount": 1})))
    run = await bench.go()
    found = await rows(bench)
    assert {(r.decision, r.settled, r.decided_by, r.via, r.reason) for r in found} == {
        ("approved", True, "hook:Once", "system", None)
    }
    assert {(r.run_id, r.owner, r.tool_name) for r in found} == {(run.id, ANN, "pay")}
    digest = hashlib.sha256(b'{"amount":1}').hexdigest()
    assert [r.args_sha256 for r in found] == [digest] * 3
    await bench.plain.journal.erasure.erase_runs(ANN, "t1")
    assert await rows(bench) == found


@pytest.mark.parametrize(
    "allow", [Allow(reason="small"), Allow({"amount": "3"}), Allow({"amount": 3.0})]
)
async def test_hash_of_what_a_hook_allowed_is_of_what_the_tool_gets(allow: Allow) -> None:
    got: list[Any] = []

    @tool(needs_approval=True)
    def pay(amount: int, account: str = "x") -> str:
        """Pay."""
        got.append({"amount": amount, "account": account})
        return "paid"

    agent = Agent("helper", model="m", tools=[pay], hooks=[Once(allow)])
    bench = Bench(agent, answers(call("pay", amount="3"), say("done")))
    await bench.go()
    (row,) = await rows(bench)
    assert got == [{"amount": 3, "account": "x"}]
    assert row.args_sha256 == hashlib.sha256(b'{"account":"x","amount":3}').hexdigest()


async def test_a_remembered_approval_is_a_hooks_from_then_on() -> None:
    bench = hooked(RememberDecisions())
    run = await bench.go()
    await bench.answer(run.id, "call_1", "approve", reason="always")
    # All at the same time, so in the order of their calls.
    found = sorted(await rows(bench), key=lambda row: row.tool_call_id)
    assert [r.decided_by for r in found] == [ANN, *["hook:RememberDecisions"] * 2]
    assert found[1].reason == "approved for this thread: always"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_death_anywhere_adds_one_row_for_a_call(after: bool) -> None:
    for k in choose_deaths(after):
        bench = hooked(Once(Allow(reason="small")), power=Power(k, after=after))
        run_id = await bench.start()
        assert await bench.drive(run_id) == "over"
        calls = [r.tool_call_id for r in await rows(bench)]
        assert len(set(calls)) == len(calls) == 3, (k, calls)
        if not bench.power.cuts:
            break
    assert k > 20
