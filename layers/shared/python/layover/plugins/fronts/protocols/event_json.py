"""An event as JSON, for a client. The server that wrote it may be newer or older."""

from collections.abc import Mapping
from typing import Any


class EventJson:
    """Reads JSON by attributes, as the event's class has them: a field that is missing is None."""

    __slots__ = ("json",)

    def __init__(self, json: Mapping[str, Any]) -> None:
        self.json = json

    def __getattr__(self, name: str) -> Any:
        return self.json.get(name)

    @property
    def type(self) -> str:
        """The event's type, or the part's."""
        return str(self.json.get("type"))

    @property
    def text(self) -> str:
        """A piece of text."""
        return str(self.json.get("text") or "")

    @property
    def args_delta(self) -> str:
        """A piece of a call's arguments."""
        return str(self.json.get("args_delta") or "")

    @property
    def message(self) -> "EventJson | None":
        """The message of an event that has one."""
        message = self.json.get("message")
        return EventJson(message) if isinstance(message, dict) else None

    @property
    def content(self) -> "list[EventJson]":
        """The parts of a message."""
        parts = self.json.get("content")
        return (
            [EventJson(p) for p in parts if isinstance(p, dict)] if isinstance(parts, list) else []
        )
