"""Pages of lists."""

from typing import Generic, TypeVar

from layover.values.base import Value

T = TypeVar("T")


class Page(Value, Generic[T]):
    """`next_cursor` is opaque; None on the last page."""

    items: tuple[T, ...]
    next_cursor: str | None = None
