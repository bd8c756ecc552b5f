"""Learning after a run: facts for the profile and for session memory, once; and the iteration log."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Memory, ToolContext, tool
from layover.inmemory.model import ScriptedModel, call, fail, say
from layover.plugins.memory.learns.extract import extract
from layover.plugins.memory.learns.profiles import delete_profile, put_profile
from layover.values.note import profile_key
from layover.values.runs.run import Status
from support.worlds.runs import ANN, Bench

SAID = "please remember that I moved to Bern last month"
EVIDENCE = "I moved to Bern last month"
CITY = {"key": "city", "content": "lives in Bern", "evidence": EVIDENCE}
GOAL = {"field": "objective", "content": "settle in Bern", "evidence": EVIDENCE}


def facts(*items: Any) -> Any:
    return say(json.dumps({"facts": items}))


BOTH = Memory(titles=False, profile=True, session=True)


def bench(profile: Any = (), session: Any = (), remembers: Memory = BOTH) -> Bench:
    background = {"profile": profile, "session": session}
    model = ScriptedModel(lambda prompt: say("fine"), background=background)
    return Bench(Agent("helper", memory=remembers), model)


async def profile(world: Bench) -> Any:
    notes = await world.plain.memory.read_notes(ANN, [profile_key("helper")])
    return notes[0].value


async def session(world: Bench) -> Any:
    return (await world.plain.memory.read_state(ANN, "t1")).session


async def learn(world: Bench, text: str = SAID) -> dict[str, str]:
    run = await world.go(text)
    return await extract(world.plain, world.payload(run.id))


def tasks(world: Bench) -> list[str]:
    """What memory asked for. These models answer no lesson, so each part is asked for alone
    (test_lessons.py has those that do)."""
    return [p.task for p in world.model.prompts if p.task not in ("turn", "lesson")]


@pytest.mark.parametrize("answer", [fail("down"), say("garbage"), say("{}"), say("")])
async def test_an_answer_of_no_use_changes_nothing_and_the_run_is_extracted(answer: Any) -> None:
    world = bench([facts(CITY), answer], [facts(GOAL), answer])
    assert await learn(world) == {"status": "extracted"}
    assert await learn(world, "and something else entirely now") == {"status": "extracted"}
    assert await profile(world) == {"city": "lives in Bern"}
    assert await session(world) == {"objective": "settle in Bern"}


async def test_what_the_user_did_not_say_is_not_remembered() -> None:
    lie = {**CITY, "evidence": "I moved to Rome last month"}
    world = bench([facts(lie)], [facts({**GOAL, "evidence": "fine"})])
    await learn(world)
    assert await profile(world) is None
    assert await session(world) is None


async def test_a_run_that_failed_teaches_nothing() -> None:
    agent = Agent("helper", memory=Memory(profile=True, session=True))
    world = Bench(agent, ScriptedModel([fail("no")]))
    run = await world.go(SAID)
    assert run.status is Status.FAILED
    await extract(world.plain, world.payload(run.id))
    assert tasks(world) == []


async def test_an_agent_asks_only_for_what_it_remembers() -> None:
    world = bench(remembers=Memory(titles=False, plan=True))
    await learn(world)
    assert tasks(world) == []
    world = bench([facts(CITY)], remembers=Memory(titles=False, profile=True))
    await learn(world)
    assert tasks(world) == ["profile"]


async def test_a_run_teaches_once_however_often_it_is_extracted() -> None:
    world = bench([facts(CITY), facts({**CITY, "content": "likes Bern"})], [facts(GOAL)] * 2)
    run = await world.go(SAID)
    payload = world.payload(run.id)
    first = await extract(world.plain, payload)
    assert (first, await extract(world.plain, payload)) == (
        {"status": "extracted"},
        {"status": "done before"},
    )
    assert await profile(world) == {"city": "lives in Bern"}
    assert tasks(world) == ["profile", "session"]


async def test_facts_of_another_thread_are_kept_and_the_session_is_the_threads_own() -> None:
    other = {"key": "pet", "content": "has a cat called Momo", "evidence": "my cat is called Momo"}
    world = bench([facts(CITY), facts(other)], [facts(GOAL), facts()])
    await learn(world)
    run = await world.go("you know, my cat is called Momo", thread="t2")
    await extract(world.plain, world.payload(run.id))
    assert await profile(world) == {"city": "lives in Bern", "pet": "has a cat called Momo"}
    assert await session(world) == {"objective": "settle in Bern"}
    assert (await world.plain.memory.read_state(ANN, "t2")).session is None


async def turns(world: Bench, *texts: str) -> list[Any]:
    """Runs whose extraction is still to come, a minute after each other."""
    made = []
    for text in texts:
        run = await world.go(text)
        made.append(world.payload(run.id))
        world.clock.advance(timedelta(minutes=1))
    return made


async def test_a_turn_that_is_extracted_late_replaces_no_fact_of_a_later_one() -> None:
    said = "please note, I have moved to Rome since then"
    moved = {"content": "lives in Rome", "evidence": "I have moved to Rome since then"}
    goal = {**GOAL, **moved, "content": "settle in Rome"}
    world = bench([facts({**CITY, **moved}), facts(CITY)], [facts(goal), facts(GOAL)])
    older, newer = await turns(world, SAID, said)
    for payload in (newer, older):
        assert await extract(world.plain, payload) == {"status": "extracted"}
    assert await profile(world) == {"city": "lives in Rome"}
    assert await session(world) == {"objective": "settle in Rome"}


@pytest.mark.parametrize("put", [True, False])
async def test_the_owners_last_word_on_a_profile_holds_against_an_extraction_under_way(
    put: bool,
) -> None:
    world = bench([facts(CITY), facts(CITY)], [facts(), facts()])
    (payload,) = await turns(world, SAID)
    complete = world.model.complete

    async def slow(prompt: Any, *args: Any, **kwargs: Any) -> Any:
        reply = await complete(prompt, *args, **kwargs)
        if prompt.task == "profile":
            if put:
                await put_profile(world.plain, ANN, "helper", {"name": "Ann"})
            else:
                await delete_profile(world.plain, ANN, "helper")
        return reply

    class Slow:
        """A model that takes its time: the owner changes the profile meanwhile."""

        complete = staticmethod(slow)

    assert await extract(replace(world.plain, model=Slow()), payload) == {"status": "extracted"}
    assert await profile(world) == ({"name": "Ann"} if put else None)
    world.clock.advance(timedelta(minutes=1))
    await learn(world)
    assert (await profile(world))["city"] == "lives in Bern"


async def test_a_plan_that_is_written_meanwhile_costs_no_session() -> None:
    world = bench([facts()], [facts(GOAL)])
    read = world.plain.memory.read_state

    class Busy:
        """A store to which another run writes right after each of the first reads."""

        reads = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(world.plain.memory, name)

        async def read_state(self, owner: str, thread_id: str) -> Any:
            state = await read(owner, thread_id)
            self.reads += 1
            if self.reads < 4:
                plan = {"goal": f"g{self.reads}"}
                await world.plain.memory.write_plan(owner, thread_id, plan, world.clock.now())
            return state

    run = await world.go(SAID)
    busy = replace(world.plain, memory=Busy())
    assert await extract(busy, world.payload(run.id)) == {"status": "extracted"}
    state = await world.plain.memory.read_state(ANN, "t1")
    assert (state.session, state.plan) == ({"objective": "settle in Bern"}, {"goal": "g3"})


async def test_a_tool_logs_what_it_tried_from_wherever_it_runs() -> None:
    @tool
    async def deploy(ctx: ToolContext) -> str:
        """Deploy."""
        await ctx.log_attempt("deploy", "push", error="no disk", diagnosis="full", fix_applied="rm")
        return "ok"

    @tool
    def check(ctx: ToolContext) -> str:
        """Check, in a thread of its own."""
        asyncio.run(ctx.log_attempt("deploy", "check", result="fine\0"))
        return "ok"

    world = Bench(
        Agent("helper", tools=[deploy, check]), [call("deploy"), call("check"), say("done")]
    )
    run = await world.go()
    assert run.status is Status.SUCCESS
    log = (await world.plain.memory.read_state(ANN, "t1")).attempts
    assert [(a.attempt, a.action, a.result, a.error, a.run_id) for a in log] == [
        (1, "push", None, "no disk", run.id),
        (2, "check", "fine\ufffd", None, run.id),
    ]


@pytest.mark.parametrize("text", ["Thanks!", "Vielen Dank, schönen Abend noch", "Hello there"])
async def test_a_user_who_only_greets_or_thanks_costs_no_request(text: str) -> None:
    world = bench([facts(CITY)], [facts(GOAL)])
    assert await learn(world, text) == {"status": "extracted"}
    assert tasks(world) == []
    await learn(world)
    assert tasks(world) == ["profile", "session"]


async def test_a_user_who_agrees_is_read_unless_there_is_nothing_to_agree_to() -> None:
    world = bench([facts(), facts()], [facts(), facts({**GOAL, "evidence": "Yes, thanks!"})])
    await learn(world, "Yes, thanks!")
    assert tasks(world) == []
    await learn(world, "I think of Bern, or of Basel perhaps")
    await learn(world, "Yes, thanks!")
    assert tasks(world) == ["profile", "session"] * 2
    assert await session(world) == {"objective": "settle in Bern"}


async def test_a_yes_to_an_offer_of_more_help_costs_no_request() -> None:
    world = bench([facts()] * 2, [facts()] * 2)
    world.model._scripts["turn"] = iter(
        [say("You are welcome. Is there anything else?"), say("Then tell me."), say("Well.")]
    )
    await learn(world, "Thanks!")
    await learn(world, "Yes")
    assert tasks(world) == []
    await learn(world, "ok")
    assert tasks(world) == ["profile", "session"]
