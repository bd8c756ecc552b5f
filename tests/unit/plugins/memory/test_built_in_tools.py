"""The tools that memory gives a model."""

import json
from datetime import timedelta
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

from layover import Agent, Memory, ToolContext, WorkingMemory
from layover.clock import ManualClock
from layover.declare.schemas.render import format_error
from layover.errors import NotFound
from layover.inmemory.stores.memory import InMemoryMemory
from layover.inmemory.stores.threads import InMemoryThreads
from layover.plugins.memory.reads.profile.notes import working_key
from layover.plugins.memory.reads.tools import (
    MAX_WORKING_MEMORY,
    WorkingMemoryChanged,
    built_in_tools,
)
from layover.values.runs.run import RunMeta, Status
from support.worlds.threads import Conversation


class Home(BaseModel):
    """The place where a person lives."""

    city: str


class Person(BaseModel):
    """The facts known of a person."""

    name: str = Field(description="How to call them.", max_length=10)
    age: int | None = None
    home: Home | None = None
    tags: list[str] = []
    mood: Literal["good", "bad"] = "good"

    @field_validator("tags")
    @classmethod
    def _short(cls, tags: list[str]) -> list[str]:
        if len(tags) > 3:
            raise ValueError("at most three tags")
        return tags


class Desk:
    """Runs of one user with one store."""

    def __init__(self, **memory: Any) -> None:
        self.agent = Agent("helper", memory=Memory(**memory))
        self.threads = InMemoryThreads()
        self.memory = InMemoryMemory(self.threads)
        self.clock = ManualClock()
        self.talk = Conversation(self.threads, "ann", id="t1")

    def run(self, id: str = "r1", thread: str = "t1") -> dict[str, Any]:
        """The tools of a run that is accepted now, by name."""
        self.clock.advance(timedelta(seconds=1))
        now = self.clock.now()
        key = working_key(self.agent, thread)
        seen = self.threads.shelf.note("ann", key) if key else None
        meta = RunMeta(
            id=id,
            owner="ann",
            thread_id=thread,
            agent="helper",
            status=Status.RUNNING,
            input=self.talk.message("q", None),
            created_at=now,
            updated_at=now,
        )
        self.clock.advance(timedelta(seconds=1))
        tools = built_in_tools(self.agent, self.memory, meta, self.clock, seen)
        return {t.name: t for t in tools}

    async def value(self) -> Any:
        key = working_key(self.agent, "t1")
        assert key is not None
        return (await self.memory.read_notes("ann", [key]))[0].value


async def call(tool: Any, **args: Any) -> Any:
    return await tool.invoke(tool.validate(args), ToolContext.for_test())


def test_an_agent_that_names_no_memory_gets_no_tool() -> None:
    assert Desk(profile=True, session=True).run() == {}


def test_the_tools_may_run_again_after_a_crash_and_fit_strict_mode() -> None:
    for memory in (WorkingMemory(), WorkingMemory(schema=Person)):
        desk = Desk(working_memory=memory, plan=True)
        tools = desk.run()
        assert tools.keys() == desk.agent.built_in_tools
        for tool in tools.values():
            assert (tool.idempotent, tool.strict) == (True, True), tool.name
            assert tool.description


async def test_a_text_that_another_run_wrote_meanwhile_is_shown_instead_of_lost() -> None:
    desk = Desk(working_memory=WorkingMemory())
    mine, theirs = desk.run("r1"), desk.run("r2", "t2")
    await call(theirs["update_working_memory"], memory="likes tea")
    with pytest.raises(WorkingMemoryChanged) as caught:
        await call(mine["update_working_memory"], memory="has a dog")
    assert "likes tea" in format_error(caught.value)
    assert await desk.value() == "likes tea"
    both = "likes tea\nhas a dog"
    assert await call(mine["update_working_memory"], memory=both) == {"success": True}
    assert await desk.value() == both
    with pytest.raises(WorkingMemoryChanged):
        await call(theirs["update_working_memory"], memory="likes coffee")


async def test_a_text_of_a_process_whose_clock_is_behind_is_not_lost() -> None:
    desk = Desk(working_memory=WorkingMemory())
    theirs = desk.run("r2", "t2")
    mine = desk.run("r1")
    desk.clock.advance(timedelta(minutes=-5))
    await call(theirs["update_working_memory"], memory="likes tea")
    with pytest.raises(WorkingMemoryChanged):
        await call(mine["update_working_memory"], memory="has a dog")
    assert await desk.value() == "likes tea"


async def test_a_text_that_was_deleted_and_made_anew_is_not_the_one_that_was_seen() -> None:
    desk = Desk(working_memory=WorkingMemory())
    key = working_key(desk.agent, "t1")
    assert key is not None
    await call(desk.run("r0")["update_working_memory"], memory="likes tea")
    mine = desk.run("r1")
    await desk.memory.delete_note("ann", key, desk.clock.now())
    await call(desk.run("r2")["update_working_memory"], memory="likes coffee")
    with pytest.raises(WorkingMemoryChanged, match="likes coffee"):
        await call(mine["update_working_memory"], memory="likes tea\nhas a dog")


async def test_a_run_does_not_compete_with_itself_or_with_the_past() -> None:
    desk = Desk(working_memory=WorkingMemory())
    for run in ("r1", "r2"):
        tools = desk.run(run)
        for n in range(3):
            text = f"{run} {n}"
            assert await call(tools["update_working_memory"], memory=text) == {"success": True}
    assert await desk.value() == "r2 2"


async def test_notes_are_bounded() -> None:
    text = Desk(working_memory=WorkingMemory()).run()["update_working_memory"]
    with pytest.raises(ValueError, match="characters"):
        await call(text, memory="x" * (MAX_WORKING_MEMORY + 1))
    fields = Desk(working_memory=WorkingMemory(schema=Person)).run()["update_working_memory"]
    with pytest.raises(ValueError, match="characters"):
        await call(fields, home={"city": "x" * MAX_WORKING_MEMORY})


@pytest.mark.parametrize(
    "args",
    [
        {"unknown": 1},
        {"age": "old"},
        {"mood": "so so"},
        {"home": {}},
        {"name": "x" * 11},
        {"tags": 1},
    ],
)
def test_fields_that_do_not_fit_are_refused(args: dict[str, Any]) -> None:
    tool = Desk(working_memory=WorkingMemory(schema=Person)).run()["update_working_memory"]
    with pytest.raises(ValidationError):
        tool.validate(args)


async def test_validators_of_the_schema_are_asked() -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Person))
    with pytest.raises(ValueError, match="at most three tags"):
        await call(desk.run()["update_working_memory"], tags=["a", "b", "c", "d"])
    assert await desk.value() is None


async def test_fields_are_merged_and_null_leaves_them_as_they_are() -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Person))
    mine, theirs = desk.run("r1"), desk.run("r2", "t2")
    assert await call(mine["update_working_memory"], age=41) == {"success": True}
    await call(theirs["update_working_memory"], home={"city": "Bern"}, name=None, age=None)
    given = {"name": "Ann", "age": None, "home": None, "tags": None, "mood": "bad"}
    await mine["update_working_memory"].invoke(
        mine["update_working_memory"].validate(json.dumps(given)), ToolContext.for_test()
    )
    assert await desk.value() == {
        "age": 41,
        "home": {"city": "Bern"},
        "name": "Ann",
        "mood": "bad",
    }
    await call(mine["update_working_memory"])


class Address(BaseModel):
    street: str | None = None
    city: str | None
    floor: int = 0


class Contact(BaseModel):
    forget: str | None = None
    phone: str | None = None
    address: Address | None = None
    past: list[Address] = []
    vip: bool | None = None


async def update(desk: Desk, text: str, id: str = "r1") -> Any:
    """Call the tool with arguments as a model writes them."""
    tool = desk.run(id)["update_working_memory"]
    return await tool.invoke(tool.validate(text), ToolContext.for_test())


async def test_a_field_within_a_field_stays_if_the_change_has_null_or_nothing_there() -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Contact))
    await update(desk, '{"address": {"street": "Elm Street 1", "city": "Bonn", "floor": 3}}')
    await update(desk, '{"address": {"street": null, "city": "Kiel"}, "phone": null}')
    assert await desk.value() == {"address": {"street": "Elm Street 1", "city": "Kiel", "floor": 3}}


async def test_nulls_are_kept_nowhere() -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Contact))
    text = '{"address": {"street": null, "city": null}, "past": [{"city": "Bonn", "street": null}]}'
    await update(desk, text)
    assert await desk.value() == {"address": {}, "past": [{"city": "Bonn", "floor": 0}]}


@pytest.mark.parametrize("blank", ['""', '" "'])
async def test_a_blank_text_takes_a_field_away(blank: str) -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Contact))
    await update(
        desk, '{"phone": "555 0199", "address": {"street": "Elm Street 1", "city": "Bonn"}}'
    )
    done = await update(
        desk, f'{{"phone": {blank}, "address": {{"street": {blank}, "city": null}}}}'
    )
    assert done == {"success": True}
    assert await desk.value() == {"address": {"city": "Bonn"}}


async def test_a_model_may_forget_any_field_that_may_be_missing() -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Contact))
    await update(desk, '{"vip": true, "phone": "1", "address": {"street": "Elm", "city": "Bonn"}}')
    # The schema has a field of that name itself.
    done = await update(desk, '{"forget_": ["vip", "address.street", "past"], "phone": "2"}')
    assert done == {"success": True}
    assert await desk.value() == {"phone": "2", "address": {"city": "Bonn"}}


def test_a_field_that_an_object_needs_cannot_be_forgotten() -> None:
    tool = Desk(working_memory=WorkingMemory(schema=Person)).run()["update_working_memory"]
    tool.validate({"forget": ["home", "name"]})
    for path in ("home.city", "unknown", "home."):
        with pytest.raises(ValidationError):
            tool.validate({"forget": [path]})


@pytest.mark.parametrize("text", ["{}", '{"phone": null, "address": null, "forget_": []}'])
async def test_a_call_that_changes_nothing_does_not_report_success(text: str) -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Contact))
    await update(desk, '{"phone": "555 0199"}')
    done = await update(desk, text)
    assert not done["success"]
    assert "Null leaves a field as it is" in done["reason"]
    assert await desk.value() == {"phone": "555 0199"}


async def test_a_text_in_place_of_the_fields_becomes_a_field() -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Contact))
    key = working_key(desk.agent, "t1")
    assert key is not None
    await desk.memory.replace_note("ann", key, 'says "hi"', desk.clock.now())
    await update(desk, '{"phone": "1"}')
    assert await desk.value() == {"about": 'says "hi"', "phone": "1"}


async def test_fields_of_writers_who_come_between_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Contact))
    key = working_key(desk.agent, "t1")
    assert key is not None
    replace_note, others = desk.memory.replace_note, ['{"address": {"floor": 7, "city": null}}']

    async def interrupted(*args: Any, **options: Any) -> Any:
        if others:
            await update(desk, others.pop(), "r2")
        return await replace_note(*args, **options)

    monkeypatch.setattr(desk.memory, "replace_note", interrupted)
    await update(desk, '{"address": {"street": "Elm", "city": "Bonn"}}')
    assert await desk.value() == {"address": {"street": "Elm", "city": "Bonn", "floor": 7}}


async def test_a_field_that_was_deleted_meanwhile_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Contact))
    key = working_key(desk.agent, "t1")
    assert key is not None
    await update(desk, '{"phone": "1"}')
    replace_note, deletions = desk.memory.replace_note, [key]

    async def interrupted(*args: Any, **options: Any) -> Any:
        if deletions:
            await desk.memory.delete_note("ann", deletions.pop(), desk.clock.now())
        return await replace_note(*args, **options)

    monkeypatch.setattr(desk.memory, "replace_note", interrupted)
    await update(desk, '{"vip": true}')
    assert await desk.value() == {"vip": True}


async def test_writers_without_end_stop_a_merge_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk(working_memory=WorkingMemory(schema=Contact))
    replace_note = desk.memory.replace_note
    await update(desk, '{"phone": "1"}')

    async def late(*args: Any, **options: Any) -> Any:
        return await replace_note(*args, **{**options, "expected_version": 0})

    monkeypatch.setattr(desk.memory, "replace_note", late)
    with pytest.raises(WorkingMemoryChanged, match="nothing was stored"):
        await update(desk, '{"phone": "2"}')
    assert await desk.value() == {"phone": "1"}


async def test_notes_of_a_thread_that_is_gone_are_not_written() -> None:
    desk = Desk(working_memory=WorkingMemory(scope="thread"), plan=True)
    tools = desk.run()
    for name, args in (("update_working_memory", {"memory": "x"}), ("plan", {"goal": "g"})):
        with pytest.raises(NotFound):
            await call(tools[name], **args)


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"goal": "g", "steps": [{"description": "x", "status": "blocked"}]},
        {"goal": "g", "steps": [{"status": "done"}]},
        {"goal": "g", "iterations": -1},
        {"goal": "g", "steps": [{"description": "x"}] * 101},
    ],
)
def test_a_plan_of_another_shape_is_refused(args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Desk(plan=True).run()["plan"].validate(args)


async def test_a_plan_is_kept_with_its_thread() -> None:
    desk = Desk(plan=True)
    await desk.talk.say(None, "q")
    steps = [{"description": "pack", "status": "done"}, {"title": "move", "status": "in_progress"}]
    plan = desk.run()["plan"]
    assert await call(plan, goal="move", phase="packing", iterations=2, steps=steps) == {
        "success": True
    }
    state = await desk.memory.read_state("ann", "t1")
    assert state.plan == {
        "goal": "move",
        "phase": "packing",
        "iterations": 2,
        "steps": [
            {"description": "pack", "status": "done"},
            {"description": "move", "status": "in_progress"},
        ],
    }
    await call(plan, goal="stay")
    assert (await desk.memory.read_state("ann", "t1")).plan == {
        "goal": "stay",
        "phase": "",
        "iterations": 0,
        "steps": [],
    }
