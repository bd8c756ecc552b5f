"""Items in SQLite: one by its key, or many in the order of a table or an index. Callers hold a
transaction."""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from layover.desk.local.aws.dynamodb.attributes import MAX_ITEM, Item, dump, size_of
from layover.desk.local.aws.dynamodb.errors import ValidationError
from layover.desk.local.aws.dynamodb.tables import Keys, Table

MAX_HASH, MAX_RANGE = 2048, 1024
"""Bytes of a partition key and of a sort key."""

Place = tuple[bytes, ...]
"""An item's position in a partition: of the table, its sort key; of an index, the index's sort key and the
key of the table, because several items may have the same sort key there."""


@dataclass(frozen=True)
class Key:
    """The key of an item, as bytes that sort as DynamoDB sorts (`tables.column`)."""

    hash: bytes
    range: bytes


@dataclass(frozen=True)
class Range:
    """The part of a partition that a query asks for: sort keys from `low` to `high`. An open bound is not in
    it."""

    low: bytes | None = None
    high: bytes | None = None
    low_open: bool = False
    high_open: bool = False


def key_of(table: Table, item: Item, *, whole: bool = False) -> Key:
    """Return the key of an item, or of a `Key` (`whole`: it has no other attribute). Raises
    ValidationError."""
    names = table.keys.names
    columns = None if whole and len(item) != len(names) else table.key_of(item)
    if columns is None:
        if whole or all(name in item for name in names):
            raise ValidationError("The provided key element does not match the schema")
        missing = next(name for name in names if name not in item)
        raise ValidationError(
            f"One or more parameter values were invalid: Missing the key {missing} in the item"
        )
    if len(columns[0]) > MAX_HASH or len(columns[1]) > MAX_RANGE:
        kind, most = (
            ("hashkey", MAX_HASH) if len(columns[0]) > MAX_HASH else ("rangekey", MAX_RANGE)
        )
        raise ValidationError(
            "One or more parameter values were invalid: Size of "
            f"{kind} has exceeded the maximum size limit of {most} bytes"
        )
    return Key(*columns)


def read(connection: sqlite3.Connection, table: Table, key: Key) -> Item | None:
    """Return an item; None if there is none."""
    query = "SELECT body FROM ddb_items WHERE name = ? AND hash = ? AND range = ?"
    row = connection.execute(query, (table.name, key.hash, key.range)).fetchone()
    return json.loads(row[0]) if row else None


def write(connection: sqlite3.Connection, table: Table, key: Key, item: Item | None) -> int:
    """Put an item there, or remove it (None). Return its size in bytes. Raises ValidationError."""
    if item is None:
        query = "DELETE FROM ddb_items WHERE name = ? AND hash = ? AND range = ?"
        connection.execute(query, (table.name, key.hash, key.range))
        _place(connection, table, key, {})
        return 0
    size = size_of(item)
    if size > MAX_ITEM:
        raise ValidationError("Item size has exceeded the maximum allowed size")
    _refuse_wrong_keys(table, item)
    query = (
        "INSERT INTO ddb_items VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
        "size = excluded.size, expires = excluded.expires, body = excluded.body"
    )
    seconds = item.get(table.expiry or "", {}).get("N")
    expires = None if seconds is None else float(seconds)
    connection.execute(query, (table.name, key.hash, key.range, size, expires, dump(item)))
    _place(connection, table, key, item)
    return size


def _refuse_wrong_keys(table: Table, item: Item) -> None:
    """Raise ValidationError for an item whose key is of another type than its index's."""
    for index, definition in table.indexes.items():
        for name in definition.keys.names:
            if name in item and table.types[name] not in item[name]:
                ((kind, _),) = item[name].items()
                raise ValidationError(
                    "One or more parameter values were invalid: Type mismatch for Index Key "
                    f"{name} Expected: {table.types[name]} Actual: {kind} IndexName: {index}"
                )


def _place(connection: sqlite3.Connection, table: Table, key: Key, item: Item) -> None:
    """Bring the item's rows in the indexes up to date, in the transaction of the item: an index here is never
    behind its table, as AWS's may be."""
    if not table.indexes:
        return
    # Only the differences are written: most writes leave an item where it was in every index.
    places = {
        (name, *place)
        for name, index in table.indexes.items()
        if (place := table.key_of(item, index.keys)) is not None
    }
    of = (table.name, key.hash, key.range)
    query = "SELECT idx, place_hash, place_range FROM ddb_places WHERE name = ? AND hash = ? AND range = ?"
    present = set(connection.execute(query, of))
    for name, place_hash, place_range in present - places:
        connection.execute(
            "DELETE FROM ddb_places WHERE name = ? AND idx = ? AND place_hash = ? AND place_range = ? "
            "AND hash = ? AND range = ?",
            (table.name, name, place_hash, place_range, key.hash, key.range),
        )
    for name, place_hash, place_range in places - present:
        row = (table.name, name, place_hash, place_range, key.hash, key.range)
        connection.execute("INSERT INTO ddb_places VALUES (?, ?, ?, ?, ?, ?)", row)


def partition(
    connection: sqlite3.Connection,
    table: Table,
    index: str | None,
    partition_key: bytes,
    key_range: Range,
    *,
    after: Place | None,
    forward: bool,
) -> Iterator[tuple[int, Item]]:
    """Yield the sizes and items of a partition in order, from the one that follows `after`."""
    if index is None:
        source = "FROM ddb_items i WHERE i.name = ? AND i.hash = ?"
        order: tuple[str, ...] = ("i.range",)
        range_column = "i.range"
        parameters: list[object] = [table.name, partition_key]
    else:
        source = (
            "FROM ddb_places p JOIN ddb_items i ON i.name = p.name AND i.hash = p.hash "
            "AND i.range = p.range WHERE p.name = ? AND p.idx = ? AND p.place_hash = ?"
        )
        order, range_column = ("p.place_range", "p.hash", "p.range"), "p.place_range"
        parameters = [table.name, index, partition_key]
    if key_range.low is not None:
        source += f" AND {range_column} {'>' if key_range.low_open else '>='} ?"
        parameters.append(key_range.low)
    if key_range.high is not None:
        source += f" AND {range_column} {'<' if key_range.high_open else '<='} ?"
        parameters.append(key_range.high)
    yield from _rows(
        connection, source, parameters=parameters, order=order, after=after, forward=forward
    )


def everything(
    connection: sqlite3.Connection, table: Table, *, after: Key | None
) -> Iterator[tuple[int, Item]]:
    """Yield the sizes and items of a table, from the one that follows `after`. Any order will do, as long as
    every page has the same."""
    yield from _rows(
        connection,
        "FROM ddb_items i WHERE i.name = ?",
        parameters=[table.name],
        order=("i.hash", "i.range"),
        after=None if after is None else (after.hash, after.range),
        forward=True,
    )


def _rows(
    connection: sqlite3.Connection,
    source: str,
    *,
    parameters: list[object],
    order: tuple[str, ...],
    after: Place | None,
    forward: bool,
) -> Iterator[tuple[int, Item]]:
    """Yield row by row. The caller stops at the end of its page, which only the items' sizes tell."""
    if after is not None:
        sign = ">" if forward else "<"
        marks = ", ".join("?" * len(order))
        source += f" AND ({', '.join(order)}) {sign} ({marks})"
        parameters = [*parameters, *after]
    direction = "" if forward else " DESC"
    in_order = ", ".join(each + direction for each in order)
    cursor = connection.execute(f"SELECT i.size, i.body {source} ORDER BY {in_order}", parameters)
    try:
        for size, body in cursor:
            yield size, json.loads(body)
    finally:
        cursor.close()


def place(table: Table, index: Keys | None, item: Item) -> Place:
    """Return the position in its partition of an item, or of an ExclusiveStartKey. Raises
    ValidationError."""
    own = table.key_of(item)
    there = own if index is None else table.key_of(item, index)
    if own is None or there is None:
        raise ValidationError("The provided starting key is invalid")
    return own[1:] if index is None else (*there[1:], *own)


def expire(connection: sqlite3.Connection, table: Table, now: float) -> int:
    """Delete the items that have outlived their time to live by `now` (epoch seconds); return how many."""
    query = "SELECT hash, range FROM ddb_items WHERE name = ? AND expires <= ?"
    old = connection.execute(query, (table.name, now)).fetchall()
    for key in old:
        write(connection, table, Key(*key), None)
    return len(old)
