"""Numbers, dates, times and telephone numbers are compared by what they mean."""

import time

import pytest

from layover.plugins.memory.learns.text.evidence import missing_anchors

SAME = [
    # Numbers
    ("seats 1200", "it seats 1,200 people"),
    ("seats 1200", "it seats 1.200 people"),
    ("seats 1200", "it seats 1 200 people"),
    ("seats 1200", "it seats 1\u202f200 people"),
    ("seats 1200", "it seats 1'200 people"),
    ("seats 1,200", "it seats 1200 people"),
    ("seats 1 200", "it seats 1200 people"),
    ("costs 1200.5", "es kostet 1.200,5"),
    ("costs 1,200.50 euros", "es kostet 1.200,5"),
    ("costs 2.5", "costs 2,5"),
    ("costs 2.5", "costs 2.50"),
    ("needs 2.5 turns", "needs 2 \u00bd turns"),
    ("needs 2 1/2 turns", "needs 2.5 turns"),
    ("has 123456789", "has 12,34,56,789"),
    ("from 1000 to 2000", "1,000-2,000"),
    ("weighs 1200 kg", "weighs 1,200kg"),
    ("has 1500 users", "has 1.5k users"),
    ("has 1.5k users", "has 1,500 users"),
    ("has 1500000 users", "has 1.5 million users"),
    ("hat 1500000 Nutzer", "hat 1,5 Mio. Nutzer"),
    ("has 25 pumps", "has twenty-five pumps"),
    ("has 25 pumps", "has Twenty five pumps"),
    ("has 12 pumps", "has twelve pumps"),
    ("has 300 pumps", "has three hundred pumps"),
    ("hat 7 Pumpen", "hat sieben Pumpen"),
    ("is 5% done", "is five percent done"),
    ("is 5 percent done", "is 5 % done"),
    ("is 12.5% done", "zu 12,5 % fertig"),
    ("seats 1200", "\u0661\u066c\u0662\u0660\u0660 \u0645\u0642\u0639\u062f"),
    ("is 2.5", "\u0662\u066b\u0665"),
    ("seats 1200", "\u0967,\u0968\u0966\u0966 \u0938\u0940\u091f\u0947\u0902"),
    ("seats 1200", "\uff11\uff0c\uff12\uff10\uff10席"),
    # Dates
    ("on 2026-04-03", "on April 3rd, 2026"),
    ("on 2026-04-03", "on the 3rd of April 2026"),
    ("on 2026-04-03", "am 3. April 2026"),
    ("on 2026-04-03", "am 03.04.2026"),
    ("on 2026-04-03", "am 3.4.26"),
    ("on 2026-04-03", "on 4/3/2026"),
    ("on 2026-04-03", "el 3 de abril de 2026"),
    ("on 2026-04-03", "2026年4月3日に"),
    ("on April 3rd, 2026", "on 2026-04-03"),
    ("on April 3rd", "am 03.04.2026"),
    ("am 3. April", "on April 3rd"),
    # Times
    ("opens at 15:00", "opens at 3pm"),
    ("opens at 15:00", "opens at 3 p.m."),
    ("opens at 15:00", "ouvre à 15h"),
    ("opens at 15:30", "ouvre à 15h30"),
    ("opens at 15:00", "öffnet um 3 Uhr nachmittags"),
    ("opens at 15:00", "öffnet um 15 Uhr"),
    ("opens at 15:30", "öffnet um 15.30 Uhr"),
    ("opens at 3pm", "opens at 15:00"),
    ("opens at 3:00 PM", "öffnet um 15 Uhr"),
    ("opens at 03:00", "opens at 3 am"),
    ("opens at 14:30", "opens at half past two in the afternoon"),
    ("opens at 2:30", "opens at half past two"),
    ("opens at 14:30", "opens at half past two"),
    ("opens at 1:45", "opens at a quarter to two"),
    ("opens at 14:15", "opens at quarter past 2"),
    ("opens at 15:00", "opens at three o'clock"),
    ("öffnet um 14:30", "öffnet um halb drei"),
    # Telephone numbers
    ("call +49301234567", "call +49 30 1234567"),
    ("call +49 30 1234567", "call +49301234567"),
    ("call +49 30 1234567", "call +49 (0)30 1234567"),
    ("call +49 30 1234567", "call 0049 30/1234567"),
    ("call 5551234567", "call (555) 123-4567"),
]


@pytest.mark.parametrize(("content", "said"), SAME)
def test_what_means_the_same_was_said(content: str, said: str) -> None:
    assert missing_anchors(content, [said]) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("seats 1250", "it seats 1,200 people"),
        ("seats 12", "it seats 1,200 people"),
        ("costs 12005", "es kostet 1.200,5"),
        ("costs -1200", "it costs 1,200"),
        ("has 1200", "runs version 1.200.3"),
        ("has 1200", "the order 1,2000"),
        ("has 42", "order 0,042"),
        ("has 15 users", "has 1.5k users"),
        ("has 1500 users", "is 1.5 km away"),
        ("has 20 pumps", "has twenty-five pumps"),
        ("has 5 pumps", "has twenty-five pumps"),
        ("has 1 dog", "has a dog"),
        ("has 2 dogs", "has 2.5"),
        ("is 2.5", "open 24/7"),
        ("is 10.0.0.1", "is 100.0.1"),
        ("on 2026-04-05", "on April 3rd, 2026"),
        ("on 2027-04-03", "on April 3rd, 2026"),
        ("on 2027-04-03", "on April 3rd"),
        ("on April 4th", "am 03.05.2026"),
        ("has 4 dogs", "on 2026-04-03"),
        ("opens at 16:00", "opens at 3pm"),
        ("opens at 15:00", "opens at 3am"),
        ("opens at 3 am", "opens at 3 pm"),
        ("opens at 15:30", "opens at 3:30"),
        ("opens at 14:30", "opens at half past two in the morning"),
        ("opens at 15:00", "waits 3 minutes"),
        ("call +49301234568", "call +49 30 1234567"),
        ("call 1234567", "call +49 301 2345678"),
        ("order A1200", "it seats 1,200 people"),
        ("uses user_id", "has one user"),
        ("has 1", "is 1.2.3 million"),
        ("is 12.34567", "call 1234567"),
    ],
)
def test_another_value_was_not_said(content: str, said: str) -> None:
    assert missing_anchors(content, [said])


def test_values_of_two_texts_do_not_run_together() -> None:
    assert missing_anchors("seats 1200", ["it has 1", "200 people"]) == ["1200"]
    assert missing_anchors("call 1234567", ["call 123", "4567"]) == ["1234567"]


def test_a_number_that_was_said_hides_no_identifier() -> None:
    assert missing_anchors("12a and 1.2.3 of 1,200", ["12 and 1200"]) == ["12a", "1.2.3"]


@pytest.mark.parametrize(
    "piece", ["1,", "1 ", "12 ", "(1", "1/2 ", "3 p", "twenty ", "half past ", "3. "]
)
def test_a_long_text_costs_no_more_than_its_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        began = time.process_time()
        missing_anchors("seats 987654 at 4pm on 2026-04-03", [text])
        missing_anchors(text, ["nothing"])
        return time.process_time() - began

    assert seconds(24_000) < max(min(seconds(3_000) for _ in range(3)) * 40, 0.5)
