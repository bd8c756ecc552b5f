"""Tables: their descriptions, and keys as bytes that sort as DynamoDB sorts."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from layover.desk.local.aws.dynamodb.attributes import Item, Value
from layover.desk.local.aws.dynamodb.errors import ResourceInUse, ResourceNotFound, ValidationError

SCHEMA = """
CREATE TABLE IF NOT EXISTS ddb_tables (name TEXT PRIMARY KEY, document TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ddb_items (
    name TEXT NOT NULL, hash BLOB NOT NULL, range BLOB NOT NULL,
    size INTEGER NOT NULL, expires REAL, body TEXT NOT NULL,
    PRIMARY KEY (name, hash, range)
);
CREATE INDEX IF NOT EXISTS ddb_expiry ON ddb_items (name, expires) WHERE expires IS NOT NULL;
CREATE TABLE IF NOT EXISTS ddb_places (
    name TEXT NOT NULL, idx TEXT NOT NULL, place_hash BLOB NOT NULL, place_range BLOB NOT NULL,
    hash BLOB NOT NULL, range BLOB NOT NULL,
    PRIMARY KEY (name, idx, place_hash, place_range, hash, range)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS ddb_placed ON ddb_places (name, hash, range);
CREATE TABLE IF NOT EXISTS ddb_tokens (token TEXT PRIMARY KEY, request TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS ddb_tokens_by_age ON ddb_tokens (at);
"""
"""`hash` and `range` hold keys as `column` makes them, so that SQLite's order of bytes is DynamoDB's
order."""


@dataclass(frozen=True)
class Keys:
    """The key attributes of a table or an index. `range` is None if there is no sort key."""

    hash: str
    range: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """Return one name or two."""
        return (self.hash,) if self.range is None else (self.hash, self.range)


@dataclass(frozen=True)
class Index:
    """A global secondary index. `attributes`: those that it projects; None for all."""

    keys: Keys
    attributes: frozenset[str] | None


@dataclass(frozen=True)
class Table:
    """One table, as CreateTable and UpdateTimeToLive left it."""

    document: dict[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.document["TableName"])

    @cached_property
    def keys(self) -> Keys:
        """Of the table itself."""
        return _keys(self.document["KeySchema"])

    @cached_property
    def types(self) -> dict[str, str]:
        """Key attribute -> S."""
        return {
            a["AttributeName"]: a["AttributeType"] for a in self.document["AttributeDefinitions"]
        }

    @cached_property
    def indexes(self) -> dict[str, Index]:
        """By name."""
        documents = self.document.get("GlobalSecondaryIndexes") or ()
        return {each["IndexName"]: self._index(each) for each in documents}

    @property
    def expiry(self) -> str | None:
        """The attribute of the time to live, while it is on."""
        specification = self.document.get("TimeToLive") or {}
        return specification.get("AttributeName") if specification.get("Enabled") else None

    def _index(self, document: Mapping[str, Any]) -> Index:
        keys, projection = _keys(document["KeySchema"]), document.get("Projection") or {}
        if projection.get("ProjectionType", "ALL") == "ALL":
            return Index(keys, None)
        more = projection.get("NonKeyAttributes") or ()
        return Index(keys, frozenset({*self.keys.names, *keys.names, *more}))

    def key_of(self, item: Item, keys: Keys | None = None) -> tuple[bytes, bytes] | None:
        """Return the columns of an item's key in the table or in an index; None if a key attribute is missing
        or has another type: such an item is not in the index. Raises ValidationError for an empty key."""
        keys = keys or self.keys
        columns = []
        for name in keys.names:
            value = item.get(name)
            if value is None or self.types.get(name) not in value:
                return None
            columns.append(column(value))
            if not columns[-1]:
                raise ValidationError(
                    "One or more parameter values are not valid. The AttributeValue for a key "
                    f"attribute cannot contain an empty string value. Key: {name}"
                )
        return columns[0], columns[1] if len(columns) > 1 else b""


def _keys(schema: list[dict[str, str]]) -> Keys:
    by_kind = {each["KeyType"]: each["AttributeName"] for each in schema}
    return Keys(by_kind["HASH"], by_kind.get("RANGE"))


def column(value: Value) -> bytes:
    """Return a key as bytes in DynamoDB's order, which is that of UTF-8. Raises ValidationError."""
    try:
        return str(value.get("S", "")).encode()
    except UnicodeEncodeError:
        raise ValidationError("A key is not valid UTF-8") from None


class Tables:
    """The tables that exist. Callers hold a transaction or a reading."""

    def __init__(self) -> None:
        self._cache: dict[str, Table] = {}

    def get(self, connection: sqlite3.Connection, name: str) -> Table:
        """Return a table by its name. Raises ResourceNotFound."""
        if name not in self._cache:
            query = "SELECT document FROM ddb_tables WHERE name = ?"
            row = connection.execute(query, (name,)).fetchone()
            if row is None:
                raise ResourceNotFound
            self._cache[name] = Table(json.loads(row[0]))
        return self._cache[name]

    def names(self, connection: sqlite3.Connection) -> list[str]:
        """Return the names of all tables, in order."""
        return [row[0] for row in connection.execute("SELECT name FROM ddb_tables ORDER BY name")]

    def create(self, connection: sqlite3.Connection, request: Mapping[str, Any]) -> Table:
        """Make a table. Raises ResourceInUse and ValidationError."""
        name = request["TableName"]
        if name in self.names(connection):
            raise ResourceInUse(f"Table already exists: {name}")
        table = Table(dict(request))
        key_attributes = {
            *table.keys.names,
            *(n for i in table.indexes.values() for n in i.keys.names),
        }
        if key_attributes != table.types.keys():
            raise ValidationError(
                "One or more parameter values were invalid: Some AttributeDefinitions are not used or "
                "some index key attributes are not defined in AttributeDefinitions"
            )
        if {*table.types.values()} != {"S"}:
            raise ValidationError("Keys that are not strings are not served on one machine")
        self.save(connection, table)
        return table

    def save(self, connection: sqlite3.Connection, table: Table) -> None:
        """Store a table's description as it is now."""
        query = "INSERT OR REPLACE INTO ddb_tables VALUES (?, ?)"
        connection.execute(query, (table.name, json.dumps(table.document)))
        self._cache[table.name] = table
