"""The users' words that no observation covers (docs/behaviour.md#observation-lines). Pure."""

from collections.abc import Callable, Sequence

from layover.plugins.memory.condenses.observation_lines import tidy
from layover.plugins.memory.learns.text.evidence import anchors, says_enough
from layover.plugins.memory.learns.text.quoted import pieces
from layover.plugins.memory.text.words import words
from layover.values.memory.compaction import Marker, Observation
from layover.values.message import Message, Role

MAX_TEXT = 300
"""Characters of a user's message that are kept."""
_COVERED = 2 / 3
"""The share of a message that observations have if one of them is about it: of its letters, as the words
that carry a topic are longer than those that every sentence has."""


def overlooked(
    messages: Sequence[Message], noted: Sequence[Observation], new_id: Callable[[], str]
) -> tuple[Observation, ...]:
    """Return an observation in the user's own words for each user's message that no observation covers,
    without what the message quotes."""
    known_words = frozenset(word for one in noted for word in words(one.text))
    known_literals = frozenset(literal for one in noted for literal in _literals(one.text))
    result: list[Observation] = []
    for message in messages:
        if message.role is not Role.USER:
            continue
        text = tidy(" ".join(p.text for p in pieces(message.text) if not p.quoted), MAX_TEXT)
        own = frozenset(words(text))
        covered, letters = (sum(map(len, some)) for some in (own & known_words, own))
        is_covered = covered >= _COVERED * letters and _literals(text) <= known_literals
        if says_enough(text) and not is_covered:
            one = Observation(
                id=new_id(), at=message.created_at, marker=Marker.INFO, text=f"User: {text}"
            )
            result.append(one)
    return tuple(result)


def _literals(text: str) -> frozenset[str]:
    return frozenset(anchor.casefold() for anchor in anchors(text))
