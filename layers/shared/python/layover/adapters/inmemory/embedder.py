"""Vectors without a model, for tests: texts are alike as far as they share words."""

import hashlib
import math
from collections.abc import Sequence

from layover.memory.text.words import words
from layover.values.deployment.providers import HASHING_PREFIX
from layover.values.prompt import Embedded
from layover.values.runs.usage import Usage


class HashingEmbedder:
    """`ports.Embedder`: each word adds 1 or -1 at the place that its hash names. `asked` counts the texts;
    `fault`, if set, is raised instead of an answer; `billed`: it reports a token for each word."""

    def __init__(self, dimensions: int = 256) -> None:
        self.model = f"{HASHING_PREFIX}{dimensions}"
        self.asked = 0
        self.fault: Exception | None = None
        self.billed = False
        self._dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One unit vector a text, in order; zeros for a text without words."""
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
