"""AWS: what freezes, fails over, is looked up and is named there."""

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg.errors
import pytest

from layover import secret
from layover.adapters.aws import sdk
from layover.adapters.blobs.s3 import S3Blobs
from layover.adapters.store.postgres.faults import ConnectionLost, of_statement
from layover.desk.cdk import props
from layover.desk.cdk.settings import Settings
from layover.desk.cli.deploy.machine import Machine, NoAccount
from layover.ports import secrets
from reports import Found, report

ROOT = Path(__file__).parents[2]


@report(
    "sidorares/node-mysql2#2050, PostHog/posthog#86792, aws/aws-advanced-nodejs-wrapper#673",
    Found.RIGHT,
)
def test_a_connection_that_leads_to_a_reader_after_a_failover_is_dropped() -> None:
    """A write that fails because the connection leads to a reader now is tried again on a new connection."""
    found = of_statement(psycopg.errors.ReadOnlySqlTransaction(), "insert_message")
    assert isinstance(found, ConnectionLost)


@report("mbeher2200/DarkHours#204, hashicorp/vault-lambda-extension#150", Found.MENDED)
def test_a_secret_ages_while_lambda_has_frozen_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that was rotated while its process was frozen for an hour is read anew, though the clock of
    the process has stood still."""
    now, values = [1_000.0], ["old", "rotated"]
    monkeypatch.setattr(time, "monotonic", lambda: 50.0)
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(secrets, "_read", lambda _: values.pop(0))
    monkeypatch.setattr(secrets, "_names", lambda: ("SHOP_KEY",))
    monkeypatch.setenv("SHOP_KEY", "/shop/key")
    key = secret("SHOP_KEY")
    assert key.get() == "old"
    now[0] += 3_600
    assert key.get() == "rotated"


@report("aws/aws-cli#9949, awslabs/mcp#2799", Found.MENDED)
@pytest.mark.parametrize("region", ["eu-west-1", None])
def test_a_sign_in_that_needs_another_package_says_which(
    region: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`layover deploy` with a profile of `aws login`, which needs a package that is not installed, says what
    to install, with and without a region."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "config"
    file.write_text("[default]\nlogin_session = arn:aws:iam::111122223333:user/ann\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    with pytest.raises(NoAccount, match=r'pip install "botocore\[crt\]"'):
        Machine().account(None, region, "hnb659fds")


@report("aws/aws-cdk#3775, aws/aws-cdk#19425", Found.MENDED)
def test_a_vpc_that_is_still_to_be_looked_up_is_not_judged() -> None:
    """A VPC by `from_lookup`, whose subnets are named by their group, passes the CDK's first pass, in which
    nobody knows them, and is judged in the second."""

    def zones(*names: str, pending: bool) -> int | None:
        found = SimpleNamespace(availability_zones=[*names], is_pending_lookup=pending)
        vpc: Any = SimpleNamespace(select_subnets=lambda **_: found)
        fields = ("availability_zones", "one_per_az", "subnet_filters", "subnet_type", "subnets")
        selection: Any = SimpleNamespace(subnet_group_name="data", **dict.fromkeys(fields))
        return props._zones(vpc, selection)

    assert zones(pending=True) is None
    assert zones("a", "a", "b", pending=False) == 2


@report(
    "aws-samples/amazon-transcribe-live-meeting-assistant#13, "
    "aws-samples/aws-genai-llm-chatbot#347",
    Found.RIGHT,
)
def test_names_of_the_longest_system_fit_and_longer_ones_are_refused_before_a_deployment() -> None:
    """The longest name with the longest stage makes names of functions that Lambda takes; a longer one is
    refused before anything begins."""
    prefix = Settings(name="a" * 20, stage="b" * 16).prefix
    functions = [path.parent.name for path in (ROOT / "functions").glob("*/handler.py")]
    assert all(len(f"{prefix}-{name}") <= 64 for name in functions)
    for context in ({"name": "a" * 21}, {"stage": "b" * 17}):
        with pytest.raises(ValueError, match=next(iter(context))):
            Settings.from_context(context)


@pytest.fixture
def blobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Blobs]:
    """A bucket in Frankfurt."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    made = (sdk.session, sdk._client)
    for each in made:
        each.cache_clear()
    yield S3Blobs(lambda: sdk.client("s3"), "shop-files")
    for each in made:
        each.cache_clear()


@report("boto/boto3#421, boto/boto3#1982", Found.RIGHT)
async def test_urls_of_files_have_the_buckets_own_region(blobs: S3Blobs) -> None:
    """A page's upload goes to the host of the bucket's region at once: a redirect would end it."""
    url = await blobs.upload_url("a/b", "text/plain", 3, timedelta(minutes=5))
    assert urlsplit(url).netloc == "shop-files.s3.eu-central-1.amazonaws.com"


@report("IQSS/dataverse#4524, CartoDB/cartodb#10701", Found.RIGHT, held_back=True)
async def test_a_file_whose_name_is_not_latin_can_be_downloaded(blobs: S3Blobs) -> None:
    """A file with a Japanese name and a long dash is saved under that name: S3 takes only Latin-1 headers."""
    name = "請求書 2025\u201326.pdf"
    url = await blobs.download_url("a/b", name, "application/pdf", timedelta(minutes=5))
    (given,) = parse_qs(urlsplit(url).query)["response-content-disposition"]
    assert given.isascii()
    assert "filename*=UTF-8''%E8%AB%8B%E6%B1%82%E6%9B%B8%202025%E2%80%9326.pdf" in given


@report(
    "aws/aws-cdk#10386, aws-samples/amazon-textract-idp-cdk-constructs#94",
    Found.RIGHT,
    held_back=True,
)
def test_a_run_outlives_a_lambda_that_takes_no_request_just_now() -> None:
    """Each step of a run's state machine is tried again where Lambda throttles, fails or could not be
    asked."""
    states = json.loads((ROOT / "infra" / "run.asl.json").read_text())["States"]
    tasks = [state for state in states.values() if state["Type"] == "Task"]
    passing = {"TooManyRequestsException", "ServiceException", "AWSLambdaException"}
    wanted = {f"Lambda.{name}" for name in (*passing, "SdkClientException")} | {"Lambda.Unknown"}
    assert tasks
    for task in tasks:
        tried = {name for rule in task["Retry"] for name in rule["ErrorEquals"]}
        assert wanted <= tried
