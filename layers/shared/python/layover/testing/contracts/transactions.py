"""The contract of the table for transactions, one at a time and in races."""

import asyncio
from dataclasses import replace

import pytest

from layover.ports.table import (
    Action,
    Check,
    Delete,
    Differs,
    Equals,
    Exists,
    Missing,
    Put,
    Shorter,
    Table,
    TransactionFailed,
    Update,
    all_of,
)
from layover.testing.contracts.base import Contract, put


class TransactionContract(Contract):
    """Transactions: all or nothing, once."""

    async def test_failed_transaction_writes_nothing_and_names_every_failed_condition(
        self, table: Table, pk: str
    ) -> None:
        await put(table, pk, "A", n=1)
        with pytest.raises(TransactionFailed) as caught:
            await table.transact(
                [
                    Put(pk, "NEW", {"n": 1}, when=Missing("pk")),
                    Update(pk, "A", add={"n": 1}, when=Equals("n", 2)),
                    Delete(pk, "B"),
                    Check(pk, "C", Exists("pk")),
                ],
                f"{pk}-1",
            )
        assert caught.value.failed == {1: {"pk": pk, "sk": "A", "n": 1}, 3: None}
        assert await table.query(pk, " ", "~") == [{"pk": pk, "sk": "A", "n": 1}]

    async def test_transaction_does_all_of_it(self, table: Table, pk: str) -> None:
        await put(table, pk, "A", n=1)
        await put(table, pk, "B", n=1)
        await table.transact(
            [
                Update(pk, "A", add={"n": 1}, when=Equals("n", 1)),
                Delete(pk, "B", when=Exists("pk")),
                Put(pk, "C", {"n": 7}, when=Missing("pk")),
                Check(pk, "D", Missing("pk")),
            ],
            f"{pk}-1",
        )
        items = await table.query(pk, " ", "~")
        assert [(i["sk"], i["n"]) for i in items] == [("A", 2), ("C", 7)]

    async def test_update_does_in_a_transaction_what_it_does_alone(
        self, table: Table, pk: str
    ) -> None:
        fields = {
            "text": "a",
            "gone": "x",
            "n": 1,
            "set": {"p"},
            "other": {"r", "s"},
            "list": ["x"],
        }
        for sk in ("A", "B"):
            await put(table, pk, sk, **fields)
        update = Update(
            pk,
            "A",
            set={"text": "b", "gone": None, "never": None},
            add={"n": 5, "more": -1},
            include={"set": frozenset({"q", "r"}), "new": "n"},
            exclude={"other": "r"},
            append={"list": "x", "first": "y"},
            when=all_of(Exists("pk"), Differs("n", 9)),
        )
        single = await table.write(update)
        await table.transact([replace(update, sk="B"), Check(pk, "C", Missing("pk"))], f"{pk}-1")
        together = await table.get(pk, "B")
        assert single is not None
        assert together == {**single, "sk": "B"}

    async def test_transaction_repeated_with_its_token_happens_once(
        self, table: Table, pk: str
    ) -> None:
        await put(table, pk, "A", n=1)
        for _ in range(3):
            await table.transact([Update(pk, "A", add={"n": 1}, when=Equals("n", 1))], f"{pk}-1")
        assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "n": 2}

    async def test_token_of_a_failed_transaction_is_not_used_up(
        self, table: Table, pk: str
    ) -> None:
        actions = [Update(pk, "A", set={"n": 2}, when=Exists("pk"))]
        with pytest.raises(TransactionFailed):
            await table.transact(actions, f"{pk}-1")
        await put(table, pk, "A", n=1)
        await table.transact(actions, f"{pk}-1")
        assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "n": 2}

    async def test_hundred_actions_are_one_transaction(self, table: Table, pk: str) -> None:
        await table.transact([Put(pk, f"{n:03d}", {"n": n}) for n in range(100)], f"{pk}-1")
        assert [i["n"] for i in await table.query(pk, " ", "~")] == list(range(100))

    async def test_counters_lose_nothing(self, table: Table, pk: str) -> None:
        def add(n: int) -> list[Update]:
            return [Update(pk, "A", add={"n": 1}), Update(pk, f"B{n}", set={"n": n})]

        await asyncio.gather(*(table.transact(add(n), f"{pk}-{n}") for n in range(8)))
        assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "n": 8}

    async def test_items_of_nearly_4_mb_are_one_transaction(self, table: Table, pk: str) -> None:
        body = b"x" * 380_000
        await table.transact([Put(pk, f"{n}", {"bytes": body}) for n in range(10)], f"{pk}-1")
        assert [i["bytes"] for i in await table.query(pk, " ", "~")] == [body] * 10

    async def test_one_of_racing_transactions_wins_and_the_others_see_its_item(
        self, table: Table, pk: str
    ) -> None:
        failures = []

        async def claim(writer: int) -> bool:
            mine: list[Action] = [
                Put(pk, "A", {"by": writer}, when=Missing("pk")),
                Update(pk, "B", append={"won": f"{writer}"}, when=Shorter("won", 1)),
                Put(pk, f"C{writer}", {"by": writer}),
            ]
            try:
                await table.transact(mine, f"{pk}-{writer}")
            except TransactionFailed as failure:
                failures.append(failure.failed)
                return False
            return True

        won = await asyncio.gather(*(claim(n) for n in range(8)))
        assert sum(won) == 1
        winner = won.index(True)
        first = {"pk": pk, "sk": "A", "by": winner}
        second = {"pk": pk, "sk": "B", "won": [f"{winner}"]}
        third = {"pk": pk, "sk": f"C{winner}", "by": winner}
        assert await table.query(pk, " ", "~") == [first, second, third]
        assert failures == [{0: first, 1: second}] * 7
