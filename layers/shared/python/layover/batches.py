"""Values, some at a time. `itertools.batched` came with Python 3.12."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batched(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the values in order, up to `size` at a time."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
