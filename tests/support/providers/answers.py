"""Requests to the fake provider and its answers, for all of its APIs."""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One request as it arrived. Header names are lower-case; `connection` counts from 1."""

    path: str
    headers: Mapping[str, str]
    body: Any
    connection: int
    raw: bytes = b""
    """The body byte for byte."""

    @property
    def asks_a_model(self) -> bool:
        """True if the request asks for a model's reply, in any of the APIs."""
        return self.path.partition("?")[0].endswith(
            ("/chat/completions", "/responses", "/converse", "/converse-stream", "/messages")
        )

    @property
    def task(self) -> str:
        """The task that it says it is for; `embeddings` where it asks for these."""
        if self.path.endswith("/embeddings"):
            return "embeddings"
        return self.headers.get("x-layover-task", "turn")


@dataclass(frozen=True)
class Raw:
    """An answer byte for byte. `chunks` are written one by one, `pause_s` apart; `breaks`: the
    connection is cut before the body's end; `hold`: waits for this event before the last chunk."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[bytes] = ()
    pause_s: float = 0.0
    breaks: bool = False
    hold: threading.Event | None = None
    delay_s: float = 0.0


@dataclass(frozen=True)
class Response:
    """A well-formed answer, sent as one document or as a stream, as the request asks."""

    text: str = ""
    reasoning: str = ""
    signature: str = "sig"
    """Of the reasoning, where the API has one."""
    calls: tuple[tuple[str, str, str], ...] = ()
    """(id, name, JSON arguments)"""
    finish_reason: str | None = None
    usage: Json | None = None
    model: str | None = None
    delay_s: float = 0.0
    hold: threading.Event | None = None


def document(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Raw:
    """A JSON answer, or a text as it is."""
    raw = body if isinstance(body, str) else json.dumps(body)
    kind = "text/html" if isinstance(body, str) else "application/json"
    return Raw(status, {"content-type": kind, **(headers or {})}, (raw.encode(),))


def words(text: str) -> list[str]:
    """A text in pieces, as a stream has them."""
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:] if text else []
