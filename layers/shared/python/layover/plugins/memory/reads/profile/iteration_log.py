"""Earlier attempts (docs/behaviour.md#iteration-log), as the next attempt at the same task reads them."""

from collections.abc import Iterable

from layover.plugins.memory.text.escape import escape
from layover.values.memory.context import LoggedAttempt

MAX_RESULT = 200
"""Characters of a result; an error is never cut."""


def previous_attempts(attempts: Iterable[LoggedAttempt]) -> str:
    """Return the `<previous-attempts>` block, "" without attempts. Attempts at more than one task stand below
    their tasks."""
    by_task: dict[str, list[LoggedAttempt]] = {}
    for attempt in attempts:
        by_task.setdefault(attempt.task, []).append(attempt)
    if not by_task:
        return ""
    lines: list[str] = []
    for task, log in by_task.items():
        lines += [f"Task: {escape(task)}"] if len(by_task) > 1 else []
        lines += [attempt_line(a) for a in log]
    return "\n".join(["<previous-attempts>", *lines, "</previous-attempts>"])


def attempt_line(attempt: LoggedAttempt) -> str:
    """Return `Attempt N: action → result`, with diagnosis and fix if they are known."""
    outcome = _cut(attempt.result) if attempt.error is None else f"error: {attempt.error}"
    line = f"Attempt {attempt.attempt}: {attempt.action} → {outcome}"
    if attempt.diagnosis:
        line += f" (diagnosis: {attempt.diagnosis})"
    if attempt.fix_applied:
        line += f" (fix: {attempt.fix_applied})"
    return escape(line)


def _cut(result: str | None) -> str:
    if result is None:
        return "no result"
    return result if len(result) <= MAX_RESULT else result[: MAX_RESULT - 1] + "…"
