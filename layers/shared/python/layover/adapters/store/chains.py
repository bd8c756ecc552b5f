"""Chains of messages, as the stores take them."""

from collections.abc import Iterator, Sequence

from layover.values.message import Message


class UnknownParent(Exception):
    """A message was to be stored behind one that is not there, which is a defect of whoever gave out the
    parent. Stored as a new root, the message would hide all that was said before it."""

    def __init__(self) -> None:
        super().__init__("the parent of a message is not in its thread")


def chains(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Yield messages in pieces in which each follows the one before: each is stored behind the parent of
    its first. A run that was set aside goes on behind what others said meanwhile."""
    begin = 0
    for place in range(1, len(messages) + 1):
        if place == len(messages) or messages[place].parent_id != messages[place - 1].id:
            yield tuple(messages[begin:place])
            begin = place
