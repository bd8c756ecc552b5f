"""The audit of a run, whichever way its calls were decided; and reasons that can be read afterwards."""

from datetime import timedelta

from layover.adapters.inmemory.model import call, calls, say
from layover.approvals.audit import list_decisions
from layover.runs.cancel import cancel
from layover.values.runs.audit import AuditRow
from layover.values.runs.decision import DecisionNote
from layover.values.runs.run import Run
from support.worlds.runs import ANN, Bench, Ledger, suspended


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
