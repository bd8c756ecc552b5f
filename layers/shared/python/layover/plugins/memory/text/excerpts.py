"""Excerpts of long texts, around the words that were looked for
(docs/behaviour.md#recall-budget). Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Set
from itertools import accumulate

from layover.lazy import lazy_pattern
from layover.plugins.memory.text.index_words import ROOT, alternatives, query_terms
from layover.plugins.memory.text.words import MAX_CHARACTERS, UNSPACED

_GAP = "…"
# Up to a blank or the punctuation of ASCII and of CJK, and not only letters: marks belong to their words.
_TOKEN = lazy_pattern(
    r"\w[^\s!-&(-/:-@\[-`{-~\u2010-\u2018\u201a-\u2027\u3000-\u303f\uff01-\uff0f\uff1a-\uff20]*"
)


def excerpt(text: str, looked_for: Set[str], length: int) -> str:
    """Return at most `length` characters of a text (and a sign for what is left out): those that have the
    most of the words (alternatives of `memory.text.index_words`), each counting the less the more often the
    text has it. Without a hit, the text's beginning."""
    if len(text) <= length:
        return text
    start = _start(text, looked_for, length)
    end = start + length
    if start:
        start = _behind_blank(text, start, end)
    if end < len(text):
        end = _before_blank(text, start, end)
    before = f"{_GAP} " if start else ""
    after = f" {_GAP}" if end < len(text) else ""
    return f"{before}{text[start:end].strip()}{after}"


def _start(text: str, looked_for: Set[str], length: int) -> int:
    """Return where the excerpt with the most of the words begins."""
    hits = sorted(_hits(text[:MAX_CHARACTERS], looked_for))
    if not hits:
        return 0
    counts = Counter(word for _, _, word in hits)
    own = [1 / counts[word] for _, _, word in hits]
    sums = list(accumulate(own, initial=0.0))
    best_weight, best, first, last = 0.0, 0, 0, 0
    for here, (hit_start, hit_end, _) in enumerate(hits):
        start = (hit_start + hit_end - length) // 2
        while hits[first][0] < start and first < here:
            first += 1
        while last < len(hits) and hits[last][1] <= start + length:
            last += 1
        # The hit in the middle counts twice: it is to be read with what is around it. Rounded, because sums
        # of the same weights differ by their order.
        weight = round(sums[max(last, here + 1)] - sums[first] + own[here], 9)
        if weight > best_weight:
            best_weight, best = weight, start
    return max(0, min(best, len(text) - length))


def _hits(text: str, looked_for: Set[str]) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and word of each hit in the part of a text that is searched."""
    initials = {word.removeprefix(ROOT)[:1] for word in looked_for}
    for token in _TOKEN.finditer(text):
        initial = token[0][0].lower()
        if initial.isascii() and initial not in initials:
            continue
        for term in query_terms(token[0]):
            if not UNSPACED.match(term) and not looked_for.isdisjoint(alternatives([term])):
                yield token.start(), token.end(), term
    for word in looked_for:
        if UNSPACED.fullmatch(word):
            yield from ((hit.start(), hit.end(), word) for hit in re.finditer(word, text))


def _behind_blank(text: str, start: int, end: int) -> int:
    """Return the beginning of the next word, if one begins nearby."""
    return next((i + 1 for i in range(start - 1, min(start + 40, end)) if text[i].isspace()), start)


def _before_blank(text: str, start: int, end: int) -> int:
    """Return the end of the last word, if it ends nearby."""
    nearby = range(end, max(end - 40, start), -1)
    return next((i for i in nearby if text[i].isspace()), end)
