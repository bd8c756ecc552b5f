"""The part of the history that a prompt shows (docs/behaviour.md#prompt-window).

The store keeps the window's start, because it moves in steps. This module only makes it begin where a turn
begins."""

from collections.abc import Sequence

from layover.context.fit import shorten
from layover.context.tokens import total_tokens
from layover.declare.memory import TokenBuffer
from layover.values.message import Message, Role


def from_user(history: Sequence[Message]) -> list[Message]:
    """Return the history from its first user message on: such a window never splits a call from its
    result."""
    for index, message in enumerate(history):
        if message.role is Role.USER:
            return list(history[index:])
    return []


def fit_buffer(history: Sequence[Message], buffer: TokenBuffer) -> list[Message]:
    """Return the newest whole turns that fit; equality fits. The newest turn is always included, with
    shortened tool results if it is too large."""
    result: list[Message] = []
    tokens = 0
    for turn in reversed(_turns(history)):
        size = total_tokens(turn)
        fits = tokens + size <= buffer.max_tokens and len(result) + len(turn) <= buffer.max_messages
        if not fits and result:
            break
        result = [*(turn if fits else map(shorten, turn)), *result]
        tokens += size
        if not fits:
            break
    return result


def _turns(history: Sequence[Message]) -> list[list[Message]]:
    """Return whole turns: a user message with all that answers it; messages before the first are left out."""
    turns: list[list[Message]] = []
    for message in history:
        if message.role is Role.USER:
            turns.append([])
        if turns:
            turns[-1].append(message)
    return turns
