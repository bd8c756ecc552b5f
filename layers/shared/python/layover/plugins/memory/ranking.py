"""Ranking of memory (docs/retrieval.md#ranking): the numbers for both stores, and the formula for the
in-memory one. Postgres has the formula in `sql/ranking.sql`."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from layover.plugins.memory.text.index_words import has_term

LEXICAL_WEIGHT = 0.4
VECTOR_WEIGHT = 0.6
"""Weight of scores that are normalised to 0..1 over the scope: fusing ranks lost 9 to 14 points."""
PREVIOUS_WEIGHTS = (0.3, 0.1)
NEXT_WEIGHTS = (0.2, 0.1)
"""A message is also found by its neighbours, the nearest first, because an answer often shares no word with
its question. Two people take turns, so the second neighbour is the same speaker, who goes on."""
SESSION_WEIGHT = 0.4
"""Of the best score in a message's session. A session is about a few things, so what was said near a strong
match is likelier to belong to it than an equal match of another day."""
SESSION_GAP = timedelta(hours=4)
"""A longer pause inside a thread begins a session. Every thread has its own."""
SPEAKER_WEIGHT = 0.3
"""For a message of a speaker whom the query names."""
RECENCY_WEIGHT = 0.1
HALF_LIFE = timedelta(days=180)
"""Added, not multiplied: a factor loses 12 to 24 points."""
MAX_HALF_LIVES = 1_000
"""From this age on, all entries count as equally old, because Postgres computes no smaller number."""
MAX_ROWS = 20_000
"""Rows of a scope that are searched, the newest: the scan is exact and takes 60 ms."""
WHOLE_ROWS = 5_000
"""A scope of up to this many rows is ranked as a whole."""
CANDIDATES = 200
"""Candidates of a larger scope: this many of the best by words and by vector are ranked, with their
neighbours."""
SAMPLE_ROWS = 1_000
"""The newest rows of a larger scope, which tell how common a word is."""


@dataclass(frozen=True)
class Candidate:
    """A text to rank: its words, and the similarity of its vector (None: this model made none)."""

    words: frozenset[str]
    cosine: float | None


@dataclass(frozen=True)
class Scores:
    """Scores of 0..1 over the scope; `own` is their weighted sum."""

    lexical: float
    similarity: float
    own: float


def fuse(query: Sequence[str], scope: Sequence[Candidate]) -> list[Scores]:
    """Return the scores of a scope, in its order. `query`: its terms."""
    lexical = _lexical(tuple(dict.fromkeys(query)), scope)
    best = max(lexical, default=0.0)
    cosines = [c.cosine for c in scope if c.cosine is not None]
    low, high = min(cosines, default=0.0), max(cosines, default=0.0)
    scores: list[Scores] = []
    for words, candidate in zip(lexical, scope, strict=True):
        share, near = words / best if best else 0.0, _normalise(candidate.cosine, low, high)
        scores.append(Scores(share, near, LEXICAL_WEIGHT * share + VECTOR_WEIGHT * near))
    return scores


def flow(own: Sequence[float]) -> list[float]:
    """Return the scores of a thread's messages with what their neighbours give them."""
    steps = [(-n, weight) for n, weight in enumerate(PREVIOUS_WEIGHTS, 1)]
    steps += [(n, weight) for n, weight in enumerate(NEXT_WEIGHTS, 1)]
    return [
        score + sum(weight * own[n + step] for step, weight in steps if 0 <= n + step < len(own))
        for n, score in enumerate(own)
    ]


def session_bonuses(own: Sequence[float], times: Sequence[datetime]) -> list[float]:
    """Return the bonus that each of a thread's messages gets from the best of its session. `times`: when they
    were written, in the order of the conversation."""
    bonuses: list[float] = []
    start = 0
    for end in range(1, len(own) + 1):
        if end == len(own) or times[end] - times[end - 1] >= SESSION_GAP:
            bonuses += [SESSION_WEIGHT * max(own[start:end])] * (end - start)
            start = end
    return bonuses


def recency(age: timedelta, half_life: timedelta = HALF_LIFE) -> float:
    """Return the bonus of new rows."""
    half_lives: float = max(age, timedelta()) / half_life
    return RECENCY_WEIGHT * math.pow(0.5, min(half_lives, MAX_HALF_LIVES))


def cosine(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return the cosine; None if it is not defined."""
    if len(a) != len(b):
        return None
    norms = math.hypot(*a) * math.hypot(*b)
    return sum(map(operator.mul, a, b)) / norms if norms else None


def _lexical(query: Sequence[str], scope: Sequence[Candidate]) -> list[float]:
    """Return the lexical scores. A word weighs the more the fewer rows have it, so no list of stop words is
    needed."""
    # In the order of the query: sums of the same numbers in another order may differ in the last place.
    hits = [dict.fromkeys(term for term in query if has_term(c.words, term)) for c in scope]
    counts = {word: sum(word in h for h in hits) for word in query}
    weights = {w: math.log(1 + (len(scope) - n + 0.5) / (n + 0.5)) for w, n in counts.items()}
    size = sum(len(c.words) for c in scope) / len(scope) if scope else 0
    return [
        sum(weights[w] for w in hit) / (1 + 0.5 * (0.7 + 0.3 * len(c.words) / size)) if hit else 0.0
        for hit, c in zip(hits, scope, strict=True)
    ]


def _normalise(cosine: float | None, low: float, high: float) -> float:
    if cosine is None:
        return 0.0
    return (cosine - low) / (high - low) if high > low else 1.0
