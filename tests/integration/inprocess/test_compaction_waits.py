"""Waits of a run for its compaction, and its prompts afterwards (docs/behaviour.md#compaction-waits)."""

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from layover import Agent, Memory, ObservationalMemory, RollingSummary, tool
from layover.context.assembly import estimated_tokens
from layover.plugins.memory.condenses.compact import NOW, compact
from layover.testing import InMemoryMetrics, ScriptedModel, call, say
from layover.values.memory.context import TurnRecord
from layover.values.metrics import Metric
from layover.values.prompt import Prompt, Reply
from layover.values.runs.payload import CompactPayload
from layover.values.runs.run import RunSnapshot, Status
from layover.values.runs.usage import Usage
from layover.values.runs.views import Run
from support.worlds.runs import ANN, Bench

A_TOKEN = "word"
INSTRUCTIONS = "Read."
NUMBERS = count(1)
"""No two notes are the same: what is noted already is not stored again."""


@tool(idempotent=True)
def read(n: int, tokens: int) -> str:
    """Text of so many tokens."""
    return A_TOKEN * tokens


def noted(prompt: Prompt) -> Reply:
    return say(f"* INFO (00:00) something was read, {next(NUMBERS)}")


def summed_up(prompt: Prompt) -> Reply:
    return say("## Goal\nRead.\n\n## Current state\nReading.")


Answers = Callable[[Prompt], Reply]


class Reader:
    """A reader, its memory models and what was counted."""

    def __init__(
        self,
        compaction: ObservationalMemory | RollingSummary,
        observer: Answers = noted,
        reflector: Answers = noted,
        *,
        ahead: bool = True,
        instructions: str = INSTRUCTIONS,
        window: int | None = None,
        result_tokens: float = math.inf,
    ) -> None:
        self.steps: list[int] = []
        """Tokens of the pages that are still to be read."""
        self.times = 1
        """So many of the provider's tokens is one of ours."""
        self.metrics = InMemoryMetrics()
        memory = Memory(
            last_messages=2, compaction=compaction, titles=False, result_tokens=result_tokens
        )
        agent = Agent(
            "reader", instructions=instructions, tools=[read], memory=memory, max_iterations=99
        )
        background = {"observer": observer, "reflector": reflector, "summary": summed_up}
        model = ScriptedModel(self._turn, background=background)
        ports: dict[str, Any] = {} if window is None else {"window": lambda model: window}
        self.bench = Bench(agent, model, metrics=self.metrics, **ports)
        if ahead:
            self.bench.observe_ahead()

    def _turn(self, prompt: Prompt) -> Reply:
        done = call("read", n=len(self.steps), tokens=self.steps.pop(0)) if self.steps else None
        reply = done or say("an answer " + A_TOKEN * 400)
        usage = Usage(input_tokens=estimated_tokens(prompt) * self.times, output_tokens=1)
        return reply.model_copy(update={"usage": usage})

    async def go(self, text: str, *steps: int) -> Run:
        self.steps = list(steps)
        run = await self.bench.go(text)
        assert run.status is Status.SUCCESS, run.error
        return run

    def counted(self, metric: Metric) -> float:
        return float(self.metrics.total(metric))

    @property
    def waits(self) -> int:
        return int(self.counted(Metric.COMPACTION_WAITS))

    def asked(self, task: str) -> int:
        return sum(p.task == task for p in self.bench.model.prompts)

    @property
    def prompts(self) -> list[Prompt]:
        return list(self.bench.model.turns)


@dataclass
class OneRun:
    """Runs of a journal: this one."""

    found: RunSnapshot

    async def snapshot(self, owner: str, run_id: str) -> RunSnapshot:
        return self.found


def shows(prompt: Prompt, text: str) -> bool:
    return any(text in m.text for m in prompt.messages)


async def test_a_compaction_that_ends_with_the_runs_input_takes_the_history_out_of_the_prompt() -> (
    None
):
    thresholds = ObservationalMemory(message_tokens=3_000, observation_tokens=1_000)
    world = Reader(thresholds)
    for n in range(5):
        await world.go(f"OLD {n} " + A_TOKEN * 100)
        await world.bench.remember()
    await world.go("NEW " + A_TOKEN * 300, 2_600)
    last = world.prompts[-1]
    assert last.messages[0].text.startswith("<observations>")
    assert estimated_tokens(last) < 4_000
    assert sum("OLD" in m.text for m in last.messages) <= 1
    assert shows(last, "NEW")


async def test_a_summary_that_ends_with_the_runs_input_takes_the_history_out_of_the_prompt() -> (
    None
):
    world = Reader(RollingSummary(max_window=12_000, tail=2))
    for n in range(2):
        await world.go(f"OLD {n} " + A_TOKEN * 100)
    await world.go("NEW " + A_TOKEN * 500, 2_000, 5, 5)
    compacted = [p for p in world.prompts if shows(p, "<summary>")]
    assert len(compacted) == 3
    assert not any(shows(p, "OLD") for p in compacted)
    assert all(shows(p, "NEW") for p in compacted)


@pytest.mark.parametrize("tokens", [700, 2_500, 3_100, 4_000])
async def test_a_large_input_makes_no_step_wait_and_no_slice_is_observed_in_vain(
    tokens: int,
) -> None:
    world = Reader(ObservationalMemory(message_tokens=3_000))
    await world.go(A_TOKEN * tokens, *[500] * 12)
    assert world.waits == 0
    kept = world.counted(Metric.OBSERVATIONS_MADE)
    assert world.asked("observer") == kept >= 7_000 // 1_000
    assert all(shows(p, A_TOKEN * tokens) for p in world.prompts)


@pytest.mark.parametrize(
    "mode", [ObservationalMemory(message_tokens=3_000), RollingSummary(max_window=13_750)]
)
async def test_nobody_waits_for_a_compaction_that_could_take_the_input_alone(mode: Any) -> None:
    world = Reader(mode, ahead=False)
    await world.go(A_TOKEN * 6_000, 100)
    assert world.waits == 0


@pytest.mark.parametrize(("result_tokens", "steps"), [(math.inf, 12), (1_100, 80)])
async def test_a_memory_model_of_no_use_is_waited_for_once_in_a_while_alone(
    result_tokens: float, steps: int
) -> None:
    world = Reader(
        ObservationalMemory(message_tokens=3_000),
        lambda prompt: say("no"),
        ahead=False,
        result_tokens=result_tokens,
    )
    await world.go("read", *[1_000] * steps)
    assert 2 <= world.waits <= 12_000 // 3_000
    assert max(map(estimated_tokens, world.prompts)) > 6_000
    assert world.asked("observer") == 2 * world.waits


@pytest.mark.parametrize(
    "mode", [ObservationalMemory(message_tokens=3_000), RollingSummary(max_window=13_750)]
)
async def test_nobody_waits_while_previews_keep_the_prompt_small(mode: Any) -> None:
    waits = []
    for result_tokens in (math.inf, 1_100):
        world = Reader(mode, ahead=False, result_tokens=result_tokens)
        await world.go("read", *[500] * 12)
        waits.append(world.waits)
    assert waits[0] > 0 == waits[1]
    assert max(map(estimated_tokens, world.prompts)) < 3_600


async def test_a_run_that_waits_for_no_summary_does_not_look_for_one_at_each_step() -> None:
    world = Reader(RollingSummary(max_window=13_750), result_tokens=1_100)
    saves: list[int] = []
    save_turn = world.bench.threads.save_turn

    async def count(record: TurnRecord) -> None:
        saves.append(len(record.response))
        await save_turn(record)

    world.bench.threads.save_turn = count  # type: ignore[method-assign]
    await world.go("read", *[500] * 12)
    assert saves == [25], "once, at the end"


async def test_previews_that_become_too_many_are_compacted_too() -> None:
    world = Reader(ObservationalMemory(message_tokens=3_000), ahead=False, result_tokens=1_100)
    await world.go("read", *[500] * 30)
    assert world.waits == 1
    assert max(map(estimated_tokens, world.prompts)) < 4_500


async def test_observations_take_effect_as_soon_as_without_previews() -> None:
    """The threshold counts whole results: what is observed leaves the prompt all the same."""
    places = []
    for result_tokens in (math.inf, 1_100):
        world = Reader(ObservationalMemory(message_tokens=3_000), result_tokens=result_tokens)
        await world.go("read", *[500] * 12)
        assert world.waits == 0
        places.append([shows(p, "<observations>") for p in world.prompts])
    assert True in places[0]
    assert places[0] == places[1]


async def test_a_memory_model_that_works_again_is_taken_up_in_the_same_run() -> None:
    answers = iter([say("no"), say("no")])
    world = Reader(
        ObservationalMemory(message_tokens=3_000),
        lambda prompt: next(answers, None) or noted(prompt),
        ahead=False,
    )
    await world.go("read", *[1_000] * 12)
    assert shows(world.prompts[-1], "something was read")
    assert estimated_tokens(world.prompts[-1]) < 3_600


async def compacted(world: Reader, run: Run, op: str, asked: str, **meta: Any) -> None:
    """Compact for a run as if it had had slices observed ahead that never came. They are waited for in
    seconds: nobody does here."""
    found = await world.bench.plain.journal.runs.snapshot(ANN, run.id)
    assert found is not None
    steps = tuple(s.model_copy(update={"asked_through": asked}) for s in found.steps)
    told = {"meta": found.meta.model_copy(update=meta), "steps": steps}
    runs: Any = OneRun(found.model_copy(update=told))
    journal = replace(world.bench.plain.journal, runs=runs)
    async with asyncio.timeout(60):
        payload = world.bench.payload(run.id, CompactPayload, op=op)
        await compact(replace(world.bench.plain, journal=journal), payload)


@pytest.mark.parametrize(("op", "waited"), [(NOW, "compacted_before"), ("", "compacted_for")])
async def test_a_slice_that_the_run_waited_for_in_vain_is_made_at_once(
    op: str, waited: str
) -> None:
    world = Reader(ObservationalMemory(message_tokens=3_000), ahead=False)
    run = await world.go("read", *[500] * 4)
    await compacted(world, run, op, run.messages[0].id, **{waited: 2})
    assert world.asked("observer") > 0


async def test_where_nothing_may_leave_the_prompt_no_slice_is_waited_for() -> None:
    world = Reader(ObservationalMemory(message_tokens=3_000), ahead=False)
    run = await world.go("hello")
    await compacted(world, run, NOW, run.input.id)
    assert world.asked("observer") == 0


async def test_a_reflector_that_has_nothing_to_condense_is_asked_again_only_about_new_lines() -> (
    None
):
    nothing = json.dumps({"drop": [], "merge": []})
    world = Reader(
        ObservationalMemory(message_tokens=3_000, observation_tokens=300),
        lambda prompt: say(f"* INFO (00:00) {next(NUMBERS)} {A_TOKEN * 240}"),
        lambda prompt: say(nothing),
    )
    await world.go("read", *[500] * 40)
    assert world.asked("reflector") <= world.asked("observer")
    assert world.waits <= 10
    assert world.counted(Metric.COMPACTION_FAILED) == 0


async def test_instructions_that_fill_the_window_leave_room_for_compaction_before_turns_go() -> (
    None
):
    world = Reader(
        ObservationalMemory(message_tokens=9_000),
        ahead=False,
        instructions=A_TOKEN * 7_000,
        window=20_000,
    )
    for n in range(16):
        await world.go(f"question {n} " + A_TOKEN * 600)
        last = world.prompts[-1]
        whole = len(last.messages) == 2 * n + 1
        assert whole or shows(last, "<observations>")
    assert shows(world.prompts[-1], "<observations>")


async def test_a_window_that_the_provider_finds_full_earlier_is_waited_for_in_time() -> None:
    world = Reader(ObservationalMemory(message_tokens=9_000), ahead=False, window=20_000)
    world.times = 2
    await world.go("read", *[1_000] * 12)
    assert world.waits > 0
    assert max(map(estimated_tokens, world.prompts)) <= 7_500
    outputs = [m.model_output or "" for p in world.prompts for m in p.messages]
    assert not any("shortened" in text for text in outputs)


@pytest.mark.parametrize("ahead", [True, False])
async def test_tokens_that_left_the_prompt_are_counted_once(ahead: bool) -> None:
    world = Reader(ObservationalMemory(message_tokens=3_000), ahead=ahead)
    await world.go("read", *[1_000] * 8)
    assert 4_000 < world.counted(Metric.TOKENS_COMPACTED) < 8_000
