"""The contract of the journal's table, in memory and on DynamoDB."""

from typing import Any

import pytest

from layover.adapters.journal.items.schema import LISTED
from layover.errors import JournalRefused
from layover.ports.table import Delete, Put, Table, Update
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


LONG_PARTITION, LONG_SORT = "x" * 2049, "x" * 1025
WIDE_PARTITION, WIDE_SORT = "é" * 1025, "é" * 513
"""Shorter in characters than DynamoDB's limits, and longer in bytes."""
NO_KEYS = [
    *((LONG_PARTITION, "A"), (WIDE_PARTITION, "A"), ("\ud800", "A"), ("", "A")),
    *(("", LONG_SORT), ("", WIDE_SORT), ("", "\ud800"), ("", "")),
]


@pytest.mark.parametrize(("pk", "sk"), NO_KEYS, ids=lambda text: ascii(text[:3]))
async def test_key_that_dynamodb_does_not_take_is_refused_by_reads_and_writes(
    table: Table, owner: str, pk: str, sk: str
) -> None:
    """A test of a service in memory shows what would be a fault of the journal on AWS."""
    partition = f"{owner}{pk}" if pk or sk != "A" else ""
    await table.write(Put(owner, "B", {"n": 1}))
    put = Put(partition, sk, {"n": 1})
    with pytest.raises((ValueError, JournalRefused)):
        await table.get(partition, sk)
    for action in (put, Update(partition, sk, set={"n": 2}), Delete(partition, sk)):
        with pytest.raises((ValueError, JournalRefused)):
            await table.write(action)
        with pytest.raises((ValueError, JournalRefused)):
            await table.transact([Put(owner, "C", {"n": 1}), action], f"{owner}-{action!r:.9}")
    assert [item["sk"] for item in await table.query(owner, " ", "~")] == ["B"]


async def test_longest_keys_are_taken(table: Table, owner: str) -> None:
    pk = owner + "é" * ((2048 - len(owner)) // 2)
    sk = "é" * 512
    await table.write(Put(pk, sk, {"n": 1}))
    assert await table.get(pk, sk) == {"pk": pk, "sk": sk, "n": 1}
    assert len(await table.query(pk, sk, sk)) == 1
