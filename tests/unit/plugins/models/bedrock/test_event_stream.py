"""The frames of AWS's event streams, read as botocore reads them."""

import struct
from typing import Any
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from layover.plugins.models.bedrock.eventstream import Damaged, Frame, FrameParser
from support.examples import examples
from support.providers.converse import event, frame

names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)
frames = st.tuples(
    st.dictionaries(names, st.text(max_size=30), max_size=4), st.binary(max_size=200)
)

# One of each kind of header, as botocore's own tests have them: (bytes, value).
KINDS = {
    "true": b"\x00",
    "false": b"\x01",
    "byte": b"\x02\xff",
    "short": b"\x03\xff\xff",
    "int": b"\x04" + b"\xff" * 4,
    "long": b"\x05" + b"\xff" * 8,
    "bytes": b"\x06\x00\x02\xff\xff",
    "time": b"\x08" + b"\x00" * 8,
    "uuid": b"\x09" + b"\x07" * 16,
}


def theirs(data: bytes) -> list[Frame]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [Frame(_text(m.headers), m.payload) for m in buffer]


def _text(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if isinstance(value, str)}


@examples(60)
@given(st.lists(frames, max_size=4), st.data())
def test_frames_are_what_botocore_reads_however_they_are_cut(
    wanted: list[tuple[dict[str, str], bytes]], data: st.DataObject
) -> None:
    whole = b"".join(frame(headers, payload) for headers, payload in wanted)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=5).map(sorted))
    parser = FrameParser()
    found = [
        each
        for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)
        for each in parser.feed(whole[begin:end])
    ]
    assert found == theirs(whole) == [Frame(*each) for each in wanted]


@examples(60)
@given(frames, st.data())
def test_damaged_frame_is_never_taken_for_another(
    wanted: tuple[dict[str, str], bytes], data: st.DataObject
) -> None:
    whole = bytearray(frame(*wanted))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Damaged):
        # A length that grew waits for what does not come, unless its own checksum speaks first.
        FrameParser().feed(bytes(whole))


@pytest.mark.parametrize("kind", KINDS)
def test_header_that_is_no_text_is_passed_over(kind: str) -> None:
    header = b"\x01a" + KINDS[kind] + b"\x01b\x07\x00\x02hi"
    prelude = struct.pack("!II", len(header) + 17, len(header))
    prelude += struct.pack("!I", crc32(prelude))
    body = prelude + header + b"x"
    data = body + struct.pack("!I", crc32(body))
    assert FrameParser().feed(data) == theirs(data) == [Frame({"b": "hi"}, b"x")]


def test_part_of_a_frame_waits_for_the_rest() -> None:
    parser, whole = FrameParser(), event("messageStop", stopReason="end_turn")
    assert parser.feed(whole[:-1]) == []
    (found,) = parser.feed(whole[-1:])
    assert found.headers[":event-type"] == "messageStop"
