"""While the operator lets nothing run, memory asks no model either, and loses no words."""

from dataclasses import replace
from typing import Any

from layover import Agent, Memory, ObservationalMemory, SemanticRecall
from layover.inmemory.model import ScriptedModel, say
from layover.plugins.memory.condenses.compact import compact
from layover.plugins.memory.learns.extract import extract
from layover.ports import NoAllowance
from layover.testing import HashingEmbedder
from layover.values.runs.payload import CompactPayload
from support.worlds.runs import ANN, Bench

SAID = "please remember that I moved to Bern last month " + "and so on " * 200


class Stopped(NoAllowance):
    """The switch is on."""

    async def stopped(self) -> bool:
        return True


class MemoryBench(Bench):
    """An agent that keeps everything it can."""

    def __init__(self) -> None:
        model = ScriptedModel(
            lambda prompt: say("fine"),
            background={
                "title": lambda prompt: self.asked("title"),
                "profile": lambda prompt: self.asked("profile"),
                "observer": lambda prompt: self.asked("observer"),
            },
        )
        memory = Memory(
            profile=True,
            semantic_recall=SemanticRecall(),
            compaction=ObservationalMemory(message_tokens=100),
            last_messages=1,
        )
        self.tasks: list[str] = []
        self.embedder = HashingEmbedder()
        super().__init__(Agent("helper", memory=memory), model, embedder=self.embedder)

    def asked(self, task: str) -> Any:
        """A background task's model."""
        self.tasks.append(task)
        return say('{"facts": []}' if task == "profile" else "* INFO (00:00) moved to Bern")

    async def after(self, *, stopped: bool) -> list[dict[str, str]]:
        """Make two turns, and return the outcomes of the work that follows them."""
        for _ in range(2):
            run = await self.go(SAID)
        runtime = replace(self.plain, allowance=Stopped()) if stopped else self.plain
        condense = CompactPayload(op="compact", owner=ANN, run_id=run.id)
        self.tasks, self.embedder.asked = [], 0
        return [
            await extract(runtime, self.payload(run.id)),
            await compact(runtime, condense),
        ]


async def test_no_model_is_asked_while_the_system_is_stopped() -> None:
    world = MemoryBench()
    answers = await world.after(stopped=True)
    assert [answer["status"] for answer in answers] == ["nothing", "nothing"]
    assert world.tasks == []
    assert world.embedder.asked == 0


async def test_models_are_asked_while_it_is_not() -> None:
    world = MemoryBench()
    answers = await world.after(stopped=False)
    assert [answer["status"] for answer in answers] == ["extracted", "compacted"]
    assert {"title", "profile", "observer"} <= set(world.tasks)
    assert world.embedder.asked > 0


async def test_words_are_kept_for_recall_all_the_same() -> None:
    world = MemoryBench()
    await world.after(stopped=True)
    thread = world.threads.find(ANN, "t1")
    assert thread is not None
    stored = [kept.text for kept in thread.texts.values()]
    assert any("Bern" in row.text for row in stored)
    assert all(row.vector is None for row in stored)
