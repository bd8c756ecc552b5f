"""Pages of lists."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from layover.values.base import Value

T = TypeVar("T")


class Page(Value, Generic[T]):
    """`next_cursor` is opaque; None on the last page."""

    items: tuple[T, ...]
    next_cursor: str | None = None


async def every_item(read: Callable[[str | None], Awaitable[Page[T]]]) -> AsyncIterator[T]:
    """Yield the items of a list, page after page. `read`: reads the page at a cursor."""
    cursor: str | None = None
    while True:
        page = await read(cursor)
        for item in page.items:
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return
