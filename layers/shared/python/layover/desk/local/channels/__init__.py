"""Services that reach people, as one machine has them: an outbox shows what was sent, and nothing leaves."""

from typing import Any


class Outbox:
    """Messages that people were sent, the newest last."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def add(self, channel: str, to: str, kind: str, text: str, link: str | None) -> None:
        """Keep a message.

        Args:
            channel: The service, such as `slack`.
            to: The address, as it was given.
            kind: What was done, such as `message`.
            text: The message's words.
            link: The page to which it leads; None: it has none.
        """
        self.items.append({"channel": channel, "to": to, "kind": kind, "text": text, "link": link})
