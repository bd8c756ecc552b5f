"""Learning from a run: facts for the profile and for session memory, and entries, asked for with one request
(docs/prompts.md#one-request). It reads and asks; `record` stores."""

from dataclasses import dataclass, field

from layover.declare.agent import Agent
from layover.plugins.memory.learns.entry_lesson import EpisodicExtraction, entry_lesson
from layover.plugins.memory.learns.joint import ask_for_parts
from layover.plugins.memory.learns.lesson import read_lesson
from layover.plugins.memory.learns.profiles import ExtractedFacts, FactLesson
from layover.runtime import Runtime
from layover.values.memory.context import StepUsage
from layover.values.runs.run import RunSnapshot


@dataclass(frozen=True)
class Learning:
    """A turn's additions, and what the requests for them cost."""

    facts: ExtractedFacts = field(default_factory=lambda: ExtractedFacts({}, []))
    entries: EpisodicExtraction | None = None
    usage: tuple[StepUsage, ...] = ()
    is_away: bool = False
    """True if a model's provider is away: the same may be learned later."""


async def learn(runtime: Runtime, agent: Agent, snapshot: RunSnapshot) -> Learning:
    """Learn from a run what its agent's memory settings ask for. A part that the model fails to answer is
    missing, and no other. Raises RetryableError (the database)."""
    memory = agent.memory
    if not (memory.profile or memory.session or memory.episodic):
        return Learning()
    lesson = await read_lesson(runtime, agent, snapshot)
    facts = FactLesson(runtime, agent, lesson)
    entries = entry_lesson(runtime, agent, lesson)
    # Entries first: a small model gives a turn's words to the part that it is asked for first, and of the
    # three only entries can be about anything.
    parts = [await entries.part()] if entries is not None else []
    parts += await facts.parts()
    answers = await ask_for_parts(runtime, agent, snapshot.meta, parts)
    if entries is not None:
        await entries.read(answers.by_task["extractor"])
    return Learning(facts.read(answers.by_task), entries, answers.usage, answers.is_away)
