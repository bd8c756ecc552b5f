"""Deltas are written in batches while the model speaks: the first soon, the others less often."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from layover import Agent
from layover.inmemory.model import say
from layover.keys import EVENT_PREFIX
from layover.ports.table import Action, Put
from layover.values.prompt import Delta, Prompt, Reply
from support.worlds.loops import LoopClock, skipping
from support.worlds.runs import Bench
from support.worlds.writes import Proceed, around_writes

_SLACK = 1e-6


class Speaking:
    """A model that says a word at each of these seconds."""

    def __init__(self, at: Sequence[float]) -> None:
        self._at = at
        self.said: list[float] = []

    async def complete(self, prompt: Prompt, on_delta: Any = None) -> Reply:
        time = asyncio.get_running_loop().time
        begun = time()
        for moment in self._at:
            await asyncio.sleep(begun + moment - time())
            self.said.append(time())
            on_delta(Delta(kind="text", text="word "))
        return say("word " * len(self._at))


async def batches(model: Speaking) -> list[tuple[float, int]]:
    """When batches of deltas alone were written, and the words that were said by then."""
    written: list[tuple[float, int]] = []
    bench = Bench(Agent("helper", model="m"), model, clock=LoopClock())

    async def note(actions: Sequence[Action], proceed: Proceed) -> None:
        await proceed()
        match actions:
            case [Put() as put] if put.sk.startswith(EVENT_PREFIX):
                written.append((asyncio.get_running_loop().time(), len(model.said)))

    around_writes(bench, note)
    run = await bench.go(stream=True)
    assert run.messages[-1].text == "word " * len(model.said)
    return written


@pytest.mark.parametrize("begins", [0.0, 0.11, 0.15, 0.2, 0.5, 0.99])
@skipping
async def test_word_is_written_in_time_for_its_follower(begins: float) -> None:
    model = Speaking([begins + n * 0.04 for n in range(60)])
    written = await batches(model)
    for n, moment in enumerate(model.said, 1):
        in_log = [at for at, words in written if words >= n]
        end = model.said[-1]
        assert (in_log[0] if in_log else end) - moment <= 0.2 + _SLACK


@pytest.mark.parametrize("quiet", [0.55, 0.61, 1.0, 7.77])
@skipping
async def test_first_word_after_a_pause_is_written_within_a_tenth_of_a_second(quiet: float) -> None:
    model = Speaking([0.0, quiet, quiet + 60])
    written = await batches(model)
    assert min(at for at, words in written if words >= 2) - model.said[1] <= 0.1 + _SLACK


@skipping
async def test_answer_of_sixty_words_takes_thirteen_batches() -> None:
    written = await batches(Speaking([n * 0.04 for n in range(60)]))
    assert len(written) <= 13
    pauses = [after - at for (at, _), (after, _) in itertools.pairwise(written)]
    assert all(pause >= 0.2 - _SLACK for pause in pauses)


@skipping
async def test_answer_that_comes_at_once_has_no_batch_of_its_own() -> None:
    assert await batches(Speaking([0.0] * 60)) == []
