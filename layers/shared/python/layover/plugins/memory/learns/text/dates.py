"""Dates that a text names in relation to the day on which it is said: yesterday, in two weeks, last Friday
(docs/behaviour.md#relative-dates). Pure."""

import re
from calendar import monthrange
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from layover.lazy import lazy_pattern

_DAYS: tuple[tuple[int, str], ...] = (
    (
        0,
        r"today|tonight|this (?:morning|afternoon|evening)|heute|aujourd['\u2019]hui"
        r"|ce (?:matin|soir)|hoy|oggi|hoje|сегодня",
    ),
    (-1, r"yesterday|last night|gestern|hier|ayer|anoche|ieri|ontem|вчера"),
    (1, r"tomorrow|morgen|demain|mañana|domani|amanhã|завтра"),
    (
        -2,
        r"day before yesterday|vorgestern|avant-hier|anteayer|l['\u2019]altro ieri|anteontem|позавчера",
    ),
    (
        2,
        r"day after tomorrow|übermorgen|après-demain|pasado mañana|dopodomani|depois de amanhã|послезавтра",
    ),
)
_DENSE_DAYS = {
    "今天": 0,
    "今日": 0,
    "昨天": -1,
    "昨日": -1,
    "明天": 1,
    "明日": 1,
    "前天": -2,
    "一昨日": -2,
}
_DENSE_DAYS |= {"后天": 2, "明後日": 2, "오늘": 0, "어제": -1, "내일": 1}
NUMBER_OF = {
    word: number
    for number, line in enumerate(
        (
            "a an one ein einem einer eine un une una um uma один 一",
            "two zwei deux dos due dois duas два две 两 二",
            "three drei trois tres tre três три 三",
            "four vier quatre cuatro quattro quatro четыре 四",
            "five fünf cinq cinco cinque пять 五",
            "six sechs seis sei шесть 六",
            "seven sieben sept siete sette sete семь 七",
            "eight acht huit ocho otto oito восемь 八",
            "nine neun neuf nueve nove девять 九",
            "ten zehn dix diez dieci dez десять 十",
        ),
        1,
    )
    for word in line.split()
}
_N = r"(?P<n>\d{1,3}|" + "|".join(sorted(NUMBER_OF, key=len, reverse=True)) + ")"
_UNIT = (
    r"(?P<unit>days?|weeks?|months?|years?|tage?n?|wochen?|monate?n?|jahre?n?|jours?|semaines?|mois|ans?|années?"
    r"|días?|semanas?|mes(?:es)?|años?|giorn[oi]|settiman[ae]|mes[ei]|ann[oi]|dias?|mês|anos?|д(?:ень|ня|ней)"
    r"|недел[юиь]|месяца|месяцев|месяц|天|日|周|週間?|个?月|か月|年)"
)
_AGO = lazy_pattern(
    rf"\b{_N} {_UNIT} (?:ago|fa|atrás|назад)\b|\b(?:vor|il y a|hace|há) {_N.replace('?P<n>', '?P<n2>')}"
    rf" {_UNIT.replace('?P<unit>', '?P<unit2>')}\b"
    rf"|{_N.replace('?P<n>', '?P<n3>')} ?{_UNIT.replace('?P<unit>', '?P<unit3>')}前",
    re.IGNORECASE,
)
_AHEAD = lazy_pattern(
    rf"\b(?:in|dans|en|dentro de|tra|fra|em|daqui a|через) {_N} {_UNIT}\b"
    rf"|{_N.replace('?P<n>', '?P<n3>')} ?{_UNIT.replace('?P<unit>', '?P<unit3>')}[后後]",
    re.IGNORECASE,
)
_LAST = r"\b(?:last|letzte[nrs]?|vorige[nrs]?|el pasado|scors[oa]|прошл\w+)"
_NEXT = r"\b(?:next|nächste[nrs]?|kommende[nrs]?|el próximo|prossim[oa]|следующ\w+)"
_WEEKDAYS = tuple(
    lazy_pattern(
        rf"(?P<last>{_LAST} )?(?P<next>{_NEXT} )?\b(?:{day})\b(?P<past> (?:dernier|pasado|scors[oa]))?",
        re.IGNORECASE,
    )
    for day in (
        "monday|montag|lundi|lunes|lunedì|segunda(?:-feira)?|понедельник",
        "tuesday|dienstag|mardi|martes|martedì|terça(?:-feira)?|вторник",
        "wednesday|mittwoch|mercredi|miércoles|mercoledì|quarta(?:-feira)?|среда|среду",
        "thursday|donnerstag|jeudi|jueves|giovedì|quinta(?:-feira)?|четверг",
        "friday|freitag|vendredi|viernes|venerdì|sexta(?:-feira)?|пятница|пятницу",
        "saturday|samstag|sonnabend|samedi|sábado|sabato|суббота|субботу",
        "sunday|sonntag|dimanche|domingo|domenica|воскресенье",
    )
)
_MONTHS = (
    "january janvier januar enero gennaio janeiro января",
    "february février februar febrero febbraio fevereiro февраля",
    "march mars märz marzo março марта",
    "april avril abril aprile апреля",
    "may mai mayo maggio maio мая",
    "june juin juni junio giugno junho июня",
    "july juillet juli julio luglio julho июля",
    "august août agosto августа",
    "september septembre septiembre settembre setembro сентября",
    "october octobre oktober octubre ottobre outubro октября",
    "november novembre noviembre novembro ноября",
    "december décembre dezember diciembre dicembre dezembro декабря",
)
MONTH_OF = {name: n for n, line in enumerate(_MONTHS, 1) for name in line.split()}
MONTH_OF |= {name[:3]: n for name, n in list(MONTH_OF.items()) if name.isascii()} | {"mär": 3}
_MONTH = "(?P<month>" + "|".join(sorted(MONTH_OF, key=len, reverse=True)) + r")\.?"
_DAY, _M, _YEAR = r"(?P<day>\d{1,2})", r"(?P<m>\d{1,2})", r"(?P<year>\d{4}|\d{2})"
_DATES = (
    lazy_pattern(rf"\b(?P<year>\d{{4}})[-/]{_M}[-/]{_DAY}\b"),
    lazy_pattern(rf"(?P<year>\d{{4}})年{_M}月{_DAY}[日号]"),
    lazy_pattern(rf"(?<![\w.]){_DAY}\.\s?{_M}\.(?:\s?{_YEAR}\b)?"),
    lazy_pattern(rf"(?<![\w/]){_DAY}(?P<slash>/){_M}/{_YEAR}\b"),
    lazy_pattern(
        rf"\b{_DAY}(?:\.|st|nd|rd|th|er|º)?(?: of| de| d['\u2019])? ?\b{_MONTH}"
        r"(?:,? (?:de )?(?P<year>\d{4}))?\b",
        re.IGNORECASE,
    ),
    lazy_pattern(
        rf"\b{_MONTH} (?:the )?{_DAY}(?:st|nd|rd|th)?(?:,? (?P<year>\d{{4}}))?\b", re.IGNORECASE
    ),
    lazy_pattern(rf"{_M}月{_DAY}[日号]"),
)
_WEEK = 7
_YEAR_AROUND = timedelta(366)


class WrittenDate(NamedTuple):
    """A date in a text. `days`: what it may be, each as year (None: it has none), month and day."""

    start: int
    end: int
    days: set[tuple[int | None, int, int]]


def written_dates(text: str) -> Iterator[WrittenDate]:
    """Yield the dates that stand in a text as such."""
    for pattern in _DATES:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            year = int(groups["year"]) if groups.get("year") else None
            if year is not None and year < 100:
                year += 2000
            name, day = groups.get("month"), int(groups["day"])
            month = MONTH_OF[name.casefold()] if name else int(groups["m"])
            days = {(year, month, day)} | ({(year, day, month)} if groups.get("slash") else set())
            days = {each for each in days if 1 <= each[1] <= 12 and 1 <= each[2] <= 31}
            if days:
                yield WrittenDate(match.start(), match.end(), days)


def blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the text with blanks in these places."""
    for start, end in spans:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


def without_resolved_dates(content: str, texts: Sequence[str], now: datetime) -> str:
    """Return a content without the dates that one of the texts names in relation to `now`, which is the time
    where the user is, and without those of the nearest years that a text names without a year."""
    today = now.date()
    all_days = {day for text in texts for day in named_days(text, today)}
    all_days.update(day for text in texts for day in _days_of_a_year(text, today))
    days = {(year, d.month, d.day) for d in all_days for year in (None, d.year)}
    return blanked(content, [(d.start, d.end) for d in written_dates(content) if d.days & days])


def _days_of_a_year(text: str, today: date) -> Iterator[date]:
    """Yield the days around today that a text names without a year."""
    yearless = {day[1:] for one in written_dates(text) for day in one.days if day[0] is None}
    for month, day in yearless:
        for year in range(today.year - 1, today.year + 2):
            is_one = day <= monthrange(year, month)[1]
            if is_one and abs(date(year, month, day) - today) <= _YEAR_AROUND:
                yield date(year, month, day)


def named_days(text: str, today: date) -> Iterator[date]:
    """Yield the days that a text names."""
    for days, words in _DAYS:
        if re.search(rf"(?<!\w)(?:{words})(?!\w)", text, re.IGNORECASE):
            yield today + timedelta(days)
    yield from (today + timedelta(days) for word, days in _DENSE_DAYS.items() if word in text)
    for sign, pattern in ((-1, _AGO), (1, _AHEAD)):
        for match in pattern.finditer(text):
            yield from _days_away(match, sign, today)
    for weekday, pattern in enumerate(_WEEKDAYS):
        for match in pattern.finditer(text):
            first, last = -_WEEK, _WEEK
            if match["last"] or match["past"]:
                first, last = -2 * _WEEK, -1
            elif match["next"]:
                first, last = 1, 2 * _WEEK
            around = (today + timedelta(n) for n in range(first, last + 1))
            yield from (day for day in around if day.weekday() == weekday)


def _days_away(match: re.Match[str], sign: int, today: date) -> Iterator[date]:
    groups = {k.rstrip("23"): v for k, v in match.groupdict().items() if v}
    word, unit = groups["n"].casefold(), groups["unit"].casefold()
    number = int(word) if word.isdecimal() else NUMBER_OF[word]
    if unit[0] in "dtgд天日" or unit.startswith("jour"):
        yield today + timedelta(sign * number)
    elif unit[0] in "wsн周週":
        yield today + timedelta(sign * number * _WEEK)
    elif unit[0] in "mм个か月":
        months = today.year * 12 + today.month - 1 + sign * number
        yield date(months // 12, months % 12 + 1, min(today.day, 28))
        if today.day > 28:
            yield date(months // 12, months % 12 + 1, 28) + timedelta(today.day - 28)
