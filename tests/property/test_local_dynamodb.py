"""The DynamoDB of one machine does what moto's does, one request after the other: on random conditions and
updates, written with neither in mind."""

import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from layover.desk.local.aws.dynamodb.errors import DynamoDBError
from layover.desk.local.aws.dynamodb.service import DynamoDB
from layover.desk.local.aws.storage import Storage

TABLE: dict[str, Any] = {
    "TableName": "t",
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "BillingMode": "PAY_PER_REQUEST",
}
NUMBERS = st.integers(-3, 3).map(lambda n: {"N": str(n)})
TEXTS = st.sampled_from(["", "a", "ab", "b"]).map(lambda s: {"S": s})
SETS = st.sets(st.sampled_from("abc"), min_size=1).map(lambda s: {"SS": sorted(s)})
LISTS = st.lists(NUMBERS, max_size=2).map(lambda v: {"L": v})
# Names, and the kind of value that each holds, where it holds any.
KINDS = {"n": NUMBERS, "x": TEXTS, "s": SETS, "l": LISTS}


class Expression:
    """An expression with the names and values that it uses."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def name(self, name: str) -> str:
        self.names[f"#{name}"] = name
        return f"#{name}"

    def value(self, value: Any) -> str:
        key = f":v{len(self.values)}"
        self.values[key] = value
        return key


@st.composite
def condition(draw: Any, into: Expression, depth: int = 2) -> str:
    """A condition on the item's attributes."""
    name = draw(st.sampled_from(sorted(KINDS)))
    kind = draw(st.integers(0, 4 if depth else 2))
    path = into.name(name)
    match kind:
        case 0:
            return f"attribute_exists({path})"
        case 1:
            return f"attribute_not_exists({path})"
        case 2:
            sign = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
            plain = into.name("n" if sign not in ("=", "<>") else name)
            return f"{plain} {sign} {into.value(draw(KINDS[plain[1:]]))}"
    joint = "AND" if kind == 3 else "OR"
    left, right = (draw(condition(into, depth - 1)) for _ in range(2))
    return f"({left}) {joint} {right}"


@st.composite
def update(draw: Any) -> dict[str, Any]:
    """An UpdateItem on one of two items."""
    into = Expression()
    clauses: dict[str, list[str]] = {}
    for name in draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True)):
        path = into.name(name)
        kind = draw(st.integers(0, 4))
        if kind == 0:
            clauses.setdefault("REMOVE", []).append(path)
        elif kind == 1 or name == "x":
            clauses.setdefault("SET", []).append(f"{path} = {into.value(draw(KINDS[name]))}")
        elif name == "n":
            number = into.value(draw(NUMBERS))
            first = ("SET", f"{path} = if_not_exists({path}, {number})")
            word, text = draw(st.sampled_from([("ADD", f"{path} {number}"), first]))
            clauses.setdefault(word, []).append(text)
        elif name == "s":
            word = draw(st.sampled_from(["ADD", "DELETE"]))
            clauses.setdefault(word, []).append(f"{path} {into.value(draw(SETS))}")
        else:
            empty, more = into.value({"L": []}), into.value(draw(LISTS))
            text = f"{path} = list_append(if_not_exists({path}, {empty}), {more})"
            clauses.setdefault("SET", []).append(text)
    request: dict[str, Any] = {
        "TableName": "t",
        "Key": {"pk": {"S": draw(st.sampled_from("ab"))}},
        "UpdateExpression": " ".join(f"{word} {', '.join(p)}" for word, p in clauses.items()),
        "ReturnValues": "ALL_NEW",
    }
    if draw(st.booleans()):
        request["ConditionExpression"] = draw(condition(into))
    request["ExpressionAttributeNames"] = into.names
    return request | ({"ExpressionAttributeValues": into.values} if into.values else {})


def plain(item: Any) -> Any:
    """Sets in order."""
    return {
        name: {"SS": sorted(value["SS"])} if "SS" in value else value
        for name, value in (item or {}).items()
    }


@pytest.fixture(scope="module")
def theirs() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "none")
        client = boto3.client("dynamodb", region_name="us-east-1")
        client.create_table(**TABLE)
        yield client


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(requests=st.lists(update(), min_size=2, max_size=6))
def test_both_do_the_same(theirs: Any, requests: list[dict[str, Any]]) -> None:
    storage, fresh = Storage(), uuid.uuid4().hex
    ours = DynamoDB(storage)
    ours.call("CreateTable", TABLE)
    for each in requests:
        request = each | {"Key": {"pk": {"S": fresh + each["Key"]["pk"]["S"]}}}
        try:
            expected = plain(theirs.update_item(**request).get("Attributes"))
        except ClientError as error:
            expected = error.response["Error"]["Code"]
        try:
            found = plain(ours.call("UpdateItem", request).get("Attributes"))
        except DynamoDBError as error:
            found = error.code
        assert found == expected, request
    storage.close()
