"""Compares a new entry with a stored one: what contradicts it, and what only repeats it
(docs/behaviour.md#contradictions). Pure."""

import re
from collections.abc import Sequence
from enum import Enum, auto

from layover.lazy import lazy_pattern
from layover.plugins.memory.episodic.subject import (
    CHANGES,
    given_names,
    last_word,
    puts_another_word,
    speaks_of_another_thing,
    speaks_of_the_same,
)
from layover.plugins.memory.episodic.succession import follows, leaves_standing, stands_beside
from layover.plugins.memory.text.groups import is_of, states_of
from layover.plugins.memory.text.likeness import (
    MIN_TOPICS,
    change_places,
    conditions,
    denied_topics,
    denies,
    proper_names,
    statement,
)
from layover.plugins.memory.text.opposites import opposite_pairs
from layover.plugins.memory.text.words import UNSPACED, words

_CORRECTION = lazy_pattern(
    r"\b(?:actually|instead|rather than|correction|corrected|no longer|not any ?more|turn(?:s|ed) out"
    r"|(?:was|were) (?:wrong|mistaken)|in fact|in reality|anymore|nicht mehr|statt(?:dessen)?|vielmehr"
    r"|tatsächlich|en fait|plutôt|en realidad|de hecho|in realtà)\b",
    re.IGNORECASE,
)
_RETRACTION = lazy_pattern(
    r"\b(?:actually|correction|corrected|turn(?:s|ed) out|(?:was|were) (?:wrong|mistaken)|in fact|in reality"
    r"|misread|i meant|my mistake|korrektur|vielmehr|tatsächlich|ich meinte|en fait|je voulais dire"
    r"|erreur de ma part|en realidad|de hecho|me equivoqué|quise decir|na verdade"
    r"|in realtà|volevo dire|ошиб(?:ся|лась))\b"
    r"|\b(?:wrong way a?round|(?:it['\u2019]s|it (?:is|was)) (?:exactly |just )?the other way a?round"
    r"|got (?:it|that|them) backwards|(?:es ist|ist es|war es) (?:genau |gerade )?(?:umgekehrt|andersherum)"
    r"|verwechselt|c['\u2019](?:est|était) (?:tout )?(?:l['\u2019]inverse|le contraire)"
    r"|(?:es|era) (?:justo )?al revés|é (?:exatamente )?o contrário|è (?:esattamente )?il contrario"
    r"|(?:всё|как раз|ровно) наоборот)\b|逆(?:です|でした|だった)|(?:正好相|弄|搞|说)反"
    r"|\b(?:sorry|pardon|perdón|desculpe|scusa|entschuldigung)(?::|,? (?:wrong|no|falsch|non|não|i mis)\b)"
    r"|訂正|実は|更正|其实",
    re.IGNORECASE,
)
"""Words of somebody who takes back what was said, and not only tells what is different now."""
_MAX_SUBJECT = 3
"""The words at the beginning of a statement among which a number names what is spoken of: `tank 6 gets`."""
_MAX_DENSE_SUBJECT = 6
"""The same, in characters of a script without blanks."""
_LONG_NUMBER = re.compile(r"\d{4,}")
_COVERED, _MOSTLY, _ABOUT = 0.9, 0.75, 0.6
_ALIKE, _TOUCHED = 0.75, 0.3


def contradicts(new: str, old: str, evidence: str = "") -> bool:
    """Return whether `new` has numbers or identifiers that `old` lacks, denies what `old` says (or the other
    way round), or calls itself a correction; only for two entries that are similar already. `evidence`: the
    words that `new` was learned from, which may deny or correct what `new` states as a plain fact."""
    if new.casefold() == old.casefold():
        return False
    if statement(new).literals - statement(old).literals:
        return True
    old_denies = denies(old)
    if denies(new) != old_denies or (denies(evidence) and not old_denies):
        return True
    return _corrects(new, old, evidence)


def _corrects(new: str, old: str, evidence: str) -> bool:
    says_so = _CORRECTION.search(new) or _CORRECTION.search(evidence)
    return says_so is not None and not _CORRECTION.search(old)


def replaces(new: str, old: str, evidence: str = "", context: str = "") -> bool:
    """Return whether `new` takes the place of `old` by its words only: it speaks of the same, and contradicts
    it or says all of it and more. `context`: what was said around the evidence. What differs in the name of
    the thing is about another thing, unless somebody takes back what was said."""
    around = f"{new} {evidence} {context}"
    takes_back = _RETRACTION.search(around) is not None
    if not takes_back and follows(new, old, evidence):
        return True
    a, b = statement(new), statement(old)
    about = b.coverage(a.topics)
    # Whoever puts it in a few words of their own may leave out what they were told it is about.
    is_told = about >= _TOUCHED and statement(evidence).alikeness(b) >= _ALIKE
    if len(b.topics) < MIN_TOPICS or not (about >= _ABOUT or is_told):
        return False
    if not takes_back and (_names_differ(new, old) or _names_differ(evidence, old)):
        return False
    if not takes_back and speaks_of_another_thing(new, old):
        return False
    if takes_back or contradicts(new, old, evidence):
        if not takes_back and _both_stand(new, old, evidence):
            return False
        # One word that differs may be the place or the person that it is about.
        least = _COVERED if a.topics <= b.topics else 1.0
        covered = b.coverage(statement(around).topics)
        return covered >= (_MOSTLY if takes_back else least)
    return b.topics < a.topics and b.literals <= a.literals


def _both_stand(new: str, old: str, evidence: str) -> bool:
    """Return whether two statements that differ in a number, a state or a denial may both hold."""
    return stands_beside(new, old, evidence) or change_places(new, old)


def _names_differ(new: str, old: str) -> bool:
    """Return whether each of the two has a name that the other lacks: not whether one thing is called by
    another name now."""
    a, b = statement(new).literals, statement(old).literals
    mine, others = a - b, b - a
    if (mine & given_names(new)) and (others & given_names(old)):
        mine, others = mine - given_names(new), others - given_names(old)
    return any(_is_name(x, new) for x in mine) and any(_is_name(x, old) for x in others)


def _is_name(literal: str, text: str) -> bool:
    """Return whether a literal names a thing: it has letters, is a long number, or stands where a statement
    names what it is about."""
    if any(c.isalpha() for c in literal) or _LONG_NUMBER.fullmatch(literal):
        return True
    beginning = text.casefold().split()[:_MAX_SUBJECT]
    if UNSPACED.search(" ".join(beginning)):
        beginning = [text.casefold()[:_MAX_DENSE_SUBJECT]]
    return any(literal in word for word in beginning)


# Entries of which a model says that they belong together


def may_replace(new: str, old: str, evidence: str = "", context: str = "") -> bool:
    """Return whether `new` may take the place of `old` because a model says that it does: words do not have
    to show it, but both have to speak of the same thing. In doubt both stand."""
    if new.casefold() == old.casefold():
        return False
    around = f"{evidence} {context}"
    if _RETRACTION.search(f"{new} {around}"):
        a, b = statement(f"{new} {around}"), statement(old)
        return b.coverage(a.topics) >= _ABOUT or bool(a.literals & b.literals)
    if _names_differ_before_the_end(new, old) or change_places(new, old):
        return False
    if leaves_standing(new, old, evidence):
        return False
    return speaks_of_the_same(new, old, around)


def _names_differ_before_the_end(new: str, old: str) -> bool:
    """Return whether two identifiers tell two things apart: not if they are all that is said of one thing."""
    if not _names_differ(new, old):
        return False
    mine, others = (
        {x for x in statement(text).literals - statement(other).literals if _is_name(x, text)}
        for text, other in ((new, old), (old, new))
    )
    return not (_is_last(mine, new) and _is_last(others, old))


def _is_last(literals: set[str], text: str) -> bool:
    return len(literals) == 1 and last_word(text).startswith(tuple(literals))


def says_the_same(new: str, old: str, evidence: str = "", old_evidence: str = "") -> bool:
    """Return whether nothing that matters differs between two statements of which a model says that they say
    the same: each word, number and unit of the new one, or of what was said, is in the old one, and nothing
    is denied, turned or put in another's place."""
    a, b, quote = statement(new), statement(f"{old} {old_evidence}"), statement(evidence)
    if not a.literals <= b.literals or denies(new) != denies(old):
        return False
    if conditions(new) != conditions(old) or change_places(new, old):
        return False
    if _says_another_state(new, f"{old} {old_evidence}"):
        return False
    if _names_differ(new, old) or _turned_topics(new, old, evidence) is not None:
        return False
    is_known = a.topics <= b.topics
    is_said = bool(quote.topics) and quote.topics <= b.topics and quote.literals <= b.literals
    return (is_known or is_said) and not speaks_of_another_thing(new, old)


# Entries whose vectors are alike


class Relation(Enum):
    """The relation of a new statement to an old one that is like it."""

    SAME = auto()
    """It says the same in other words."""
    MORE = auto()
    """It says all of it and more."""
    AGAINST = auto()
    """Only one of them can hold."""
    OTHER = auto()
    """It is about something else, or nobody can tell: both may hold."""


_ANSWERED_NO = lazy_pattern(
    r"^\W*(?:no|nope|nein|non|não|нет|いいえ|不)\b\s*[,.!;:\u2013\u2014]", re.IGNORECASE
)
"""A "no" by itself takes back what was said, and denies nothing of its own sentence."""
_QUANTITY = lazy_pattern(r"\d[\d.,]*\s*(?P<unit>[^\W\d_]+)")


def relation(new: str, old: str, evidence: str = "", context: str = "") -> Relation:
    """Return what `new` is to `old`, which is like it by its vector. Vectors put opposites, numbers and names
    next to each other, so words decide whether both may hold; in doubt both do. `evidence`: the words that
    `new` was learned from; `context`: what was said around them."""
    if new.casefold() == old.casefold():
        return Relation.SAME
    takes_back = bool(
        _RETRACTION.search(f"{new} {evidence} {context}") or _ANSWERED_NO.search(evidence)
    )
    if not takes_back and follows(new, old, evidence):
        return Relation.AGAINST
    if not takes_back and (_names_differ(new, old) or speaks_of_another_thing(new, old)):
        return Relation.OTHER
    if takes_back or _corrects(new, old, evidence):
        return Relation.AGAINST
    if _proper_names_differ(new, old, denied_topics(evidence)):
        return Relation.OTHER
    turned = _turned_topics(new, old, evidence)
    if turned is not None:
        is_against = _is_about_the_same(new, old, turned) and not _both_stand(new, old, evidence)
        return Relation.AGAINST if is_against else Relation.OTHER
    return _unturned(new, old)


def _turned_topics(new: str, old: str, evidence: str) -> frozenset[str] | None:
    """Return the topics in which one of the two turns the other round: opposites, denials, numbers, units.
    None if there is nothing of the kind."""
    mine, others = _differing_words(new, old)
    if pairs := opposite_pairs(mine, others):
        return frozenset(word for pair in pairs for word in pair)
    denied, denied_before = denied_topics(new), denied_topics(old)
    a, b = statement(new), statement(old)
    against = ((denied - denied_before) & b.topics) | ((denied_before - denied) & a.topics)
    if not denied_before and not denied:
        against |= denied_topics(evidence) & b.topics
    if against:
        return against
    if a.literals - b.literals:
        return frozenset()
    units = [[m["unit"].casefold() for m in _QUANTITY.finditer(text)] for text in (new, old)]
    if (
        all(units)
        and units[0] != units[1]
        and all(is_of("unit", u) for u in (*units[0], *units[1]))
    ):
        return frozenset(words(" ".join([*units[0], *units[1]])))
    return None


def _is_about_the_same(new: str, old: str, turned: frozenset[str]) -> bool:
    """Return whether one of the two has all topics of the other, but for what is turned round."""
    roots = {root for word in turned for root in (word, *statement(word).topics)}
    a, b = (statement(text).topics - roots - CHANGES for text in (new, old))
    return a <= b or b <= a


def _unturned(new: str, old: str) -> Relation:
    a, b = statement(new), statement(old)
    mine, others = a.topics - b.topics, b.topics - a.topics
    if a.denies != b.denies or conditions(new) != conditions(old):
        return Relation.OTHER
    if not others and mine and b.literals <= a.literals:
        return Relation.MORE if len(b.topics) >= MIN_TOPICS else Relation.OTHER
    # Another word may be another thing as well as another word for it, though it be as short as `on`.
    if _says_another_state(new, old):
        return Relation.OTHER
    if mine or change_places(new, old) or puts_another_word(new, old):
        return Relation.OTHER
    return Relation.SAME


def _says_another_state(new: str, old: str) -> bool:
    """Return whether a statement says a state that the other one lacks."""
    return any(states_of(word) for word in _differing_words(new, old)[0])


def _differing_words(new: str, old: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words that only one of the two has, as they are written: `before` and `after`, which carry
    no topic, are opposites all the same."""
    mine, others = (re.findall(r"[\w\-]+", text.casefold()) for text in (new, old))
    return [w for w in mine if w not in others], [w for w in others if w not in mine]


def _proper_names_differ(new: str, old: str, denied: frozenset[str]) -> bool:
    """Return whether each of the two has a word with a capital letter that the other lacks, and that the
    evidence of the new one does not deny."""
    a, b = statement(new).topics, statement(old).topics
    names_of_both = (proper_names(_QUANTITY.sub(" ", text)) for text in (new, old))
    mine, others = (statement(" ".join(names)).topics for names in names_of_both)
    return bool(mine - b) and bool(others - a - denied)
