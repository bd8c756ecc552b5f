"""The contract of the table for one write and its condition."""

import asyncio
from typing import Any

import pytest

from layover.ports.table import (
    Above,
    Action,
    Below,
    Check,
    Condition,
    ConditionFailed,
    Delete,
    Differs,
    Equals,
    Exists,
    Missing,
    Put,
    Shorter,
    Table,
    Update,
    all_of,
    any_of,
    same,
)
from layover.testing.contracts.base import ITEM, Contract, put

HOLDING = [
    Exists("pk"),
    Exists("text"),
    Missing("other"),
    Equals("text", "a"),
    Equals("n", 3),
    Equals("yes", True),
    Equals("bytes", b"\x00\xff"),
    Equals("list", ["x", "y"]),
    Below("n", 4),
    Below("n", 10),
    Below("text", "b"),
    Above("n", 2),
    Above("text", "A"),
    Differs("n", 4),
    Differs("n", "3"),
    Differs("other", 1),
    Shorter("list", 3),
    Shorter("other", 1),
    same("other", None),
    same("text", "a"),
    all_of(Exists("pk"), Equals("n", 3)),
    any_of(Missing("pk"), Equals("n", 3)),
    all_of(Exists("n"), any_of(Equals("n", 1), all_of(Equals("text", "a"), Below("n", 9)))),
]

FAILING = [
    Missing("pk"),
    Missing("text"),
    Exists("other"),
    Equals("text", "b"),
    Equals("other", "a"),
    Equals("n", "3"),
    Equals("list", ["y", "x"]),
    Equals("list", ["x"]),
    Below("n", 3),
    Below("other", 3),
    Above("n", 3),
    Above("other", 0),
    Differs("n", 3),
    Differs("text", "a"),
    Shorter("list", 2),
    same("text", None),
    same("other", "a"),
    all_of(Exists("pk"), Equals("n", 4)),
    any_of(Missing("pk"), Equals("n", 4)),
]

HOLDING_OF_NOTHING = [
    Missing("pk"),
    Missing("n"),
    Differs("n", 1),
    Shorter("list", 1),
    same("n", None),
    all_of(Missing("pk"), Differs("n", 1)),
    any_of(Missing("pk"), Below("n", 1)),
]

VALUES: list[Any] = [
    "",
    "ü 🐈 \r\n\x00 end",
    0,
    -7,
    10**37,
    False,
    b"",
    bytes(range(256)),
    [],
    ["", "x", "x"],
    {"", "ü"},
]

RESERVED: dict[str, Any] = {
    "name": "n",
    "status": "s",
    "owner": "o",
    "token": "t",
    "size": 1,
    "count": 2,
}


class WriteContract(Contract):
    """One write: what it leaves, answers and refuses to do."""

    @pytest.mark.parametrize("value", VALUES, ids=ascii)
    async def test_value_comes_back_as_it_was(self, table: Table, pk: str, value: Any) -> None:
        await put(table, pk, "PUT", value=value)
        await table.write(Update(pk, "UPDATED", set={"value": value}))
        actions: list[Action] = [
            Put(pk, "PUT-TOGETHER", {"value": value}),
            Update(pk, "UPDATED-TOGETHER", set={"value": value}),
        ]
        await table.transact(actions, f"{pk}-1")
        items = await table.query(pk, " ", "~")
        assert len(items) == 4
        for item in items:
            assert item["value"] == value
            assert type(item["value"]) is type(value)
            assert await table.get(pk, item["sk"]) == item

    async def test_item_of_nearly_400_kb_comes_back_as_it_was(self, table: Table, pk: str) -> None:
        large: dict[str, Any] = {"text": "ü" * 100_000, "bytes": b"x" * 200_000}
        await put(table, pk, **large)
        assert await table.get(pk, "A") == {"pk": pk, "sk": "A", **large}

    async def test_tuples_come_back_as_lists_and_frozen_sets_as_sets(
        self, table: Table, pk: str
    ) -> None:
        new_item = {"list": ("x", "y"), "set": frozenset({"p"})}
        await table.write(Put(pk, "A", new_item))
        await table.write(Update(pk, "B", set=new_item))
        for item in await table.query(pk, "A", "B"):
            assert (item["list"], type(item["set"])) == (["x", "y"], set)

    @pytest.mark.parametrize("condition", FAILING, ids=repr)
    async def test_failed_condition_writes_nothing_and_answers_the_item_as_it_is(
        self, table: Table, pk: str, condition: Condition
    ) -> None:
        await put(table, pk)
        with pytest.raises(ConditionFailed) as caught:
            await table.write(Update(pk, "A", set={"n": 100}, when=condition))
        assert caught.value.old == {"pk": pk, "sk": "A", **ITEM}
        assert await table.get(pk, "A") == caught.value.old

    @pytest.mark.parametrize("condition", HOLDING, ids=repr)
    async def test_condition_that_holds_lets_the_write_pass(
        self, table: Table, pk: str, condition: Condition
    ) -> None:
        await put(table, pk)
        new = await table.write(Update(pk, "A", set={"n": 100}, when=condition))
        assert new == {"pk": pk, "sk": "A", **ITEM, "n": 100}

    @pytest.mark.parametrize(
        "write",
        [
            Put("", "A", {}, when=Exists("pk")),
            Update("", "A", set={"n": 1}, when=Exists("pk")),
            Delete("", "A", when=Exists("pk")),
            Update("", "A", set={"n": 1}, when=Equals("n", 1)),
            Update("", "A", set={"n": 1}, when=Below("n", 1)),
        ],
        ids=repr,
    )
    async def test_condition_on_an_item_that_is_not_there_fails_without_an_old_item(
        self, table: Table, pk: str, write: Any
    ) -> None:
        moved = type(write)(**{**vars(write), "pk": pk})
        with pytest.raises(ConditionFailed) as caught:
            await table.write(moved)
        assert caught.value.old is None
        assert await table.get(pk, "A") is None

    @pytest.mark.parametrize("condition", HOLDING_OF_NOTHING, ids=repr)
    async def test_condition_may_hold_where_there_is_no_item(
        self, table: Table, pk: str, condition: Condition
    ) -> None:
        assert await table.write(Put(pk, "A", {"n": 1}, when=condition)) is None
        assert await table.write(Update(pk, "B", set={"n": 1}, when=condition)) is not None
        assert await table.write(Delete(pk, "C", when=condition)) is None
        await table.transact(
            [Check(pk, "C", condition), Put(pk, "D", {"n": 1}, condition)], f"{pk}-1"
        )
        assert [i["sk"] for i in await table.query(pk, "A", "Z")] == ["A", "B", "D"]

    async def test_attributes_may_have_names_that_expressions_know_as_words(
        self, table: Table, pk: str
    ) -> None:
        await put(table, pk, **RESERVED)
        condition = all_of(*(Equals(name, value) for name, value in RESERVED.items()))
        changes = Update(
            pk, "A", set={"status": "x", "name": None}, add={"count": 1, "size": 1}, when=condition
        )
        await table.transact([changes], f"{pk}-1")
        left = {"status": "x", "owner": "o", "token": "t", "size": 2, "count": 3}
        assert await table.get(pk, "A") == {"pk": pk, "sk": "A", **left}

    async def test_put_and_delete_whose_condition_fails_change_nothing(
        self, table: Table, pk: str
    ) -> None:
        await put(table, pk, n=1)
        for write in (
            Put(pk, "A", {"n": 2}, when=Missing("pk")),
            Delete(pk, "A", when=Equals("n", 2)),
        ):
            with pytest.raises(ConditionFailed) as caught:
                await table.write(write)
            assert caught.value.old == {"pk": pk, "sk": "A", "n": 1}
        assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "n": 1}

    async def test_put_replaces_the_whole_item_and_leaves_out_what_is_none(
        self, table: Table, pk: str
    ) -> None:
        await put(table, pk)
        await table.write(Put(pk, "A", {"n": 1, "text": None}))
        assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "n": 1}

    async def test_update_of_an_item_that_is_not_there_makes_it(
        self, table: Table, pk: str
    ) -> None:
        update = Update(
            pk, "A", set={"text": "a"}, add={"n": 2}, include={"set": "p"}, append={"list": "x"}
        )
        new = await table.write(update)
        assert new == {"pk": pk, "sk": "A", "text": "a", "n": 2, "set": {"p"}, "list": ["x"]}

    async def test_update_sets_removes_adds_includes_excludes_and_appends_at_once(
        self, table: Table, pk: str
    ) -> None:
        await put(table, pk, text="a", gone="x", n=1, set={"p"}, other={"r", "s"}, list=["x", "y"])
        new = await table.write(
            Update(
                pk,
                "A",
                set={"text": "b", "gone": None, "never": None},
                add={"n": 5},
                include={"set": "q"},
                exclude={"other": "r"},
                append={"list": "x"},
            )
        )
        sets = {"set": {"p", "q"}, "other": {"s"}}
        assert new == {"pk": pk, "sk": "A", "text": "b", "n": 6, **sets, "list": ["x", "y", "x"]}
        assert await table.get(pk, "A") == new

    async def test_set_without_elements_is_not_there(self, table: Table, pk: str) -> None:
        await put(table, pk, n=1, set={"p"})
        await table.write(Update(pk, "A", exclude={"set": "p", "never": "q"}))
        assert await table.write(Update(pk, "A", set={"n": 2}, when=Missing("set"))) == {
            "pk": pk,
            "sk": "A",
            "n": 2,
        }

    async def test_several_elements_are_put_into_a_set_at_once(self, table: Table, pk: str) -> None:
        for elements in (frozenset({"p"}), frozenset({"p", "q", "r"})):
            await table.write(Update(pk, "A", include={"set": elements}))
        assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "set": {"p", "q", "r"}}

    async def test_several_elements_are_removed_from_a_set_at_once(
        self, table: Table, pk: str
    ) -> None:
        await put(table, pk, set={"p", "q", "r"})
        new = await table.write(Update(pk, "A", exclude={"set": frozenset({"p", "q", "s"})}))
        assert new == {"pk": pk, "sk": "A", "set": {"r"}}

    async def test_element_is_in_a_set_once(self, table: Table, pk: str) -> None:
        await put(table, pk, set={"p"})
        for _ in range(2):
            new = await table.write(Update(pk, "A", include={"set": "q"}))
        assert new is not None
        assert new["set"] == {"p", "q"}

    async def test_deleted_item_is_given_back_once_and_may_be_deleted_again(
        self, table: Table, pk: str
    ) -> None:
        await put(table, pk)
        assert await table.write(Delete(pk, "A")) == {"pk": pk, "sk": "A", **ITEM}
        assert await table.write(Delete(pk, "A")) is None
        assert await table.get(pk, "A") is None

    async def test_what_is_done_to_an_answer_or_to_what_was_given_does_not_reach_the_table(
        self, table: Table, pk: str
    ) -> None:
        def new_item() -> dict[str, Any]:
            return {"list": ["x"], "set": {"p"}}

        written = [new_item() for _ in range(4)]
        await table.write(Put(pk, "A", written[0]))
        answer = await table.write(Update(pk, "B", set=written[1]))
        await table.transact(
            [Put(pk, "C", written[2]), Update(pk, "D", set=written[3])],
            f"{pk}-1",
        )
        got = [await table.get(pk, sk) for sk in ("A", "B", "C", "D")]
        for each in [*written, *got, *await table.query(pk, "A", "D"), answer]:
            assert each is not None
            each["list"].append("y")
            each["set"].add("q")
        for item in await table.query(pk, "A", "D"):
            assert {"list": item["list"], "set": item["set"]} == new_item()

    async def test_one_of_racing_conditional_writes_wins(self, table: Table, pk: str) -> None:
        async def claim(writer: int) -> bool:
            try:
                await table.write(Update(pk, "A", set={"by": writer}, when=Missing("by")))
            except ConditionFailed:
                return False
            return True

        assert sum(await asyncio.gather(*(claim(n) for n in range(8)))) == 1
