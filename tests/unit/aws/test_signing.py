"""Signatures, endpoints and credentials are those that boto3 would have."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Theirs

from layover.adapters.aws.credentials import CredentialChain, Credentials
from layover.adapters.aws.services import AwsServices
from layover.adapters.aws.signature import Signer
from layover.errors import ConfigurationError
from support.aws.loopback import KEYS

TARGET = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "DynamoDB_20120810.Query"}


@pytest.mark.parametrize("token", [None, "temporary"])
@pytest.mark.parametrize(
    ("method", "path", "headers", "body"),
    [
        ("POST", "/", TARGET, '{"é": 1}'.encode()),
        ("DELETE", f"/prod/@connections/{quote('aB+/=', safe='')}", {}, b""),
        ("POST", "/2015-03-31/functions/arn%3Aaws%3Alambda/invocations", {}, b"x"),
    ],
)
def test_signature_is_botocores(
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
    token: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = datetime(2026, 11, 22, 23, 59, 59, tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now)
    signer = Signer("dynamodb", "eu-west-1")
    keys = Credentials("AKID", "secret", token)
    ours = signer.sign(
        keys, (method, path), {"host": "a.example:8000", **headers}, body, now.timestamp()
    )
    theirs = AWSRequest(method, f"http://a.example:8000{path}", headers, body)
    SigV4Auth(Theirs("AKID", "secret", token), "dynamodb", "eu-west-1").add_auth(theirs)
    assert ours["authorization"] == theirs.headers["Authorization"]


def test_key_of_the_day_is_made_again_for_another_day_and_another_secret() -> None:
    signer, day = Signer("dynamodb", "eu-west-1"), 86_400.0
    cases = [("a", day), ("b", day), ("b", day * 2), ("a", day)]

    def authorization(signer: Signer, secret: str, now: float) -> str:
        keys = Credentials("AKID", secret, None)
        return signer.sign(keys, ("POST", "/"), {"host": "h"}, b"", now)["authorization"]

    kept = [authorization(signer, *each) for each in cases]
    fresh = [authorization(Signer("dynamodb", "eu-west-1"), *each) for each in cases]
    assert kept == fresh
    assert kept[0] == kept[3] != kept[1]


@pytest.fixture
def no_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without AWS but for a file of credentials, which does not exist yet."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


@pytest.mark.parametrize(
    ("config", "profile", "told"),
    [
        ("[default]\nlogin_session = arn:aws:iam::1:user/ann\n", "", r"botocore\[crt\]"),
        ("", "shpo", r"profile \(shpo\) could not be found"),
    ],
)
async def test_profile_that_cannot_be_used_is_a_fault_of_the_settings(
    no_profile: Path, config: str, profile: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (no_profile / "config").write_text(config)
    if profile:
        monkeypatch.setenv("AWS_PROFILE", profile)
    with pytest.raises(ConfigurationError, match=told):
        await CredentialChain({}).get()


@pytest.mark.parametrize("service", ["dynamodb", "states"])
@pytest.mark.parametrize(
    ("region", "variables"),
    [
        ("eu-central-1", {}),
        ("cn-north-1", {}),
        ("us-gov-west-1", {}),
        ("us-east-1", {"AWS_USE_FIPS_ENDPOINT": "true"}),
    ],
)
def test_endpoint_is_boto3s(
    service: str, region: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in {**KEYS, **variables}.items():
        monkeypatch.setenv(variable, value)
    ours = AwsServices({"AWS_REGION": region, **variables}).endpoint(service)
    name: Any = "stepfunctions" if service == "states" else service
    assert ours == boto3.Session().client(name, region_name=region).meta.endpoint_url


def test_endpoint_of_a_service_comes_before_that_of_all() -> None:
    variables = {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://all"}
    services = AwsServices({**variables, "AWS_ENDPOINT_URL_DYNAMODB": "http://table"})
    assert services.endpoint("dynamodb") == "http://table"
    assert services.endpoint("states") == "http://all"
    ignoring = AwsServices({**variables, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"})
    assert ignoring.endpoint("states") == "https://states.eu-west-1.amazonaws.com"


def test_environment_without_a_region_says_what_to_set(no_profile: Path) -> None:
    with pytest.raises(ConfigurationError, match="AWS_REGION"):
        AwsServices(KEYS).client("dynamodb")


async def test_environment_without_credentials_says_what_to_set(no_profile: Path) -> None:
    with pytest.raises(ConfigurationError, match="credentials"):
        await CredentialChain({}).get()


async def test_profile_is_read_where_the_environment_has_no_key(no_profile: Path) -> None:
    file = no_profile / "credentials"
    file.write_text("[default]\naws_access_key_id = A\naws_secret_access_key = one\n")
    chain = CredentialChain({})
    first = await chain.get()
    assert first == Credentials("A", "one", None)
    assert not await chain.renew(first)
    file.write_text("[default]\naws_access_key_id = A\naws_secret_access_key = two\n")
    assert await chain.renew(first)
    assert (await chain.get()).secret == "two"
