"""Refusals and answers of one machine's DynamoDB, beyond what the journal's contract asks of it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from layover.desk.local.aws.dynamodb.errors import DynamoDBError
from layover.desk.local.aws.dynamodb.service import DynamoDB
from layover.desk.local.aws.storage import Storage

TABLE: dict[str, Any] = {
    "TableName": "t",
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": kind}
        for name, kind in (("pk", "S"), ("sk", "S"), ("kept_by", "S"))
    ],
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by-keeper",
            "KeySchema": [{"AttributeName": "kept_by", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
}
OF_A: dict[str, Any] = {
    "KeyConditionExpression": "pk = :p",
    "ExpressionAttributeValues": {":p": {"S": "a"}},
}


class Table:
    def __init__(self, path: Path | None = None) -> None:
        self.service = DynamoDB(Storage(path))
        if "t" not in self.service.call("ListTables", {})["TableNames"]:
            self.service.call("CreateTable", TABLE)

    def ask(self, operation: str, **request: Any) -> dict[str, Any]:
        return self.service.call(operation, {"TableName": "t", **request})

    def put(self, sk: str, **fields: Any) -> None:
        self.ask("PutItem", Item=key(sk) | fields)

    def error(self, operation: str, **request: Any) -> DynamoDBError:
        with pytest.raises(DynamoDBError) as caught:
            self.ask(operation, **request)
        return caught.value


def key(sk: str, pk: str = "a") -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


@pytest.fixture
def table() -> Table:
    return Table()


# What is refused


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "can not be empty"),
        ("#n = ", "Syntax error"),
        ("name = :v", "reserved keyword: name"),
        ("#unknown = :v", "not defined; attribute name: #unknown"),
        ("#n = :unknown", "not defined; attribute value: :unknown"),
        ("attribute_exists(#n, :v)", "Incorrect number of operands"),
        ("#n = :v ;", "Syntax error"),
        ("attribute_exists(#n)", "unused in expressions: keys: {:v}"),
    ],
)
def test_expressions_that_are_wrong_are_refused(table: Table, expression: str, why: str) -> None:
    names = {"#n": "n"} if "#n" in expression else {}
    error = table.error(
        "PutItem",
        Item=key("1"),
        ConditionExpression=expression,
        ExpressionAttributeNames=names,
        ExpressionAttributeValues={":v": {"N": "1"}},
    )
    assert error.code == "ValidationException"
    assert why in str(error)


@pytest.mark.parametrize(
    "item",
    [
        {"pk": {"S": "a"}},
        key("1") | {"pk": {"S": ""}},
        key("1") | {"pk": {"N": "1"}},
        key("1") | {"kept_by": {"N": "1"}},
        key("1") | {"s": {"SS": []}},
        key("1") | {"s": {"SS": ["a", "a"]}},
        key("1") | {"n": {"N": "one"}},
        key("1") | {"n": {"N": "1" * 39}},
        key("1") | {"n": {"S": "a", "N": "1"}},
        key("1") | {"n": {"X": "a"}},
        key("1") | {"n": {"M": {}}},
        key("1") | {"b": {"S": "x" * 410_000}},
    ],
    ids=lambda item: str(item)[:60],
)
def test_items_that_dynamodb_does_not_keep_are_refused(table: Table, item: Any) -> None:
    assert table.error("PutItem", Item=item).code == "ValidationException"
    assert table.ask("Scan")["Count"] == 0


@pytest.mark.parametrize(
    "update",
    [
        "SET sk = :v",
        "SET a.b = :v",
        "SET a = :v, a = :v",
        "SET a = missing",
        "SET a",
        "SET a = :v + :v",
        "SET t = list_append(t, :v)",
        "ADD t :v",
        "DELETE t :v",
    ],
)
def test_updates_that_cannot_be_are_refused_and_change_nothing(table: Table, update: str) -> None:
    table.put("1", t={"S": "text"})
    values = {"ExpressionAttributeValues": {":v": {"N": "1"}}} if ":v" in update else {}
    error = table.error("UpdateItem", Key=key("1"), UpdateExpression=update, **values)
    assert error.code == "ValidationException"
    assert table.ask("GetItem", Key=key("1"))["Item"] == key("1") | {"t": {"S": "text"}}


def test_condition_that_fails_shows_the_item_only_where_it_is_asked_for(table: Table) -> None:
    table.put("1", t={"S": "text"})
    failing = {"Item": key("1"), "ConditionExpression": "attribute_not_exists(pk)"}
    assert "Item" not in table.error("PutItem", **failing).document()
    error = table.error("PutItem", **failing, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    assert error.document()["Item"]["t"] == {"S": "text"}


@pytest.mark.parametrize("body", [b"{no", b"[1]", b"\xff"])
def test_bodies_that_are_no_documents_are_refused(table: Table, body: bytes) -> None:
    status, answer = table.service.respond("GetItem", body)
    assert (status, json.loads(answer)["__type"].split("#")[1]) == (400, "SerializationException")


def test_unknown_tables_and_operations_have_errors_of_their_own(table: Table) -> None:
    assert (
        table.error("PutItem", TableName="none", Item=key("1")).code == "ResourceNotFoundException"
    )
    assert table.error("ExecuteStatement").code == "UnknownOperationException"
    assert table.error("CreateTable", **TABLE).code == "ResourceInUseException"


# What is answered


def test_numbers_have_one_form(table: Table) -> None:
    forms = {"10": "10", "-1.50": "-1.5", "007": "7", "0.0": "0", "1E+3": "1000", "-0.2": "-0.2"}
    for sent, kept in forms.items():
        table.put("1", n={"N": sent})
        assert table.ask("GetItem", Key=key("1"))["Item"]["n"] == {"N": kept}


@pytest.mark.parametrize("forward", [True, False])
def test_pages_of_a_query_and_of_a_scan_have_everything_once(table: Table, forward: bool) -> None:
    for number in range(7):
        table.put(str(number))
    for operation, request in (("Query", {**OF_A, "ScanIndexForward": forward}), ("Scan", {})):
        found: list[str] = []
        start: dict[str, Any] = {}
        while True:
            page = table.ask(operation, **request, Limit=3, **start)
            found += [item["sk"]["S"] for item in page["Items"]]
            if "LastEvaluatedKey" not in page:
                break
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
        assert sorted(found) == list("0123456")


def test_a_page_ends_after_a_megabyte(table: Table) -> None:
    for number in range(4):
        table.put(str(number), b={"S": "x" * 390_000})
    page = table.ask("Query", **OF_A)
    assert (page["Count"], page["LastEvaluatedKey"]) == (3, key("2"))


def test_an_index_has_what_it_projects_and_follows_its_items(table: Table) -> None:
    table.put("1", kept_by={"S": "x"}, t={"S": "text"})
    table.put("2")
    query: dict[str, Any] = {"IndexName": "by-keeper", "KeyConditionExpression": "kept_by = :o"}
    query |= {"ExpressionAttributeValues": {":o": {"S": "x"}}}
    assert table.ask("Query", **query)["Items"] == [key("1") | {"kept_by": {"S": "x"}}]
    table.ask("UpdateItem", Key=key("1"), UpdateExpression="REMOVE kept_by")
    assert table.ask("Query", **query)["Items"] == []


def test_updates_read_the_item_as_it_was(table: Table) -> None:
    table.put("1", a={"N": "1"}, b={"N": "5"}, c={"L": [{"S": "x"}]})
    answer = table.ask(
        "UpdateItem",
        Key=key("1"),
        UpdateExpression="SET a = b, b = a, c = list_append(c, c) ADD n :n REMOVE d",
        ExpressionAttributeValues={":n": {"N": "2"}},
        ReturnValues="ALL_NEW",
    )["Attributes"]
    assert (answer["a"], answer["b"], answer["n"]) == ({"N": "5"}, {"N": "1"}, {"N": "2"})
    assert answer["c"] == {"L": [{"S": "x"}, {"S": "x"}]}


@pytest.mark.parametrize(
    ("operation", "request_"),
    [
        ("Query", {**OF_A, "FilterExpression": "attribute_exists(t)"}),
        ("Query", {**OF_A, "ProjectionExpression": "t"}),
        ("Query", {**OF_A, "Select": "COUNT"}),
        ("Scan", {"IndexName": "by-keeper"}),
        ("Scan", {"Segment": 1, "TotalSegments": 2}),
        ("PutItem", {"Item": key("1"), "ConditionExpression": "sk BETWEEN pk AND pk"}),
        ("PutItem", {"Item": key("1"), "ConditionExpression": "begins_with(sk, pk)"}),
    ],
)
def test_what_the_journal_does_not_send_is_refused_and_not_passed_over(
    table: Table, operation: str, request_: dict[str, Any]
) -> None:
    assert "not served on one machine" in str(table.error(operation, **request_))


def test_table_whose_keys_are_not_strings_is_refused(table: Table) -> None:
    numbers = [{"AttributeName": "pk", "AttributeType": "N"}]
    schema = [{"AttributeName": "pk", "KeyType": "HASH"}]
    error = table.error(
        "CreateTable", TableName="n", AttributeDefinitions=numbers, KeySchema=schema
    )
    assert "Keys that are not strings" in str(error)


def test_items_go_with_their_time_to_live_and_leave_the_index(table: Table) -> None:
    told = {"Enabled": True, "AttributeName": "expires"}
    table.ask("UpdateTimeToLive", TimeToLiveSpecification=told)
    table.put("1", expires={"N": "100"}, kept_by={"S": "x"})
    table.put("2", expires={"N": "300"})
    table.put("3", expires={"S": "soon"})
    assert table.service.expire_items("t", datetime.fromtimestamp(200, UTC)) == 1
    assert [item["sk"]["S"] for item in table.ask("Scan")["Items"]] == ["2", "3"]
    of_x: dict[str, Any] = {"KeyConditionExpression": "kept_by = :o"}
    of_x |= {"ExpressionAttributeValues": {":o": {"S": "x"}}}
    assert table.ask("Query", IndexName="by-keeper", **of_x)["Count"] == 0


def test_a_transactions_token_is_known_after_a_restart(tmp_path: Path) -> None:
    add = {"UpdateExpression": "ADD n :n", "ExpressionAttributeValues": {":n": {"N": "1"}}}
    update = {"Update": {"TableName": "t", "Key": key("1"), **add}}
    request = {"TransactItems": [update], "ClientRequestToken": "once"}
    for _ in range(2):
        table = Table(tmp_path / "store")
        table.service.call("TransactWriteItems", request)
    assert table.ask("GetItem", Key=key("1"))["Item"]["n"] == {"N": "1"}
