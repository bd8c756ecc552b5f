"""Checks of the account before a deployment."""

import json
import re
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from layover.desk.cdk.preflight import account, context, describe, main, too_much
from layover.desk.cdk.settings import Settings
from support.aws.templates import listed

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "layers" / "shared" / "python" / "layover"
PAGE = ROOT / "docs" / "deploy" / "first-deployment.md"

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


def test_account_that_cannot_be_read_is_told_with_what_to_do_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert main(["--profile", "nobody"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("could not check the account (")
    assert "nobody" in said
    assert said.endswith(
        "); the command goes on without these checks. "
        "The page *First deployment* lists the rights that they need\n"
    )


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


CALL = re.compile(
    r"\.((?:admin|describe|get|head|list)_\w+)\(\s*(?:\w+=|\))|get_paginator\(\s*\"(\w+)\""
)
"""A call of a client of boto3's, with keywords or nothing, or page by page."""
ACTIONS = {
    "admin_add_user_to_group": "cognito-idp:AdminAddUserToGroup",
    "admin_create_user": "cognito-idp:AdminCreateUser",
    "describe_stacks": "cloudformation:DescribeStacks",
    "describe_table": "dynamodb:DescribeTable",
    "describe_time_to_live": "dynamodb:DescribeTimeToLive",
    "describe_user_pool": "cognito-idp:DescribeUserPool",
    "get_account_settings": "lambda:GetAccountSettings",
    "get_caller_identity": None,  # Everybody may.
    "get_credentials": None,  # Of this machine.
    "get_parameter": "ssm:GetParameter",
    "get_template": "cloudformation:GetTemplate",
    "head_bucket": "s3:ListBucket",
    "list_groups": "cognito-idp:ListGroups",
}
"""What IAM calls them."""


def actions_of(*patterns: str) -> set[str]:
    """The actions that the modules ask AWS for. Fails for a call that nobody has named yet."""
    code = "".join(path.read_text() for p in patterns for path in sorted(PACKAGE.glob(p)))
    calls = {call or paged for call, paged in CALL.findall(code)}
    return {action for call in calls if (action := ACTIONS[call])}


def test_the_page_gives_a_deployer_what_the_checks_read_and_nothing_else() -> None:
    section = PAGE.read_text().partition('id="deployer"')[2]
    (policy,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    actions = {a for s in json.loads(policy)["Statement"] for a in listed(s["Action"])}
    checks = (PACKAGE / "desk/cdk/preflight.py").read_text()
    parts = [
        f"desk/cdk/{name}.py"
        for name in re.findall(r"from layover\.desk\.cdk\.(\w+) import", checks)
    ]
    assert "desk/cdk/adoption.py" in parts
    asked = actions_of("desk/cdk/preflight.py", *parts, "desk/cli/deploy/*.py")
    assert actions == asked | {"sts:AssumeRole"}


def test_the_page_names_what_adding_a_user_needs() -> None:
    """Its stack is found by the same call as before a deployment."""
    (sentence,) = re.findall(r"`layover user add` needs .*?\.\n", PAGE.read_text(), re.DOTALL)
    assert set(re.findall(r"`(\w[\w-]*:\w+)`", sentence)) == (
        actions_of("desk/cli/users.py") | actions_of("desk/cdk/deployed.py")
    )
