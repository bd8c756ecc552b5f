"""`Channel`: a service that reaches people, as its folder in `plugins.people.channels` declares it.

A declaration is data, and functions that import what they need: whoever reads the configuration, or deploys,
loads no sender."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from layover.values.channels import Channels, Person

if TYPE_CHECKING:
    from layover.adapters.aws.services import AwsServices
    from layover.adapters.http.client import MakeClient
    from layover.ports.channels import Replies, Sender


@dataclass(frozen=True)
class Form:
    """The form of a text in the configuration. `expected`: what the text should be, as a refusal says it."""

    pattern: re.Pattern[str]
    expected: str


@dataclass(frozen=True)
class Services:
    """The parts of a process of which a sender is made."""

    config: Channels
    """The configuration, by which messages name people."""
    variables: Mapping[str, str]
    """The environment of the process."""
    http: "MakeClient"
    """Makes an HTTP client, which follows no redirect."""
    aws: "Callable[[], AwsServices]"
    """Returns the clients of AWS. Raises ConfigurationError if there is no region."""
    plain_hosts: frozenset[str] = frozenset()
    """Hosts that may be asked without TLS: those of this machine."""


@dataclass(frozen=True)
class Presses:
    """The part of a channel by which people decide: requests to the API, and the answers to one person."""

    signing_secret: str
    """The name of the secret by which the service signs. Without it, nobody decides there."""
    make_replies: "Callable[[Services], Replies]"


@dataclass(frozen=True)
class Grant:
    """A permission that `notify` needs on AWS, for all resources of one kind."""

    actions: tuple[str, ...]
    service: str
    kind: str
    conditions: Mapping[str, Mapping[str, str]]
    reason: str
    """The reason for all of them, as the deployer reads it."""


@dataclass(frozen=True)
class Channel:
    """A service that reaches people."""

    name: str
    """The key of its addresses in the configuration. Its folder has the same name."""
    address: Form
    make_sender: "Callable[[Services], Sender]"
    person: Form | None = None
    """The form of one person's address, who then may be the `@owner` of a run. None: it finds nobody."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that the sender reads, with what they are where they are not set."""
    secrets: tuple[str, ...] = ()
    """Names of the secrets that the sender reads."""
    webhook: str = ""
    """An address is the name of a secret that has the URL of this thing. Empty: addresses are no secrets."""
    presses: Presses | None = None
    """None: nobody decides there."""
    grants: Callable[[Channels], Sequence[Grant]] = field(default=lambda channels: ())
    warnings: Callable[[Sequence[Person]], Iterable[str]] = field(default=lambda members: ())
    """Returns what `layover doctor` warns of when a group of these people has an address here."""
    advice: Callable[[Channels], Iterable[str]] = field(default=lambda channels: ())
    """Returns what `layover doctor` warns of in a document with an address here."""

    def sending_secrets(self, to: str) -> tuple[str, ...]:
        """Return the names of the secrets by which messages go to an address."""
        return (to,) if self.webhook else self.secrets

    @property
    def answering_secrets(self) -> tuple[str, ...]:
        """Names of the secrets by which presses are taken and answered."""
        return () if self.presses is None else (*self.secrets, self.presses.signing_secret)
