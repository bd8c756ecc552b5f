"""The lines that an answer of the observer may have (docs/behaviour.md#observation-lines). Pure."""

from collections.abc import Sequence

from layover.plugins.memory.condenses.observation_lines import SEVERITY
from layover.values.memory.compaction import Observation
from layover.values.message import Message, Role

LINES = 5
"""Of one exchange: a message of the user's with what answers it, or a step that calls tools with what they
answer."""


def within_limit(
    observations: Sequence[Observation], messages: Sequence[Message]
) -> tuple[Observation, ...]:
    """Return as many of the observations as exchanges like these have lines, in their order. The lightest go
    first, of equal ones the last, and a line with details after its details. The limit is that of all
    exchanges together: models misname the times of lines, so no line belongs to one exchange for sure."""
    excess = len(observations) - LINES * count_exchanges(messages)
    if excess <= 0:
        return tuple(observations)
    place = {one.id: number for number, one in enumerate(observations)}
    weight = {one.id: SEVERITY.index(one.marker) for one in observations}
    for one in observations:
        if one.parent_id in weight:  # A line is as heavy as the heaviest of its details.
            weight[one.parent_id] = min(weight[one.parent_id], weight[one.id])

    def by_lightness(one: Observation) -> tuple[int, bool, int]:
        return -weight[one.id], one.parent_id is None, -place[one.id]

    to_drop = {one.id for one in sorted(observations, key=by_lightness)[:excess]}
    return tuple(one for one in observations if one.id not in to_drop)


def count_exchanges(messages: Sequence[Message]) -> int:
    """Return the number of exchanges, at least one: a slice may begin with an answer."""
    begins = (m.role is Role.USER or bool(m.tool_calls) for m in messages)
    return max(sum(begins), 1)
