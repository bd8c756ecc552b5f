"""How often a reflector is asked, and what is left of observations afterwards
(docs/behaviour.md#reflections)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from layover import Agent, Memory, ObservationalMemory
from layover.plugins.memory.condenses.job import CompactionJob
from layover.plugins.memory.condenses.observe import ask_reflector
from layover.testing import InMemoryMetrics, ScriptedModel, fail, say
from layover.values.memory.compaction import Marker, Observation
from layover.values.metrics import Metric
from support.worlds.observations import TEN
from support.worlds.runs import Bench

LOG = tuple(
    Observation(
        id=f"obs_{n}", at=TEN, marker=Marker.INFO, text=f"{n} of the facts " + "and more " * 9
    )
    for n in range(1, 11)
)
"""Ten observations of the same size."""


def drops(*numbers: int) -> Any:
    return say(json.dumps({"drop": numbers, "merge": []}))


class Stage:
    """A job whose reflector answers by a script."""

    def __init__(self, *answers: Any) -> None:
        self.model = ScriptedModel(lambda _: say("fine"), background={"reflector": answers})
        memory = Memory(titles=False, compaction=ObservationalMemory())
        self.bench = Bench(Agent("helper", memory=memory), self.model)
        self.metrics = InMemoryMetrics()
        self.bench.plain = replace(self.bench.plain, metrics=self.metrics)

    async def reflect(self, target: int, *, waits: bool = False) -> list[str] | None:
        run = await self.bench.go("hello")
        snapshot = await self.bench.plain.journal.runs.snapshot("ann", run.id)
        assert snapshot is not None
        nothing: Any = None
        job = CompactionJob(self.bench.plain, Agent("helper"), snapshot.meta, nothing, "m")
        answer = await ask_reflector(job, LOG, target, waits=waits)
        return None if answer is None else [o.id for o in answer.value]

    @property
    def requests(self) -> list[str]:
        return [p.messages[-1].text for p in self.model.prompts if p.task == "reflector"]


async def test_a_model_that_fails_leaves_no_reflection() -> None:
    assert await Stage(fail("down")).reflect(10) is None


async def test_what_is_few_enough_is_not_condensed_further() -> None:
    stage = Stage(drops(*range(1, 10)))
    assert await stage.reflect(1_000) == ["obs_10"]
    assert len(stage.requests) == 1


async def test_what_is_above_the_target_is_condensed_once_more_from_where_it_stands() -> None:
    stage = Stage(drops(1, 2), drops(1, 2, 3), drops(1))
    assert await stage.reflect(100) == ["obs_6", "obs_7", "obs_8", "obs_9", "obs_10"]
    first, second = stage.requests
    assert "* [1] INFO (10:00) 1 of the facts" in first
    assert "* [1] INFO (10:00) 3 of the facts" in second
    assert first.endswith("At most 100 should be left.")
    assert second.endswith("At most 100 should be left.")


@pytest.mark.parametrize(
    "answer", [fail("down"), say("no idea"), drops(*range(1, 9)), drops(), drops(99)]
)
async def test_a_second_answer_of_no_use_costs_nothing_of_the_first(answer: Any) -> None:
    stage = Stage(drops(1, 2), answer)
    assert await stage.reflect(100) == [o.id for o in LOG[2:]]
    assert len(stage.requests) == 2
    assert stage.metrics.total(Metric.COMPACTION_FAILED) == 0


async def test_a_run_that_waits_and_a_model_that_finds_nothing_are_not_asked_again() -> None:
    stage = Stage(drops(1, 2), drops(1))
    assert await stage.reflect(100, waits=True) == [o.id for o in LOG[2:]]
    stage = Stage(drops(), drops(1))
    assert await stage.reflect(100) == [o.id for o in LOG]
    assert len(stage.requests) == 1
