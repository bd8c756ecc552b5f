"""Work that follows a run is paid for, too: a row of usage for each task
(docs/behaviour.md#background-usage)."""

import json
from decimal import Decimal
from typing import Any

from layover import Agent, Memory, SemanticRecall
from layover.inmemory.model import USAGE, ScriptedModel, fail, say
from layover.plugins.memory.learns.extract import extract
from layover.records.runs import snapshot_of
from layover.records.views import run_view
from layover.testing import HashingEmbedder
from layover.values.runs.usage import Usage
from support.worlds.runs import ANN, Bench

SAID = "please remember that I moved to Bern last month"
FACTS = json.dumps({"facts": []})
PAID = Usage(input_tokens=100, output_tokens=10)


class CostBench(Bench):
    """An agent that remembers everything; a token costs a thousandth of a dollar."""

    def __init__(self, **background: Any) -> None:
        tasks = {task: [say(FACTS, usage=PAID)] * 2 for task in ("title", "profile", "session")}
        model = ScriptedModel(lambda prompt: say("fine"), background={**tasks, **background})
        memory = Memory(
            profile=True, session=True, semantic_recall=SemanticRecall(scope="resource")
        )
        self.embedder = HashingEmbedder()
        self.embedder.billed = True
        agent = Agent("helper", memory=memory)
        super().__init__(agent, model, price=_price, embedder=self.embedder)

    async def learn(self, text: str = SAID) -> str:
        """A run with all that follows it; its id."""
        run = await self.go(text)
        await extract(self.plain, self.payload(run.id))
        return str(run.id)

    def background(self, run_id: str) -> dict[str, int]:
        """Input tokens by task."""
        return {
            step: row.usage.input_tokens
            for (owner, run, step), (kind, row) in self.threads.usage_rows.items()
            if (owner, run, kind) == (ANN, run_id, "background")
        }


def _price(model: str, usage: Usage) -> Decimal:
    return Decimal(usage.total_tokens) / 1000


async def test_a_task_that_failed_costs_nothing() -> None:
    world = CostBench(title=[fail("down")], session=[fail("down")])
    assert world.background(await world.learn()).keys() == {
        "recall",
        "embedding",
        "lesson",
        "profile",
    }


async def test_an_embedder_that_failed_costs_nothing() -> None:
    world = CostBench()
    world.embedder.fault = ValueError()
    assert world.background(await world.learn()).keys() == {"title", "lesson", "profile", "session"}


async def test_an_answer_of_no_use_costs_what_it_costs() -> None:
    world = CostBench(profile=[say("garbage", usage=PAID)])
    assert world.background(await world.learn())["profile"] == 100


async def test_each_task_has_its_row() -> None:
    world = CostBench()
    run_id = await world.learn()
    words = len(SAID.split())
    assert world.background(run_id) == {
        "title": 100,
        "lesson": USAGE.input_tokens,  # of no use, so each part was asked for alone
        "profile": 100,
        "session": 100,
        "recall": words,
        "embedding": words + 1,  # with the answer
    }


async def test_background_work_is_priced_and_no_part_of_the_runs_usage() -> None:
    world = CostBench()
    run_id = await world.learn()
    _, title = world.threads.usage_rows[ANN, run_id, "title"]
    assert (title.agent, title.usage.cost_usd) == ("helper", Decimal("0.11"))
    run = run_view(await snapshot_of(world.plain, ANN, run_id))
    assert run.usage.input_tokens == USAGE.input_tokens


async def test_a_run_that_is_extracted_again_costs_what_it_cost_first() -> None:
    world = CostBench(profile=[say(FACTS, usage=PAID), say(FACTS, usage=Usage(input_tokens=999))])
    run_id = await world.learn()
    await extract(world.plain, world.payload(run_id))
    assert world.background(run_id)["profile"] == 100
