"""What a turn reads from the thread's store, and what it writes there."""

from typing import Any

from layover.values.base import Time, Value
from layover.values.message import Message
from layover.values.run import RunMeta
from layover.values.thread import ThreadHead
from layover.values.usage import Usage


class TurnQuery(Value):
    """Everything that a turn needs from the database: one round trip.

    The input is written first of all (an upsert: a repeated turn changes nothing), and with it the
    thread's row, made from its head."""

    head: ThreadHead
    run_id: str
    input: Message
    window: int
    """N of BEHAVIOUR 6.2: at least so many messages before the input are read, if there are any."""


class TurnContext(Value):
    """`history`: the branch before the input, oldest first, at most N + N/2 messages and the rest
    of the turn in which that begins."""

    history: tuple[Message, ...] = ()


class StepUsage(Value):
    """Usage of one model call; `step` is its journal key, or the task of background work."""

    step: str
    agent: str
    model: str
    usage: Usage
    at: Time


class TurnRecord(Value):
    """What a run leaves in the database: one round trip. Every part is an upsert."""

    head: ThreadHead
    run: RunMeta
    input: Message
    response: tuple[Message, ...]
    usage: tuple[StepUsage, ...] = ()
    snapshot: dict[str, Any] | None = None
    """The run's final tree, when it is over."""


class Extraction(Value):
    """The results of one run's extraction; recorded once, however often it is tried."""

    run_id: str
    thread_id: str
    title: str | None = None
    token_counts: dict[str, int] = {}
    """Message id -> tokens."""
