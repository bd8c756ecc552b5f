"""Episodic memory with embedders of all kinds, and without one."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest

from layover import Agent, EpisodicMemory, Memory, SemanticRecall
from layover.errors import ModelError
from layover.inmemory.model import call, say
from layover.plugins.memory.learns.entries import list_entries
from layover.ports.allowance import NoAllowance
from layover.testing import HashingEmbedder
from layover.values.prompt import Embedded
from layover.values.runs.usage import Usage
from support.worlds.episodic import IMPORT, LearningBench, taught
from support.worlds.loops import skipping
from support.worlds.runs import ANN


class Empty(HashingEmbedder):
    """Answers no vector."""

    async def embed(self, texts: Sequence[str]) -> Embedded:
        return Embedded([], self.model)


class Hanging(HashingEmbedder):
    """Never answers."""

    async def embed(self, texts: Sequence[str]) -> Embedded:
        await asyncio.Event().wait()
        raise AssertionError


async def test_an_embedder_that_answers_wrongly_costs_no_run_and_words_still_find() -> None:
    world = LearningBench(taught(IMPORT), embedder=Empty())
    assert await world.learn() == {"status": "extracted"}
    line = "- The nightly import of shop-7 fails with E1102. (today)"
    assert await world.sees("what about the import of shop-7?") == [line]


async def test_without_an_embedder_there_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "layover"):
        world = LearningBench(taught(IMPORT), taught())
        world.agent = Agent("lonely", memory=world.agent.memory)
        world.agents = {"lonely": world.agent}
        await world.learn()
        await world.learn(thread="t2")
    warned = [r.message for r in caplog.records if "words only" in r.message]
    assert len(warned) == 1
    assert "LAYOVER_EMBEDDER_MODEL" in warned[0]


@pytest.mark.parametrize("fault", [ModelError("down"), ZeroDivisionError()])
async def test_a_failing_embedder_costs_no_run_and_words_still_find(fault: Exception) -> None:
    embedder = HashingEmbedder()
    embedder.fault = fault
    world = LearningBench(taught(IMPORT), embedder=embedder)
    assert await world.learn() == {"status": "extracted"}
    assert len(await world.sees("what about the import of shop-7?")) == 1


@skipping
async def test_an_embedder_that_hangs_costs_a_turn_two_seconds_at_most() -> None:
    world = LearningBench(taught(IMPORT))
    await world.learn()
    world.runtime = replace(world.runtime, embedder=Hanging())
    async with asyncio.timeout(60):
        assert len(await world.sees("what about the import of shop-7?")) == 1


async def test_an_agents_own_embedder_is_used() -> None:
    own, common = HashingEmbedder(64), HashingEmbedder()
    world = LearningBench(taught(IMPORT), embedder=common)
    world.agent = Agent("own", memory=Memory(titles=False, episodic=EpisodicMemory(embedder=own)))
    world.agents = {"own": world.agent}
    await world.learn()
    assert own.asked > 0
    assert common.asked == 0


async def test_an_agents_own_model_names_its_embedder() -> None:
    named = HashingEmbedder(64)
    world = LearningBench(taught(IMPORT), embedding_model="hashing/64")
    asked: list[str] = []

    def embedder_named(name: str) -> HashingEmbedder:
        asked.append(name)
        return named

    world.plain = replace(world.plain, embedder_named=embedder_named)
    await world.learn()
    assert set(asked) == {"hashing/64"}
    assert named.asked > 0


async def test_recall_and_episodic_memory_embed_a_query_once() -> None:
    embedder = HashingEmbedder()
    world = LearningBench(
        taught(IMPORT), embedder=embedder, memory={"semantic_recall": SemanticRecall()}
    )
    await world.learn()
    before = embedder.asked
    assert len(await world.sees("what about the import of shop-7?")) == 1
    assert embedder.asked == before + 1


async def test_what_learning_costs_is_background_usage() -> None:
    embedder = HashingEmbedder()
    embedder.billed = True
    world = LearningBench(taught(IMPORT), embedder=embedder)
    await world.learn()
    spent = {step: kind for (_, _, step), (kind, _) in world.threads.usage_rows.items()}
    background = {step for step, kind in spent.items() if kind == "background"}
    assert background == {"memory", "extractor", "extractor/known", "extractor/embedding"}


class Noted(NoAllowance):
    """Keeps what was noted of whom."""

    def __init__(self) -> None:
        self.tokens: list[tuple[str, int]] = []

    def note(self, owner: str, usage: Usage) -> None:
        self.tokens.append((owner, usage.input_tokens))


@pytest.mark.parametrize("by", ["tool", "owner"])
async def test_embedding_a_search_counts_for_its_users_day(by: str) -> None:
    query, tokens = "one two three four five six seven eight nine ten eleven", 11
    embedder, noted = HashingEmbedder(), Noted()
    embedder.billed = True
    script = [call("recall_memory", query=query), say("I see")]
    world = LearningBench(script=script, embedder=embedder)
    world.runtime = replace(world.runtime, allowance=noted)
    world.plain = replace(world.plain, allowance=noted)
    if by == "tool":
        await world.go("anything new?")
    else:
        await list_entries(world.plain, ANN, "helper", query, 10, None)
    assert noted.tokens.count((ANN, tokens)) == 1
