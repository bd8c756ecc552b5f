"""Semantics of the table's actions on items that were read: for tables whose database has no conditional
writes, and reads and writes items in a transaction instead."""

from collections.abc import Sequence
from typing import Any

from layover.ports.table.actions import (
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
    elements,
)

MAX_ACTIONS = 100
MAX_TRANSACTION = 4 * 1024 * 1024
"""DynamoDB's limits of a transaction: actions, and bytes of all its items."""
MAX_ITEM = 400 * 1024
"""DynamoDB's limit of an item, in bytes, with the attributes' names."""


def apply(action: Action, old: Item | None) -> Item | None:
    """Return the item as the action leaves it; None if no item is left. `old`: the present item, which stays
    unchanged.

    Raises ConditionFailed; TypeError and ValueError for values that DynamoDB does not take either."""
    if action.when is not None and not holds(action.when, old):
        raise ConditionFailed(old)
    new = _after(old, action)
    _refuse_too_large([new])
    return new


def apply_all(actions: Sequence[Action], olds: Sequence[Item | None]) -> list[Item | None]:
    """Return the items as the actions of one transaction leave them, in their order. `olds`: the present item
    of each.

    Raises TransactionFailed; TypeError and ValueError for values that DynamoDB does not take either."""
    if len({(a.pk, a.sk) for a in actions}) < len(actions) or len(actions) > MAX_ACTIONS:
        raise ValueError("a transaction takes 100 actions at most, one an item")
    pairs = list(zip(actions, olds, strict=True))
    failed = {
        index: old
        for index, (action, old) in enumerate(pairs)
        if action.when is not None and not holds(action.when, old)
    }
    if failed:
        raise TransactionFailed(failed)
    news = [_after(old, action) for action, old in pairs]
    _refuse_too_large(news)
    return news


def holds(condition: Condition, item: Item | None) -> bool:
    """Return whether DynamoDB would let a write with this condition pass."""
    value = _value_of(condition, item)
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


def _value_of(condition: Condition, item: Item | None) -> Any:
    return None if item is None else item.get(getattr(condition, "name", ""))


def _after(old: Item | None, action: Action) -> Item | None:
    """Return the item after this action."""
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
            return _updated(key if old is None else old, action)


def copy_of(item: Item) -> Item:
    """Return a copy of an item that shares nothing that could change."""
    return {name: _copy(value) for name, value in item.items()}


def _copy(value: Any) -> Any:
    """Return a copy, as DynamoDB would return it. Raises TypeError and ValueError for types that it lacks."""
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
    """Return the bytes as DynamoDB counts them, except the few extra bytes of a list or a number."""
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


def _updated(old: Item, action: Update) -> Item:
    """Return the item after the update."""
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
    for name, elements_to_remove in action.exclude.items():
        rest = item.get(name, set()) - elements(elements_to_remove)
        item.pop(name, None)
        if rest:
            item[name] = rest
    return item
