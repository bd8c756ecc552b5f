"""Spans of a run's trace (docs/guides/tracing.md). Their ids follow from the run: a process that does a part
again, or another one that goes on with the run, gets the same ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from layover.values.runs.usage import Usage

Attribute = str | int | float | bool | Sequence[str]
Place = tuple[str, ...]
"""The place of a span in its run, such as `("call", KEY, "1")`. No two spans of a run have the same."""
RUN: Place = ("run",)
"""The place of the whole run."""


def frame_place(path: str) -> Place:
    """Return the place of an agent's work. `path`: of a sub-agent's keys; empty: it is the run's own."""
    return ("agent", path) if path else RUN


@dataclass(frozen=True)
class Span:
    """A part of a run that is over.

    Args:
        run_id: The run, which is the trace.
        place: Its place in the run, from which its id follows.
        parent: The place of the span around it; None: it is the whole run.
        name: The operation, and what it is about.
        start: Its beginning.
        end: Its end.
        attributes: By their names in the semantic conventions.
        error: The type of the error that it ended with.
        link: The W3C `traceparent` of the caller who started the run.
        asks_model: True if it is a request to another system.
        is_repeated: True if another process may have recorded it before.
    """

    run_id: str
    place: Place
    parent: Place | None
    name: str
    start: datetime
    end: datetime
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    error: str | None = None
    link: str | None = None
    asks_model: bool = False
    is_repeated: bool = False

    @property
    def operation(self) -> str:
        """The name of the operation in the semantic conventions."""
        return str(self.attributes.get("gen_ai.operation.name", ""))


@dataclass
class MemoryRead:
    """The numbers of what memory gives a turn. `notes`: working memory and profiles; `messages`: recalled
    ones, and of a sub-agent those of its earlier calls; `observations`: of the compaction, or its summary.
    `texts`: all of it as texts, which are only measured."""

    notes: int = 0
    messages: int = 0
    entries: int = 0
    observations: int = 0
    texts: Sequence[object] = ()


@dataclass
class EmbeddingRequest:
    """The answer to a request to an embedder. `model`: by the embedder's own words; `usage`: None if it did
    not say any."""

    model: str | None = None
    usage: Usage | None = None


def trace_id_of(run_id: str) -> int:
    """Return the id of a run's trace: 128 bits, not zero."""
    return int.from_bytes(_digest("trace", run_id)[:16]) or 1


def span_id_of(run_id: str, place: Place) -> int:
    """Return the id of a span: 64 bits, not zero."""
    return int.from_bytes(_digest("span", run_id, *place)[:8]) or 1


def _digest(*parts: str) -> bytes:
    # The length in front: no two lists of parts make the same text.
    return sha256("".join(f"{len(p)}:{p}" for p in ("layover", *parts)).encode()).digest()
