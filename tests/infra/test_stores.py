"""The page of lifetimes lists every store of every form of the deployment, with how long it keeps what."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.aws.forms import FORMS
from support.aws.synthesis import ROOT
from support.aws.templates import Synthesized

PAGE = (ROOT / "docs/reference/lifetimes.md").read_text("utf-8")
STORES = {
    "AWS::Cognito::UserPool": "Cognito user pool",
    "AWS::DynamoDB::Table": "DynamoDB table",
    "AWS::Events::EventBus": "event bus",
    "AWS::Logs::LogGroup": "log group",
    "AWS::RDS::DBCluster": "Aurora cluster",
    "AWS::S3::Bucket": "S3 bucket",
    "AWS::SQS::Queue": "SQS queue",
    "AWS::SSM::Parameter": "parameter",
}
"""Types of resources that have data, and what the page calls them."""
WITHOUT_DATA = re.compile(
    r"AWS::(ApiGateway|ApiGatewayV2|Budgets|CertificateManager|CloudWatch|EC2|IAM|KMS|Lambda)::\w+"
    r"|AWS::(Route53|SNS)::\w+"
    r"|AWS::Cognito::UserPool(Client|Domain|Group|ResourceServer)|AWS::Events::Rule"
    r"|AWS::Logs::MetricFilter|AWS::RDS::DB(Instance|SubnetGroup)|AWS::(S3|SQS)::\w+Policy"
    r"|AWS::StepFunctions::StateMachine|Custom::\w+"
)
"""Instances, disks and functions among them keep nothing of a user beyond what a store has. Executions of the
state machine have a row of the first table."""
NAMES = ("LogGroupName", "Name", "QueueName")
FURTHER = ("connected", "ten_lines")
"""Forms that `make test` synthesizes for no other test."""
FOUR_DAYS = 345_600
"""SQS's default."""


def rows() -> Iterator[tuple[str, str, str]]:
    """(name, kind, how long) of each row of the page's table of stores."""
    table = PAGE.split('<a id="stores"></a>')[1].split("\n## ")[1]
    for line in table.splitlines():
        if line.startswith("| ") and not line.startswith(("| store", "| ---")):
            name, kind, _, kept = (cell.strip() for cell in line.strip("|").split(" | "))
            yield name.strip("` "), kind, kept


@pytest.fixture(params=[*FORMS, *(pytest.param(name, marks=pytest.mark.form) for name in FURTHER)])
def form(request: pytest.FixtureRequest) -> Synthesized:
    stack: Synthesized = request.getfixturevalue(request.param)
    return stack


def test_every_store_of_a_stage_is_on_the_page(form: Synthesized) -> None:
    for id, resource in form.template["Resources"].items():
        kind, properties = resource["Type"], resource["Properties"]
        if WITHOUT_DATA.fullmatch(kind):
            continue
        (kept,) = [
            kept for name, of, kept in rows() if of == STORES[kind] and is_named(name, properties)
        ]
        if kind == "AWS::SQS::Queue":
            days = properties.get("MessageRetentionPeriod", FOUR_DAYS) // 86_400
            assert f"{days} days" in kept, id
        if kind == "AWS::Logs::LogGroup":
            assert kept == f"{properties['RetentionInDays']} days (`log_retention`)", id


def is_named(name: str, properties: dict[str, Any]) -> bool:
    """Whether a row is about the resource: by its name, or because the kind has only one."""
    given = next((properties[key] for key in NAMES if key in properties), None)
    if given is None or not isinstance(given, str) or "the " in name:
        return name.startswith("the ")
    pattern = re.escape(name).replace("PROJECT/STAGE", r"\w+/\w+").replace("PREFIX", r"\w+-[a-z]+")
    return re.fullmatch(pattern.replace(r"\*", r"\w+"), given) is not None


def test_page_lists_no_store_that_no_stage_has(connected: Synthesized) -> None:
    found = [(r["Type"], r["Properties"]) for r in connected.template["Resources"].values()]
    for name, kind, _ in rows():
        of_kind = [p for type, p in found if STORES.get(type) == kind]
        assert any(is_named(name, properties) for properties in of_kind), name
