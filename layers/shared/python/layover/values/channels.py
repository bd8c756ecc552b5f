"""Channels: where people are told of calls that wait for them, as a deployment's configuration says."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Self

from layover.errors import ConfigurationError, unknown_name
from layover.values.base import Time, Value, strict_json
from layover.values.decision import ApprovalRule, Decision
from layover.values.runs.views import OpenApproval

OWNER = "owner"
"""The group of channels for a run's own user: calls that only this user decides, and outcomes."""
ITSELF = "@owner"
"""As an address of that group: wherever the configuration says that the run's user is."""


class ChannelKind(StrEnum):
    """A service that reaches people."""

    SLACK = "slack"
    MAIL = "mail"
    TEAMS = "teams"


class Address(Value):
    """One place to which messages go."""

    channel: ChannelKind
    to: str
    """`#payouts`, a channel's id or a user's (Slack); a mail address; for Teams, the name of the secret
    (`layover.declare.secret`) that has the webhook's URL, because whoever has the URL may post."""


class Person(Value):
    """A person of the configuration. `id`: the subject of the person's tokens."""

    id: str
    groups: frozenset[str] = frozenset()
    slack: str | None = None
    """Slack's id of the user (`U123`)."""
    mail: str
    """The address under which the configuration has the person."""


class Channels(Value):
    """The channels of a deployment.

    The document is `{"GROUP": [{"slack": "#channel"}, {"mail": ["bea@example.com"]}, {"teams": "SECRET"}],
    "people": {"bea@example.com": {"id": "SUB", "groups": ["finance"], "slack": "U123"}},
    "mail_from": "approvals@example.com", "link_sign_in": false}`."""

    groups: Mapping[str, tuple[Address, ...]] = {}
    people: tuple[Person, ...] = ()
    mail_from: str | None = None
    link_sign_in: bool = False

    @classmethod
    def parse(cls, document: str) -> Self:
        """Return the channels of a document. Raises ConfigurationError for one that cannot be used, with what
        is wrong in it."""
        try:
            fields = strict_json(document)
            if not isinstance(fields, dict):
                raise ValueError("it is not an object")
            people = [{"mail": mail, **person} for mail, person in fields.pop("people", {}).items()]
            settings = {name: fields.pop(name) for name in _SETTINGS if name in fields}
            groups = {group: _addresses_of(group, items) for group, items in fields.items()}
            return cls.model_validate({"groups": groups, "people": people, **settings})
        except (ValueError, TypeError, AttributeError) as error:
            text = str(error).partition(" [type=")[0]
            raise ConfigurationError(f"the channels' document cannot be used: {text}") from None

    def addresses(self, groups: Iterable[str]) -> tuple[Address, ...]:
        """Return the addresses of these groups, each once, in order."""
        return tuple(dict.fromkeys(a for group in groups for a in self.groups.get(group, ())))

    def person_at(self, address: Address) -> Person | None:
        """Return the person whom an address reaches, if it reaches one only."""
        if address.channel is ChannelKind.MAIL:
            return next((p for p in self.people if p.mail == address.to), None)
        if address.channel is ChannelKind.SLACK:
            return self.person_on_slack(address.to)
        return None

    def person_on_slack(self, user: str) -> Person | None:
        """Return the person with this id of Slack's."""
        return next((p for p in self.people if p.slack == user), None)

    def person_with_id(self, id: str) -> Person | None:
        """Return the person whose tokens have this subject."""
        return next((p for p in self.people if p.id == id), None)


_SETTINGS = ("mail_from", "link_sign_in")
_KINDS = tuple(kind.value for kind in ChannelKind)


def _addresses_of(group: str, items: object) -> tuple[Address, ...]:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError(f"{group} is not a list of addresses")
    addresses = []
    for item in items:
        for channel, places in item.items():
            if channel not in _KINDS:
                raise ValueError(f"{group}: {unknown_name('channel', channel, _KINDS)}")
            for place in places if isinstance(places, list) else [places]:
                addresses.append(Address(channel=channel, to=place))
    return tuple(addresses)


class NoticeKind(StrEnum):
    """The reason for a message."""

    REQUESTED = "requested"
    REMINDER = "reminder"
    ESCALATED = "escalated"
    VOTED = "voted"
    DECIDED = "decided"
    TEST = "test"
    """Nothing waits: `owner` looks whether messages arrive (`layover doctor --send`)."""


class Notice(Value):
    """One call as it is now, of which people are told."""

    kind: NoticeKind
    owner: str
    """The user of the run: whoever asked for the call."""
    call: OpenApproval
    """`call.approval` is the rule, with the votes; `call.attempt` the suspension that is decided."""
    rule: ApprovalRule | None = None
    n: int = 0
    """The number of a reminder."""
    decision: Decision | None = None
    at: Time


class NoticeLinks(Value):
    """The links of one message."""

    console: str
    """The call in the console, which asks for a sign-in."""
    decide: str | None = None
    """The page at which the one person of the address decides. None: several people read it."""
