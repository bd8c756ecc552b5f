"""The table on DynamoDB."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from layover.adapters.aws.retries import NoAnswer, ServiceError
from layover.dice import SYSTEM_DICE
from layover.errors import JournalRefused, RetryableError
from layover.ports import Dice
from layover.ports.table import (
    Above,
    Action,
    AllOf,
    AnyOf,
    Below,
    Check,
    Condition,
    ConditionFailed,
    Delete,
    Differs,
    Equals,
    Exists,
    Item,
    Missing,
    Put,
    Shorter,
    TransactionFailed,
    Update,
    Write,
    elements,
)

_TARGET = "DynamoDB_20120810."
_INDEX = "gsi1"
_WATCH = "gsi2"
_REFUSED = frozenset(
    {
        "ValidationException",
        "SerializationException",
        "ItemCollectionSizeLimitExceededException",
        "IdempotentParameterMismatchException",
        # The same two as reasons of a cancelled transaction.
        "ValidationError",
        "ItemCollectionSizeLimitExceeded",
    }
)
"""Codes of a request that fails however often it is sent."""
_BUSY = frozenset(
    {"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError", "None"}
)
"""Reasons of a cancelled transaction that say nothing about it: others were at work on its items."""
_MAX_REASON = 300
"""Characters of DynamoDB's own message that an error repeats. It names attributes and sizes, no values."""
_CONFLICTS = 12
"""Attempts after a conflict with another transaction, with jitter. A conflict is not a failed condition."""


class JsonClient(Protocol):
    """A client that sends operations to DynamoDB (`layover.adapters.aws.client.AwsClient`)."""

    async def call(self, target: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of one operation. Raises ServiceError, NoAnswer."""
        ...


class DynamoTable:
    """`Table` over one DynamoDB table (`layover.adapters.journal.items.schema`)."""

    def __init__(
        self,
        client: JsonClient,
        name: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        dice: Dice = SYSTEM_DICE,
    ) -> None:
        self._dice = dice
        self._client = client
        self._name = name
        self._sleep = sleep

    async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Item | None:
        """Return one item."""
        answer = await self._call(
            "GetItem", TableName=self._name, Key=_key(pk, sk), ConsistentRead=consistent
        )
        return _read(answer["Item"]) if "Item" in answer else None

    async def query(
        self, pk: str, low: str, high: str, *, limit: int | None = None, forward: bool = True
    ) -> list[Item]:
        """Return items with low <= sk <= high, read consistently, from all pages up to `limit`."""
        # DynamoDB refuses such a range. It may come from a caller: a first day behind the last.
        if low > high:
            return []
        return await self._pages(
            limit,
            KeyConditionExpression="pk = :p AND sk BETWEEN :l AND :h",
            ExpressionAttributeValues=_write({":p": pk, ":l": low, ":h": high}),
            ScanIndexForward=forward,
            ConsistentRead=True,
        )

    async def query_index(
        self, partition: str, prefix: str, *, limit: int, forward: bool, after: str | None
    ) -> list[Item]:
        """Return items of the owner's index, read with eventual consistency."""
        low, high = prefix, prefix + "\uffff"
        if after is not None:
            # A caller may have made up the cursor, so it must not lead out of the prefix.
            low, high = (max(low, after), high) if forward else (low, min(high, after))
        if low > high:
            return []
        # BETWEEN includes the cursor's own item. It is one more, and left out below.
        items = await self._pages(
            limit + 1,
            IndexName=_INDEX,
            KeyConditionExpression="gsi1pk = :p AND gsi1sk BETWEEN :l AND :h",
            ExpressionAttributeValues=_write({":p": partition, ":l": low, ":h": high}),
            ScanIndexForward=forward,
        )
        return [i for i in items if i["gsi1sk"] != after][:limit]

    async def due(self, partition: str, until: str, limit: int) -> list[tuple[str, str]]:
        """Return keys in the watch index with a sort key <= `until`, read with eventual consistency."""
        items = await self._pages(
            limit,
            IndexName=_WATCH,
            KeyConditionExpression="gsi2pk = :p AND gsi2sk <= :u",
            ExpressionAttributeValues=_write({":p": partition, ":u": until}),
        )
        return [(i["pk"], i["sk"]) for i in items]

    async def behind(self, partition: str, after: str, limit: int) -> list[tuple[str, str, str]]:
        """Return places in a partition of the watch index behind `after`, read with eventual consistency."""
        items = await self._pages(
            limit,
            IndexName=_WATCH,
            KeyConditionExpression="gsi2pk = :p AND gsi2sk > :a",
            # DynamoDB takes no empty key.
            ExpressionAttributeValues=_write({":p": partition, ":a": after or " "}),
        )
        return [(i["gsi2sk"], i["pk"], i["sk"]) for i in items]

    async def write(self, action: Write) -> Item | None:
        """Make one conditional write."""
        operation = {Put: "PutItem", Update: "UpdateItem", Delete: "DeleteItem"}[type(action)]
        arguments = self._arguments(action)
        if isinstance(action, Update):
            arguments["ReturnValues"] = "ALL_NEW"
        if isinstance(action, Delete):
            arguments["ReturnValues"] = "ALL_OLD"
        answer = await self._complete(operation, **arguments)
        return _read(answer["Attributes"]) if "Attributes" in answer else None

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        """Make one TransactWriteItems, repeated on conflicts with other transactions."""
        names = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}
        # The order is kept, because failures are identified by the position of the action.
        items = [{names[type(a)]: self._arguments(a)} for a in actions]
        await self._complete("TransactWriteItems", TransactItems=items, ClientRequestToken=token)

    async def _complete(self, operation: str, **arguments: Any) -> dict[str, Any]:
        for attempt in range(_CONFLICTS):
            try:
                return await self._call(operation, **arguments)
            except _Conflict:
                # Random, so that those that collided do not collide again.
                await self._sleep(self._dice.up_to(min(1.0, 0.01 * 2**attempt)))
        raise RetryableError("the journal is busy: other transactions kept touching the same items")

    def _arguments(self, action: Action) -> dict[str, Any]:
        arguments: dict[str, Any] = {"TableName": self._name}
        expression = _Expression()
        if isinstance(action, Put):
            item = {"pk": action.pk, "sk": action.sk, **action.item}
            arguments["Item"] = _write(item)
        else:
            arguments["Key"] = _key(action.pk, action.sk)
        if isinstance(action, Update):
            arguments["UpdateExpression"] = expression.update(action)
        if action.when is not None:
            arguments["ConditionExpression"] = expression.condition(action.when)
            # The item comes with the failure, so that a writer recognises its own repeated request, or what
            # it lost to, without another read.
            arguments["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        if expression.names:
            arguments["ExpressionAttributeNames"] = expression.names
        if expression.values:
            arguments["ExpressionAttributeValues"] = _write(expression.values)
        return arguments

    async def _pages(self, limit: int | None, **arguments: Any) -> list[Item]:
        items: list[Item] = []
        # A page ends after 1 MB, whatever the limit.
        while True:
            if limit is not None:
                arguments["Limit"] = limit - len(items)
            answer = await self._call("Query", TableName=self._name, **arguments)
            items += [_read(i) for i in answer["Items"]]
            last = answer.get("LastEvaluatedKey")
            if last is None or (limit is not None and len(items) >= limit):
                return items
            arguments["ExclusiveStartKey"] = last

    async def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Make one call; the provider's errors become ours."""
        try:
            return await self._client.call(_TARGET + operation, arguments)
        except ServiceError as error:
            raise _translated(operation, error) from error
        except NoAnswer as error:
            raise RetryableError(f"the journal did not answer: {error}") from error


class _Conflict(Exception):
    """TransactionConflict."""


def _translated(operation: str, error: ServiceError) -> Exception:
    document: Mapping[str, Any] = error.document
    if error.code == "ConditionalCheckFailedException":
        old = document.get("Item")
        return ConditionFailed(_read(old) if old else None)
    if error.code == "TransactionCanceledException":
        # One reason for each action, in their order. Only a failed condition tells us something. Without one,
        # another transaction was at work on an item, which says nothing about ours.
        reasons = document.get("CancellationReasons", [])
        failed = {
            i: _read(r["Item"]) if r.get("Item") else None
            for i, r in enumerate(reasons)
            if r.get("Code") == "ConditionalCheckFailed"
        }
        if failed:
            return TransactionFailed(failed)
        return _cancelled(operation, reasons)
    # A single write has collided with a transaction, or a repeated request with its own first attempt.
    if error.code in ("TransactionConflictException", "TransactionInProgressException"):
        return _Conflict()
    if error.code in _REFUSED:
        reason = document.get("message") or document.get("Message")
        return _refused(operation, error.code, reason)
    return RetryableError(f"the journal answered {error.code} to {operation}")


def _cancelled(operation: str, reasons: Sequence[Mapping[str, Any]]) -> Exception:
    """Return the error of a transaction that was cancelled although no condition failed."""
    codes = [str(reason.get("Code") or "None") for reason in reasons]
    for place, (code, reason) in enumerate(zip(codes, reasons, strict=True), start=1):
        if code in _REFUSED:
            what = f"action {place} of {len(reasons)} in {operation}"
            return _refused(what, code, reason.get("Message"))
    if _BUSY.issuperset(codes):
        return _Conflict()
    others = ", ".join(sorted(set(codes) - _BUSY))
    return RetryableError(f"the journal answered {others} to {operation}")


def _refused(what: str, code: str, message: object) -> JournalRefused:
    reason = f": {str(message)[:_MAX_REASON]}" if message else ""
    return JournalRefused(
        f"the journal refused {what} with {code}{reason}. Another attempt fails alike: report it"
    )


class _Expression:
    """Collects the names and values of one action's expressions."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def update(self, action: Update) -> str:
        clauses = {
            "SET": [
                *[f"{self._n(k)} = {self._v(v)}" for k, v in action.set.items() if v is not None],
                *[self._appended(k, v) for k, v in action.append.items()],
            ],
            "REMOVE": [self._n(k) for k, v in action.set.items() if v is None],
            "ADD": [
                *[f"{self._n(k)} {self._v(v)}" for k, v in action.add.items()],
                *[f"{self._n(k)} {self._v(elements(v))}" for k, v in action.include.items()],
            ],
            "DELETE": [f"{self._n(k)} {self._v(elements(v))}" for k, v in action.exclude.items()],
        }
        return " ".join(f"{word} {', '.join(parts)}" for word, parts in clauses.items() if parts)

    def _appended(self, name: str, last: str) -> str:
        n = self._n(name)
        return f"{n} = list_append(if_not_exists({n}, {self._v([])}), {self._v([last])})"

    def condition(self, condition: Condition) -> str:
        match condition:
            case AllOf(parts):
                return "(" + " AND ".join([self.condition(p) for p in parts]) + ")"
            case AnyOf(parts):
                return "(" + " OR ".join([self.condition(p) for p in parts]) + ")"
            case Missing(name):
                return f"attribute_not_exists({self._n(name)})"
            case Exists(name):
                return f"attribute_exists({self._n(name)})"
            case Equals(name, value):
                return f"{self._n(name)} = {self._v(value)}"
            case Differs(name, value):
                n = self._n(name)
                return f"(attribute_not_exists({n}) OR {n} <> {self._v(value)})"
            case Below(name, value):
                return f"{self._n(name)} < {self._v(value)}"
            case Above(name, value):
                return f"{self._n(name)} > {self._v(value)}"
            case Shorter(name, size):
                n = self._n(name)
                return f"(attribute_not_exists({n}) OR size({n}) < {self._v(size)})"

    def _n(self, name: str) -> str:
        # Always a placeholder, because DynamoDB reserves words such as `status` and `token`.
        self.names[f"#{name}"] = name
        return f"#{name}"

    def _v(self, value: Any) -> str:
        key = f":v{len(self.values)}"
        self.values[key] = value
        return key


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def _write(item: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _to_attribute(v) for k, v in item.items() if v is not None}


def _to_attribute(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int():
            return {"N": str(value)}
        case bytes():
            return {"B": b64encode(value).decode()}
        case set() | frozenset():
            if not value:
                raise ValueError("a set without elements cannot be stored")
            return {"SS": sorted(value)}
        case list() | tuple():
            return {"L": [_to_attribute(v) for v in value]}
    raise TypeError(f"the journal does not store {type(value).__name__}")


def _read(item: Mapping[str, Any]) -> Item:
    return {k: _from_attribute(v) for k, v in item.items()}


def _from_attribute(attribute: Mapping[str, Any]) -> Any:
    [(kind, value)] = attribute.items()
    match kind:
        case "N":
            return int(value)
        case "B":
            return b64decode(value)
        case "SS":
            return set(value)
        case "L":
            return [_from_attribute(v) for v in value]
    return value
