"""Recorded traffic of real providers (`tests/unit/plugins/models/recorded/SOURCES.md`)."""

import json
from base64 import b64decode
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from support.providers.answers import Json, Raw

FOLDER = Path(__file__).parents[2] / "unit" / "plugins" / "models" / "recorded"
EVENTS = "application/vnd.amazon.eventstream"


@dataclass(frozen=True)
class Exchange:
    """A request of a recorded client, and its answer. `at`: its place in the recording."""

    recording: str
    api: str
    at: int
    fields: Json

    @property
    def name(self) -> str:
        """Its name in reports: `openai/two_calls_plain#1`."""
        return f"{self.recording}#{self.at}"

    @property
    def request(self) -> Json:
        """The request's JSON, or an empty object where it was not kept."""
        return dict(self.fields.get("request") or {})

    @property
    def expect(self) -> Json:
        """An independent reading of the answer."""
        return dict(self.fields["expect"])

    @property
    def is_stream(self) -> bool:
        """True if the answer came in pieces."""
        return "sse" in self.fields or "frames" in self.fields

    @property
    def has_answer(self) -> bool:
        """True if the answer is one, and no error."""
        return "error" not in self.expect

    @property
    def model(self) -> str:
        """The model's name, as Layover calls it."""
        name = str(self.fields.get("model") or self.request.get("model") or "asked")
        prefix = {"converse": "bedrock", "anthropic": "anthropic"}.get(self.api, "openai")
        return f"{prefix}/{name}"

    @property
    def raw(self) -> Raw:
        """The answer byte for byte."""
        kind, chunks = "application/json", [json.dumps(self.fields.get("body")).encode()]
        if "sse" in self.fields:
            kind, chunks = "text/event-stream", [chunk.encode() for chunk in self.fields["sse"]]
        elif "frames" in self.fields:
            kind, chunks = EVENTS, [b64decode(frame) for frame in self.fields["frames"]]
        headers = {"content-type": kind, **self.fields["headers"]}
        return Raw(self.fields["status"], headers, tuple(chunks))


@dataclass(frozen=True)
class Recording:
    """Exchanges that follow each other. `name`: its path below the folder; `api`: `chat`, `responses`,
    `converse` or `anthropic`."""

    name: str
    api: str
    exchanges: tuple[Exchange, ...]


@cache
def recordings() -> tuple[Recording, ...]:
    """Return all recordings."""
    return tuple(_load(path) for path in sorted(FOLDER.rglob("*.json")))


def recording(name: str) -> Recording:
    """Return the recording of this name."""
    return _load(FOLDER / f"{name}.json")


@cache
def _load(path: Path) -> Recording:
    record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    name, api = path.relative_to(FOLDER).with_suffix("").as_posix(), record["api"]
    steps = enumerate(record["steps"])
    return Recording(name, api, tuple(Exchange(name, api, at, step) for at, step in steps))
