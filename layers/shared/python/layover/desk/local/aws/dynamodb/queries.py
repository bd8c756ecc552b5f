"""GetItem; and Query and Scan, which return items in order, a page at a time."""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from layover.desk.local.aws.dynamodb import items
from layover.desk.local.aws.dynamodb.attributes import Item, Value, read_item
from layover.desk.local.aws.dynamodb.errors import ValidationError
from layover.desk.local.aws.dynamodb.evaluation import Names
from layover.desk.local.aws.dynamodb.parser import Tree, parse_condition
from layover.desk.local.aws.dynamodb.tables import Index, Keys, Table, column

PAGE_BYTES = 1024 * 1024
"""Of the items of one page."""
_NOT_SUPPORTED = "Query key condition not supported"


def get(connection: sqlite3.Connection, table: Table, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{"Item"}`, or `{}` if there is none. Raises ValidationError."""
    key = items.key_of(table, read_item(request["Key"]), whole=True)
    Names.of(request).refuse_unused()
    item = items.read(connection, table, key)
    return {} if item is None else {"Item": item}


def query(
    connection: sqlite3.Connection, table: Table, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Return items of one partition of the table or of an index. Raises ValidationError."""
    index = _index(table, request)
    keys = table.keys if index is None else index.keys
    names = Names.of(request)
    tree = names.use(
        parse_condition(request["KeyConditionExpression"], "KeyConditionExpression"),
        "KeyConditionExpression",
    )
    partition, key_range = _read_key_condition(table, keys, tree, names)
    names.refuse_unused()
    rows = items.partition(
        connection,
        table,
        request.get("IndexName"),
        partition,
        key_range,
        after=_start(table, index, request),
        forward=request.get("ScanIndexForward") is not False,
    )
    return _page(rows, table, index, request)


def scan(
    connection: sqlite3.Connection, table: Table, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Return items of the table, in any order. Raises ValidationError."""
    Names.of(request).refuse_unused()
    if "IndexName" in request:
        raise ValidationError("A scan of an index is not served on one machine")
    key = request.get("ExclusiveStartKey")
    start = None if key is None else items.key_of(table, read_item(key), whole=True)
    return _page(items.everything(connection, table, after=start), table, None, request)


def _index(table: Table, request: Mapping[str, Any]) -> Index | None:
    name = request.get("IndexName")
    if name is None:
        return None
    if name not in table.indexes:
        raise ValidationError(f"The table does not have the specified index: {name}")
    if request.get("ConsistentRead"):
        raise ValidationError("Consistent reads are not supported on global secondary indexes")
    return table.indexes[name]


def _start(table: Table, index: Index | None, request: Mapping[str, Any]) -> items.Place | None:
    key = request.get("ExclusiveStartKey")
    if key is None:
        return None
    return items.place(table, index.keys if index else None, read_item(key))


def _page(
    rows: Iterable[tuple[int, Item]],
    table: Table,
    index: Index | None,
    request: Mapping[str, Any],
) -> dict[str, Any]:
    limit = _read_limit(request)
    items_read: list[Item] = []
    size, last = 0, None
    for weight, item in rows:
        visible = item
        if index is not None and index.attributes is not None:
            visible = {name: value for name, value in item.items() if name in index.attributes}
        items_read.append(visible)
        size += weight
        if len(items_read) == limit or size >= PAGE_BYTES:
            last = item
            break
    count = len(items_read)
    answer: dict[str, Any] = {"Items": items_read, "Count": count, "ScannedCount": count}
    if last is not None:
        key_names = dict.fromkeys((*table.keys.names, *(index.keys.names if index else ())))
        answer["LastEvaluatedKey"] = {name: last[name] for name in key_names}
    return answer


def _read_limit(request: Mapping[str, Any]) -> int | None:
    limit = request.get("Limit")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise ValidationError("Limit must be greater than or equal to 1")
    return limit


def _read_key_condition(
    table: Table, keys: Keys, tree: Tree, names: Names
) -> tuple[bytes, items.Range]:
    """Return the partition, and the sort keys in it, of `hash = :h [AND a condition of range]`. Raises
    ValidationError."""
    parts = tree[1] if tree[0] == "and" else (tree,)
    partition: bytes | None = None
    key_range = items.Range()
    for part in parts:
        name, conditions = _key_condition(part, names)
        if name not in keys.names:
            raise ValidationError(f"Query condition missed key schema element: {keys.hash}")
        for value in conditions[1]:
            if table.types[name] not in value:
                raise ValidationError(
                    "One or more parameter values were invalid: Condition parameter type does not "
                    "match schema type"
                )
        if name == keys.hash:
            if conditions[0] != "=" or partition is not None:
                raise ValidationError(_NOT_SUPPORTED)
            partition = column(conditions[1][0])
        else:
            key_range = _range(*conditions)
    if partition is None:
        raise ValidationError(f"Query condition missed key schema element: {keys.hash}")
    if len(parts) > len(keys.names):
        raise ValidationError(_NOT_SUPPORTED)
    if not partition:
        raise ValidationError(
            "One or more parameter values are not valid. The AttributeValue for a key attribute "
            f"cannot contain an empty string value. Key: {keys.hash}"
        )
    return partition, key_range


def _key_condition(tree: Tree, names: Names) -> tuple[str, tuple[str, list[Value]]]:
    """Return the attribute, the comparator and its values. Raises ValidationError."""
    match tree:
        case ("compare", sign, ("name", _) as name, ("value", value)) if sign != "<>":
            condition = (sign, [names.values[value]])
        case ("between", ("name", _) as name, ("value", low), ("value", high)):
            condition = ("between", [names.values[low], names.values[high]])
        case ("call", "begins_with", ("name", _) as name, ("value", value)):
            condition = ("begins_with", [names.values[value]])
        case _:
            raise ValidationError(f"Invalid KeyConditionExpression: {_NOT_SUPPORTED}")
    return names.attribute(name), condition


def _range(sign: str, values: list[Value]) -> items.Range:
    columns = [column(value) for value in values]
    first = columns[0]
    match sign:
        case "=":
            return items.Range(first, first)
        case "<" | "<=":
            return items.Range(high=first, high_open=sign == "<")
        case ">" | ">=":
            return items.Range(low=first, low_open=sign == ">")
        case "between":
            if columns[0] > columns[1]:
                raise ValidationError(
                    "The BETWEEN operator requires upper bound to be greater than or equal to lower "
                    "bound"
                )
            return items.Range(columns[0], columns[1])
    return items.Range(first, _next(first), high_open=True)


def _next(prefix: bytes) -> bytes | None:
    """Return the first key that follows all keys with this prefix; None if all later keys have it."""
    rest = prefix.rstrip(b"\xff")
    return rest[:-1] + bytes([rest[-1] + 1]) if rest else None
