"""Messages of a thread for tests of the words that providers have for them. The tool is `look`."""

from datetime import UTC, datetime
from typing import Any

from layover.values.message import Message, Part, Role, TextPart, ToolCallPart, ToolResultPart
from layover.values.prompt import ToolSpec

LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object"})


def message(role: Role, *content: Part, run: str | None = None, **more: Any) -> Message:
    """Return a message. `run`: the id of its run."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Message(
        id="m", thread_id="t", run_id=run, role=role, content=content, created_at=now, **more
    )


def user(text: str, run: str | None = None) -> Message:
    """Return a user's text."""
    return message(Role.USER, TextPart(text=text), run=run)


def asks(*ids: str, text: str = "", run: str | None = None, **more: Any) -> Message:
    """Return an answer with calls of these ids."""
    calls = [ToolCallPart(tool_call_id=i, tool_name="look", args={"n": 1}) for i in ids]
    said = [TextPart(text=text)] if text else []
    return message(Role.ASSISTANT, *said, *calls, run=run, **more)


def result(id: str, seen: str = "seen", *, is_error: bool = False) -> Message:
    """Return what became of the call of this id."""
    part = ToolResultPart(tool_call_id=id, tool_name="look", result=seen, is_error=is_error)
    return message(Role.TOOL, part)
