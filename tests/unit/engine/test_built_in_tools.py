"""Layover's own tools that find nothing: the model reads what that means and what to do."""

from typing import Any

import pytest

from layover import Agent, EpisodicMemory, Memory, ObservationalMemory, WorkingMemory, tool
from layover.testing import call, say
from support.worlds.runs import Bench, seen

FINDS_NOTHING: dict[str, tuple[dict[str, Any], Any]] = {
    "recall_memory": ({"query": "tea"}, {"entries": []}),
    "search_tools": ({"query": "fly to the moon"}, []),
    "read_result": ({}, []),
}
"""The arguments by which each tool finds nothing, and its result."""
ALWAYS_SAYS = {"plan", "update_working_memory"}
"""Tools that search nothing: each answer says what was done."""
ELSEWHERE = {"read_messages"}
"""A tool that a model has only once messages are hidden from it: test_hidden_messages.py."""


def _numbered(n: int) -> Any:
    @tool(name=f"number_{n}")
    def look() -> int:
        """Look."""
        return n

    return look


def agent() -> Agent:
    """An agent with all of Layover's own tools."""
    memory = Memory(
        compaction=ObservationalMemory(),
        working_memory=WorkingMemory(),
        episodic=EpisodicMemory(),
        plan=True,
        result_tokens=1_000,
    )
    tools = [_numbered(n) for n in range(40)]
    return Agent("shop", model="m", tools=tools, memory=memory, tool_search=True)


def test_each_built_in_tool_is_known_here() -> None:
    assert agent().built_in_tools == FINDS_NOTHING.keys() | ALWAYS_SAYS | ELSEWHERE


@pytest.mark.parametrize("name", FINDS_NOTHING)
async def test_a_model_that_finds_nothing_is_told_what_to_do(name: str) -> None:
    args, _ = FINDS_NOTHING[name]
    bench = Bench(agent(), [call(name, **args), say("I do not know")])
    await bench.go()
    (output,) = seen(bench.model.prompts[-1])
    assert any(verb in output for verb in ("Answer", "Search", "Work")), output
    assert output not in ("[]", '{"entries":[]}')


@pytest.mark.parametrize("name", FINDS_NOTHING)
async def test_clients_read_an_empty_result_in_its_usual_shape(name: str) -> None:
    args, result = FINDS_NOTHING[name]
    bench = Bench(agent(), [call(name, **args, tool_call_id="c1"), say("I do not know")])
    run = await bench.go()
    assert (await bench.call(run.id, "c1")).result == result


async def test_the_note_of_an_empty_search_is_a_field_with_the_entries() -> None:
    bench = Bench(agent(), [call("recall_memory", query="tea"), say("I do not know")])
    await bench.go()
    (output,) = seen(bench.model.prompts[-1])
    assert output.startswith('{"entries":[],"note":"Nothing is remembered about this.')
