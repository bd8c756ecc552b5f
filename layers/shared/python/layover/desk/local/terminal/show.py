"""Lines of the terminal, in colour where it has any."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from layover.desk.local.terminal.lines import RunLines
from layover.values.text import reveal


def say(text: str, colour: str) -> None:
    """Print a text to stderr: its first line in the colour, the others dim (red if the colour is red)."""
    from rich.console import Console
    from rich.text import Text

    head, _, rest = reveal(text).partition("\n")
    line = Text(head, style=colour)
    if rest:
        line.append(f"\n{rest}", style="dim" if colour != "red" else "red")
    Console(file=sys.stderr, soft_wrap=True, highlight=False).print(line)


def say_log(text: str) -> None:
    """Print what a function has logged."""
    say(text, "red" if text.startswith(("error", "critical")) else "yellow")


_MAX_SHOWN = 5
"""Calls that have waited since before a start. Each takes about three lines, and `ready` comes below them."""


class RunWatch:
    """Prints the services' events of runs as lines. It knows the owners of open runs, because an event names
    only the run and its decision needs the owner."""

    def __init__(self, lines: RunLines) -> None:
        self._lines = lines
        self._owners: dict[str, str] = {}

    def resume(self, owners: Mapping[str, str], events: Iterable[Mapping[str, Any]]) -> None:
        """Print the newest calls that have waited since before the start, and the number of the others: runs
        (id -> owner), and all that was published."""
        self._owners |= owners
        requests: dict[tuple[Any, Any], Mapping[str, Any]] = {}
        for event in events:
            detail = event.get("detail")
            if isinstance(detail, dict) and detail.get("run_id") in owners:
                call = detail["run_id"], detail.get("tool_call_id")
                requests.pop(call, None)
                requests[call] = event
        newest = [*requests.values()][-_MAX_SHOWN:]
        self._lines.count_others(len(requests) - len(newest))
        for event in newest:
            self.on_event(event)

    def on_item(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        """Take an item that DynamoDB has stored or deleted."""
        if new is not None and "owner" in new and "thread_id" in new and "id" in new:
            self._owners[new["id"]["S"]] = new["owner"]["S"]
            if new.get("status", {}).get("S") in ("success", "failed", "cancelled"):
                self._owners.pop(new["id"]["S"])
        self._lines.on_item(old, new)

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Take an event that EventBridge has received."""
        run_id = str((event.get("detail") or {}).get("run_id", ""))
        self._lines.on_event(event, self._owners.get(run_id))
