"""What the journal's table promises, in memory and on DynamoDB."""

import asyncio
from typing import Any

import pytest

from layover.adapters.journal.table import (
    Above,
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
    TransactionFailed,
    Update,
    all_of,
    any_of,
    same,
)
from layover.errors import RetryableError

ITEM: dict[str, Any] = {
    "text": "a",
    "n": 3,
    "yes": True,
    "list": ["x", "y"],
    "bytes": b"\x00\xff",
    "set": {"p", "q"},
}

HOLDING = [
    Exists("pk"),
    Exists("text"),
    Missing("other"),
    Equals("text", "a"),
    Equals("n", 3),
    Equals("yes", True),
    Equals("list", ["x", "y"]),
    Below("n", 4),
    Below("text", "b"),
    Above("n", 2),
    Above("text", "A"),
    Differs("n", 4),
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


@pytest.fixture
def pk(owner: str) -> str:
    return f"U#{owner}"


async def put(table: Table, pk: str, sk: str = "A", **fields: Any) -> None:
    await table.write(Put(pk, sk, fields or ITEM))


# One write


@pytest.mark.parametrize("condition", FAILING, ids=repr)
async def test_failed_condition_writes_nothing_and_answers_the_item_as_it_is(
    table: Table, pk: str, condition: Condition
) -> None:
    await put(table, pk)
    with pytest.raises(ConditionFailed) as caught:
        await table.write(Update(pk, "A", set={"n": 100}, when=condition))
    assert caught.value.old == {"pk": pk, "sk": "A", **ITEM}
    assert await table.get(pk, "A") == caught.value.old


@pytest.mark.parametrize("condition", HOLDING, ids=repr)
async def test_condition_that_holds_lets_the_write_pass(
    table: Table, pk: str, condition: Condition
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
    table: Table, pk: str, write: Any
) -> None:
    moved = type(write)(**{**vars(write), "pk": pk})
    with pytest.raises(ConditionFailed) as caught:
        await table.write(moved)
    assert caught.value.old is None
    assert await table.get(pk, "A") is None


async def test_put_and_delete_whose_condition_fails_change_nothing(table: Table, pk: str) -> None:
    await put(table, pk, n=1)
    for write in (Put(pk, "A", {"n": 2}, when=Missing("pk")), Delete(pk, "A", when=Equals("n", 2))):
        with pytest.raises(ConditionFailed) as caught:
            await table.write(write)
        assert caught.value.old == {"pk": pk, "sk": "A", "n": 1}
    assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "n": 1}


async def test_put_replaces_the_whole_item_and_leaves_out_what_is_none(
    table: Table, pk: str
) -> None:
    await put(table, pk)
    await table.write(Put(pk, "A", {"n": 1, "text": None}))
    assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "n": 1}


async def test_update_of_an_item_that_is_not_there_makes_it(table: Table, pk: str) -> None:
    made = Update(
        pk, "A", set={"text": "a"}, add={"n": 2}, include={"set": "p"}, append={"list": "x"}
    )
    new = await table.write(made)
    assert new == {"pk": pk, "sk": "A", "text": "a", "n": 2, "set": {"p"}, "list": ["x"]}


async def test_update_sets_removes_adds_includes_excludes_and_appends_at_once(
    table: Table, pk: str
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


async def test_set_without_elements_is_not_there(table: Table, pk: str) -> None:
    await put(table, pk, n=1, set={"p"})
    await table.write(Update(pk, "A", exclude={"set": "p", "never": "q"}))
    assert await table.write(Update(pk, "A", set={"n": 2}, when=Missing("set"))) == {
        "pk": pk,
        "sk": "A",
        "n": 2,
    }


async def test_element_is_in_a_set_once(table: Table, pk: str) -> None:
    await put(table, pk, set={"p"})
    for _ in range(2):
        new = await table.write(Update(pk, "A", include={"set": "q"}))
    assert new is not None
    assert new["set"] == {"p", "q"}


async def test_deleted_item_is_given_back_once_and_may_be_deleted_again(
    table: Table, pk: str
) -> None:
    await put(table, pk)
    assert await table.write(Delete(pk, "A")) == {"pk": pk, "sk": "A", **ITEM}
    assert await table.write(Delete(pk, "A")) is None
    assert await table.get(pk, "A") is None


async def test_what_is_done_to_an_answer_does_not_reach_the_table(table: Table, pk: str) -> None:
    given = {"list": ["x"], "set": {"p"}}
    await table.write(Put(pk, "A", given))
    got = await table.get(pk, "A")
    assert got is not None
    got["list"].append("y")
    got["set"].add("q")
    given["list"].append("z")  # type: ignore[attr-defined]
    assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "list": ["x"], "set": {"p"}}


# Transactions


async def test_failed_transaction_writes_nothing_and_names_every_failed_condition(
    table: Table, pk: str
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


async def test_transaction_does_all_of_it(table: Table, pk: str) -> None:
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
    found = await table.query(pk, " ", "~")
    assert [(i["sk"], i["n"]) for i in found] == [("A", 2), ("C", 7)]


async def test_transaction_repeated_with_its_token_happens_once(table: Table, pk: str) -> None:
    await put(table, pk, "A", n=1)
    for _ in range(3):
        await table.transact([Update(pk, "A", add={"n": 1}, when=Equals("n", 1))], f"{pk}-1")
    assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "n": 2}


async def test_token_of_a_failed_transaction_is_not_used_up(table: Table, pk: str) -> None:
    actions = [Update(pk, "A", set={"n": 2}, when=Exists("pk"))]
    with pytest.raises(TransactionFailed):
        await table.transact(actions, f"{pk}-1")
    await put(table, pk, "A", n=1)
    await table.transact(actions, f"{pk}-1")
    assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "n": 2}


async def test_two_actions_on_one_item_are_refused(table: Table, pk: str) -> None:
    """DynamoDB takes no such transaction: memory must not let one pass that AWS refuses."""
    with pytest.raises((ValueError, RetryableError)):
        await table.transact([Put(pk, "A", {"n": 1}), Check(pk, "A", Missing("pk"))], f"{pk}-1")
    assert await table.get(pk, "A") is None


async def test_more_than_a_hundred_actions_are_refused(table: Table, pk: str) -> None:
    with pytest.raises((ValueError, RetryableError)):
        await table.transact([Put(pk, f"{n:03d}", {"n": n}) for n in range(101)], f"{pk}-1")
    assert await table.query(pk, " ", "~") == []


async def test_hundred_actions_are_one_transaction(table: Table, pk: str) -> None:
    await table.transact([Put(pk, f"{n:03d}", {"n": n}) for n in range(100)], f"{pk}-1")
    assert [i["n"] for i in await table.query(pk, " ", "~")] == list(range(100))


async def test_item_of_more_than_400_kb_is_refused(table: Table, pk: str) -> None:
    await put(table, pk, text="ü" * 100_000, bytes=b"x" * 200_000)
    before = await table.get(pk, "A")
    grown = Update(pk, "A", set={"more": "y" * 10_000}, when=Exists("pk"))
    for action in (grown, Put(pk, "B", {"text": "ü" * 205_000})):
        with pytest.raises((ValueError, RetryableError)):
            await table.write(action)
        with pytest.raises((ValueError, RetryableError)):
            await table.transact([Put(pk, "C", {"n": 1}), action], f"{pk}-{action.sk}")
    assert await table.query(pk, " ", "~") == [before]


async def test_transaction_of_more_than_4_mb_is_refused_and_writes_nothing(
    table: Table, pk: str
) -> None:
    """What is written and what an update leaves, together."""
    await put(table, pk, "A", text="a" * 350_000)
    before = await table.get(pk, "A")
    changes = [Update(pk, "A", set={"n": 1}), Put(pk, "B", {"n": 1})]
    puts = [Put(pk, f"P{n:02d}", {"bytes": b"x" * 350_000}) for n in range(11)]
    with pytest.raises((ValueError, RetryableError)):
        await table.transact([*changes, *puts], f"{pk}-1")
    assert await table.query(pk, " ", "~") == [before]
    await table.transact([*changes, *puts[1:]], f"{pk}-1")
    assert len(await table.query(pk, " ", "~")) == 12


async def test_one_of_racing_conditional_writes_wins(table: Table, pk: str) -> None:
    async def claim(writer: int) -> bool:
        try:
            await table.write(Update(pk, "A", set={"by": writer}, when=Missing("by")))
        except ConditionFailed:
            return False
        return True

    assert sum(await asyncio.gather(*(claim(n) for n in range(8)))) == 1


async def test_counters_lose_nothing(table: Table, pk: str) -> None:
    def add(n: int) -> list[Update]:
        return [Update(pk, "A", add={"n": 1}), Update(pk, f"B{n}", set={"n": n})]

    await asyncio.gather(*(table.transact(add(n), f"{pk}-{n}") for n in range(8)))
    assert await table.get(pk, "A") == {"pk": pk, "sk": "A", "n": 8}


# Reading


async def test_query_reads_a_range_of_one_partition_in_both_directions(
    table: Table, pk: str
) -> None:
    for sk in ("A", "B", "C", "D"):
        await put(table, pk, sk, n=1)
    await put(table, f"{pk}-other", "B", n=1)

    async def found(*bounds: str, **options: Any) -> list[str]:
        return [i["sk"] for i in await table.query(pk, *bounds, **options)]

    assert await found("X", "Z") == []
    assert await found("B", "C") == ["B", "C"]
    assert await found("A", "D", limit=2) == ["A", "B"]
    assert await found("A", "D", limit=2, forward=False) == ["D", "C"]


async def test_query_without_limit_reads_beyond_one_page_of_dynamodb(table: Table, pk: str) -> None:
    for n in range(5):
        await put(table, pk, f"{n}", body=b"x" * 300_000)
    assert [i["sk"] for i in await table.query(pk, "0", "9")] == ["0", "1", "2", "3", "4"]


async def test_index_is_read_by_prefix_strictly_after_a_place(table: Table, pk: str) -> None:
    for name in ("A#1", "A#2", "A#3", "B#1"):
        await put(table, f"{pk}#{name}", "X", gsi1pk=pk, gsi1sk=name)
    await put(table, f"{pk}#none", "X", n=1)

    async def found(prefix: str, after: str | None = None, **options: Any) -> list[str]:
        options = {"limit": 10, "forward": True, **options}
        return [i["gsi1sk"] for i in await table.query_index(pk, prefix, after=after, **options)]

    assert await found("C#") == []
    assert await found("A#") == ["A#1", "A#2", "A#3"]
    assert await found("A#", "A#1") == ["A#2", "A#3"]
    assert await found("A#", "A#1", limit=1) == ["A#2"]
    assert await found("A#", "A#3") == []
    assert await found("A#", forward=False, limit=2) == ["A#3", "A#2"]
    assert await found("A#", "A#2", forward=False) == ["A#1"]
    assert await found("A#", "A#15") == ["A#2", "A#3"]


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("after", ["0", "A", "B#1", "Z"])
async def test_place_outside_of_the_prefix_never_leads_out_of_it(
    table: Table, pk: str, after: str, forward: bool
) -> None:
    """Cursors come from callers, who may make them up."""
    for name in ("A#1", "A#2", "B#1"):
        await put(table, f"{pk}#{name}", "X", gsi1pk=pk, gsi1sk=name)
    found = await table.query_index(pk, "A#", limit=9, forward=forward, after=after)
    beyond = (after < "A#") == forward
    assert sorted(i["gsi1sk"] for i in found) == (["A#1", "A#2"] if beyond else [])


async def test_item_leaves_the_index_with_its_attributes(table: Table, pk: str) -> None:
    await put(table, pk, gsi1pk=pk, gsi1sk="A#1")
    await table.write(Update(pk, "A", set={"gsi1pk": None, "gsi1sk": None}))
    assert await table.query_index(pk, "A#", limit=9, forward=True, after=None) == []


async def test_due_answers_keys_up_to_a_time_oldest_first(table: Table, pk: str) -> None:
    for n in (3, 1, 2):
        await put(table, pk, f"{n}", gsi2pk=f"W{pk}", gsi2sk=f"2026-01-0{n}")
    await put(table, pk, "none", n=1)
    assert await table.due(f"W{pk}", "2026-01-02", 9) == [(pk, "1"), (pk, "2")]
    assert await table.due(f"W{pk}", "2026-01-09", 2) == [(pk, "1"), (pk, "2")]
    assert await table.due(f"W{pk}", "2025-12-31", 9) == []
