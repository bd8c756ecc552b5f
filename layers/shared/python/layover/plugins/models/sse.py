"""Server-sent events, as model providers send them."""

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = "\ufeff"

ServerEvent = tuple[str, str]
"""One event: its name (empty for the default one) and its data lines, joined by a line feed."""


class EventParser:
    """Turns the bytes of a stream into events, however they are cut into chunks.

    Lines end in LF, CRLF or CR; comments are skipped; a character split between two chunks is
    whole again (lines are cut before they are decoded)."""

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False
        self._first_line = True
        self._name = ""
        self._data: str | None = None

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that this chunk completes."""
        second_half = self._after_cr and chunk.startswith(b"\n")
        self._after_cr = chunk.endswith(b"\r") if chunk else self._after_cr
        text = self._rest + chunk[second_half:]
        if b"\r" in text:
            text = _LINE_END.sub(b"\n", text)
        lines, end, self._rest = text.rpartition(b"\n")
        return self._events(lines) if end else []

    def end(self) -> list[ServerEvent]:
        """Return the events left at the end of the stream. Some servers forget the last blank line."""
        last, self._rest = self._rest, b""
        return self._events(last + b"\n")

    def _events(self, lines: bytes) -> list[ServerEvent]:
        """The events that these whole lines complete."""
        text = lines.decode("utf-8", errors="replace")
        if self._first_line:
            self._first_line = False
            text = text.removeprefix(_BYTE_ORDER_MARK)
        events: list[ServerEvent] = []
        # The only reference, so that Python lets a text of many lines grow in place.
        data, self._data = self._data, None
        for line in text.split("\n"):
            if line[:5] == "data:" or line == "data":
                value = line[6:] if line[5:6] == " " else line[5:]
                if data is None:
                    data = value
                else:
                    data += "\n" + value
            elif line[:6] == "event:" or line == "event":
                self._name = line[6:].removeprefix(" ")
            elif not line:
                if data is not None:
                    events.append((self._name, data))
                data, self._name = None, ""
        self._data = data
        return events
