"""One write with its condition: PutItem, UpdateItem, DeleteItem, and the actions of a transaction."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from layover.desk.local.aws.dynamodb import items
from layover.desk.local.aws.dynamodb.attributes import Item, read_item, size_of
from layover.desk.local.aws.dynamodb.errors import ConditionalCheckFailed, ValidationError
from layover.desk.local.aws.dynamodb.evaluation import Names, find, holds, project
from layover.desk.local.aws.dynamodb.parser import Tree, parse_condition, parse_update
from layover.desk.local.aws.dynamodb.tables import Table
from layover.desk.local.aws.dynamodb.updates import Path, update

_RETURNS = {
    "Put": ("NONE", "ALL_OLD"),
    "Delete": ("NONE", "ALL_OLD"),
    "Update": ("NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"),
}


@dataclass(frozen=True)
class Done:
    """The effect of a write. `size`: bytes of the new item. `paths`: those that an update names."""

    old: Item | None
    new: Item | None
    size: int
    paths: list[Path]


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
        new, paths = self._after(old)
        if self.kind == "ConditionCheck":
            return Done(old, old, 0 if old is None else size_of(old), [])
        return Done(old, new, items.write(connection, self.table, self.key, new), paths)

    def _after(self, old: Item | None) -> tuple[Item | None, list[Path]]:
        match self.kind:
            case "Put":
                return self.item, []
            case "Delete":
                return None, []
            case "Update":
                keys = self.table.keys.names
                return update(self.item if old is None else old, self.clauses, self.names, keys)
        return old, []


def answer_of(write: Write, done: Done, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the response to a write outside of a transaction."""
    return_values = request.get("ReturnValues") or "NONE"
    if return_values not in _RETURNS[write.kind]:
        raise ValidationError("Return values set to invalid value")
    item = done.new if return_values.endswith("NEW") else done.old
    answer: dict[str, Any] = {}
    if return_values.startswith("UPDATED") and item is not None:
        item = project(item, [path for path in done.paths if find(item, path) is not None])
    if return_values != "NONE" and item:
        answer["Attributes"] = item
    if request.get("ReturnConsumedCapacity") in ("TOTAL", "INDEXES"):
        answer["ConsumedCapacity"] = write.table.consumed_capacity(units(done))
    return answer


def units(done: Done, times: int = 1) -> float:
    """Return the write units, which count the larger of both items. In a transaction each counts twice
    (`times`)."""
    sizes = [size_of(each) for each in (done.old, done.new) if each is not None]
    return float(times * max(1, -(-max(sizes, default=0) // 1024)))
