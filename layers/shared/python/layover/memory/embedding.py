"""An embedder's answer, held against what was asked: it may be of a user's own making."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from layover.memory import recall
from layover.ports import Embedder
from layover.values.prompt import Embedded


@dataclass(frozen=True)
class Vectors:
    """One vector a text, in order (None: nothing can be compared with it), and what was answered."""

    vectors: tuple[tuple[float, ...] | None, ...]
    answer: Embedded


async def embed(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Vectors of these texts. A plain list of vectors is an answer, too; nobody is paid for it. Raises
    what the embedder raises; TypeError or ValueError where its answer is not one vector a text."""
    answer: Any = await embedder.embed(texts)
    if not isinstance(answer, Embedded):
        answer = Embedded(list(answer), embedder.model)
    vectors = tuple(recall.usable([float(x) for x in vector]) for vector in answer.vectors)
    if len(vectors) != len(texts):
        raise ValueError(f"{len(texts)} texts have {len(vectors)} vectors")
    return Vectors(vectors, answer)
