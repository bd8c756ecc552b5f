"""Validators of an agent's output: they accept it, change it, or ask for another one."""

from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, DefinitionError, Retry, RunContext
from layover.inmemory.model import say
from layover.values.message import Role
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.examples import share
from support.worlds.runs import Bench


class Offer(BaseModel):
    """An offer."""

    total: int


class Clerk:
    """A validator that wants 100, and counts."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, RunContext]] = []

    async def check(self, offer: Offer, ctx: RunContext) -> Offer:
        self.asked.append((offer, ctx))
        if offer.total < 100:
            raise Retry("the total is too low")
        return Offer(total=offer.total + 1)


def bench(validator: Any, *totals: int) -> Bench:
    agent = Agent("clerk", model="m", output=Offer, output_validator=validator)
    return Bench(agent, [say(f'{{"total": {n}}}') for n in totals])


async def go(validator: Any, *totals: int) -> tuple[Run, Bench]:
    made = bench(validator, *totals)
    return await made.go(), made


async def test_what_a_validator_returns_is_the_runs_output() -> None:
    clerk = Clerk()
    run, _ = await go(clerk.check, 100)
    assert (run.status, run.output) == (Status.SUCCESS, {"total": 101})
    [(offer, ctx)] = clerk.asked
    assert (offer, ctx.run_id, ctx.agent_name) == (Offer(total=100), run.id, "clerk")


async def test_a_retry_asks_the_model_again_with_its_words() -> None:
    run, made = await go(Clerk().check, 1, 2, 100)
    assert run.output == {"total": 101}
    last = made.model.prompts[-1].messages
    assert [m.text for m in last if m.role is Role.USER] == [
        "hello",
        "the total is too low",
        "the total is too low",
    ]


async def test_a_third_retry_ends_the_run() -> None:
    run, made = await go(Clerk().check, 1, 2, 3, 100)
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == "OutputInvalid"
    assert "the total is too low" in run.error.message
    assert len(made.model.prompts) == 3


async def test_an_answer_that_fits_no_schema_is_still_asked_for_once_more() -> None:
    agent = Agent("clerk", model="m", output=Offer, output_validator=Clerk().check)
    script = [say("no JSON"), say('{"total": 1}'), say('{"total": 100}')]
    run = await Bench(agent, script).go()
    assert run.output == {"total": 101}


async def test_a_validator_that_raises_ends_the_run() -> None:
    def broken(offer: Offer, ctx: RunContext) -> Offer:
        raise KeyError("total")

    run, _ = await go(broken, 100)
    assert run.error is not None
    assert run.error.type == "OutputInvalid"


async def test_a_validator_is_not_asked_again_for_an_answer_that_is_journaled() -> None:
    probe = bench(Clerk().check, 1, 100)
    await probe.go()
    for cut in range(1, probe.power.calls + 1, share(5)):
        clerk = Clerk()
        made = bench(clerk.check, 1, 100, 100, 100)
        run_id = await made.start()
        made.power.cut_at = made.power.calls + cut
        assert await made.drive(run_id) == "over"
        run = await made.run(run_id)
        assert run.output == {"total": 101}
        steps = len((await made.plain.journal.runs.snapshot("ann", run_id)).steps)  # type: ignore[union-attr]
        assert steps in (1, 2)
        assert len(clerk.asked) <= len(made.model.prompts)


@pytest.mark.parametrize(
    "given", [{"output": Offer, "output_validator": 5}, {"output_validator": len}]
)
def test_a_validator_needs_an_output(given: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="output_validator"):
        Agent("clerk", **given)
