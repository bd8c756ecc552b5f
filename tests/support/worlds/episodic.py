"""An agent that learns, and what its models see."""

import json
from collections.abc import Sequence
from typing import Any

from layover import Agent, EpisodicMemory, Memory
from layover.inmemory.model import ScriptedModel, say
from layover.plugins.memory.learns.entries import list_entries
from layover.plugins.memory.learns.extract import extract
from layover.testing import InMemoryMetrics
from layover.values.metrics import Metric
from layover.values.prompt import Prompt
from layover.values.runs.run import Status
from support.worlds.runs import ANN, Bench, Power

SAID = "Every night the import of shop-7 fails with E1102, please help"
IMPORT = {
    "content": "The nightly import of shop-7 fails with E1102.",
    "source": "user_assertion",
    "evidence": "the import of shop-7 fails with E1102",
}


def taught(*items: Any) -> Any:
    return say(json.dumps({"entries": items}))


class LearningBench(Bench):
    """An agent that learns, with the extractor's answers."""

    def __init__(
        self,
        *answers: Any,
        embedder: Any = None,
        script: Any = None,
        tools: Sequence[Any] = (),
        power: Power | None = None,
        memory: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        remembers = Memory(titles=False, episodic=EpisodicMemory(**settings), **(memory or {}))
        model = ScriptedModel(
            script or (lambda prompt: say("fine")), background={"extractor": answers}
        )
        agent = Agent("helper", memory=remembers, tools=list(tools))
        self.metrics = InMemoryMetrics()
        super().__init__(agent, model, power=power, embedder=embedder, metrics=self.metrics)

    async def learn(self, text: str = SAID, thread: str = "t1") -> dict[str, str]:
        run = await self.go(text, thread=thread)
        assert run.status is Status.SUCCESS
        return await extract(self.plain, self.payload(run.id))

    async def known(self, agent: str = "helper") -> list[str]:
        page = await list_entries(self.plain, ANN, agent, None, 100, None)
        return [e.content for e in page.items]

    async def sees(self, text: str, thread: str = "t2") -> list[str]:
        """The lines of the block that a turn's model sees."""
        await self.go(text, thread=thread)
        return memory_of(self.model.turns[-1])

    def refused(self) -> dict[str, float]:
        counted = [c for c in self.metrics.counted if c.name is Metric.ENTRIES_REFUSED]
        return {c.dimensions["reason"]: c.value for c in counted}


def memory_of(prompt: Prompt) -> list[str]:
    text = next(m for m in reversed(prompt.messages) if m.role.value == "user").text
    inside = text.partition("<memory>")[2].partition("</memory>")[0]
    return [line for line in inside.splitlines() if line.startswith("- ")]
