"""The recent window (BEHAVIOUR 6.2): which part of the history a prompt shows."""

from collections.abc import Sequence

from layover.values.message import Message, Role


def recent(history: Sequence[Message], last_messages: int) -> list[Message]:
    """At least the last N messages, at most N + N/2: when the history outgrows that, it starts at the
    last user message that still leaves N. A single turn longer than the window is kept whole."""
    if len(history) <= last_messages + last_messages // 2:
        return _from_user(history)
    starts = [i for i, m in enumerate(history) if m.role is Role.USER]
    leaving = [i for i in starts if len(history) - i >= last_messages]
    return list(history[leaving[-1] :]) if leaving else _from_user(history)


def _from_user(history: Sequence[Message]) -> list[Message]:
    """A window starts at a user message, and so never splits a call from its result."""
    for index, message in enumerate(history):
        if message.role is Role.USER:
            return list(history[index:])
    return []
