"""A WebSocket client that is really one, for end-to-end tests: a thread reads, the test looks."""

import json
import socket as network
import struct
import threading
from collections.abc import Callable
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from e2e_kit import WAIT_S, Caller, Json, eventually

OVER = ("finish", "agent-end", "error")


class Follower:
    """One connection. `frames` is all that came, in order; `reads=False` never reads."""

    def __init__(self, url: str, reads: bool = True, **options: Any) -> None:
        self.frames: list[Json] = []
        self.code: int | None = None
        """Close code, once the server closed."""
        self._socket: ClientConnection = connect(
            url, open_timeout=WAIT_S, close_timeout=1, max_size=2**21, proxy=None, **options
        ).__enter__()
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reads:
            self._reader.start()

    @classmethod
    def of(cls, caller: Caller, **options: Any) -> "Follower":
        """A connection of this user."""
        return cls(caller.want(201, "POST", "/socket-tickets")["url"], **options)

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        if self._reader.ident is not None:
            self._reader.join(WAIT_S)
            assert not self._reader.is_alive()

    def send(self, message: Any) -> None:
        """A message; text goes as it is."""
        self._socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def subscribe(self, run_id: str, after: int = 0) -> None:
        """Follow a run."""
        self.send({"action": "subscribe", "run_id": run_id, "after": after})

    def vanish(self) -> None:
        """The client is gone at once, without a word, as when it is killed."""
        raw = self._socket.socket
        # Closed with a reset: neither a close frame nor what was not read.
        raw.setsockopt(network.SOL_SOCKET, network.SO_LINGER, struct.pack("ii", 1, 0))
        raw.shutdown(network.SHUT_RDWR)
        if self._reader.ident is not None:
            self._reader.join(WAIT_S)

    def wait(self, enough: Callable[[list[Json]], Any], within: float = WAIT_S) -> list[Json]:
        """The frames, once they are enough."""
        return eventually(lambda: list(self.frames), enough, within)

    def ended(self, within: float = WAIT_S) -> list[Json]:
        """All frames, once the run is over or the server has closed."""
        eventually(lambda: is_over(self.frames) or self.code is not None, within=within)
        return list(self.frames)

    def closed(self, within: float = WAIT_S) -> int:
        """The code that the server closed with."""
        code = eventually(lambda: self.code, lambda c: c is not None, within)
        assert code is not None
        return code

    def _read(self) -> None:
        try:
            for text in self._socket:
                self.frames.append(json.loads(text))
        except ConnectionClosed:
            pass
        self.code = self._socket.close_code


def events_of(frames: list[Json], run_id: str) -> list[Json]:
    """The frames that are events of this run."""
    return [f for f in frames if f.get("run_id") == run_id and "seq" in f]


def is_over(frames: list[Json]) -> bool:
    """Whether the last event of a successful run has come."""
    return any(f.get("type") == "agent-end" for f in frames)


def at_least(count: int) -> Callable[[list[Json]], bool]:
    """Whether so many frames have come."""
    return lambda frames: len(frames) >= count
