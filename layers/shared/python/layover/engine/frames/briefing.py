"""The briefing of a sub-agent (docs/sub-agents.md#briefing)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from layover.ids import derive_id
from layover.values.message import Message, Role, TextPart
from layover.values.runs.run import RunMeta


def make_briefing(
    meta: RunMeta,
    child_id: str,
    args: Mapping[str, Any],
    attempts: str,
    now: datetime,
) -> Message:
    """Return the child's input as one text each for the task, the facts that it needs, and earlier
    attempts (`attempts`, as the child reads them)."""
    context = args.get("context")
    texts = (
        str(args["input"]),
        f"<context>\n{context}\n</context>" if context else "",
        attempts,
    )
    return Message(
        id=derive_id("msg", child_id, "input"),
        thread_id=meta.thread_id,
        run_id=child_id,
        role=Role.USER,
        content=tuple(TextPart(text=text) for text in texts if text),
        created_at=now,
    )
