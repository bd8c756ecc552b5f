"""The parts that all contracts of the table share: the mark of async tests, a partition, an item."""

from typing import Any
from uuid import uuid4

import pytest

from layover.ports.table import Put, Table

ITEM: dict[str, Any] = {
    "text": "a",
    "n": 3,
    "yes": True,
    "list": ["x", "y"],
    "bytes": b"\x00\xff",
    "set": {"p", "q"},
}
"""An attribute of every kind."""


class Contract:
    """Tests that a class of a test module inherits; they ask for the fixtures `table` and `pk`."""

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def pk(self) -> str:
        """Return a partition that no other test has: the table may be shared, and need not be emptied."""
        return f"U#{uuid4().hex[:16]}"


async def put(table: Table, pk: str, sk: str = "A", **fields: Any) -> None:
    """Write an item with these attributes, or ITEM."""
    await table.write(Put(pk, sk, fields or ITEM))
