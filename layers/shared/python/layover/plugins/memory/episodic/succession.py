"""Tells without a model that a later statement says of the same thing what holds now, where an earlier one
says what held before (docs/behaviour.md#succession). Pure.

It compares only statements in one frame: all their words are equal but for one run in the same place, the
value. And only values count that exclude each other: states of one group, times of one occasion, amounts,
places, the one who has a role. Of what a thing may have several (`contains`, `speaks`, `needs`) none ends
another here: only the user knows, or a model that read the conversation. In doubt both stand."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from layover.lazy import lazy_pattern
from layover.plugins.memory.episodic.subject import (
    ARTICLES,
    CHANGING,
    COPULAS,
    TIMES,
    labels_differ,
    raw_words,
    sides_differ,
)
from layover.plugins.memory.text.dates import MONTH_OF
from layover.plugins.memory.text.function_words import function_words
from layover.plugins.memory.text.groups import exclude_each_other, is_of, states_of
from layover.plugins.memory.text.likeness import NEGATION, change_places, conditions, denies
from layover.plugins.memory.text.opposites import are_opposites
from layover.plugins.memory.text.words import UNSPACED, english_stem

_ALSO = lazy_pattern(
    r"\b(?:also|too(?! \w)|as well|in addition|additionally|additional|another|besides|both|rest of|second"
    r"|auch|außerdem|zusätzlich|ebenfalls|ebenso|weitere[rns]?|zudem|daneben|beide|aussi|également|en plus"
    r"|autre|outre|también|además|otr[oa]|resto|anche|inoltre|altr[oa]|também|além|outr[oa]|также|тоже"
    r"|ещё один|кроме того)\b|[也还]|另|それも|さらに|(?<=[\u4e00-\u9fff\u30a0-\u30ff])も",
    re.IGNORECASE,
)
"""Words that say that something comes on top of what was said."""
_NOW = lazy_pattern(
    r"\b(?:now|no longer|not any ?more|anymore|any longer|meanwhile|instead|from now on"
    r"|jetzt|nun|nunmehr|inzwischen|mittlerweile|nicht mehr|stattdessen|maintenant|désormais|dorénavant"
    r"|ahora|ya no|adesso|ora|ormai|agora|já não|теперь|больше не)\b"
    r"|现在|目前|今では|今は|今(?=[A-Za-z])|現在|이제|지금",
    re.IGNORECASE,
)
"""Words that say that it was another way before. `Again` and `since` do not: what is slow again was
so before."""
_BEFORE_VERB = lazy_pattern(r"now|ahora|ora|adesso|agora|теперь|现在|目前|今は|今", re.IGNORECASE)
"""They stand in front of the verb. Those of German and French stand behind it."""
_REASON = lazy_pattern(
    r"(?<=\S)[\s,]+(?:since|because|thanks to|after (?:the|an?|being)|seit|seitdem|weil|nachdem|nach de[mnr]"
    r"|dank|depuis|parce|grâce|après|desde|porque|gracias|tras|dopo|perché|da quando|после|благодаря"
    r"|с тех)\s.*$"  # noqa: RUF001
    r"|^(?:since|seit|depuis|desde)\s(?:the\s|de[mr]\s|l[ae]s?\s|el\s)?\S+,?\s",
    re.IGNORECASE | re.DOTALL,
)
"""The part of a statement that tells why, or since when, and not of which case it holds."""
_AGENT = lazy_pattern(
    r"\s+(?:by|durch|vom|par)\s(?:the|die|das|den|de[mr]|le|la|l['\u2019]).*$", re.DOTALL
)
_NOT_YET = lazy_pattern(
    r"\b(?:yet|noch nicht|noch kein\w*|encore|todavía|aún|ancora|ainda|ещё|еще)\b|还没|尚未|まだ",
    re.IGNORECASE,
)
_STILL = lazy_pattern(
    r"\b(?:yet|still|any|more|longer|noch|mehr|encore|plus|todavía|aún|ya|más|ancora|più|ainda|já|mais|ещё|еще"
    r"|больше)\b",
    re.IGNORECASE,
)
_END_OF_STATE = lazy_pattern(
    r"\s(?:until|till|bis(?: zum)?)\s(?!\d{1,2}(?:[:.]\d\d| Uhr| ?[ap]m)\b)[^,;]*$", re.IGNORECASE
)
"""The day on which a state is over. A time of day comes every day."""
_FINITE_PAST = lazy_pattern(
    r"\b(?:\w{3,}(?<!e)ed|took|read|went|came|fell|lost|met|saw|sold|bought|paid|lent)\b",
    re.IGNORECASE,
)
"""English verbs of what happened. Other languages say it with a word that also tells a state."""
_OF_PEOPLE = lazy_pattern(r".+(?:ish|ese|ian|rench|utch|erman|atholic|ewish|uslim|reek|wiss)")
"""English writes what people are (`Polish`, `Catholic`) like names."""
_ABSTRACT = lazy_pattern(
    r".+(?:ung|heit|keit|schaft|tion|betrieb|urlaub|arbeit|ance|ence|ция)|last|betrieb"
)
"""German writes each noun like a name: these name no place."""
_MOMENT = lazy_pattern(
    r"\d{1,2}[:h]\d{0,2}|noon|am|pm|(?:19|20)\d\d|.*(?:星期|周|礼拜|月|号|点|曜日|時).*|来週|今週"
    r"|morning|afternoon|evening|nachmittags?|vormittags?|abends?|nächste[nr]?",
    re.IGNORECASE,
)
_HOUR = lazy_pattern(r"uhr|h|hrs|heures?|horas?|ore|o'clock|часов|часа", re.IGNORECASE)
_REPEATING = lazy_pattern(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days|\w+(?:tags|wochs)|(?:lun|mar|jeu|vendre|same)dis",
    re.IGNORECASE,
)
_NUMBER = lazy_pattern(r"\d[\d.,]*[a-zµ°%]{0,3}", re.IGNORECASE)
_CODE = lazy_pattern(r"[a-z]?\d+[a-z]?", re.IGNORECASE)
_TOPIC = lazy_pattern("[\u3040-\u309f]*は")
"""Japanese marks with it what is spoken of, also behind a person's title."""
_ENDING = lazy_pattern("[\u3040-\u309f]+")
"""Japanese writes the endings of words in Hiragana."""
_INDEFINITE = lazy_pattern(
    r"\W*(?:an?(?!\s.*\b(?:é|está|foi|são|em|na|no|da|do|mora|fica|vence)\b)|one|some|several|many|few|most|two"
    r"|three|four|five|\d+|eine?r?|einige|mehrere|viele|zwei|drei|une?|deux|trois|quelques|plusieurs|una?|uno|unos|unas|dos|tres|algun[oa]s|varios|due|tre|alcuni|uma?|dois|duas|alguns"
    r"|один|одна|два|две|три|несколько)\s(?!\s*$)",
    re.IGNORECASE,
)
"""The beginning of a statement that does not tell of which thing it speaks: `A printer is broken`. In
Portuguese, `a` does tell."""
_DONE = frozenset({"delivery", "payment", "handling", "condition", "validity"})
"""Groups of states that a thing is brought to, at a time: `was paid on Friday`."""
_MAX_VALUE = 3
"""Words of a value that the later statement puts in place of another with `now`."""


class _Token(NamedTuple):
    raw: str
    key: str
    is_name: bool

    @property
    def is_link(self) -> bool:
        return is_of("link", self.raw)

    @property
    def is_copula(self) -> bool:
        return self.raw in COPULAS or _TOPIC.fullmatch(self.raw) is not None

    @property
    def carries(self) -> bool:
        """It says something by itself."""
        helps = (
            self.is_link
            or self.is_copula
            or is_of("auxiliary", self.raw)
            or _ENDING.fullmatch(self.raw)
        )
        return not helps and self.raw not in function_words()

    @property
    def is_number(self) -> bool:
        return _NUMBER.fullmatch(self.raw) is not None

    @property
    def is_day(self) -> bool:
        word = self.raw.removesuffix("-feira")
        return any(TIMES.fullmatch(w) for w in (word, word.removesuffix("s"))) or bool(
            _MOMENT.fullmatch(word)
        )

    @property
    def is_time(self) -> bool:
        return self.is_day or _HOUR.fullmatch(self.raw) is not None


Run = Sequence[_Token]


class _Frame(NamedTuple):
    """Two statements, parted where they differ. `head`, `tail`: the later one's words before and behind its
    value; `now`: its word that says that it was another way before, if any; `now_at`: the number of words in
    front of that."""

    head: Run
    old: Run
    new: Run
    tail: Run
    is_past: bool
    now: str
    now_at: int

    @property
    def lead(self) -> Run:
        """The words that hold the value to the head, the nearest first."""
        return tuple(takewhile(lambda t: t.is_link or is_of("until", t.raw), reversed(self.head)))

    @property
    def verb(self) -> _Token | None:
        """The last word of the head that does not only hold the value to it."""
        rest = self.head[: len(self.head) - len(self.lead)]
        return rest[-1] if rest else None

    @property
    def says_is(self) -> bool:
        return self.verb is not None and self.verb.is_copula

    def verb_is(self, group: str) -> bool:
        """Return whether the last word of the head is of this group."""
        return self.verb is not None and is_of(group, self.verb.raw)

    @property
    def is_identified(self) -> bool:
        """The thing that they speak of has a number: it is a single one."""
        return any(any(c.isdigit() for c in t.raw) for t in self.head)

    def has(self, group: str) -> bool:
        """Return whether the head has a word of this group."""
        return any(is_of(group, t.raw) for t in self.head)

    @property
    def goes_on(self) -> bool:
        """A word that says something follows at once: the value may only tell of which thing it does."""
        return bool(self.tail) and self.tail[0].carries

    @property
    def is_over(self) -> bool:
        """It tells what was, and does not say that it is another way now."""
        return self.is_past and not self.now


def leaves_standing(new: str, old: str, evidence: str = "") -> bool:
    """Return whether a later statement leaves an earlier one as it is, though the two look alike, and says
    so: it comes on top, it holds for a case of its own, or each is bound to its time. `evidence`: the words
    that it was learned from."""
    return bool(
        (_ALSO.search(f"{new} {evidence}") and not _ALSO.search(old))
        or _INDEFINITE.match(new)
        or _tells_history(new, old)
        or _is_limited(new, old, evidence)
    )


def stands_beside(new: str, old: str, evidence: str = "") -> bool:
    """Return whether a later statement leaves an earlier one as it is, as far as words tell: it says so, or
    both speak of what a thing may have several of, and nobody denies one of them."""
    if leaves_standing(new, old, evidence) or _tells_what_was(new, old, evidence):
        return True
    return denies(evidence) == denies(new) and _is_one_of_several(_frame(new, old, evidence))


def follows(new: str, old: str, evidence: str = "") -> bool:
    """Return whether `new` says of the same thing what holds now, and `old` what held before. `evidence`: the
    words that `new` was learned from."""
    if new.casefold() == old.casefold() or stands_beside(new, old, evidence):
        return False
    if change_places(new, old):
        return False
    if len({tuple(conditions(_END_OF_STATE.sub(" ", text))) for text in (new, old)}) > 1:
        return False
    if sides_differ(new, old) or labels_differ(new, old):
        return False
    if denies(new) != denies(old):
        return _turns_denial(new, old)
    frame = _frame(new, old, evidence)
    if not frame.now and _adds_a_case(frame):
        return False
    if not (frame.old and frame.new) or (frame.has("kin") and not frame.now):
        return False
    if not any(t.carries for t in frame.head):
        return _has_another_holder(frame)
    return any(
        takes_the_place(frame)
        for takes_the_place in (
            _is_another_state,
            _is_another_time,
            _is_another_amount,
            _is_another_place,
            _is_another_holder,
            _is_moved,
            _is_changed,
        )
    )


# The parts of two statements


@lru_cache(maxsize=512)
def _frame(new: str, old: str, evidence: str) -> _Frame:
    a, b = _tokens(_cut(old)), _tokens(_cut(new))
    start = 0
    while start < min(len(a), len(b)) and a[start].key == b[start].key:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end].key == b[-1 - end].key:
        end += 1
    marker = _NOW.search(new)
    return _Frame(
        head=b[:start],
        old=a[start : len(a) - end],
        new=b[start : len(b) - end],
        tail=b[len(b) - end :],
        is_past=any(is_of("past", raw) for raw in raw_words(f"{old} {new}")),
        now=marker[0] if marker else ("now" if _NOW.search(evidence) else ""),
        now_at=len(_tokens(new[: marker.start()])) if marker else len(b),
    )


def _cut(text: str) -> str:
    """Return a statement without the part that tells why, since when or by whom."""
    return _AGENT.sub("", _REASON.sub("", text.rstrip(" .!\u3002")))


@lru_cache(maxsize=1_024)
def _tokens(text: str) -> tuple[_Token, ...]:
    """Return the words of a statement in order, without articles and words of change."""
    plain = _NOW.sub(" ", text)
    names = {word.casefold() for word in plain.split()[1:] if word.casefold() != word}
    names = {raw for name in names for raw in raw_words(name)}
    words = raw_words(plain)
    return tuple(
        _Token(raw, "=" if raw in COPULAS else english_stem(raw), raw in names)
        for place, raw in enumerate(words)
        # At its end, `an` is German.
        if (raw not in ARTICLES or place == len(words) - 1)
        and (raw not in CHANGING or is_of("move", raw))
    )


def _core(run: Run) -> list[_Token]:
    return [t for t in run if t.carries]


def _own(some: Run, others: Run) -> list[_Token]:
    """Return the words of one run that say something and that the other lacks."""
    keys = {t.key for t in others}
    return [t for t in some if t.carries and t.key not in keys]


# What leaves the earlier one as it is


def _tells_what_was(new: str, old: str, evidence: str) -> bool:
    """Return whether only the later one tells what was, and not to what the thing was brought."""
    if _NOW.search(f"{new} {evidence}") or any(is_of("past", raw) for raw in raw_words(old)):
        return False
    tokens = _tokens(_cut(new))
    if not any(is_of("past", t.raw) for t in tokens):
        return False
    is_act = _AGENT.search(new) is not None or any(is_of("move", t.raw) for t in tokens)
    return not is_act and not _is_brought_about(tokens)


def _tells_history(new: str, old: str) -> bool:
    """Return whether each of the two is bound to a time of its own: what was measured or happened then stays
    true. A meeting that is moved differs only in its time, and has not been."""
    a, b = (_tokens(_cut(text)) for text in (old, new))
    if any(is_of("move", t.raw) for t in b):
        return False
    differing = [
        [t for t in some if t.key not in {o.key for o in others} and (t.carries or t.is_time)]
        for some, others in ((a, b), (b, a))
    ]
    times = [
        [t for t in own if t.is_time or _belongs_to_day(t, some)]
        for own, some in zip(differing, (a, b), strict=True)
    ]
    if not all(times):
        return False
    if any(len(own) == len(of_time) for own, of_time in zip(differing, times, strict=True)):
        # An event of the past, at two times, happened twice.
        return all(_is_event(text) for text in (new, old))
    return True


def _belongs_to_day(token: _Token, tokens: Run) -> bool:
    """Return whether a number stands beside the name of a month or a day."""
    place = tokens.index(token)
    beside = (*tokens[max(place - 1, 0) : place], *tokens[place + 1 : place + 2])
    return token.is_number and any(t.is_day for t in beside)


def _is_event(text: str) -> bool:
    return bool(_FINITE_PAST.search(text)) and COPULAS.isdisjoint(raw_words(text))


def _is_limited(new: str, old: str, evidence: str) -> bool:
    """Return whether only the later one names a case in which it holds: `fails in Firefox`. Why and since
    when it holds is no such case. If both name one (`on Android`, `on iOS`), each holds in its own."""
    if _NOW.search(f"{new} {evidence}") or _NOT_YET.search(old):
        return False
    a, b = _tokens(_cut(old)), _tokens(_cut(new))
    if _is_brought_about(b) or any(is_of("move", t.raw) for t in b):
        return False
    mine, others = _own(b, a), _own(a, b)
    raw, before = ([t.raw for t in each] for each in (b, a))
    turned = {y for x in before if x not in raw for y in raw if y not in before and _turns(x, y)}
    if not turned and not (denies(new) and not denies(old)):
        return False
    if len(mine) > len(others):
        return _names_a_case([t for t in mine if t.raw not in turned], _raw(new))
    return _names_a_case(mine[1:], _raw(new)) and _names_a_case(others[1:], _raw(old))


def _turns(old: str, new: str) -> bool:
    are_numbers = old[:1].isdigit() and new[:1].isdigit()
    return are_numbers or exclude_each_other(old, new) or are_opposites(old, new)


def _raw(text: str) -> list[str]:
    """Return the words of a statement with its articles."""
    return raw_words(_NOW.sub(" ", _cut(text)))


def _adds_a_case(frame: _Frame) -> bool:
    """Return whether the later value says more than the earlier one behind its first word: `Ben for
    returns`."""
    old, new = _core(frame.old), _core(frame.new)
    if len(new) <= len(old) or _is_brought_about((*frame.head, *frame.new)):
        return False
    if any(is_of("move", t.raw) for t in new):
        return False
    return _names_a_case(new[1:], [t.raw for t in frame.new])


def _names_a_case(own: Run, raw: Sequence[str]) -> bool:
    """Return whether one of these words, which are no value, stands behind one that may hold a case to a
    statement: `in Firefox`, `los domingos`."""
    for token in own:
        lead = raw[max(raw.index(token.raw) - 1, 0)]
        if _REPEATING.fullmatch(token.raw) or lead in ARTICLES:
            return True
        if is_of("link", lead) and lead != "の":
            return True
    return False


def _is_brought_about(tokens: Run) -> bool:
    """Return whether a thing was brought to a state, which happened at one time and in one way."""
    is_passive = any(is_of("past", t.raw) or t.raw == "been" for t in tokens)
    groups = [states_of(t.raw) for t in tokens]
    is_done = any(not _DONE.isdisjoint(g) and "openness" not in g for g in groups)
    return (is_passive and is_done) or any(is_of("arrival", t.raw) for t in tokens)


def _is_one_of_several(frame: _Frame) -> bool:
    """Return whether the two differ in what a thing may have several of: `shows error 41`."""
    if not (frame.old and frame.new) or frame.now or frame.goes_on:
        return False
    runs = (frame.old, frame.new)
    if all(any(t.is_time or t.is_number for t in run) for run in runs):
        # German has a verb for "expires" that begins as "runs" does.
        is_round = frame.verb_is("round") and not any(t.raw == "ab" for t in frame.tail)
        if is_round and not frame.is_identified:
            return True
        kinds, before = (_kinds_of_time(run) for run in runs)
        if kinds and before and kinds.isdisjoint(before):
            return True
    return frame.verb_is("event") or frame.has("several")


# Values of which the later one ends the earlier one


def _turns_denial(new: str, old: str) -> bool:
    """Return whether one of the two denies just what the other says: with `no longer` or `not yet`, the other
    one may say more."""
    mine, others = (_statement_keys(text) for text in (new, old))
    if len(mine) < 2 or mine[:1] != others[:1]:
        return False
    if mine == others:
        return True
    if not denies(new):
        return _NOT_YET.search(old) is not None and mine[: len(others)] == others
    marker = _NOW.search(new)
    if marker is None:
        return False
    rest = _statement_keys(new[marker.end() :])
    is_left = bool(rest) and others[-len(rest) :] == rest and len(others) - len(rest) == 1
    return is_left or set(mine) <= set(others)


def _statement_keys(text: str) -> list[str]:
    """Return what a statement says, without its denials."""
    return [t.key for t in _tokens(_STILL.sub(" ", NEGATION.sub(" ", _cut(text)))) if t.carries]


def _is_another_state(frame: _Frame) -> bool:
    """It was in preparation, and is shipped."""
    old, new = _state(frame.old), _state(frame.new)
    is_mended = bool(old and new) and "cure" in states_of(new[0].raw)
    is_of_plan = frame.goes_on and is_of("role", frame.tail[0].raw)
    if not old or not new or (frame.goes_on and not is_mended and not is_of_plan):
        return False
    if exclude_each_other(old[0].raw, new[0].raw) or exclude_each_other(old[-1].raw, new[0].raw):
        is_same_kind = all(exclude_each_other(old[0].raw, t.raw) for t in new)
        return len(new) == 1 or is_same_kind or _is_brought_about((*frame.head, *frame.new))
    return len(old) == len(new) == 1 and are_opposites(old[0].raw, new[0].raw)


def _state(run: Run) -> list[_Token]:
    """Return the words of a run that say something, or its last one: `on` and `up` are states as well."""
    run = tuple(takewhile(lambda t: not is_of("until", t.raw), run))
    return _core(run) or [t for t in run[-1:] if not t.is_copula]


def _is_another_time(frame: _Frame) -> bool:
    """It is on Monday, and is on Tuesday."""
    runs = (frame.old, frame.new)
    if not all(any(t.is_time for t in run) for run in runs):
        return False
    if not all(t.is_time or t.is_number or not t.carries for run in runs for t in run):
        return False
    if any(_REPEATING.fullmatch(t.raw) for run in runs for t in run):
        return False
    if _kinds_of_time(frame.old).isdisjoint(_kinds_of_time(frame.new)):
        return False
    if any(is_of("until", t.raw) for t in frame.lead):
        return True
    if any(t.carries and not t.is_time for t in frame.tail) or frame.is_over:
        return False
    # Chinese and Russian say `the meeting on Monday` without a verb.
    is_there = bool(frame.lead) and frame.lead[0].raw in ("在", "в", "во")
    is_once = frame.verb_is("occasion") or (frame.verb_is("round") and frame.is_identified)
    return frame.says_is or is_once or is_there


def _kinds_of_time(run: Run) -> set[str]:
    """Return which kinds of time a run names: a meeting in May may be on a Monday."""
    kinds = set[str]()
    for token in run:
        if token.raw in MONTH_OF or (
            token.is_day and "月" in token.raw and not token.raw.endswith("曜日")
        ):
            kinds.add("month")
        elif token.is_day and token.raw.isdecimal():
            kinds.add("year")
        elif token.is_day and not token.raw[:1].isdigit():
            kinds.add("day")
        elif token.is_time:
            kinds.add("clock")
    return kinds


def _is_another_amount(frame: _Frame) -> bool:
    """It takes 40 ms, and takes 3 s; it listens on port 8080, and on port 8443."""
    if frame.verb is not None and frame.verb.raw.endswith("ed"):
        return False
    old, new = (list(run) for run in (frame.old, frame.new))
    is_counted = all(_is_amount(run) for run in (old, new))
    if is_counted and not frame.goes_on:
        has_unit = all(len(run) > 1 or not run[0].raw.isdecimal() for run in (old, new))
        return has_unit or frame.says_is or frame.verb_is("label")
    if is_counted and is_of("unit", frame.tail[0].raw):
        return True
    if frame.verb_is("label") and not frame.goes_on:
        return all(len(run) == 1 and _CODE.fullmatch(run[0].raw) for run in (old, new))
    has_number = bool(frame.head) and frame.head[-1].is_number
    return has_number and all(len(run) == 1 and is_of("unit", run[0].raw) for run in (old, new))


def _is_amount(run: Run) -> bool:
    if not run or not run[0].is_number or len(run) > 2 or any(t.is_day for t in run):
        return False
    return len(run) == 1 or is_of("unit", run[1].raw)


def _is_another_place(frame: _Frame) -> bool:
    """It is in Bonn, and is in Kiel."""
    old, new = _core(frame.old), _core(frame.new)
    if not frame.lead or frame.is_over or len(frame.old) > len(old) or len(frame.new) > len(new):
        return False
    if not (0 < len(old) <= 2 and 0 < len(new) <= 2) or old[0].is_name != new[0].is_name:
        return False
    if any(
        states_of(t.raw) or t.is_number or t.is_time or _ABSTRACT.fullmatch(t.raw)
        for t in (*old, *new)
    ):
        return False
    if frame.tail:
        is_stay = any(is_of("staying", t.raw) for t in frame.tail)
        return frame.tail[0].raw in ("に", "で") and is_stay
    is_name = old[0].is_name or UNSPACED.search(old[0].raw) is not None
    if not is_of("placing", frame.lead[0].raw):
        return is_name and frame.is_identified and frame.verb_is("going")
    if is_of("region", old[-1].raw) != is_of("region", new[-1].raw):
        return False
    return frame.verb_is("staying") or (is_name and frame.says_is)


def _is_another_holder(frame: _Frame) -> bool:
    """The manager is Anna, and is Ben: what there is one of."""
    old, new = _core(frame.old), _core(frame.new)
    if not old or not new or _core(frame.tail) or frame.is_over or frame.lead:
        return False
    if frame.verb_is("naming") or frame.verb_is("site"):
        return True
    if not frame.says_is or any(t.is_link for run in (frame.old, frame.new) for t in run[:1]):
        return False
    if any(_OF_PEOPLE.fullmatch(t.raw) for t in (*old, *new)):
        return False
    return frame.has("role") and old[0].is_name == new[0].is_name


def _has_another_holder(frame: _Frame) -> bool:
    """Anna is the contact for invoices, and Ben is it now."""
    is_said_of = bool(frame.tail) and frame.tail[0].is_copula
    return is_said_of and bool(frame.now) and any(is_of("role", t.raw) for t in frame.tail)


def _is_moved(frame: _Frame) -> bool:
    """The meeting on Monday was moved to Thursday; the team switched from Jira to Linear."""
    if not any(is_of("move", t.raw) for t in frame.new):
        return False
    old, new = _core(frame.old), [t for t in _core(frame.new) if not is_of("move", t.raw)]
    left = {
        t.key
        for place, t in enumerate(frame.new)
        if place and is_of("from", frame.new[place - 1].raw)
    }
    if left & {t.key for t in old[-2:]}:
        return True
    is_at_place = bool(frame.old) and is_of("placing", frame.old[0].raw)
    if is_at_place and len(old) == len(new) == 1 and not any(t.is_time for t in (*old, *new)):
        return old[0].is_name == new[0].is_name
    values, before = ([t for t in run if t.is_time or t.is_number] for run in (new, old))
    labels = {t.key for t in new if t not in values}
    return (
        bool(values and before)
        and labels <= {t.key for t in old}
        and any(t.is_time for t in values) == any(t.is_time for t in before)
        and len(old) - len(before) <= len(labels) + 1
    )


def _is_changed(frame: _Frame) -> bool:
    """The client uses Firefox, and now uses Chrome: another value behind the same verb, with a `now`."""
    old, new = _core(frame.old), _core(frame.new)
    if not frame.now or frame.has("several") or not old or not new:
        return False
    if max(len(old), len(new)) > _MAX_VALUE:
        return False
    if frame.says_is and not frame.lead:
        are_held = all(run[0].is_link for run in (frame.old, frame.new))
        return are_held and old[0].is_name == new[0].is_name
    if len(frame.head) - len(frame.lead) < 2:
        return False
    if frame.lead:
        return old[0].is_name == new[0].is_name
    return not _BEFORE_VERB.fullmatch(frame.now) or frame.now_at < len(frame.head)
