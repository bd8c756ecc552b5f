"""Pages of the owner's index."""

from layover.ports.table import Item, Table
from layover.values.cursor import bad_cursor
from layover.values.page import Page


async def page_index(
    table: Table, partition: str, prefix: str, *, limit: int, cursor: str | None, forward: bool
) -> Page[Item]:
    """Return a page of the owner's index whose sort keys begin with `prefix`. Raises InvalidRequest for a
    cursor of another list."""
    after = check_cursor(prefix, cursor)
    # One more than requested tells whether there is a next page.
    items = await table.query_index(
        partition, prefix, limit=limit + 1, forward=forward, after=after
    )
    more = items[limit - 1]["gsi1sk"] if len(items) > limit else None
    return Page(items=tuple(items[:limit]), next_cursor=more)


def check_cursor(prefix: str, cursor: str | None) -> str | None:
    """Return the cursor. Raises InvalidRequest if it leads out of its list."""
    if cursor is not None and not cursor.startswith(prefix):
        raise bad_cursor()
    return cursor
