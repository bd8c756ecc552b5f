"""Entries that a model wrote in its prompt's language instead of the user's (docs/behaviour.md#evidence)."""

import json

import pytest

from layover import EpisodicMemory
from layover.plugins.memory.learns.rules import Candidate, check_entries
from layover.values.message import Role
from unit.plugins.memory.test_entries import message

SAID = {
    "de": "Seit dem Umzug nach Fulda kommt jede zweite Palette ohne Lieferschein an.",
    "fr": "Le capteur Vega a remplacé le capteur Lyra dans la serre.",
    "es": "La cámara del sótano gasta más que la de la tienda desde agosto.",
    "pl": "Sterownik bramy w hali B restartuje się co dwie godziny.",
    "tr": "Depodaki yazıcı güncellemeden sonra etiketleri ters basıyor.",
    "ru": "Насос в теплице гудит с самой оттепели.",
    "el": "Η αντλία του θερμοκηπίου βουίζει μετά τον παγετό.",
    "ja": "千葉支店が本社の倉庫システムへ在庫ファイルを送ります。",
    "ko": "온실 펌프가 해빙 이후 계속 소음을 냅니다.",
    "hi": "ग्रीनहाउस का पंप बर्फ़ पिघलने के बाद से गूँज रहा है।",
}
ENGLISH = "The pump of the greenhouse has been humming since the thaw, and it is still not fixed."


def kept(content: str, evidence: str, *said: str) -> list[Candidate]:
    """What is kept of a turn whose user said `said`, or else the evidence."""
    item = {"evidence": evidence, "kind": "symptom", "content": content}
    turn = [message(text, id=f"m{n}") for n, text in enumerate(said or (evidence,))]
    answer = json.dumps({"entries": [item]})
    return check_entries(answer, turn, EpisodicMemory(), trusted=True).candidates


@pytest.mark.parametrize("language", SAID)
def test_a_translation_is_kept_in_the_users_own_words(language: str) -> None:
    (entry,) = kept(ENGLISH, SAID[language])
    assert entry.content == SAID[language]


def test_a_translated_part_has_its_whole_sentence() -> None:
    (entry,) = kept(ENGLISH, "kommt jede zweite Palette", SAID["de"])
    assert entry.content == SAID["de"]


@pytest.mark.parametrize("language", SAID)
def test_a_content_in_the_users_language_stays_as_it_was_written(language: str) -> None:
    content = SAID[language].rstrip(".。।") + " (2)."
    (entry,) = kept(content, SAID[language], f"{SAID[language]} 2")
    assert entry.content == content


def test_english_stays_where_any_text_of_the_conversation_is_english() -> None:
    (entry,) = kept(ENGLISH, SAID["de"], SAID["de"], "it is what I said to them before")
    assert entry.content == ENGLISH


def test_english_stays_where_the_assistant_answers_in_english() -> None:
    turn = [
        message(SAID["de"], id="m0"),
        message("I will look at it for you.", Role.ASSISTANT, "m1"),
    ]
    answer = json.dumps({"entries": [{"evidence": SAID["de"], "content": ENGLISH}]})
    (entry,) = check_entries(answer, turn, EpisodicMemory(), trusted=True).candidates
    assert entry.content == ENGLISH


def test_a_translation_whose_quote_cannot_be_used_is_kept() -> None:
    """A question is nobody's statement; nothing is lost for its language."""
    question = "Warum brummt die Pumpe seit dem Tauwetter?"
    (entry,) = kept(ENGLISH, question)
    assert entry.content == ENGLISH


def test_a_content_of_names_and_numbers_is_in_no_language() -> None:
    (entry,) = kept("Vega, Lyra: 41 kWh", SAID["fr"], f"{SAID['fr']} 41 kWh")
    assert entry.content == "Vega, Lyra: 41 kWh"
