"""Callers' input is made safe to store."""

import pytest

from layover.errors import InvalidRequest
from layover.values.text import json_size, reveal, sanitise, show


def test_what_moves_a_cursor_is_shown_and_the_rest_stays() -> None:
    controls = [*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0)]
    numbers = "".join(f"‹U+{n:04X}›" for n in controls)
    text = "".join(map(chr, controls))
    assert reveal(f"a{text}\t\nü\u00a0🙂\r\n") == f"a{numbers}\t\nü\u00a0🙂\n"


@pytest.mark.parametrize(
    "hidden",
    "\u00ad\u034f\u061c\u115f\u17b4\u180b\u200b\u200c\u200d\u200e\u202a\u202e\u2060\u2065\u2066\u2800\u3164"
    "\ufe0f\ufeff\uffa0\ufff0\U00016fe4\U0001d159\U000e0061\U000e0080\U000e0100\ue000\ud800",
)
def test_what_cannot_be_seen_is_shown_by_its_number(hidden: str) -> None:
    assert reveal(f"pa{hidden}y") == f"pa‹U+{ord(hidden):04X}›y"
    assert show(f"{hidden}pay") == f"‹U+{ord(hidden):04X}›pay"


@pytest.mark.parametrize(
    "text", ["می\u200cروم", "👩\u200d💻", "❤️ 1\ufe0f\u20e3", "👩🏽\u200d🚀", "क्\u200dष"]
)
def test_words_that_need_their_joiners_keep_them(text: str) -> None:
    assert reveal(text) == text


def test_marks_of_ours_in_a_text_are_not_taken_for_ours() -> None:
    assert show("‹U+202E› ⏎ ‹2 blanks›") == "‹U+2039›U+202E› ‹U+23CE› ‹U+2039›2 blanks›"


def test_ends_of_lines_and_blanks_are_counted() -> None:
    assert show(" a\r\n\nb   c\td ") == "‹1 blank›a ⏎⏎ b‹3 blanks›c‹U+0009›d‹1 blank›"


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
