"""A browser's `EventSource`, but for the network."""

import json
from typing import Any


class EventSource:
    """It shows whole blocks, forgets one that breaks off, and comes back with the last id that it saw."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        """The data of what has an id, in order."""
        self.last_event_id: str | None = None
        self._begun = b""

    def read(self, piece: bytes) -> None:
        """Bytes that came."""
        *blocks, self._begun = (self._begun + piece).split(b"\n\n")
        for block in blocks:
            lines = [line for line in block.decode().split("\n") if not line.startswith(":")]
            fields = dict(line.split(": ", 1) for line in lines)
            if "id" in fields:
                self.last_event_id = fields["id"]
                self.seen.append(json.loads(fields["data"]))

    def break_off(self) -> None:
        """The connection is gone."""
        self._begun = b""
