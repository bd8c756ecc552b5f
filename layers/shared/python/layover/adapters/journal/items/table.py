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
    """The attribute (or, asked of `pk`, the item) is not there."""

    name: str


@dataclass(frozen=True)
class Exists:
    """The attribute (or the item) is there."""

    name: str


@dataclass(frozen=True)
class Equals:
    """The attribute has this value."""

    name: str
    value: Any


@dataclass(frozen=True)
class Differs:
    """The attribute is not there or has another value."""

    name: str
    value: Any


@dataclass(frozen=True)
class Below:
    """The attribute is less than this value."""

    name: str
    value: Any


@dataclass(frozen=True)
class Above:
    """The attribute is more than this value."""

    name: str
    value: Any


@dataclass(frozen=True)
class Shorter:
    """The list, or set, is not there or has fewer elements."""

    name: str
    size: int


@dataclass(frozen=True)
class AllOf:
    """Every one holds."""

    parts: tuple["Condition", ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one holds."""

    parts: tuple["Condition", ...]


Condition = Missing | Exists | Equals | Differs | Below | Above | Shorter | AllOf | AnyOf


def all_of(*parts: Condition) -> AllOf:
    """Every one holds."""
    return AllOf(parts)


def any_of(*parts: Condition) -> AnyOf:
    """At least one holds."""
    return AnyOf(parts)


def same(name: str, value: Any) -> Condition:
    """The attribute is as it was seen; None stands for not being there."""
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
    """Change attributes, each in one way. `set` with None removes."""

    pk: str
    sk: str
    set: Mapping[str, Any] = field(default_factory=dict)
    add: Mapping[str, int] = field(default_factory=dict)
    include: Mapping[str, str | frozenset[str]] = field(default_factory=dict)
    """Set attribute -> element, or elements, to add."""
    exclude: Mapping[str, str] = field(default_factory=dict)
    """Set attribute -> element to take out."""
    append: Mapping[str, str] = field(default_factory=dict)
    """List attribute -> element to put at its end."""
    when: Condition | None = None


def elements(added: str | frozenset[str]) -> set[str]:
    """Return the elements that `include` adds."""
    return {added} if isinstance(added, str) else set(added)


@dataclass(frozen=True)
class Check:
    """Write nothing; the transaction fails unless it holds."""

    pk: str
    sk: str
    when: Condition


@dataclass(frozen=True)
class Delete:
    """Take an item away."""

    pk: str
    sk: str
    when: Condition | None = None


Write = Put | Update | Delete
Action = Put | Update | Check | Delete


class ConditionFailed(Exception):
    """A write's condition did not hold. `old` is the item as it is, None where there is none."""

    def __init__(self, old: Item | None) -> None:
        super().__init__("the condition did not hold")
        self.old = old


class TransactionFailed(Exception):
    """Some conditions did not hold; nothing was written. `failed`: index of the action -> old item."""

    def __init__(self, failed: Mapping[int, Item | None]) -> None:
        super().__init__(f"the conditions of actions {sorted(failed)} did not hold")
        self.failed = failed


class Table(Protocol):
    """The port below the journal. All reads are consistent, but for the index."""

    async def get(self, pk: str, sk: str) -> Item | None:
        """One item."""
        ...

    async def query(
        self, pk: str, low: str, high: str, *, limit: int | None = None, forward: bool = True
    ) -> list[Item]:
        """Items with low <= sk <= high, in order of sk (or backwards)."""
        ...

    async def query_index(
        self, partition: str, prefix: str, *, limit: int, forward: bool, after: str | None
    ) -> list[Item]:
        """Items of the owner's index whose sort key begins with `prefix`, strictly after `after`
        in the direction of reading."""
        ...

    async def due(self, partition: str, until: str, limit: int) -> list[tuple[str, str]]:
        """Keys (pk, sk) in the watch index with a sort key <= `until`, the oldest first."""
        ...

    async def behind(self, partition: str, after: str, limit: int) -> list[tuple[str, str, str]]:
        """Places in a partition of the watch index behind `after`, in order: (sort key there, pk, sk)."""
        ...

    async def write(self, action: Write) -> Item | None:
        """One conditional write; an Update answers the new item, a Delete the old one. Raises
        ConditionFailed."""
        ...

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        """All or nothing; repeating with the same token does nothing twice. Raises TransactionFailed."""
        ...


async def whole(write: Coroutine[Any, Any, None]) -> None:
    """A write that was begun is waited for even by a task that is being cancelled: its request may have
    arrived, and if it were not known to be done, its events would be told twice."""
    task = asyncio.ensure_future(write)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise
