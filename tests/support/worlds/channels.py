"""A run whose call waits, people who are told of it, and the bus between the two."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from layover import Agent, Approval, tool
from layover.adapters.journal.deliveries import TableDecisionLinks, TableDeliveries
from layover.approvals import decide as approvals
from layover.inmemory.model import call, say
from layover.plugins.people.notify import notify
from layover.plugins.people.queue import notify_all
from layover.plugins.people.turns import Turns
from layover.ports.channels import ChannelPorts, Sender
from layover.values.channels import QUEUED, Address, Channels, Person
from layover.values.deployment.access import Actor
from support.inmemory.sender import InMemoryMessage, InMemorySender
from support.worlds.runs import Bench, Power, Powered

URL = "https://layover.example.com"
BEA = Person(
    id="bea", groups=frozenset({"finance"}), places={"slack": "U1"}, mail="bea@example.com"
)
CARL = Person(id="carl", groups=frozenset({"finance"}), mail="carl@example.com")
ANN = Person(id="ann", groups=frozenset(), places={"slack": "U2"}, mail="ann@example.com")


def at(channel: str, to: str) -> Address:
    return Address(channel=channel, to=to)


FINANCE = (at("slack", "#payouts"), at("mail", BEA.mail), at("mail", "all@example.com"))
CHANNELS = Channels(
    groups={
        "finance": FINANCE,
        "board": (at("teams", "BOARD"),),
        "owner": (at("mail", "@owner"), at("slack", "@owner")),
    },
    people=(BEA, CARL, ANN),
    mail_from="approvals@example.com",
)


@tool(
    needs_approval=Approval(
        by=["finance"],
        requester=False,
        quorum=2,
        escalate_to=["board"],
        escalate_after=timedelta(days=2),
    ),
    expires_after=timedelta(days=14),
)
async def pay_out(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


@tool(needs_approval=True)
async def refund(euros: int) -> str:
    """Refund."""
    return f"refunded {euros}"


class NoTime:
    """A `Deadline` that leaves no time to wait for a service."""

    def remaining(self) -> timedelta:
        return timedelta(0)


class Told:
    """A bench with channels: `slack` can change its messages and can be asked for one; `mail` cannot."""

    def __init__(
        self, bench: Bench, config: Channels = CHANNELS, power: Power | None = None
    ) -> None:
        self.bench = bench
        self.slack, self.mail, self.teams = (
            InMemorySender(),
            InMemorySender(updates=False),
            InMemorySender(updates=False),
        )
        self.power = power or Power()
        senders = {
            "slack": self.slack,
            "mail": self.mail,
            "teams": self.teams,
        }
        self.ports = ChannelPorts(
            config=config,
            senders=cast(
                Mapping[str, Sender],
                {kind: Powered(sender, self.power) for kind, sender in senders.items()},
            ),
            deliveries=cast(Any, Powered(TableDeliveries(bench.table, bench.clock), self.power)),
            links=cast(Any, Powered(TableDecisionLinks(bench.table, bench.clock), self.power)),
            base_url=URL,
        )
        self.runtime = replace(bench.plain, channels=self.ports)

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events of the bus, as rules pass them on."""
        events = self.bench.callbacks.events
        return [
            {"detail-type": kind, "detail": {name: detail.get(name, "") for name in QUEUED}}
            for kind, detail in events
        ]

    async def tell(self, *events: dict[str, Any]) -> None:
        """Tell of these events; without any, of the newest."""
        for event in events or self.events[-1:]:
            await notify(self.runtime, event, Turns(self.runtime.clock, NoTime()))

    async def batch(self, events: Sequence[Any]) -> list[str]:
        """Tell of a batch of SQS: ids are the events' numbers."""
        records = [{"messageId": str(n), "body": json.dumps(e)} for n, e in enumerate(events)]
        return await notify_all(self.runtime, records, NoTime())

    async def decide(
        self, who: Person, run_id: str, verdict: str = "approve", reason: str = "seen"
    ) -> None:
        """Decide as this person."""
        actor = Actor(sub=who.id, groups=who.groups)
        request = approvals.DecisionRequest(approvals.Verdict(verdict), reason=reason)
        await approvals.decide(self.bench.plain, actor, run_id, "call_1", request)

    @property
    def messages(self) -> list[InMemoryMessage]:
        """All messages there are, as they are now."""
        senders = (self.slack, self.mail, self.teams)
        return [message for sender in senders for message in sender.messages.values()]

    def shown(self) -> list[tuple[str, str]]:
        """(address, kind) of each message, as it is now."""
        return [(m.address.to, m.notice.kind.value) for m in self.messages]


async def asked(
    tool: Any = pay_out, config: Channels = CHANNELS, power: Power | None = None
) -> tuple[Told, str]:
    """A run of Ann's whose call waits and was published."""
    agent = Agent("payouts", model="m", tools=[tool])
    bench = Bench(agent, [call(tool.name, euros=900), say("done")])
    run = await bench.go()
    assert run.status == "suspended"
    await bench.wait(run.id, "call_1", "token-1")
    return Told(bench, config, power), run.id
