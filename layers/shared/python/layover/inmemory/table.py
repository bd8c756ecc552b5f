"""A table in memory: the semantics of DynamoDB's conditional writes, for tests and the in-process SDK."""

from collections.abc import Callable, Sequence

from layover.adapters.journal.items.schema import LISTED
from layover.keys import MAX_PARTITION_KEY, MAX_SORT_KEY
from layover.ports.table import (
    Action,
    Delete,
    Item,
    Put,
    Write,
    apply,
    apply_all,
)
from layover.ports.table.evaluate import copy_of

_PROJECTED = {"pk", "sk", "gsi1pk", "gsi1sk", *LISTED}
"""The part of an item that the owner's index has."""


class InMemoryTable:
    """`Table` as a dict. Single-threaded: every method runs without giving way to another task."""

    def __init__(self, on_change: Callable[[], None] | None = None) -> None:
        self._on_change = on_change or (lambda: None)
        self._items: dict[tuple[str, str], Item] = {}
        self._done: set[str] = set()

    async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Item | None:
        """One item."""
        _check_key(pk, sk)
        return self._copy_of(pk, sk)

    async def query(
        self, pk: str, low: str, high: str, *, limit: int | None = None, forward: bool = True
    ) -> list[Item]:
        """Items with low <= sk <= high."""
        _check_key(pk)
        keys = sorted(
            (k for k in self._items if k[0] == pk and low <= k[1] <= high), reverse=not forward
        )
        return [copy_of(self._items[k]) for k in keys[:limit]]

    async def query_index(
        self, partition: str, prefix: str, *, limit: int, forward: bool, after: str | None
    ) -> list[Item]:
        """Items of the owner's index."""
        items = sorted(
            (
                i
                for i in self._items.values()
                if i.get("gsi1pk") == partition
                and "gsi1sk" in i
                and str(i["gsi1sk"]).startswith(prefix)
            ),
            key=lambda i: str(i["gsi1sk"]),
            reverse=not forward,
        )
        beyond: Callable[[Item], bool] = lambda i: (  # noqa: E731
            after is None or (i["gsi1sk"] > after if forward else i["gsi1sk"] < after)
        )
        visible = ({n: v for n, v in i.items() if n in _PROJECTED} for i in items if beyond(i))
        return [copy_of(i) for i in visible][:limit]

    async def due(self, partition: str, until: str, limit: int) -> list[tuple[str, str]]:
        """Keys in the watch index with a sort key <= `until`."""
        due = [place for place in self._watched(partition) if place[0] <= until]
        return [(pk, sk) for _, pk, sk in due[:limit]]

    async def behind(self, partition: str, after: str, limit: int) -> list[tuple[str, str, str]]:
        """Places in a partition of the watch index behind `after`."""
        return [place for place in self._watched(partition) if place[0] > after][:limit]

    async def write(self, action: Write) -> Item | None:
        """One conditional write."""
        _check_key(action.pk, action.sk)
        old = self._copy_of(action.pk, action.sk)
        new = apply(action, old)
        self._store(action, new)
        self._on_change()
        if isinstance(action, Put):
            return None
        return old if isinstance(action, Delete) or new is None else copy_of(new)

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        """Check all, then apply all."""
        if token in self._done:
            return
        for action in actions:
            _check_key(action.pk, action.sk)
        news = apply_all(actions, [self._copy_of(a.pk, a.sk) for a in actions])
        for action, new in zip(actions, news, strict=True):
            self._store(action, new)
        self._done.add(token)
        self._on_change()

    def _watched(self, partition: str) -> list[tuple[str, str, str]]:
        """Return the places in a partition of the watch index, in order: (sort key there, pk, sk)."""
        return sorted(
            (str(i["gsi2sk"]), str(i["pk"]), str(i["sk"]))
            for i in self._items.values()
            if i.get("gsi2pk") == partition and "gsi2sk" in i
        )

    def _copy_of(self, pk: str, sk: str) -> Item | None:
        item = self._items.get((pk, sk))
        return None if item is None else copy_of(item)

    def _store(self, action: Action, item: Item | None) -> None:
        if item is None:
            self._items.pop((action.pk, action.sk), None)
        else:
            self._items[action.pk, action.sk] = item


def _check_key(pk: str, sk: str = " ") -> None:
    """Raise ValueError for a key that DynamoDB refuses: a service that asks for one fails on AWS, and has to
    fail in tests, too."""
    for name, text, most in (("partition", pk, MAX_PARTITION_KEY), ("sort", sk, MAX_SORT_KEY)):
        # A lone surrogate is none of Unicode's characters: encoding it raises a ValueError as well.
        if not 0 < len(text.encode()) <= most:
            raise ValueError(f"a {name} key has 1 to {most} bytes")
