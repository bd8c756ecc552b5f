"""The entries that a prompt shows (docs/behaviour.md#episodic-prompt). Pure."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from layover.plugins.memory.prompts import prompt_file
from layover.plugins.memory.text.escape import escape
from layover.values.memory.entry import MemoryEntry


def entry_lines(entries: Sequence[MemoryEntry], as_of: datetime) -> dict[str, str]:
    """Return each entry's line by its id, newest first."""
    newest_first = sorted(entries, key=lambda e: (e.created_at, e.id), reverse=True)
    return {e.id: _line(e, as_of) for e in newest_first}


def memory_block(lines: Sequence[str]) -> str:
    """Return the block of these lines; "" if there are none."""
    if not lines:
        return ""
    head = ["<memory>", f"<description>{_description()}</description>", "<value>"]
    return "\n".join([*head, *lines, "</value>", "</memory>"])


def age(created_at: datetime, as_of: datetime) -> str:
    """today, 1 day ago, N days ago (to 6), 1 week ago, N weeks ago (to 8), N months ago, N years ago."""
    days = max((as_of - created_at).days, 0)
    if days == 0:
        return "today"
    if days < 7:
        return _ago(days, "day")
    if days < 9 * 7:
        return _ago(days // 7, "week")
    return _ago(days // 30, "month") if days < 365 else _ago(days // 365, "year")


def _ago(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'} ago"


def _line(entry: MemoryEntry, as_of: datetime) -> str:
    doubt = "" if entry.verified else " (unverified)"
    return f"- {escape(entry.content.strip())}{doubt} ({age(entry.created_at, as_of)})"


@cache
def _description() -> str:
    return prompt_file("block_memory").strip()
