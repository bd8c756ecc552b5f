"""Operators are told of failures together: one message for each kind in a window, and one when it is over."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

from layover import Agent
from layover.adapters.journal.outages import TableOutages
from layover.errors import RetryableError
from layover.inmemory.model import fail, say
from layover.plugins.people.words import facts, headline
from layover.ports.channels import ChannelPorts
from layover.recovery.sweep import sweep
from layover.values.channels import Channels
from layover.values.decision import RUN_FINISHED
from layover.values.outages import MAX_NAMED, WINDOW, Outage
from support.inmemory.sender import InMemorySender
from support.worlds.channels import URL, Told, at
from support.worlds.runs import Bench, Power

CONFIG = Channels(
    groups={"operators": (at("slack", "#ops"), at("mail", "ops@example.com"))},
    mail_from="layover@example.com",
)
REFUSED = fail("Incorrect API key provided: sk-proj-123456 for ann@example.com", status=401)
AWAY = fail("overloaded", status=503)


class Desk(Told):
    """Operators, and runs that fail in turn."""

    def __init__(self, *replies: Any, config: Channels = CONFIG) -> None:
        super().__init__(Bench(Agent("shop", model="openai/m"), replies), config, Power())
        outages = TableOutages(self.bench.table, self.bench.clock)
        self.use(outages=outages)

    def use(self, **changes: Any) -> None:
        self.ports: ChannelPorts = replace(self.ports, **changes)
        self.runtime = replace(self.runtime, channels=self.ports)

    async def fails(self, count: int = 1) -> list[str]:
        """So many runs, one after another, of each of which operators are told."""
        ids = []
        for _ in range(count):
            run_id = await self.bench.start(thread=f"t{len(self.bench.callbacks.events)}")
            await self.bench.turn(run_id)
            await self.tell(self.newest(RUN_FINISHED))
            ids.append(run_id)
        return ids

    def newest(self, kind: str) -> dict[str, Any]:
        return next(e for e in reversed(self.events_whole) if e["detail-type"] == kind)

    @property
    def events_whole(self) -> list[dict[str, Any]]:
        return [{"detail-type": k, "detail": dict(d)} for k, d in self.bench.callbacks.events]

    async def later(self, span: timedelta) -> None:
        """Let time pass, with the sweeper's look at its end, and tell what it asks."""
        self.bench.clock.advance(span)
        before = len(self.bench.callbacks.events)
        await sweep(self.runtime)
        for event in self.events_whole[before:]:
            await self.tell(event)

    def lines(self) -> list[str]:
        """The headlines in Slack, in order."""
        return [headline(message.notice, CONFIG) for message in self.slack.messages.values()]


class Refusing(InMemorySender):
    """A service that takes nothing for now."""

    is_away = True

    async def send(self, *args: Any, **more: Any) -> str:
        if self.is_away:
            raise RetryableError("the service is away")
        return await super().send(*args, **more)


async def test_event_that_comes_again_counts_once_and_sends_nothing() -> None:
    desk = Desk(REFUSED)
    await desk.fails()
    for _ in range(3):
        await desk.tell(desk.newest(RUN_FINISHED))
    assert desk.lines() == ["1 run of shop failed: AuthenticationError of openai"]
    assert len(desk.mail.messages) == 1


async def test_service_that_was_away_gets_the_message_and_the_others_no_second_one() -> None:
    desk, slack = Desk(REFUSED), Refusing()
    desk.use(senders={**desk.ports.senders, "slack": slack})
    try:
        await desk.fails()
        raise AssertionError("the event does not come again")
    except RetryableError:
        slack.is_away = False
    await desk.tell(desk.newest(RUN_FINISHED))
    assert (len(slack.messages), len(desk.mail.messages)) == (1, 1)


async def test_failures_of_a_window_are_one_message() -> None:
    desk = Desk(*[REFUSED] * 5)
    await desk.fails(5)
    assert len(desk.lines()) == 1


async def test_failures_of_one_moment_are_counted_each() -> None:
    desk = Desk(*[REFUSED] * 6)
    events = []
    for n in range(6):
        await desk.bench.turn(await desk.bench.start(thread=f"t{n}"))
        events.append(desk.newest(RUN_FINISHED))
    await asyncio.gather(*(desk.tell(each) for each in events))
    await desk.later(WINDOW)
    assert ("Failed runs", "6") in facts(list(desk.slack.messages.values())[-1].notice)
    assert len(desk.lines()) == 2


async def test_failures_that_go_on_are_told_once_a_window_with_their_number() -> None:
    desk = Desk(*[REFUSED] * 9)
    ids = await desk.fails(3)
    desk.bench.clock.advance(WINDOW - timedelta(minutes=1))
    await desk.fails(2)
    desk.bench.clock.advance(timedelta(minutes=2))
    await desk.fails(2)
    first, second = desk.lines()
    assert second.startswith("6 runs of shop failed since ")
    notice = list(desk.slack.messages.values())[-1].notice
    named = dict(facts(notice))["First of them"]
    assert named == f"{', '.join(ids[:MAX_NAMED])} and 3 more"
    assert first.startswith("1 run of shop failed")


async def test_outage_is_over_after_a_window_without_a_failure_and_told_once() -> None:
    desk = Desk(*[REFUSED] * 2)
    await desk.fails(2)
    for _ in range(4):
        await desk.later(WINDOW)
    assert desk.lines()[1:] == [
        "Over: no run of shop failed for 15 minutes by AuthenticationError of openai"
    ]


async def test_outage_is_not_over_while_runs_fail() -> None:
    desk = Desk(*[REFUSED] * 4)
    for _ in range(4):
        await desk.fails()
        await desk.later(timedelta(minutes=8))
    assert not any(line.startswith("Over") for line in desk.lines())


async def test_failure_after_the_end_begins_another_outage() -> None:
    desk = Desk(*[REFUSED] * 3)
    await desk.fails(2)
    await desk.later(WINDOW)
    await desk.fails()
    assert desk.lines()[-1] == "1 run of shop failed: AuthenticationError of openai"
    assert len(desk.lines()) == 3


async def test_each_kind_of_failure_has_its_message() -> None:
    desk = Desk(REFUSED, AWAY)
    await desk.fails(2)
    assert len(desk.lines()) == 2


async def test_message_has_ids_and_kinds_and_no_word_of_anybody() -> None:
    desk = Desk(REFUSED)
    (run_id,) = await desk.fails()
    message = next(iter(desk.mail.messages.values()))
    assert message.links.console == f"{URL}/#/operations/{run_id}"
    assert message.links.decide is None
    shown = dict(facts(message.notice))
    assert (shown["Provider"], shown["First of them"]) == ("openai", run_id)
    assert not any(word in str(shown) for word in ("Incorrect", "sk-proj", "ann"))


async def test_success_and_a_group_that_is_not_there_tell_nobody() -> None:
    desk = Desk(say("hi"))
    await desk.fails()
    other = Desk(REFUSED, config=Channels(groups={"board": (at("slack", "#board"),)}))
    await other.fails()
    assert desk.messages == other.messages == []


def test_claim_that_is_over_is_anothers() -> None:
    now = Desk().bench.clock.now()
    outage = Outage.begin("shop", "E", None, at=now).with_failure("run_1", now)
    assert outage.claimed(now) is None
    assert outage.claimed(now + timedelta(minutes=2)) is not None
