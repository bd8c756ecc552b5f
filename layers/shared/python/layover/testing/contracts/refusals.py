"""The contract of a table that takes no more than DynamoDB does."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from layover.errors import JournalRefused
from layover.ports.table import Action, Check, Exists, Missing, Put, Table, Update
from layover.testing.contracts.base import Contract, put

NOT_STORED: list[Any] = [1.5, {"a": "b"}, datetime(2026, 1, 1, tzinfo=UTC), object(), ["x", 1.5]]

OVERLAPPING = [
    Update("", "A", set={"a": None}, exclude={"a": "x"}),
    Update("", "A", set={"a": 1}, add={"a": 1}),
    Update("", "A", include={"a": "x"}, exclude={"a": "y"}),
    Update("", "A", set={"a": ["x"]}, append={"a": "y"}),
    Update("", "A", set={"sk": "B"}),
]


class TableRefusalContract(Contract):
    """Refusals of DynamoDB, for a table that stands for it: an agent that fails on AWS must fail in tests,
    too. The journal needs none of them. They take the fixture `table`, like those of `TableContract`."""

    @pytest.mark.parametrize("value", NOT_STORED, ids=lambda v: type(v).__name__)
    async def test_value_of_a_kind_that_dynamodb_has_not_is_refused(
        self, table: Table, pk: str, value: Any
    ) -> None:
        for action in (Put(pk, "A", {"a": value}), Update(pk, "A", set={"a": value})):
            with pytest.raises(TypeError):
                await table.write(action)
            with pytest.raises(TypeError):
                await table.transact([action, Put(pk, "B", {"n": 1})], f"{pk}-1")
        assert await table.query(pk, " ", "~") == []

    async def test_set_that_is_empty_is_refused(self, table: Table, pk: str) -> None:
        for action in (
            Put(pk, "A", {"set": set()}),
            Update(pk, "A", set={"set": set()}),
            Update(pk, "A", include={"set": frozenset()}),
        ):
            with pytest.raises(ValueError, match="without elements"):
                await table.write(action)
            with pytest.raises(ValueError, match="without elements"):
                await table.transact([Put(pk, "B", {"n": 1}), action], f"{pk}-1")
        assert await table.query(pk, " ", "~") == []

    @pytest.mark.parametrize("update", OVERLAPPING, ids=repr)
    async def test_update_that_changes_an_attribute_twice_or_a_key_is_refused(
        self, table: Table, pk: str, update: Update
    ) -> None:
        action = replace(update, pk=pk)
        with pytest.raises((ValueError, JournalRefused)):
            await table.write(action)
        with pytest.raises((ValueError, JournalRefused)):
            await table.transact([Put(pk, "B", {"n": 1}), action], f"{pk}-1")
        assert await table.query(pk, " ", "~") == []

    async def test_two_actions_on_one_item_are_refused(self, table: Table, pk: str) -> None:
        with pytest.raises((ValueError, JournalRefused)):
            await table.transact([Put(pk, "A", {"n": 1}), Check(pk, "A", Missing("pk"))], f"{pk}-1")
        assert await table.get(pk, "A") is None

    async def test_more_than_a_hundred_actions_are_refused(self, table: Table, pk: str) -> None:
        with pytest.raises((ValueError, JournalRefused)):
            await table.transact([Put(pk, f"{n:03d}", {"n": n}) for n in range(101)], f"{pk}-1")
        assert await table.query(pk, " ", "~") == []

    async def test_item_of_more_than_400_kb_is_refused(self, table: Table, pk: str) -> None:
        await put(table, pk, text="ü" * 100_000, bytes=b"x" * 200_000)
        before = await table.get(pk, "A")
        grown = Update(pk, "A", set={"more": "y" * 10_000}, when=Exists("pk"))
        for action in (grown, Put(pk, "B", {"text": "ü" * 205_000})):
            with pytest.raises((ValueError, JournalRefused)):
                await table.write(action)
            with pytest.raises((ValueError, JournalRefused)):
                await table.transact([Put(pk, "C", {"n": 1}), action], f"{pk}-{action.sk}")
        assert await table.query(pk, " ", "~") == [before]

    async def test_transaction_of_more_than_4_mb_is_refused_and_writes_nothing(
        self, table: Table, pk: str
    ) -> None:
        """The size counts the items that are put together with those that updates leave."""
        await put(table, pk, "A", text="a" * 350_000)
        before = await table.get(pk, "A")
        changes: list[Action] = [Update(pk, "A", set={"n": 1}), Put(pk, "B", {"n": 1})]
        puts = [Put(pk, f"P{n:02d}", {"bytes": b"x" * 350_000}) for n in range(11)]
        with pytest.raises((ValueError, JournalRefused)):
            await table.transact([*changes, *puts], f"{pk}-1")
        assert await table.query(pk, " ", "~") == [before]
        await table.transact([*changes, *puts[1:]], f"{pk}-1")
        assert len(await table.query(pk, " ", "~")) == 12
