"""Everything that AWS on one machine has acknowledged survives its end, of whatever kind."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from layover.desk.local.aws.clients import make_client
from layover.desk.local.aws.emulator import BUCKET_NAME, STATE_MACHINE_ARN, TABLE_NAME, AwsServer
from layover.desk.local.aws.storage import Storage, StorageFailed
from layover.desk.local.functions.lambda_service import LambdaService
from support.aws.emulator import WAITS

RESTS = {
    "StartAt": "Items",
    "States": {
        "Items": {"Type": "Pass", "Result": [{"s": 0}, {"s": 2}], "Next": "Both"},
        "Both": {
            "Type": "Map",
            "ItemProcessor": {
                "StartAt": "Rest",
                "States": {
                    "Rest": {"Type": "Wait", "SecondsPath": "$.s", "Next": "After"},
                    "After": {"Type": "Pass", "Result": "rested", "End": True},
                },
            },
            "End": True,
        },
    },
}


@contextmanager
def serving(folder: Path, definition: dict[str, Any] = WAITS) -> Iterator[AwsServer]:
    """A server over this folder's store, with what was open going on."""
    machine = folder / "machine.json"
    machine.write_text(json.dumps(definition))
    server = AwsServer(LambdaService(), data=folder / "aws.sqlite")
    server.start()
    try:
        server.make_resources(machine)
        server.resume_executions()
        yield server
    finally:
        server.stop_executions()
        server.stop()


def start(server: AwsServer, name: str) -> str:
    states = make_client("stepfunctions", server.endpoint_url, server.access_key)
    answer = states.start_execution(stateMachineArn=STATE_MACHINE_ARN, name=name, input="{}")
    return str(answer["executionArn"])


def eventually(check: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (answer := check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return answer


def token_of(server: AwsServer, name: str) -> str:
    table = make_client("dynamodb", server.endpoint_url, server.access_key)
    key = {"pk": {"S": "TOKENS"}, "sk": {"S": name}}
    read = lambda: table.get_item(TableName=TABLE_NAME, Key=key).get("Item")  # noqa: E731
    return str(eventually(read)["task_token"]["S"])


def end_of(server: AwsServer, arn: str) -> dict[str, Any]:
    states = make_client("stepfunctions", server.endpoint_url, server.access_key)

    def closed() -> Any:
        found = states.describe_execution(executionArn=arn)
        return found if found["status"] != "RUNNING" else None

    found: dict[str, Any] = eventually(closed)
    return found


def test_task_token_of_before_the_restart_is_taken_after_it(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        arn, token = start(server, "waits-1"), token_of(server, "waits-1")
    with serving(tmp_path) as server:
        assert token_of(server, "waits-1") == token
        states = make_client("stepfunctions", server.endpoint_url, server.access_key)
        states.send_task_success(taskToken=token, output='"yes"')
        found = end_of(server, arn)
        assert (found["status"], found["output"]) == ("SUCCEEDED", '"yes"')
        with pytest.raises(states.exceptions.TaskTimedOut):
            states.send_task_success(taskToken=token, output='"no"')


def test_branches_go_on_where_they_were_and_are_not_entered_twice(tmp_path: Path) -> None:
    with serving(tmp_path, RESTS) as server:
        arn = start(server, "rests-1")
    with serving(tmp_path, RESTS) as server:
        assert json.loads(end_of(server, arn)["output"]) == ["rested", "rested"]
        states = make_client("stepfunctions", server.endpoint_url, server.access_key)
        events = states.get_execution_history(executionArn=arn)["events"]
        names = [
            e["stateEnteredEventDetails"]["name"] for e in events if "stateEnteredEventDetails" in e
        ]
        assert sorted(names) == ["After", "After", "Both", "Items", "Rest", "Rest"]


def test_name_of_an_execution_that_is_over_is_used_up_after_a_restart_too(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        arn = start(server, "once-1")
        make_client("stepfunctions", server.endpoint_url, server.access_key).stop_execution(
            executionArn=arn
        )
    with serving(tmp_path) as server, pytest.raises(ClientError, match="ExecutionAlreadyExists"):
        start(server, "once-1")


def test_items_objects_and_events_are_there_after_a_restart(tmp_path: Path) -> None:
    item = {"pk": {"S": "p"}, "sk": {"S": "s"}, "n": {"N": "1.50"}, "gsi1pk": {"S": "o"}}
    item |= {"gsi1sk": {"S": "k"}}
    entry = {"Source": "s", "DetailType": "t", "Detail": '{"x": 1}'}
    with serving(tmp_path) as server:
        make_client("dynamodb", server.endpoint_url, server.access_key).put_item(
            TableName=TABLE_NAME, Item=item
        )
        make_client("events", server.endpoint_url, server.access_key).put_events(Entries=[entry])
        s3 = make_client("s3", server.endpoint_url, server.access_key)
        more: Any = {"ContentType": "image/png", "Metadata": {"by_whom": "ann"}}
        s3.put_object(Bucket=BUCKET_NAME, Key="u/a b.png", Body=b"\x00\xff", **more)
        s3.put_object(Bucket=BUCKET_NAME, Key="gone", Body=b"x")
        s3.delete_objects(Bucket=BUCKET_NAME, Delete={"Objects": [{"Key": "gone"}]})
        before = s3.head_object(Bucket=BUCKET_NAME, Key="u/a b.png")
    with serving(tmp_path) as server:
        table = make_client("dynamodb", server.endpoint_url, server.access_key)
        found = table.query(
            TableName=TABLE_NAME,
            IndexName="gsi1",
            KeyConditionExpression="gsi1pk = :o",
            ExpressionAttributeValues={":o": {"S": "o"}},
        )["Items"]
        assert found == [{k: v for k, v in item.items() if k != "n"}]  # what the index projects
        key = {"pk": item["pk"], "sk": item["sk"]}
        kept = table.get_item(TableName=TABLE_NAME, Key=key)["Item"]
        assert kept == item | {"n": {"N": "1.5"}}
        assert [each["detail"] for each in server.events.list()] == [{"x": 1}]
        s3 = make_client("s3", server.endpoint_url, server.access_key)
        listed = s3.list_objects_v2(Bucket=BUCKET_NAME)["Contents"]
        assert [each["Key"] for each in listed] == ["u/a b.png"]
        after = s3.get_object(Bucket=BUCKET_NAME, Key="u/a b.png")
        assert after["Body"].read() == b"\x00\xff"
        for name in ("ContentType", "Metadata", "ETag", "LastModified"):
            assert after[name] == before[name]


def test_store_of_another_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "aws.sqlite"
    made = Storage(path)
    with made.transaction() as connection:
        connection.execute("PRAGMA user_version=99")
    made.close()
    with pytest.raises(StorageFailed, match="belongs to another version of Layover"):
        Storage(path)


def test_store_that_is_no_database_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "aws.sqlite"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(StorageFailed, match="--data"):
        Storage(path)
    assert path.read_bytes() == b"no database" * 1000
