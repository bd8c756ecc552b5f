"""Observations as lines (docs/behaviour.md#observation-lines): `* MARKER (HH:MM) text`, details indented
below, grouped by UTC date. Written one way, read leniently: the lines come from a model. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from layover.lazy import lazy_pattern
from layover.plugins.memory.learns.text.evidence import normalise
from layover.plugins.memory.learns.text.redaction import redact
from layover.plugins.memory.reads.blocks import INDENT
from layover.plugins.memory.text.words import raw_words
from layover.values.memory.compaction import Marker, Observation
from layover.values.text import sanitise

MAX_TEXT = 1_000
"""Characters of an observation."""
MAX_OBSERVATIONS = 200
"""Observations of one answer; the rest is dropped."""
SEVERITY = (Marker.CRITICAL, Marker.IMPORTANT, Marker.COMPLETION, Marker.INFO)
"""The heaviest first."""
_FINAL = " .,;:!\u0964\u2026\u3002\uff01"
"""Punctuation that says nothing at the end of a text. A question mark does."""

_NAMES = {
    "critical": Marker.CRITICAL,
    "important": Marker.IMPORTANT,
    "info": Marker.INFO,
    "completion": Marker.COMPLETION,
    "completed": Marker.COMPLETION,
}
_SIGNS = {
    "\U0001f534": Marker.CRITICAL,  # red circle
    "\U0001f7e0": Marker.IMPORTANT,  # orange
    "\U0001f7e1": Marker.IMPORTANT,  # yellow
    "\U0001f7e2": Marker.INFO,  # green
    "\U0001f535": Marker.INFO,  # blue
    "\u2139": Marker.INFO,
    "\u2705": Marker.COMPLETION,  # check marks
    "\u2714": Marker.COMPLETION,
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SIGN = f"[{''.join(_SIGNS)}]"
_OPEN, _CLOSE = r"[*_`\[({]{0,6}", r"[*_`\])}]{0,6}"
_BULLET = lazy_pattern(
    "(?:[*+\\-\u2022\u2023\u25aa\u25cf\u25e6\u2013\u2192\u21b3]|->|\\d{1,3}[.)])\\s+"
)
_NAMED = lazy_pattern(
    rf"(?P<open>{_OPEN})(?:(?P<sign>{_SIGN})\ufe0f?\s*)?{_OPEN}(?P<word>{'|'.join(_NAMES)})"
    rf"(?P<close>{_CLOSE}:?{_CLOSE})(?=\s|[(\[]|$)",
    re.IGNORECASE,
)
_SIGNED = lazy_pattern(rf"{_OPEN}(?P<sign>{_SIGN})\ufe0f?{_CLOSE}:?")
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::\d{2}(?:\.\d+)?)?"
_TIME = lazy_pattern(
    rf"\s*[(\[]\s*(?:(?P<day>\d{{4}}-\d{{2}}-\d{{2}})[T ,]+)?{_CLOCK}(?:\s*[-\u2013]\s*\d{{1,2}}:\d{{2}})?"
    r"\s*(?P<half>[ap]\.?m\.?)?\s*(?:UTC|GMT|Z)?\s*[)\]]" + _CLOSE,
    re.IGNORECASE,
)
_BARE_TIME = lazy_pattern(rf"\s*{_CLOCK}\s*(?P<day>)(?P<half>)(?=[:|\u2013\u2014]|-\s)")
_LINK = lazy_pattern("\\s*(?:[:|\u2013\u2014]|-(?=\\s))?\\s*")
_MAX_DATE = 100
"""The most characters of a line that has only a date."""
_WEEKDAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?"
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?"
_DATES = [
    lazy_pattern(rf"(?:date\W+)?(?:{_WEEKDAY}\W+)?{form}(?:\W+(?:{_WEEKDAY}|UTC))?", re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})-(?P<number>\d{1,2})-(?P<day>\d{1,2})",
        rf"{_MONTH}\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}})",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+{_MONTH},?\s+(?P<year>\d{{4}})",
    )
]
_THINKING = lazy_pattern(
    r"^[ \t]*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)|\A.*?^[ \t]*</think(?:ing)?>[ \t]*$",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)


def without_repetition(
    observations: Sequence[Observation], active: Sequence[Observation] = ()
) -> tuple[Observation, ...]:
    """Return the observations without those that are noted already, by an active one or one before them in
    the same words. A detail repeats only a detail of the same; an observation that repeats another stays
    where it has a new detail. Where a later one goes on from the end of an earlier one, only the later one is
    returned."""
    before = _families(active)
    heads: list[str] = []
    details: set[tuple[str, str]] = set()
    result: list[Observation] = []
    for place, family in enumerate([*before, *_families(observations)]):
        head, *below = [_plain_text(one.text) for one in family]
        news = [
            one for one, text in zip(family[1:], below, strict=True) if (head, text) not in details
        ]
        if place >= len(before) and (news or not _is_noted(head, heads)):
            result += [family[0], *news]
        heads.append(head)
        details.update((head, text) for text in below)
    return latest(result)


def _is_noted(text: str, noted: Sequence[str]) -> bool:
    """Return whether a text is among the noted ones, and none that was noted since has most of its words:
    that may say something else of the same, after which it is news that this holds again."""
    if text not in noted:
        return False
    own = frozenset(raw_words(text))
    since = noted[len(noted) - noted[::-1].index(text) :]
    return not any(2 * len(own.intersection(raw_words(other))) > len(own) for other in since)


def latest(observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return the observations without those that a later one repeats, or goes on from the end of, with the
    heavier of both markers. One that has details stays, as nothing else has them."""
    families: dict[str, list[Observation]] = {}
    ids: dict[str, str] = {}
    for head, *details in _families(observations):
        text = _plain_text(head.text)
        for beginning in _beginnings(text):
            if (id := ids.pop(beginning, None)) is not None:
                (earlier,) = families.pop(id)
                marker = min(head.marker, earlier.marker, key=SEVERITY.index)
                head = head.model_copy(update={"marker": marker})
        if not details:
            ids[text] = head.id
        families[head.id] = [head, *latest(details)]
    return tuple(one for family in families.values() for one in family)


def _beginnings(text: str) -> Iterator[str]:
    """Yield a plain text up to the end of each of its words, and all of it."""
    for match in re.finditer(r" |$", text):
        yield text[: match.start()].rstrip(_FINAL)


def _families(observations: Sequence[Observation]) -> list[list[Observation]]:
    """Return each observation with its details. A detail of a missing one stands for itself."""
    families: dict[str, list[Observation]] = {}
    for one in observations:
        if one.parent_id in families and one.parent_id is not None:
            families[one.parent_id].append(one)
        else:
            families[one.id] = [one]
    return list(families.values())


def _plain_text(text: str) -> str:
    text = normalise(text).casefold()
    return text.rstrip(_FINAL) or text


def without_thinking(answer: str) -> str:
    """Return a model's answer without its thoughts. Only a tag at the beginning of a line counts: an
    observation may mention one."""
    return _THINKING.sub("", sanitise(answer))


def tidy(text: str, limit: int = MAX_TEXT) -> str:
    """Return a model's text as it is stored: on one line, without secrets, at most `limit` characters."""
    text = normalise(text[: 2 * limit]).replace("&lt;", "<").replace("&gt;", ">")
    return redact(text)[:limit].rstrip()


def read_marker(text: str) -> Marker | None:
    """Return the marker of this name, in any case."""
    return _NAMES.get(text.strip().casefold())


def read(
    answer: str, moments: Sequence[datetime], new_id: Callable[[], str]
) -> tuple[Observation, ...]:
    """Return the observations of an answer, in its order, at most `MAX_OBSERVATIONS`. Other lines are
    skipped. `moments`: times of the messages, in order; no observation lies outside them."""
    if not moments:
        return ()
    reader = _Reader(_Calendar([m.astimezone(UTC) for m in moments]), new_id)
    candidates = [(raw, _line(raw)) for raw in without_thinking(answer).splitlines()]
    if any(line for _, line in candidates):
        # Small models name the marker of most lines, and only the time of some.
        candidates = [(raw, line or _unmarked_line(raw)) for raw, line in candidates]
    base = min((line.indent for _, line in candidates if line), default=0)
    for raw, line in candidates:
        if line is None:
            reader.skip(raw)
        elif len(reader.observations) < MAX_OBSERVATIONS:
            reader.add(line, detail=line.indent >= base + len(INDENT))
    return tuple(reader.observations)


@dataclass(frozen=True)
class _Line:
    """One line as written. `day`: its own, if it names one."""

    indent: int
    marker: Marker
    at: time | None
    day: date | None
    text: str


class _Calendar:
    """Resolves the day of a line without a date."""

    def __init__(self, moments: Sequence[datetime]) -> None:
        self._moments = moments
        self._first, self._last = min(moments), max(moments)

    def holds(self, day: date) -> bool:
        """Return whether the messages' days include this one."""
        return self._first.date() <= day <= self._last.date()

    def moment(self, at: time | None, day: date | None, before: datetime | None) -> datetime:
        """Return the moment of a line below the heading `day`; `before`: that of the line before it."""
        if at is None:
            return self._within(self._without_time(day, before))
        if day is None:
            day = min(self._moments, key=lambda m: self._misfit(m, at, before)).date()
        return self._within(datetime.combine(day, at, UTC))

    def _without_time(self, day: date | None, before: datetime | None) -> datetime:
        start = before or self._first
        if day is None or start.date() == day:
            return start
        return datetime.combine(day, time(), UTC)

    def _misfit(self, message: datetime, at: time, before: datetime | None) -> tuple[int, bool]:
        """Return a sort key: minutes between line and message, then whether its day is before the last."""
        minutes = abs(message.hour * 60 + message.minute - at.hour * 60 - at.minute)
        back = before is not None and message.date() < before.date()
        return minutes, back

    def _within(self, moment: datetime) -> datetime:
        return min(max(moment, self._first), self._last)


class _Reader:
    """Makes observations of lines, one after another."""

    def __init__(self, calendar: _Calendar, new_id: Callable[[], str]) -> None:
        self.observations: list[Observation] = []
        self._calendar = calendar
        self._new_id = new_id
        self._day: date | None = None
        self._top: Observation | None = None
        self._by_content: dict[object, Observation] = {}

    def skip(self, raw: str) -> None:
        """Read a line that is not an observation: it may be a date. Lines indented below a bullet without
        text are not details of the bullet before it."""
        day = _date(raw)
        if day is not None:
            self._day = day if self._calendar.holds(day) else None
        if day is not None or (raw[:1].strip() and _BULLET.match(raw)):
            self._top = None

    def add(self, line: _Line, detail: bool) -> None:
        """Add one observation, unless it is empty or repeats another."""
        parent = self._top if detail else None
        one = self._observation(line, parent)
        same = (one.parent_id, one.at, one.marker, one.text)
        previous = self._by_content.get(same)
        if previous is None and one.text:
            self._by_content[same] = one.model_copy(update={"id": self._new_id()})
            previous = self._by_content[same]
            self.observations.append(previous)
        if not detail:
            self._top = previous

    def _observation(self, line: _Line, parent: Observation | None) -> Observation:
        before = parent or (self.observations[-1] if self.observations else None)
        own = line.day if line.day and self._calendar.holds(line.day) else self._day
        at = self._calendar.moment(line.at, own, before.at if before else None)
        text = tidy(line.text)
        return Observation(
            id="",
            at=at,
            marker=line.marker,
            text=text if re.search(r"\w", text) else "",
            parent_id=parent.id if parent else None,
        )


def _line(raw: str) -> _Line | None:
    raw = raw.expandtabs(4)
    rest = raw.strip()
    bullet = _BULLET.match(rest)
    rest = rest[bullet.end() :] if bullet else rest
    clock, rest = _clock(rest)
    head = _marker(rest, clear=clock is not None)
    if head is None:
        return None
    marker, rest = head
    if clock is None:
        clock, rest = _clock(rest)
    if bullet is None and clock is None:
        return None
    at, day = clock or (None, None)
    text = rest[_end(_LINK.match(rest)) :]
    return _Line(len(raw) - len(raw.lstrip()), marker, at, day, text)


def _unmarked_line(raw: str) -> _Line | None:
    """Return a line that has a bullet and a time in brackets, and no marker."""
    raw = raw.expandtabs(4)
    rest = raw.strip()
    bullet = _BULLET.match(rest)
    if bullet is None or not _TIME.match(rest[bullet.end() :]):
        return None
    clock, rest = _clock(rest[bullet.end() :])
    at, day = clock or (None, None)
    text = rest[_end(_LINK.match(rest)) :]
    return _Line(len(raw) - len(raw.lstrip()), Marker.INFO, at, day, text)


def _marker(text: str, clear: bool) -> tuple[Marker, str] | None:
    """Return the marker at the head of a text, and the rest. A word that could just begin a sentence counts
    only in capitals, marked up, or next to a time (`clear`)."""
    name_match = _NAMED.match(text.lstrip())
    if name_match:
        rest = text.lstrip()[name_match.end() :]
        is_marked = name_match["open"] or name_match["sign"] or name_match["close"]
        if clear or is_marked or name_match["word"].isupper() or _TIME.match(rest):
            return _NAMES[name_match["word"].casefold()], rest
        return None
    sign_match = _SIGNED.match(text.lstrip())
    return (_SIGNS[sign_match["sign"]], text.lstrip()[sign_match.end() :]) if sign_match else None


def _clock(text: str) -> tuple[tuple[time | None, date | None] | None, str]:
    """Return the time at the head of a text, with its day if it names one, and the rest. An impossible time
    is read but not used."""
    match = _TIME.match(text) or _BARE_TIME.match(text)
    if match is None:
        return None, text
    hour, minute = int(match["hour"]), int(match["minute"])
    if match["half"] and 1 <= hour <= 12:
        hour = hour % 12 + (12 if match["half"][0] in "pP" else 0)
    at = time(hour, minute) if hour < 24 and minute < 60 else None
    return (at, _date(match["day"] or "")), text[match.end() :]


def _date(text: str) -> date | None:
    """Return the date, if the line is a date and nothing else."""
    if len(text) > _MAX_DATE:
        return None
    bare = re.sub(r"^\W+|\W+$", "", text)
    match = next((m for form in _DATES if (m := form.fullmatch(bare))), None)
    if match is None:
        return None
    groups = match.groupdict()
    month = groups.get("number") or _MONTHS.index(groups["month"][:3].lower()) + 1
    try:
        return date(int(groups["year"]), int(month), int(groups["day"]))
    except ValueError:
        return None


def _end(match: re.Match[str] | None) -> int:
    return match.end() if match else 0
