"""Services that reach people, on one machine: each keeps the rules of the real one, and its messages go to
the outbox."""

from typing import NamedTuple


class SentMessage(NamedTuple):
    """A message as `GET /_local/outbox` shows it. `link`: the page to which its first button leads."""

    channel: str
    to: str
    kind: str
    text: str
    link: str


class Outbox:
    """The messages that services took, the oldest first."""

    def __init__(self) -> None:
        self.messages: list[SentMessage] = []

    def add(self, channel: str, to: str, kind: str, text: str, link: str) -> None:
        """Keep a message."""
        self.messages.append(SentMessage(channel, to, kind, text, link))
