"""A service that takes messages, in memory."""

from dataclasses import dataclass, field

from layover.values.channels import Address, Notice, NoticeLinks


@dataclass(frozen=True)
class InMemoryMessage:
    """A message as its readers see it."""

    address: Address
    notice: Notice
    links: NoticeLinks
    once: str


@dataclass
class InMemorySender:
    """`Sender`. `updates`: its messages can be changed, and it can be asked for one."""

    updates: bool = True
    messages: dict[str, InMemoryMessage] = field(default_factory=dict)
    """The messages by their references, in order."""

    async def send(
        self, address: Address, notice: Notice, links: NoticeLinks, *, once: str, unsure: bool
    ) -> str:
        """See `ports.channels.Sender`."""
        if self.updates and unsure:
            copies = (r for r, m in self.messages.items() if (m.once, m.address) == (once, address))
            reference = next(copies, None)
            if reference is not None:
                return reference
        reference = f"m{len(self.messages) + 1}"
        self.messages[reference] = InMemoryMessage(address, notice, links, once)
        return reference if self.updates else ""

    async def update(
        self, address: Address, reference: str, notice: Notice, links: NoticeLinks
    ) -> bool:
        """See `ports.channels.Sender`."""
        if not self.updates:
            return False
        message = self.messages[reference]
        self.messages[reference] = InMemoryMessage(address, notice, links, message.once)
        return True
