"""Channels to people: what sends messages, what remembers that they were sent, and the links in them
(docs/adr/0021-channels.md)."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from layover.errors import LayoverError, RetryableError
from layover.values.base import Time, Value
from layover.values.channels import Address, Channels, Notice, NoticeLinks

if TYPE_CHECKING:
    # Only `notify` loads it.
    from layover.values.outages import Outage


class ChannelRefused(LayoverError):
    """A service has refused a message, and would refuse it again (an unknown channel, an address that it does
    not take, credentials that are over). The message says what the deployer has to do."""


class ChannelBusy(RetryableError):
    """A service takes no message now. `after`: how long it asks to be left in peace."""

    def __init__(self, message: str, after: timedelta) -> None:
        super().__init__(message)
        self.after = after


class Sender(Protocol):
    """Sends messages by one service."""

    async def send(
        self, address: Address, notice: Notice, links: NoticeLinks, *, once: str, unsure: bool
    ) -> str:
        """Send a message, and return the service's reference to it ("": it has none). `once`: the delivery's
        id, which the message carries where the service can be asked for it. `unsure`: an earlier sender may
        have sent it, so ask first. Raises ChannelRefused, ChannelBusy, RetryableError."""
        ...

    async def update(
        self, address: Address, reference: str, notice: Notice, links: NoticeLinks
    ) -> bool:
        """Change a message to say what is true now. Repeatable. False: the service cannot. Raises as `send`
        does."""
        ...


class Delivery(Value):
    """A message that is being sent, or was."""

    id: str
    address: Address
    sent_at: Time | None = None
    """None: somebody has claimed it, and not said that it was sent."""
    reference: str = ""
    is_free: bool = False
    """True: the last claim was given back, so the service certainly does not have the message."""


@dataclass(frozen=True)
class Claim:
    """The right to send a message. `unsure`: another had the right, did not end, and may have sent it;
    `until`: its end, which tells it from the next one."""

    unsure: bool
    until: str = field(default="", compare=False)


class Deliveries(Protocol):
    """The messages about calls, with the run's other records. `call` is the call's key in the journal."""

    async def claim(
        self, owner: str, run_id: str, call: str, id: str, address: Address
    ) -> Claim | Delivery:
        """Return the right to send a message for a minute, or the message, if it was sent. Raises
        RetryableError while another has the right."""
        ...

    async def give_back(self, owner: str, run_id: str, call: str, id: str, claim: Claim) -> None:
        """Give a claim back of which nothing was sent: the next one has it at once, and is unsure only if
        this one was. One that is over, and may be another's since, stays so. Repeatable."""
        ...

    async def note_sent(self, owner: str, run_id: str, call: str, id: str, reference: str) -> None:
        """Note that a message was sent. Repeatable."""
        ...

    async def of_call(self, owner: str, run_id: str, call: str) -> list[Delivery]:
        """Return all messages about a call, in the order of their ids."""
        ...


class AlreadyCounted(LayoverError):
    """The run is one of an outage's failures already: its event has come again."""


class Outages(Protocol):
    """The failures that operators are told of, by kind (`values.outages`)."""

    async def get(self, id: str) -> "Outage | None":
        """Return the newest outage of a kind; None: there was none for days."""
        ...

    async def keep(self, outage: "Outage") -> bool:
        """Keep an outage as it is now. False: it was changed since it was read."""
        ...

    async def count_run(self, outage: "Outage", owner: str, run_id: str) -> bool:
        """Keep an outage that has one more failure: this run's, which counts once. False as `keep`. Raises
        AlreadyCounted, NotFound."""
        ...


class Link(Value):
    """The right of one person to decide one call by a link. Its secret is stored as a hash only."""

    person: str
    """The person's id: the subject of the decision."""
    owner: str
    run_id: str
    tool_call_id: str
    attempt: int
    expires_at: Time


class DecisionLinks(Protocol):
    """Links, in the partition of their run."""

    async def put_link(self, secret: str, link: Link) -> None:
        """Keep a link under the hash of its secret."""
        ...

    async def get_link(self, owner_hash: str, run_id: str, secret: str) -> Link | None:
        """Return a link, also one whose time is over; None: there is none."""
        ...


class Replies(Protocol):
    """Answers the one person who has pressed something in a message. Both raise as `Sender.send` does, within
    the three seconds that a press may take."""

    async def tell(self, reply_url: str, text: str) -> None:
        """Show a text to this person only. `reply_url`: of the press; one that is not the
        service's is refused."""
        ...

    async def open_form(self, trigger: str, form: Mapping[str, Any]) -> None:
        """Open a form (a modal view) in front of this person. `trigger`: of the press, good for three
        seconds and once."""
        ...


class PressBook(Protocol):
    """Requests of a service that were accepted, so that a copy of one is not."""

    async def accept_once(self, signature: str, now: datetime) -> bool:
        """Note a request by its signature, of which only a hash is stored, for ten minutes. False: it was
        noted before."""
        ...


@dataclass(frozen=True)
class PressPorts:
    """The ports of presses in one channel. `signing_secret`: returns the secret by which its service signs;
    raises ConfigurationError, RetryableError."""

    signing_secret: Callable[[], Awaitable[str]]
    replies: Replies
    book: PressBook


@dataclass(frozen=True)
class ChannelPorts:
    """The ports of channels."""

    config: Channels = field(default_factory=Channels)
    senders: Mapping[str, Sender] = field(default_factory=dict)
    deliveries: Deliveries | None = None
    outages: Outages | None = None
    links: DecisionLinks | None = None
    base_url: str = ""
    """The API's URL, without a slash at its end: links begin with it."""
    presses: Mapping[str, PressPorts] = field(default_factory=dict)
    """Of the channels in which people decide here, by their names."""
