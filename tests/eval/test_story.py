"""A story of fifty turns through the product: at its end, memory holds what was meant, and nothing twice."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eval.story import KNOWN, STORY, Told, Turn
from layover import Agent, EpisodicMemory, Memory, tool
from layover.clock import ManualClock
from layover.plugins.memory.learns.entries import Entry, list_entries
from layover.testing import HashingEmbedder, ScriptedModel, call, say
from layover.wiring import in_memory_runtime
from support.examples import share

START = datetime(2026, 11, 27, 9, tzinfo=UTC)
EMBEDDERS = [None, HashingEmbedder()][:: share(2)]


class Story:
    """The story, held with an agent in process."""

    def __init__(self, *, names_known: bool, embedder: Any) -> None:
        self.requests = 0
        self._names_known = names_known
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
        known: dict[str, str] = json.loads(prompt.messages[-1].text)["known"]
        numbers = {text: int(number) for number, text in known.items()}
        entries = [self._proposal(each, numbers) for each in self._turn.told]
        return say(json.dumps({"entries": entries}, ensure_ascii=False))

    def _proposal(self, told: Told, numbers: dict[str, int]) -> dict[str, Any]:
        proposal = {"evidence": told.evidence, "kind": "symptom", "content": told.content}
        if not self._names_known:
            return proposal
        named = {"replaces": told.replaces, "same": told.same}
        return proposal | {
            field: [numbers[text]] if text in numbers else [] for field, text in named.items()
        }


def test_the_story_has_fifty_turns() -> None:
    assert len(STORY) == 50


@pytest.mark.parametrize("embedder", EMBEDDERS)
async def test_all_that_is_known_at_the_end_was_meant_and_stands_once(embedder: Any) -> None:
    story = Story(names_known=True, embedder=embedder)
    await story.hold()
    known = await story.known()
    assert {e.content: e.evidence for e in known} == KNOWN
    assert all(e.verified for e in known)
    by_content = {e.content: e for e in known}
    sources = {"user_assertion", "user_accepted_assistant_proposal", "tool_result"}
    assert {e.source for e in known} == sources
    assert len(by_content) == len(known)
    # What no longer holds says what took its place, which is about the same thing.
    places = {e.id: e.content for e in await story.known(superseded=True)}
    gone = {
        e.content: places[e.superseded_by]
        for e in await story.known(superseded=True)
        if e.superseded_by
    }
    replaced = {each.replaces: each.content for t in STORY for each in t.told if each.replaces}
    assert len(gone) == 12
    assert all(replaced[old] == new for old, new in gone.items())


@pytest.mark.parametrize("embedder", EMBEDDERS)
async def test_the_same_is_known_if_the_extractor_names_no_known_entry(embedder: Any) -> None:
    story = Story(names_known=False, embedder=embedder)
    await story.hold()
    known = await story.known()
    assert {e.content: e.evidence for e in known} == KNOWN
    assert len(known) == len(KNOWN)


async def test_a_turn_takes_one_request_at_most() -> None:
    story = Story(names_known=True, embedder=None)
    await story.hold()
    told = sum(bool(each.told) for each in STORY)
    assert told <= story.requests <= len(STORY)
