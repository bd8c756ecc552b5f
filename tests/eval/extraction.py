"""A transcript through the product: an agent holds the conversation in this process, its own extraction
follows every turn, and what is in memory then is looked at through the store's port.

The conversation itself is always scripted. The extractor is a script, too, or a real model."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eval.cases import Proposal, Step, ToolUse, Transcript, Turn, shown
from eval.talk import AGENT, THREAD, USER, Assistant, hold
from layover import Agent, EpisodicMemory, Memory
from layover import tool as declared
from layover.ports import ChatModel
from layover.testing import InMemoryMetrics, ScriptedModel, say
from layover.values.metrics import Metric
from layover.values.prompt import Prompt, Reply
from layover.wiring import in_memory_runtime

MOST = 1_000
"""Entries of a transcript that are looked at."""
_TASKS = ("extractor", "lesson", "profile", "session")
"""Tasks that learn from a turn."""

Answering = Callable[[Prompt], Any]


@dataclass
class Held:
    """The memory that a transcript left behind.

    `new` and `known`: (text, verified) of entries that memory still returns, by whether they were
    learned from the transcript. `asked`: prompts of the extractor."""

    new: list[tuple[str, bool]] = field(default_factory=list)
    known: list[tuple[str, bool]] = field(default_factory=list)
    asked: list[Prompt] = field(default_factory=list)
    metrics: InMemoryMetrics = field(default_factory=InMemoryMetrics)

    @property
    def refused(self) -> Counter[str]:
        """The number of proposals that were refused, by reason."""
        counted = [c for c in self.metrics.counted if c.name is Metric.ENTRIES_REFUSED]
        return Counter(c.dimensions["reason"] for c in counted for _ in range(int(c.value)))

    @property
    def texts(self) -> list[str]:
        """The texts that were learned."""
        return [text for text, _ in self.new]


class _Extractor:
    """Answers for the extractor: known entries first, then this transcript's."""

    def __init__(self, held: Held) -> None:
        self.answer: Answering = lambda _: say("")
        self.teaching = True
        self._held = held

    async def __call__(self, prompt: Prompt) -> Any:
        if self.teaching:
            return self.answer(prompt)
        self._held.asked.append(prompt)
        answer = self.answer(prompt)
        return answer if isinstance(answer, Reply) else await answer


async def held(
    transcript: Transcript,
    extractor: ChatModel | None = None,
    embedder: Any = None,
    *,
    keeps_notes: bool = False,
) -> Held:
    """Hold the conversation. `extractor` None: the transcript's script. `embedder` None: the
    environment's, else by words only. `keeps_notes`: the agent has a profile and session memory, too, so one
    request asks for all three. Raises AssertionError if a turn does not succeed."""
    found = Held()
    asked = _Extractor(found)
    agent = _agent(transcript, keeps_notes=keeps_notes)
    assistant = Assistant()
    model = ScriptedModel(assistant, background=dict.fromkeys(_TASKS, asked))
    runtime = in_memory_runtime(agent, model=model, embedder=embedder, metrics=found.metrics)
    agent.runtime = runtime
    for number, text in enumerate(transcript.known):
        asked.answer = _scripted(_taught(text))
        assistant.begin(seed := Turn(text, (Step("Noted."),)))
        await hold(agent, seed, f"earlier-{number}")
    before = {e.id for e in await runtime.memory.list_entries(USER, AGENT, MOST, None)}
    found.metrics.counted.clear()
    asked.teaching = False
    for number, turn in enumerate(transcript.turns):
        asked.answer = extractor.complete if extractor else _script(transcript, number)
        assistant.begin(turn)
        await hold(agent, turn, THREAD)
    entries = await runtime.memory.list_entries(USER, AGENT, MOST, None)
    for entry in reversed(entries):
        kept = found.known if entry.id in before else found.new
        kept.append((entry.content, entry.verified))
    return found


def _scripted(text: str) -> Answering:
    return lambda _: say(text)


def _script(transcript: Transcript, turn: int) -> Answering:
    return lambda prompt: say(transcript.answer(turn, prompt.messages[-1].text))


def _taught(text: str) -> str:
    return shown([Proposal(evidence=text, content=text)])


def _agent(transcript: Transcript, *, keeps_notes: bool) -> Agent:
    tools = [_tool(name, uses) for name, uses in transcript.tools.items()]
    memory = Memory(
        titles=False, episodic=EpisodicMemory(), profile=keeps_notes, session=keeps_notes
    )
    return Agent(AGENT, instructions="You help.", tools=tools, memory=memory)


def _tool(name: str, uses: list[ToolUse]) -> Any:
    left = iter(uses)

    def use(given: dict[str, Any]) -> Any:
        """Return the tool's result of the transcript."""
        now = next(left)
        if now.is_error:
            raise RuntimeError(now.result)
        return now.result

    return declared(name=name, trusted=all(u.trusted for u in uses))(use)
