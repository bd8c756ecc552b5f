"""Channels: where people are told of calls that wait for them, as a deployment's configuration says."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NoReturn, Self

from layover.errors import ConfigurationError, nearest, unknown_name
from layover.lazy import lazy_pattern
from layover.values.base import Time, Value
from layover.values.decision import ApprovalRule, Decision
from layover.values.runs.views import OpenApproval

OWNER = "owner"
"""The group of channels for a run's own user: calls that only this user decides, and outcomes."""
ITSELF = "@owner"
"""As an address of that group: wherever the configuration says that the run's user is."""


SLACK_TOKEN, SLACK_SIGNING = "SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET"
"""Names of Slack's secrets."""
_OTHERS = ("people", "mail_from", "link_sign_in")
"""Keys of the document that are not groups."""
_PERSON = ("id", "groups", "slack")
_GROUP = lazy_pattern(r"[^\s,;\[\]\"]{1,128}")
"""As `Approval(by=)` takes names of groups."""
_MAIL = lazy_pattern(r"[^@\s,;:<>\"()\[\]\\\x00-\x1f]{1,64}@[A-Za-z0-9.-]{1,189}")
_SLACK_USER = lazy_pattern(r"[UW][A-Z0-9]{1,30}")
_SLACK = lazy_pattern(r"#[^\s#@<>\x00-\x1f]{1,80}|[CGDUW][A-Z0-9]{1,30}")
_SECRET = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


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
    def parse(cls, document: object) -> Self:
        """Return the channels of a document. Raises ConfigurationError, whose text the deployer reads."""
        if not isinstance(document, Mapping):
            _fail("an object of groups with their addresses is expected")
        groups = {
            name: _group(name, value) for name, value in document.items() if name not in _OTHERS
        }
        people = _people(document.get("people", {}))
        mail_from = document.get("mail_from")
        if mail_from is not None:
            mail_from = _matching(_MAIL, mail_from, "mail_from", "a mail address")
        elif any(a.channel is ChannelKind.MAIL for each in groups.values() for a in each):
            _fail("mail_from is missing: the address that SES sends mails from")
        sign_in = document.get("link_sign_in", False)
        if not isinstance(sign_in, bool):
            _fail("link_sign_in is true or false")
        return cls(groups=groups, people=people, mail_from=mail_from, link_sign_in=sign_in)

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


def _fail(problem: str) -> NoReturn:
    raise ConfigurationError(f"channels: {problem}")


def _matching(pattern: re.Pattern[str], value: object, where: str, expected: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        _fail(f"{where} is not {expected}")
    return value


def _group(name: object, entries: object) -> tuple[Address, ...]:
    """Return the addresses of a group, each once."""
    if not isinstance(entries, list | tuple):
        # A key of another kind may be meant: groups have lists.
        if nearest(name, _OTHERS) is not None:
            _fail(unknown_name("key", name, _OTHERS))
        _fail(f'{name!r} has to be a list of addresses, such as [{{"slack": "#channel"}}]')
    _matching(
        _GROUP, name, f"{name!r}", "a name that a group can have: no blanks, commas, brackets"
    )
    where = f"group {name!r}"
    return tuple(dict.fromkeys(a for entry in entries for a in _addresses(where, entry, name)))


def _addresses(where: str, entry: object, group: object) -> Iterable[Address]:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        _fail(f'{where}: an address is an object with one key, such as {{"slack": "#channel"}}')
    ((kind, value),) = entry.items()
    if kind not in tuple(ChannelKind):
        _fail(f"{where}: {unknown_name('channel', kind, [k.value for k in ChannelKind])}")
    channel = ChannelKind(kind)
    for to in value if isinstance(value, list | tuple) else [value]:
        yield Address(channel=channel, to=_to(f"{where}: {kind}", channel, to, group))


def _to(where: str, channel: ChannelKind, to: object, group: object) -> str:
    if to == ITSELF and channel is not ChannelKind.TEAMS:
        if group != OWNER:
            _fail(f"{where}: {ITSELF} is an address of the group {OWNER!r} only")
        return ITSELF
    match channel:
        case ChannelKind.SLACK:
            return _matching(_SLACK, to, where, "#channel, or the id of a channel or a user")
        case ChannelKind.MAIL:
            return _matching(_MAIL, to, where, "a mail address")
        case ChannelKind.TEAMS:
            # Not shown: it may be the URL itself, and whoever has that may post.
            return _matching(
                _SECRET, to, where, "the name of a secret: put the webhook's URL into one"
            )


def _people(entries: object) -> tuple[Person, ...]:
    if not isinstance(entries, Mapping):
        _fail('people is an object: mail addresses with {"id", "groups", "slack"}')
    people = tuple(_person(mail, about) for mail, about in entries.items())
    for what, names in (
        ("id", [p.id for p in people]),
        ("slack", [p.slack for p in people if p.slack is not None]),
    ):
        if len(set(names)) < len(names):
            _fail(f"people: two of them have the same {what}, so nobody knows who decides")
    return people


def _person(mail: object, about: object) -> Person:
    where = f"people: {mail!r}"
    address = _matching(_MAIL, mail, where, "a mail address")
    if not isinstance(about, Mapping):
        _fail(f"{where} has to be an object with an id")
    for name in about:
        if name not in _PERSON:
            _fail(f"{where}: {unknown_name('key', name, _PERSON)}")
    id, groups, slack = about.get("id"), about.get("groups", ()), about.get("slack")
    if not isinstance(id, str) or not id.strip():
        _fail(f"{where}: id is missing: the subject of the person's tokens")
    if not isinstance(groups, list | tuple):
        _fail(f"{where}: groups is a list of names")
    names = [_matching(_GROUP, g, f"{where}: {g!r}", "a name of a group") for g in groups]
    if slack is not None:
        slack = _matching(_SLACK_USER, slack, f"{where}: slack", "the id of a user, such as U123")
    return Person(id=id, groups=frozenset(names), slack=slack, mail=address)


class NoticeKind(StrEnum):
    """The reason for a message."""

    REQUESTED = "requested"
    REMINDER = "reminder"
    ESCALATED = "escalated"
    VOTED = "voted"
    DECIDED = "decided"


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
