"""Renders compacted messages for a prompt."""

from layover.memory.compaction import observer, summary
from layover.values.memory.compaction import Compacted


def compaction_block(compacted: Compacted | None) -> str:
    """Return the observations or the summary of a path; "" if there are none."""
    if compacted is None:
        return ""
    if compacted.summary is not None:
        return summary.render(compacted.summary)
    return observer.render(compacted.observations)
