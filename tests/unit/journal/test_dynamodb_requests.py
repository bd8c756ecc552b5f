"""The requests that the journal's table makes of DynamoDB, and its answers that no emulator gives."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from layover.adapters.aws.retries import NoAnswer, ServiceError
from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.errors import JournalRefused, RetryableError
from layover.ports.table import Missing, Put, TransactionFailed, Update

PUT = Put("P", "A", {"n": 1}, when=Missing("pk"))
OLD = {"pk": {"S": "P"}, "sk": {"S": "A"}}


def error(code: str, *reasons: str) -> ServiceError:
    """An error of DynamoDB's; `reasons`: why each action of a transaction failed, in order."""
    told = [
        {"Code": reason, **({"Item": OLD} if reason == "ConditionalCheckFailed" else {})}
        for reason in reasons
    ]
    return ServiceError(code, 400, {"CancellationReasons": told}, None)


class Client:
    """Gives these answers, one after another, and keeps what it was asked."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[Mapping[str, Any]] = []

    async def call(self, target: str, document: Mapping[str, Any]) -> dict[str, Any]:
        self.requests.append({"target": target, **document})
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def table_on(client: Client, pauses: list[float] | None = None) -> DynamoTable:
    """The table; what it waits before it asks again goes to `pauses`."""
    waited = pauses if pauses is not None else []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    return DynamoTable(client, "layover", sleep)


CONFLICTS: Sequence[ServiceError] = (
    error("TransactionCanceledException", "None", "TransactionConflict"),
    error("TransactionConflictException"),
    error("TransactionInProgressException"),
)


@pytest.mark.parametrize("conflict", CONFLICTS, ids=str)
async def test_conflict_with_another_transaction_is_tried_again_with_the_same_token(
    conflict: ServiceError,
) -> None:
    client, pauses = Client(conflict, conflict, {}), list[float]()
    await table_on(client, pauses).transact([PUT], "token-1")
    assert [r["ClientRequestToken"] for r in client.requests] == ["token-1"] * 3
    assert len(pauses) == 2


async def test_conflict_of_a_single_write_is_tried_again() -> None:
    client = Client(error("TransactionConflictException"), {"Attributes": {"n": {"N": "1"}}})
    assert await table_on(client).write(Update("P", "A", set={"n": 1})) == {"n": 1}
    assert len(client.requests) == 2


async def test_conflict_that_does_not_end_is_worth_another_try_later() -> None:
    client = Client(*[error("TransactionConflictException")] * 99)
    with pytest.raises(RetryableError, match="other transactions"):
        await table_on(client).transact([PUT], "token-1")
    assert len(client.requests) < 99


async def test_failed_condition_counts_more_than_a_conflict_beside_it() -> None:
    reasons = ("TransactionConflict", "ConditionalCheckFailed", "None")
    client = Client(error("TransactionCanceledException", *reasons))
    with pytest.raises(TransactionFailed) as caught:
        await table_on(client).transact([PUT], "token-1")
    assert caught.value.failed == {1: {"pk": "P", "sk": "A"}}


@pytest.mark.parametrize(
    "fault",
    [
        error("ProvisionedThroughputExceededException"),
        error("InternalServerError"),
        NoAnswer("ConnectionRefusedError"),
    ],
    ids=str,
)
async def test_fault_of_dynamodb_is_worth_another_try(fault: Exception) -> None:
    client = Client(fault)
    with pytest.raises(RetryableError, match="journal"):
        await table_on(client).get("P", "A")
    assert len(client.requests) == 1


async def test_a_request_that_can_never_work_is_refused_at_once_with_dynamodbs_reason() -> None:
    size = "Item size has exceeded the maximum allowed size"
    fault = ServiceError("ValidationException", 400, {"message": size}, None)
    client, pauses = Client(fault), list[float]()
    with pytest.raises(JournalRefused, match=f"PutItem with ValidationException: {size}") as error:
        await table_on(client, pauses).write(PUT)
    assert not isinstance(error.value, RetryableError)
    assert (len(client.requests), pauses) == (1, [])


@pytest.mark.parametrize("code", ["ValidationError", "ItemCollectionSizeLimitExceeded"])
async def test_an_action_that_can_never_work_is_not_taken_for_a_conflict(code: str) -> None:
    reasons = [{"Code": "TransactionConflict"}, {"Code": code, "Message": "too large"}]
    cancelled = ServiceError(
        "TransactionCanceledException", 400, {"CancellationReasons": reasons}, None
    )
    client, pauses = Client(cancelled), list[float]()
    with pytest.raises(JournalRefused, match=f"action 2 of 2 in TransactWriteItems with {code}"):
        await table_on(client, pauses).transact([PUT, PUT], "t")
    assert pauses == []


async def test_a_transaction_that_may_not_be_made_is_not_busy() -> None:
    client = Client(error("TransactionCanceledException", "None", "AccessDenied"))
    with pytest.raises(RetryableError, match="AccessDenied to TransactWriteItems"):
        await table_on(client).transact([PUT, PUT], "t")


async def test_a_throttled_transaction_is_tried_again() -> None:
    throttled = error("TransactionCanceledException", "ThrottlingError", "None")
    client = Client(throttled, {})
    await table_on(client).transact([PUT, PUT], "t")
    assert len(client.requests) == 2


async def test_reads_are_consistent_but_for_peeks_and_the_indexes_which_cannot_be() -> None:
    client = Client({}, *[{"Items": []}] * 3, {})
    table = table_on(client)
    await table.get("P", "A")
    await table.query("P", " ", "~")
    await table.query_index("O", "A#", limit=9, forward=True, after=None)
    await table.due("W", "2026", 9)
    await table.get("P", "A", consistent=False)
    consistent = [r.get("ConsistentRead", False) for r in client.requests]
    assert consistent == [True, True, False, False, False]
    assert [r.get("IndexName") for r in client.requests] == [None, None, "gsi1", "gsi2", None]
