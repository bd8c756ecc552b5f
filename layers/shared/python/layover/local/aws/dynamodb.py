"""A transaction for moto's DynamoDB that is one: all conditions first, then all writes.

moto 5.2 copies the whole table, writes as it checks and puts the copy back on failure: a put that
was acknowledged in between is lost, and a transaction costs what the table weighs. It knows no
ClientRequestToken either. The caller holds one lock around every DynamoDB request.
"""

import copy
import inspect
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from moto.dynamodb.comparisons import get_filter_expression
from moto.dynamodb.exceptions import (
    DynamodbException,
    MockValidationException,
    MultipleTransactionsException,
    TooManyTransactionsException,
    TransactionCanceledException,
    TransactWriteSingleOpException,
)
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import Item
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

Action = dict[str, Any]
Key = dict[str, Any]

_KINDS = frozenset({"ConditionCheck", "Put", "Delete", "Update"})
_MOST_ACTIONS = 100
_MOST_BYTES = 4 * 1024 * 1024
_TOKEN_LIFE_S = 600.0
_PASSED: tuple[None, None, None] = (None, None, None)
_Reason = tuple[str, str, dict[str, Any] | None] | tuple[None, None, None]


class _TokenMismatch(DynamodbException):
    def __init__(self) -> None:
        super().__init__(
            "com.amazonaws.dynamodb.v20120810#IdempotentParameterMismatchException",
            "The provided client token is already in use with a different request",
        )


class _TransactionTooLarge(MockValidationException):
    """In the words of TransactWriteItems' documentation, which does not give the error's own."""

    def __init__(self) -> None:
        super().__init__("The aggregate size of the items in the transaction cannot exceed 4 MB")


def transact_write_items(backend: DynamoDBBackend, items: list[dict[str, Action]]) -> None:
    """Apply all of `items` or none.

    Raises TransactionCanceledException with a reason an item (`None` where it would have passed),
    or a validation error before anything is checked.
    """
    actions = [_single(item) for item in items]
    if not 1 <= len(actions) <= _MOST_ACTIONS:
        raise TooManyTransactionsException()
    keys = [_key(backend, kind, action) for kind, action in actions]
    _refuse_repeated(backend, actions, keys)
    pairs = zip(actions, keys, strict=True)
    reasons = [_check(backend, action, key) for (_, action), key in pairs]
    if any(code is not None for code, *_ in reasons):
        raise TransactionCanceledException(reasons)
    _apply_all(backend, actions, keys)


def _single(item: dict[str, Action]) -> tuple[str, Action]:
    if len(item) != 1 or not item.keys() <= _KINDS:
        raise TransactWriteSingleOpException()
    return next(iter(item.items()))


def _key(backend: DynamoDBBackend, kind: str, action: Action) -> Key:
    table = backend.get_table(action["TableName"])
    source = action["Item"] if kind == "Put" else action["Key"]
    names = [name for name in (table.hash_key_attr, table.range_key_attr) if name]
    if not set(names) <= source.keys() or (kind != "Put" and len(source) != len(names)):
        raise MockValidationException("The provided key element does not match the schema")
    return {name: source[name] for name in names}


def _refuse_repeated(
    backend: DynamoDBBackend, actions: list[tuple[str, Action]], keys: list[Key]
) -> None:
    seen = set()
    for (_, action), key in zip(actions, keys, strict=True):
        table = backend.get_table(action["TableName"])
        item = (table.name, json.dumps(key, sort_keys=True, default=str))
        if item in seen:
            raise MultipleTransactionsException()
        seen.add(item)


def _check(backend: DynamoDBBackend, action: Action, key: Key) -> _Reason:
    current = backend.get_item(action["TableName"], key)
    condition = get_filter_expression(
        action.get("ConditionExpression"),
        action.get("ExpressionAttributeNames"),
        action.get("ExpressionAttributeValues"),
    )
    if condition.expr(current):
        return _PASSED
    wanted = action.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and current
    old = copy.deepcopy(current.to_json()["Attributes"]) if current and wanted else None
    return ("ConditionalCheckFailed", "The conditional request failed", old)


def _apply_all(
    backend: DynamoDBBackend, actions: list[tuple[str, Action]], keys: list[Key]
) -> None:
    """Write in order; an update that turns out to be invalid, and items that are too much together,
    put back what was there. moto itself refuses an item that is too large."""
    undo: list[Callable[[], None]] = []
    size = 0
    try:
        for (kind, action), key in zip(actions, keys, strict=True):
            table = backend.get_table(action["TableName"])
            undo.append(_restorer(backend, table, key))
            _apply(backend, kind, action, key)
            item = backend.get_item(action["TableName"], key)
            size += item.size() if item else 0
        if size > _MOST_BYTES:
            raise _TransactionTooLarge()
    except Exception:
        for restore in reversed(undo):
            restore()
        raise


def _restorer(backend: DynamoDBBackend, table: Table, key: Key) -> Callable[[], None]:
    hash_key, range_key = backend.get_keys_value(table, key)
    before: Item | None = copy.deepcopy(table.get_item(hash_key, range_key))

    def restore() -> None:
        if before is None:
            table.delete_item(hash_key, range_key)
        elif range_key is None:
            table.items[hash_key] = before  # type: ignore[assignment]
        else:
            table.items[hash_key][range_key] = before

    return restore


def _apply(backend: DynamoDBBackend, kind: str, action: Action, key: Key) -> None:
    # Copies: moto keeps what it is given, and a token's recorded request must not change with it.
    match kind:
        case "Put":
            backend.put_item(action["TableName"], copy.deepcopy(action["Item"]), overwrite=True)
        case "Delete":
            backend.delete_item(action["TableName"], key)
        case "Update":
            backend.update_item(
                action["TableName"],
                key,
                action["UpdateExpression"],
                action.get("ExpressionAttributeNames", {}),
                copy.deepcopy(action.get("ExpressionAttributeValues", {})),
            )


class _Tokens:
    """ClientRequestTokens of the last ten minutes, with the request each stands for."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, str]] = {}

    def is_repeated(self, token: str, request: str) -> bool:
        """Whether this very request was applied already; raises if another one was."""
        self._forget(time.monotonic() - _TOKEN_LIFE_S)
        if token not in self._seen:
            return False
        if self._seen[token][1] != request:
            raise _TokenMismatch()
        return True

    def _forget(self, before: float) -> None:
        """The oldest come first: they are in the order in which they were remembered."""
        while self._seen and next(iter(self._seen.values()))[0] < before:
            del self._seen[next(iter(self._seen))]

    def remember(self, token: str, request: str) -> None:
        """The request has been applied."""
        self._seen[token] = (time.monotonic(), request)


def install() -> None:
    """Replace moto's transaction and its queries' view of the table, for this process."""
    _narrow_queries()
    checked: Callable[[DynamoHandler], Any] = getattr(
        DynamoHandler, "_layover_validated", DynamoHandler.transact_write_items
    )
    tokens = _Tokens()

    def with_token(handler: DynamoHandler) -> Any:
        token = handler.body.get("ClientRequestToken")
        if not token:
            return checked(handler)
        # `default`: binary values were decoded to bytes on the way in.
        request = json.dumps(handler.body["TransactItems"], sort_keys=True, default=repr)
        if tokens.is_repeated(token, request):
            return _empty_answer()
        answer = checked(handler)
        tokens.remember(token, request)
        return answer

    handlers: Any = DynamoHandler
    handlers._layover_validated = checked
    handlers.transact_write_items = with_token
    backends: Any = DynamoDBBackend
    backends.transact_write_items = transact_write_items


def _narrow_queries() -> None:
    whole: Callable[..., Any] = getattr(Table, "_layover_query", Table.query)
    named = inspect.signature(whole)

    def query(*args: Any, **more: Any) -> Any:
        asked = named.bind(*args, **more).arguments
        table = asked["self"]
        candidates = _candidates(table, asked)
        vars(table)["all_items"] = lambda: candidates
        try:
            return whole(*args, **more)
        finally:
            del vars(table)["all_items"]

    tables: Any = Table
    tables._layover_query = whole
    tables.query = query


def _candidates(table: Table, asked: Mapping[str, Any]) -> list[Item]:
    """Items of the partition, of the table or of the index. `query` sorts them."""
    if not asked.get("index_name"):
        return list(table.items.get(asked["hash_key"], {}).values())
    partitions: Any = table.items.values()
    wanted = asked.get("hash_key_conditions") or ()
    every = (item for partition in partitions for item in partition.values())
    return [i for i in every if all(_has(i, name, value) for name, value in wanted)]


def _has(item: Item, name: str, value: Any) -> bool:
    return name in item.attrs and item.attrs[name] == value


def _empty_answer() -> Any:
    from moto.core.responses import ActionResult

    return ActionResult({"ConsumedCapacity": [], "ItemCollectionMetrics": {}})
