"""`layover user add`: against moto's Cognito and CloudFormation."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from botocore.exceptions import NoCredentialsError, NoRegionError
from moto import mock_aws
from typer.testing import CliRunner

from layover.desk.cli.main import app
from layover.desk.cli.users import Client, add, token
from layover.project import FILE
from support.aws.mocked import REGION, make_client


@pytest.fixture
def client() -> Iterator[Client]:
    with mock_aws():
        yield make_client


API = f"https://a1b2c3.execute-api.{REGION}.amazonaws.com"


def stack(client: Client, issuer: str, name: str = "layover-dev", id: str = "") -> None:
    """A deployed stage `dev`. `id`: of the construct, in a stack of one's own."""
    machine = f"arn:aws:states:{REGION}:123456789012:stateMachine:layover-dev-run"
    outputs = {f"{id}Issuer": issuer, f"{id}StateMachineArn": machine, f"{id}ApiUrl": API}
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


@pytest.mark.parametrize("id", ["", "Agents"])
def test_the_command_with_which_a_new_user_signs_in_can_be_pasted(
    client: Client, capsys: pytest.CaptureFixture[str], id: str
) -> None:
    made = client("cognito-idp").create_user_pool(PoolName="shop")["UserPool"]["Id"]
    stack(client, f"https://cognito-idp.{REGION}.amazonaws.com/{made}", "backend", id)
    assert add("ann@example.com", "dev", client) == 0
    assert capsys.readouterr().out.endswith(f" layover login --url {API}\n")


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


def groups(client: Client, pool_id: str, *names: str) -> None:
    """The pool has these groups."""
    for name in names:
        client("cognito-idp").create_group(UserPoolId=pool_id, GroupName=name)


def members(client: Client, pool_id: str, group: str) -> list[str]:
    """Addresses of the group's members."""
    users = client("cognito-idp").list_users_in_group(UserPoolId=pool_id, GroupName=group)["Users"]
    return [
        each["Value"] for user in users for each in user["Attributes"] if each["Name"] == "email"
    ]


@pytest.fixture
def in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Enters a project with these settings of `[deploy]`. The environment names no region."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)

    def enter(deploy: str) -> None:
        (tmp_path / FILE).write_text(f"[deploy]\n{deploy}\n", "utf-8")
        monkeypatch.chdir(tmp_path)

    return enter


def test_a_user_is_made_where_the_project_is_deployed(
    client: Client, in_project: Callable[[str], None]
) -> None:
    pool_id = pool(client)
    in_project(f'region = "{REGION}"')
    answer = CliRunner().invoke(app, ["user", "add", "ann@example.com"])
    assert answer.exit_code == 0, answer.output
    assert len(client("cognito-idp").list_users(UserPoolId=pool_id)["Users"]) == 1


def test_the_stage_is_the_one_of_the_project_unless_one_is_named(
    client: Client, in_project: Callable[[str], None]
) -> None:
    pool(client)
    in_project(f'region = "{REGION}"\nstage = "prod"')
    answer = CliRunner().invoke(app, ["user", "add", "ann@example.com"])
    assert answer.exit_code == 1
    assert "has layover-prod" in answer.output
    assert CliRunner().invoke(app, ["user", "add", "a@b.example", "--stage", "dev"]).exit_code == 0


def test_a_profile_of_the_project_that_is_not_there_is_named(
    client: Client, in_project: Callable[[str], None]
) -> None:
    in_project('profile = "nobodys"')
    answer = CliRunner().invoke(app, ["user", "add", "ann@example.com"])
    assert answer.exit_code == 1
    assert "nobodys" in answer.output


@pytest.mark.parametrize("wrong", ["finace", "Finance", "nobody knows"])
def test_a_group_that_is_not_there_is_named_and_no_user_is_made(
    client: Client, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    pool_id = pool(client)
    groups(client, pool_id, "finance", "ops")
    assert add("ann@example.com", "dev", client, ["ops", wrong]) == 1
    refusal = capsys.readouterr().err
    assert f"no group {wrong!r}" in refusal
    assert "finance" in refusal
    assert f"--user-pool-id {pool_id} --group-name" in refusal
    assert client("cognito-idp").list_users(UserPoolId=pool_id)["Users"] == []
    assert members(client, pool_id, "ops") == []


def test_a_new_user_is_in_every_group_that_was_named(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    pool_id = pool(client)
    groups(client, pool_id, "finance", "ops", "layover-operators")
    named = ["finance", "layover-operators", "finance"]
    assert add("ann@example.com", "dev", client, named) == 0
    assert members(client, pool_id, "finance") == ["ann@example.com"]
    assert members(client, pool_id, "layover-operators") == ["ann@example.com"]
    assert members(client, pool_id, "ops") == []
    text = capsys.readouterr().out
    assert "is in finance, layover-operators;" in text
    assert "first password" in text


def test_a_user_who_is_there_gets_the_group_and_no_mail(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    pool_id = pool(client)
    groups(client, pool_id, "finance")
    assert add("ann@example.com", "dev", client) == 0
    capsys.readouterr()
    assert add("ann@example.com", "dev", client, ["finance"]) == 0
    assert members(client, pool_id, "finance") == ["ann@example.com"]
    assert "first password" not in capsys.readouterr().out
    assert add("ann@example.com", "dev", client, ["finance"]) == 0


def test_groups_beyond_a_page_are_found(client: Client) -> None:
    pool_id = pool(client)
    groups(client, pool_id, *(f"team-{number:02}" for number in range(65)))
    assert add("ann@example.com", "dev", client, ["team-64"]) == 0
    assert members(client, pool_id, "team-64") == ["ann@example.com"]


def without(error: Exception) -> Client:
    """A machine on which every client fails so."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_machine_without_credentials_or_region_hears_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert add("ann@example.com", "dev", without(NoCredentialsError())) == 1
    credentials = capsys.readouterr().err
    assert "aws configure sso" in credentials
    assert "AWS_PROFILE" in credentials
    assert add("ann@example.com", "dev", without(NoRegionError())) == 1
    assert "or AWS_REGION" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "named"),
    [("", []), ("ann bo", []), ("ann", ["a,b"]), ("ann;scopes=audit", []), ("ann", ["a b"])],
)
def test_a_name_that_means_more_in_a_local_token_is_refused(
    capsys: pytest.CaptureFixture[str], name: str, named: list[str]
) -> None:
    assert token(name, named) == 1
    answer = capsys.readouterr()
    assert answer.out == ""
    assert "separate" in answer.err


def test_on_one_machine_the_token_of_such_a_user_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert token("bea", ["finance", "ops"]) == 0
    text = capsys.readouterr().out
    assert "Authorization: Bearer dev:bea;groups=finance,ops\n" in text
    assert "layover chat --user 'bea;groups=finance,ops'" in text


def test_the_command_takes_groups_and_this_machine() -> None:
    command = ["user", "add", "bea", "--group", "finance", "--group", "ops", "--local"]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0
    assert "dev:bea;groups=finance,ops" in answer.output
