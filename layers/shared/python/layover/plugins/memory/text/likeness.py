"""Compares what two texts state by their words, for texts without vectors
(docs/behaviour.md#likeness-by-words). Pure."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from layover.lazy import lazy_pattern
from layover.plugins.memory.text.evidence import anchors
from layover.plugins.memory.text.function_words import function_words, without_function_words
from layover.plugins.memory.text.words import words

MIN_TOPICS = 3
"""Topics of a statement that may be compared. Of fewer, too many share all."""
_ROOT = 6
"""Letters of a word that are compared: no stemmer knows every language, and endings differ."""
_ARTICLES = frozenset(
    "a an the der die das den dem des ein eine einen einem einer le la les un une el los las il lo os"  # noqa: SIM905
    " um uma".split()
)
_JOINING = frozenset("and or und oder et ou y o e i и или".split())  # noqa: SIM905
"""Words between the parts of a list."""
NEGATION = lazy_pattern(
    r"\b(?:not|no|never|none|neither|nor|cannot|without|nicht|kein\w*|nie|niemals|ohne|ne|pas|jamais|sans"
    r"|nunca|non|senza|não|не|нет|никогда|без)\b|n['\u2019]t\b|[不没沒無无]|ない|ません|않|없",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Statement:
    """A text as it is compared. `topics`: roots of the words that carry it, without numbers and names;
    `literals`: its numbers, addresses and identifiers, in lower case."""

    topics: frozenset[str]
    literals: frozenset[str]
    denies: bool

    def coverage(self, topics: frozenset[str]) -> float:
        """Return the share of its topics that are among these."""
        return len(self.topics & topics) / len(self.topics) if self.topics else 0.0

    def alikeness(self, other: "Statement") -> float:
        """Return the share of both statements' topics that they have in common."""
        total = len(self.topics) + len(other.topics)
        return 2 * len(self.topics & other.topics) / total if total else 0.0


@lru_cache(maxsize=1_024)
def statement(text: str) -> Statement:
    """Return what a text states."""
    literals = [anchor.casefold().replace("\u2212", "-") for anchor in anchors(text)]
    plain = NEGATION.sub(" ", text)
    parts = {part for literal in literals for part in words(literal)}
    topics = (w for w in without_function_words(words(plain), plain) if w not in parts)
    return Statement(
        topics=frozenset(t[:_ROOT] for t in topics if not t.isdecimal()),
        literals=frozenset(literals),
        denies=denies(text),
    )


def denies(text: str) -> bool:
    """Return whether a text has a word of denial."""
    return NEGATION.search(text) is not None


def adds_nothing(new: str, old: str) -> bool:
    """Return whether the old text says all that the new one says: it has all its words but articles, each in
    the same form, since another tense is another state, and no two of them have changed places. Of few words,
    that is not known."""
    a, b = statement(new), statement(old)
    if len(a.topics) < MIN_TOPICS or a.denies != b.denies or not a.literals <= b.literals:
        return False
    return _forms(new) - _forms(old) <= _ARTICLES and not change_places(new, old)


_INNER = lazy_pattern(r"(?<=[\w,;]\s)[^\W\d_]\w+")
"""A word that does not begin a sentence."""


def proper_names(text: str) -> list[str]:
    """Return the words with a capital letter that do not begin a sentence."""
    return [word for word in _INNER.findall(text) if word[0].isupper()]


def change_places(new: str, old: str) -> bool:
    """Return whether names or other words of one text have changed places in the other: who pays whom, and
    from where to where, is told by nothing else."""
    return _names_change_places(new, old) or _words_change_places(new, old)


def _names_change_places(new: str, old: str) -> bool:
    """Return whether a name of one text stands behind a word behind which the other has another of their
    names."""
    names = {name.casefold() for text in (new, old) for name in proper_names(text)}
    names |= statement(new).literals | statement(old).literals
    leads, leads_before = (_leads(_words_in_order(text)) for text in (new, old))
    common = names & leads.keys() & leads_before.keys()
    return any(
        (leads[name] - leads_before[name]) & leads_before[another]
        for name in common
        for another in common - {name}
    )


def _words_change_places(new: str, old: str) -> bool:
    """Return whether each of two words with a meaning stands behind what led to the other: `the till blocks
    the printer`. The parts of a list may stand in any order, as may the sides of `is`."""
    mine, others = ([w for w in _words_in_order(text) if w not in _ARTICLES] for text in (new, old))
    leads, leads_before = _leads(mine), _leads(others)
    listed = {word for text in (mine, others) for by, word in pairwise(text) if by in _JOINING}
    common = (leads.keys() & leads_before.keys()) - listed - function_words()
    for word in common:
        for another in common - {word}:
            here = (leads[word] - leads_before[word] - {""}) & leads_before[another]
            there = leads[another] & leads_before[word]
            if there == {""}:
                here -= function_words()
            if here and there:
                return True
    return False


def _leads(words: Sequence[str]) -> dict[str, set[str]]:
    """Return the words in front of each word; "" at the beginning."""
    leads: dict[str, set[str]] = {}
    for lead, word in pairwise(["", *words]):
        leads.setdefault(word, set()).add(lead)
    return leads


def _words_in_order(text: str) -> list[str]:
    return re.findall(r"[\w\-]+", text.casefold())


def _forms(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


_BEHIND = frozenset({"ない", "ません", "않", "없"})
"""Denials that stand behind the word that they deny."""
_CLAUSE = lazy_pattern(r"[.,;:!?()\u3002\uff0c\uff1b\uff1a\uff01\uff1f\u2013\u2014]")


def denied_topics(text: str) -> frozenset[str]:
    """Return the topics that a text denies: of each denial the next word of its clause that carries a topic,
    or the one before it if none follows. `Do not forget to restart it` denies only that one forgets."""
    topics: set[str] = set()
    for match in NEGATION.finditer(text):
        before = _topics(_CLAUSE.split(text[: match.start()])[-1])
        after = _topics(_CLAUSE.split(text[match.end() :])[0])
        follows = match[0] in _BEHIND or not after
        topics.update(before[-1:] if follows else after[:1])
    return frozenset(topics)


def _topics(text: str) -> list[str]:
    """Return the roots of a text's words with a topic, in order."""
    plain = NEGATION.sub(" ", text)
    return [w[:_ROOT] for w in without_function_words(words(plain), plain) if not w.isdecimal()]


# Statements that repeat each other (docs/behaviour.md#observation-lines)

_MIN_CONTENT = 3
"""Words with a meaning that a text has whose repetition is recognised: "it works" may be said of anything."""
_ARTICLE, _PAUSE = "an article", "a pause"
_OPENING = "\"'`([{\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u300c"
_CLOSING = _OPENING + ")]}.,;:!?\u2026\u3002\uff0c\uff1b\uff1a\uff01\uff1f\u300d"
_INCHES = ("'", '"')
"""Signs of feet and inches behind a number, unless a quotation began before it."""
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2019\u02bc\u2018", "'"))
_TURN = lazy_pattern(
    r"\b(?:if|unless|or|but|except|instead|rather|only|until|perhaps|maybe|probably|possibly|(?-i:may)|might|could"
    r"|should|would|almost|nearly|hardly|wenn|falls|außer|oder|aber|sondern|nur|bis|vielleicht|wohl|könnte"
    r"|sollte|würde|fast|kaum|sauf|ou|mais|seulement|peut-être|si|excepto|pero|sino|s[oó]lo|quizás?|salvo"
    r"|mas|talvez|forse|ma|se)\b|[?\uff1f\u061f]",
    re.IGNORECASE,
)
"""A condition, an exception, a choice, a doubt or a question: with one more of them, a text no longer says
what it says without."""

_LABEL = lazy_pattern(r"^\s*(?:the\s+)?(?P<who>user|assistant)\s*[:\uff1a]\s*(?=\S)", re.IGNORECASE)
"""The name of a speaker in front of their words, as a transcript has it."""
_SELF = lazy_pattern(r"^(?:i|ich|je|yo|eu|io)\s+", re.IGNORECASE)

Phrase = tuple[tuple[str, ...], tuple[str, ...]]
"""Words that lead to a run of words with a meaning, and the run."""


def restates(text: str, other: str) -> bool:
    """Return whether a text says all that another one says, in the same words: each run of words with a
    meaning, behind the same words that lead to it. Articles and punctuation may differ. Texts that differ in
    a name, a number, a unit, a role, a negation or a condition do not restate each other. A speaker's name
    may stand in front of one of them: `User: I moved` and `The user moved`."""
    if subject(text) != subject(other) or _turns(text) != _turns(other):
        return False
    if len({_speaker(text), _speaker(other)} - {""}) > 1:
        return False
    mine, others = _runs(text), _runs(other)
    size = sum(t != _ARTICLE for runs in others.values() for run in runs for t in run)
    return size >= _MIN_CONTENT and all(
        _is_in_order(runs, mine.get(lead, [])) for lead, runs in others.items()
    )


def _speaker(text: str) -> str:
    label = _LABEL.match(text)
    return label["who"].casefold() if label else ""


def _without_label(text: str) -> str:
    """Return a text without its speaker's name, in the third person if it begins in the first."""
    label = _LABEL.match(text)
    if label is None:
        return text
    return _SELF.sub(f"{label['who'].casefold()} ", text[label.end() :])


def subject(text: str) -> str:
    """Return the first word of a text, articles aside. Texts with different ones do not restate each
    other."""
    return next((token for token in _tokens(text) if token != _ARTICLE), "")


def phrases(text: str) -> frozenset[Phrase]:
    """Return the phrases of a text. One that restates another text has all of that text's."""
    return frozenset((lead, run) for lead, runs in _runs(text).items() for run in runs)


def longest_phrase(text: str) -> Phrase | None:
    """Return the phrase of a text that the fewest other texts have; None if it has none."""
    return max(phrases(text), key=lambda p: (len(p[1]), p), default=None)


def conditions(text: str) -> list[str]:
    """Return the words of a text that make a condition, an exception, a choice, a doubt or a question."""
    return sorted(m[0].casefold() for m in _TURN.finditer(text))


@lru_cache(maxsize=1_024)
def _turns(text: str) -> list[str]:
    """Return the words that turn what a text says."""
    return sorted(m[0].casefold() for p in (NEGATION, _TURN) for m in p.finditer(text))


def _is_in_order(some: list[tuple[str, ...]], all_of_them: list[tuple[str, ...]]) -> bool:
    rest = iter(all_of_them)
    return all(run in rest for run in some)


@lru_cache(maxsize=1_024)
def _runs(text: str) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the runs of words with a meaning by the words that lead to them: `Ann wants a trip to Vienna`
    has `Ann wants a trip`, and `Vienna` behind `to`. Phrases may change places, words within them may not."""
    runs: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    lead: list[str] = []
    run: list[str] = []
    for token in (*_tokens(text), _PAUSE):
        if token == _ARTICLE and not run:
            continue
        if token == _ARTICLE or not (token == _PAUSE or _is_function_word(token)):
            run.append(token)
            continue
        if run:
            runs.setdefault(_lead(lead), []).append(tuple(run))
            lead, run = [], []
        lead.append(token)
    if _lead(lead) not in ((), (_PAUSE,)):
        runs.setdefault(_lead(lead), []).append(())
    return runs


def _lead(tokens: list[str]) -> tuple[str, ...]:
    """Return the words that lead to others. A pause counts where there are none."""
    return tuple(t for t in tokens if t != _PAUSE) or tuple(tokens[:1])


@lru_cache(maxsize=1_024)
def _tokens(text: str) -> tuple[str, ...]:
    """Return the words of a text as they are written, but for the case of the first one. A pause stands for
    punctuation between them."""
    tokens: list[str] = []
    plain = unicodedata.normalize("NFC", _without_label(text))
    for word in plain.translate(_APOSTROPHES).split():
        token = word.lstrip(_OPENING)
        bare = token.rstrip(_CLOSING)
        if bare[-1:].isdigit() and token == word and token[len(bare) :][:1] in _INCHES:
            bare += token[len(bare)]
        if not any(t != _ARTICLE for t in tokens) and bare[1:] == bare[1:].lower():
            bare = bare.lower()
        tokens.append(_ARTICLE if bare in _ARTICLES else bare or word)
        if len(bare) < len(token):
            tokens.append(_PAUSE)
    while tokens and tokens[-1] == _PAUSE:
        tokens.pop()
    return tuple(tokens)


def _is_function_word(token: str) -> bool:
    """Return whether a token leads to others. A word in capitals is a name: US, Will."""
    return not any(c.isalnum() for c in token) or token in function_words()
