"""A table in memory: the semantics of DynamoDB's conditional writes, for tests and the in-process SDK."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

from layover.adapters.journal.items.schema import LISTED
from layover.adapters.journal.items.table import (
    Above,
    Action,
    AllOf,
    AnyOf,
    Below,
    Check,
    Condition,
    ConditionFailed,
    Delete,
    Differs,
    Equals,
    Exists,
    Item,
    Missing,
    Put,
    Shorter,
    TransactionFailed,
    Update,
    Write,
    elements,
)

_PROJECTED = {"pk", "sk", "gsi1pk", "gsi1sk", *LISTED}
MAX_ACTIONS = 100
MAX_TRANSACTION = 4 * 1024 * 1024
"""DynamoDB's limits of a transaction: actions, and bytes of all its items."""
MAX_ITEM = 400 * 1024
"""DynamoDB's limit of an item, in bytes, with the attributes' names."""


class MemoryTable:
    """`Table` as a dict. Single-threaded: every method runs without giving way to another task."""

    def __init__(self, on_change: Callable[[], None] | None = None) -> None:
        self._on_change = on_change or (lambda: None)
        self._items: dict[tuple[str, str], Item] = {}
        self._done: set[str] = set()

    async def get(self, pk: str, sk: str) -> Item | None:
        """One item."""
        return copy.deepcopy(self._items.get((pk, sk)))

    async def query(
        self, pk: str, low: str, high: str, *, limit: int | None = None, forward: bool = True
    ) -> list[Item]:
        """Items with low <= sk <= high."""
        keys = sorted(
            (k for k in self._items if k[0] == pk and low <= k[1] <= high), reverse=not forward
        )
        return [copy.deepcopy(self._items[k]) for k in keys[:limit]]

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
        return copy.deepcopy([_projected(i) for i in items if beyond(i)][:limit])

    async def due(self, partition: str, until: str, limit: int) -> list[tuple[str, str]]:
        """Keys in the watch index with a sort key <= `until`."""
        places = sorted(
            (str(i["gsi2sk"]), str(i["pk"]), str(i["sk"]))
            for i in self._items.values()
            if i.get("gsi2pk") == partition and "gsi2sk" in i and str(i["gsi2sk"]) <= until
        )
        return [(pk, sk) for _, pk, sk in places[:limit]]

    async def behind(self, partition: str, after: str, limit: int) -> list[tuple[str, str, str]]:
        """Places in a partition of the watch index behind `after`."""
        places = sorted(
            (str(i["gsi2sk"]), str(i["pk"]), str(i["sk"]))
            for i in self._items.values()
            if i.get("gsi2pk") == partition and str(i["gsi2sk"]) > after
        )
        return places[:limit]

    async def write(self, action: Write) -> Item | None:
        """One conditional write."""
        old = self._items.get((action.pk, action.sk))
        if action.when is not None and not holds(action.when, old):
            raise ConditionFailed(copy.deepcopy(old))
        new = _after(old, action)
        _refuse_too_large([new])
        self._store(action, new)
        self._on_change()
        if isinstance(action, Put):
            return None
        return copy.deepcopy(old if isinstance(action, Delete) else new)

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        """Check all, then apply all."""
        if token in self._done:
            return
        if len({(a.pk, a.sk) for a in actions}) < len(actions) or len(actions) > MAX_ACTIONS:
            raise ValueError("a transaction takes 100 actions at most, one an item")
        failed = {
            index: copy.deepcopy(self._items.get((a.pk, a.sk)))
            for index, a in enumerate(actions)
            if a.when is not None and not holds(a.when, self._items.get((a.pk, a.sk)))
        }
        if failed:
            raise TransactionFailed(failed)
        new = [_after(self._items.get((a.pk, a.sk)), a) for a in actions]
        _refuse_too_large(new)
        for action, item in zip(actions, new, strict=True):
            self._store(action, item)
        self._done.add(token)
        self._on_change()

    def _store(self, action: Action, item: Item | None) -> None:
        if item is None:
            self._items.pop((action.pk, action.sk), None)
        else:
            self._items[action.pk, action.sk] = item


def _projected(item: Item) -> Item:
    """Return the part of an item that the owner's index has."""
    return {name: value for name, value in item.items() if name in _PROJECTED}


def _after(old: Item | None, action: Action) -> Item | None:
    """The item once this is done."""
    key = {"pk": action.pk, "sk": action.sk}
    match action:
        case Check():
            return old
        case Delete():
            return None
        case Put():
            return key | {k: _copy(v) for k, v in action.item.items() if v is not None}
        case Update():
            _refuse_overlap(action)
            return apply_update(key if old is None else old, action)


def _copy(value: Any) -> Any:
    """A copy, as DynamoDB would give it back. Raises TypeError and ValueError for what it has not."""
    match value:
        case bool() | str() | int() | bytes():
            return value
        case set() | frozenset():
            if not value:
                raise ValueError("a set without elements cannot be stored")
            return set(value)
        case list() | tuple():
            return [_copy(v) for v in value]
    raise TypeError(f"the journal does not store {type(value).__name__}")


def _refuse_overlap(action: Update) -> None:
    """DynamoDB takes each attribute once in an update, and never a key."""
    clauses = (action.set, action.add, action.include, action.exclude, action.append)
    names = ["pk", "sk", *(name for clause in clauses for name in clause)]
    if len(set(names)) < len(names):
        raise ValueError("an update changes each attribute once, and no key")


def _refuse_too_large(items: Sequence[Item | None]) -> None:
    sizes = [_size(item) for item in items if item is not None]
    if any(size > MAX_ITEM for size in sizes) or sum(sizes) > MAX_TRANSACTION:
        raise ValueError("an item takes 400 KB at most, the items of a transaction 4 MB")


def _size(value: Any) -> int:
    """Bytes, as DynamoDB counts them, but for the few that a list or a number takes besides."""
    match value:
        case bytes():
            return len(value)
        case dict():
            return sum(len(name) + _size(part) for name, part in value.items())
        case set() | frozenset() | list() | tuple():
            return sum(_size(part) for part in value)
        case bool():
            return 1
    return len(str(value).encode())


def apply_update(old: Item, action: Update) -> Item:
    """The item after the update."""
    item = dict(old)
    for name, value in action.set.items():
        if value is None:
            item.pop(name, None)
        else:
            item[name] = _copy(value)
    for name, number in action.add.items():
        item[name] = item.get(name, 0) + number
    for name, last in action.append.items():
        item[name] = [*item.get(name, ()), last]
    for name, elements_to_add in action.include.items():
        item[name] = item.get(name, set()) | _copy(elements(elements_to_add))
    for name, element in action.exclude.items():
        rest = item.get(name, set()) - {element}
        item.pop(name, None)
        if rest:
            item[name] = rest
    return item


def holds(condition: Condition, item: Item | None) -> bool:
    """Return whether DynamoDB would let a write with this condition pass."""
    value: Any = None if item is None else item.get(getattr(condition, "name", ""))
    match condition:
        case AllOf(parts):
            return all(holds(p, item) for p in parts)
        case AnyOf(parts):
            return any(holds(p, item) for p in parts)
        case Missing():
            return value is None
        case Exists():
            return value is not None
        case Equals(_, expected):
            return bool(value == expected)
        case Differs(_, unwanted):
            return bool(value != unwanted)
        case Below(_, limit):
            return value is not None and bool(value < limit)
        case Above(_, limit):
            return value is not None and bool(value > limit)
        case Shorter(_, size):
            return value is None or len(value) < size
