"""Vectors without a model, for tests: texts are alike as far as they share words."""

import hashlib
import math
from collections.abc import Sequence

from layover.plugins.memory.text.words import words
from layover.values.deployment.providers import HASHING_PREFIX
from layover.values.prompt import Embedded
from layover.values.runs.usage import Usage


class HashingEmbedder:
    """An embedder without a model, for tests: texts are alike as far as they share words. Each word adds 1 or
    -1 at the place that its hash names.

    Args:
        dimensions: The length of the vectors, which is part of the name in `model`: `hashing/256`.

    Example:
        ```python
        import asyncio

        from layover.testing import HashingEmbedder


        def cosine(one: list[float], other: list[float]) -> float:
            return sum(a * b for a, b in zip(one, other, strict=True))


        embedder = HashingEmbedder()
        texts = ["a blue lamp", "the lamp is blue", "good morning"]
        answer = asyncio.run(embedder.embed(texts))
        lamp, same, other = answer.vectors
        assert cosine(lamp, same) > 0.5 > cosine(lamp, other)
        assert embedder.asked == 3 and answer.model == "hashing/256"
        ```
    """

    def __init__(self, dimensions: int = 256) -> None:
        self.model = f"{HASHING_PREFIX}{dimensions}"
        """The embedder's name: `hashing/256`."""
        self.asked = 0
        """The number of texts so far."""
        self.fault: Exception | None = None
        """An exception that a test sets, to be raised instead of an answer."""
        self.billed = False
        """True, set by a test: the usage is a token for each word. False: it costs nothing."""
        self._dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """Return one unit vector for each text, in order; zeros for a text without words.

        Args:
            texts: The texts.

        Raises:
            Exception: `fault`, if it is set.
        """
        self.asked += len(texts)
        if self.fault is not None:
            raise self.fault
        usage = Usage(input_tokens=sum(len(words(t)) for t in texts)) if self.billed else None
        return Embedded([self._vector(text) for text in texts], self.model, usage)

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self._dimensions
        for word in words(text):
            digest = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
            vector[(digest >> 1) % self._dimensions] += 1 if digest & 1 else -1
        length = math.hypot(*vector) or 1.0
        return [x / length for x in vector]
