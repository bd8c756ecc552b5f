"""Channels: where people are told of calls that wait for them, as a deployment's configuration says."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from layover.values.base import Time, Value
from layover.values.decision import ApprovalRule, Decision
from layover.values.runs.views import OpenApproval

OWNER = "owner"
"""The group of channels for a run's own user: calls that only this user decides, and outcomes."""
ITSELF = "@owner"
"""As an address of that group: wherever the configuration says that the run's user is."""


SLACK_TOKEN, SLACK_SIGNING = "SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET"
"""Names of Slack's secrets."""


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

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the secrets that the channels need: Slack's two, and the URLs of Teams."""
        addresses = [a for of_group in self.groups.values() for a in of_group]
        has_slack = any(a.channel is ChannelKind.SLACK for a in addresses)
        urls = [a.to for a in addresses if a.channel is ChannelKind.TEAMS]
        return tuple(dict.fromkeys([*((SLACK_TOKEN, SLACK_SIGNING) if has_slack else ()), *urls]))

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


class NoticeKind(StrEnum):
    """The reason for a message."""

    REQUESTED = "requested"
    REMINDER = "reminder"
    ESCALATED = "escalated"
    VOTED = "voted"
    DECIDED = "decided"


class Notice(Value):
    """What people are told about one call, as it is now."""

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
