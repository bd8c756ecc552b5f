"""Pairs of statements, stored one after the other: which earlier one the later one supersedes, as far as
Layover's own rules tell (docs/behaviour.md#succession). Nobody is asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal

from layover.plugins.memory.episodic.rules import Candidate, hash_of, select
from layover.plugins.memory.episodic.search import similar_cosine
from layover.plugins.memory.ranking import cosine
from layover.ports import Embedder
from layover.values.memory.entry import FoundEntry, SimilarEntry

_SAID_AT = datetime(2026, 11, 20, 9, tzinfo=UTC)
_BATCH = 64
"""Statements that are embedded together."""


class Fate(StrEnum):
    """The fate of a pair: whether one of the two is lost."""

    STAND = "both stand"
    REPLACED = "the old one is superseded"
    DROPPED = "the new one is dropped"


@dataclass(frozen=True)
class StatementPair:
    """Two statements. `replaces`: the later one says of the same thing what holds now; else both hold."""

    old: str
    new: str
    replaces: bool


def fate_of(
    old: str,
    new: str,
    *,
    similarity: float | None = None,
    least: float = 0.86,
    says: Literal["replaces", "same"] | None = None,
) -> Fate:
    """Return the fate of two verified statements, the new one a day younger. `similarity`: the cosine of
    their vectors; None: there are no vectors. `least`: the cosine from which on two are alike. `says`: what
    the extractor says of the old one; None: nothing."""
    stored = {"content": old, "evidence": old, "created_at": _SAID_AT, "id": "old"}
    entry = FoundEntry(**stored, agent="a", source="user_assertion", thread_id="t", message_id="m")
    is_near = similarity is not None and similarity >= least
    near = [SimilarEntry(**stored, place=0, verified=True, cosine=similarity)] if is_near else []
    candidate = Candidate(
        new,
        "user_assertion",
        new,
        "n",
        verified=True,
        hash=hash_of(new),
        replaces=(1,) if says == "replaces" else (),
        same=(1,) if says == "same" else (),
    )
    vector = None if similarity is None else (1.0, 0.0)
    said_at = _SAID_AT + timedelta(days=1)
    selections = select(
        [candidate],
        [vector],
        near,
        least=least,
        said_at=said_at,
        by_words=[entry],
        known_entries=[entry],
    )
    if not selections:
        return Fate.DROPPED
    return Fate.REPLACED if selections[0].supersedes else Fate.STAND


@dataclass(frozen=True)
class Replacements:
    """Counts of pairs. `true`: those whose later one replaces the earlier one; `made`: of these, the ones of
    which Layover says so; `others`: pairs of which both hold; `false`: of all, the ones in which a statement
    is superseded or dropped that is not replaced."""

    true: int
    made: int
    others: int
    false: int

    def lines(self) -> Iterator[str]:
        """Return the lines to print."""
        yield f"replaced    {self.made} of {self.true} statements that a later one replaces"
        yield f"false       {self.false} of {self.others + self.true} pairs lose one that holds"


async def measure_replacements(pairs: Sequence[StatementPair], embedder: Embedder) -> Replacements:
    """Return what becomes of the pairs with the vectors of this embedder, and an extractor that says nothing
    of earlier entries."""
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.old, pair.new)))
    vectors: dict[str, Sequence[float]] = {}
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        vectors |= dict(zip(batch, (await embedder.embed(batch)).vectors, strict=True))
    least = similar_cosine(embedder.model)
    fates = [
        (
            pair.replaces,
            fate_of(
                pair.old,
                pair.new,
                similarity=cosine(vectors[pair.old], vectors[pair.new]) or 0.0,
                least=least,
            ),
        )
        for pair in pairs
    ]
    true = [fate for replaces, fate in fates if replaces]
    others = [fate for replaces, fate in fates if not replaces]
    return Replacements(
        true=len(true),
        made=true.count(Fate.REPLACED),
        others=len(others),
        false=true.count(Fate.DROPPED) + sum(fate is not Fate.STAND for fate in others),
    )
