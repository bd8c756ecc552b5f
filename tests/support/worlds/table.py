"""For tests of the journal's table: an item with an attribute of every kind, and how it gets there."""

from typing import Any

from layover.ports.table import Put, Table

ITEM: dict[str, Any] = {
    "text": "a",
    "n": 3,
    "yes": True,
    "list": ["x", "y"],
    "bytes": b"\x00\xff",
    "set": {"p", "q"},
}


async def put(table: Table, pk: str, sk: str = "A", **fields: Any) -> None:
    """Write an item with these attributes, or ITEM."""
    await table.write(Put(pk, sk, fields or ITEM))
