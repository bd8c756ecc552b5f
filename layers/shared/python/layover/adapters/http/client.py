"""The parts that clients share: requests to a server of any kind, and answers in pieces as they arrive."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol

from layover.adapters.http.request import Url

USER_AGENT = "layover"
"""The name in each request. Some servers refuse one without it, or slow down those that have a library's."""


class Response(ABC):
    """An answer whose head has arrived; `aclose` ends it. `headers`: names in lower case."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers
        self.text = ""
        """The body, once it is read."""

    @property
    def is_success(self) -> bool:
        """True for a status of 200 to 299."""
        return 200 <= self.status < 300

    @property
    def is_whole(self) -> bool:
        """True if the body is known to have come to its end, read or not."""
        return False

    @abstractmethod
    def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives. Raises OSError: ConnectionBroken, TimeoutError for silence."""

    async def read(self) -> None:
        """Read the body to its end. Raises as `pieces` does."""
        body = b"".join([piece async for piece in self.pieces()])
        self.text = body.decode("utf-8", "replace")

    @abstractmethod
    async def aclose(self) -> None:
        """Release the connection for the next request, or close it if the body was not read to its end."""


class Client(Protocol):
    """Sends requests over connections that it keeps separately for each event loop."""

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        """The open answer. `silence_s`: the longest pause between two of its bytes.

        Raises OSError (ConnectionBroken, TimeoutError for silence), InvalidURL, InvalidHeader."""

    def dial(self, url: Url) -> None:
        """Begin to connect to the server, unless a connection is idle: the next request takes it."""

    async def aclose(self) -> None:
        """Close this event loop's idle connections."""


MakeClient = Callable[[], Client]
