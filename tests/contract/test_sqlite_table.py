"""A table of another database, written with public names alone, passes the contract."""

from collections.abc import Iterator

import pytest

from examples.sqlite_table import SqliteTable
from layover.testing.contracts import TableContract, TableRefusalContract


class TestSqliteTable(TableContract, TableRefusalContract):
    """`examples/sqlite_table.py`."""

    @pytest.fixture
    def table(self) -> Iterator[SqliteTable]:
        table = SqliteTable()
        yield table
        table.close()
