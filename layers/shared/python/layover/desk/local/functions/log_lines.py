"""Repeats the functions' failures in the terminal, because their logs are files."""

import asyncio
import json
import linecache
import logging
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from layover.values.text import reveal

logger = logging.getLogger(__name__)

POLL_INTERVAL = timedelta(milliseconds=250)
_MAX_BYTES = 1_000_000
"""Bytes that one look reads; the next look continues with a long log."""
_LEVELS = frozenset({"WARNING", "ERROR", "CRITICAL"})
_FIELDS = ("error", "says", "cause", "run_id", "request_id")


class LogWatch:
    """Follows the functions' logs from their present ends."""

    def __init__(self, logs: list[Path], say: Callable[[str], object] | None = None) -> None:
        self._read = {log: log.stat().st_size if log.exists() else 0 for log in logs}
        self._say = say or _print
        self._about_agents: set[str] = set()

    async def follow(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(POLL_INTERVAL.total_seconds())
            try:
                self.look()
            except Exception:
                logger.exception("the functions' logs could not be looked at; the next look comes")

    def look(self) -> None:
        """Print the lines logged since the last look."""
        for log in self._read:
            for line in self._new(log):
                entry = format_entry(log.stem, line)
                if entry is None or entry.text in self._about_agents:
                    continue
                if entry.is_about_agent:
                    # Each process of each function logs the warning; once is enough for a reader.
                    self._about_agents.add(entry.text)
                self._say(entry.text)

    def _new(self, log: Path) -> list[bytes]:
        try:
            with log.open("rb") as file:
                file.seek(self._read[log])
                data = file.read(_MAX_BYTES)
        except OSError:
            return []
        # A line that is still being written waits for the next look, which finds it whole.
        whole = len(data) if len(data) == _MAX_BYTES else data.rfind(b"\n") + 1
        self._read[log] += whole
        return data[:whole].splitlines()


class LogEntry(NamedTuple):
    """A warning as the terminal shows it."""

    text: str
    is_about_agent: bool
    """True for a text that names neither a function nor a run, because it holds for all."""


def format_entry(function: str, line: bytes) -> LogEntry | None:
    """Return the terminal's text of a logged line; None if the line is not a warning of Layover's."""
    try:
        entry: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("level") not in _LEVELS:
        return None
    if entry.get("agent"):
        text = f"warning: agent {entry['agent']}: {entry.get('message')}"
        return LogEntry(text, is_about_agent=True)
    fields = [f"{name}={entry[name]}" for name in _FIELDS if entry.get(name)]
    first = (
        f"{entry['level'].lower()} {function}: {entry.get('message')} {' '.join(fields)}".rstrip()
    )
    where = entry.get("where")
    text = "\n".join([first, *map(_frame, where)] if isinstance(where, list) else [first])
    return LogEntry(text, is_about_agent=False)


def _frame(at: str) -> str:
    """Return `FILE:LINE FUNCTION` as the terminal shows it, with the source line if the file is on this
    machine."""
    file, _, rest = at.rpartition(":")
    number, _, _ = rest.partition(" ")
    linecache.checkcache(file)
    source = linecache.getline(file, int(number)).strip() if number.isdigit() else ""
    return f"    {at}\n        {source}" if source else f"    {at}"


def _print(text: str) -> None:
    print(reveal(text), file=sys.stderr, flush=True)
