"""Passwords of the database, and the model provider's key: where they come from on AWS."""

import asyncio
import inspect
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import parse_qs

import boto3
import pytest
from botocore.stub import Stubber

from layover import wiring
from layover.adapters.aws.services import AwsServices
from layover.adapters.parameters import secret_parameter, secret_value
from layover.adapters.store.postgres.sign_in import iam_token, secret_password
from layover.errors import ConfigurationError, RetryableError
from layover.ports import secrets
from layover.values.deployment.environment import Environment
from support.aws.loopback import CLOSE, answer, bench, error, loopback

DSN = "postgresql://layover_runtime@db.example:5433/layover?sslmode=verify-full&sslrootcert=/opt/x"
REGION = "eu-west-1"


def session(**more: Any) -> boto3.session.Session:
    """A session with made-up credentials."""
    known = {
        "aws_access_key_id": "AKIDEXAMPLE",
        "aws_secret_access_key": "s",
        "region_name": REGION,
    }
    return boto3.session.Session(**(known | more))


def client(service: Literal["secretsmanager"]) -> Any:
    return session().client(service)


def aws(**more: str) -> AwsServices:
    """An environment with the same credentials; `more`: a further variable."""
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "s"}
    return AwsServices({**keys, "AWS_REGION": REGION, **more})


def test_url_without_a_user_is_refused_before_anybody_connects() -> None:
    with pytest.raises(ConfigurationError):
        iam_token("postgresql://db.example/layover", aws())


def test_token_without_a_region_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(ConfigurationError, match="region"):
        iam_token(DSN, aws(AWS_REGION=""))()


@pytest.mark.parametrize("session_token", ["", "temporary+/="])
def test_token_is_the_one_that_boto3_makes(
    monkeypatch: pytest.MonkeyPatch, session_token: str
) -> None:
    now = datetime.now(UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now)
    monkeypatch.setattr("time.time", now.timestamp)
    theirs = session(aws_session_token=session_token or None).client("rds")
    ours = iam_token(DSN, aws(AWS_SESSION_TOKEN=session_token))()
    host, _, query = ours.partition("?")
    token = theirs.generate_db_auth_token("db.example", 5433, "layover_runtime")
    assert host == token.partition("?")[0]
    assert parse_qs(query) == parse_qs(token.partition("?")[2])


def test_secret_that_is_not_answered_may_be_tried_again() -> None:
    secrets = client("secretsmanager")
    with Stubber(secrets) as stub:
        stub.add_client_error("get_secret_value", "InternalServiceError")
        with pytest.raises(RetryableError):
            secret_password("arn", lambda: secrets)()


def test_password_is_read_for_each_connection() -> None:
    secrets = client("secretsmanager")
    with Stubber(secrets) as stub:
        for password in ("old", "new"):
            answer = {"SecretString": f'{{"username":"layover_owner","password":"{password}"}}'}
            stub.add_response("get_secret_value", answer, {"SecretId": "arn"})
        read = secret_password("arn", lambda: secrets)
        assert [read(), read()] == ["old", "new"]


async def key_of(*script: bytes) -> tuple[str, bytes]:
    """The key from a server that answers so, and what it was asked first."""
    async with bench(*script) as it:
        key = await asyncio.to_thread(secret_parameter, "/layover/dev/key", it.client)
        return key, it.served.requests[0].body


async def test_missing_key_names_the_parameter_and_who_has_to_put_it_there() -> None:
    with pytest.raises(ConfigurationError, match=r"put .* into SSM as /layover/dev/key"):
        await key_of(error("ParameterNotFound"))


@pytest.mark.parametrize("fault", [error("ThrottlingException"), error("Internal", 500), CLOSE])
async def test_key_that_is_not_answered_may_be_tried_again(fault: bytes) -> None:
    with pytest.raises(RetryableError):
        await key_of(fault)


async def test_key_is_decrypted() -> None:
    key, asked = await key_of(answer({"Parameter": {"Value": "the key"}}))
    assert key == "the key"
    assert json.loads(asked) == {"Name": "/layover/dev/key", "WithDecryption": True}


def test_locally_the_urls_say_everything() -> None:
    env = Environment()
    assert wiring._token(env, DSN) is None
    assert wiring._owner_password(env) is None


def test_iam_signs_for_the_host_and_the_user_of_each_url() -> None:
    env = Environment.model_validate(
        {"LAYOVER_DATABASE_AUTH": "iam", "LAYOVER_DATABASE_ADMIN_URL": DSN}
    )
    assert wiring._token(env, DSN) is not None
    assert wiring._owner_password(env) is not None


def test_unknown_way_of_signing_in_is_refused() -> None:
    with pytest.raises(ValueError, match="LAYOVER_DATABASE_AUTH"):
        Environment.model_validate({"LAYOVER_DATABASE_AUTH": "kerberos"})


def test_tokens_live_as_long_as_rds_takes_them() -> None:
    query = parse_qs(iam_token(DSN, aws())().partition("?")[2])
    assert timedelta(seconds=int(query["X-Amz-Expires"][0])) == timedelta(minutes=15)


ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:shop/key-AbCdEf"


async def secret_of(*script: bytes) -> tuple[str, bytes]:
    """The secret from a server that answers so, and what it was asked first."""
    async with bench(*script) as it:
        read = asyncio.to_thread(secret_value, ARN, it.client, what="the secret of a tool")
        return await read, it.served.requests[0].body


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            error("ResourceNotFoundException"),
            r"put the secret of a tool into Secrets Manager as arn",
        ),
        (answer({"SecretBinary": "c2VjcmV0"}), "has bytes"),
    ],
    ids=["missing", "bytes"],
)
async def test_secret_that_cannot_be_used_says_who_has_to_do_what(
    said: bytes, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        await secret_of(said)


@pytest.mark.parametrize("fault", [error("ThrottlingException"), error("Internal", 500), CLOSE])
async def test_secret_of_a_tool_that_is_not_answered_may_be_tried_again(fault: bytes) -> None:
    with pytest.raises(RetryableError):
        await secret_of(fault)


async def test_secret_is_read_in_its_current_version() -> None:
    value, asked = await secret_of(
        answer({"SecretString": "the key", "VersionStages": ["AWSCURRENT"]})
    )
    assert value == "the key"
    assert json.loads(asked) == {"SecretId": ARN}


@pytest.mark.parametrize(("place", "service"), [("/shop/key", "ssm"), (ARN, "secretsmanager")])
def test_place_of_a_secret_says_which_service_has_it(
    place: str, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[str] = []

    class Aws:
        def client(self, name: str) -> Any:
            clients.append(name)
            raise RetryableError("no AWS here")

    monkeypatch.setattr(wiring, "_aws", Aws)
    monkeypatch.setattr(secrets, "_read", None)
    monkeypatch.setattr(secrets, "_names", tuple)
    wiring.runtime.cache_clear()
    wiring.runtime()
    with pytest.raises(RetryableError, match="no AWS here"):
        secrets.read(place)
    assert clients == [service]


@pytest.mark.parametrize(
    ("service", "host"),
    [
        ("secretsmanager", "secretsmanager.eu-west-1.amazonaws.com"),
        ("kms", "kms.eu-west-1.amazonaws.com"),
        ("ssm", "ssm.eu-west-1.amazonaws.com"),
    ],
)
def test_services_that_keep_secrets_have_a_client(service: str, host: str) -> None:
    services = aws()
    services.client(service)
    assert services.endpoint(service) == f"https://{host}"


async def test_secret_of_a_tool_is_read_where_its_arn_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real client: a stand-in has every service."""
    async with loopback(answer({"SecretString": "the key"})) as served:
        services = aws(AWS_ENDPOINT_URL=served.url)
        monkeypatch.setattr(wiring, "_aws", lambda: services)
        assert await asyncio.to_thread(wiring._secret, ARN) == "the key"
        assert served.requests[0].headers["x-amz-target"] == "secretsmanager.GetSecretValue"
        assert "/secretsmanager/" in served.requests[0].headers["authorization"]


def test_every_service_that_the_wiring_asks_has_a_client() -> None:
    named = re.findall(r"""_aws\(\)\.client\("([\w-]+)"\)""", inspect.getsource(wiring))
    assert {"dynamodb", "secretsmanager"} <= set(named)
    for service in named:
        aws().client(service)
