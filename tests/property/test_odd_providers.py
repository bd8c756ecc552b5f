"""A provider that misbehaves at random: no tool runs that was not asked for, and no thread is stuck."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from layover import Agent, tool
from layover.ids import SequentialIds
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.message import FilePart, Message, TextPart
from layover.values.runs.run import Status
from support.examples import share
from support.providers.odd import FORBIDDEN, ROOMS, OddProvider
from support.worlds.runs import Bench

RUNS_A_THREAD = 4
PICTURE = FilePart(url="https://files.example/a.png", name="a.png", mime_type="image/png")


def agent(ran: list[str]) -> Agent:
    """An agent whose tools note what they are called with."""

    def made(name: str) -> Any:
        async def act(hotel: str, guest: dict[str, Any]) -> str:
            """Act."""
            ran.append(json.dumps([name, {"hotel": hotel, "guest": guest}], sort_keys=True))
            return f"{FORBIDDEN} words" if hotel.endswith("7-0") else "done"

        return tool(name=name)(act)

    return Agent("hotel", model="m", tools=[made(name) for name in ROOMS])


async def no_pause(_: float) -> None:
    """The provider's faults pass at once."""


class OddThread:
    """One user's thread with one provider."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.provider = OddProvider(self.random)
        self.ran: list[str] = []
        model = OpenAIChat(
            "key", "https://odd.example/v1", make_client=lambda: self.provider,
            ids=SequentialIds(), sleep=no_pause,
        )  # fmt: skip
        self.bench = Bench(agent(self.ran), model)

    async def say(self) -> Any:
        """A run of anything."""
        r = self.random
        text = r.choice(("Book a room", "Hello", f"Say the {FORBIDDEN} word"))
        parts: list[Any] = [TextPart(text=text)]
        if r.random() < 0.3:
            parts.append(PICTURE)
        return await self.bench.go(parts, stream=r.random() < 0.7)

    async def is_alive(self) -> bool:
        """A plain message is answered once the provider has no faults, only its taste."""
        self.provider.fair = True
        run = await self.bench.go("Are you there?", stream=True)
        return run.status is Status.SUCCESS and run.finish_reason == "stop"

    def check_calls(self, message: Message) -> None:
        """The calls of a stored answer are those that one answer of the model's meant, in its order."""
        calls = [(c.tool_name, c.args) for c in message.tool_calls]
        assert not calls or calls in [[*wish.calls] for wish in self.provider.wishes], calls

    def unasked(self) -> Counter[str]:
        """Return the calls that ran and that no answer asked for, or more often than they were asked for."""
        wished = Counter(
            json.dumps([name, args], sort_keys=True)
            for wish in self.provider.wishes
            for name, args in wish.calls
        )
        return Counter(self.ran) - wished


async def play(seed: int) -> Counter[str]:
    """Play one thread; return its ends, and how many calls ran."""
    thread = OddThread(seed)
    ends: Counter[str] = Counter()
    for _ in range(RUNS_A_THREAD - 1):
        run = await thread.say()
        assert run.status.over, seed
        for message in run.messages:
            thread.check_calls(message)
        ends[f"{run.status.value} {run.finish_reason}"] += 1
    assert await thread.is_alive(), f"thread {seed} is stuck"
    assert not thread.unasked(), f"thread {seed} ran what nobody asked for"
    ends["calls"] = len(thread.ran)
    return ends


async def play_all(seeds: range) -> Counter[str]:
    total: Counter[str] = Counter()
    for seed in seeds:
        total += await play(seed)
    return total


async def test_no_thread_is_stuck_and_no_tool_runs_unasked() -> None:
    total = await play_all(range(60 // share(2)))
    # The provider does misbehave, and its tools do run.
    assert total["calls"] > 50 // share(2)
    assert total["success content-filter"] > 5 // share(2)
    assert total["failed error"] > 0


@pytest.mark.torture
async def test_ten_thousand_runs_with_a_provider_that_misbehaves() -> None:
    total = await play_all(range(1_000, 1_000 + 10_000 // RUNS_A_THREAD))
    assert total["calls"] > 1_000
