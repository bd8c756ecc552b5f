"""The contract of the journal's table, in memory and on DynamoDB."""

from typing import Any

import pytest

from layover.adapters.journal.items.schema import LISTED
from layover.ports.table import Put, Table
from layover.testing.contracts import TableContract, TableRefusalContract

pytestmark = pytest.mark.both_stores(in_every_tier=True)


class TestTable(TableContract, TableRefusalContract):
    """Both tables keep what the journal relies on, and refuse the same."""


async def test_index_answers_nothing_but_what_lists_show(table: Table, owner: str) -> None:
    partition = f"U#{owner}"
    shown: dict[str, Any] = {"gsi1pk": partition, "gsi1sk": "A#1"}
    shown |= {name: f"a {name}" for name in LISTED}
    await table.write(Put(partition, "X", {**shown, "text": "a", "expires": 1}))
    found = await table.query_index(partition, "A#", limit=9, forward=True, after=None)
    assert found == [{"pk": partition, "sk": "X", **shown}]
