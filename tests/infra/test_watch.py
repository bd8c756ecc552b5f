"""What tells a person that something is wrong, and what it costs."""

import json
from typing import Any

import pytest

from cdk_kit import Synthesized
from infra.settings import FUNCTIONS
from layover.values.metrics import NAMESPACE, Metric

FREE_ALARMS = 10
"""Of an account (CloudWatch's free tier)."""


def alarms(stack: Synthesized) -> dict[str, dict[str, Any]]:
    """Properties of our own alarms, by a part of their logical id."""
    found = stack.of_type("AWS::CloudWatch::Alarm")
    return {n: r["Properties"] for n, r in found.items() if n.startswith("Observability")}


def alarm(stack: Synthesized, name: str) -> dict[str, Any]:
    """The one alarm of this name."""
    (found,) = (p for n, p in alarms(stack).items() if n.startswith(f"Observability{name}"))
    return found


def test_somebody_is_told(vpc: Synthesized) -> None:
    subscription = vpc.one("AWS::SNS::Subscription")
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "ann@example.com")
    (topic,) = vpc.of_type("AWS::SNS::Topic")
    assert all(p["AlarmActions"] == [{"Ref": topic}] for p in alarms(vpc).values())


def test_alarms_are_there_without_anybody_to_tell(express: Synthesized) -> None:
    assert alarms(express)
    assert express.of_type("AWS::SNS::Topic") == {}


def test_alarms_stay_within_what_is_free(vpc: Synthesized) -> None:
    assert len(vpc.of_type("AWS::CloudWatch::Alarm")) <= FREE_ALARMS


@pytest.mark.parametrize("name", ["Errors", "Throttles"])
def test_every_function_counts(vpc: Synthesized, name: str) -> None:
    counted = [m for m in alarm(vpc, name)["Metrics"] if "MetricStat" in m]
    assert len(counted) == len(FUNCTIONS)
    assert {m["MetricStat"]["Metric"]["MetricName"] for m in counted} == {name}


def test_failed_executions_are_an_alarm(vpc: Synthesized) -> None:
    names = {
        m["MetricStat"]["Metric"]["MetricName"]
        for m in alarm(vpc, "ExecutionsFailed")["Metrics"]
        if "MetricStat" in m
    }
    assert names == {"ExecutionsFailed", "ExecutionsTimedOut"}


def test_age_of_the_oldest_approval_is_the_metric_that_the_sweeper_counts(vpc: Synthesized) -> None:
    found = alarm(vpc, "ApprovalAge")
    assert (found["Namespace"], found["MetricName"]) == (NAMESPACE, Metric.APPROVAL_AGE.value)
    service = vpc.functions()["sweep"]["Environment"]["Variables"]["LAYOVER_SERVICE"]
    assert found["Dimensions"] == [{"Name": "service", "Value": service}]
    assert found["Threshold"] == 3 * 24 * 3600
    assert found["TreatMissingData"] == "notBreaching"


def test_silence_of_the_sweeper_is_an_alarm(vpc: Synthesized) -> None:
    found = alarm(vpc, "NoSweeps")
    assert found["TreatMissingData"] == "breaching"
    assert found["ComparisonOperator"] == "LessThanThreshold"


def test_there_is_one_dashboard(vpc: Synthesized) -> None:
    board = json.dumps(vpc.one("AWS::CloudWatch::Dashboard"))
    assert Metric.APPROVAL_AGE.value in board


def test_budget_is_there_for_who_wants_one(vpc: Synthesized, express: Synthesized) -> None:
    budget = vpc.one("AWS::Budgets::Budget")
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 20, "Unit": "USD"}
    assert express.of_type("AWS::Budgets::Budget") == {}


def test_limits_of_users_are_known_where_runs_begin_and_tokens_are_spent(vpc: Synthesized) -> None:
    limited = {
        name: f["Environment"]["Variables"].get("LAYOVER_DAILY_TOKENS")
        for name, f in vpc.functions().items()
    }
    assert {name for name, value in limited.items() if value == "100000"} == {
        "api",
        *(name for name, each in FUNCTIONS.items() if each.model),
    }
