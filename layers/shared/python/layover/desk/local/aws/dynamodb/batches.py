"""Reads and writes of many items without a transaction's promises."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from layover.desk.local.aws.dynamodb import items, queries
from layover.desk.local.aws.dynamodb.attributes import read_item, size_of
from layover.desk.local.aws.dynamodb.errors import ValidationError
from layover.desk.local.aws.dynamodb.tables import Tables
from layover.desk.local.aws.dynamodb.writes import Write

MAX_GETS, MAX_WRITES = 100, 25
MAX_BYTES = 16 * 1024 * 1024
"""Of all items that one BatchGetItem returns; the rest is left unprocessed."""


def get_all(
    connection: sqlite3.Connection, tables: Tables, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Carry out BatchGetItem. Raises ValidationError."""
    keys_by_table = request["RequestItems"]
    if not 1 <= sum(len(each["Keys"]) for each in keys_by_table.values()) <= MAX_GETS:
        raise ValidationError("Too many items requested for the BatchGetItem call")
    responses: dict[str, list[Any]] = {}
    unprocessed: dict[str, Any] = {}
    size = 0
    for name, each in keys_by_table.items():
        table = tables.get(connection, name)
        responses[name] = []
        if len({items.key_of(table, read_item(key), whole=True) for key in each["Keys"]}) < len(
            each["Keys"]
        ):
            raise ValidationError("Provided list of item keys contains duplicates")
        for key in each["Keys"]:
            if size >= MAX_BYTES:
                unprocessed.setdefault(name, {**each, "Keys": []})["Keys"].append(key)
                continue
            item = queries.get(connection, table, {**each, "Key": key}).get("Item")
            if item is not None:
                size += size_of(item)
                responses[name].append(item)
    return {"Responses": responses, "UnprocessedKeys": unprocessed}


def write_all(
    connection: sqlite3.Connection, tables: Tables, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Carry out BatchWriteItem. Raises ValidationError. Nothing is left unprocessed, because nothing here
    throttles."""
    actions_by_table = request["RequestItems"]
    number = sum(map(len, actions_by_table.values()))
    if not 1 <= number <= MAX_WRITES:
        raise ValidationError("Too many items requested for the BatchWriteItem call")
    writes = []
    for name, actions in actions_by_table.items():
        table = tables.get(connection, name)
        for action in actions:
            ((kind, body),) = action.items()
            writes.append(Write.read(table, kind.removesuffix("Request"), body))
    if len({(each.table.name, each.key) for each in writes}) < number:
        raise ValidationError("Provided list of item keys contains duplicates")
    for each in writes:
        each.apply(connection)
    return {"UnprocessedItems": {}}
