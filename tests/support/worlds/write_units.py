"""A table that counts what its writes would cost on DynamoDB: write request units, indexes included."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from layover.adapters.journal.items.schema import TABLE
from layover.inmemory.table import InMemoryTable
from layover.ports.table import Action, Check, Item, Write

_KB = 1024
_TABLE_KEYS = {"pk", "sk"}
_INDEXES = [
    (
        {key["AttributeName"] for key in index["KeySchema"]},
        index["Projection"].get("NonKeyAttributes"),
        index["Projection"]["ProjectionType"],
    )
    for index in TABLE["GlobalSecondaryIndexes"]
]


def units(size: int) -> int:
    """Of one write of an item of so many bytes."""
    return max(1, -(-size // _KB))


def size_of(value: Any) -> int:
    """Bytes, as DynamoDB counts them."""
    match value:
        case dict():
            return sum(len(name) + size_of(part) for name, part in value.items())
        case bool():
            return 1
        case int():
            return len(str(value)) // 2 + 2
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case set() | frozenset():
            return sum(size_of(part) for part in value)
    return 3 + sum(1 + size_of(part) for part in value)


class CountingTable(InMemoryTable):
    """`spent` by the kind of item, `log`: every write with the sizes before and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.spent: Counter[str] = Counter()
        self.log: list[tuple[str, int, int, int]] = []

    @property
    def total(self) -> int:
        """Write request units so far."""
        return sum(self.spent.values())

    async def write(self, action: Write) -> Item | None:
        """One write."""
        before = self._items.get((action.pk, action.sk))
        try:
            return await super().write(action)
        finally:
            self._count(action, before, 1)

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        """Twice the price of each write; a condition's check is as dear."""
        before = [self._items.get((a.pk, a.sk)) for a in actions]
        try:
            await super().transact(actions, token)
        finally:
            for action, old in zip(actions, before, strict=True):
                self._count(action, old, 2)

    def _count(self, action: Action, old: Item | None, factor: int) -> None:
        new = self._items.get((action.pk, action.sk))
        was, now = [size_of(item) if item else 0 for item in (old, new)]
        spent = factor * units(max(was, now))
        if not isinstance(action, Check):
            spent += sum(_index_units(old, new, *index) for index in _INDEXES)
        kind = "".join("#" if c.isdigit() else c for c in action.sk.split("#")[0]) or action.sk
        self.spent["CALL" if "#CALL#" in action.sk else kind] += spent
        self.log.append((action.sk, was, now, spent))


def _index_units(
    old: Item | None, new: Item | None, keys: set[str], projected: Collection[str] | None, kind: str
) -> int:
    """Return the units that the same write costs an index: none if no attribute of the index changes."""

    def entry(item: Item | None) -> Item | None:
        if item is None or not keys <= item.keys():
            return None
        kept = keys | _TABLE_KEYS | {*(projected or ())}
        return item if kind == "ALL" else {n: v for n, v in item.items() if n in kept}

    was, now = entry(old), entry(new)
    if was == now:
        return 0
    moved = was is None or now is None or any(was[key] != now[key] for key in keys)
    if not moved:
        return units(max(size_of(was), size_of(now)))
    return sum(units(size_of(item)) for item in (was, now) if item is not None)
