"""Observations that say the same again: the later one is kept, and nothing that was noted is lost."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.plugins.memory.condenses.observation_lines import latest, without_repetition
from layover.values.memory.compaction import Marker, Observation
from support.worlds.observations import observation


class Told(NamedTuple):
    """A line, one that goes on where it ends, and one that says something else of the same."""

    line: str
    more: str
    other: str


TOLD = {
    "Polish": Told(
        "Użytkownik chce pojechać do Wiednia",
        "Użytkownik chce pojechać do Wiednia w maju z Leonem.",
        "Użytkownik chce pojechać do Pragi",
    ),
    "Hungarian": Told(
        "A felhasználó májusban Bécsbe akar utazni.",
        "A felhasználó májusban Bécsbe akar utazni, Leóval együtt.",
        "A felhasználó májusban Prágába akar utazni.",
    ),
    "Finnish": Told(
        "Käyttäjä haluaa matkustaa Wieniin",
        "Käyttäjä haluaa matkustaa Wieniin toukokuussa Leon kanssa",
        "Käyttäjä haluaa matkustaa Prahaan",
    ),
    "Korean": Told(
        "사용자는 빈에 가고 싶어 한다.",
        "사용자는 빈에 가고 싶어 한다, 5월에 레오와 함께.",
        "사용자는 프라하에 가고 싶어 한다.",
    ),
    "Hindi": Told(
        "उपयोगकर्ता वियना जाना चाहता है।",
        "उपयोगकर्ता वियना जाना चाहता है, मई में लियो के साथ।",
        "उपयोगकर्ता प्राग जाना चाहता है।",
    ),
    "Thai": Told(
        "ผู้ใช้ต้องการไปเวียนนา",
        "ผู้ใช้ต้องการไปเวียนนา กับลีโอในเดือนพฤษภาคม",
        "ผู้ใช้ต้องการไปปราก",
    ),
}
"""In languages of which Layover knows no word."""
told = pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)
GREEN, RED = "The user wants the gate green.", "The user wants the gate red."


def texts(lines: Sequence[Observation]) -> list[str]:
    return [line.text for line in lines]


def told_after(earlier: str, later: str) -> list[str]:
    """What stands once the later line has been noted in another slice."""
    active = [observation("a", earlier)]
    return texts(latest([*active, *without_repetition([observation("b", later)], active)]))


@told
@pytest.mark.parametrize(
    "dress",
    [
        str,
        lambda text: f"{text[0].lower()}{text[1:]}",
        lambda text: f"{text.rstrip('.।')}!",
        lambda text: text.replace(" ", "  "),
    ],
)
def test_the_same_words_are_noted_once(told: Told, dress: Callable[[str], str]) -> None:
    assert told_after(told.line, dress(told.line)) == [told.line]


@told
def test_a_line_goes_where_a_later_one_goes_on_from_its_end(told: Told) -> None:
    lines = [
        observation("a", told.line, marker=Marker.CRITICAL),
        observation("b", told.other),
        observation("c", told.more, minute=9),
    ]
    kept = latest(lines)
    assert texts(kept) == [told.other, told.more]
    assert (kept[1].id, kept[1].marker) == ("c", Marker.CRITICAL)


@told
def test_a_line_that_says_less_than_an_earlier_one_stands_with_it(told: Told) -> None:
    assert told_after(told.more, told.line) == [told.more, told.line]


@told
def test_a_line_with_another_word_stands_with_the_earlier_one(told: Told) -> None:
    assert told_after(told.line, told.other) == [told.line, told.other]


@told
def test_what_holds_again_is_noted_again_and_stands_last(told: Told) -> None:
    active = [observation("a", told.line), observation("b", told.other)]
    again = without_repetition([observation("c", told.line)], active)
    assert texts(again) == [told.line]
    assert texts(latest([*active, *again])) == [told.other, told.line]
    assert without_repetition([observation("d", told.line)], [*active, *again]) == ()


def test_what_is_told_of_something_else_makes_no_news_of_a_known_line() -> None:
    active = [observation("a", GREEN), observation("b", "Leo is four, and he loves trains.")]
    assert without_repetition([observation("c", GREEN)], active) == ()


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("It costs 2", "It costs 2.50"),
        ("Leo wants a car", "Leo wants a carpet"),
        ("The flight is booked", "The flight is booked?"),
        ("Leo has 12", 'Leo has 12"'),
        # A denial may stand at the end: the gate is shut again.
        ("Das Tor schließt nicht", "Das Tor schließt"),
        ("Anna pays Bob 50 euros.", "Bob pays Anna 50 euros."),
    ],
)
def test_in_doubt_both_lines_stand(earlier: str, later: str) -> None:
    assert told_after(earlier, later) == [earlier, later]


def test_an_observation_with_details_stays_above_them() -> None:
    lines = [
        observation("a", "The import of orders fails with E1102"),
        observation("b", "It fails after 40,000 rows of shop-7", "a"),
        observation("c", "The import of orders fails with E1102 since 4 March"),
        observation("d", "The import of orders fails with E1102"),
    ]
    assert latest(lines) == tuple(lines)


def test_of_details_of_one_observation_the_later_one_is_kept() -> None:
    lines = [
        observation("a", "The import of orders fails with E1102"),
        observation("b", "Shop-7 has 40,000 rows", "a", marker=Marker.CRITICAL),
        observation("c", "Shop-7 has 40,000 rows in 12 files", "a", marker=Marker.COMPLETION),
        observation("d", "Shop-8 has 40,000 rows in 12 files", "a"),
    ]
    kept = latest(lines)
    assert [one.id for one in kept] == ["a", "c", "d"]
    assert kept[1].marker is Marker.CRITICAL


statements = st.sampled_from([text for each in TOLD.values() for text in each])


@given(st.lists(st.lists(statements, max_size=4), max_size=6))
def test_nothing_that_was_noted_is_lost(slices: list[list[str]]) -> None:
    """Slice by slice, as the product does it: whatever was noted stands in one line, word for word."""
    active: tuple[Observation, ...] = ()
    for number, said in enumerate(slices):
        made = [observation(f"{number}-{i}", text) for i, text in enumerate(said)]
        active = latest((*active, *without_repetition(made, active)))
    for text in (text for said in slices for text in said):
        assert any(line.text.startswith(text.rstrip(".।")) for line in active), text
    assert latest(active) == active
    assert len(active) == len({line.text for line in active})


@told
@given(data=st.data())
def test_what_was_said_last_of_a_thing_stands_last(told: Told, data: st.DataObject) -> None:
    said = data.draw(st.lists(st.sampled_from((told.line, told.other)), min_size=1, max_size=9))
    active: tuple[Observation, ...] = ()
    for number, text in enumerate(said):
        made = [observation(str(number), text)]
        active = latest((*active, *without_repetition(made, active)))
    assert active[-1].text == said[-1]
    assert len(active) == len(set(said))


def test_a_long_log_is_looked_through_in_time() -> None:
    lines = [observation(str(i), f"The user notes value {i} of line {i % 7}") for i in range(1_000)]
    assert len(latest(lines)) == len(lines)
    apart = [observation(str(i), " ".join(f"w{i}x{n}" for n in range(9))) for i in range(1_000)]
    again = [one.model_copy(update={"id": f"again-{one.id}"}) for one in apart[:200]]
    assert without_repetition(again, apart) == ()
