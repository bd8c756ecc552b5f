"""The events of Bedrock's streams, whatever the pieces in which their frames come."""

import struct
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from layover.errors import INVALID_RESPONSE
from layover.plugins.models.bedrock.converse import _events
from layover.plugins.models.faults import ProviderFault
from support.examples import examples
from support.providers.converse import event, frame

names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)
frames = st.tuples(
    st.dictionaries(names, st.text(max_size=30), max_size=4), st.binary(max_size=200)
)


@examples(60)
@given(st.lists(st.text(max_size=30), max_size=4), st.data())
def test_events_are_the_same_however_their_frames_are_cut(
    texts: list[str], data: st.DataObject
) -> None:
    whole = b"".join(event("contentBlockDelta", text=text) for text in texts)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=5).map(sorted))
    buffer = EventStreamBuffer()
    found = [
        each
        for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)
        for each in _events(buffer, whole[begin:end])
    ]
    wanted = [{"contentBlockDelta": {"text": text, "p": "abcdefgh"}} for text in texts]
    assert found == wanted


@examples(60)
@given(frames, st.data())
def test_damaged_frame_is_never_taken_for_another(
    wanted: tuple[dict[str, str], bytes], data: st.DataObject
) -> None:
    whole = bytearray(frame(*wanted))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ProviderFault, match="cannot be read") as caught:
        # A length that grew waits for what does not come, unless its own checksum speaks first.
        list(_events(EventStreamBuffer(), bytes(whole)))
    assert caught.value.error.type == INVALID_RESPONSE


@pytest.mark.parametrize("lengths", [(0, 0), (15, 0), (16, 1), (2**32 - 1, 0), (40, 2**32 - 1)])
def test_impossible_lengths_are_a_fault(lengths: tuple[int, int]) -> None:
    prelude = struct.pack("!II", *lengths)
    whole = prelude + struct.pack("!I", crc32(prelude)) + bytes(100)
    with pytest.raises(ProviderFault, match="cannot be read"):
        list(_events(EventStreamBuffer(), whole))


def test_part_of_a_frame_waits_for_the_rest() -> None:
    buffer, whole = EventStreamBuffer(), event("messageStop", stopReason="end_turn")
    assert list(_events(buffer, whole[:-1])) == []
    (found,) = _events(buffer, whole[-1:])
    assert found == {"messageStop": {"stopReason": "end_turn", "p": "abcdefgh"}}
