"""Servers outside that have tools of their own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from layover.errors import ConfigurationError, LayoverError
from layover.values.base import Json


class ToolServerError(LayoverError):
    """A server did not do what it was asked for. `sent`: True if the request may have taken effect.
    `retryable`: True if asking again may help. `status`: of HTTP, if it refused the request with one. The
    message never has the server's words: they are not ours to trust."""

    def __init__(
        self,
        message: str,
        *,
        sent: bool = False,
        retryable: bool = False,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.sent = sent
        self.retryable = retryable
        self.status = status


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
        self, endpoint: Endpoint, tool: str, args: Mapping[str, Any], on_event: OnEvent
    ) -> ServerAnswer:
        """Return the result of a call. Nothing is sent twice. Raises ToolServerError, and ConfigurationError
        if the client is not installed."""
        ...


class NoToolServers:
    """Reaches no server."""

    async def list_tools(self, endpoint: Endpoint) -> list[dict[str, Any]]:
        """Raise ConfigurationError."""
        raise ConfigurationError(f"this runtime reaches no tool servers, and not {endpoint.name!r}")

    async def call(
        self, endpoint: Endpoint, tool: str, args: Mapping[str, Any], on_event: OnEvent
    ) -> ServerAnswer:
        """Raise ConfigurationError."""
        raise ConfigurationError(f"this runtime reaches no tool servers, and not {endpoint.name!r}")
