"""People are told of what is true, once each, whatever comes again, late or not at all."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from layover.adapters.journal.deliveries import CLAIMED
from layover.approvals.bus import publish
from layover.errors import RetryableError
from layover.inmemory.metrics import InMemoryMetrics
from layover.keys import Keys
from layover.plugins.people.links import find_link
from layover.ports.channels import ChannelBusy, ChannelPorts, ChannelRefused
from layover.runs.cancel import cancel
from layover.values.channels import Address, Notice, NoticeLinks
from layover.values.decision import BusEvent
from layover.values.metrics import Metric
from support.inmemory.sender import InMemorySender
from support.worlds.channels import (
    ANN,
    BEA,
    CARL,
    CHANNELS,
    URL,
    NoTime,
    Told,
    asked,
    at,
    refund,
)
from support.worlds.runs import Crash, Power

ASKED = [
    ("#payouts", "requested"),
    ("bea@example.com", "requested"),
    ("all@example.com", "requested"),
]
OUTCOME = [
    ("#payouts", "decided"),
    ("U2", "decided"),
    ("bea@example.com", "requested"),
    ("all@example.com", "requested"),
    ("bea@example.com", "decided"),
    ("all@example.com", "decided"),
    ("ann@example.com", "decided"),
]
"""The message in Slack is changed; mails cannot be, and the run's owner was not asked."""


class Refusing(InMemorySender):
    """A service that takes nothing: `error` is raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def send(self, *args: Any, **kwargs: Any) -> str:
        raise self.error


def with_sender(told: Told, kind: str, sender: InMemorySender, **ports: Any) -> None:
    """Put another service behind a channel."""
    senders = {**told.ports.senders, kind: sender}
    told.ports = replace(told.ports, senders=senders)
    told.runtime = replace(told.runtime, channels=told.ports, **ports)


async def decided(told: Told, run_id: str) -> None:
    for person in (BEA, CARL):
        await told.decide(person, run_id)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"detail-type": "ApprovalRequested"},
        {"detail-type": "ApprovalRequested", "detail": {"run_id": "r", "tool_call_id": "c"}},
        {
            "detail-type": "ApprovalDecided",
            "detail": {"owner": "ann", "run_id": "gone", "tool_call_id": "c"},
        },
        {"detail-type": "RunFinished", "detail": {"owner": "ann", "run_id": "gone"}},
    ],
)
async def test_an_event_about_nothing_tells_nobody(event: dict[str, Any]) -> None:
    told, _ = await asked()
    await told.tell(event)
    assert told.messages == []


async def test_without_a_configuration_nobody_is_told_and_nothing_is_read() -> None:
    told, _ = await asked()
    told.runtime = replace(told.runtime, channels=ChannelPorts(), journal=None)  # type: ignore[arg-type]
    await told.tell()
    assert told.messages == []


async def test_a_request_reaches_each_address_of_its_groups_once() -> None:
    told, run_id = await asked()
    for _ in range(3):
        await told.tell()
    assert told.shown() == ASKED
    notice = told.messages[0].notice
    assert (notice.owner, notice.call.run_id, notice.call.args) == ("ann", run_id, {"euros": 900})
    assert notice.rule is not None
    assert notice.rule.by == ("finance",)


async def test_only_a_person_who_may_decide_gets_a_link_that_decides() -> None:
    told, run_id = await asked()
    await told.tell()
    slack, bea, everybody = (message.links for message in told.messages)
    console = f"{URL}/#/inbox/{run_id}/call_1"
    assert {slack.console, bea.console, everybody.console} == {console}
    assert (slack.decide, everybody.decide) == (None, None)
    assert bea.decide is not None
    token = bea.decide.removeprefix(f"{URL}/decide/")
    owner_hash, of_run, secret = token.split(".")
    assert (owner_hash, of_run, len(secret)) == (Keys("ann").hash, run_id, 43)
    link = await find_link(told.ports, token)
    assert link is not None
    assert (link.person, link.owner, link.tool_call_id, link.attempt) == ("bea", "ann", "call_1", 1)
    assert link.expires_at == told.bench.clock.now() + timedelta(days=7)


@pytest.mark.parametrize("token", ["", ".", "..", "a.b", "a..c", f"{'0' * 32}.run.x", "\ud800.a.b"])
async def test_a_token_that_nobody_was_sent_leads_nowhere(token: str) -> None:
    told, _ = await asked()
    assert await find_link(told.ports, token) is None


async def test_links_that_ask_for_a_sign_in_decide_nothing() -> None:
    told, _ = await asked(config=CHANNELS.model_copy(update={"link_sign_in": True}))
    await told.tell()
    assert [m.links.decide for m in told.messages] == [None] * 3


async def test_a_person_who_may_not_decide_gets_no_link() -> None:
    groups = {**CHANNELS.groups, "finance": (at("mail", ANN.mail), at("mail", CARL.mail))}
    told, _ = await asked(config=CHANNELS.model_copy(update={"groups": groups}))
    await told.tell()
    assert [m.links.decide is None for m in told.messages] == [True, False]


async def test_a_call_that_only_its_owner_decides_reaches_the_owner() -> None:
    told, _ = await asked(refund)
    await told.tell()
    assert told.shown() == [("U2", "requested"), ("ann@example.com", "requested")]
    assert all(m.links.decide for m in told.messages)


async def test_an_owner_whom_the_configuration_does_not_know_is_not_told() -> None:
    told, _ = await asked(refund, config=CHANNELS.model_copy(update={"people": (BEA,)}))
    await told.tell()
    assert told.messages == []


async def test_a_request_whose_call_is_decided_meanwhile_is_not_sent() -> None:
    told, run_id = await asked()
    request = told.events[-1]
    await decided(told, run_id)
    await told.tell(request)
    assert sorted(told.shown()) == [("U2", "decided"), ("ann@example.com", "decided")]


async def test_a_request_whose_call_has_expired_is_not_sent() -> None:
    told, _ = await asked()
    told.bench.clock.advance(timedelta(days=400))
    await told.tell()
    assert told.messages == []


async def test_a_request_of_an_erased_run_is_not_sent() -> None:
    told, run_id = await asked()
    await told.bench.plain.journal.erasure.erase_run("ann", "t1", run_id)
    await told.tell()
    assert told.messages == []


async def test_a_vote_changes_the_messages_that_can_be_changed_and_sends_none() -> None:
    told, run_id = await asked()
    await told.tell()
    await told.decide(BEA, run_id)
    await told.tell()
    assert told.shown() == [("#payouts", "voted"), *ASKED[1:]]
    approval = told.messages[0].notice.call.approval
    assert approval is not None
    assert [vote.by for vote in approval.given] == ["bea"]


@pytest.mark.parametrize("times", [1, 3])
async def test_the_outcome_changes_the_message_or_is_one_and_reaches_the_owner(times: int) -> None:
    told, run_id = await asked()
    await told.tell()
    await decided(told, run_id)
    for _ in range(times):
        await told.tell()
    assert sorted(told.shown()) == sorted(OUTCOME)
    for message in told.messages:
        if message.notice.kind == "decided":
            assert message.notice.decision is not None
            assert message.notice.decision.decided_by == "carl"
            assert message.links.decide is None


async def test_the_outcome_does_not_repeat_itself_to_an_owner_who_decides() -> None:
    told, run_id = await asked(refund)
    await told.tell()
    await told.decide(ANN, run_id, "deny")
    await told.tell()
    assert told.shown() == [
        ("U2", "decided"),
        ("ann@example.com", "requested"),
        ("ann@example.com", "decided"),
    ]


async def test_a_cancel_is_an_outcome() -> None:
    told, run_id = await asked()
    await told.tell()
    await cancel(told.bench.plain, "ann", run_id)
    await told.tell()
    assert sorted(told.shown()) == sorted(OUTCOME)


async def test_each_reminder_is_a_message_and_an_escalation_goes_to_its_groups() -> None:
    told, run_id = await asked()
    await told.tell()
    run = await told.bench.meta(run_id)
    record = await told.bench.call(run_id, "call_1")
    for n in (1, 2):
        await publish(told.bench.plain, BusEvent.REMINDER, run, record, n=n)
        await told.tell(told.events[-1], told.events[-1])
    await publish(told.bench.plain, BusEvent.ESCALATED, run, record, to=["board"])
    await told.tell()
    slack = [(m.notice.kind.value, m.notice.n) for m in told.slack.messages.values()]
    assert slack == [("requested", 0), ("reminder", 1), ("reminder", 2)]
    assert [m.notice.kind.value for m in told.teams.messages.values()] == ["escalated"]
    assert len(told.mail.messages) == 6
    await decided(told, run_id)
    await told.tell()
    in_payouts = [m for m in told.slack.messages.values() if m.address.to == "#payouts"]
    assert [m.notice.kind.value for m in in_payouts] == ["decided"] * 3
    assert told.shown().count(("bea@example.com", "decided")) == 1


async def test_an_address_that_is_refused_keeps_nobody_else_from_being_told() -> None:
    told, _ = await asked()
    metrics = InMemoryMetrics()
    refusing = Refusing(ChannelRefused("invite the app to #payouts"))
    with_sender(told, "slack", refusing, metrics=metrics)
    await told.tell()
    assert told.shown() == ASKED[1:]
    counted = [(c.name, c.dimensions) for c in metrics.counted]
    assert counted == [(Metric.CHANNEL_REFUSED, {"channel": "slack"})]


async def test_a_channel_that_is_not_set_up_is_refused() -> None:
    told, _ = await asked()
    told.ports = replace(told.ports, senders={})
    told.runtime = replace(told.runtime, channels=told.ports)
    await told.tell()
    assert told.messages == []


@pytest.mark.parametrize(
    "error", [ChannelBusy("slow down", timedelta(seconds=3)), RetryableError("away"), OSError("?")]
)
async def test_a_channel_that_fails_gets_the_event_again_and_the_others_do_not(
    error: Exception,
) -> None:
    told, _ = await asked()
    working = told.ports.senders["slack"]
    with_sender(told, "slack", Refusing(error))
    with pytest.raises(type(error)):
        await told.tell()
    assert told.shown() == ASKED[1:]
    told.bench.clock.advance(CLAIMED)
    with_sender(told, "slack", working)  # type: ignore[arg-type]
    await told.tell()
    assert told.shown() == ASKED


async def test_a_message_that_a_busy_service_did_not_take_is_sent_at_once_when_it_does() -> None:
    told, _ = await asked()
    working = told.ports.senders["slack"]
    with_sender(told, "slack", Refusing(ChannelBusy("slow down", timedelta(seconds=3))))
    with pytest.raises(ChannelBusy):
        await told.tell()

    class Sure(InMemorySender):
        async def send(self, *args: Any, unsure: bool, **kwargs: Any) -> str:
            assert not unsure, "it was asked for a message that nobody sent"
            return await working.send(*args, unsure=unsure, **kwargs)

    with_sender(told, "slack", Sure())
    await told.tell()
    assert told.shown() == ASKED


async def test_nobody_is_told_the_outcome_of_a_request_that_a_busy_service_did_not_take() -> None:
    told, run_id = await asked()
    working = told.ports.senders["slack"]
    request = told.events[-1]
    with_sender(told, "slack", Refusing(ChannelBusy("slow down", timedelta(seconds=3))))
    with pytest.raises(ChannelBusy):
        await told.tell()
    with_sender(told, "slack", working)  # type: ignore[arg-type]
    await decided(told, run_id)
    await told.tell()
    await told.tell(request)
    assert sorted(told.shown()) == sorted(set(OUTCOME) - {("#payouts", "decided")})


async def test_an_outcome_that_a_busy_service_did_not_take_is_told_when_it_does() -> None:
    told, run_id = await asked()
    await told.tell()
    await decided(told, run_id)

    class Busy(InMemorySender):
        async def send(self, *args: Any, **kwargs: Any) -> str:
            raise ChannelBusy("slow down", timedelta(seconds=3))

        async def update(self, *args: Any) -> bool:
            raise ChannelBusy("slow down", timedelta(seconds=3))

    working = told.ports.senders["slack"]
    with_sender(told, "slack", Busy())
    with pytest.raises(ChannelBusy):
        await told.tell()
    with_sender(told, "slack", working)  # type: ignore[arg-type]
    await told.tell()
    assert sorted(told.shown()) == sorted(OUTCOME)


async def test_a_decision_while_messages_are_under_way_reaches_them() -> None:
    told, run_id = await asked()

    class Slow(InMemorySender):
        async def send(
            self, address: Address, notice: Notice, links: NoticeLinks, *, once: str, unsure: bool
        ) -> str:
            if notice.kind == "requested":
                await decided(told, run_id)
                # The outcome comes before the request was noted: it has to come again.
                with pytest.raises(RetryableError):
                    await told.tell()
            return await super().send(address, notice, links, once=once, unsure=unsure)

    slow = told.slack = Slow()
    with_sender(told, "slack", slow)
    request = told.events[-1]
    await told.tell(request)
    assert ("#payouts", "decided") in told.shown()
    assert ("#payouts", "requested") not in told.shown()


@pytest.mark.parametrize("dies", [False, True])
async def test_a_vote_while_messages_are_under_way_reaches_them(dies: bool) -> None:
    told, run_id = await asked()

    class Slow(InMemorySender):
        async def send(
            self, address: Address, notice: Notice, links: NoticeLinks, *, once: str, unsure: bool
        ) -> str:
            reference = await super().send(address, notice, links, once=once, unsure=unsure)
            if not unsure:
                await told.decide(BEA, run_id)
                # The vote comes before the request was noted.
                await told.tell()
                if dies:
                    raise Crash
            return reference

    told.slack = Slow()
    with_sender(told, "slack", told.slack)
    request = told.events[-1]
    if dies:
        with pytest.raises(Crash):
            await told.tell(request)
        told.bench.clock.advance(CLAIMED)
    await told.tell(request)
    assert [kind for to, kind in told.shown() if to == "#payouts"] == ["voted"]


class Slow:
    """The first change of a message waits until `go_on`; `dies`: its process ends once it is made."""

    def __init__(self, told: Told, *, dies: bool = False) -> None:
        self._update, self._dies = told.slack.update, dies
        self.waits, self.go_on = asyncio.Event(), asyncio.Event()
        told.slack.update = self  # type: ignore[method-assign, assignment]

    async def __call__(self, *args: Any) -> bool:
        if self.waits.is_set():
            return await self._update(*args)
        self.waits.set()
        await self.go_on.wait()
        changed = await self._update(*args)
        if self._dies:
            raise Crash
        return changed


@pytest.mark.parametrize("dies", [False, True])
async def test_a_vote_that_lands_after_the_outcome_leaves_the_outcome(dies: bool) -> None:
    told, run_id = await asked()
    await told.tell()
    await told.decide(BEA, run_id)
    voted, slow = told.events[-1], Slow(told, dies=dies)
    late = asyncio.ensure_future(told.tell(voted))
    await slow.waits.wait()
    await told.decide(CARL, run_id)
    await told.tell()
    assert ("#payouts", "decided") in told.shown()
    slow.go_on.set()
    if dies:
        with pytest.raises(Crash):
            await late
        assert ("#payouts", "voted") in told.shown()
        await told.tell(voted)
    else:
        await late
    assert ("#payouts", "decided") in told.shown()


async def test_a_vote_that_lands_after_a_newer_one_leaves_the_newer_one() -> None:
    told, run_id = await asked()
    await told.tell()
    await told.decide(BEA, run_id)
    slow = Slow(told)
    late = asyncio.ensure_future(told.tell())
    await slow.waits.wait()
    await told.decide(BEA, run_id, "approve", reason="seen twice")
    await told.tell()
    slow.go_on.set()
    await late
    [message] = [m for m in told.messages if m.address.to == "#payouts"]
    assert message.notice.call.approval is not None
    assert [vote.reason for vote in message.notice.call.approval.given] == ["seen twice"]


async def test_an_earlier_attempts_decision_does_not_answer_the_newer_request() -> None:
    told, run_id = await asked(refund)
    await told.tell()
    first = told.events[-1]
    record = await told.bench.call(run_id, "call_1")
    stale = {**first, "detail": {**first["detail"], "attempt": record.attempt + 1}}
    before = told.shown()
    await told.tell(stale)
    assert told.shown() == before


async def test_a_batch_answers_with_the_events_that_have_to_come_again() -> None:
    told, _ = await asked()
    with_sender(told, "mail", Refusing(RetryableError("away")))
    assert await told.batch([{}, told.events[-1], "no event"]) == ["1", "2"]


async def test_the_body_of_a_message_that_is_not_json_comes_again() -> None:
    told, _ = await asked()
    from layover.plugins.people.queue import notify_all

    records = [{"messageId": "a", "body": "{"}, {"messageId": "b", "body": json.dumps({})}]
    assert await notify_all(told.runtime, records, NoTime()) == ["a"]


CALLS = 40
"""More port calls than telling of a request and its outcome makes."""


@pytest.mark.parametrize("after", [True, False])
async def test_a_sender_that_dies_anywhere_tells_everybody_and_slack_once(after: bool) -> None:
    ends = set()
    for k in range(1, CALLS):
        power = Power(k, after=after)
        told, run_id = await asked(power=power)

        async def tell(told: Told = told, power: Power = power) -> None:
            """As the queue does: until it is told of."""
            for _ in range(5):
                try:
                    return await told.tell()
                except (Crash, RetryableError):
                    power.restore()
                    told.bench.clock.advance(CLAIMED)
            raise AssertionError("never told of")

        await tell()
        assert len(told.slack.messages) == 1, k
        await decided(told, run_id)
        await tell()
        ends.add(power.cuts)
        in_payouts = [m for m in told.slack.messages.values() if m.address.to == "#payouts"]
        assert [m.notice.kind.value for m in in_payouts] == ["decided"], k
        assert {a for a, kind in told.shown() if kind == "decided"} == {a for a, _ in OUTCOME}, k
        assert len([m for m in told.slack.messages.values() if m.address.to == "U2"]) == 1, k
        repeated = len(told.mail.messages) - 5
        assert 0 <= repeated <= 1, k
    assert ends == {0, 1}
