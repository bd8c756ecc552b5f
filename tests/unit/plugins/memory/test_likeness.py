"""What two texts state, compared by their words only."""

import pytest

from layover.plugins.memory.episodic.contradiction import replaces
from layover.plugins.memory.text.likeness import adds_nothing

SCALE = "The parcel scale in the packing room is off by 15 grams above 2 kilograms."
TRIP = (
    "Ann wants to travel by night train from Berlin to Vienna in the first week of May with her son Leo,"
    " a stop in Dresden, a quiet cabin, breakfast and two bicycles."
)
LIFT = "The lift in the east wing stops between the second and the third floor."


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (LIFT.upper(), LIFT),
        ("Between the second and the third floor a lift in the east wing stops", LIFT),
        ("The lift in the wing stops.", LIFT),
        (
            "Am Montag hält der Aufzug im Ostflügel im dritten Stock.",
            "Der Aufzug im Ostflügel hält am Montag im dritten Stock.",
        ),
        ("倉庫の自動ドアは夜間に開きます", "倉庫の自動ドアは夜間に開きます。"),
        ("Since Monday the import fails at night.", "The import fails at night since Monday."),
        ("The blue valve and the red pump leak.", "The red pump and the blue valve leak."),
        ("The loud, old pump in hall 4 leaks.", "The old, loud pump in hall 4 leaks."),
    ],
)
def test_the_same_in_other_words_adds_nothing(new: str, old: str) -> None:
    assert adds_nothing(new, old)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (f"{LIFT} Its brake disc is worn.", LIFT),
        ("The lift in the west wing stops between the second and the third floor.", LIFT),
        ("The lift in the east wing does not stop between the second and the third floor.", LIFT),
        # Who does what to whom.
        (
            "The parcel service calls the label service.",
            "The label service calls the parcel service.",
        ),
        ("The printer blocks the till at noon.", "The till blocks the printer at noon."),
        (
            "The stock moved from the attic to the cellar.",
            "The stock moved from the cellar to the attic.",
        ),
        ("La caja bloquea la impresora del almacén.", "La impresora del almacén bloquea la caja."),
        (SCALE.replace("15", "3"), SCALE),
        # One word of many: the place.
        (TRIP.replace("Vienna", "Prague"), TRIP),
        (LIFT.replace("stops", "stopped"), LIFT),
        ("The order was shipped to Vienna on Monday.", "The order is shipped to Vienna on Monday."),
        ("Ann is a vegetarian.", "Ann wants a trip with her son."),
        ("The lift stops.", LIFT),
        ("", LIFT),
        (LIFT, ""),
        ("倉庫の自動ドアは夜間に開きません", "倉庫の自動ドアは夜間に開きます。"),
    ],
)
def test_what_says_more_or_something_else_adds_something(new: str, old: str) -> None:
    assert not adds_nothing(new, old)


@pytest.mark.parametrize(
    ("new", "old", "context"),
    [
        (
            "Since the repair the parcel scale in the packing room is off by 3 grams above 2 kilograms.",
            SCALE,
            "",
        ),
        # The model left out what the user said.
        (
            "The parcel scale is off by 3 grams above 2 kilograms.",
            SCALE,
            "the parcel scale in the packing room",
        ),
        ("The lift in the east wing no longer stops between the second and third floor.", LIFT, ""),
        (f"{LIFT[:-1]} because its brake disc is worn.", LIFT, ""),
        (
            "The badge reader at the gate fails while the microwave next door is running.",
            "The badge reader at the gate fails while the crane next door is running.",
            "It turned out otherwise:",
        ),
        (
            "Der Export nach DATEV bricht bei Rechnungen ohne Kostenstelle nicht mehr ab.",
            "Der Export nach DATEV bricht bei Rechnungen ohne Kostenstelle ab.",
            "",
        ),
        (
            "The staging database listens on port 6432 behind the jump host.",
            "The staging database listens on port 5433 behind the jump host.",
            "Correction: our staging database listens on port 6432",
        ),
        (
            "倉庫の自動ドアは夜間に警備会社の端末から開きません。",
            "倉庫の自動ドアは夜間に警備会社の端末から開きます。",
            "",
        ),
        # Another name for the same thing.
        (
            "The print server on the second floor is called imp-09 now.",
            "The print server on the second floor is called imp-02.",
            "",
        ),
        (
            "Der Druckserver im zweiten Stock heißt imp-09.",
            "Der Druckserver im zweiten Stock heißt imp-02.",
            "",
        ),
    ],
)
def test_a_later_statement_about_the_same_takes_the_place_of_the_earlier(
    new: str, old: str, context: str
) -> None:
    assert replaces(new, old, context=context)


def test_what_was_said_counts_where_the_new_statement_puts_it_in_few_words() -> None:
    old = "The nightly export writes to the shared bucket of the finance team."
    new = "The finance team's bucket is no longer used."
    said = (
        "By the way, the nightly export no longer writes to the shared bucket of the finance team."
    )
    assert replaces(new, old, said)
    assert not replaces(new, old, "the bucket of the finance team is no longer used")
    assert not replaces("The bucket is new.", old, said)


def test_a_name_in_what_was_said_keeps_things_apart() -> None:
    old = "Order A-1003 arrived with two broken cups."
    assert not replaces(
        "The order arrived with no broken cups.", old, "order A-1004 arrived with no broken cups"
    )


def test_what_says_the_known_beside_something_new_replaces_nothing() -> None:
    said = f"{LIFT} The technician found a worn brake disc."
    assert not replaces("The technician found a worn brake disc.", LIFT, said)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        # Other things of the same kind.
        (
            "Order A-1004 arrived with two broken cups.",
            "Order A-1003 arrived with two broken cups.",
        ),
        (
            "The print server on the third floor is called imp-09.",
            "The print server on the second floor is called imp-02.",
        ),
        (
            "Server imp-09 on the second floor is called the quick one.",
            "Server imp-02 on the second floor is called the quick one.",
        ),
        (
            "In rack R-2 the print server on the left is called imp-09.",
            "In rack R-1 the print server on the left is called imp-02.",
        ),
        ("Order 1004 arrived with two broken cups.", "Order 1003 arrived with two broken cups."),
        ("Two broken cups were in the parcel 20118.", "Two broken cups were in the parcel 20117."),
        ("Tank 7 gets 35 grams of salt per litre.", "Tank 6 gets 35 grams of salt per litre."),
        ("Kasse 5 verliert 20 Prozent ihrer Pakete.", "Kasse 4 verliert 18 Prozent ihrer Pakete."),
        ("The lift in the west wing no longer stops between the second and the third floor.", LIFT),
        (TRIP.replace("Vienna", "Prague").replace("a quiet", "no quiet"), TRIP),
        # Other matters of the same thing.
        ("The lift in the east wing may not carry more than 450 kilograms.", LIFT),
        ("The lift has a worn brake disc.", LIFT),
        # The same.
        (LIFT, LIFT),
        ("The lift in the east wing stops.", LIFT),
        # Too few words to tell.
        ("It is not slow.", "It is slow."),
        ("", LIFT),
        (LIFT, ""),
    ],
)
def test_what_is_said_of_another_thing_takes_the_place_of_nothing(new: str, old: str) -> None:
    assert not replaces(new, old)
    assert not replaces(new, old, context=f"Sorry to trouble you again. {new} Thanks!")
