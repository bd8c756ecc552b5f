"""Forms that a deployment can take: other ways out, a guest in what is there already, and one for many."""

import json
from typing import Any

import pytest

from layover.desk.cdk.calls import CALLS
from layover.desk.cdk.settings import FUNCTIONS
from support.aws.templates import Synthesized, listed

NAMES = sorted(FUNCTIONS)


@pytest.fixture(params=["gateway", "guest", "production", "ipv6"])
def stack(request: pytest.FixtureRequest) -> Synthesized:
    """Each form."""
    found: Synthesized = request.getfixturevalue(request.param)
    return found


def test_no_rule_is_broken_silently(stack: Synthesized) -> None:
    assert "ERROR" not in stack.said
    assert "WARNING" not in stack.said


@pytest.mark.form
def test_cfn_lint_has_nothing_to_say(stack: Synthesized) -> None:
    assert stack.linted() == []


def test_gateway_takes_the_place_of_the_instance(gateway: Synthesized) -> None:
    assert len(gateway.of_type("AWS::EC2::NatGateway")) == 1
    assert gateway.of_type("AWS::EC2::Instance") == {}
    assert len(gateway.of_type("AWS::EC2::VPCEndpoint")) == 2


def test_guest_brings_no_network(guest: Synthesized) -> None:
    kinds = {r["Type"] for r in guest.template["Resources"].values()}
    ec2 = {kind for kind in kinds if kind.startswith("AWS::EC2")}
    assert ec2 == {"AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress"}


def test_guest_is_in_the_subnets_that_it_was_given(guest: Synthesized) -> None:
    placed = {
        n: f["VpcConfig"]["SubnetIds"] for n, f in guest.functions().items() if "VpcConfig" in f
    }
    assert placed.keys() == {name for name, each in FUNCTIONS.items() if each.postgres}
    assert all(subnets == ["subnet-0a", "subnet-0b"] for subnets in placed.values())
    assert guest.one("AWS::RDS::DBSubnetGroup")["SubnetIds"] == ["subnet-0c", "subnet-0d"]
    groups = guest.of_type("AWS::EC2::SecurityGroup").values()
    assert {g["Properties"]["VpcId"] for g in groups} == {"vpc-0123456789abcdef0"}


def test_functions_in_the_subnets_are_told_the_only_way_out(guest: Synthesized) -> None:
    for function in guest.functions().values():
        variables = function["Environment"]["Variables"]
        told = variables.get("HTTPS_PROXY"), variables.get("NO_PROXY")
        if "VpcConfig" in function:
            excluded = "dynamodb.eu-west-1.amazonaws.com,.s3.eu-west-1.amazonaws.com"
            assert told == ("http://proxy.example:3128", excluded)
        else:
            assert told == (None, None)


def test_what_is_adopted_is_not_made_again(guest: Synthesized) -> None:
    for kind in ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Cognito::UserPool"):
        assert guest.of_type(kind) == {}
    for function in guest.functions().values():
        assert function["Environment"]["Variables"].get("LAYOVER_TABLE") in (None, "layover-before")
    outputs = guest.template["Outputs"]
    assert outputs["TableName"]["Value"] == "layover-before"
    assert outputs["BucketName"]["Value"] == "layover-before-bucket"


@pytest.mark.parametrize("name", NAMES)
def test_role_may_do_the_same_with_what_is_adopted(
    guest: Synthesized, plain: Synthesized, name: str
) -> None:
    assert actions(guest, name) == actions(plain, name)
    resources = json.dumps([s["Resource"] for s in guest.statements(name)])
    calls = CALLS[name]
    assert ("table/layover-before" in resources) == bool(calls.journal)
    assert ("table/layover-before/index/*" in resources) == calls.index
    assert (":s3:::layover-before-bucket/u/*" in resources) == bool(calls.blobs)


def actions(stack: Synthesized, name: str) -> set[str]:
    """Of the provider of users and models, nothing differs."""
    return {action for s in stack.statements(name) for action in listed(s["Action"])}


def test_people_of_the_adopted_pool_sign_in_at_clients_of_this_stack(guest: Synthesized) -> None:
    client = guest.one("AWS::Cognito::UserPoolClient")
    assert client["UserPoolId"] == "eu-west-1_Before"
    issuer = guest.one("AWS::ApiGatewayV2::Authorizer")["JwtConfiguration"]["Issuer"]
    assert spelled(issuer).endswith("/eu-west-1_Before")
    assert spelled(issuer) == spelled(
        guest.functions()["api"]["Environment"]["Variables"]["LAYOVER_ISSUER"]
    )


def spelled(value: Any) -> str:
    """A joined string, with what AWS fills in left out."""
    return "".join(part for part in value["Fn::Join"][1] if isinstance(part, str))


def test_cluster_begins_as_the_snapshot_was(guest: Synthesized) -> None:
    cluster = guest.one("AWS::RDS::DBCluster")
    assert cluster["SnapshotIdentifier"] == "layover-before-snapshot"
    # CloudFormation wants these unsaid beside a snapshot.
    for name in ("MasterUsername", "MasterUserPassword", "DatabaseName", "StorageEncrypted"):
        assert name not in cluster
    # The migrations sign in as the owner, with a password that RDS makes anew.
    assert cluster["ManageMasterUserPassword"] is True
    assert guest.of_type("AWS::SecretsManager::Secret") == {}
    admin = guest.functions()["migrate"]["Environment"]["Variables"]["LAYOVER_DATABASE_ADMIN_URL"]
    assert "postgresql://layover_owner@" in json.dumps(admin)
