"""Evaluation of expressions on an item."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from layover.desk.local.aws.dynamodb.attributes import (
    Item,
    Value,
    number,
    read_value,
    sort_key,
    text_of,
    value_size,
)
from layover.desk.local.aws.dynamodb.errors import ValidationError
from layover.desk.local.aws.dynamodb.parser import Expression, Tree

_SETS = ("SS", "NS", "BS")
_ELEMENT = {"SS": "S", "NS": "N", "BS": "B"}
_LEGACY = frozenset({"Expected", "AttributeUpdates", "ConditionalOperator", "KeyConditions"}) | {
    "QueryFilter",
    "ScanFilter",
    "AttributesToGet",
}
_TYPES = frozenset({"S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M"})


@dataclass
class Names:
    """`ExpressionAttributeNames` and `ExpressionAttributeValues` of one request, and which of them its
    expressions use."""

    names: Mapping[str, str]
    values: Mapping[str, Value]
    uses: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> "Names":
        """Read those of a request. Raises ValidationError, also for conditions from the time before
        expressions (2014), which the system does not send."""
        if legacy := sorted(_LEGACY & request.keys()):
            raise ValidationError(f"{legacy[0]} is not served on one machine: use an expression")
        values = request.get("ExpressionAttributeValues") or {}
        read = {name: read_value(value) for name, value in values.items()}
        return cls(request.get("ExpressionAttributeNames") or {}, read)

    def use(self, expression: Expression, kind: str) -> Any:
        """Return the tree of an expression. Raises ValidationError if one of its names or values is
        missing."""
        for name in sorted(expression.names - self.names.keys()):
            raise ValidationError(
                f"Invalid {kind}: An expression attribute name used in the document path is not "
                f"defined; attribute name: {name}"
            )
        for name in sorted(expression.values - self.values.keys()):
            raise ValidationError(
                f"Invalid {kind}: An expression attribute value used in expression is not defined; "
                f"attribute value: {name}"
            )
        self.uses |= expression.names | expression.values
        return expression.tree

    def refuse_unused(self) -> None:
        """Raise ValidationError for a name or value that no expression uses, as DynamoDB does."""
        for kind, placeholders in (("Names", self.names), ("Values", self.values)):
            if unused := placeholders.keys() - self.uses:
                keys = ", ".join(sorted(unused))
                raise ValidationError(
                    f"Value provided in ExpressionAttribute{kind} unused in expressions: keys: {{{keys}}}"
                )

    def path(self, tree: Tree) -> tuple[str | int, ...]:
        """Return the parts of a path, with names in place of placeholders."""
        return tuple(
            self.names[part] if isinstance(part, str) and part.startswith("#") else part
            for part in tree[1]
        )


def find(item: Mapping[str, Value] | None, path: tuple[str | int, ...]) -> Value | None:
    """Return the value at a path; None if there is none."""
    if item is None:
        return None
    current: Any = {"M": item}
    for part in path:
        if isinstance(part, str):
            current = current.get("M", {}).get(part)
        else:
            elements = current.get("L", ())
            current = elements[part] if part < len(elements) else None
        if current is None:
            return None
    result: Value = current
    return result


def holds(tree: Tree, item: Item | None, names: Names) -> bool:
    """Return whether a condition is true of an item. `item` None: the item does not exist, and a condition
    may still be true."""
    match tree:
        case ("and", parts):
            return all(holds(part, item, names) for part in parts)
        case ("or", parts):
            return any(holds(part, item, names) for part in parts)
        case ("not", part):
            return not holds(part, item, names)
        case ("compare", sign, left, right):
            return _compare(sign, _operand(left, item, names), _operand(right, item, names))
        case ("between", operand, low, high):
            value = _operand(operand, item, names)
            bounds = _operand(low, item, names), _operand(high, item, names)
            return _compare(">=", value, bounds[0]) and _compare("<=", value, bounds[1])
        case ("in", operand, options):
            value = _operand(operand, item, names)
            return any(_compare("=", value, _operand(each, item, names)) for each in options)
        case ("call", name, *arguments):
            return _call(name, [_operand(each, item, names) for each in arguments])
    raise AssertionError(tree)


def _operand(tree: Tree, item: Item | None, names: Names) -> Value | None:
    match tree:
        case ("value", name):
            return names.values[name]
        case ("path", _):
            return find(item, names.path(tree))
        case ("size", path):
            return _size(find(item, names.path(path)))
    raise AssertionError(tree)


def _size(value: Value | None) -> Value | None:
    if value is None:
        return None
    ((kind, content),) = value.items()
    if kind in ("S", "B"):
        return {"N": str(value_size(value))}
    return {"N": str(len(content))} if kind in (*_SETS, "L", "M") else None


def _compare(sign: str, left: Value | None, right: Value | None) -> bool:
    if sign == "<>":
        # A missing attribute differs from everything, and equals nothing: so `<>` is not the opposite of `=`.
        return left is None or right is None or left != right
    if left is None or right is None:
        return False
    if sign == "=":
        return left == right
    if left.keys() != right.keys():
        return False
    a, b = sort_key(left), sort_key(right)
    if a is None or b is None:
        return False
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign])


def _call(name: str, arguments: list[Value | None]) -> bool:
    value = arguments[0]
    if name == "attribute_exists":
        return value is not None
    if name == "attribute_not_exists":
        return value is None
    other = arguments[1]
    if name == "attribute_type":
        if other is None or other.get("S") not in _TYPES:
            raise ValidationError("Invalid ConditionExpression: Invalid attribute type name found")
        return value is not None and other["S"] in value
    if value is None or other is None:
        return False
    if name == "begins_with":
        a, b = sort_key(value), sort_key(other)
        same_kind = value.keys() == other.keys() and isinstance(a, str | bytes)
        return same_kind and bool(a.startswith(b))
    return _contains(value, other)


def _contains(value: Value, other: Value) -> bool:
    ((kind, content),) = value.items()
    if kind == "L":
        return other in content
    if kind in _SETS:
        return _ELEMENT[kind] in other and other[_ELEMENT[kind]] in content
    return (
        value.keys() == other.keys() and kind in ("S", "B") and sort_key(other) in sort_key(value)
    )


def project(item: Item, paths: list[tuple[str | int, ...]]) -> Item:
    """Return the parts of an item at these paths. Elements of a list move up: `l[3]` by itself comes as a
    list of one."""
    parts: dict[Any, Any] = {}
    for path in paths:
        if (value := find(item, path)) is not None:
            _place(parts, path, value)
    return {name: _closed_ranks(value) for name, value in parts.items()}


class _Part(dict[Any, Any]):
    """A map or a list of which only some parts were taken."""


def _place(document: dict[Any, Any], path: tuple[str | int, ...], value: Value) -> None:
    here = document
    for part, next_part in itertools.pairwise(path):
        if not isinstance(here.get(part), _Part):
            here[part] = _Part()
            here[part][None] = "M" if isinstance(next_part, str) else "L"
        here = here[part]
    here[path[-1]] = value


def _closed_ranks(value: Any) -> Value:
    if not isinstance(value, _Part):
        plain: Value = value
        return plain
    kind = value.pop(None)
    if kind == "M":
        return {"M": {name: _closed_ranks(each) for name, each in value.items()}}
    return {"L": [_closed_ranks(value[index]) for index in sorted(value)]}


def add_numbers(left: Value | None, right: Value, sign: int = 1) -> Value:
    """Return the sum (`sign` -1: the difference) of numbers. Raises ValidationError for anything else."""
    if left is None or "N" not in left or "N" not in right:
        raise ValidationError(
            "An operand in the update expression has an incorrect data type"
            if left is not None
            else "The provided expression refers to an attribute that does not exist in the item"
        )
    return {"N": text_of(number(text_of(number(left["N"]) + sign * number(right["N"]))))}
