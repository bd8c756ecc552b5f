"""TransactWriteItems: all conditions first, then all writes, once for each token."""

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from layover.desk.local.aws.dynamodb.attributes import Item
from layover.desk.local.aws.dynamodb.errors import (
    ConditionalCheckFailed,
    IdempotentParameterMismatch,
    TransactionCanceled,
    ValidationError,
)
from layover.desk.local.aws.dynamodb.tables import Tables
from layover.desk.local.aws.dynamodb.writes import Done, Write

MAX_ACTIONS = 100
MAX_BYTES = 4 * 1024 * 1024
"""Of all items together, as they are after the transaction."""
TOKEN_LIFE_S = 600.0
"""DynamoDB remembers a ClientRequestToken for ten minutes."""
_KINDS = frozenset({"ConditionCheck", "Put", "Delete", "Update"})
_NO_REASON = {"Code": "None"}


def write(
    connection: sqlite3.Connection, tables: Tables, request: Mapping[str, Any], now: float
) -> list[Done]:
    """Carry out TransactWriteItems. Return what was written. Raises TransactionCanceled,
    IdempotentParameterMismatch and ValidationError; the caller rolls back then."""
    token = request.get("ClientRequestToken")
    # boto3 repeats a request whose response was lost (docs/aws-facts.md#dynamodb). Its conditions no longer
    # hold after the first time, so it has to be known before they are checked.
    if token and _is_repeated(connection, token, request, now):
        return []
    writes = _writes(connection, tables, request["TransactItems"])
    # All conditions before any write: none may see the transaction's own writes, and the error names every
    # condition that fails.
    olds = _check_all(connection, writes)
    results = [each.carry_out(connection, old) for each, old in zip(writes, olds, strict=True)]
    if sum(each.size for each in results) > MAX_BYTES:
        # In the words of TransactWriteItems' documentation, which does not give the error's own.
        raise ValidationError(
            "The aggregate size of the items in the transaction cannot exceed 4 MB"
        )
    if token:
        # In the transaction of the writes: a token of one that failed may be used again.
        row = (token, _fingerprint(request), now)
        connection.execute("INSERT INTO ddb_tokens VALUES (?, ?, ?)", row)
    return results


def _writes(
    connection: sqlite3.Connection, tables: Tables, actions: list[Mapping[str, Any]]
) -> list[Write]:
    if not 1 <= len(actions) <= MAX_ACTIONS:
        raise _too_many(len(actions))
    writes = []
    for action in actions:
        if len(action) != 1 or not action.keys() <= _KINDS:
            raise ValidationError(
                "TransactItems can only contain one of Check, Put, Update or Delete"
            )
        ((kind, body),) = action.items()
        table = tables.get(connection, body["TableName"])
        writes.append(Write.read(table, kind, body))
    # DynamoDB's rule, on which the order of checks and writes relies.
    if len({(each.table.name, each.key) for each in writes}) < len(writes):
        raise ValidationError("Transaction request cannot include multiple operations on one item")
    return writes


def _too_many(number: int) -> ValidationError:
    limits = f"less than or equal to {MAX_ACTIONS}" if number else "greater than or equal to 1"
    return ValidationError(
        "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: "
        f"Member must have length {limits}"
    )


def _check_all(connection: sqlite3.Connection, writes: list[Write]) -> list[Item | None]:
    olds: list[Item | None] = []
    reasons: list[dict[str, Any]] = []
    for each in writes:
        try:
            olds.append(each.check(connection))
            reasons.append(_NO_REASON)
        except ConditionalCheckFailed as error:
            failed = {"Code": "ConditionalCheckFailed", "Message": str(error)}
            reasons.append({**failed, **error.fields})
    if len(olds) < len(writes):
        raise TransactionCanceled(reasons)
    return olds


def _is_repeated(
    connection: sqlite3.Connection, token: str, request: Mapping[str, Any], now: float
) -> bool:
    """Return whether this request was carried out before. Raises IdempotentParameterMismatch if another one
    was under this token."""
    connection.execute("DELETE FROM ddb_tokens WHERE at < ?", (now - TOKEN_LIFE_S,))
    query = "SELECT request FROM ddb_tokens WHERE token = ?"
    row = connection.execute(query, (token,)).fetchone()
    if row is not None and row[0] != _fingerprint(request):
        raise IdempotentParameterMismatch
    return row is not None


def _fingerprint(request: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request["TransactItems"], sort_keys=True).encode()).hexdigest()
