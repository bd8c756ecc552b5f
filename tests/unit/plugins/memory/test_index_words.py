"""Words by which texts of any language are stored and found."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layover.plugins.memory.text.index_words import alternatives, has_term, index_words, query_terms
from layover.plugins.memory.text.words import words
from support.examples import examples
from support.word_pairs import PAIRS


@pytest.mark.parametrize("text", ["", "  ", "?!\u2026", "\0", "'"])
def test_a_text_without_words_has_none(text: str) -> None:
    assert index_words(text) == query_terms(text) == []


@pytest.mark.parametrize(("language", "question", "text", "word"), PAIRS)
def test_an_inflected_word_finds_another_form(
    language: str, question: str, text: str, word: str
) -> None:
    (term,) = query_terms(word)
    assert term in query_terms(question)
    assert has_term(index_words(text), term)


@pytest.mark.parametrize(("language", "question", "text", "word"), PAIRS)
def test_a_word_does_not_find_the_texts_about_something_else(
    language: str, question: str, text: str, word: str
) -> None:
    (term,) = query_terms(word)
    others = [t for each, _, t, w in PAIRS if each == language and w != word]
    assert not any(has_term(index_words(other), term) for other in others)


ENGLISH = "I was told that the lamps of Mario would visit us in their car when it is warm"


def test_words_of_an_english_text_are_cut_as_english_ones() -> None:
    assert index_words(ENGLISH) == words(ENGLISH)
    assert has_term(index_words(ENGLISH), *query_terms("lamp"))
    assert not has_term(index_words(ENGLISH), *query_terms("Maria"))


@pytest.mark.parametrize(
    "text", ["Die H\u00e4user sind alt.", "we met at the caf\u00e9", "\u0451\u043b\u043a\u0430"]
)
def test_what_an_earlier_release_stored_is_found_by_the_same_words(text: str) -> None:
    assert all(
        has_term([word], term) for word, term in zip(words(text), query_terms(text), strict=True)
    )


@pytest.mark.parametrize(
    ("text", "query"),
    [("Das Cafe am See", "Caf\u00e9"), ("we met at the caf\u00e9 and it was nice", "cafe")],
)
def test_accents_make_no_difference(text: str, query: str) -> None:
    assert has_term(index_words(text), *query_terms(query))


@pytest.mark.parametrize(
    "forms",
    [
        ("\u06a9\u062a\u0627\u0628", "\u0643\u062a\u0627\u0628"),
        ("\u0639\u0644\u06cc", "\u0639\u0644\u064a", "\u0639\u0644\u0649"),
        ("\u0642\u06c1\u0648\u06c1", "\u0642\u0647\u0648\u0647", "\u0642\u0647\u0648\u0629"),
    ],
    ids=["kaf", "yeh", "heh"],
)
def test_a_letter_of_arabic_is_the_same_on_every_keyboard(forms: tuple[str, ...]) -> None:
    assert all(has_term(index_words(a), *query_terms(b)) for a in forms for b in forms)


def test_codes_and_numbers_are_whole() -> None:
    assert index_words("E1102 42 b2b") == query_terms("E1102 42 b2b") == ["e1102", "42", "b2b"]


@examples(300)
@given(st.text(max_size=80))
@example("\u0640")
def test_whatever_is_stored_is_found_by_its_own_words(text: str) -> None:
    stored = index_words(text)
    terms = query_terms(text)
    assert len(stored) == len(terms)
    assert all(has_term([word], term) for word, term in zip(stored, terms, strict=True))
    for word in (*stored, *alternatives(terms)):
        assert word
        assert not set(word) & set(" |&!():*'<>\\")
        assert len(word.encode()) <= 300
