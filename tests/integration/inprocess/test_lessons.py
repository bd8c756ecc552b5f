"""One request for all that a turn teaches: what becomes of its answer, and of an answer that lacks a part
(docs/prompts.md#one-request)."""

import json
import logging
from typing import Any

import pytest

from layover import Agent, EpisodicMemory, Memory
from layover.inmemory.model import ScriptedModel, fail, say, too_long
from layover.plugins.memory.learns.extract import extract
from layover.values.note import profile_key
from support.worlds.runs import ANN, Bench

SAID = "The boiler of house 9 drips since the frost, and I moved to Bern last month"
BOILER = "The boiler of house 9 drips since the frost"
MOVED = "I moved to Bern last month"
CITY = {"key": "city", "content": "lives in Bern", "evidence": MOVED}
GOAL = {"field": "objective", "content": "a dry house 9", "evidence": BOILER}
DRIP = {"kind": "symptom", "content": "The boiler of house 9 drips.", "evidence": BOILER}
LISTS: dict[str, Any] = {"profile": [CITY], "session": [GOAL], "entries": [DRIP]}
ALONE = {
    "profile": {"facts": [CITY]},
    "session": {"facts": [GOAL]},
    "extractor": {"entries": [DRIP]},
}
EVERYTHING = ({"city": "lives in Bern"}, {"objective": "a dry house 9"}, [DRIP["content"]])
NOTHING: tuple[None, None, list[str]] = (None, None, [])


def answer(value: Any) -> Any:
    return say(value if isinstance(value, str) else json.dumps(value))


class World(Bench):
    """An agent that remembers everything, and a model that can answer a lesson and each part alone."""

    def __init__(self, *lessons: Any, **memory: Any) -> None:
        alone = {task: lambda _, value=value: answer(value) for task, value in ALONE.items()}
        model = ScriptedModel(lambda _: say("fine"), background={**alone, "lesson": lessons})
        parts = {"profile": True, "session": True, "episodic": EpisodicMemory(), **memory}
        super().__init__(Agent("helper", memory=Memory(titles=False, **parts)), model)

    async def learn(self, text: str = SAID) -> list[str]:
        """Let memory learn from a turn. Return what it asked for."""
        before = len(self.model.prompts)
        run = await self.go(text)
        await extract(self.plain, self.payload(run.id))
        return [p.task for p in self.model.prompts[before:] if p.task != "turn"]

    async def known(self) -> tuple[Any, Any, list[str]]:
        """Profile, session memory and entries."""
        (note,) = await self.plain.memory.read_notes(ANN, [profile_key("helper")])
        state = await self.plain.memory.read_state(ANN, "t1")
        entries = await self.plain.memory.list_entries(ANN, "helper", 9, None)
        return note.value, state.session, [e.content for e in entries]

    def rows(self) -> set[str]:
        """Rows of usage of what was learned."""
        return {
            step
            for (_, _, step), (kind, _) in self.threads.usage_rows.items()
            if kind == "background"
        }


@pytest.mark.parametrize("error", [fail("no such key", status=401), fail("down", status=503)])
async def test_a_model_that_fails_costs_one_request_and_teaches_nothing(
    error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(error)
    with caplog.at_level(logging.WARNING, logger="layover"):
        assert await world.learn() == ["lesson"]
    assert await world.known() == NOTHING
    assert world.rows() == set()
    said = " ".join(r.message for r in caplog.records)
    assert all(name in said for name in ("profile", "session", "entries"))


@pytest.mark.parametrize("error", [fail("schema is too large", status=400), too_long()])
async def test_a_request_that_a_model_does_not_take_is_made_in_parts(error: Any) -> None:
    world = World(*[error] * 3)
    tasks = await world.learn()
    assert [t for t in tasks if t != "lesson"] == ["extractor", "profile", "session"]
    assert await world.known() == EVERYTHING


@pytest.mark.parametrize("garbage", ["", "I would rather not.", "{}", '{"facts": []}', "[1, 2]"])
async def test_a_useless_answer_is_asked_for_in_parts(garbage: str) -> None:
    world = World(say(garbage))
    assert await world.learn() == ["lesson", "extractor", "profile", "session"]
    assert await world.known() == EVERYTHING
    assert world.rows() == {"lesson", "profile", "session", "extractor"}


@pytest.mark.parametrize("lost", LISTS)
@pytest.mark.parametrize("bad", ["absent", None, "none", {"facts": []}, 5])
async def test_a_part_that_is_malformed_costs_no_other_part(lost: str, bad: Any) -> None:
    lists = {name: each for name, each in LISTS.items() if name != lost}
    world = World(answer(lists if bad == "absent" else {**lists, lost: bad}))
    assert await world.learn() == ["lesson", {"entries": "extractor"}.get(lost, lost)]
    assert await world.known() == EVERYTHING


@pytest.mark.parametrize("lost", LISTS)
async def test_items_that_are_malformed_cost_no_other_part(lost: str) -> None:
    world = World(
        answer({**LISTS, lost: [None, 5, "x", {"evidence": "never said at all by anybody"}]})
    )
    assert await world.learn() == ["lesson"]
    expected = [
        {"profile": NOTHING[0], "session": NOTHING[1], "entries": NOTHING[2]}[name]
        if name == lost
        else EVERYTHING[place]
        for place, name in enumerate(LISTS)
    ]
    assert list(await world.known()) == expected


async def test_of_an_answer_that_was_cut_every_whole_item_is_kept_and_the_rest_is_asked_for() -> (
    None
):
    text = json.dumps({"entries": [DRIP], "profile": [CITY], "session": [GOAL]})
    cut = text[: text.index('"session"')]
    length: Any = "length"
    world = World(say(cut, finish_reason=length))
    assert await world.learn() == ["lesson", "session"]
    assert await world.known() == EVERYTHING


async def test_one_request_stores_what_three_store() -> None:
    joint, apart = World(answer(LISTS)), World(say(""))
    assert await joint.learn() == ["lesson"]
    assert len(await apart.learn()) == 4
    assert await joint.known() == await apart.known() == EVERYTHING
    assert joint.rows() == {"lesson"}
    (of_joint,) = await joint.plain.memory.list_entries(ANN, "helper", 9, None)
    (of_apart,) = await apart.plain.memory.list_entries(ANN, "helper", 9, None)
    assert of_joint.evidence == of_apart.evidence
    assert of_joint.verified == of_apart.verified


async def test_a_lesson_in_which_nothing_is_new_is_one_request() -> None:
    world = World(answer({"profile": [], "session": [], "entries": []}))
    assert await world.learn() == ["lesson"]
    assert await world.known() == NOTHING


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ({"session": False, "episodic": None}, ["profile"]),
        ({"profile": False, "episodic": None}, ["session"]),
        ({"profile": False, "session": False}, ["extractor"]),
        ({"profile": False, "session": False, "episodic": None}, []),
        ({"episodic": EpisodicMemory(per_turn=0), "session": False}, ["profile"]),
    ],
)
async def test_a_single_part_has_a_request_of_its_own(
    memory: dict[str, Any], expected: list[str]
) -> None:
    assert await World(**memory).learn() == expected


async def test_two_parts_share_a_request() -> None:
    world = World(answer({"session": [GOAL], "entries": [DRIP]}), profile=False)
    assert await world.learn() == ["lesson"]
    assert (await world.known())[1:] == EVERYTHING[1:]


@pytest.mark.parametrize("text", ["Thanks!", "ok", "👍", "No, thank you."])
async def test_a_turn_that_can_teach_nothing_costs_no_request(text: str) -> None:
    world = World()
    assert await world.learn(text) == []


async def test_a_yes_to_a_proposal_is_read() -> None:
    world = World(answer(LISTS), answer(LISTS))
    await world.learn()
    assert await world.learn("ok") == ["lesson"]
