"""The decision when older messages leave a prompt, and which (docs/behaviour.md#compaction-thresholds,
docs/behaviour.md#compaction-waits). Pure: sizes and places.

A path is a list of messages, oldest first. It is cut only at the end of a unit: a message with what
hangs on it, so that no call is split from its result. What runs wait with stays
(docs/behaviour.md#compaction-around)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from layover.context.assembly import tool_tokens
from layover.context.fit import ASSUMED_WINDOW, room
from layover.context.tokens import estimate, total_tokens
from layover.declare.agent import Agent
from layover.declare.memory import ObservationalMemory, RollingSummary
from layover.runtime import Runtime
from layover.values.deployment.settings import Settings
from layover.values.memory.compaction import Compacted, CompactionKind, Generation
from layover.values.message import Message, Role

LATE = 1.2
"""The factor of the threshold above which a run waits for its compaction."""
FIXED = 8_000
"""Tokens that a rolling summary counts in addition to the messages (instructions, tools, the answer)."""
MIN_NEW = 500
"""Tokens of new messages below which no summary is made."""


@dataclass(frozen=True)
class Limits:
    """Tokens of an agent's compaction. `start`: messages that are not compacted yet, at which the older ones
    leave the prompt; `late`: the same, at which a run waits for that; `whole`: messages and observations
    together, at which it waits as well; `ahead`: size of a slice that is observed ahead, None if no slice is;
    `block`: observations, above which they are condensed again; `tail`: newest messages that stay
    unchanged."""

    kind: CompactionKind
    start: int
    late: int
    whole: int | None
    ahead: int | None
    block: int | None
    tail: int


@dataclass(frozen=True)
class Path:
    """The messages of a branch behind its compaction. `waiting`: the runs whose messages stay in prompts,
    wherever they are, because results of theirs are still to come."""

    messages: Sequence[Message]
    waiting: Collection[str] = ()

    @cached_property
    def free(self) -> list[Message]:
        """The messages that may leave prompts."""
        return [message for message in self.messages if self._is_free(message)]

    def _is_free(self, message: Message) -> bool:
        return message.run_id not in self.waiting and not message.is_place

    def counts(self) -> dict[str, int]:
        """Return the number of free messages up to each message, by its id."""
        counts: dict[str, int] = {}
        count = 0
        for message in self.messages:
            count += self._is_free(message)
            counts[message.id] = count
        return counts

    def left_out(self, after: str | None, through: str) -> tuple[str, ...]:
        """Return the ids of the messages that a compaction of what lies between these leaves out."""
        places = {message.id: place for place, message in enumerate(self.messages)}
        start = places.get(after, -1) + 1 if after is not None else 0
        between = self.messages[start : places[through] + 1]
        return tuple(message.id for message in between if message.run_id in self.waiting)


def limits(agent: Agent, settings: Settings, window: int | None) -> Limits | None:
    """Return the agent's limits; `window`: tokens of its model's context window, if it is known."""
    mode = agent.memory.compaction
    if isinstance(mode, ObservationalMemory):
        # A small window has to hold both, together with instructions and tools.
        fits = _room_left(agent, window)
        start = min(mode.message_limit(settings), int(fits * 0.6))
        block = min(mode.observation_limit(settings), int(fits * 0.4))
        return Limits(
            kind="observations",
            start=start,
            late=int(start * LATE),
            whole=start + block,
            ahead=max(int(start * mode.buffer), 1),
            block=block,
            tail=agent.memory.window(settings),
        )
    if isinstance(mode, RollingSummary):
        size = window or mode.max_window or ASSUMED_WINDOW
        usable = min(size, mode.max_window or size)
        start = max(int(usable * mode.fraction) - FIXED, 1)
        late = max(min(int(usable * mode.fraction * LATE), usable) - FIXED, start)
        return Limits(
            kind="summary",
            start=start,
            late=late,
            whole=None,
            ahead=None,
            block=None,
            tail=mode.tail,
        )
    return None


def limits_of(
    runtime: Runtime, agent: Agent, learned: Mapping[str, int] | None = None
) -> Limits | None:
    """Return the limits of the agent's compaction; None if it has none. `learned`: as for `window_of`."""
    model = agent.model or runtime.settings.model
    window = runtime.window_of(model, agent.model_settings, learned)
    return limits(agent, runtime.settings, window)


def _room_left(agent: Agent, window: int | None) -> int:
    """Return the tokens that instructions and tools leave; a quarter at the least."""
    own = agent.instructions if isinstance(agent.instructions, str) else ""
    overhead = estimate(own) + tool_tokens([t.spec for t in agent.tools])
    return max(room(window) - overhead, room(window) // 4)


def ends(messages: Sequence[Message]) -> list[int]:
    """Return the possible cuts of the path as counts of the messages before each, the whole included."""
    starts = [i for i, m in enumerate(messages) if i and m.role in (Role.USER, Role.ASSISTANT)]
    return [*starts, len(messages)] if messages else []


def count_leaving(messages: Sequence[Message], tail: int, start: int) -> int:
    """Count the messages that a compaction takes: all but the newest `tail`. The tail shrinks if it reaches
    `start` tokens by itself, but it keeps at least the newest unit."""
    cuts = [0, *ends(messages)[:-1]]
    best = max((c for c in cuts if len(messages) - c >= tail), default=0)
    remaining_tokens = total_tokens(messages[best:])
    for cut in cuts:
        if remaining_tokens < start:
            break
        if cut > best:
            remaining_tokens -= total_tokens(messages[best:cut])
            best = cut
    return best


def count_within(messages: Sequence[Message], tokens: int) -> int:
    """Count the messages, from the first on, that fit into this many tokens; at least one unit."""
    weight, best = 0, 0
    for cut in ends(messages):
        weight += total_tokens(messages[best:cut])
        if weight > tokens and best:
            break
        best = cut
    return best


def slices(messages: Sequence[Message], tokens: int) -> Iterator[tuple[int, int]]:
    """Yield pieces (from, to) of at least this many tokens each, whole units; the rest is in none."""
    begin, weight, last = 0, 0, 0
    for cut in ends(messages):
        weight += total_tokens(messages[last:cut])
        last = cut
        if weight >= tokens:
            yield begin, cut
            begin, weight = cut, 0


def ready_slices(
    path: Path, slices: Sequence[Generation], tail: int, start: int
) -> list[Generation]:
    """Return the slices that take effect now: as many as leave the newest `tail` tokens of messages
    unchanged, more if these reach `start` tokens by themselves, but never the newest unit."""
    places, messages = path.counts(), path.free
    last = (ends(messages)[-2:-1] or [0])[0]
    result: list[Generation] = []
    for generation in slices:
        place = places.get(generation.through_message_id)
        if place is None or place > last:
            break
        position = places[result[-1].through_message_id] if result else 0
        if len(messages) - place < tail and total_tokens(messages[position:]) < start:
            break
        result.append(generation)
    return result


def with_slices(current: Compacted, number: int, messages: Sequence[Message]) -> Compacted:
    """Return the compaction after its first `number` slices took effect. `messages`: those behind it."""
    active = current.slices[:number]
    observations = tuple(o for g in active for o in g.observations)
    return Compacted(
        generation=active[-1].model_copy(update={"active": True}),
        observations=(*current.observations, *observations),
        stretches=(*current.stretches, *(g.stretch for g in active)),
        left_out=_still_left_out(current, active, messages),
        slices=current.slices[number:],
    )


def _still_left_out(
    current: Compacted, active: Sequence[Generation], messages: Sequence[Message]
) -> tuple[Message, ...]:
    """Return the messages that these slices, on top of a compaction, do not stand for."""
    ids = current.left_out_ids.union(*(g.left_out for g in active))
    ids = ids.difference(*(g.taken for g in active))
    return tuple(message for message in (*current.left_out, *messages) if message.id in ids)
