"""Limits of a run: what counts, how a person is asked for more, what an approval gives."""

from decimal import Decimal
from typing import Any

import pytest

from layover import Agent, Limits, tool
from layover.inmemory.model import call, calls, say
from layover.values.prompt import Reply
from layover.values.runs.run import Status
from layover.values.runs.usage import Usage
from layover.values.runs.views import Run
from support.worlds.runs import Bench, suspended


@tool
async def look(n: int) -> int:
    """Look."""
    return n


def limited(*script: Reply, concurrency: int = 1, **limits: Any) -> Bench:
    agent = Agent(
        "helper", model="m", tools=[look], tool_concurrency=concurrency, limits=Limits(**limits)
    )
    return Bench(agent, script)


def priced(reply: Reply, usd: str | None) -> Reply:
    cost = None if usd is None else Decimal(usd)
    return reply.model_copy(update={"usage": Usage(input_tokens=1, cost_usd=cost)})


def looked(run: Run) -> int:
    return sum(m.role == "tool" for m in run.messages)


async def approved(bench: Bench, run: Run, **given: Any) -> Run:
    """The run after its one open call was approved."""
    (pending,) = run.pending
    await bench.answer(run.id, pending.tool_call_id, "approve", **given)
    return await bench.run(run.id)


def shown(run: Run) -> Any:
    (pending,) = run.pending
    return pending.args


@pytest.mark.parametrize("costs", [[None, "0.6", "0.6"], ["0.6", None, "0.6"], ["0.6", "0.6"]])
async def test_a_step_without_a_price_does_not_lift_the_limit_of_cost(
    costs: list[str | None],
) -> None:
    script = [priced(call("look", n=n), cost) for n, cost in enumerate(costs)]
    run = await suspended(limited(*script, say("done"), cost_usd=1.0))
    assert run.pending[0].payload["used"]["cost_usd"] == 1.2
    assert len([m for m in run.messages if m.tool_calls]) == len(costs)


async def test_where_the_provider_reports_no_usage_an_estimate_counts() -> None:
    script = [call("look", n=n).model_copy(update={"usage": Usage()}) for n in range(50)]
    run = await suspended(limited(*script, tokens=300))
    assert run.pending[0].payload["used"]["tokens"] >= 300
    assert 1 < len([m for m in run.messages if m.tool_calls]) < 50
    assert run.usage.total_tokens == 0


@pytest.mark.parametrize("together", [True, False])
async def test_a_call_that_a_model_named_like_a_budgets_own_is_another_call(together: bool) -> None:
    first, second = call("look", tool_call_id="budget_1", n=1), call("look", n=2)
    script = [calls(first, second)] if together else [first, second]
    bench = limited(*script, call("look", tool_call_id="budget_2", n=3), say("done"), tool_calls=1)
    run = await suspended(bench)
    assert [p.tool_name for p in run.pending] == ["layover.budget"]
    run = await approved(bench, run)
    run = await approved(bench, run)
    assert (run.status, looked(run)) == (Status.SUCCESS, 3)
    asked = [c.tool_call_id for m in run.messages for c in m.tool_calls]
    assert asked[0] == "budget_1"
    assert len(set(asked)) == 3


async def test_a_budgets_call_keeps_its_id_when_a_model_uses_it_later() -> None:
    script = [call("look", n=1), call("look", n=2), call("look", tool_call_id="budget_1", n=3)]
    bench = limited(*script, say("done"), tool_calls=1)
    run = await approved(bench, await suspended(bench), args={"tool_calls": 5})
    assert (run.status, looked(run)) == (Status.SUCCESS, 3)
    named = {c.tool_call_id for m in run.messages for c in m.tool_calls}
    assert "budget_1" not in named
    assert (await bench.call(run.id, "budget_1")).tool_name == "layover.budget"


async def test_a_model_that_asks_for_the_budgets_tool_is_told_that_there_is_none() -> None:
    bench = limited(call("layover.budget", tokens=9), say("done"), tool_calls=5)
    run = await bench.go()
    assert (run.status, run.text) == (Status.SUCCESS, "done")


@pytest.mark.parametrize(
    ("args", "after"),
    [
        ({"tokens": 25}, {"tokens": 25, "cost_usd": 5, "tool_calls": 2}),
        ({"tokens": None}, {"tokens": None, "cost_usd": 5, "tool_calls": 2}),
        ({"tool_calls": 9}, {"tokens": 20, "cost_usd": 5, "tool_calls": 9}),
        ({}, {"tokens": 40, "cost_usd": 10, "tool_calls": 4}),
        (None, {"tokens": 40, "cost_usd": 10, "tool_calls": 4}),
    ],
)
async def test_an_approval_changes_the_limits_that_it_names_and_adds_to_all_if_it_names_none(
    args: Any, after: dict[str, Any]
) -> None:
    script = [call("look", n=n) for n in range(9)]
    bench = limited(*script, say("done"), tokens=20, cost_usd=5, tool_calls=2)
    run = await suspended(bench)
    assert shown(run) == {"tokens": 20, "cost_usd": 5, "tool_calls": 2}
    assert shown(await approved(bench, run, args=args)) == after


async def test_an_approval_without_arguments_always_gives_more() -> None:
    bench = limited(call("look", n=1), call("look", n=2), say("done"), tool_calls=0)
    run = await suspended(bench)
    for had in (0, 1):
        assert (shown(run)["tool_calls"], looked(run)) == (had, had)
        run = await approved(bench, run)
    assert (run.status, looked(run)) == (Status.SUCCESS, 2)


async def test_a_limit_that_a_person_set_first_is_doubled_by_an_approval_without_arguments() -> (
    None
):
    script = [call("look", n=n) for n in range(9)]
    bench = limited(*script, say("done"), tool_calls=1)
    run = await approved(bench, await suspended(bench), args={"tokens": 30, "tool_calls": None})
    assert shown(run) == {"tokens": 30, "cost_usd": None, "tool_calls": None}
    assert shown(await approved(bench, run))["tokens"] == 60
