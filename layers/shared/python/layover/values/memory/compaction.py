"""Compacted older messages of a thread: generations of observations, or summaries
(docs/behaviour.md#generations)."""

from enum import StrEnum
from typing import Literal

from layover.values.base import Time, Value
from layover.values.message import Message


class Marker(StrEnum):
    """The weight of an observation."""

    CRITICAL = "CRITICAL"
    IMPORTANT = "IMPORTANT"
    INFO = "INFO"
    COMPLETION = "COMPLETION"


class Observation(Value):
    """One line of what happened. `parent_id`: the observation that it is a detail of."""

    id: str
    at: Time
    marker: Marker
    text: str
    parent_id: str | None = None


CompactionKind = Literal["observations", "summary"]
"""The mode: generations of different modes never mix."""


class Generation(Value):
    """An immutable stage of a branch's compaction; it ends with a message.

    A generation of kind `observations` adds to the ones before it (its chain); `reflection` and
    `summary` stand for all before them. Not active: a slice that was observed ahead.

    `left_out`: ids of the messages up to its last one that it does not stand for, because their runs waited.
    `taken`: ids that were left out before, and that it stands for."""

    number: int
    """Unique in the thread; later ones are larger."""
    kind: Literal["observations", "reflection", "summary"]
    after_depth: int
    """Depth (messages from the root, from 0) of the last message before it; -1: there is none."""
    through_depth: int
    through_message_id: str
    active: bool = True
    observations: tuple[Observation, ...] = ()
    """Its own observations only, in order."""
    summary: str | None = None
    left_out: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    token_count: int = 0
    """Estimated tokens of the text that it adds to a prompt."""
    prompt_version: str | None = None
    model: str | None = None
    """The prompt's version and the model that made it."""
    created_at: Time

    @property
    def stretch(self) -> "Stretch":
        """The messages that its observations are of."""
        return Stretch(
            after_depth=self.after_depth,
            through_depth=self.through_depth,
            observations=len(self.observations),
        )


class NewGeneration(Value):
    """A generation to be stored; the store numbers it. `after_message_id` None: from the root. `left_out`,
    `taken`: see `Generation`; one that stands for all before it leaves out what they did as well."""

    kind: Literal["observations", "reflection", "summary"]
    after_message_id: str | None = None
    through_message_id: str
    observations: tuple[Observation, ...] = ()
    summary: str | None = None
    left_out: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    token_count: int
    prompt_version: str
    model: str
    at: Time


class CompactionQuery(Value):
    """A prompt's query for its branch's compaction. `pinned`: the generation that the run
    shows (0: it shows none); None: the deepest one that is active on the path."""

    kind: CompactionKind
    pinned: int | None = None


class Stretch(Value):
    """A piece of a path that was observed. `observations`: the number of what was observed of it."""

    after_depth: int
    through_depth: int
    observations: int


class Compacted(Value):
    """The compaction of one path. `generation`: the one that a prompt shows, None if there is none;
    `observations`: those of its whole chain, in order, and `stretches`: of which messages they are, in the
    same order; `left_out`: the messages of these that the chain does not stand for, oldest first, with places
    for results to come; `slices`: observations made ahead behind it and not active yet, a chain without gaps,
    in order."""

    generation: Generation | None = None
    observations: tuple[Observation, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    left_out: tuple[Message, ...] = ()
    slices: tuple[Generation, ...] = ()

    @property
    def through(self) -> str | None:
        """The last message that left the prompt."""
        return self.generation.through_message_id if self.generation else None

    @property
    def left_out_ids(self) -> frozenset[str]:
        """The ids of the messages before that one that stay in the prompt."""
        return frozenset(message.id for message in self.left_out)

    @property
    def summary(self) -> str | None:
        """The summary, in that mode."""
        return self.generation.summary if self.generation else None


class Span(Value):
    """A piece of a path: the messages after one and through another, oldest first, with places for results to
    come."""

    messages: tuple[Message, ...]
    after_depth: int
    through_depth: int
