"""A table of items with conditional writes and transactions, as the journal needs it.

The journal's logic is written once, over this; DynamoDB and memory are two tables of the same contract.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Item = dict[str, Any]
"""Attributes: str, int, bool, bytes, list[str], and set[str] with at least one element."""


@dataclass(frozen=True)
class Missing:
    """Holds if the attribute (for `pk`: the item) does not exist."""

    name: str


@dataclass(frozen=True)
class Exists:
    """Holds if the attribute (for `pk`: the item) exists."""

    name: str


@dataclass(frozen=True)
class Equals:
    """Holds if the attribute has this value."""

    name: str
    value: Any


@dataclass(frozen=True)
class Differs:
    """Holds if the attribute does not exist or has another value."""

    name: str
    value: Any


@dataclass(frozen=True)
class Below:
    """Holds if the attribute is less than this value."""

    name: str
    value: Any


@dataclass(frozen=True)
class Above:
    """Holds if the attribute is more than this value."""

    name: str
    value: Any


@dataclass(frozen=True)
class Shorter:
    """Holds if the list, or set, does not exist or has fewer elements."""

    name: str
    size: int


@dataclass(frozen=True)
class AllOf:
    """Holds if every part holds."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True)
class AnyOf:
    """Holds if at least one part holds."""

    parts: tuple["Condition", ...]


Condition = Missing | Exists | Equals | Differs | Below | Above | Shorter | AllOf | AnyOf


def all_of(*parts: Condition) -> AllOf:
    """Return a condition that holds if every part holds."""
    return AllOf(parts)


def any_of(*parts: Condition) -> AnyOf:
    """Return a condition that holds if at least one part holds."""
    return AnyOf(parts)


def same(name: str, value: Any) -> Condition:
    """Return the condition that the attribute is as it was seen; None: it did not exist."""
    return Missing(name) if value is None else Equals(name, value)


@dataclass(frozen=True)
class Put:
    """Write a whole item."""

    pk: str
    sk: str
    item: Mapping[str, Any]
    when: Condition | None = None


@dataclass(frozen=True)
class Update:
    """Change attributes, each in one way. None in `set` removes an attribute."""

    pk: str
    sk: str
    set: Mapping[str, Any] = field(default_factory=dict)
    add: Mapping[str, int] = field(default_factory=dict)
    include: Mapping[str, str | frozenset[str]] = field(default_factory=dict)
    """Elements to add, by set attribute."""
    exclude: Mapping[str, str] = field(default_factory=dict)
    """The element to remove, by set attribute."""
    append: Mapping[str, str] = field(default_factory=dict)
    """The element to append, by list attribute."""
    when: Condition | None = None


def elements(added: str | frozenset[str]) -> set[str]:
    """Return the elements that `include` adds."""
    return {added} if isinstance(added, str) else set(added)


@dataclass(frozen=True)
class Check:
    """Write nothing; the transaction fails if the condition does not hold."""

    pk: str
    sk: str
    when: Condition


@dataclass(frozen=True)
class Delete:
    """Delete an item."""

    pk: str
    sk: str
    when: Condition | None = None


Write = Put | Update | Delete
Action = Put | Update | Check | Delete


class ConditionFailed(Exception):
    """A write's condition did not hold. `old` is the item as it is; None if there is none."""

    def __init__(self, old: Item | None) -> None:
        super().__init__("the condition did not hold")
        self.old = old


class TransactionFailed(Exception):
    """Some conditions did not hold, and nothing was written. `failed`: index of the action -> old item."""

    def __init__(self, failed: Mapping[int, Item | None]) -> None:
        super().__init__(f"the conditions of actions {sorted(failed)} did not hold")
        self.failed = failed


class Table(Protocol):
    """The port below the journal. All reads are consistent, except those of an index."""

    async def get(self, pk: str, sk: str) -> Item | None:
        """Return one item."""
        ...

    async def query(
        self, pk: str, low: str, high: str, *, limit: int | None = None, forward: bool = True
    ) -> list[Item]:
        """Return items with low <= sk <= high, in order of sk (or backwards)."""
        ...

    async def query_index(
        self, partition: str, prefix: str, *, limit: int, forward: bool, after: str | None
    ) -> list[Item]:
        """Return items of the owner's index whose sort key begins with `prefix`, strictly after `after` in
        the direction of reading."""
        ...

    async def due(self, partition: str, until: str, limit: int) -> list[tuple[str, str]]:
        """Return keys (pk, sk) in the watch index with a sort key <= `until`, the oldest first."""
        ...

    async def behind(self, partition: str, after: str, limit: int) -> list[tuple[str, str, str]]:
        """Return places in a partition of the watch index behind `after`, in order: (sort key there, pk,
        sk)."""
        ...

    async def write(self, action: Write) -> Item | None:
        """Make one conditional write. Return the new item of an Update, the old one of a Delete. Raises
        ConditionFailed."""
        ...

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        """Write all or nothing; repeating with the same token does nothing twice. Raises
        TransactionFailed."""
        ...


async def whole(write: Coroutine[Any, Any, None]) -> None:
    """Wait for a write that has begun, even in a task that is being cancelled: its request may have arrived,
    and if it were not known to be done, its events would be written twice."""
    task = asyncio.ensure_future(write)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise
