"""Layover's journal in a SQLite file: the port `layover.ports.table.Table` in a hundred lines, to start from.

SQLite has no conditional writes like DynamoDB's. Each write reads the items, lets `apply` say what becomes of
them, and stores that, in one transaction. `tests/contract/test_sqlite_table.py` runs the contract on it."""

import ast
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from layover import RetryableError
from layover.ports.table import Action, Delete, Item, Put, Write, apply, apply_all

SCHEMA = """
CREATE TABLE IF NOT EXISTS items (
    pk TEXT, sk TEXT, item TEXT NOT NULL,
    gsi1pk TEXT, gsi1sk TEXT, gsi2pk TEXT, gsi2sk TEXT,
    PRIMARY KEY (pk, sk)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS of_owners ON items (gsi1pk, gsi1sk);
CREATE INDEX IF NOT EXISTS watch ON items (gsi2pk, gsi2sk);
CREATE TABLE IF NOT EXISTS tokens (token TEXT PRIMARY KEY);
"""
INDEXED = ("gsi1pk", "gsi1sk", "gsi2pk", "gsi2sk")
LAST = "\U0010ffff"
"""Sorts behind every other character."""


class SqliteTable:
    """`Table` in one file. No method gives way to another task, so tasks never share a transaction."""

    def __init__(self, path: Path | str = ":memory:") -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Item | None:
        """See `Table`."""
        return self._get(pk, sk)

    async def query(
        self, pk: str, low: str, high: str, *, limit: int | None = None, forward: bool = True
    ) -> list[Item]:
        """See `Table`."""
        where = f"pk = ? AND sk BETWEEN ? AND ? ORDER BY sk {_direction(forward)} LIMIT ?"
        return self._items(where, pk, low, high, -1 if limit is None else limit)

    async def query_index(
        self, partition: str, prefix: str, *, limit: int, forward: bool, after: str | None
    ) -> list[Item]:
        """See `Table`."""
        where, values = "gsi1pk = ? AND gsi1sk BETWEEN ? AND ?", [partition, prefix, prefix + LAST]
        if after is not None:
            where += f" AND gsi1sk {'>' if forward else '<'} ?"
            values.append(after)
        where += f" ORDER BY gsi1sk {_direction(forward)} LIMIT ?"
        return self._items(where, *values, limit)

    async def due(self, partition: str, until: str, limit: int) -> list[tuple[str, str]]:
        """See `Table`."""
        where = "gsi2pk = ? AND gsi2sk <= ? ORDER BY gsi2sk LIMIT ?"
        return self._rows("pk, sk", where, partition, until, limit)

    async def behind(self, partition: str, after: str, limit: int) -> list[tuple[str, str, str]]:
        """See `Table`."""
        where = "gsi2pk = ? AND gsi2sk > ? ORDER BY gsi2sk LIMIT ?"
        return self._rows("gsi2sk, pk, sk", where, partition, after, limit)

    async def write(self, action: Write) -> Item | None:
        """See `Table`."""
        with self._transaction():
            old = self._get(action.pk, action.sk)
            new = apply(action, old)
            self._store(action, new)
        if isinstance(action, Put):
            return None
        return old if isinstance(action, Delete) else new

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        """See `Table`. Tokens stay for good; they could go after 10 minutes."""
        with self._transaction():
            if self._db.execute("SELECT 1 FROM tokens WHERE token = ?", (token,)).fetchone():
                return
            news = apply_all(actions, [self._get(a.pk, a.sk) for a in actions])
            for action, new in zip(actions, news, strict=True):
                self._store(action, new)
            self._db.execute("INSERT INTO tokens VALUES (?)", (token,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise RetryableError(f"the journal's file is locked: {error}") from error
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _get(self, pk: str, sk: str) -> Item | None:
        found = self._items("pk = ? AND sk = ?", pk, sk)
        return found[0] if found else None

    def _store(self, action: Action, item: Item | None) -> None:
        if item is None:
            self._db.execute("DELETE FROM items WHERE pk = ? AND sk = ?", (action.pk, action.sk))
            return
        row = (action.pk, action.sk, repr(item), *(item.get(name) for name in INDEXED))
        self._db.execute("REPLACE INTO items VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def _items(self, where: str, *values: Any) -> list[Item]:
        return [ast.literal_eval(text) for (text,) in self._rows("item", where, *values)]

    def _rows(self, columns: str, where: str, *values: Any) -> list[Any]:
        return self._db.execute(f"SELECT {columns} FROM items WHERE {where}", values).fetchall()


def _direction(forward: bool) -> str:
    return "ASC" if forward else "DESC"
