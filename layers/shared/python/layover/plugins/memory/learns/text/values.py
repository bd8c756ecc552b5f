"""Numbers, dates, times and telephone numbers by their value, however they are written
(docs/behaviour.md#evidence). Pure."""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from layover.lazy import lazy_pattern
from layover.plugins.memory.learns.text.dates import NUMBER_OF, blanked, written_dates

_NOON = 12 * 60
_DAY = 24 * 60
_WAYS = (
    lazy_pattern(r"(\d+)(?:[.,](\d+))?"),
    lazy_pattern(r"([1-9]\d{0,2}(?:,\d{2,3})*,\d{3})(?:\.(\d+))?"),
    lazy_pattern(r"([1-9]\d{0,2}(?:\.\d{3})+)(?:,(\d+))?"),
    lazy_pattern(r"([1-9]\d{0,2}(?:[ '\u2019]\d{3})+)(?:[.,](\d+))?"),
)
"""The ways to write a number. `1.200` is one in two of them."""
_PLAIN = lazy_pattern(r"(?<![\d.,])(?:(?<!\w)-)?\d+(?:[.,]\d+)*")
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50}
_TENS |= {"sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_TEENS = {"eleven": 11, "elf": 11, "twelve": 12, "zwölf": 12, "thirteen": 13, "fourteen": 14}
_TEENS |= {"fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19}
_SMALL = {word: number for word, number in NUMBER_OF.items() if number > 1} | {"one": 1}
"""Without the articles: "a dog" does not say 1."""
_WORDS = _SMALL | _TEENS | _TENS


def _any_of(words: dict[str, int]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_WORD = rf"(?:{_any_of(_TENS)})(?:[- ](?:{_any_of(_SMALL)}))?|{_any_of(_SMALL | _TEENS)}"
_FACTORS = {"thousand": 1_000, "tausend": 1_000, "tsd": 1_000, "hundred": 100}
_FACTORS |= dict.fromkeys(("million", "millions", "millionen", "mio"), 1_000_000)
_COMPOUND = lazy_pattern(
    rf"(?<![\w.,/\-])(?:(?:(?P<whole>\d{{1,9}}) )?(?P<top>\d)/(?P<bottom>\d{{1,2}})(?![\w/])"
    rf"|(?:(?P<counted>-?\d+(?:[.,]\d+)*|a|{_WORD}) ?(?P<by>(?<=\d)k|{_any_of(_FACTORS)})"
    rf"|(?P<number>-?\d{{1,3}}(?:[ '\u2019]\d{{3}})+(?:[.,]\d+)?|{_WORD}))(?!\w|[.,]\d))",
    re.IGNORECASE,
)
"""A number of several parts: 2 1/2, 1 200, 1.5k, three hundred, twenty-five."""
_BEFORE_NOON = (
    r"a\.?m\b\.?|in the morning|morgens|am morgen|vormittags|am vormittag|du matin|de la mañana"
    r"|di mattina|da manhã"
)
_AFTER_NOON = (
    r"p\.?m\b\.?|in the (?:afternoon|evening)|nachmittags|am nachmittag|abends|am abend"
    r"|de l['\u2019]après-midi|du soir|de la (?:tarde|noche)|del pomeriggio|di sera|da (?:tarde|noite)"
)
_OFFSETS = {"half past": 30, "quarter past": 15, "quarter to": -15}
_OFFSETS |= {"halb": -30, "viertel nach": 15, "viertel vor": -15}
_HOURS = {word: hour for word, hour in _WORDS.items() if hour <= 12}
_TIME = lazy_pattern(
    rf"(?<![\w.,:/\-])(?:(?P<offset>{_any_of(_OFFSETS)}) )?"
    rf"(?:(?P<hour>2[0-4]|[01]?\d)|(?P<word>{_any_of(_HOURS)}))"
    r"(?::(?P<colon>[0-5]\d)(?::[0-5]\d)?|\.(?P<dot>[0-5]\d)(?= ?(?:uhr|[ap]\.?m))"
    r"| ?(?P<h>h)(?P<after_h>[0-5]\d)?(?!\w))?"
    r"(?: ?(?P<clock>uhr|o['\u2019]?clock|heures?)(?: (?P<after_clock>[0-5]\d)(?!\w))?)?"
    rf"(?: ?(?:(?P<am>{_BEFORE_NOON})|(?P<pm>{_AFTER_NOON})))?(?!\w)",
    re.IGNORECASE,
)
_RUN = lazy_pattern(r"(?<![\w.,:])[+(]?\d(?:[ ()/\-]{0,3}\d){6,19}(?!\w|[.,:]\d)")
"""A telephone number, or another long number in groups."""
_MIN_RUN = 7
_THOUSANDS = lazy_pattern("(?<=\\d)[\u066c\uff0c](?=\\d{3}(?!\\d))")


class _Time(NamedTuple):
    """A time of the day. `minutes`: those since midnight that it may mean; `is_marked`: it says which half of
    the day."""

    start: int
    end: int
    minutes: set[int]
    is_marked: bool


class Values:
    """The values that a text names."""

    def __init__(self, text: str) -> None:
        text = _with_usual_marks(text)
        dates, times = list(written_dates(text)), list(_times(text))
        days = {day for each in dates for day in each.days}
        self._days = days | {(None, month, day) for _, month, day in days}
        self._minutes = {m for each in times for m in each.minutes}
        self._marked = {m for each in times if each.is_marked for m in each.minutes}
        self._runs = {run for match in _RUN.finditer(text) for run in _parts_of(match[0])}
        spans = [*(d[:2] for d in dates), *(t[:2] for t in times)]
        self._numbers = set(_numbers(blanked(text, spans)))

    def without(self, content: str) -> str:
        """Return the content without the dates, times, telephone numbers and numbers of several parts that
        the text names, too."""
        content = _with_usual_marks(content)
        spans = [d[:2] for d in written_dates(content) if d.days & self._days]
        spans += [t[:2] for t in _times(content) if t.minutes & self._minutes]
        spans += [m.span() for m in _RUN.finditer(content) if _digits(m[0]) in self._runs]
        spans += [span for span, numbers in _compounds(content) if numbers & self._numbers]
        return blanked(content, spans)

    def names(self, number: str) -> bool:
        """Return whether the text names this number."""
        return not self._numbers.isdisjoint(_readings(number))

    def opposed(self, content: str) -> list[str]:
        """Return the times of the content of which the text names the other half of the day: 3 am for
        3 pm."""
        return [
            content[each.start : each.end]
            for each in _times(content)
            if each.is_marked
            and not each.minutes & self._minutes
            and {(m + _NOON) % _DAY for m in each.minutes} & self._marked
        ]


def has_half_of_day(content: str) -> bool:
    """Return whether a time of the content says which half of the day is meant, as 3 pm does."""
    return any(each.is_marked for each in _times(content))


def _with_usual_marks(text: str) -> str:
    """Return the text with the marks of Arabic and wide numbers as `,` and `.`."""
    return text if text.isascii() else _THOUSANDS.sub(",", text).replace("\u066b", ".")


def _readings(number: str) -> set[Fraction]:
    """Return the values that a number in digits may have."""
    sign, digits = -1 if number.startswith("-") else 1, number.removeprefix("-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return set()  # 007 is a name
    matches = (way.fullmatch(digits) for way in _WAYS)
    return {sign * Fraction(f"{_digits(m[1])}.{m[2] or 0}") for m in matches if m}


def _numbers(text: str) -> Iterator[Fraction]:
    for match in _PLAIN.finditer(text):
        yield from _readings(match[0])
    for _, numbers in _compounds(text):
        yield from numbers


def _compounds(text: str) -> Iterator[tuple[tuple[int, int], set[Fraction]]]:
    """Yield the numbers of several parts, and those in words, with their spans."""
    for match in _COMPOUND.finditer(text):
        if match["top"]:
            top, bottom = int(match["top"]), int(match["bottom"])
            if top < bottom:
                yield match.span(), {int(match["whole"] or 0) + Fraction(top, bottom)}
            continue
        by = (match["by"] or "").casefold()
        factor = 1_000 if by == "k" else _FACTORS.get(by, 1)
        number = (match["number"] or match["counted"]).casefold()
        yield match.span(), {factor * n for n in _readings(number) or _of_words(number)}


def _of_words(number: str) -> set[Fraction]:
    """Return the value of a number in words; "a" is 1, as in "a hundred"."""
    words = re.split("[- ]", number)
    return set() if number[-1].isdigit() else {Fraction(sum(_WORDS.get(w, 1) for w in words))}


def _times(text: str) -> Iterator[_Time]:
    """Yield the times of the day; a number by itself is none."""
    for match in _TIME.finditer(text):
        groups = {name: value.casefold() for name, value in match.groupdict().items() if value}
        if not groups.keys() <= {"hour", "word"}:
            is_marked = not groups.keys().isdisjoint({"am", "pm"})
            yield _Time(match.start(), match.end(), _minutes(groups, is_marked), is_marked)


def _minutes(groups: Mapping[str, str], is_marked: bool) -> set[int]:
    """Return the minutes that a time may mean: on a clock that is read out, two of them."""
    hour = int(groups["hour"]) if "hour" in groups else _HOURS[groups["word"]]
    is_open = hour <= 12 and not is_marked and ("offset" in groups or "clock" in groups)
    if is_marked and hour <= 12:
        hour = hour % 12 + (12 if "pm" in groups else 0)
    minutes = [
        groups[name] for name in ("colon", "dot", "after_h", "after_clock") if name in groups
    ]
    offset = _OFFSETS.get(groups.get("offset", ""), 0)
    minute = (hour * 60 + int("".join(minutes[:1]) or 0) + offset) % _DAY
    return {minute, (minute + _NOON) % _DAY} if is_open else {minute}


def _digits(text: str) -> str:
    """Return the digits of a number in groups, without signs for dialling from another country."""
    text = re.sub(r"^00(?=[1-9])", "", text.removeprefix("+"))
    return re.sub(r"\D", "", text.replace("(0)", ""))


def _parts_of(run: str) -> Iterator[str]:
    """Yield the long numbers that neighbouring groups of a run make."""
    run = re.sub(r"^00(?=[1-9])", "", run.replace("(0)", ""))
    groups = re.findall(r"\d+", run)
    for start in range(len(groups)):
        for end in range(start + 1, len(groups) + 1):
            if len(part := "".join(groups[start:end])) >= _MIN_RUN:
                yield part
