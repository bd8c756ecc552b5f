"""The configuration of channels, as the deployer writes it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from layover.errors import ConfigurationError, nearest, unknown_name
from layover.lazy import lazy_pattern
from layover.plugins.people.channel import Channel, Form, Grant
from layover.plugins.people.channels import CHANNELS
from layover.plugins.people.channels.mail import MAIL
from layover.values.channels import ITSELF, OWNER, Address, Channels, Person, SlackTeam

_OTHERS = ("people", "mail_from", "link_sign_in", "slack_team")
"""Keys of the document that are not groups."""
_GROUP = lazy_pattern(r"[^\s,;\[\]\"]{1,128}")
"""As `Approval(by=)` takes names of groups."""


_SLACK_IDS = {
    name: Form(lazy_pattern(rf"{first}[A-Z0-9]{{1,30}}"), f"an id of Slack's, such as {first}123")
    for name, first in (("team", "T"), ("app", "A"), ("enterprise", "E"))
}


def read_channels(document: object, choices: Sequence[Channel] = CHANNELS) -> Channels:
    """Return the channels of a document. Raises ConfigurationError, whose text the deployer reads.

    The document is `{"GROUP": [{"slack": "#channel"}, {"mail": ["bea@example.com"]}, {"teams": "SECRET"}],
    "people": {"bea@example.com": {"id": "SUB", "groups": ["finance"], "slack": "U123"}},
    "mail_from": "approvals@example.com", "link_sign_in": false,
    "slack_team": {"team": "T123", "app": "A123"}}`. `choices`: the channels that there are."""
    if not isinstance(document, Mapping):
        _fail("an object of groups with their addresses is expected")
    by_name = {channel.name: channel for channel in choices}
    groups = {n: _group(n, v, by_name) for n, v in document.items() if n not in _OTHERS}
    # People are named by their mail addresses, so only others say where they find a person.
    people = _people(document.get("people", {}), [c for c in choices if c.person and c is not MAIL])
    mail_from = document.get("mail_from")
    if mail_from is not None:
        mail_from = _matching(MAIL.address, mail_from, "mail_from")
    elif any(a.channel == MAIL.name for each in groups.values() for a in each):
        _fail("mail_from is missing: the address that SES sends mails from")
    sign_in = document.get("link_sign_in", False)
    if not isinstance(sign_in, bool):
        _fail("link_sign_in is true or false")
    team = document.get("slack_team")
    return Channels(
        groups=groups,
        people=people,
        mail_from=mail_from,
        link_sign_in=sign_in,
        slack_team=None if team is None else _slack_team(team),
    )


def _slack_team(about: object) -> SlackTeam:
    if not isinstance(about, Mapping):
        _fail('slack_team is an object: {"team": "T123", "app": "A123"}')
    for name in about:
        if name not in _SLACK_IDS:
            _fail(f"slack_team: {unknown_name('key', name, _SLACK_IDS)}")
    ids = {
        name: _matching(form, about.get(name), f"slack_team: {name}")
        for name, form in _SLACK_IDS.items()
        if name != "enterprise" or name in about
    }
    return SlackTeam.model_validate(ids)


def secrets_of(
    channels: Channels, *, to_send: bool = True, to_answer: bool = True
) -> tuple[str, ...]:
    """Return the names of the secrets that the channels need: to send messages, and to answer presses."""
    addresses = channels.addresses(channels.groups)
    names: list[str] = []
    for channel, address in ((c, a) for c in CHANNELS for a in addresses if a.channel == c.name):
        names += channel.answering_secrets if to_answer else ()
        names += channel.sending_secrets(address.to) if to_send else ()
    return tuple(dict.fromkeys(names))


def grants_of(channels: Channels) -> list[Grant]:
    """Return the permissions that `notify` needs on AWS."""
    return [grant for channel in CHANNELS for grant in channel.grants(channels)]


def _fail(problem: str) -> NoReturn:
    raise ConfigurationError(f"channels: {problem}")


def _matching(form: Form, value: object, where: str) -> str:
    if not isinstance(value, str) or not form.pattern.fullmatch(value):
        _fail(f"{where} is not {form.expected}")
    return value


def _group(name: object, entries: object, choices: Mapping[str, Channel]) -> tuple[Address, ...]:
    """Return the addresses of a group, each once."""
    if not isinstance(entries, list | tuple):
        # A key of another kind may be meant: groups have lists.
        if nearest(name, _OTHERS) is not None:
            _fail(unknown_name("key", name, _OTHERS))
        _fail(f'{name!r} has to be a list of addresses, such as [{{"slack": "#channel"}}]')
    form = Form(_GROUP, "a name that a group can have: no blanks, commas, brackets")
    _matching(form, name, f"{name!r}")
    where = f"group {name!r}"
    addresses = (a for entry in entries for a in _addresses(where, entry, name, choices))
    return tuple(dict.fromkeys(addresses))


def _addresses(
    where: str, entry: object, group: object, choices: Mapping[str, Channel]
) -> Iterable[Address]:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        _fail(f'{where}: an address is an object with one key, such as {{"slack": "#channel"}}')
    ((name, value),) = entry.items()
    if name not in choices:
        _fail(f"{where}: {unknown_name('channel', name, choices)}")
    for to in value if isinstance(value, list | tuple) else [value]:
        yield Address(channel=name, to=_to(f"{where}: {name}", choices[name], to, group))


def _to(where: str, channel: Channel, to: object, group: object) -> str:
    if to == ITSELF and channel.person is not None:
        if group != OWNER:
            _fail(f"{where}: {ITSELF} is an address of the group {OWNER!r} only")
        return ITSELF
    # The address is not shown: it may be a URL, and whoever has that may post.
    return _matching(channel.address, to, where)


def _people(entries: object, finding: Sequence[Channel]) -> tuple[Person, ...]:
    """`finding`: the channels that an entry may name, to say where they find the person."""
    if not isinstance(entries, Mapping):
        _fail('people is an object: mail addresses with {"id", "groups", "slack"}')
    people = tuple(_person(mail, about, finding) for mail, about in entries.items())
    ids = {"id": [p.id for p in people]}
    places = {c.name: [p.places[c.name] for p in people if c.name in p.places] for c in finding}
    for what, names in (ids | places).items():
        if len(set(names)) < len(names):
            _fail(f"people: two of them have the same {what}, so nobody knows who decides")
    return people


def _person(mail: object, about: object, finding: Sequence[Channel]) -> Person:
    where = f"people: {mail!r}"
    address = _matching(MAIL.address, mail, where)
    if not isinstance(about, Mapping):
        _fail(f"{where} has to be an object with an id")
    keys = ("id", "groups", *(channel.name for channel in finding))
    for name in about:
        if name not in keys:
            _fail(f"{where}: {unknown_name('key', name, keys)}")
    id, groups = about.get("id"), about.get("groups", ())
    if not isinstance(id, str) or not id.strip():
        _fail(f"{where}: id is missing: the subject of the person's tokens")
    if not isinstance(groups, list | tuple):
        _fail(f"{where}: groups is a list of names")
    form = Form(_GROUP, "a name of a group")
    names = frozenset(_matching(form, g, f"{where}: {g!r}") for g in groups)
    places = {
        channel.name: _matching(channel.person, about[channel.name], f"{where}: {channel.name}")
        for channel in finding
        if channel.person is not None and about.get(channel.name) is not None
    }
    return Person(id=id, groups=names, mail=address, places=places)
