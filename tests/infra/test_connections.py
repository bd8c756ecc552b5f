"""Connections of users on AWS: what agents' code says of them, the key of their tokens, and who may use
it."""

import json
from pathlib import Path

import pytest

from layover.desk.cdk.calls import SEALS
from layover.desk.cdk.connections import Connections, connections_of
from layover.desk.cdk.settings import FUNCTIONS
from layover.desk.cdk.variables import check_size
from support.aws.templates import BANK_KEY, Synthesized, listed

GITHUB = (
    "Connection('github', authorize_url='https://g.example/a', token_url='https://g.example/t', "
    "client_id='i', client_secret={secret})"
)
VARIABLES = ("LAYOVER_CONNECTIONS_KEY", "LAYOVER_CONNECTIONS_URL")
TOOLS = {"turn", "resume"}

# What the code says

NONE = {
    "no Python": "Connection('github', token_url='https://g.example/t'",
    "no agents": "",
    "the deployment's own account": "Connection('crm', token_url='t', client_id='i', "
    "client_secret=secret('CRM'))",
    "said to be its own": "Connection('crm', token_url='t', client_id='i', authorize_url=None, "
    "client_secret=secret('CRM'))",
    "another class of that name": "from psycopg import Connection\nConnection('host=db', autocommit=True)",
    "with options": "from psycopg import Connection\nConnection(**options)",
    "another package's": "import psycopg\npsycopg.Connection(**options)",
    "a comment": f"# {GITHUB.format(secret=None)}",
    "a text": f'TEXT = "{GITHUB.format(secret=None)}"',
}
USERS = {
    "name": "from layover import Connection\n{}",
    "without an import": "{}",
    "other name": "from layover import Connection as Account\nAccount(**options)",
    "attribute": "import layover\nlayover.Connection(**options)",
    "renamed package": "import layover as lo\nlo.Connection(**options)",
    "module": "from layover.declare.connection import Connection\nConnection('g', **options)",
    "in a function": "def make():\n  return {}",
    "computed address": "Connection('g', token_url=t, client_id=i, authorize_url=page())",
    "of ours and another class": "import psycopg\npsycopg.Connection('x')\n{}",
}
SECRETS = {
    "literal": "secret('SHOP')",
    "class": "Secret('SHOP')",
    "attribute": "layover.secret('SHOP')",
    "constant": "SHOP",
    "constant elsewhere": "keys.SHOP",
    "name of a constant": "secret(SHOP_NAME)",
}
CONSTANTS = "SHOP_NAME = 'SHOP'\nSHOP = secret('SHOP')\n"
COMPUTED = {
    "call": "secret(name())",
    "parameter": "key",
    "function": "the_secret()",
    "name of itself": "LOOP",
    "text": "secret(f'{stage}_SECRET')",
    "one of two": "secret('SHOP') if stage else other",
}


def read(folder: Path, code: str) -> Connections:
    """What one module has."""
    (folder / "agents.py").write_text(code)
    return connections_of([folder])


@pytest.mark.parametrize("code", NONE.values(), ids=list(NONE))
def test_code_without_an_account_of_users_has_no_connections(tmp_path: Path, code: str) -> None:
    assert read(tmp_path, code) == Connections()


@pytest.mark.parametrize("code", USERS.values(), ids=list(USERS))
def test_account_of_users_is_found_in_every_spelling(tmp_path: Path, code: str) -> None:
    assert read(tmp_path, code.format(GITHUB.format(secret=None))).of_users


@pytest.mark.parametrize("secret", SECRETS.values(), ids=list(SECRETS))
def test_secret_of_a_connection_is_found_by_its_name(tmp_path: Path, secret: str) -> None:
    assert read(tmp_path, CONSTANTS + GITHUB.format(secret=secret)) == Connections(
        of_users=True, secrets=("SHOP",)
    )


@pytest.mark.parametrize("secret", COMPUTED.values(), ids=list(COMPUTED))
def test_secret_that_is_computed_is_told_with_its_line(tmp_path: Path, secret: str) -> None:
    found = read(tmp_path, f"LOOP = LOOP\n\n{GITHUB.format(secret=secret)}")
    assert found.of_users
    assert found.unclear == (f"{tmp_path / 'agents.py'}:3",)


def test_options_of_a_connection_may_have_a_secret(tmp_path: Path) -> None:
    found = read(tmp_path, "from layover import Connection\nConnection(**options)")
    assert found == Connections(of_users=True, unclear=(f"{tmp_path / 'agents.py'}:2",))


def test_each_secret_is_named_once_and_those_of_other_accounts_are_left_out(
    tmp_path: Path,
) -> None:
    own = "Connection('crm', token_url='t', client_id='i', client_secret=secret('CRM'))"
    users = [GITHUB.format(secret=f"secret('{name}')") for name in ("B", "A", "B")]
    assert read(tmp_path, "\n".join([own, *users])).secrets == ("A", "B")


def test_tests_of_agents_have_no_connections(tmp_path: Path) -> None:
    for name in ("test_agents.py", "conftest.py"):
        (tmp_path / name).write_text(GITHUB.format(secret=None))
    assert connections_of([tmp_path, tmp_path / "missing"]) == Connections()


# The stack without them


@pytest.fixture(
    params=[
        "vpc",
        "plain",
        pytest.param("ten_lines", marks=pytest.mark.form),
        pytest.param("everything_given", marks=pytest.mark.form),
    ]
)
def without(request: pytest.FixtureRequest) -> Synthesized:
    """Each stack without them."""
    found: Synthesized = request.getfixturevalue(request.param)
    return found


def test_stage_without_connections_has_no_key_and_nobody_may_use_one(without: Synthesized) -> None:
    assert without.of_type("AWS::KMS::Key") == without.of_type("AWS::KMS::Alias") == {}
    assert "kms:" not in json.dumps(without.template)
    for function in without.functions().values():
        assert not set(VARIABLES) & function["Environment"]["Variables"].keys()


# The stack with them


def test_no_rule_is_broken(connected: Synthesized) -> None:
    assert connected.linted() == []
    assert "[Error" not in connected.said


def test_key_is_rotated_and_stays_with_the_table(connected: Synthesized) -> None:
    (key,) = connected.of_type("AWS::KMS::Key").values()
    (table,) = connected.of_type("AWS::DynamoDB::Table").values()
    assert key["Properties"]["EnableKeyRotation"] is True
    assert key["Properties"]["PendingWindowInDays"] == 30
    for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
        assert key[policy] == table[policy]
    alias = connected.one("AWS::KMS::Alias")
    assert alias["AliasName"] == "alias/shop-prod-connections"


def test_only_the_account_itself_is_in_the_policy_of_the_key(connected: Synthesized) -> None:
    """Roles get the right from their own policies: else the key would name functions that are made later."""
    (statement,) = connected.one("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    assert "root" in json.dumps(statement["Principal"])
    assert "Function" not in json.dumps(statement)


def test_roles_may_use_the_key_for_this_deployment_and_no_more(connected: Synthesized) -> None:
    (key,) = connected.of_type("AWS::KMS::Key")
    for name in FUNCTIONS:
        mine = [
            s
            for s in connected.statements(name)
            if any(action.startswith("kms:") for action in listed(s["Action"]))
        ]
        allowed = {action.removeprefix("kms:") for s in mine for action in listed(s["Action"])}
        assert allowed == set(SEALS.get(name, ()))
        for statement in mine:
            assert statement["Resource"] == {"Fn::GetAtt": [key, "Arn"]}
            service = {"kms:EncryptionContext:layover": "shop-prod"}
            assert statement["Condition"] == {"StringEquals": service}
    assert SEALS["sweep"] == ("Decrypt",)
    assert SEALS.keys() == {"api", "resume", "streams", "sweep", "turn"}


def test_functions_with_the_key_know_it_and_the_page_to_come_back_to(
    connected: Synthesized,
) -> None:
    (key,) = connected.of_type("AWS::KMS::Key")
    for name, function in connected.functions().items():
        variables = function["Environment"]["Variables"]
        if name not in SEALS:
            assert not set(VARIABLES) & variables.keys()
            continue
        assert variables["LAYOVER_CONNECTIONS_KEY"] == {"Fn::GetAtt": [key, "Arn"]}
        assert variables["LAYOVER_CONNECTIONS_URL"] == "https://agents.example.com/connected"
        assert variables["LAYOVER_SERVICE"] == "shop-prod"
        check_size(name, variables)


def test_secrets_of_connections_are_read_by_those_who_ask_their_services(
    connected: Synthesized,
) -> None:
    """The other secrets of tools stay with the tools."""
    for name, function in connected.functions().items():
        variables = function["Environment"]["Variables"]
        places = {
            action: json.dumps(s["Resource"])
            for s in connected.statements(name)
            for action in listed(s["Action"])
            if action in ("ssm:GetParameter", "secretsmanager:GetSecretValue")
        }
        names = variables.get("LAYOVER_TOOL_SECRETS")
        if name in TOOLS:
            assert names == "SHOP_KEY,GITHUB_SECRET,BANK_KEY"
        elif name in SEALS:
            of_slack = ",SLACK_BOT_TOKEN,SLACK_SIGNING_SECRET" if name == "api" else ""
            assert names == f"GITHUB_SECRET,BANK_KEY{of_slack}"
            assert "SHOP_KEY" not in variables
            assert variables["GITHUB_SECRET"] == "/shop/github"
            assert BANK_KEY in places["secretsmanager:GetSecretValue"]
            assert "parameter/shop/github" in places["ssm:GetParameter"]
            assert "parameter/shop/key" not in places["ssm:GetParameter"]
        elif name != "migrate":
            of_channels = "SLACK_BOT_TOKEN,TEAMS_FINANCE" if name == "notify" else None
            assert names == of_channels
            if name == "notify":
                continue
            assert "secretsmanager:GetSecretValue" not in places
            for place in ("parameter/shop/key", "parameter/shop/github"):
                assert place not in places.get("ssm:GetParameter", "")


def test_the_page_to_come_back_to_is_open_and_has_a_rate_of_its_own(
    connected: Synthesized,
) -> None:
    routes = [r["Properties"] for r in connected.of_type("AWS::ApiGatewayV2::Route").values()]
    (mine,) = (r for r in routes if r["RouteKey"] == "GET /connected/{connection}")
    assert mine["AuthorizationType"] == "NONE"
    assert "GET /connected/{connection}" in json.dumps(
        connected.of_type("AWS::ApiGatewayV2::Stage")
    )
