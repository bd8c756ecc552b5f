"""Channels: where people are told of calls that wait for them, and of failures, as a deployment's
configuration says.

`layover.plugins.people` reads the configuration, and knows which channels there are."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from layover.values.base import Time, Value
from layover.values.decision import OUTAGE_QUIET, RUN_FINISHED, ApprovalRule, Decision
from layover.values.runs.views import OpenApproval

OWNER = "owner"
"""The group of channels for a run's own user: calls that only this user decides, and outcomes."""
ITSELF = "@owner"
"""As an address of that group: wherever the configuration says that the run's user is."""
OPERATORS_GROUP = "operators"
"""The group of channels for whoever runs the deployment: runs that fail."""
QUEUED = ("owner", "run_id", "tool_call_id", "attempt", "n")
"""Fields of an event that the queue before `notify` has: ids and numbers. The rest is read."""
QUEUED_FOR_OPERATORS = {RUN_FINISHED: ("owner", "run_id"), OUTAGE_QUIET: ("outage",)}
"""The same of events that are about no call, by their type."""


class Address(Value):
    """One place to which messages go."""

    channel: str
    """The name of the channel, such as `slack`."""
    to: str
    """`#payouts`, a channel's id or a user's (Slack); a mail address; for Teams, the name of the secret
    (`layover.declare.secret`) that has the webhook's URL, because whoever has the URL may post."""


class Person(Value):
    """A person of the configuration. `id`: the subject of the person's tokens."""

    id: str
    groups: frozenset[str] = frozenset()
    mail: str
    """The address under which the configuration has the person."""
    places: Mapping[str, str] = {}
    """The person's addresses on other channels, by their names: `{"slack": "U123"}`."""

    def place_on(self, channel: str) -> str | None:
        """Return where a channel finds the person; None: nowhere."""
        return self.mail if channel == "mail" else self.places.get(channel)


class SlackTeam(Value):
    """The one installation of the app in Slack whose presses count, by Slack's ids."""

    team: str
    app: str
    enterprise: str | None = None
    """The organisation of a workspace of Enterprise Grid."""


class Channels(Value):
    """The channels of a deployment."""

    groups: Mapping[str, tuple[Address, ...]] = {}
    people: tuple[Person, ...] = ()
    mail_from: str | None = None
    link_sign_in: bool = False
    slack_team: SlackTeam | None = None

    def addresses(self, groups: Iterable[str]) -> tuple[Address, ...]:
        """Return the addresses of these groups, each once, in order."""
        return tuple(dict.fromkeys(a for group in groups for a in self.groups.get(group, ())))

    def person_at(self, address: Address) -> Person | None:
        """Return the person whom an address reaches, if it reaches one only."""
        here = (p for p in self.people if p.place_on(address.channel) == address.to)
        return next(here, None)

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
    TEST = "test"
    """Nothing waits: `owner` looks whether messages arrive (`layover doctor --send`)."""
    FAILURES = "failures"
    """Runs fail: for operators."""
    MENDED = "mended"
    """No run fails any more in the way of which operators were told."""

    @property
    def is_closed(self) -> bool:
        """True if such a message asks nobody to decide."""
        return self in _CLOSED


_CLOSED = frozenset({NoticeKind.DECIDED, NoticeKind.TEST, NoticeKind.FAILURES, NoticeKind.MENDED})


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
