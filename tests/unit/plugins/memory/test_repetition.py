"""Observations that say nearly the same: the later one is kept, and nothing that matters is lost."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from layover.plugins.memory.compaction.observation_lines import latest, without_repetition
from layover.plugins.memory.text.likeness import restates
from layover.values.memory.compaction import Marker, Observation
from support.worlds.observations import observation

TRIP = "The user wants to plan a trip to Vienna with Leo in May."


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (TRIP, TRIP),
        (TRIP, "User wants to plan the trip with Leo to Vienna in May"),
        (TRIP, "The user wants to plan a trip to Vienna"),
        (f"{TRIP[:-1]}, from Graz, on platform 7", TRIP),
        ("Leo loves trains, and buses.", "Leo loves trains"),
        ("Die Reise nach Wien kostet 40 Euro.", "Eine Reise nach Wien kostet 40 Euro"),
        ("Order A-1003 was refunded on 3 May by card.", "Order A-1003 was refunded on 3 May."),
        ('The code of the door is "12".', "The code of the door is 12"),
        ("It\u2019s Anna\u2019s bike in the yard.", "It's Anna's bike in the yard"),
        # A speaker's name in front of their words.
        (
            "So it is not the power supply of web-3.",
            "assistant: So it is not the power supply of web-3.",
        ),
        ("Assistant: the power supply of web-3 is fine", "The power supply of web-3 is fine."),
        (
            "user: I replaced the power supply of web-3.",
            "The user replaced the power supply of web-3.",
        ),
        ("User replaced the power supply of web-3", "User: I replaced the power supply of web-3."),
        ("user: Water on Tuesday: 1209 cubic metres.", "Water on Tuesday: 1209 cubic metres."),
    ],
)
def test_a_text_restates_what_it_says_all_of(text: str, other: str) -> None:
    assert restates(text, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # A name, a number, a unit, an identifier.
        (TRIP, TRIP.replace("Vienna", "Prague")),
        (TRIP, TRIP.replace("in May", "on 3 May")),
        ("Anna Berg called the shop in Graz.", "Anna called the shop in Graz."),
        ("Anna's brother called the shop in Graz.", "Anna called the shop in Graz."),
        ("The price of the lamp rose by 12 percent.", "The price of the lamp rose by 12."),
        ("The pump needs 5 MW in hall 2.", "The pump needs 5 mW in hall 2."),
        ("The file of the user is a_b in Graz.", "The file of the user is _a_b in Graz."),
        ("Water on Monday: 1204 cubic metres.", "Water on Tuesday: 1204 cubic metres."),
        ("US sales grew by 5%.", "Us sales grew by 5%."),
        ('The screen of the user has 12".', "The screen of the user has 12."),
        # A negation, a condition, a doubt, a choice, a question.
        (TRIP, TRIP.replace("wants", "does not want")),
        (TRIP, f"{TRIP[:-1]} if Ada agrees."),
        (TRIP, TRIP.replace("wants", "may want")),
        (TRIP, TRIP.replace("Vienna", "Vienna or Prague")),
        ("The flight to Vienna is booked.", "The flight to Vienna is booked?"),
        # A role, a direction, a state, another verb.
        ("Anna pays Bob 50 euros.", "Bob pays Anna 50 euros."),
        ("The user paid the brother of Anna.", "The user paid Anna."),
        ("The key of Anna is on the desk of Bob.", "The key of Bob is on the desk of Anna."),
        ("Server db-2 in hall 5 is up.", "Server db-2 in hall 5 is down."),
        ("The user wants to cancel the trip to Vienna.", "The user wants the trip to Vienna."),
        ("The user bought a car seat in Graz.", "The user bought a car in Graz."),
        ("The import of orders fails.", "The import of orders failed."),
        # Another speaker, and one that speaks of another.
        ("user: Delete the backup of web-3.", "assistant: Delete the backup of web-3."),
        (
            "user: I replaced the power supply of web-3.",
            "assistant: I replaced the power supply of web-3.",
        ),
        ("User: Anna replaced the power supply.", "The user replaced the power supply."),
        # Too little to tell.
        ("It works.", "It works since Monday."),
    ],
)
def test_texts_that_differ_in_what_matters_do_not_restate_each_other(one: str, other: str) -> None:
    assert not restates(one, other)
    assert not restates(other, one)


def texts(lines: Sequence[Observation]) -> list[str]:
    return [line.text for line in lines]


def test_of_nearly_equal_observations_the_later_one_is_kept() -> None:
    lines = latest(
        [
            observation("a", "The user wants to plan a trip to Vienna", marker=Marker.CRITICAL),
            observation("b", "Leo loves trains."),
            observation("c", TRIP, minute=9),
        ]
    )
    assert texts(lines) == ["Leo loves trains.", TRIP]
    assert (lines[1].id, lines[1].marker) == ("c", Marker.CRITICAL)


def test_what_holds_again_is_noted_again_and_stands_last() -> None:
    green, red = "The user wants the gate green.", "The user wants the gate red."
    active = [observation("a", green), observation("b", red)]
    again = without_repetition([observation("c", green)], active)
    assert texts(again) == [green]
    assert texts(latest([*active, *again])) == [red, green]
    assert without_repetition([observation("d", green)], [*active, *again]) == ()


def test_an_observation_with_details_stays_above_them() -> None:
    lines = [
        observation("a", "The import of orders fails with E1102"),
        observation("b", "It fails after 40,000 rows of shop-7", "a"),
        observation("c", "The import of orders fails with E1102 since 4 March"),
    ]
    assert latest(lines) == tuple(lines)


def test_of_nearly_equal_details_of_one_observation_the_later_one_is_kept() -> None:
    lines = [
        observation("a", "The import of orders fails with E1102"),
        observation("b", "Shop-7 has 40,000 rows of orders", "a", marker=Marker.CRITICAL),
        observation("c", "Shop-7 has 40,000 rows of orders in 12 files", "a"),
        observation("d", "Shop-8 has 40,000 rows of orders in 12 files", "a"),
    ]
    kept = latest(lines)
    assert [one.id for one in kept] == ["a", "c", "d"]
    assert kept[1].marker is Marker.CRITICAL


# Generated statements.

NAMES = ("Anna", "Bob", "Leo", "Ann", "US", "May")
SLOTS: dict[str, Sequence[str]] = {
    "subject": (*NAMES, "the user", "order A-1003", "order A-1004", "server db-2", "pump 6"),
    "verb": ("paid", "needs", "does not need", "never paid", "may need", "cancelled", "booked"),
    "object": (
        *NAMES,
        "5 kg salt",
        "5 g salt",
        "3.5 kg salt",
        "35 kg salt",
        "-5 kg salt",
        "a trip",
        "the trip",
        "no trip",
        "trip 12",
    ),
    "place": ("", "in Graz", "to Graz", "of Anna", "of Bob", "with Leo", "on 3 May", "on 10 May"),
    "reason": ("", "because of E1102", "because of E1103", "if Anna agrees", "or a refund", "?"),
}
ARTICLES = {"a", "the"}


@dataclass(frozen=True)
class Said:
    """A statement by its slots."""

    subject: str
    verb: str
    object: str
    place: str
    reason: str

    @property
    def text(self) -> str:
        parts = (self.subject, self.verb, self.object, self.place, self.reason)
        return " ".join(p for p in parts if p).replace(" ?", "?")

    def with_slot(self, name: str, value: str) -> "Said":
        changed: Any = {name: value}
        return replace(self, **changed)


statements = st.builds(Said, **{name: st.sampled_from(v) for name, v in SLOTS.items()})
"""Any statement."""
DRESS = (
    str,
    lambda text: f"{text}.",
    lambda text: f"{text[0].upper()}{text[1:]}",
    lambda text: re.sub(r"\b(a|the) ", lambda m: "the " if m[1] == "a" else "a ", text),
    lambda text: re.sub(r"^(?:a|the) ", "", text),
    lambda text: text.replace(" ", "  "),
    lambda text: f"User: {text}",
)
"""Ways to write the same."""


def meaning(text: str) -> set[str]:
    """Return the words of a text that say something."""
    return {w for w in re.findall(r"-?\w[\w.\-]*\b|\?", text.casefold()) if w not in ARTICLES}


@given(statements, st.sampled_from(sorted(SLOTS)), st.data())
def test_statements_that_differ_in_one_slot_both_stand(
    one: Said, slot: str, data: st.DataObject
) -> None:
    other = one.with_slot(slot, data.draw(st.sampled_from(SLOTS[slot])))
    lines = [observation("a", one.text), observation("b", other.text)]
    kept = texts(latest(lines))
    if meaning(one.text) <= meaning(other.text):
        assert kept[-1] == other.text
    else:
        assert kept == texts(lines)


@given(statements, st.sampled_from(DRESS), st.sampled_from(DRESS))
@example(Said("Anna", "needs", "a trip", "to Graz", ""), DRESS[0], DRESS[3])
def test_the_same_in_another_dress_is_noted_once(one: Said, first: Any, second: Any) -> None:
    assume(restates(one.text, one.text))  # of fewer words with a meaning, it is not known
    active = [observation("a", first(one.text))]
    assert without_repetition([observation("b", second(one.text))], active) == ()


@given(st.lists(st.lists(statements, max_size=4), max_size=5))
def test_nothing_that_was_noted_is_lost(slices: list[list[Said]]) -> None:
    """Slice by slice, as the product does it: whatever was noted stands in one line, with all its words."""
    active: tuple[Observation, ...] = ()
    for number, said in enumerate(slices):
        made = [observation(f"{number}-{i}", one.text) for i, one in enumerate(said)]
        active = latest((*active, *without_repetition(made, active)))
    for one in (one for said in slices for one in said):
        assert any(meaning(one.text) <= meaning(line.text) for line in active), one.text


@given(st.lists(st.sampled_from(("Graz", "Wien", "Bern", "Graz.")), min_size=1, max_size=9))
def test_what_was_said_last_of_a_thing_stands_last(places: list[str]) -> None:
    active: tuple[Observation, ...] = ()
    for number, place in enumerate(places):
        made = [observation(str(number), f"The user wants the parcel sent to {place}")]
        active = latest((*active, *without_repetition(made, active)))
    assert active[-1].text.rstrip(".").endswith(places[-1].rstrip("."))
    assert len(active) == len({p.rstrip(".") for p in places})


@given(st.lists(statements, max_size=12))
def test_what_is_the_latest_stays_the_latest(said: list[Said]) -> None:
    lines = latest([observation(str(i), one.text) for i, one in enumerate(said)])
    assert latest(lines) == lines


def test_a_long_log_is_looked_through_in_time() -> None:
    lines = [observation(str(i), f"The user notes value {i} of line {i % 7}") for i in range(1_000)]
    assert len(latest(lines)) == len(lines)
