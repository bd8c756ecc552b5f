"""Evaluation of expressions on an item."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from layover.desk.local.aws.dynamodb.attributes import (
    Item,
    Value,
    read_value,
    sort_key,
    value_size,
)
from layover.desk.local.aws.dynamodb.errors import ValidationError
from layover.desk.local.aws.dynamodb.parser import Expression, Tree

_BEFORE_EXPRESSIONS = (
    "Expected",
    "AttributeUpdates",
    "ConditionalOperator",
    "KeyConditions",
    "QueryFilter",
    "ScanFilter",
    "AttributesToGet",
)
"""Conditions from the time before there were expressions (2014)."""
_OF_PARTS = ("FilterExpression", "ProjectionExpression", "Select", "Segment")
"""The journal asks for whole items."""


@dataclass
class Names:
    """`ExpressionAttributeNames` and `ExpressionAttributeValues` of one request, and which of them its
    expressions use."""

    names: Mapping[str, str]
    values: Mapping[str, Value]
    uses: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> "Names":
        """Read those of a request. Raises ValidationError, also for what the system does not send."""
        if others := [n for n in (*_BEFORE_EXPRESSIONS, *_OF_PARTS) if n in request]:
            raise ValidationError(f"{others[0]} is not served on one machine")
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

    def attribute(self, tree: Tree) -> str:
        """Return the attribute that a tree of the kind `name` means."""
        return self.names.get(tree[1], tree[1])


def holds(tree: Tree, item: Item | None, names: Names) -> bool:
    """Return whether a condition is true of an item. `item` None: the item does not exist, and a condition
    may still be true."""
    match tree:
        case ("and", parts):
            return all(holds(part, item, names) for part in parts)
        case ("or", parts):
            return any(holds(part, item, names) for part in parts)
        case ("compare", sign, left, right):
            return _compare(sign, _operand(left, item, names), _operand(right, item, names))
        case ("call", "attribute_exists", operand):
            return _operand(operand, item, names) is not None
        case ("call", "attribute_not_exists", operand):
            return _operand(operand, item, names) is None
    raise ValidationError(f"Invalid ConditionExpression: {tree[0]} is not served on one machine")


def _operand(tree: Tree, item: Item | None, names: Names) -> Value | None:
    match tree:
        case ("value", name):
            return names.values[name]
        case ("size", name):
            return _size(_operand(name, item, names))
    return (item or {}).get(names.attribute(tree))


def _size(value: Value | None) -> Value | None:
    if value is None:
        return None
    ((kind, content),) = value.items()
    if kind in ("S", "B"):
        return {"N": str(value_size(value))}
    return {"N": str(len(content))} if kind in ("SS", "L") else None


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
