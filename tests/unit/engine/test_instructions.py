"""Instructions that are a function of the run."""

from typing import Any

import pytest

from layover import Agent, DefinitionError, RunContext
from layover.inmemory.model import call, say
from layover.values.runs.run import Status
from support.worlds.runs import ANN, Bench, Ledger, words_of


class Asked:
    """Instructions by hand, and how often they were asked for."""

    def __init__(self) -> None:
        self.contexts: list[RunContext] = []

    def plain(self, ctx: RunContext) -> str:
        self.contexts.append(ctx)
        return f"You serve {ctx.resource_id} on plan {ctx.metadata.get('plan')}, ask {len(self.contexts)}."

    async def later(self, ctx: RunContext) -> str:
        return self.plain(ctx)


@pytest.mark.parametrize("kind", ["plain", "later"])
async def test_instructions_are_asked_once_for_a_run_and_pinned(kind: str) -> None:
    asked, ledger = Asked(), Ledger()
    agent = Agent("helper", model="m", instructions=getattr(asked, kind), tools=[ledger.pay])
    bench = Bench(agent, [call("pay", amount=5), say("paid"), say("next")])
    run_id = await bench.start()
    await bench.plain.journal.heads.edit(ANN, "t1", metadata={"plan": "pro"})
    began = bench.clock.now()
    assert await bench.drive(run_id) == "suspended"
    await bench.plain.journal.heads.edit(ANN, "t1", metadata={"plan": "free"})
    run = await bench.run(run_id)
    await bench.decide(run_id, run.pending[0].tool_call_id, "approve")
    await bench.drive(run_id)
    assert [p.system for p in bench.model.prompts] == ["You serve ann on plan pro, ask 1."] * 2
    ctx = asked.contexts[0]
    assert (ctx.run_id, ctx.thread_id, ctx.agent_name, ctx.now) == (run_id, "t1", "helper", began)
    await bench.go("again")
    assert bench.model.prompts[-1].system == "You serve ann on plan free, ask 2."


@pytest.mark.parametrize(
    ("error", "kind"), [(KeyError("x"), "KeyError"), (None, "DefinitionError")]
)
async def test_instructions_that_raise_or_are_no_text_fail_the_run(error: Any, kind: str) -> None:
    def make(ctx: RunContext) -> Any:
        if error is not None:
            raise error
        return 5

    bench = Bench(Agent("helper", model="m", instructions=make), [])
    run = await bench.go()
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == kind
    assert "helper" in words_of(run)
    assert bench.model.prompts == []


async def test_a_sub_agents_instructions_are_asked_with_its_own_run() -> None:
    asked = Asked()
    writer = Agent("writer", model="m", instructions=asked.plain)
    agent = Agent("helper", model="m", tools=[writer.as_tool("Writes.")])
    bench = Bench(agent, [call("writer", input="a poem"), say("a poem"), say("done")])
    run = await bench.go()
    assert run.status is Status.SUCCESS
    assert [p.system for p in bench.model.prompts] == [
        None,
        "You serve ann on plan None, ask 1.",
        None,
    ]
    [ctx] = asked.contexts
    assert (ctx.agent_name, ctx.run_id == run.id) == ("writer", False)


def test_instructions_are_a_text_or_a_function() -> None:
    with pytest.raises(DefinitionError, match="instructions"):
        Agent("helper", instructions=5)  # type: ignore[arg-type]
