"""Words as full text search knows them."""

import pytest

from layover.plugins.memory.text.words import MAX_CHARACTERS, english_stem, spans, words


@pytest.mark.parametrize("text", ["", "  \n", "?!… — “”", "👍🏽", "\0\u200b"])
def test_a_text_without_words_has_none(text: str) -> None:
    assert words(text) == []


def test_a_long_text_is_cut() -> None:
    assert len(words("ab " * MAX_CHARACTERS)) <= MAX_CHARACTERS / 3 + 1
    assert all(len(word) <= 64 for word in words("a" * 500))


@pytest.mark.parametrize("letter", ["\u0e01", "\u0eaa", "か", "\U00020000", "\u0e31", "a", "ह"])
def test_marks_without_end_make_no_long_word(letter: str) -> None:
    made = words(f"{letter}{chr(0x0E31) * 3_000}{letter}{chr(0x3099) * 3_000} good day")
    assert made[-2:] == ["good", "day"]
    assert all(len(word.encode()) <= 256 for word in made)


@pytest.mark.parametrize(
    "forms",
    [
        ("run", "running", "runs"),
        ("city", "cities"),
        ("stop", "stopped", "stopping"),
        ("race", "races", "raced", "racing"),
        ("happy", "happily"),
        ("box", "boxes"),
        ("kid", "kids", "kid's", "KIDS"),
        ("class", "classes"),
        ("café", "CAFÉ", "cafe\u0301"),
        ("don't", "do", "don\u2019t"),
    ],
)
def test_forms_of_a_word_are_one(forms: tuple[str, ...]) -> None:
    assert len({tuple(words(form)) for form in forms}) == 1


@pytest.mark.parametrize("word", ["this", "bus", "sing", "red", "bring", "news"])
def test_a_short_word_is_not_cut_to_pieces(word: str) -> None:
    assert len(english_stem(word)) >= 3


def test_punctuation_and_case_make_no_difference() -> None:
    assert words("Hey, Mel! (8 May 2023)") == ["hey", "mel", "8", "may", "2023"]


def test_scripts_without_blanks_are_indexed_by_pairs() -> None:
    assert words("ไทย") == ["ไท", "ทย"]
    assert words("すし") == ["すし"]
    assert words("北京大") == ["北京", "京大", "北", "京", "大"]


def test_marks_stay_with_their_letters() -> None:
    assert words("हिन्दी भाषा") == ["हिन्दी", "भाषा"]
    assert words("ที่นี่") == ["ที่นี่"]


def test_spans_say_where_a_word_stands() -> None:
    assert spans("Is Ann here?") == [(0, 2, "is"), (3, 6, "ann"), (7, 12, "her")]
