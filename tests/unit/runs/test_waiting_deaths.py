"""The process dies at any port call while runs of one thread wait, work and go on: nothing is lost, nothing
happens twice, and the conversation has the same order."""

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from layover.values.runs.run import OnBusy, OnWaiting
from support.examples import choose_deaths
from support.worlds.runs import Power
from support.worlds.talk import Talk


async def answered(talk: Talk) -> None:
    """A run waits, another one answers, the first is approved and goes on."""
    first = await talk.say("pay 1")
    await talk.rest()
    await talk.say("weather")
    await talk.rest()
    await talk.decide_as(first, "c1", "approve")
    await talk.rest()


async def decided_meanwhile(talk: Talk) -> None:
    """The first is approved while the other one is at work."""
    first = await talk.say("pay 1")
    await talk.rest()
    await talk.say("weather")
    await talk.decide_as(first, "c1", "approve")
    await talk.rest()


async def both_wait(talk: Talk) -> None:
    """The other one waits itself, and gives the thread back."""
    first = await talk.say("pay 1 2")
    await talk.rest()
    second = await talk.say("pay 3")
    await talk.rest()
    await talk.decide_as(first, "c2", "deny")
    await talk.rest()
    await talk.decide_as(first, "c1", "approve")
    await talk.rest()
    await talk.decide_as(second, "c3", "approve")
    await talk.rest()


async def steered(talk: Talk) -> None:
    """Messages to a run that waits, before and after another one answered."""
    first = await talk.say("pay 1")
    await talk.rest()
    await talk.say("hurry", on_waiting=OnWaiting.STEER)
    await talk.say("weather")
    await talk.rest()
    await talk.say("please", on_waiting=OnWaiting.STEER)
    await talk.decide_as(first, "c1", "approve")
    await talk.rest()


async def withdrawn(talk: Talk) -> None:
    """A message withdraws what waits."""
    await talk.say("pay 1")
    await talk.rest()
    await talk.say("no", on_waiting=OnWaiting.WITHDRAW)
    await talk.rest()


async def edited(talk: Talk) -> None:
    """An edit takes back what waits."""
    await talk.say("pay 1")
    await talk.rest()
    second = await talk.say("pay 2", parent_id=None)
    await talk.rest()
    await talk.decide_as(second, "c2", "approve")
    await talk.rest()


async def edited_behind_another(talk: Talk) -> None:
    """An edit takes back what waits in two runs; a call of one of them was approved before."""
    first = await talk.say("pay 1 2")
    await talk.rest()
    await talk.say("pay 3")
    await talk.rest()
    await talk.say("weather")
    await talk.decide_as(first, "c1", "approve")
    await talk.say("tomorrow", parent_id=None, on_busy=OnBusy.ENQUEUE)
    await talk.rest()


async def asked_again(talk: Talk) -> None:
    """A deployment changes what was approved."""
    first = await talk.say("pay 1")
    await talk.rest()
    await talk.say("weather")
    await talk.rest()
    talk.redeploy()
    await talk.decide_as(first, "c1", "approve", attempt=1)
    await talk.rest()
    await talk.say("tomorrow")
    await talk.rest()
    await talk.decide_as(first, "c1", "approve", attempt=2)
    await talk.rest()


async def queued(talk: Talk) -> None:
    """A queue behind a run that begins to wait."""
    first = await talk.say("pay 1")
    await talk.say("weather", on_busy=OnBusy.ENQUEUE)
    await talk.say("tomorrow", on_busy=OnBusy.ENQUEUE)
    await talk.rest()
    await talk.decide_as(first, "c1", "approve")
    await talk.rest()


STORIES: dict[str, Callable[[Talk], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        answered,
        decided_meanwhile,
        both_wait,
        steered,
        withdrawn,
        edited,
        edited_behind_another,
        asked_again,
        queued,
    )
}
AFTER = {
    "answered": ["pay 1", "calls", "result", "weather", "re weather", "done"],
    "edited": ["pay 2", "calls", "result", "done"],
    "withdrawn": ["pay 1", "calls", "result", "no", "re no"],
    "queued": [
        "pay 1",
        "calls",
        "result",
        "weather",
        "re weather",
        "tomorrow",
        "re tomorrow",
        "done",
    ],
}
"""What some of them end with. The others are told once without a death."""


@pytest.mark.usefixtures("hurried_ends")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("story", STORIES)
async def test_a_death_changes_neither_the_conversation_nor_what_is_paid(
    story: str, after: bool
) -> None:
    calm = Talk()
    await STORIES[story](calm)
    expected = await calm.words()
    assert expected == AFTER.get(story, expected)
    assert await calm.runs() == []
    for at in choose_deaths(after):
        power = Power(at, after=after)
        talk = Talk(power)
        await STORIES[story](talk)
        assert await talk.words() == expected, at
        assert await talk.runs() == [], at
        paid = Counter(amount for amount, _ in talk.paid)
        assert set(paid.values()) <= {1}, (at, talk.paid)
        assert set(talk.paid) <= set(calm.paid), (at, talk.paid)
        if not power.cuts:
            break
    assert at > 20
