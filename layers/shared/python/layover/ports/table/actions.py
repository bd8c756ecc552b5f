"""Writes to a table of items, their conditions, and the errors of conditions that fail."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
"""A condition on an item before the write."""


def all_of(*parts: Condition) -> AllOf:
    """Return a condition that holds if every part holds."""
    return AllOf(parts)


def any_of(*parts: Condition) -> AnyOf:
    """Return a condition that holds if at least one part holds."""
    return AnyOf(parts)


def same(name: str, value: Any) -> Condition:
    """Return the condition that the attribute is unchanged; None: it did not exist."""
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
    exclude: Mapping[str, str | frozenset[str]] = field(default_factory=dict)
    """Elements to remove, by set attribute."""
    append: Mapping[str, str] = field(default_factory=dict)
    """The element to append, by list attribute."""
    when: Condition | None = None


def elements(names: str | frozenset[str]) -> set[str]:
    """Return the elements that `include` adds, or `exclude` removes."""
    return {names} if isinstance(names, str) else set(names)


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
"""An action that may be made outside a transaction."""
Action = Put | Update | Check | Delete
"""An action of a transaction. `when`: the condition; None: always."""


class ConditionFailed(Exception):
    """A write's condition did not hold. `old` is the present item; None if there is none."""

    def __init__(self, old: Item | None) -> None:
        super().__init__("the condition did not hold")
        self.old = old


class TransactionFailed(Exception):
    """Some conditions did not hold, and nothing was written. `failed`: index of the action -> old item."""

    def __init__(self, failed: Mapping[int, Item | None]) -> None:
        super().__init__(f"the conditions of actions {sorted(failed)} did not hold")
        self.failed = failed
