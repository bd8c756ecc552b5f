"""An embedder's answer, checked against the request: the embedder may be a user's own."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from layover.errors import ContextLengthExceeded, ModelError
from layover.plugins.memory.reads.semantic import query as recall
from layover.ports import Embedder
from layover.values.prompt import Embedded
from layover.values.runs.usage import Usage

_OF_THE_TEXT = frozenset({400, 413, 422})
"""HTTP statuses about the content of a request. Other texts of the request may be fine."""
logger = logging.getLogger("layover")


@dataclass(frozen=True)
class Vectors:
    """One vector for each text, in order (None: nothing can be compared with it), and the usage. `refusals`:
    one for each text that the embedder refused."""

    vectors: tuple[tuple[float, ...] | None, ...]
    answer: Embedded
    refusals: tuple[ModelError, ...] = ()
    dimensions: int = 0
    """The length of the longest vector, used or not."""

    @property
    def too_long(self) -> str | None:
        """The reason why no vector of this embedder is used, and what to do; None: they are not too long."""
        if self.dimensions <= recall.MAX_EMBEDDED:
            return None
        return (
            f"the embedder's vectors are refused: they have {self.dimensions:,} dimensions, and "
            f"{recall.MAX_EMBEDDED:,} are taken at most. Set another embedder, or one that is told to "
            "make shorter vectors, then run `layover reembed`"
        )


async def embed(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return vectors of these texts, all of one length. A text that the embedder refuses gets no vector, and
    the others keep theirs. A plain list of vectors is also valid, and costs nothing. Raises the embedder's
    other errors; TypeError or ValueError if its answer is not one vector for each text."""
    result = await _embed_by_halves(embedder, texts)
    if result.refusals:
        extra = {"model": embedder.model, "number": len(result.refusals)}
        logger.warning("texts refused by the embedder", extra=extra)
    if (problem := result.too_long) is not None:
        # They are paid for: an operator has to know, each time.
        logger.error(problem, extra={"model": embedder.model})
    return replace(result, vectors=_of_one_length(result.vectors))


async def _embed_by_halves(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    try:
        return await _request(embedder, texts)
    except ModelError as error:
        if not (isinstance(error, ContextLengthExceeded) or error.status in _OF_THE_TEXT):
            raise
        if len(texts) < 2:
            none = (None,) * len(texts)
            return Vectors(none, Embedded([], embedder.model), (error,) * len(texts))
    # Halving finds one text among 64 with 13 requests.
    half = len(texts) // 2
    return _join(
        await _embed_by_halves(embedder, texts[:half]),
        await _embed_by_halves(embedder, texts[half:]),
    )


async def _request(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    answer: Any = await embedder.embed(texts)
    if not isinstance(answer, Embedded):
        answer = Embedded(list(answer), embedder.model)
    numbers = [[float(x) for x in vector] for vector in answer.vectors]
    vectors = tuple(map(recall.usable, numbers))
    if len(vectors) != len(texts):
        raise ValueError(f"{len(texts)} texts have {len(vectors)} vectors")
    return Vectors(vectors, answer, dimensions=max(map(len, numbers), default=0))


def _join(a: Vectors, b: Vectors) -> Vectors:
    usages = [v.answer.usage for v in (a, b) if v.answer.usage is not None]
    return Vectors(
        a.vectors + b.vectors,
        Embedded(
            [*a.answer.vectors, *b.answer.vectors],
            b.answer.model if a.answer.usage is None else a.answer.model,
            Usage.total(usages) if usages else None,
        ),
        a.refusals + b.refusals,
        max(a.dimensions, b.dimensions),
    )


def _of_one_length(
    vectors: tuple[tuple[float, ...] | None, ...],
) -> tuple[tuple[float, ...] | None, ...]:
    """Return the vectors that have the first one's length, and None for the others, since vectors of
    different lengths cannot be compared."""
    length = next((len(v) for v in vectors if v is not None), 0)
    return tuple(v if v is not None and len(v) == length else None for v in vectors)
