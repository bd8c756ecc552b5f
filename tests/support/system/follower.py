"""A WebSocket client that is really one, for end-to-end tests: a thread reads, the test looks."""

import functools
import json
import socket as network
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, Protocol

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from support.system.system import WAIT_S, Json, eventually

OVER = ("finish", "agent-end", "error")
MOST_RETURNS = 3
TRIES = 3

P = ParamSpec("P")


class Wants(Protocol):
    """A user of the HTTP API."""

    def want(self, status: int, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The body of an answer that has to have this status."""
        ...


class Closed(AssertionError):
    """The server closed a connection that was waited on."""


def unclosed(test: Callable[P, None]) -> Callable[P, None]:
    """A test that needs its connection to stay: begun again where the server closed it. It closes where
    a post's answer is late, which a pause of the machine may cause, but not each time. Any other
    failure is one at once."""

    @functools.wraps(test)
    def tried(*args: P.args, **kwargs: P.kwargs) -> None:
        for _ in range(TRIES - 1):
            try:
                return test(*args, **kwargs)
            except (Closed, ConnectionClosed) as error:
                print(f"once more: {error!r:.300}")
        return test(*args, **kwargs)

    return tried


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
    def of(cls, caller: Wants, **options: Any) -> "Follower":
        """A connection of this user."""
        return cls(caller.want(201, "POST", "/socket-tickets")["url"], **options)

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        if self._reader.ident is not None:
            self._reader.join(WAIT_S)
            assert not self._reader.is_alive()

    @property
    def dropped(self) -> bool:
        """True if it is time to come back: the socket closed, or a request failed."""
        return self.code is not None or any(map(is_failure, self.frames))

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
        with suppress(OSError):  # The server may have closed before.
            raw.setsockopt(network.SOL_SOCKET, network.SO_LINGER, struct.pack("ii", 1, 0))
            raw.shutdown(network.SHUT_RDWR)
        if self._reader.ident is not None:
            self._reader.join(WAIT_S)

    def wait(self, enough: Callable[[list[Json]], Any], within: float = WAIT_S) -> list[Json]:
        """The frames, once they are enough. Fails at once where the server closed before."""

        def look() -> list[Json]:
            code, frames = self.code, list(self.frames)
            if code is not None and not enough(frames):
                raise Closed(f"closed with {code}: {frames!r:.1000}")
            return frames

        return eventually(look, enough, within)

    def until_closed(self, enough: Callable[[list[Json]], Any]) -> list[Json]:
        """The frames, once they are enough or the server has closed."""
        with suppress(Closed):
            self.wait(enough)
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


class Returning:
    """A client of docs/reference/http-api.md#socket: where the server closed, or says that a request
    failed, it comes back with the last seq that it has. `frames` is all that came but for such words, by
    all connections. It comes back a few times and no more: a server closes when a post's answer is late,
    which a pause of the machine may cause, and not as a habit."""

    def __init__(self, caller: Wants) -> None:
        self._caller = caller
        self.failures: list[Json] = []
        """Frames that report a failed request."""
        self._before: list[Json] = []
        self._after: dict[str, int] = {}
        self._returns = 0
        self._follower = Follower.of(caller)

    def __enter__(self) -> "Returning":
        return self

    def __exit__(self, *_: object) -> None:
        self._follower.__exit__()

    @property
    def frames(self) -> list[Json]:
        """The frames received so far."""
        return self._before + [f for f in self._follower.frames if not is_failure(f)]

    def subscribe(self, run_id: str, after: int = 0) -> None:
        """Follow a run."""
        self._after[run_id] = after
        with suppress(ConnectionClosed):  # Then the next look comes back.
            self._follower.subscribe(run_id, after)

    def wait(self, enough: Callable[[list[Json]], Any], within: float = WAIT_S) -> list[Json]:
        """The frames, once they are enough."""
        return eventually(lambda: self._look(enough), enough, within)

    def _look(self, enough: Callable[[list[Json]], Any]) -> list[Json]:
        if self._follower.dropped and not enough(self.frames):
            self._come_back()
        return self.frames

    def _come_back(self) -> None:
        if self._returns == MOST_RETURNS:
            raise Closed(f"dropped again ({self._follower.code}): {self.frames!r:.1000}")
        self._returns += 1
        self._before = self.frames
        self.failures += filter(is_failure, self._follower.frames)
        self._follower.__exit__()
        self._follower = Follower.of(self._caller)
        for run_id, after in self._after.items():
            seen = events_of(self._before, run_id)
            self.subscribe(run_id, seen[-1]["seq"] if seen else after)


def events_of(frames: list[Json], run_id: str) -> list[Json]:
    """The frames that are events of this run."""
    return [f for f in frames if f.get("run_id") == run_id and "seq" in f]


def is_failure(frame: Json) -> bool:
    """Return whether API Gateway reports that the function died while it handled a request, with an unknown
    result."""
    return frame.get("message") == "Internal server error" and "type" not in frame


def is_over(frames: list[Json]) -> bool:
    """Return whether the last event of a successful run has come."""
    return any(f.get("type") == "agent-end" for f in frames)


def at_least(count: int) -> Callable[[list[Json]], bool]:
    """Return a predicate: at least this many frames have come."""
    return lambda frames: len(frames) >= count
