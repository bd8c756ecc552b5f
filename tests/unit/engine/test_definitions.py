"""A run that goes on under another definition of its agent says so, once."""

import math
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from layover import (
    Agent,
    EpisodicMemory,
    Limits,
    Memory,
    ModelSettings,
    NodeMemory,
    ObservationalMemory,
    RollingSummary,
    SemanticRecall,
    WorkingMemory,
    tool,
)
from layover.engine.definition import definition_of
from layover.errors import NewerFormat
from layover.inmemory.model import ScriptedModel, call, say
from layover.keys import META, Keys
from layover.ports.table import Exists, Update
from layover.testing import HashingEmbedder
from layover.values.runs.event import Event, dump_events, load_events
from layover.values.runs.payload import RunPayload
from support.examples import share
from support.worlds.runs import ANN, Bench, Crash, Ledger, Power, answers, suspended, with_tools


def changes(events: list[Event]) -> list[Any]:
    """Return the events about changed definitions."""
    return [e.model_dump(mode="json") for e in events if e.type == "definition-changed"]


async def test_a_run_under_one_definition_says_nothing_of_it() -> None:
    bench = Ledger().bench(call("pay", amount=3), say("ok"))
    run = await suspended(bench)
    await bench.answer(run.id, "call_1", "approve")
    assert changes(await bench.events(run.id)) == []


async def test_a_resume_under_another_definition_says_so_before_anything_else() -> None:
    ledger = Ledger()
    bench = ledger.bench(call("pay", amount=3), say("ok"))
    run = await suspended(bench)
    was, bench.agents["helper"] = bench.agent, with_tools(bench.agent, ledger.pay)
    await bench.decide(run.id, "call_1", "approve")
    await bench.drive(run.id)
    events = await bench.events(run.id)
    (changed,) = changes(events)
    now = definition_of(bench.agents["helper"])
    assert (changed["was"], changed["is"]) == (definition_of(was), now)
    types = [e.type for e in events]
    assert types.index("definition-changed") < types.index("tool-execution-start")
    assert ledger.done == [3]
    assert (await bench.meta(run.id)).definition == now


async def test_a_change_is_told_once_whatever_dies() -> None:
    for after in (False, True):
        for k in range(1, 40, share(3)):
            ledger, power = Ledger(), Power()
            agent = Agent("helper", tools=[ledger.pay, ledger.look])
            bench = Bench(agent, answers(call("pay", amount=3), say("ok")), power=power)
            run = await suspended(bench)
            bench.agents["helper"] = Agent("helper", tools=[ledger.pay])
            power.cut_at, power.after = power.calls + k, after
            await bench.answer(run.id, run.pending[0].tool_call_id, "approve")
            assert len(changes(await bench.events(run.id))) == 1, (k, after)
            if not power.cuts:
                break
    assert issubclass(Crash, BaseException)


def test_the_hash_of_a_definition_is_of_what_the_author_declared() -> None:
    @tool
    def look(n: int) -> int:
        """Look."""
        return n

    def made(**options: Any) -> str:
        sub = Agent("sub", instructions=options.pop("below", "a"), tools=[look])
        tools = [sub.as_tool("x")]
        return definition_of(Agent("a", **{"instructions": "i", "tools": tools, **options}))

    plain = made()
    assert plain == made()
    others = {
        made(below="b"),
        made(instructions="j"),
        made(model="m"),
        made(tools=[look]),
        made(max_iterations=3),
        made(model_settings=ModelSettings(temperature=1)),
    }
    assert len(others) == 6
    assert plain not in others


@tool
def echo(n: int) -> int:
    """Echo."""
    return n


@tool(retries=0, max_calls=5, timeout=3, idempotent=True, trusted=True, to_model_output=str)
def limited(n: int) -> int:
    """Limited."""
    return n


def test_the_words_for_callers_are_no_part_of_what_a_run_began_with() -> None:
    assert definition(description="Sells lamps.") == definition()


def definition(**options: Any) -> str:
    return definition_of(Agent("a", **options))


def tool_with(**options: Any) -> Any:
    @tool(**options)
    def look(n: int) -> int:
        """Look."""
        return n

    return definition(tools=[look])


class Note(BaseModel):
    text: str


def check(output: Note, ctx: Any) -> Note:
    return output


@pytest.mark.parametrize(
    ("plain", "changed"),
    [
        (definition(model=["m", "n"]), definition(model=["m", "o"])),
        (definition(model="m"), definition(model=["m", "n"])),
        (tool_with(), tool_with(retries=3)),
        (tool_with(), tool_with(retries=0)),
        (tool_with(), tool_with(max_calls=3)),
        (tool_with(), tool_with(timeout=3)),
        (tool_with(), tool_with(strict=False)),
        (tool_with(), tool_with(idempotent=True)),
        (tool_with(), tool_with(trusted=True)),
        (definition(output=Note), definition(output=Note, output_validator=check)),
        (definition(), definition(overridable=["model"])),
        (definition(limits=Limits(tokens=1)), definition(limits=Limits(1, on_reached="fail"))),
        (
            definition(tools=[Agent("sub").as_tool("x")]),
            definition(tools=[Agent("sub").as_tool("x", memory=True)]),
        ),
        (definition(), definition(memory=Memory(last_messages=5))),
        (definition(), definition(memory=Memory(titles=False))),
        (definition(), definition(memory=Memory(semantic_recall=SemanticRecall()))),
        (
            definition(memory=Memory(semantic_recall=SemanticRecall())),
            definition(memory=Memory(semantic_recall=SemanticRecall(top_k=2))),
        ),
        (
            definition(memory=Memory(compaction=RollingSummary())),
            definition(memory=Memory(compaction=ObservationalMemory())),
        ),
        (definition(), definition(memory=Memory(history=NodeMemory("n")))),
        (
            definition(memory=Memory(history=NodeMemory("n"))),
            definition(memory=Memory(history=NodeMemory("o"))),
        ),
        (
            definition(memory=Memory(episodic=EpisodicMemory())),
            definition(memory=Memory(episodic=EpisodicMemory(half_life_days=math.inf))),
        ),
        (
            definition(memory=Memory(episodic=EpisodicMemory())),
            definition(memory=Memory(episodic=EpisodicMemory(embedder=HashingEmbedder(8)))),
        ),
        (
            definition(memory=Memory(working_memory=WorkingMemory())),
            definition(memory=Memory(working_memory=WorkingMemory(schema=Note))),
        ),
        (definition(), definition(memory=Memory(role_prefix={"user": "Customer"}))),
    ],
)
def test_what_an_author_changes_changes_the_hash(plain: str, changed: str) -> None:
    assert plain != changed


@pytest.mark.parametrize(
    ("hash", "options"),
    [
        ("46968062e5643335", {}),
        ("2f45307171528439", {"model": "m", "output": Note, "limits": Limits(tokens=1)}),
        ("c97e3b6e8a842e53", {"tools": [echo, Agent("sub").as_tool("x")]}),
        ("404be25974637bbb", {"handoffs": [Agent("b")]}),
        ("37762893d0779be6", {"tools": [limited]}),
        (
            "c66c9f1345d84668",
            {
                "memory": Memory(
                    episodic=EpisodicMemory(), working_memory=WorkingMemory(), plan=True
                )
            },
        ),
    ],
)
def test_hashes_of_earlier_releases_stay_where_defaults_are_used(
    hash: str, options: dict[str, Any]
) -> None:
    assert definition(**options) == hash


def test_the_event_survives_the_journal() -> None:
    from layover.clock import ManualClock
    from layover.values.runs.event import DefinitionChanged

    event = DefinitionChanged(at=ManualClock().now(), was="a", now="b")
    (found,) = load_events(dump_events([event]), "run_1", 4)
    assert found == event.model_copy(update={"seq": 4, "run_id": "run_1"})


async def test_records_of_a_newer_release_are_refused_and_left_alone() -> None:
    bench = Bench(Agent("helper"), ScriptedModel([say("hi")]))
    run_id = await bench.start()
    item = await bench.table.get(Keys(ANN).run(run_id), META)
    assert item is not None
    assert item["v"] == 1
    newer = Update(Keys(ANN).run(run_id), META, set={"v": 99}, when=Exists("pk"))
    await bench.table.write(newer)
    with pytest.raises(NewerFormat, match="a run's records have version 99"):
        await bench.plain.journal.runs.get(ANN, run_id)
    with pytest.raises(NewerFormat):
        await bench.turn(run_id)


def test_a_payload_of_a_newer_release_is_refused() -> None:
    with pytest.raises((NewerFormat, ValidationError), match="version 2"):
        RunPayload(v=2, owner="a", run_id="r")
