"""A story of fifty turns through the product, with four extractors: what memory holds at its end."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eval.cases import known_in
from eval.story import (
    ALARME,
    FACTURA_OK,
    FLOUR_NOW,
    FURGONETA_AZUL,
    KNOWN,
    LEFT_AGAIN,
    LEFT_FIXED,
    STORY,
    ZH_LEFT_OK,
    ZH_ORDER_OK,
    Told,
    Turn,
)
from layover import Agent, EpisodicMemory, Memory, tool
from layover.clock import ManualClock
from layover.plugins.memory.learns.entries import Entry, list_entries
from layover.testing import HashingEmbedder, ScriptedModel, call, say
from layover.wiring import in_memory_runtime
from support.examples import share

START = datetime(2026, 11, 27, 9, tzinfo=UTC)
EMBEDDERS = [None, HashingEmbedder()][:: share(2)]


Said = dict[str, list[int]]
Says = Callable[[Told, Mapping[str, int]], Said]
"""What an extractor says of the known entries, whose numbers it is shown by their contents."""


def says_nothing(_: Told, __: Mapping[str, int]) -> Said:
    return {}


def says_the_truth(told: Told, known: Mapping[str, int]) -> Said:
    named = {"replaces": told.replaces, "same": told.same}
    return {field: [known[t]] if t and t in known else [] for field, t in named.items()}


def replaces_everything(_: Told, known: Mapping[str, int]) -> Said:
    return {"replaces": list(known.values())}


def repeats_everything(_: Told, known: Mapping[str, int]) -> Said:
    return {"same": list(known.values())}


class Story:
    """The story, held with an agent in process."""

    def __init__(self, says: Says, embedder: Any = None) -> None:
        self.requests = 0
        self._says = says
        self._turn = STORY[0]
        self._steps: list[Any] = []
        self._results: list[Any] = []
        model = ScriptedModel(lambda _: self._steps.pop(0), background={"extractor": self._extract})

        @tool(trusted=True)
        def look_up() -> Any:
            """Look an order up."""
            return self._results.pop(0)

        memory = Memory(titles=False, episodic=EpisodicMemory())
        self._agent = Agent("desk", instructions="You help.", tools=[look_up], memory=memory)
        self._clock = ManualClock(START)
        self._runtime = in_memory_runtime(
            self._agent, model=model, embedder=embedder, clock=self._clock
        )
        self._agent.runtime = self._runtime

    async def hold(self) -> None:
        """Hold all turns, each remembered before the next one."""
        for each in STORY:
            self._turn = each
            await self._play(each)

    async def known(self, *, superseded: bool = False) -> list[Entry]:
        """What is known."""
        page = await list_entries(
            self._runtime, "ann", "desk", None, 100, None, superseded=superseded
        )
        return list(page.items)

    async def _play(self, each: Turn) -> None:
        if each.result is not None:
            self._results.append(each.result)
            self._steps.append(call("look_up"))
        self._steps.append(say(each.assistant))
        self._clock.advance(timedelta(minutes=1))
        await self._agent.generate(each.user, thread_id="t", resource_id="ann")
        await self._agent.wait_for_memory()

    def _extract(self, prompt: Any) -> Any:
        self.requests += 1
        known = known_in(prompt.messages[-1].text)
        entries = [
            {
                "evidence": t.evidence,
                "kind": "symptom",
                "content": t.content,
                **self._says(t, known),
            }
            for t in self._turn.told
        ]
        return say(json.dumps({"entries": entries}, ensure_ascii=False))


async def told_by(says: Says, embedder: Any = None) -> Story:
    story = Story(says, embedder)
    await story.hold()
    return story


TOLD = [told for each in STORY for told in each.told]
REPLACED = {told.replaces: told.content for told in TOLD if told.replaces}
"""What holds no longer, with what took its place."""

LAST = {LEFT_FIXED, FLOUR_NOW, ALARME, FURGONETA_AZUL, FACTURA_OK, ZH_LEFT_OK, ZH_ORDER_OK}
"""What stands if each entry takes the place of all that are like it."""


def test_the_story_has_fifty_turns_and_twelve_changes() -> None:
    assert (len(STORY), len(REPLACED)) == (50, 12)


@pytest.mark.parametrize("embedder", EMBEDDERS)
async def test_with_a_truthful_extractor_all_that_is_known_at_the_end_was_meant_and_stands_once(
    embedder: Any,
) -> None:
    story = await told_by(says_the_truth, embedder)
    known = await story.known()
    assert {e.content: e.evidence for e in known} == KNOWN
    assert len(known) == len(KNOWN)
    assert all(e.verified for e in known)
    sources = {"user_assertion", "user_accepted_assistant_proposal", "tool_result"}
    assert {e.source for e in known} == sources
    # What no longer holds says what took its place.
    every = await story.known(superseded=True)
    contents = {e.id: e.content for e in every}
    gone = {e.content: contents[e.superseded_by] for e in every if e.superseded_by}
    assert gone == REPLACED


@pytest.mark.parametrize("embedder", EMBEDDERS)
async def test_with_a_silent_extractor_all_stands_and_what_is_newer_is_first(embedder: Any) -> None:
    story = await told_by(says_nothing, embedder)
    contents = [e.content for e in await story.known()]
    assert sorted(contents) == sorted({*KNOWN, *REPLACED, LEFT_AGAIN})
    assert await story.known(superseded=True) == await story.known()
    places = [(contents.index(new), contents.index(old)) for old, new in REPLACED.items()]
    assert all(new < old for new, old in places)


async def test_with_an_extractor_that_replaces_everything_all_can_still_be_read() -> None:
    story = await told_by(replaces_everything)
    assert {e.content for e in await story.known()} == LAST
    assert {e.content for e in await story.known(superseded=True)} == {t.content for t in TOLD}


async def test_with_an_extractor_that_repeats_everything_all_can_still_be_read() -> None:
    story = await told_by(repeats_everything)
    every = {e.content for e in await story.known(superseded=True)}
    # It has the words of a longer one, in their order.
    assert {told.content for told in TOLD} - every == {LEFT_AGAIN}


async def test_a_turn_takes_one_request_at_most() -> None:
    story = await told_by(says_the_truth)
    told = sum(bool(each.told) for each in STORY)
    assert told <= story.requests <= len(STORY)
