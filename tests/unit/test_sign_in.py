"""Passwords of the database, and the model provider's key: where they come from on AWS."""

from datetime import timedelta
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.stub import Stubber

from layover import wiring
from layover.adapters.parameters import secret_parameter
from layover.adapters.store.postgres.sign_in import iam_token, secret_password
from layover.errors import ConfigurationError, RetryableError
from layover.values.deployment.environment import Environment

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


def client(service: Literal["rds", "secretsmanager", "ssm"]) -> Any:
    return session().client(service)


def parts(token: str) -> tuple[str, dict[str, list[str]]]:
    """Host, and everything that is signed but for the time."""
    split = urlsplit(f"https://{token}")
    query = parse_qs(split.query)
    for moving in ("X-Amz-Date", "X-Amz-Signature"):
        assert query.pop(moving)
    return split.netloc + split.path, query


def test_url_without_a_user_is_refused_before_anybody_connects() -> None:
    with pytest.raises(ConfigurationError):
        iam_token("postgresql://db.example/layover", session)


def test_token_without_a_region_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(ConfigurationError, match="region"):
        iam_token(DSN, lambda: session(region_name=None))()


def test_token_is_the_one_that_boto3_makes() -> None:
    theirs = client("rds").generate_db_auth_token("db.example", 5433, "layover_runtime")
    ours = iam_token(DSN, session)()
    assert parts(ours) == parts(theirs)
    assert len(urlsplit(f"https://{ours}").query) == len(urlsplit(f"https://{theirs}").query)


def test_token_carries_the_session_of_a_role() -> None:
    token = iam_token(DSN, lambda: session(aws_session_token="temporary"))()
    assert parts(token)[1]["X-Amz-Security-Token"] == ["temporary"]


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


def test_missing_key_names_the_parameter_and_who_has_to_put_it_there() -> None:
    ssm = client("ssm")
    with Stubber(ssm) as stub:
        stub.add_client_error("get_parameter", "ParameterNotFound")
        with pytest.raises(ConfigurationError, match=r"put .* into SSM as /layover/dev/key"):
            secret_parameter("/layover/dev/key", lambda: ssm)


@pytest.mark.parametrize("code", ["ThrottlingException", "InternalServerError"])
def test_key_that_is_not_answered_may_be_tried_again(code: str) -> None:
    ssm = client("ssm")
    with Stubber(ssm) as stub:
        stub.add_client_error("get_parameter", code)
        with pytest.raises(RetryableError):
            secret_parameter("/layover/dev/key", lambda: ssm)


def test_key_is_decrypted() -> None:
    ssm = client("ssm")
    with Stubber(ssm) as stub:
        asked = {"Name": "/layover/dev/key", "WithDecryption": True}
        stub.add_response("get_parameter", {"Parameter": {"Value": "the key"}}, asked)
        assert secret_parameter("/layover/dev/key", lambda: ssm) == "the key"


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
    query = parts(iam_token(DSN, session)())[1]
    assert timedelta(seconds=int(query["X-Amz-Expires"][0])) == timedelta(minutes=15)
