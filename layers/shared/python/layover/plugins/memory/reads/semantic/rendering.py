"""Recalled messages in a prompt: data, one line for each message (docs/behaviour.md#escaping)."""

from collections.abc import Mapping, Sequence

from layover.clock import rfc3339
from layover.plugins.memory.reads.profile.notes import block
from layover.plugins.memory.text.escape import escape_value
from layover.values.memory.context import Recalled

_MINUTES = len("2026-01-01T00:00")


def recalled_lines(
    recalled: Sequence[Recalled], speakers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return message id -> `[date time] speaker: text`, in the order of the conversation."""
    return {r.message.id: _line(r, speakers or {}) for r in recalled if r.message.text.strip()}


def recalled_block(lines: Sequence[str]) -> str:
    """Return the block of these lines; "" if there are none."""
    return block("recalled_messages", lines) if lines else ""


def _line(recalled: Recalled, speakers: Mapping[str, str]) -> str:
    message = recalled.message
    at = rfc3339(message.created_at)[:_MINUTES].replace("T", " ")
    speaker = speakers.get(message.role.value, message.role.value)
    return f"[{at}] {escape_value(speaker)}: {escape_value(message.text.strip())}"
