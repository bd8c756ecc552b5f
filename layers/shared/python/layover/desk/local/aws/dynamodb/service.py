"""The operations of DynamoDB that the system sends: a document in, a document out."""

import json
import logging
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from layover.desk.local.aws.dynamodb import items, queries, transactions
from layover.desk.local.aws.dynamodb.attributes import Item
from layover.desk.local.aws.dynamodb.errors import (
    DynamoDBError,
    SerializationError,
    UnknownOperation,
    ValidationError,
)
from layover.desk.local.aws.dynamodb.tables import SCHEMA, Table, Tables
from layover.desk.local.aws.dynamodb.writes import Done, Write, answer_of
from layover.desk.local.aws.storage import Storage

logger = logging.getLogger(__name__)

Document = dict[str, Any]
ItemListener = Callable[[Item | None, Item | None], object]
TARGET = "DynamoDB_20120810."
"""Prefix of every operation's `X-Amz-Target`."""


class DynamoDB:
    """All tables. Every operation is one transaction, so threads may share this. It calls `on_change` for
    each item that was written, with the old and the new item, once the new one is in the store."""

    def __init__(self, storage: Storage, on_change: ItemListener | None = None) -> None:
        self._storage = storage
        self._on_change = on_change
        self._tables = Tables()
        storage.create(SCHEMA)
        self._operations: dict[str, Callable[[Document], Document]] = {
            "GetItem": partial(self._read, queries.get),
            "PutItem": partial(self._write, "Put"),
            "UpdateItem": partial(self._write, "Update"),
            "DeleteItem": partial(self._write, "Delete"),
            "Query": partial(self._read, queries.query),
            "Scan": partial(self._read, queries.scan),
            "TransactWriteItems": self._transact_write,
            "CreateTable": self._create_table,
            "ListTables": self._list_tables,
            "UpdateTimeToLive": self._update_time_to_live,
        }

    def call(self, operation: str, request: Document) -> Document:
        """Return the result of an operation. Raises DynamoDBError."""
        if operation not in self._operations:
            raise UnknownOperation(f"{operation} is not served on one machine")
        try:
            return self._operations[operation](request)
        except KeyError as error:
            raise ValidationError(
                f"The parameter {error} is required but was not present"
            ) from error

    def respond(self, operation: str, body: bytes) -> tuple[int, bytes]:
        """Return the HTTP status and the body of the response to a request."""
        try:
            try:
                request = json.loads(body or b"{}")
            except ValueError as error:
                raise SerializationError(f"The body is not JSON: {error}") from error
            if not isinstance(request, dict):
                raise SerializationError("Start of structure or map found where not expected")
            return 200, _encode(self.call(operation, request))
        except DynamoDBError as error:
            return error.status, _encode(error.document())

    def expire_items(self, name: str, now: datetime) -> int:
        """Delete items that have outlived their time to live, as AWS does within some days; return how
        many."""
        with self._storage.transaction() as connection:
            return items.expire(connection, self._tables.get(connection, name), now.timestamp())

    def _read(self, query: Callable[..., Document], request: Document) -> Document:
        with self._storage.reading() as connection:
            table = self._tables.get(connection, request["TableName"])
            return query(connection, table, request)

    def _write(self, kind: str, request: Document) -> Document:
        with self._storage.transaction() as connection:
            table = self._tables.get(connection, request["TableName"])
            write = Write.read(table, kind, request)
            done = write.apply(connection)
        # After the transaction: a listener may ask the store, and must hear of nothing that was rolled back.
        self._tell([done])
        return answer_of(write, done, request)

    def _transact_write(self, request: Document) -> Document:
        with self._storage.transaction() as connection:
            writes = transactions.write(connection, self._tables, request, time.time())
        self._tell(writes)
        return {}

    def _tell(self, writes: list[Done]) -> None:
        if self._on_change is None:
            return
        for each in writes:
            try:
                self._on_change(each.old, each.new)
            except Exception:  # The write is committed: a listener's error must not fail it.
                logger.exception("the listener of an item's change failed")

    def _create_table(self, request: Document) -> Document:
        with self._storage.transaction() as connection:
            table = self._tables.create(connection, request)
        return {"TableDescription": {**table.document, "TableStatus": "ACTIVE"}}

    def _list_tables(self, request: Document) -> Document:
        with self._storage.reading() as connection:
            return {"TableNames": self._tables.names(connection)}

    def _update_time_to_live(self, request: Document) -> Document:
        with self._storage.transaction() as connection:
            table = self._tables.get(connection, request["TableName"])
            specification = request["TimeToLiveSpecification"]
            new_table = Table({**table.document, "TimeToLive": specification})
            self._tables.save(connection, new_table)
        return {"TimeToLiveSpecification": specification}


def _encode(document: Document) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
