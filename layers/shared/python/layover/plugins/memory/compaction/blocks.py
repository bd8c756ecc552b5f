"""Renders compacted messages for a prompt."""

from layover.plugins.memory.compaction import observer, summary
from layover.values.memory.compaction import Compacted
from layover.values.runs.run import MESSAGES_TOOL


def compaction_block(compacted: Compacted | None) -> str:
    """Return the observations or the summary of a path; "" if there are none."""
    if compacted is None:
        return ""
    block = (
        observer.render(compacted.observations, compacted.stretches)
        if compacted.summary is None
        else summary.render(compacted.summary)
    )
    if not block or compacted.generation is None:
        return block
    # Behind the block, which grows at its end: what comes before stays a prefix.
    return f"{block}\n{_range(compacted.generation.through_depth)}"


def _range(through_depth: int) -> str:
    """Return the sentence that names the messages which the block stands for; the first is number 1."""
    return f"[It stands for messages 1 to {through_depth + 1}: {MESSAGES_TOOL} shows them again.]"
