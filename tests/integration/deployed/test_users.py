"""`layover user add`: against moto's Cognito and CloudFormation."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import boto3
import pytest
from moto import mock_aws

from layover.cli.users import Client, add

REGION = "eu-west-1"


@pytest.fixture
def client() -> Iterator[Client]:
    with mock_aws():
        secrets = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
        yield partial(_made, secrets)


def _made(secrets: dict[str, str], service: str, region_name: str = REGION) -> Any:
    return boto3.client(service, region_name=region_name, **secrets)  # type: ignore[call-overload]


def stack(client: Client, issuer: str, name: str = "layover-dev", id: str = "") -> None:
    """A deployed stage `dev`. `id`: of the construct, in a stack of one's own."""
    machine = f"arn:aws:states:{REGION}:123456789012:stateMachine:layover-dev-run"
    outputs = {f"{id}Issuer": issuer, f"{id}StateMachineArn": machine}
    template = {
        "Resources": {"T": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }
    client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template))


def pool(client: Client) -> str:
    """The stage's user pool."""
    made: str = client("cognito-idp").create_user_pool(PoolName="layover-dev")["UserPool"]["Id"]
    stack(client, f"https://cognito-idp.{REGION}.amazonaws.com/{made}")
    return made


def test_stage_that_is_not_there_is_named(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("ann@example.com", "prod", client) == 1
    assert "layover-prod" in capsys.readouterr().err


def test_user_is_made_in_the_pool_of_a_stack_of_ones_own(client: Client) -> None:
    """A project's outputs have the id of its construct before their names."""
    made = client("cognito-idp").create_user_pool(PoolName="shop")["UserPool"]["Id"]
    stack(client, f"https://cognito-idp.{REGION}.amazonaws.com/{made}", "backend", "Agents")
    assert add("ann@example.com", "dev", client) == 0
    assert len(client("cognito-idp").list_users(UserPoolId=made)["Users"]) == 1


def test_users_of_another_provider_are_made_there(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    stack(client, "https://id.example/")
    assert add("ann@example.com", "dev", client) == 1
    assert "https://id.example/" in capsys.readouterr().err


def test_user_is_made_once(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    pool(client)
    assert add("ann@example.com", "dev", client) == 0
    assert add("ann@example.com", "dev", client) == 1
    assert "already" in capsys.readouterr().err


def test_new_user_has_an_address_that_is_vouched_for(client: Client) -> None:
    pool_id = pool(client)
    assert add("ann@example.com", "dev", client) == 0
    (user,) = client("cognito-idp").list_users(UserPoolId=pool_id)["Users"]
    attributes = {a["Name"]: a["Value"] for a in user["Attributes"]}
    assert attributes["email"] == "ann@example.com"
    assert attributes["email_verified"] == "true"
