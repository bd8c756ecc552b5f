"""The table of items that the journal is written over."""

from collections.abc import Sequence
from typing import Protocol

from layover.ports.table.actions import Action, Item, Write


class Table(Protocol):
    """The port below the journal: items under a partition (`pk`) and a place in it (`sk`), with conditional
    writes and transactions. `layover.testing.contracts.TableContract` holds what a table promises.

    Places sort by the bytes of their UTF-8. Reads of items are consistent: they see every write that has
    returned. Two indexes follow the items, at once or a moment later; an item with a part of an index's key
    is not in it:

    - the owner's: `gsi1pk` is the partition, `gsi1sk` the sort key;
    - the watch: `gsi2pk` and `gsi2sk`.

    An item may have `expires`, in epoch seconds. A table may delete it from then on, but need not. Every
    method may raise RetryableError: the database does not answer now."""

    async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Item | None:
        """Return one item; None if there is none. With `consistent=False` the answer may be a moment old, at
        half the price on DynamoDB; a table without such reads answers as always."""
        ...

    async def query(
        self, pk: str, low: str, high: str, *, limit: int | None = None, forward: bool = True
    ) -> list[Item]:
        """Return items with low <= sk <= high, in order of sk (or backwards), at most `limit`."""
        ...

    async def query_index(
        self, partition: str, prefix: str, *, limit: int, forward: bool, after: str | None
    ) -> list[Item]:
        """Return items of the owner's index whose sort key begins with `prefix`, strictly after `after` in
        the direction of reading. DynamoDB returns only what lists show of each item; whole items are fine."""
        ...

    async def due(self, partition: str, until: str, limit: int) -> list[tuple[str, str]]:
        """Return keys (pk, sk) in the watch index with a sort key <= `until`, the oldest first."""
        ...

    async def behind(self, partition: str, after: str, limit: int) -> list[tuple[str, str, str]]:
        """Return places in a partition of the watch index behind `after`, in order: (sort key there, pk,
        sk)."""
        ...

    async def write(self, action: Write) -> Item | None:
        """Make one conditional write. Return the new item of an Update, the old one of a Delete, None for a
        Put. Raises ConditionFailed."""
        ...

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        """Write all or nothing: at most 100 actions, one an item. Repeating it with the same token within 10
        minutes has no further effect; a token that failed may be used again. Raises TransactionFailed, which
        names every condition that did not hold."""
        ...
