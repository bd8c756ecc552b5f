"""Server-sent events, as model providers send them."""

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
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
        text = self._rest + chunk[second_half:]
        *lines, self._rest = _LINE_END.split(text) if b"\r" in text else text.split(b"\n")
        return [event for line in lines if (event := self._line(line)) is not None]

    def end(self) -> list[ServerEvent]:
        """Return the events left at the end of the stream. Some servers forget the last blank line."""
        last, self._rest = self._rest, b""
        events = [self._line(last), self._line(b"")]
        return [event for event in events if event is not None]

    def _line(self, raw: bytes) -> ServerEvent | None:
        if self._first_line:
            self._first_line = False
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
        if not raw:
            return self._dispatch()
        field, _, value = raw.partition(b":")
        if field == b"data":
            self._data.append(_decode(value))
        elif field == b"event":
            self._name = _decode(value)
        return None

    def _dispatch(self) -> ServerEvent | None:
        name, data = self._name, self._data
        self._name, self._data = "", []
        return ServerEvent(name, "\n".join(data)) if data else None


def _decode(value: bytes) -> str:
    return value.removeprefix(b" ").decode("utf-8", errors="replace")
