"""Servers outside that have tools of their own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from layover.errors import ConfigurationError, LayoverError
from layover.values.base import Json

TOO_MANY = 429
"""The status of a server that is asked too often. It did nothing."""


class ToolServerError(LayoverError):
    """A server did not do what it was asked for. `sent`: True if the request may have taken effect.
    `retryable`: True if asking again may help. `status`: of HTTP, if it refused the request with one.
    `wait_s`: the seconds after which it may be asked again, if it said so. `words`: what it said in an error
    of the protocol. The message never has the server's words: they are not ours to trust."""

    def __init__(
        self,
        message: str,
        *,
        sent: bool = False,
        retryable: bool = False,
        status: int | None = None,
        wait_s: float | None = None,
        words: str = "",
    ) -> None:
        super().__init__(message)
        self.sent = sent
        self.retryable = retryable
        self.status = status
        self.wait_s = wait_s
        self.words = words


@dataclass(frozen=True)
class Endpoint:
    """A server as one run reaches it.

    `headers`: credentials; they are in no log and in no `repr`. `scope`: what its session belongs to, a run's
    id: no two runs share a session. `private`: addresses inside a network are allowed, and plain HTTP."""

    name: str
    url: str
    scope: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    private: bool = False
    elicitation: bool = False
    """True: the server is told that it may ask the user."""


@dataclass(frozen=True)
class TextContent:
    """A text of a result."""

    text: str


@dataclass(frozen=True)
class BytesContent:
    """An image, a sound or another file of a result. `data`: decoded."""

    name: str
    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class LinkContent:
    """An address that a result names. Nothing fetches it."""

    uri: str
    name: str


Content = TextContent | BytesContent | LinkContent


@dataclass(frozen=True)
class ServerAnswer:
    """The result of a call, in the server's words."""

    content: tuple[Content, ...] = ()
    structured: Json = None
    is_error: bool = False


@dataclass(frozen=True)
class ServerAsks:
    """The end of a call whose server wants something of its user first.

    `questions`: by the server's names, nothing of it checked. `state`: what the server wants back with the
    answers. `begins_anew`: True if the server was told that nobody answers now, and does all of the call
    once more when it is called again."""

    questions: Mapping[str, Any]
    state: str | None = None
    begins_anew: bool = False


@dataclass(frozen=True)
class Answers:
    """The answers to what the server of a call has asked, by its names for the questions: `{"action",
    "content"}`."""

    responses: Mapping[str, Any]
    state: str | None = None


OnEvent = Callable[[dict[str, Any]], None]
"""Gets what a server says while a call runs: `{"progress", "total", "message"}` or `{"level", "message"}`."""


class ToolServers(Protocol):
    """Asks servers for their tools, and calls them."""

    async def list_tools(self, endpoint: Endpoint) -> list[dict[str, Any]]:
        """Return the tools as the server describes them: `{"name", "description", "inputSchema",
        "annotations"}`, nothing of it checked. Raises ToolServerError, and ConfigurationError if the client
        is not installed."""
        ...

    async def call(
        self,
        endpoint: Endpoint,
        tool: str,
        args: Mapping[str, Any],
        on_event: OnEvent,
        answers: Answers | None = None,
    ) -> ServerAnswer | ServerAsks:
        """Return the result of a call, or what its server asks, if the endpoint lets it. Nothing is sent
        twice. Raises ToolServerError, and ConfigurationError if the client is not installed."""
        ...


class NoToolServers:
    """Reaches no server."""

    async def list_tools(self, endpoint: Endpoint) -> list[dict[str, Any]]:
        """Raise ConfigurationError."""
        raise ConfigurationError(f"this runtime reaches no tool servers, and not {endpoint.name!r}")

    async def call(
        self,
        endpoint: Endpoint,
        tool: str,
        args: Mapping[str, Any],
        on_event: OnEvent,
        answers: Answers | None = None,
    ) -> ServerAnswer | ServerAsks:
        """Raise ConfigurationError."""
        raise ConfigurationError(f"this runtime reaches no tool servers, and not {endpoint.name!r}")
