"""Chains of messages, as the stores take them."""

from collections.abc import Iterator, Sequence

from layover.values.message import Message


def chains(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Yield messages in pieces in which each follows the one before. A run that was set aside goes on behind
    what others said meanwhile."""
    begin = 0
    for place in range(1, len(messages) + 1):
        if place == len(messages) or messages[place].parent_id != messages[place - 1].id:
            yield tuple(messages[begin:place])
            begin = place
