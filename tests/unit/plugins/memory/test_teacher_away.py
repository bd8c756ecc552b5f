"""Memory whose model's provider is away learns later."""

from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, EpisodicMemory, Limits, Memory
from layover.errors import ProviderAway
from layover.inmemory.model import ScriptedModel, fail, say
from layover.plugins.memory.learns.extract import extract
from support.worlds.runs import Bench

AWAY = fail("overloaded", status=503, passes=True)
SAID = "The pump Q-14 hums at 61 Hz since the thaw."
LEARNED = (
    '{"entries": [{"evidence": "The pump Q-14 hums at 61 Hz since the thaw", "kind": "symptom", '
    '"content": "The pump Q-14 hums at 61 Hz since the thaw."}]}'
)


async def over(extractor: list[Any], **options: Any) -> tuple[Bench, Any]:
    """A run that is over, and the payload with which memory learns from it."""
    model = ScriptedModel([say("I see.")], background={"extractor": extractor})
    memory = Memory(episodic=EpisodicMemory())
    bench = Bench(Agent("helper", memory=memory, **options), model)
    run_id = await bench.start(SAID)
    await bench.drive(run_id)
    return bench, bench.payload(run_id)


async def test_what_a_provider_that_is_away_was_to_teach_is_learned_once_it_is_back() -> None:
    bench, payload = await over([AWAY, AWAY, say(LEARNED)])
    for _ in range(2):
        with pytest.raises(ProviderAway):
            await extract(bench.plain, payload)
        bench.clock.advance(timedelta(minutes=20))
    assert (await extract(bench.plain, payload))["status"] == "extracted"
    assert (await extract(bench.plain, payload))["status"] == "done before"


async def test_a_title_is_not_asked_for_again_and_again_meanwhile() -> None:
    bench, payload = await over([AWAY, say(LEARNED)])
    with pytest.raises(ProviderAway):
        await extract(bench.plain, payload)
    await extract(bench.plain, payload)
    assert sum(prompt.task == "title" for prompt in bench.model.prompts) == 1


async def test_after_the_patience_the_part_is_missing() -> None:
    bench, payload = await over([AWAY, AWAY])
    with pytest.raises(ProviderAway):
        await extract(bench.plain, payload)
    bench.clock.advance(timedelta(hours=1))
    assert (await extract(bench.plain, payload))["status"] == "extracted"


@pytest.mark.parametrize("error", [fail(status=401), fail(status=503)])
async def test_a_fault_that_does_not_pass_is_not_waited_for(error: Any) -> None:
    bench, payload = await over([error])
    assert (await extract(bench.plain, payload))["status"] == "extracted"


async def test_an_agent_without_patience_does_not_wait() -> None:
    bench, payload = await over([AWAY], limits=Limits(provider_patience=timedelta(0)))
    assert (await extract(bench.plain, payload))["status"] == "extracted"
