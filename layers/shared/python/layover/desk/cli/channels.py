"""`layover doctor --channels`: the channels' document, the people whom the agents' rules reach by it, and a
test message to each address of a group."""

import asyncio
import getpass
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from layover.declare.secret import Secret
from layover.declare.tools.delegate import sub_agents
from layover.desk.cli.client import USAGE
from layover.desk.cli.evals import NotRun, agents_of
from layover.desk.local.doors import LOOPBACK
from layover.desk.local.serve import variables_of
from layover.errors import LayoverError, RetryableError, unknown_name
from layover.plugins.people.channel import Services
from layover.plugins.people.channels import CHANNELS
from layover.plugins.people.config import read_channels, secrets_of
from layover.ports import secrets
from layover.ports.channels import ChannelBusy, Sender
from layover.project import Project
from layover.values.base import strict_json
from layover.values.channels import (
    ITSELF,
    OPERATORS_GROUP,
    OWNER,
    Address,
    Channels,
    Notice,
    NoticeKind,
    NoticeLinks,
)
from layover.values.notices import no_call
from layover.values.text import reveal

VARIABLE = "LAYOVER_CHANNELS"
SEND_LIMIT_S = 30.0
"""Seconds that one address may take."""

Level = Literal["ok", "warn", "FAIL"]


@dataclass(frozen=True)
class Finding:
    """A line of the report."""

    level: Level
    name: str
    text: str


@dataclass(frozen=True)
class Rule:
    """Groups that decide calls of a tool. `escalated`: those that may decide later."""

    agent: str
    tool: str
    groups: tuple[str, ...]
    escalated: tuple[str, ...]


@dataclass(frozen=True)
class ChannelsDoctor:
    """Examines a document.

    Args:
        channels: The document.
        rules: What the agents' tools say about who decides.
        read_secret: Returns the value of a secret by its name.
        senders: The services to which tests are sent.
    """

    channels: Channels
    rules: Sequence[Rule] = ()
    read_secret: Callable[[str], str] = lambda name: Secret(name).get()
    senders: Mapping[str, Sender] = field(default_factory=dict)

    def findings(self) -> Iterator[Finding]:
        """Yield what was checked, without sending anything."""
        groups, people = self.channels.groups, self.channels.people
        yield Finding("ok", "channels", f"{_count(groups, 'group')}, {_count(people, 'person')}")
        yield from self._reach()
        yield from self._people()
        used = {address.channel for address in self.channels.addresses(groups)}
        for channel in (c for c in CHANNELS if c.name in used):
            for warning in channel.advice(self.channels):
                yield Finding("warn", channel.name, warning)
        for name in secrets_of(self.channels):
            yield self._secret(name)

    def _reach(self) -> Iterator[Finding]:
        """Compare the groups of the agents' rules with those that have an address."""
        uses: dict[str, list[str]] = {}
        for rule in self.rules:
            for group in dict.fromkeys((*rule.groups, *rule.escalated)):
                uses.setdefault(group, []).append(f"{rule.agent}.{rule.tool}")
        for group, tools in uses.items():
            where = f"calls of {', '.join(dict.fromkeys(tools))}"
            if self.channels.groups.get(group):
                yield Finding("ok", group, f"is told of {where}")
            else:
                yield Finding(
                    "warn",
                    group,
                    f"may decide {where}, and nobody is told: give the group an address in {VARIABLE}",
                )
        for group in self.channels.groups:
            if group not in uses and group not in (OWNER, OPERATORS_GROUP):
                yield Finding(
                    "warn", group, "has addresses, and no tool of these agents names it in `by`"
                )

    def _people(self) -> Iterator[Finding]:
        for group, addresses in self.channels.groups.items():
            if group in (OWNER, OPERATORS_GROUP):
                continue
            members = [person for person in self.channels.people if group in person.groups]
            for address in addresses:
                person = self.channels.person_at(address)
                if person is not None and group not in person.groups:
                    yield Finding(
                        "warn",
                        group,
                        f"{person.mail} is told and may not decide: add {group!r} to the person's "
                        "`groups`, which also have to be in their token",
                    )
            names = {address.channel for address in addresses}
            for warning in (w for c in CHANNELS if c.name in names for w in c.warnings(members)):
                yield Finding("warn", group, warning)

    def _secret(self, name: str) -> Finding:
        try:
            value = self.read_secret(name)
        except LayoverError as error:
            return Finding("FAIL", name, str(error))
        url, thing = urlsplit(value.strip()), self._webhook(name)
        if thing and url.scheme != "https" and url.hostname not in LOOPBACK:
            return Finding("FAIL", name, f"does not begin with https://: copy the URL of {thing}")
        return Finding("ok", name, "is there")

    def _webhook(self, secret: str) -> str:
        """Return that whose URL is in a secret; an empty text if the secret has none."""
        addresses = self.channels.addresses(self.channels.groups)
        names = [address.channel for address in addresses if address.to == secret]
        return next((c.webhook for c in CHANNELS if c.webhook and c.name in names), "")

    async def send(self, groups: Iterable[str], by: str, console: str) -> list[Finding]:
        """Send a test to each address of some groups, one after the other: services limit their rates.

        Args:
            groups: Names of groups.
            by: Whoever asks for the test.
            console: The page to which messages lead.
        """
        return [
            await self._send(address, by, console)
            for address in self.channels.addresses(groups)
            if address.to != ITSELF
        ]

    async def _send(self, address: Address, by: str, console: str) -> Finding:
        name = f"{address.channel} {address.to}"
        sender = self.senders.get(address.channel)
        if sender is None:
            return Finding("FAIL", name, f"nothing here sends to {address.channel}")
        try:
            async with asyncio.timeout(SEND_LIMIT_S):
                reference = await sender.send(
                    address,
                    probe(by),
                    NoticeLinks(console=console),
                    once=f"test-{os.urandom(8).hex()}",
                    unsure=False,
                )
        except ChannelBusy as error:
            seconds = error.after.total_seconds()
            return Finding("FAIL", name, f"{error}: try again in {seconds:.0f} s")
        except RetryableError as error:
            return Finding("FAIL", name, f"{error}: try again, or look at the network")
        except LayoverError as error:
            return Finding("FAIL", name, str(error))
        except TimeoutError:
            return Finding("FAIL", name, f"no answer within {SEND_LIMIT_S:.0f} s")
        return Finding("ok", name, "sent" + (f" as {reference}" if reference else ""))


def probe(by: str) -> Notice:
    """Return the notice of a test, which is about no call."""
    now = datetime.now(UTC)
    return Notice(kind=NoticeKind.TEST, owner=by, call=no_call("test", now), at=now)


def rules_of(agents: Iterable[Any]) -> list[Rule]:
    """Return the rules of agents' tools, and of the agents that stand behind these. Tools that a function or
    a server gives a run are known only then."""
    rules: dict[tuple[str, str], Rule] = {}
    rest = list(agents)
    names = set()
    while rest:
        agent = rest.pop(0)
        if agent.name in names:
            continue
        names.add(agent.name)
        rest += sub_agents(agent.tools)
        for tool in agent.tools:
            rule = tool.approvers
            if rule is not None:
                rules[agent.name, tool.name] = Rule(
                    agent.name, tool.name, rule.by, rule.escalate_to
                )
    return list(rules.values())


def report(findings: Iterable[Finding]) -> int:
    """Print a line for each finding, and return the exit code: 1 if something cannot work."""
    failures = 0
    for finding in findings:
        line = reveal(f"{finding.level:<5} {finding.name}: {finding.text}")
        print(line, file=sys.stderr if finding.level == "FAIL" else sys.stdout, flush=True)
        failures += finding.level == "FAIL"
    return 1 if failures else 0


@dataclass(frozen=True)
class Source:
    """A document and where it is. `secrets`: places of AWS by variable, of a stage; None: the variables have
    the values."""

    text: str
    place: str
    secrets: Mapping[str, str] | None = None


def source_of(
    project: Project | None, stage: str | None, variables: Mapping[str, str]
) -> Source | str:
    """Return the document of a stage, or that of the variables, or a sentence that says why there is none."""
    if stage is None:
        text = variables.get(VARIABLE, "")
        if text:
            return Source(text, VARIABLE)
        return f"{VARIABLE} is not set, here or in .env: nobody is told of calls that wait"
    stages = project.settings.stages if project is not None else {}
    if stage not in stages:
        return unknown_name("stage", stage, stages) + ": name one of `[stages]` in layover.toml"
    settings = stages[stage]
    if "channels" not in settings:
        return f"the stage {stage} has no `channels`: nobody is told of calls that wait"
    document, places = settings["channels"], settings.get("tool_secrets", {})
    text = document if isinstance(document, str) else json.dumps(document)
    return Source(text, f"`channels` of the stage {stage}", places)


def main(
    project: Project | None,
    stage: str | None,
    groups: Sequence[str],
    *,
    user: str = "",
    console: str = "",
) -> int:
    """Examine the channels of a project, or of the environment, and send tests to groups.

    Args:
        project: The project of the current folder, if it is in one.
        stage: The stage whose settings have the document; None: LAYOVER_CHANNELS has it.
        groups: Groups that get a test.
        user: The name in the test; empty: the one that this machine has for its user.
        console: The page to which a test leads.
    """
    root = project.root if project is not None else Path.cwd()
    source = source_of(project, stage, variables_of(root))
    if isinstance(source, str):
        print(f"layover: {source}", file=sys.stderr)
        return USAGE
    try:
        channels = read_channels(strict_json(source.text))
    except ValueError as error:
        return report([Finding("FAIL", source.place, f"is not JSON: {error}")])
    except LayoverError as error:
        return report([Finding("FAIL", source.place, str(error))])
    if problem := unknown_groups(channels, groups):
        print(f"layover: {problem}", file=sys.stderr)
        return USAGE
    try:
        rules, problems = rules_of(agents_of(None, project).values()), []
    except NotRun as error:
        rules, problems = [], [Finding("FAIL", "agents", str(error))]
    if project is not None:
        _use_account(project)
    if source.secrets is not None:
        _read_on_aws(source.secrets)
    code = report([*problems, *ChannelsDoctor(channels, rules).findings()])
    if not groups:
        return code
    try:
        doctor = ChannelsDoctor(channels, senders=senders_of(channels, groups))
    except LayoverError as error:
        return report([Finding("FAIL", "AWS", str(error))])
    sent = asyncio.run(doctor.send(groups, user or _user(), console))
    return max(code, report(sent))


def senders_of(channels: Channels, groups: Iterable[str]) -> Mapping[str, Sender]:
    """Return the senders to groups, with this process's variables and credentials. Raises ConfigurationError
    if there is no region."""
    from layover.adapters.aws.services import AwsServices
    from layover.adapters.http.choice import choose_client

    variables = dict(os.environ)
    services = Services(
        channels,
        variables,
        choose_client(variables),
        lambda: AwsServices(variables),
        plain_hosts=frozenset(LOOPBACK),
    )
    used = {address.channel for address in channels.addresses(groups)}
    return {c.name: c.make_sender(services) for c in CHANNELS if c.name in used}


def _use_account(project: Project) -> None:
    """Have the account of `[deploy]` asked, unless the environment names another."""
    at = project.settings.deploy
    for name, value in (("AWS_PROFILE", at.profile), ("AWS_REGION", at.region)):
        if value is not None:
            os.environ.setdefault(name, value)


def _read_on_aws(places: Mapping[str, str]) -> None:
    """Have secrets read where a stage says that they are."""
    from layover.adapters.aws.services import AwsServices
    from layover.adapters.parameters import secret_parameter, secret_value

    os.environ.update(places)
    aws = AwsServices(dict(os.environ))
    what = "the secret of a channel"

    def read(place: str) -> str:
        if place.startswith("arn:"):
            return secret_value(place, aws.client("secretsmanager"), what=what)
        return secret_parameter(place, aws.client("ssm"), what=what)

    secrets.read_by(read, lambda: places)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # A container may have no user of this number.
        return "layover doctor"


def unknown_groups(channels: Channels, groups: Iterable[str]) -> str | None:
    """Return the refusal of groups that have no address, if there are any."""
    wrong = next((group for group in groups if group not in channels.groups), None)
    return None if wrong is None else unknown_name("group", wrong, channels.groups)


def _count(items: Any, word: str) -> str:
    plural = "people" if word == "person" else f"{word}s"
    return f"{len(items)} {word if len(items) == 1 else plural}"
