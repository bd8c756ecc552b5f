"""One write with its condition: PutItem, UpdateItem, DeleteItem, and the actions of a transaction."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from layover.desk.local.aws.dynamodb import items
from layover.desk.local.aws.dynamodb.attributes import Item, read_item, size_of
from layover.desk.local.aws.dynamodb.errors import ConditionalCheckFailed, ValidationError
from layover.desk.local.aws.dynamodb.evaluation import Names, holds
from layover.desk.local.aws.dynamodb.parser import Tree, parse_condition, parse_update
from layover.desk.local.aws.dynamodb.tables import Table
from layover.desk.local.aws.dynamodb.updates import update

_RETURNS = {
    "Put": ("NONE", "ALL_OLD"),
    "Delete": ("NONE", "ALL_OLD"),
    "Update": ("NONE", "ALL_OLD", "ALL_NEW"),
}


@dataclass(frozen=True)
class Done:
    """The effect of a write. `size`: bytes of the new item."""

    old: Item | None
    new: Item | None
    size: int


@dataclass(frozen=True)
class Write:
    """A valid request: only its condition, and the types of its operands, can still fail."""

    kind: str
    table: Table
    key: items.Key
    item: Item
    names: Names
    condition: Tree | None
    clauses: dict[str, list[Tree]]
    wants_old: bool

    @classmethod
    def read(cls, table: Table, kind: str, request: Mapping[str, Any]) -> "Write":
        """Read a `Put`, `Update`, `Delete` or `ConditionCheck`. Raises ValidationError."""
        is_put = kind == "Put"
        item = read_item(request["Item"] if is_put else request["Key"])
        key = items.key_of(table, item, whole=not is_put)
        names, condition, clauses = Names.of(request), None, {}
        if text := request.get("UpdateExpression"):
            clauses = names.use(parse_update(text), "UpdateExpression")
        if "ConditionExpression" in request or kind == "ConditionCheck":
            text = request["ConditionExpression"]
            condition = names.use(parse_condition(text), "ConditionExpression")
        names.refuse_unused()
        wants_old = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
        return cls(
            kind=kind,
            table=table,
            key=key,
            item=item,
            names=names,
            condition=condition,
            clauses=clauses,
            wants_old=wants_old,
        )

    def check(self, connection: sqlite3.Connection) -> Item | None:
        """Return the item as it is. Raises ConditionalCheckFailed."""
        old = items.read(connection, self.table, self.key)
        if self.condition is not None and not holds(self.condition, old, self.names):
            raise ConditionalCheckFailed(old if self.wants_old else None)
        return old

    def apply(self, connection: sqlite3.Connection) -> Done:
        """Check, then write. Raises ConditionalCheckFailed and ValidationError."""
        return self.carry_out(connection, self.check(connection))

    def carry_out(self, connection: sqlite3.Connection, old: Item | None) -> Done:
        """Replace `old`, of which `check` has found the condition to hold. Raises ValidationError."""
        if self.kind == "ConditionCheck":
            return Done(old, old, 0 if old is None else size_of(old))
        new: Item | None = self.item
        if self.kind == "Delete":
            new = None
        elif self.kind == "Update":
            keys = self.table.keys.names
            new = update(self.item if old is None else old, self.clauses, self.names, keys)
        return Done(old, new, items.write(connection, self.table, self.key, new))


def answer_of(write: Write, done: Done, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the response to a write outside of a transaction."""
    return_values = request.get("ReturnValues") or "NONE"
    if return_values not in _RETURNS[write.kind]:
        raise ValidationError("Return values set to invalid value")
    item = done.new if return_values.endswith("NEW") else done.old
    return {"Attributes": item} if return_values != "NONE" and item else {}
