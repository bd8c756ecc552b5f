"""Checks of the account before a deployment."""

import json

import boto3
import pytest
from moto import mock_aws

from layover.cdk.preflight import account, context, describe, main, too_much
from layover.cdk.settings import Settings

MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:"


@pytest.mark.parametrize("limit", [10, 100, 199])
def test_account_that_is_too_small_is_told_what_to_do(limit: int) -> None:
    problem = too_much(Settings(), limit)
    assert problem is not None
    assert "api_concurrency=0" in problem


@pytest.mark.parametrize(("wanted", "limit"), [(100, 200), (100, 1000), (0, 10)])
def test_account_that_is_large_enough_is_fine(wanted: int, limit: int) -> None:
    assert too_much(Settings(api_concurrency=wanted), limit) is None


def test_mistyped_setting_ends_it_before_the_account_is_looked_into(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["-c", "stge=prod"]) == 1
    assert (
        capsys.readouterr().err
        == "the context (-c, cdk.json): no setting 'stge': did you mean 'stage'?\n"
    )


@pytest.mark.parametrize("given", ["stage:prod", "stage", "prod", ""])
def test_setting_without_a_value_ends_it(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The CDK's command line only warns of it, and would deploy the stage `dev`."""
    assert main(["-c", given]) == 1
    assert capsys.readouterr().err == f"-c {given}: write NAME=VALUE\n"


def test_context_is_read_as_the_command_line_has_it() -> None:
    given = ["--profile", "me", "-c", "stage=prod", "--context", "origins=https://a=b"]
    assert context(given) == {"stage": "prod", "origins": "https://a=b"}
    assert context(["--context=retain=false"]) == {"retain": "false"}


def test_quota_is_that_of_the_account_and_region_of_the_command_line() -> None:
    assert account(["-c", "stage=prod", "--profile", "me"]) == {"profile_name": "me"}
    given = ["--profile=me", "--region", "eu-west-1"]
    assert account(given) == {"profile_name": "me", "region_name": "eu-west-1"}
    assert account([]) == {}


def test_what_is_deployed_is_told_before() -> None:
    assert describe(Settings(stage="prod")) == "stage prod: the defaults"
    assert describe(Settings(retain=False, model="some")) == "stage dev: model='some' retain=False"


def test_system_in_a_stack_of_ones_own_is_no_first_deployment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its stack has a name of the deployer's. Each deployment of it took the protection away for minutes."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a")
    where = ["--region", "eu-west-1"]
    template = {
        "Resources": {"T": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {"AgentsStateMachineArn": {"Value": f"{MACHINE}layover-dev-run"}},
    }
    with mock_aws():
        assert main(["--new", *where]) == 0
        cloudformation = boto3.client("cloudformation", region_name="eu-west-1")
        cloudformation.create_stack(StackName="shop", TemplateBody=json.dumps(template))
        assert main(["--new", *where]) == 1
        assert main(["--new", *where, "-c", "stage=prod"]) == 0
