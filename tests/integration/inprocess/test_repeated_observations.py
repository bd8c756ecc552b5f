"""Observations of one thread that repeat each other: the prompt shows each fact once."""

from collections.abc import Iterator
from typing import Any

from layover import Agent, Memory, ObservationalMemory
from layover.testing import ScriptedModel, say
from layover.values.prompt import Prompt, Reply
from layover.wiring import in_memory_runtime

TRIP = "The user wants to plan a trip to Vienna"
FILLER = "words of a message " * 60


class Observing:
    """An observer that gives these answers, and the prompts that it was asked with."""

    def __init__(self, *answers: str) -> None:
        self.prompts: list[Prompt] = []
        self._answers: Iterator[str] = iter(answers)

    def __call__(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt)
        lines = (
            f"* INFO (09:00) {line}" for line in next(self._answers, "Ada sleeps").splitlines()
        )
        return say("\n".join(lines))


async def held(observer: Observing, turns: int, **background: Any) -> tuple[str, ScriptedModel]:
    """Hold a thread of so many long turns, and return the block that the next one sees."""
    compaction = ObservationalMemory(message_tokens=200)
    guide = Agent("guide", memory=Memory(last_messages=2, compaction=compaction, titles=False))
    model = ScriptedModel(lambda _: say("Fine."), background={"observer": observer, **background})
    guide.runtime = in_memory_runtime(guide, model=model)
    for number in range(turns):
        await guide.generate(f"Turn {number}. {FILLER}", thread_id="t", resource_id="ann")
        await guide.wait_for_memory()
    return str(model.turns[-1].messages[0].text), model


async def test_a_later_observation_takes_the_place_of_the_one_that_it_restates() -> None:
    observer = Observing(TRIP, f"{TRIP} with Leo, in May", "Leo loves trains")
    block, model = await held(observer, 4)
    assert block.count(TRIP) == 1
    assert f"{TRIP} with Leo, in May" in block
    assert "Leo loves trains" in block
    assert not [p for p in model.prompts if p.task == "reflector"], "no model is asked for that"


async def test_the_observer_is_shown_each_fact_once() -> None:
    observer = Observing(TRIP, f"{TRIP} with Leo", f"{TRIP} with Leo, in May")
    await held(observer, 4)
    counts = [p.messages[-1].text.count(TRIP) for p in observer.prompts]
    assert (counts[0], set(counts[1:])) == (0, {1})


async def test_what_differs_in_a_number_stays() -> None:
    observer = Observing(
        "Pump 6 of the farm gets 35 g salt",
        "Pump 6 of the farm gets 3.5 g salt",
        "Pump 7 of the farm gets 3.5 g salt",
    )
    block, _ = await held(observer, 4)
    assert block.count("of the farm gets") == 3


async def test_an_observer_that_repeats_the_known_does_not_drown_what_is_new() -> None:
    observer = Observing(TRIP, f"{TRIP} with Leo", f"{TRIP} with Leo")
    block, _ = await held(observer, 4)
    assert block.count("User: Turn") == 2
