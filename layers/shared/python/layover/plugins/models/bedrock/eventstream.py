"""The frames that AWS streams events in (`application/vnd.amazon.eventstream`).

By hand: botocore's parser comes with what the import of botocore costs (docs/performance.md#cold-starts); it
is the reference of the tests. https://docs.aws.amazon.com/transcribe/latest/dg/event-stream.html"""

import struct
from typing import NamedTuple
from zlib import crc32

_PRELUDE = struct.Struct("!III")
"""Length of the frame, length of its headers, checksum of these 8 bytes."""
_CRC = struct.Struct("!I")
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type: true, false, byte, short, int, long, time, UUID."""
_BYTES, _TEXT = 6, 7
MAX_FRAME = 24 * 1024 * 1024 + 128 * 1024
"""Bytes: AWS's limits of a payload and its headers."""


class Damaged(Exception):
    """The bytes received are not a frame: a checksum does not match, or a length is impossible."""


class Frame(NamedTuple):
    """One event. `headers`: those that are text."""

    headers: dict[str, str]
    payload: bytes


class FrameParser:
    """Turns the bytes of a stream into frames, however they are cut into chunks."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that this chunk completes. Raises Damaged."""
        self._buffer += chunk
        frames: list[Frame] = []
        while (size := self._size()) is not None and len(self._buffer) >= size:
            frames.append(_frame(bytes(self._buffer[:size])))
            del self._buffer[:size]
        return frames

    @property
    def is_empty(self) -> bool:
        """True between frames, False in the middle of one."""
        return not self._buffer

    def _size(self) -> int | None:
        """Bytes of the next frame, once its beginning is there."""
        if len(self._buffer) < _PRELUDE.size:
            return None
        size, headers, checksum = _PRELUDE.unpack_from(self._buffer)
        if crc32(self._buffer[:8]) != checksum:
            raise Damaged("the checksum of a frame's beginning does not match")
        if not _PRELUDE.size + headers + _CRC.size <= size <= MAX_FRAME:
            raise Damaged("a frame has impossible lengths")
        return int(size)


def _frame(data: bytes) -> Frame:
    (checksum,) = _CRC.unpack_from(data, len(data) - _CRC.size)
    if crc32(data[: -_CRC.size]) != checksum:
        raise Damaged("the checksum of a frame does not match")
    begin = _PRELUDE.size + _PRELUDE.unpack_from(data)[1]
    try:
        headers = _headers(data[_PRELUDE.size : begin])
    except (IndexError, KeyError, struct.error, UnicodeDecodeError) as error:
        raise Damaged("the headers of a frame cannot be read") from error
    return Frame(headers, data[begin : -_CRC.size])


def _headers(data: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    while at < len(data):
        end = at + 1 + data[at]
        name, kind = data[at + 1 : end].decode(), data[end]
        at = end + 1
        if kind not in (_BYTES, _TEXT):
            at += _FIXED[kind]
            continue
        (length,) = struct.unpack_from("!H", data, at)
        at += 2
        if kind == _TEXT:
            headers[name] = data[at : at + length].decode()
        at += length
    if at > len(data):
        raise IndexError
    return headers
