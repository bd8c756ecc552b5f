"""Work after a run: its title, once, and never in the user's way. And the next run of the thread."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from layover import Agent, Memory, ToolContext, tool
from layover.errors import RetryableError
from layover.inmemory.model import ScriptedModel, call, fail, say
from layover.plugins.memory.learns.extract import OPENING, extract
from layover.runs.accept import StartRun, start_run
from layover.values.deployment.access import Actor
from layover.values.runs.run import OnBusy, Status
from support.worlds.journal import instead
from support.worlds.loops import LoopClock, played
from support.worlds.runs import ANN, Bench, told

QUESTION = "why is my order so late"


def bench(*titles: Any, **options: Any) -> Bench:
    model = ScriptedModel(lambda prompt: say("fine"), background={"title": titles})
    return Bench(Agent("helper", **options), model)


async def title(bench: Bench, run_id: str) -> str | None:
    await extract(bench.plain, bench.payload(run_id))
    return (await bench.head()).title


def asked(bench: Bench) -> int:
    return [p.task for p in bench.model.prompts].count("title")


async def test_a_failing_model_costs_the_title_and_nothing_else() -> None:
    world = bench(fail("down"))
    run = await world.go(QUESTION)
    assert await extract(world.plain, world.payload(run.id)) == {"status": "extracted"}
    assert (await world.head()).title is None
    assert (await world.run(run.id)).status is Status.SUCCESS


async def test_a_run_that_failed_names_no_thread() -> None:
    world = Bench(Agent("helper"), ScriptedModel([fail()], background={"title": [say("No")]}))
    run = await world.go(QUESTION)
    assert await title(world, run.id) is None
    assert asked(world) == 0


async def test_an_agent_without_titles_asks_no_model() -> None:
    world = bench(memory=Memory(titles=False))
    assert await title(world, (await world.go(QUESTION)).id) is None
    assert asked(world) == 0


async def test_a_greeting_names_no_thread_and_a_later_question_does() -> None:
    world = bench(say("Late order"))
    assert await title(world, (await world.go("hi there")).id) is None
    assert await title(world, (await world.go(QUESTION)).id) == "Late order"


async def test_after_a_failed_run_the_first_question_names_the_thread() -> None:
    world = Bench(
        Agent("helper"),
        ScriptedModel([fail(), say("fine")], background={"title": [say("Late order")]}),
    )
    await world.go(QUESTION)
    run = await world.go("and what is with the other one")
    assert await title(world, run.id) == "Late order"
    (prompt,) = [p for p in world.model.prompts if p.task == "title"]
    assert prompt.messages[0].text == QUESTION


async def test_a_question_that_follows_a_long_talk_names_the_thread() -> None:
    world = bench(say("Late order"))
    for _ in range(OPENING):
        await world.go("hi there")
    assert await title(world, (await world.go(QUESTION)).id) == "Late order"


async def test_a_title_that_is_there_stays() -> None:
    world = bench(say("Other"))
    run = await world.go(QUESTION)
    await world.plain.journal.heads.edit(ANN, "t1", title="Mine")
    assert await title(world, run.id) == "Mine"
    assert asked(world) == 0


async def test_a_run_is_extracted_once_however_often_it_is_tried() -> None:
    world = bench(say("Late order"), say("Other"))
    run = await world.go(QUESTION)
    payload = world.payload(run.id)
    assert (await extract(world.plain, payload))["status"] == "extracted"
    assert (await extract(world.plain, payload))["status"] == "done before"
    assert (await world.head()).title == "Late order"


async def test_a_title_that_was_stored_reaches_the_journal_though_its_writer_died() -> None:
    world = bench(say("Late order"))
    run = await world.go(QUESTION)
    payload = world.payload(run.id)

    async def die(*_: Any, **__: Any) -> Any:
        raise RetryableError("gone")

    heads = instead(world.plain.journal.heads, edit=die)
    dying = replace(world.plain, journal=replace(world.plain.journal, heads=heads))
    with pytest.raises(RetryableError):
        await extract(dying, payload)
    assert (await world.head()).title is None
    assert (await extract(world.plain, payload))["status"] == "done before"
    assert (await world.head()).title == "Late order"
    assert asked(world) == 1


@pytest.mark.parametrize("answer", ["", "<think>hm", "``````"])
async def test_an_empty_title_is_none(answer: str) -> None:
    world = bench(say(answer))
    assert await title(world, (await world.go(QUESTION)).id) is None


def test_a_run_that_interrupts_lets_the_running_tool_finish_and_keeps_its_result() -> None:
    async def scene() -> None:
        running = asyncio.Event()

        @tool
        async def slow(ctx: ToolContext) -> str:
            """Work until the run is cancelled."""
            running.set()
            while not ctx.cancelled:
                await asyncio.sleep(0.01)
            return "kept"

        world = Bench(
            Agent("helper", tools=[slow]), [call("slow"), say("at your service")], clock=LoopClock()
        )
        first = await world.start("one")
        turn = asyncio.create_task(world.turn(first))
        await asyncio.wait_for(running.wait(), 60)
        request = StartRun("two", on_busy=OnBusy.INTERRUPT)
        second = await start_run(world.plain, Actor(sub=ANN), "t1", request)
        await asyncio.wait_for(turn, 60)
        one = await world.run(first)
        assert (one.status, told(one.messages)) == (
            Status.CANCELLED,
            [("assistant", ""), ("tool", "kept")],
        )
        assert await world.drive(second.id) == "over"
        assert told(await world.stored()) == [
            ("user", "one"),
            ("assistant", ""),
            ("tool", "kept"),
            ("user", "two"),
            ("assistant", "at your service"),
        ]

    played(scene())
