"""Twins: services that reach people, as one machine has them. An outbox shows what was sent; nothing leaves.

The twin of a channel is the module `twin` in its folder, with `make_twin(outbox, url) -> Twin`. The layer is
built without twins."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Answer = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""
Respond = Callable[[str, str, Mapping[str, str], bytes], Answer]
"""Takes method, path, headers (names in lower case) and body."""


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


@dataclass(frozen=True)
class Twin:
    """A service as one machine has it."""

    respond: Respond
    """Answers a request. Its path is below the URL of the twin, or `aws_path`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """By which the sender finds the twin, its secrets included."""
    aws_path: str = ""
    """Path of the one operation of AWS that the twin is; empty: it is not a service of AWS."""


class Rate:
    """The rate of a service: so many requests in any second. `now`: seconds that only grow."""

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._limit = limit
        self._now = now
        self._times: deque[float] = deque()

    def takes(self) -> bool:
        """Count a request if it is within the rate, and return whether it is."""
        now = self._now()
        while self._times and now - self._times[0] >= 1:
            self._times.popleft()
        if len(self._times) >= self._limit:
            return False
        self._times.append(now)
        return True
