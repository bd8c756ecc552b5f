"""An agent whose compaction mode changed: what its threads start from, what its runs go on with."""

from layover import Agent, Memory, ObservationalMemory, RollingSummary, tool
from layover.plugins.memory.reads.thread_memory import ThreadMemory, thread_memory
from layover.testing import ScriptedModel, call, say
from layover.values.prompt import Prompt, Reply
from support.worlds.runs import ANN, Bench

OBSERVES = ObservationalMemory(message_tokens=4_000)
SUMMARISES = RollingSummary(max_window=12_000, tail=2)
Mode = ObservationalMemory | RollingSummary
SEEN, SUMMED = "the code is K-1", "the code is Z-9"


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def turn(prompt: Prompt) -> Reply:
    if prompt.messages[-1].text.endswith("pay"):
        return call("pay", amount=1)
    return say("words " * 3_000)


def bench(mode: Mode) -> Bench:
    background = {
        "observer": lambda prompt: say(f"* INFO (00:00) {SEEN}"),
        "summary": lambda prompt: say(f"## Goal\n{SUMMED}\n\n## Current state\nfine"),
    }
    return Bench(agent(mode), ScriptedModel(turn, background=background))


def agent(mode: Mode | None) -> Agent:
    memory = Memory(last_messages=2, compaction=mode, titles=False)
    return Agent("helper", tools=[pay], memory=memory)


def change(stage: Bench, mode: Mode | None) -> None:
    stage.agents["helper"] = stage.agent = agent(mode)


async def talk(stage: Bench, turns: int = 5) -> None:
    for n in range(turns):
        await stage.go(f"question {n}")
        await stage.remember()


async def shown(stage: Bench) -> ThreadMemory:
    return await thread_memory(stage.plain, ANN, "t1")


def active(memory: ThreadMemory) -> int:
    return sum(o.active for o in memory.observations)


async def test_a_threads_memory_shows_no_summary_once_its_agent_observes() -> None:
    stage = bench(SUMMARISES)
    await talk(stage)
    before = await shown(stage)
    assert SUMMED in (before.summary or "")
    assert before.token_counts["summary"] > 0
    change(stage, OBSERVES)
    await talk(stage)
    after = await shown(stage)
    assert (after.summary, after.token_counts["summary"]) == (None, 0)
    assert active(after) > 0
    await stage.go("and now")
    assert SUMMED not in str(stage.model.turns[-1])


async def test_a_threads_memory_shows_no_observation_as_active_once_its_agent_summarises() -> None:
    stage = bench(OBSERVES)
    await talk(stage)
    assert active(await shown(stage)) > 0
    change(stage, SUMMARISES)
    await talk(stage)
    after = await shown(stage)
    assert SUMMED in (after.summary or "")
    assert after.observations
    assert (active(after), after.token_counts["observations"]) == (0, 0)


async def test_a_threads_memory_shows_nothing_compacted_once_its_agent_compacts_no_more() -> None:
    for mode in (OBSERVES, SUMMARISES):
        stage = bench(mode)
        await talk(stage)
        change(stage, None)
        after = await shown(stage)
        assert (after.summary, active(after)) == (None, 0)
        assert (after.token_counts["summary"], after.token_counts["observations"]) == (0, 0)


async def test_a_run_keeps_what_it_pinned_where_its_agent_compacts_no_more() -> None:
    for mode, text in ((OBSERVES, SEEN), (SUMMARISES, SUMMED)):
        stage = bench(mode)
        await talk(stage)
        run = await stage.go("please pay")
        before = stage.model.turns[-1].messages
        assert text in before[0].text
        change(stage, None)
        await stage.decide(run.id, run.pending[0].tool_call_id, "approve")
        await stage.branch(run.id, run.pending[0].tool_call_id)
        await stage.drive(run.id)
        after = stage.model.turns[-1].messages
        assert [m.text for m in after[: len(before)]] == [m.text for m in before]
