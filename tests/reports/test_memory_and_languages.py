"""What is remembered and found in other scripts and languages."""

import json
from datetime import UTC, datetime

import pytest

from layover import Agent, Memory
from layover.inmemory.model import ScriptedModel, say
from layover.plugins.memory.learns.extract import extract
from layover.plugins.memory.learns.titles import parse_title, title_prompt
from layover.plugins.memory.text.excerpts import excerpt
from layover.plugins.memory.text.index_words import (
    alternatives,
    has_term,
    index_words,
    query_terms,
)
from layover.values.message import Message, Role, TextPart
from layover.values.note import profile_key
from reports import Found, report
from support.worlds.runs import ANN, Bench

HINDI = "मुझे चाय पसंद है और मैं हर सुबह पीता हूँ। " * 20
FRENCH = "Nous aimons le thé et le pain noir. " * 20
TURKISH = "Her sabah çay içerim ve ekmek yerim. " * 20


def finds(query: str, text: str) -> bool:
    """Whether each word of a query is one of a stored text."""
    stored = index_words(text)
    return all(has_term(stored, term) for term in query_terms(query))


def shown(query: str, text: str) -> str:
    """What a prompt shows of a long text that was found."""
    return excerpt(text, alternatives(query_terms(query)), 60)


@report("RasaHQ/rasa#5998, DeytaHQ/khora#1388", Found.MENDED)
def test_a_hindi_word_is_one_word_where_it_is_found_and_where_it_is_shown() -> None:
    """A long Hindi text is found by a word with vowel signs, and shown around that word."""
    text = f"{HINDI}मेरी बहन हैदराबाद में रहती है। {HINDI}"
    assert finds("हैदराबाद", text)
    assert "हैदराबाद" in shown("हैदराबाद", text)


@report("vshulcz/deja-vu#1098", Found.MENDED)
def test_an_accent_of_its_own_is_the_same_letter() -> None:
    """A text with accents as macOS writes them (apart from their letter), or in full width, is found and
    shown by the usual form."""
    text = f"{FRENCH}Le cafe\u0301 E\u0301lyse\u0301e est ferme\u0301 lundi. {FRENCH}"
    assert finds("café Élysée", text)
    assert "lyse\u0301e" in shown("Élysée", text)
    assert finds("ABC123", "予約番号は\uff21\uff22\uff23\uff11\uff12\uff13です")


@report(
    "TarteelAI/quranic-universal-library#749, mapbox/carmen#625, fisharebest/webtrees#5262",
    Found.MENDED,
)
@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("كتاب", "این کتاب را خواندم"),
        ("علي", "علی در تهران زندگی می‌کند"),
        ("تبریز", "تبريز مدينة جميلة"),
        ("القهوه", "أنا أحب القهوة"),
        ("مصطفي", "اسمي مصطفى"),
    ],
)
def test_a_keyboard_of_another_language_writes_the_same_arabic_word(query: str, text: str) -> None:
    """A word that the keyboards of Persian and of Arabic write with other letters of the same look, or with
    another ending of the same sound, is found by either."""
    assert finds(query, text)


@report("DominoKit/domino-ui#1099, 4gray/iptvnator#609", Found.RIGHT)
def test_a_turkish_capital_with_a_dot_is_found_and_shown() -> None:
    """`istanbul` and `İSTANBUL` find `İstanbul`, and the text is shown around it, though it is longer in
    lower case."""
    text = f"{TURKISH}Kardeşim İstanbul'da oturuyor. {TURKISH}"
    for query in ("istanbul", "İSTANBUL"):
        assert finds(query, text)
        assert "İstanbul'da" in shown(query, text)


@report("danny-avila/LibreChat#9162", Found.RIGHT)
def test_a_title_is_asked_for_in_the_language_of_the_message() -> None:
    """The title of a conversation that begins in Japanese is asked for in its language, and taken as it
    is."""
    message = Message(
        id="m",
        thread_id="t",
        role=Role.USER,
        content=(TextPart(text="京都への三日間の旅行を計画してください"),),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert "in the language of the message" in str(title_prompt("m", message).system)
    assert parse_title("「京都三日間の旅」") == "「京都三日間の旅」"


@report("mem0ai/mem0#3707, mem0ai/mem0#1817", Found.RIGHT)
async def test_facts_stay_in_the_language_in_which_they_were_said() -> None:
    """Facts of a Chinese conversation are asked for in the user's language and kept as they were said."""
    fact = {"key": "city", "content": "住在成都", "evidence": "我上个月搬到成都了"}
    model = ScriptedModel(
        lambda _: say("好的"), background={"profile": [say(json.dumps({"facts": [fact]}))]}
    )
    memory = Memory(titles=False, profile=True)
    world = Bench(Agent("helper", memory=memory), model)
    run = await world.go("请记住\uff0c我上个月搬到成都了")
    await extract(world.plain, world.payload(run.id))
    (asked,) = [prompt for prompt in model.prompts if prompt.task == "profile"]
    assert "in the user's language" in str(asked.system)
    (note,) = await world.plain.memory.read_notes(ANN, [profile_key("helper")])
    assert "住在成都" in json.dumps(note.value, ensure_ascii=False)


@report("block/buzz#5996, elizaOS/eliza#23662", Found.MENDED, held_back=True)
@pytest.mark.parametrize(
    "picture",
    ["\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "हि", "e\u0301"],
)
def test_a_title_is_cut_between_what_people_see_as_characters(picture: str) -> None:
    """A title that is too long ends before a family of joined pictures, a coloured hand or a letter with its
    mark, and never within one."""
    for before in range(80 - len(picture) + 1, 80):
        assert parse_title("x" * before + picture + " and more") == "x" * before


@report("bug-ops/zeph#1129, JKHeadley/instar#1691", Found.RIGHT, held_back=True)
@pytest.mark.parametrize(
    "query",
    ["the bot's messages", "pre-edit & (C++ | !x):*", "src/auth.rs", "AND OR NOT", "'", '"a', "\\"],
)
def test_signs_of_a_query_language_are_no_part_of_a_query(query: str) -> None:
    """A question with apostrophes, hyphens and operators asks for its words only."""
    for term in query_terms(query):
        assert all(word.replace("\u01c0", "").isalnum() for word in term.split("|"))
    assert finds(query, f"they said: {query}!")
