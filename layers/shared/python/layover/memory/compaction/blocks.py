"""Renders compacted messages for a prompt."""

from layover.memory.compaction import observer, summary
from layover.values.memory.compaction import Compacted


def compaction_block(found: Compacted | None) -> str:
    """The observations or the summary of a path; "" where there are none."""
    if found is None:
        return ""
    if found.summary is not None:
        return summary.rendered(found.summary)
    return observer.rendered(found.observations)
