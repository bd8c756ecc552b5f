"""Tells whether two statements speak of the same thing, by the place of the words in which they differ
(docs/behaviour.md#contradictions). Pure.

No parser of a small size knows every language. But nearly all of them name the thing first and say of it last
what holds: words that differ at the end are what is said, words that differ before the end name the thing."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from layover.lazy import lazy_pattern
from layover.plugins.memory.text.function_words import function_words
from layover.plugins.memory.text.likeness import NEGATION, proper_names
from layover.plugins.memory.text.opposites import are_opposites
from layover.plugins.memory.text.words import UNSPACED, words

_TOKEN = re.compile(r"['\u2019]s\b|[^\W_]+(?:[-_.:/@,][^\W_]+)*")
_JOINTS = frozenset("-_.:/@")
_POSSESSIVE = ("'s", "\u2019s")
_SCRIPTS = lazy_pattern(
    "[\u3040-\u309f]+|[\u30a0-\u30ff\u31f0-\u31ff]+"
    "|[的了是在有和与也都很会能要到把被为已改位于]+"
    "|(?:(?![的了是在有和与也都很会能要到把被为已改位于])[\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])+|."
)
"""Runs of one kind in texts without blanks: Japanese writes endings in Hiragana between its nouns, and some
characters of Chinese do nothing but hold the others together."""
_BINDING = lazy_pattern("[\u3040-\u309f]+|[的了是在有和与也都很会能要到把被为已改位于]+")
_ROOT = 6
CHANGING = frozenset(
    "raised lowered increased decreased reduced changed switched updated set now new current currently"  # noqa: SIM905
    " again meanwhile already still jetzt nun neu neuerdings inzwischen wieder noch erhöht gesenkt geändert"
    " maintenant désormais ahora nuevo ora agora adesso теперь снова опять 现在 今".split()
)
CHANGES = frozenset(words(" ".join(sorted(CHANGING))))
"""Words that tell of a change: they say nothing about what it is a change of."""
_LIGHT = CHANGING | frozenset("side seite côté lado lato parte".split())  # noqa: SIM905
_GENERIC = frozenset(
    w[:_ROOT]
    for w in words(
        "user users customer client caller person kunde kundin nutzer nutzerin benutzer utilisateur cliente"
        " usuario usuário utente клиент 用户 客户 ユーザー"
    )
)
"""The person who speaks: a statement about them may be about anything."""
_CHANGED = lazy_pattern(
    r"\b(?:now|no longer|not any ?more|anymore|any longer|meanwhile|instead|again|switched|changed|moved"
    r"|updated|replaced|since|raised|lowered|increased|reduced|upgraded|fixed|solved|resolved|repaired"
    r"|seit|jetzt|nun|nunmehr|inzwischen|mittlerweile|nicht mehr|wieder|stattdessen|seither|geändert"
    r"|umgezogen|behoben|gelöst|repariert|depuis|maintenant|désormais|ne .{1,30} plus|résolu|réparé"
    r"|desde|ahora|ya no|resuelto|arreglado|adesso|ora|non .{1,30} più|risolto|agora|já não|resolvido"
    r"|теперь|больше не|снова|опять)\b|现在|已|改为|改成|改到|改在|不再|もう|今は|現在|変更|이제|지금",
    re.IGNORECASE,
)
"""Words that say that something is not as it was."""
COPULAS = frozenset(
    "is was are were be been being has had ist war sind wurde wird sei est était sont a été es era está fue"  # noqa: SIM905
    " è sono stato stata estado é foi são será fica это был была стал 是 为 は".split()
)
_NAMING = lazy_pattern(
    r"(?:\b(?:called|named|renamed(?: to)?|heißt|heisst|nennt sich|s['\u2019]appelle|se nomme|se llama"
    r"|si chiama|chama-se|se chama|называется|зовут)|名为|叫做?|という名前は?)\s*"
    r"(?:(?:now|jetzt|nun|maintenant|ahora|ora|agora|теперь)\s+)?[\"'`\u201c\u201e\u00ab]?(?P<name>[^\s\"'`\u201d\u00bb]+)",
    re.IGNORECASE,
)
"""A name that is given to what was spoken of before: it tells of that thing, and not which thing it is."""
_TAKING_PART = frozenset("with by mit von avec par con por com da".split())  # noqa: SIM905
"""Words before somebody who took part in something: others may have taken part another time."""
_HALF = 0.5
_LABEL = lazy_pattern(
    r"(?P<of>(?i:\b(?:room|tank|line|gate|floor|platform|table|flight|building|house|apartment|flat|hall|unit|zone"
    r"|sensor|lane|bus|bay|seat|ward|bed|door|pump|machine|track|warehouse|site|ticket|case|invoice|order|account"
    r"|zimmer|raum|haus|halle|linie|gleis|tor|etage|wohnung|rechnung|platz|tisch|tür|lager|konto|auftrag"
    r"|chambre|salle|ligne|quai|appartement|étage|bâtiment|maison|porte|facture|habitación|sala|línea|andén|piso"
    r"|edificio|puerta|casa|factura|camera|stanza|binario|volo|linea|quarto|andar|prédio|fatura|комната|дом|рейс))|\b[A-Z]{1,3})"
    r"\s+(?:no\.?\s*|nr\.?\s*|n°\s*|#)?(?P<number>\d+|(?<=[a-z] )[A-Z]\b)"
    r"(?![.,:]?\d|\s*(?:%|€|\$))"
)
TIMES = lazy_pattern(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|today|tomorrow|yesterday|weekend|noon|midnight"
    r"|january|february|march|april|may|june|july|august|september|october|november|december"
    r"|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?|sonnabend|heute|morgen|gestern|mittag|mitternacht"
    r"|januar|februar|märz|mai|juni|juli|oktober|dezember"
    r"|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|demain|hier|midi|janvier|février|mars|avril|juin"
    r"|juillet|août|septembre|octobre|novembre|décembre"
    r"|lunes|martes|miércoles|jueves|viernes|sábado|domingo|mañana|ayer|enero|febrero|marzo|abril|mayo|junio"
    r"|julio|agosto|septiembre|octubre|noviembre|diciembre"
    r"|lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica|domani|ieri"
    r"|segunda|terça|quarta|quinta|sexta|amanhã|ontem"
    r"|понедельник|вторник|среда|среду|четверг|пятница|пятницу|суббота|субботу|воскресенье|завтра|вчера",
    re.IGNORECASE,
)
_SIDES = tuple(
    frozenset(line.split())
    for line in (
        "left right leftmost rightmost",
        "top bottom upper lower middle",
        "front rear back",
        "inner outer inside outside internal external indoor outdoor",
        "north south east west northern southern eastern western",
        "first second third last",
        "primary secondary",
        "incoming outgoing inbound outbound import export upload download",
        "private public male female senior junior",
        "linke linker linken linkes rechte rechter rechten rechtes links rechts",
        "obere oberer oberen unterer untere unteren oben unten mittlere",
        "vordere vorderer hintere hinterer vorne hinten",
        "innere äußere innen außen intern extern nördlich südlich östlich westlich norden süden osten westen",
        "gauche droite droit avant arrière haut bas intérieur extérieur nord sud est ouest",
        "izquierda izquierdo derecha derecho delantera delantero trasera trasero norte sur este oeste"
        " interior exterior superior inferior",
        "sinistra sinistro destra destro anteriore posteriore superiore inferiore interno esterno",
        "esquerda esquerdo direita direito dianteira traseira",
        "левый левая левое левой левого правый правая правое правой правого",
        "old older new newer alte alter altes alten neue neuer neues neuen ancien ancienne nouveau nouvelle"
        " viejo vieja nuevo nueva vecchio vecchia nuovo nuova velho velha novo nova старый старая новый"
        " новая",
    )
)
"""Words that tell which of several things is meant."""


class _Word(NamedTuple):
    root: str
    raw: str
    gap: tuple[str, ...]
    """The words that hold it to the one before it, without articles."""
    lead: str
    """The word before it: the last of the gap, or the one that carries something."""
    is_led: bool
    """It is a number that follows a word at once and counts nothing: `tank 6 is`."""

    @property
    def is_number(self) -> bool:
        return self.raw[:1].isdigit() and not any(c.isalpha() for c in self.raw)

    @property
    def is_identifier(self) -> bool:
        return not self.is_number and not _JOINTS.isdisjoint(self.raw)


class _Difference(NamedTuple):
    """A run of words of each text that stand in the same place."""

    old: Sequence[_Word]
    new: Sequence[_Word]
    has_head: bool
    has_tail: bool
    is_before_copula: bool
    """Behind it both say what it is: `the test for login is flaky`."""
    is_between: bool
    """A word that both have follows at once: `la furgoneta roja arranca`."""

    @property
    def is_whole(self) -> bool:
        """Both texts have words there."""
        return bool(self.old and self.new)


def speaks_of_another_thing(new: str, old: str) -> bool:
    """Return whether the words in which two statements differ name the thing that they speak of. Whatever
    differs before the end does, but for numbers, units, times and opposites."""
    if sides_differ(new, old) or labels_differ(new, old):
        return True
    return any(
        each.is_whole and (not each.has_head or (each.has_tail and not _is_turn(each)))
        for each in _differences(new, old)
        if not _gives_names(each, new, old)
    )


def speaks_of_the_same(new: str, old: str, around: str) -> bool:
    """Return whether a later statement says of the same thing what holds now, if somebody says that it does.
    `around`: the words that it was learned from, and those next to them."""
    if sides_differ(new, old) or labels_differ(new, old):
        return False
    differences = [
        each
        for each in _differences(new, old)
        if each.is_whole and not _gives_names(each, new, old)
    ]
    if any(_is_of_another_thing(each, new, old) for each in differences):
        return False
    is_changed = _CHANGED.search(f"{new} {around}") is not None
    if not _shares_its_thing(new, old, is_changed=is_changed):
        return False
    if any(_is_of_an_event(each, new, old) for each in differences) and not is_changed:
        return False
    return is_changed or all(_is_same_frame(each) for each in differences)


def _gives_names(difference: _Difference, new: str, old: str) -> bool:
    """Return whether all that differs are names that both give to what they speak of."""
    return {w.raw for w in difference.old} <= given_names(old) and {
        w.raw for w in difference.new
    } <= given_names(new)


def _is_of_another_thing(difference: _Difference, new: str, old: str) -> bool:
    """Return whether two runs of words name two things: what stands first does, and what is held to a thing
    in front of it (`of the van`, `in the kitchen`), unless nothing follows."""
    if not difference.has_head:
        return True
    if _is_turn(difference):
        return False
    one, other = difference.old[0], difference.new[0]
    are_names = all(w.is_identifier for w in (one, other)) or (
        one.raw in _names(old) and other.raw in _names(new)
    )
    if not difference.has_tail:
        says_more = all(
            sum(not w.is_number for w in run) > 1 for run in (difference.old, difference.new)
        )
        return are_names and says_more and one.gap == other.gap and COPULAS.isdisjoint(one.gap)
    if are_names or difference.is_before_copula:
        return True
    ends_in_words = not (difference.old[-1].is_number or difference.new[-1].is_number)
    if difference.is_between and ends_in_words and not one.gap and not other.gap:
        return True
    return all(w.gap and COPULAS.isdisjoint(w.gap) for w in (one, other))


def puts_another_word(new: str, old: str) -> bool:
    """Return whether a statement has other words in the place of some of the other one's, though it may have
    those elsewhere: `the import is important`."""
    return any(each.is_whole for each in _differences(new, old))


def given_names(text: str) -> set[str]:
    """Return the names that a text gives to what it speaks of, in lower case."""
    return {match["name"].casefold().strip(".,;:!?()") for match in _NAMING.finditer(text)}


def last_word(text: str) -> str:
    """Return the last word of a text, in lower case; "" if there is none. Words of change do not count, nor
    does what only ends a sentence in scripts without blanks."""
    if UNSPACED.search(text):
        return next((w.raw for w in reversed(_words(text))), "")
    return next((raw for raw in reversed(raw_words(text)) if raw not in _LIGHT), "")


def _shares_its_thing(new: str, old: str, *, is_changed: bool) -> bool:
    """Return whether the two have an identifier, two words or half of the words of the shorter one in common.
    `is_changed`: the later one says that something changed; then the first word is enough."""
    a, b = (_words(text) for text in (new, old))
    roots = [{w.root for w in each if not w.is_number} - _GENERIC for each in (a, b)]
    common = roots[0] & roots[1]
    if not common:
        return False
    if any(any(c.isdigit() for c in root) for root in common) or len(common) > 1:
        return True
    if is_changed and a[0].root == b[0].root:
        return True
    return len(common) / min(len(each) for each in roots) >= _HALF


def _is_same_frame(difference: _Difference) -> bool:
    """Return whether two runs of words answer the same question about a thing: behind the same words, behind
    some that only say that it is or was so, or before words that both have."""
    if difference.has_tail or _is_turn(difference):
        return True
    one, other = difference.old[0].gap, difference.new[0].gap
    if not one and not other:
        # Of two words that follow at once, nobody knows whether they are verbs with what belongs to them.
        return len(difference.old) == len(difference.new) == 1
    return one == other or not COPULAS.isdisjoint(other)


def _is_of_an_event(difference: _Difference, new: str, old: str) -> bool:
    """Return whether what differs is somebody who took part in something."""
    for run, text in ((difference.new, new), (difference.old, old)):
        if run[0].raw not in _names(text) or run[0].lead not in _TAKING_PART:
            return False
    return True


def _names(text: str) -> set[str]:
    return {name.casefold() for name in proper_names(text)}


def _is_turn(difference: _Difference) -> bool:
    """Return whether the two runs differ in numbers, units, times or opposites, which are what is said of a
    thing."""
    old, new = ([w for w in run if not w.is_number] for run in difference[:2])
    if not old or not new:
        return True
    if len(old) == len(new) == 1:
        if all(w.lead[:1].isdigit() for w in (old[0], new[0])):
            return True
        if all(TIMES.fullmatch(w.raw) for w in (old[0], new[0])):
            return True
    turned = {w for a in old for b in new if are_opposites(a.raw, b.raw) for w in (a, b)}
    # Beside the opposites only one of the two may have words of its own.
    return bool(turned) and (turned >= set(old) or turned >= set(new))


def labels_differ(new: str, old: str) -> bool:
    """Return whether a number tells which of several things is meant (`tank 6`), and is another one in the
    other text. At the end it is what is said."""
    mine, others = _labels(new), _labels(old)
    for label in mine.keys() & others.keys():
        if mine[label].isdisjoint(others[label]):
            at_ends = (mine[label], others[label]) == ({last_word(new)}, {last_word(old)})
            if not at_ends:
                return True
    return False


def _labels(text: str) -> dict[str, set[str]]:
    """Return the numbers of a text by the words that they belong to."""
    labels: dict[str, set[str]] = {}
    for match in _LABEL.finditer(text):
        labels.setdefault(match["of"].casefold(), set()).add(match["number"].casefold())
    for word in _words(text):
        if word.is_led and word.raw.isdigit():
            labels.setdefault(word.lead, set()).add(word.raw)
    return labels


def sides_differ(new: str, old: str) -> bool:
    """Return whether each of the two names a side that the other lacks, before its end."""
    a, b = _words(new), _words(old)
    raw, raw_before = raw_words(new), raw_words(old)
    mine, others = set(raw) - set(raw_before), set(raw_before) - set(raw)
    ends = [
        {each[-1]} | {w.raw for w in some[-1:]}
        for each, some in ((raw, a), (raw_before, b))
        if each
    ]
    for sides in _SIDES:
        if not (mine & sides and others & sides):
            continue
        at_ends = all(end & sides for end in ends)
        if not at_ends or not mine & sides <= ends[0] or len(a) == 1:
            return True
    return False


@lru_cache(maxsize=256)
def _differences(new: str, old: str) -> tuple[_Difference, ...]:
    a, b = _words(old), _words(new)
    matcher = SequenceMatcher(None, [w.root for w in a], [w.root for w in b], autojunk=False)
    codes = matcher.get_opcodes()
    equals = [n for n, (tag, *_) in enumerate(codes) if tag == "equal"]
    heads = [n for n in equals if any(w.root not in _GENERIC for w in a[codes[n][1] : codes[n][2]])]
    return tuple(
        _Difference(
            old=a[i1:i2],
            new=b[j1:j2],
            has_head=bool(heads) and heads[0] < n,
            has_tail=bool(equals) and equals[-1] > n,
            is_before_copula=bool(
                i2 < len(a)
                and j2 < len(b)
                and not any(COPULAS.isdisjoint(w.gap) for w in (a[i2], b[j2]))
            ),
            is_between=bool(i2 < len(a) and j2 < len(b) and not a[i2].gap and not b[j2].gap),
        )
        for n, (tag, i1, i2, j1, j2) in enumerate(codes)
        if tag != "equal"
    )


@lru_cache(maxsize=1_024)
def _words(text: str) -> tuple[_Word, ...]:
    """Return the words of a text that carry what it says, in order."""
    result: list[_Word] = []
    lead, gap = "", list[str]()
    for raw in raw_words(NEGATION.sub(" ", text)):
        if raw in ARTICLES:
            continue
        root = _root(raw)
        if root:
            is_led = bool(result) and not gap
            result.append(_Word(root, raw, tuple(gap), lead, is_led))
            gap = []
        elif root is None:
            gap.append(raw)
        lead = raw
    counts = {n for n, following in enumerate(result[1:]) if not following.gap}
    return tuple(
        w._replace(is_led=w.is_led and w.is_number and n not in counts)
        for n, w in enumerate(result)
    )


ARTICLES = frozenset(
    "a an the der die das den dem des ein eine einen einem einer le la les l un une el los las lo il o os as"  # noqa: SIM905
    " um uma".split()
)


def _root(raw: str) -> str | None:
    """Return the root of a word; None for one that only holds others together, "" for one that says
    nothing of the thing."""
    if raw in COPULAS or raw in _POSSESSIVE:
        return None
    if raw in _LIGHT:
        return ""
    if any(c.isdigit() for c in raw) or not _JOINTS.isdisjoint(raw):
        return raw
    if UNSPACED.fullmatch(raw):
        return None if _BINDING.fullmatch(raw) else raw
    if raw in function_words():
        return None
    parts = words(raw)
    return parts[0][:_ROOT] if parts else None


def raw_words(text: str) -> list[str]:
    result: list[str] = []
    for match in _TOKEN.finditer(text.casefold()):
        start = 0
        word = match[0]
        for run in UNSPACED.finditer(word):
            result += [word[start : run.start()]] if run.start() > start else []
            result += _SCRIPTS.findall(run[0])
            start = run.end()
        result += [word[start:]] if start < len(word) else []
    return result
