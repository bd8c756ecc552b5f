"""Callers' input is made safe to store."""

import pytest

from layover.errors import InvalidRequest
from layover.values.text import drop_controls, json_size, sanitise


def test_what_moves_a_cursor_is_dropped_and_the_rest_stays() -> None:
    controls = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))
    assert drop_controls(f"a{controls}ü\u00a0🙂\r\n") == "a\t\nü\u00a0🙂\n"


def test_nesting_without_end_is_refused() -> None:
    deep: object = "x"
    for _ in range(200):
        deep = [deep]
    with pytest.raises(InvalidRequest) as refusal:
        sanitise(deep)
    assert [(e["loc"], e["type"]) for e in refusal.value.errors] == [(["body"], "too_deep")]


@pytest.mark.parametrize("leaf", [1, "x", None])
def test_a_hundred_levels_of_nesting_are_the_most(leaf: object) -> None:
    deep: object = leaf
    for _ in range(100):
        deep = [deep]
    assert sanitise(deep) == deep
    with pytest.raises(InvalidRequest):
        sanitise({"x": deep})


def test_nul_and_lone_surrogates_become_the_replacement_character_everywhere() -> None:
    dirty = {"a\x00": ["b\ud800c", {"d": "\udfff"}], "n": 1, "t": True, "z": None}
    assert sanitise(dirty) == {"a�": ["b�c", {"d": "�"}], "n": 1, "t": True, "z": None}


def test_text_beyond_the_basic_plane_stays_as_it_is() -> None:
    assert sanitise("héllo 😀 漢字") == "héllo 😀 漢字"


def test_size_counts_bytes_of_utf_8() -> None:
    assert json_size("é") == 4
