"""Leftovers of an earlier stack: inspected before a deployment adopts or abandons them."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from layover.adapters.journal.items.schema import TABLE, TIME_TO_LIVE
from layover.desk.cdk.adoption import Client, is_new, problems
from layover.desk.cdk.deployed import Place, find
from layover.desk.cdk.settings import Settings
from layover.desk.shipped import release
from support.aws.mocked import REGION, make_client


@pytest.fixture
def client() -> Iterator[Client]:
    with mock_aws():
        yield make_client


def table(client: Client, **changes: Any) -> str:
    client("dynamodb").create_table(TableName="before", **(TABLE | changes))
    return "before"


def stack(client: Client, outputs: dict[str, Any] | None = None, **resources: str) -> None:
    """A stage `dev` as it is deployed: resources by their kinds."""
    made = {name: {"Type": kind} for name, kind in resources.items()}
    template = {
        "Resources": made or {"T": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {name: {"Value": value} for name, value in (outputs or {}).items()},
    }
    client("cloudformation").create_stack(
        StackName="layover-dev", TemplateBody=json.dumps(template)
    )


def said(client: Client, **settings: Any) -> str:
    return "\n".join(problems(Settings(**settings), client))


def test_table_that_is_not_there_is_named(client: Client) -> None:
    assert "no table before" in said(client, adopt_table="before")


def test_table_without_our_indexes_is_refused(client: Client) -> None:
    only = TABLE["GlobalSecondaryIndexes"][:1]
    attributes = TABLE["AttributeDefinitions"][:4]
    table(client, GlobalSecondaryIndexes=only, AttributeDefinitions=attributes)
    assert "before has no index gsi2" in said(client, adopt_table="before")


def test_restored_table_has_lost_its_expiry_and_the_mend_is_said(client: Client) -> None:
    table(client)
    assert "aws dynamodb update-time-to-live --table-name before" in said(
        client, adopt_table="before"
    )


def test_table_whose_index_has_other_attributes_is_refused(client: Client) -> None:
    table(client, GlobalSecondaryIndexes=indexes(gsi1=["id"]))
    assert "the index gsi1 of before is another one" in said(client, adopt_table="before")


@pytest.mark.parametrize(("deployed", "next_"), [(False, True), (True, False)])
def test_cluster_whose_key_would_change_is_not_replaced_by_an_empty_one(
    deployed: bool, next_: bool
) -> None:
    properties = {"KmsKeyId": "arn:aws:kms:eu-west-1:123456789012:key/0a"} if deployed else {}
    client = deployed_as({"D": {"Type": "AWS::RDS::DBCluster", "Properties": properties}})
    told = "\n".join(problems(Settings(own_key=next_), client))
    assert "would replace it by an empty one" in told
    assert f"Write own_key={str(deployed).lower()}, which wins over the size small" in told
    assert list(problems(Settings(own_key=deployed), client)) == []


def test_restored_cluster_has_the_key_of_its_snapshot_whatever_the_size() -> None:
    properties = {"SnapshotIdentifier": "before"}
    client = deployed_as({"D": {"Type": "AWS::RDS::DBCluster", "Properties": properties}})
    settings = Settings(size="production", alarms_email="a@example.com", restore_snapshot="before")
    assert settings.own_key
    assert list(problems(settings, client)) == []


def indexes(**attributes: list[str]) -> list[dict[str, Any]]:
    """The table's indexes, some with other attributes than today."""
    changed = [copy.deepcopy(index) for index in TABLE["GlobalSecondaryIndexes"]]
    for index in changed:
        if index["IndexName"] in attributes:
            index["Projection"]["NonKeyAttributes"] = attributes[index["IndexName"]]
    return changed


def deployed_with(*made: dict[str, Any]) -> Client:
    properties = {"GlobalSecondaryIndexes": list(made)}
    return deployed_as({"Table": {"Type": "AWS::DynamoDB::Table", "Properties": properties}})


def deployed_as(resources: dict[str, Any]) -> Client:
    client = Deployed({"Resources": resources})
    return lambda _: client


def test_deployment_that_would_change_an_index_in_place_is_refused() -> None:
    text = said(deployed_with(*indexes(gsi1=["id", "title"])))
    assert "the index gsi1 of the table of layover-dev would change" in text
    assert "another name" in text


def test_deployment_that_would_move_two_indexes_at_once_is_refused() -> None:
    first, _ = indexes()
    text = said(deployed_with({**first, "IndexName": "gsi0"}))
    assert "would gain or lose the indexes gsi0, gsi1, gsi2" in text


def test_deployment_that_leaves_the_indexes_or_makes_one_goes_on() -> None:
    first, second = indexes()
    first["Projection"]["NonKeyAttributes"].reverse()
    assert said(deployed_with(first, second)) == ""
    assert said(deployed_with(first)) == ""


def test_table_that_fits_is_adopted(client: Client) -> None:
    client("dynamodb").update_time_to_live(
        TableName=table(client), TimeToLiveSpecification=TIME_TO_LIVE
    )
    assert said(client, adopt_table="before") == ""


def test_bucket_and_pool_that_are_not_there_are_named(client: Client) -> None:
    text = said(client, adopt_bucket="before", adopt_user_pool=f"{REGION}_Before")
    assert "adopt_bucket: before" in text
    assert f"no user pool {REGION}_Before" in text


def test_bucket_and_pool_that_are_there_are_adopted(client: Client) -> None:
    where = {"LocationConstraint": REGION}
    client("s3").create_bucket(Bucket="before", CreateBucketConfiguration=where)
    pool = client("cognito-idp").create_user_pool(PoolName="before")["UserPool"]["Id"]
    assert said(client, adopt_bucket="before", adopt_user_pool=pool) == ""


def test_snapshot_does_not_take_the_place_of_a_database(client: Client) -> None:
    stack(client)
    assert "would replace it" in said(client, restore_snapshot="before")


def test_snapshot_of_which_the_database_was_made_is_not_forgotten() -> None:
    """moto makes no clusters of snapshots: the answers are as CloudFormation gives them."""
    template = {
        "Resources": {
            "C": {"Type": "AWS::RDS::DBCluster", "Properties": {"SnapshotIdentifier": "before"}}
        }
    }
    deployed = Deployed(template)
    assert "restore_snapshot=before" in said(lambda _: deployed)
    assert said(lambda _: deployed, restore_snapshot="before") == ""


class Deployed:
    """CloudFormation with one stack."""

    def __init__(self, template: dict[str, Any]) -> None:
        self._template = template

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        return {"Stacks": [{"StackStatus": "UPDATE_COMPLETE"}]}

    def get_template(self, **_: str) -> dict[str, Any]:
        return {"TemplateBody": self._template}


def test_adopted_table_and_bucket_are_not_forgotten(client: Client) -> None:
    stack(client, {"TableName": "before", "BucketName": "before-bucket"})
    text = said(client)
    assert "without adopt_table=before" in text
    assert "without adopt_bucket=before-bucket" in text


def test_adopted_users_are_not_forgotten() -> None:
    client = Deployed({"Resources": {"People": {"Type": "AWS::Cognito::UserPoolClient"}}})
    assert "nobody could sign in" in said(lambda _: client)
    assert said(lambda _: client, issuer="https://id.example", audience=("a",)) == ""


def test_stack_of_its_own_has_nothing_to_forget(client: Client) -> None:
    stack(client, {"TableName": {"Ref": "Topic"}}, Topic="AWS::SNS::Topic")
    assert said(client) == ""


def test_first_deployment_is_known(client: Client) -> None:
    assert is_new(Settings(), client)
    stack(client)
    assert not is_new(Settings(), client)
    assert is_new(Settings(stage="prod"), client)


def test_stack_that_never_came_to_be_is_new() -> None:
    failed = Deployed({"Resources": {}})
    failed.describe_stacks = lambda **_: {"Stacks": [{"StackStatus": "ROLLBACK_COMPLETE"}]}  # type: ignore[method-assign]
    assert is_new(Settings(), lambda _: failed)


@pytest.mark.parametrize("newer", ["99.0.0", "0.99.0", "0.1.0.1"])
def test_release_older_than_the_deployed_one_is_refused_with_the_way_back(
    client: Client, newer: str
) -> None:
    stack(client, {"Release": newer})
    refused = said(client)
    assert f"release {newer} is deployed, and this is {release()}" in refused
    assert "move the aliases" in refused


@pytest.mark.parametrize("older", ["0.0.9", "0.1.0", "0.0.0.dev1"])
def test_release_that_is_not_older_passes(client: Client, older: str) -> None:
    stack(client, {"Release": older})
    assert "is deployed, and this is" not in said(client)


def test_stack_from_before_releases_were_told_passes(client: Client) -> None:
    stack(client, {"ApiUrl": "https://a.example"})
    assert "is deployed, and this is" not in said(client)


def test_only_what_the_construct_made_counts_in_a_stack_of_ones_own(client: Client) -> None:
    """Their cluster came from a snapshot, their table has other indexes, their outputs are theirs."""
    template = {
        "Resources": {
            "Agents": {"Type": "AWS::SNS::Topic"},
            "Orders": {
                "Type": "AWS::DynamoDB::Table",
                "Properties": {
                    "TableName": "orders",
                    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                    "BillingMode": "PAY_PER_REQUEST",
                },
            },
        },
        "Outputs": {"TableName": {"Value": "orders"}, "AgentsRelease": {"Value": "99.0.0"}},
    }
    client("cloudformation").create_stack(StackName="shop", TemplateBody=json.dumps(template))
    place = Place(stack="shop", id="Agents")
    (found,) = problems(Settings(), client, place)
    assert "release 99.0.0 is deployed" in found
    assert not is_new(Settings(), client, place)
    assert is_new(Settings(), client)


MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:"


def shop(client: Client, stack: str = "shop", **outputs: str) -> None:
    """A stack of the deployer's with these outputs."""
    template = {
        "Resources": {"Cluster": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }
    client("cloudformation").create_stack(StackName=stack, TemplateBody=json.dumps(template))


def test_system_that_no_stack_has_is_not_found(client: Client) -> None:
    shop(
        client, StateMachineArn=f"{MACHINE}shop-run", AgentsStateMachineArn=f"{MACHINE}shop-dev-go"
    )
    shop(client, "shop-prod", ApiUrl="https://shop.example")
    assert find("shop-dev", client("cloudformation")) is None
    assert find("shop-prod", client("cloudformation")) is None


def test_system_is_found_in_whichever_stack_has_it(client: Client) -> None:
    """Most projects put it next to other things, and each stack has an id for it."""
    for number in range(120):
        shop(client, f"other-{number}")
    shop(
        client,
        "backend",
        ApiUrl="https://shop.example",
        AgentsStateMachineArn=f"{MACHINE}shop-dev-run",
        AgentsRelease="0.0.9",
        HelpersStateMachineArn=f"{MACHINE}shop-prod-run",
        HelpersRelease="99.0.0",
    )
    deployed = find("shop-dev", client("cloudformation"))
    assert deployed is not None
    assert deployed.place == Place("backend", "Agents")
    assert deployed.release == "0.0.9"
    assert "ApiUrl" not in deployed.outputs
    other = find("shop-prod", client("cloudformation"))
    assert other is not None
    assert (other.place.id, other.release) == ("Helpers", "99.0.0")


def test_system_that_is_all_of_its_stack_is_found_by_one_request(client: Client) -> None:
    shop(client, "layover-dev", StateMachineArn=f"{MACHINE}layover-dev-run", Release="0.1.0")
    cloudformation = client("cloudformation")
    cloudformation.get_paginator = None
    deployed = find("layover-dev", cloudformation)
    assert deployed is not None
    assert (deployed.place, deployed.release) == (Place("layover-dev", ""), "0.1.0")


def test_first_system_in_a_stack_that_is_there_is_new_and_nothing_of_the_stack_counts(
    client: Client,
) -> None:
    """Their cluster was taken for the system's, and what it was made of had to be named."""
    shop(client, "layover-dev", TableName="orders")
    assert is_new(Settings(), client, None)
    assert list(problems(Settings(restore_snapshot="before"), client, None)) == []
    assert "adopt_table: there is no table before" in "".join(
        problems(Settings(adopt_table="before"), client, None)
    )
