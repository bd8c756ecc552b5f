"""The output of this process, which nobody has to read: a reader that leaves or stalls, and a full disk, cost
lines and nothing else."""

import atexit
import io
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

logger = logging.getLogger(__name__)

_MAX_WAITING = 10_000
"""Writes that wait for a reader that has stalled. Later ones are dropped."""
_LAST_WORDS_S = 3.0
"""Seconds that the end of the process waits for such a reader."""
_LACKING = "backslashreplace"
"""Python's name for what becomes of a letter that an encoding lacks."""
Write = Callable[[int, bytes], None]


def write_or_drop(descriptor: int, data: bytes) -> None:
    """Write all of `data`, or drop what the system does not take."""
    with suppress(OSError):
        while data:
            data = data[os.write(descriptor, data) :]


def keep_output_harmless(write: Write = write_or_drop) -> None:
    """Replace stdout and stderr by streams whose writes raise nothing. Streams that are not files (those of a
    test) stay. A stream that was closed at the start becomes one that drops everything."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _harmless(sys.stdout, write), _harmless(sys.stderr, write)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream in before:
            handler.setStream(sys.stderr if handler.stream is before[1] else sys.stdout)


def take_every_letter() -> None:
    """Have stdout and stderr write a letter that the console's encoding lacks as its number (`\\u5e97`), in
    place of raising: what a command has done by then may have cost money."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_LACKING)


def write_in_background() -> Write:
    """Return a writer that never blocks its callers. What a stalled reader leaves unread waits for it, up to
    10,000 writes."""
    waiting: queue.Queue[tuple[int, bytes]] = queue.Queue(_MAX_WAITING)

    def write_forever() -> None:
        while True:
            write_or_drop(*waiting.get())
            waiting.task_done()

    def write(descriptor: int, data: bytes) -> None:
        with suppress(queue.Full):
            waiting.put_nowait((descriptor, data))

    def finish() -> None:
        # `join` without its missing time limit; no thread can be started any more.
        with waiting.all_tasks_done:
            waiting.all_tasks_done.wait_for(lambda: not waiting.unfinished_tasks, _LAST_WORDS_S)

    threading.Thread(target=write_forever, name="output", daemon=True).start()
    atexit.register(finish)
    return write


def open_log(log: Path) -> IO[bytes]:
    """Open a log to append to it. If that cannot be, say so and return a file that drops everything: whoever
    writes the log works without it."""
    try:
        return log.open("ab")
    except OSError as error:
        logger.warning("%s cannot be written (%s): what belongs there is lost", log, error)
        return open(os.devnull, "ab")


class _Harmless(io.RawIOBase):
    """A file that takes everything."""

    def __init__(self, descriptor: int, write: Write) -> None:
        self._descriptor = descriptor
        self._write = write

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        copy = bytes(data)
        self._write(self._descriptor, copy)
        return len(copy)


def _harmless(stream: Any, write: Write) -> Any:
    if stream is None:
        # Its number may belong to another file by now.
        return open(os.devnull, "w", encoding="utf-8")
    try:
        descriptor = stream.fileno()
        stream.flush()
    except ValueError:
        return stream  # io.UnsupportedOperation: not a file.
    except OSError:
        descriptor = stream.fileno()
    raw: Any = _Harmless(descriptor, write)
    unbuffered = getattr(stream, "write_through", False)
    return io.TextIOWrapper(
        raw,
        stream.encoding,
        _LACKING,
        line_buffering=True,
        write_through=unbuffered,
    )
