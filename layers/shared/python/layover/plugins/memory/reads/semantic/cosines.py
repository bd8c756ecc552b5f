"""The cosine of two vectors below which they say nothing (docs/retrieval.md#least-cosine)."""

MIN_COSINE = 0.25
"""The cosine below which most embedders mean nothing. Measured with MiniLM on dialogue: 98 % of a question's
cosines to texts of another conversation lie below it, and 42 % of those to its evidence (words find these).
Some older embedders squeeze everything into the upper third of the scale."""
_SQUEEZED = {"ada-002": 0.77, "e5-": 0.78, "gte-": 0.75}


def min_cosine(model: str | None) -> float:
    """Return the cosine below which a vector of this embedder means nothing."""
    return next((c for name, c in _SQUEEZED.items() if name in (model or "")), MIN_COSINE)
