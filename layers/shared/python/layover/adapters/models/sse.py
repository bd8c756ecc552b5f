"""Server-sent events, as model providers send them."""

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True)
class ServerEvent:
    """One event: its name (empty for the default one) and its data lines, joined by a line feed."""

    name: str
    data: str


class EventParser:
    """Turns the bytes of a stream into events, however they are cut into chunks.

    Lines end in LF, CRLF or CR; comments are skipped; a character split between two chunks is
    whole again (lines are cut before they are decoded)."""

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False
        self._first_line = True
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that this chunk completes."""
        second_half = self._after_cr and chunk.startswith(b"\n")
        self._after_cr = chunk.endswith(b"\r") if chunk else self._after_cr
        *lines, self._rest = _LINE_END.split(self._rest + chunk[second_half:])
        return [event for line in lines if (event := self._line(line)) is not None]

    def end(self) -> list[ServerEvent]:
        """Return the events left at the end of the stream. Some servers forget the last blank line."""
        last, self._rest = self._rest, b""
        events = [self._line(last), self._line(b"")]
        return [event for event in events if event is not None]

    def _line(self, raw: bytes) -> ServerEvent | None:
        line = raw.decode("utf-8", errors="replace")
        if self._first_line:
            self._first_line = False
            line = line.removeprefix("\ufeff")
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data = "", []
        return ServerEvent(name, "\n".join(data)) if data else None
