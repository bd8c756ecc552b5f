"""The contract of the table for reads of items and of its indexes."""

from typing import Any

import pytest

from layover.ports.table import Delete, Put, Table, Update
from layover.testing.contracts.base import ITEM, Contract, put


class ReadContract(Contract):
    """Reads of items and of both indexes."""

    async def test_query_reads_a_range_of_one_partition_in_both_directions(
        self, table: Table, pk: str
    ) -> None:
        for sk in ("A", "B", "C", "D"):
            await put(table, pk, sk, n=1)
        await put(table, f"{pk}-other", "B", n=1)

        async def query_keys(*bounds: str, **options: Any) -> list[str]:
            return [i["sk"] for i in await table.query(pk, *bounds, **options)]

        assert await query_keys("X", "Z") == []
        assert await query_keys("C", "B") == []
        assert await query_keys("B", "C") == ["B", "C"]
        assert await query_keys("A", "D", limit=2) == ["A", "B"]
        assert await query_keys("A", "D", limit=2, forward=False) == ["D", "C"]

    async def test_nothing_is_read_where_nothing_is(self, table: Table, pk: str) -> None:
        assert await table.get(pk, "A") is None
        assert await table.get(pk, "A", consistent=False) is None
        assert await table.query(pk, " ", "~") == []
        assert await table.query_index(pk, "A#", limit=9, forward=True, after=None) == []
        assert await table.due(f"W{pk}", "2026", 9) == []

    async def test_read_that_may_be_old_answers_the_item_as_it_is_or_was(
        self, table: Table, pk: str
    ) -> None:
        written: list[Any] = [None]
        for n in range(3):
            await put(table, pk, n=n)
            written.append({"pk": pk, "sk": "A", "n": n})
            assert await table.get(pk, "A", consistent=False) in written

    async def test_place_sorts_by_its_bytes(self, table: Table, pk: str) -> None:
        names = ["#", "0", "10", "9", "A", "Z", "_", "a", "ab", "z", "~", "ü", "\uffff", "🐈"]
        for name in reversed(names):
            await put(table, pk, name, n=1)
        assert [i["sk"] for i in await table.query(pk, " ", "🐈🐈")] == names
        assert [i["sk"] for i in await table.query(pk, "9", "a")] == ["9", "A", "Z", "_", "a"]

    async def test_answer_may_be_larger_than_a_page(self, table: Table, pk: str) -> None:
        """A page of DynamoDB ends after 1 MB, whatever the limit."""
        for n in range(8):
            await put(table, pk, f"{n}", body=b"x" * 300_000, gsi1pk=pk, gsi1sk=f"A#{n}")

        async def query_keys(**options: Any) -> str:
            return "".join(i["sk"] for i in await table.query(pk, "0", "9", **options))

        async def indexed(**options: Any) -> str:
            options = {"limit": 99, "forward": True, "after": None, **options}
            return "".join(i["sk"] for i in await table.query_index(pk, "A#", **options))

        assert await query_keys() == "01234567"
        assert await query_keys(forward=False) == "76543210"
        assert await query_keys(limit=5) == "01234"
        assert await query_keys(limit=7, forward=False) == "7654321"
        assert await indexed() == "01234567"
        assert await indexed(limit=7) == "0123456"
        assert await indexed(after="A#1", limit=5) == "23456"
        assert await indexed(after="A#6", limit=5, forward=False) == "54321"

    async def test_index_answers_the_items_of_its_partition_alone(
        self, table: Table, pk: str
    ) -> None:
        """With what lists show of them, at least."""
        place = {"gsi1pk": pk, "gsi1sk": "A#1", "title": "a title", "queue": ["r1"], "b": b"body"}
        await put(table, f"{pk}#1", "X", **ITEM, **place)
        await put(table, f"{pk}#2", "X", gsi1pk=f"{pk}-other", gsi1sk="A#1")
        [item] = await table.query_index(pk, "A#", limit=9, forward=True, after=None)
        projected = {"pk": f"{pk}#1", "sk": "X", **place}
        assert {name: item.get(name) for name in projected} == projected

    @pytest.mark.parametrize("together", [False, True])
    async def test_indexes_follow_every_change_of_an_item(
        self, table: Table, pk: str, together: bool
    ) -> None:
        async def write(action: Put | Update | Delete, n: int) -> None:
            if together:
                await table.transact([action], f"{pk}-{n}")
            else:
                await table.write(action)

        async def places() -> list[str]:
            items = await table.query_index(pk, "A#", limit=9, forward=True, after=None)
            return [i["gsi1sk"] for i in items]

        async def due(until: str) -> list[tuple[str, str]]:
            return await table.due(f"W{pk}", until, 9)

        there = {"gsi1pk": pk, "gsi1sk": "A#1", "gsi2pk": f"W{pk}", "gsi2sk": "2026-01-05"}
        await write(Put(pk, "A", there), 1)
        assert (await places(), await due("2026-01-04")) == (["A#1"], [])
        await write(Update(pk, "A", set={"gsi1sk": "A#2", "gsi2sk": "2026-01-03"}), 2)
        assert (await places(), await due("2026-01-04")) == (["A#2"], [(pk, "A")])
        await write(Update(pk, "A", set={"gsi1pk": None, "gsi1sk": None, "gsi2sk": None}), 3)
        assert (await places(), await due("2027")) == ([], [])
        await write(Update(pk, "A", set={"gsi1pk": pk, "gsi1sk": "A#3", "gsi2sk": "2026-01-04"}), 4)
        assert (await places(), await due("2027")) == (["A#3"], [(pk, "A")])
        await write(Delete(pk, "A"), 5)
        assert (await places(), await due("2027")) == ([], [])

    async def test_item_with_half_of_an_indexs_key_is_not_in_it(
        self, table: Table, pk: str
    ) -> None:
        await put(table, pk, "A", gsi1pk=pk, gsi2pk=f"W{pk}")
        await put(table, pk, "B", gsi1sk="A#1", gsi2sk="2026")
        assert await table.query_index(pk, "A#", limit=9, forward=True, after=None) == []
        assert await table.due(f"W{pk}", "2027", 9) == []
        assert await table.behind(f"W{pk}", "", 9) == []

    async def test_index_is_read_by_prefix_strictly_after_a_place(
        self, table: Table, pk: str
    ) -> None:
        for name in ("A#1", "A#2", "A#3", "B#1"):
            await put(table, f"{pk}#{name}", "X", gsi1pk=pk, gsi1sk=name)
        await put(table, f"{pk}#none", "X", n=1)

        async def query_keys(prefix: str, after: str | None = None, **options: Any) -> list[str]:
            options = {"limit": 10, "forward": True, **options}
            return [
                i["gsi1sk"] for i in await table.query_index(pk, prefix, after=after, **options)
            ]

        assert await query_keys("C#") == []
        assert await query_keys("A#") == ["A#1", "A#2", "A#3"]
        assert await query_keys("A#", "A#1") == ["A#2", "A#3"]
        assert await query_keys("A#", "A#1", limit=1) == ["A#2"]
        assert await query_keys("A#", "A#3") == []
        assert await query_keys("A#", forward=False, limit=2) == ["A#3", "A#2"]
        assert await query_keys("A#", "A#2", forward=False) == ["A#1"]
        assert await query_keys("A#", "A#15") == ["A#2", "A#3"]

    @pytest.mark.parametrize("forward", [True, False])
    @pytest.mark.parametrize("after", ["0", "A", "B#1", "Z"])
    async def test_place_outside_of_the_prefix_never_leads_out_of_it(
        self, table: Table, pk: str, after: str, forward: bool
    ) -> None:
        """Cursors come from callers, who may make them up."""
        for name in ("A#1", "A#2", "B#1"):
            await put(table, f"{pk}#{name}", "X", gsi1pk=pk, gsi1sk=name)
        items = await table.query_index(pk, "A#", limit=9, forward=forward, after=after)
        beyond = (after < "A#") == forward
        assert sorted(i["gsi1sk"] for i in items) == (["A#1", "A#2"] if beyond else [])

    async def test_item_leaves_the_index_with_its_attributes(self, table: Table, pk: str) -> None:
        await put(table, pk, gsi1pk=pk, gsi1sk="A#1")
        await table.write(Update(pk, "A", set={"gsi1pk": None, "gsi1sk": None}))
        assert await table.query_index(pk, "A#", limit=9, forward=True, after=None) == []

    async def test_due_answers_keys_up_to_a_time_oldest_first(self, table: Table, pk: str) -> None:
        for n in (3, 1, 2):
            await put(table, pk, f"{n}", gsi2pk=f"W{pk}", gsi2sk=f"2026-01-0{n}")
        await put(table, pk, "none", n=1)
        assert await table.due(f"W{pk}", "2026-01-02", 9) == [(pk, "1"), (pk, "2")]
        assert await table.due(f"W{pk}", "2026-01-09", 2) == [(pk, "1"), (pk, "2")]
        assert await table.due(f"W{pk}", "2025-12-31", 9) == []

    async def test_more_than_a_page_is_due(self, table: Table, pk: str) -> None:
        at = {"gsi2pk": f"W{pk}", "gsi2sk": "2026-01-01"}
        puts = [Put(pk, f"{n:03d}", at) for n in range(130)]
        await table.transact(puts[:100], f"{pk}-1")
        await table.transact(puts[100:], f"{pk}-2")
        assert len(await table.due(f"W{pk}", "2026-01-01", 999)) == 130
        assert len(await table.due(f"W{pk}", "2026-01-01", 120)) == 120

    async def test_places_behind_another_are_answered_in_order(self, table: Table, pk: str) -> None:
        for n in (3, 1, 2):
            await put(table, pk, f"{n}", gsi2pk=f"W{pk}", gsi2sk=f"A#{n}")
        await put(table, pk, "none", n=1)
        assert await table.behind(f"W{pk}", "A#3", 9) == []
        assert await table.behind(f"W{pk}", "", 2) == [("A#1", pk, "1"), ("A#2", pk, "2")]
        assert await table.behind(f"W{pk}", "A#1", 9) == [("A#2", pk, "2"), ("A#3", pk, "3")]
        await table.write(Update(pk, "2", set={"gsi2pk": None, "gsi2sk": None}))
        assert await table.behind(f"W{pk}", "A#1", 9) == [("A#3", pk, "3")]
