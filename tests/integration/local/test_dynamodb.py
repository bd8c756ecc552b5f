"""DynamoDB keeps its promises under concurrency, which moto alone does not."""

import asyncio
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from layover.desk.local.aws.emulator import TABLE_NAME

from .conftest import Served

Item = dict[str, Any]


def key(name: str) -> Item:
    return {"pk": {"S": name}, "sk": {"S": "META"}}


def put(name: str, *, new: bool = False, **fields: str) -> Item:
    item = key(name) | {field: {"S": value} for field, value in fields.items()}
    condition = {"ConditionExpression": "attribute_not_exists(pk)"} if new else {}
    return {"Put": {"TableName": TABLE_NAME, "Item": item, **condition}}


def check(name: str, **more: Any) -> Item:
    condition = "attribute_exists(pk)"
    body = {"TableName": TABLE_NAME, "Key": key(name), "ConditionExpression": condition, **more}
    return {"ConditionCheck": body}


def update(name: str, expression: str, **values: str) -> Item:
    body = {"TableName": TABLE_NAME, "Key": key(name), "UpdateExpression": expression}
    return {
        "Update": body
        | {"ExpressionAttributeValues": {f":{n}": {"N": v} for n, v in values.items()}}
    }


class Table:
    def __init__(self, served: Served) -> None:
        self.client = served.client("dynamodb")
        _ = self.client.exceptions  # Made on first use, and not by two threads at once.

    def get(self, name: str) -> Item | None:
        got = self.client.get_item(TableName=TABLE_NAME, Key=key(name), ConsistentRead=True)
        item: Item | None = got.get("Item")
        return item

    def transact(self, *items: Item, **more: str) -> None:
        self.client.transact_write_items(TransactItems=list(items), **more)

    def reasons(self, *items: Item) -> list[Item]:
        with pytest.raises(self.client.exceptions.TransactionCanceledException) as caught:
            self.transact(*items)
        answer: list[Item] = caught.value.response["CancellationReasons"]
        return answer


@pytest.fixture
def table(served: Served) -> Table:
    return Table(served)


def fresh() -> str:
    return uuid.uuid4().hex


async def test_failed_transaction_writes_nothing(table: Table) -> None:
    first, last = fresh(), fresh()
    reasons = await asyncio.to_thread(
        table.reasons, put(first), check(fresh()), update(last, "ADD n :n", n="1")
    )
    assert [each["Code"] for each in reasons] == ["None", "ConditionalCheckFailed", "None"]
    assert table.get(first) is None
    assert table.get(last) is None


async def test_every_failed_condition_is_reported_with_the_old_item(table: Table) -> None:
    name = fresh()
    table.transact(put(name, colour="red"))
    failing = put(name, new=True, colour="blue")
    failing["Put"]["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    reasons = await asyncio.to_thread(table.reasons, failing, check(fresh()))
    assert [each["Code"] for each in reasons] == ["ConditionalCheckFailed"] * 2
    assert reasons[0]["Item"] == key(name) | {"colour": {"S": "red"}}
    assert "Item" not in reasons[1]


async def test_invalid_update_takes_back_what_was_written_before_it(table: Table) -> None:
    first, second = fresh(), fresh()
    table.transact(put(second, text="words"))
    with pytest.raises(ClientError):
        table.transact(put(first), update(second, "ADD text :n", n="1"))
    assert table.get(first) is None
    assert table.get(second) == key(second) | {"text": {"S": "words"}}


async def test_two_actions_on_one_item_are_refused(table: Table) -> None:
    name = fresh()
    with pytest.raises(ClientError, match="multiple operations on one item"):
        table.transact(put(name), update(name, "ADD n :n", n="1"))


async def test_more_than_a_hundred_actions_are_refused(table: Table) -> None:
    with pytest.raises(ClientError, match="less than or equal to 100"):
        table.transact(*(put(fresh()) for _ in range(101)))


async def test_items_of_more_than_4_mb_together_are_refused(table: Table) -> None:
    """The size of the resulting items counts, also of one that is only checked: AWS does not document it."""
    large, seen = "x" * 400_000, fresh()
    table.transact(put(seen, text=large))
    names = [fresh() for _ in range(10)]
    with pytest.raises(ClientError, match="cannot exceed 4 MB") as caught:
        table.transact(check(seen), *(put(name, text=large) for name in names))
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert [table.get(name) for name in names] == [None] * 10
    table.transact(*(put(name, text=large) for name in names))


async def test_token_makes_a_repeated_transaction_happen_once(table: Table) -> None:
    name, token = fresh(), fresh()
    for _ in range(3):
        table.transact(update(name, "ADD n :n", n="1"), ClientRequestToken=token)
    assert table.get(name) == key(name) | {"n": {"N": "1"}}


async def test_token_of_another_transaction_is_refused(table: Table) -> None:
    token = fresh()
    table.transact(put(fresh()), ClientRequestToken=token)
    with pytest.raises(table.client.exceptions.IdempotentParameterMismatchException):
        table.transact(put(fresh()), ClientRequestToken=token)


async def test_token_of_a_failed_transaction_may_be_used_again(table: Table) -> None:
    name, token = fresh(), fresh()
    items = [check(name), put(fresh())]
    with pytest.raises(table.client.exceptions.TransactionCanceledException):
        table.transact(*items, ClientRequestToken=token)
    table.transact(put(name))
    table.transact(*items, ClientRequestToken=token)


async def test_transaction_applies_puts_updates_and_deletes_together(table: Table) -> None:
    old, new, counted = fresh(), fresh(), fresh()
    table.transact(put(old))
    delete = {"Delete": {"TableName": TABLE_NAME, "Key": key(old)}}
    table.transact(delete, put(new, new=True), update(counted, "SET n = :n", n="2"))
    assert table.get(old) is None
    assert table.get(new) == key(new)
    assert table.get(counted) == key(counted) | {"n": {"N": "2"}}


@pytest.mark.usefixtures("restless")
async def test_racing_conditional_writes_have_one_winner_and_lose_no_acknowledged_put(
    table: Table,
) -> None:
    """Eight writers, and two that only fail: alone, moto has two winners and loses puts."""
    rounds, writers, prefix = 12, 8, fresh()
    gate = threading.Barrier(writers)

    def write(writer: int) -> list[int]:
        won = []
        for turn in range(rounds):
            table.transact(put(f"{prefix}-{writer}-{turn}"))
            gate.wait(30)
            if claim(table, f"{prefix}-race-{turn}", writer):
                won.append(turn)
        return won

    def fail(_: int) -> list[int]:
        for _ in range(rounds):
            table.reasons(put(fresh()), check(fresh()))
        return []

    with ThreadPoolExecutor(writers + 2) as pool:
        running = [pool.submit(write, n) for n in range(writers)]
        running += [pool.submit(fail, n) for n in range(2)]
        wins = [turn for each in running for turn in each.result(timeout=60)]
    assert sorted(wins) == list(range(rounds))
    names = [f"{prefix}-{writer}-{turn}" for writer in range(writers) for turn in range(rounds)]
    assert [name for name in names if table.get(name) is None] == []


def claim(table: Table, name: str, writer: int) -> bool:
    """Return whether `writer` is the first to write its number to `name`."""
    body = update(name, "SET winner = :w", w=str(writer))["Update"]
    try:
        table.client.update_item(**body, ConditionExpression="attribute_not_exists(winner)")
    except table.client.exceptions.ConditionalCheckFailedException:
        return False
    return True


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        ("get_item", {"Key": key("a"), "AttributesToGet": ["pk"]}),
        ("put_item", {"Item": key("a"), "Expected": {"pk": {"Exists": False}}}),
        ("query", {"KeyConditions": {}}),
        ("scan", {"ScanFilter": {}}),
        ("scan", {"ScanFilter": {}, "Segment": 1, "TotalSegments": 2}),
    ],
)
async def test_conditions_without_expressions_are_refused(
    table: Table, operation: str, request_: Item
) -> None:
    send = getattr(table.client, operation)
    with pytest.raises(ClientError, match="not served on one machine"):
        await asyncio.to_thread(send, TableName=TABLE_NAME, **request_)
