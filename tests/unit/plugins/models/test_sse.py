"""The parser of server-sent events."""

import pytest

from layover.plugins.models.sse import EventParser, ServerEvent


def parsed(*chunks: bytes) -> list[ServerEvent]:
    parser = EventParser()
    return [e for chunk in chunks for e in parser.feed(chunk)] + parser.end()


def data(*chunks: bytes) -> list[str]:
    return [data for _, data in parsed(*chunks)]


def test_comments_and_unknown_fields_are_skipped() -> None:
    assert data(b": PROCESSING\n\n: x\nid: 7\nretry: 5\ndata: a\n\n") == ["a"]


def test_an_event_without_data_is_none() -> None:
    assert parsed(b"event: ping\n\n\n\n") == []


def test_name_of_an_event_without_data_is_not_the_next_ones() -> None:
    assert parsed(b"event: error\n\ndata: a\n\n") == [("", "a")]


def test_invalid_utf8_does_not_end_the_stream() -> None:
    assert data(b"data: a\xffb\n\n") == ["a\ufffdb"]


def test_the_last_event_counts_without_its_blank_line() -> None:
    assert data(b"data: [DONE]") == ["[DONE]"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_of_the_standard_is_understood(end: bytes) -> None:
    stream = end.join([b"data: one", b"data: two", b"", b"event: error", b"data:three", b"", b""])
    assert parsed(stream) == [("", "one\ntwo"), ("error", "three")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_the_cuts_between_chunks_do_not_matter(end: bytes) -> None:
    lines = ["data: größe 🎉", "data: x", "", ": note", "data: 東京", "", "data: [DONE]", "", ""]
    stream = end.join(line.encode() for line in lines)
    whole = data(stream)
    assert whole == ["größe 🎉\nx", "東京", "[DONE]"]
    assert data(*(stream[i : i + 1] for i in range(len(stream)))) == whole
    for cut in range(len(stream)):
        assert data(stream[:cut], b"", stream[cut:]) == whole


def test_a_byte_order_mark_is_no_part_of_the_first_field() -> None:
    assert data(b"\xef\xbb\xbfdata: a\n\n") == ["a"]


def test_only_one_blank_is_cut_from_a_value() -> None:
    assert data(b"data:  a\n\n") == [" a"]
