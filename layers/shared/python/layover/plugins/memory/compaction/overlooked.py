"""The users' words that no observation covers (docs/behaviour.md#observation-lines). Pure."""

from collections.abc import Callable, Sequence

from layover.plugins.memory.compaction.observation_lines import tidy
from layover.plugins.memory.text.likeness import statement
from layover.plugins.memory.text.quoted import pieces
from layover.values.memory.compaction import Marker, Observation
from layover.values.message import Message, Role

MAX_TEXT = 300
"""Characters of a user's message that are kept."""
_MIN_TOPICS = 2
_COVERED = 0.75
"""The share of a message's topics that observations have if one of them is about it."""


def overlooked(
    messages: Sequence[Message], noted: Sequence[Observation], new_id: Callable[[], str]
) -> tuple[Observation, ...]:
    """Return an observation in the user's own words for each user's message that no observation covers,
    without what the message quotes."""
    statements = [statement(one.text) for one in noted]
    topics = frozenset().union(*(s.topics for s in statements))
    literals = frozenset().union(*(s.literals for s in statements))
    result: list[Observation] = []
    for message in messages:
        if message.role is not Role.USER:
            continue
        text = tidy(" ".join(p.text for p in pieces(message.text) if not p.quoted), MAX_TEXT)
        own = statement(text)
        if len(own.topics) < _MIN_TOPICS:
            continue
        if own.coverage(topics) < _COVERED or not own.literals <= literals:
            one = Observation(
                id=new_id(), at=message.created_at, marker=Marker.INFO, text=f"User: {text}"
            )
            result.append(one)
    return tuple(result)
