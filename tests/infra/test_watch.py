"""Alarms that tell a person that something is wrong, and their cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from layover.desk.cdk.settings import FUNCTIONS
from layover.engine.models.away import MAX_PAUSE_S
from layover.values.metrics import END_LINE, NAMESPACE, PAUSE_LINE, Metric
from support.aws.templates import Synthesized

COSTS = Path(__file__).parents[2] / "docs" / "deploy" / "costs.md"


def alarms(stack: Synthesized) -> dict[str, dict[str, Any]]:
    """Properties of our own alarms, by a part of their logical id."""
    found = stack.of_type("AWS::CloudWatch::Alarm")
    return {n: r["Properties"] for n, r in found.items() if n.startswith("Observability")}


def alarm(stack: Synthesized, name: str) -> dict[str, Any]:
    """The one alarm of this name."""
    (found,) = (p for n, p in alarms(stack).items() if n.startswith(f"Observability{name}"))
    return found


def metric_filters(stack: Synthesized) -> list[dict[str, Any]]:
    """What makes metrics of log lines."""
    return [r["Properties"] for r in stack.of_type("AWS::Logs::MetricFilter").values()]


def transformation(filter: dict[str, Any]) -> dict[str, Any]:
    (found,) = filter["MetricTransformations"]
    return dict(found)


def test_somebody_is_told(vpc: Synthesized) -> None:
    subscription = vpc.one("AWS::SNS::Subscription")
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "ann@example.com")
    (topic,) = vpc.of_type("AWS::SNS::Topic")
    assert all(p["AlarmActions"] == [{"Ref": topic}] for p in alarms(vpc).values())


def test_topic_takes_what_alarms_of_this_account_send(vpc: Synthesized) -> None:
    """A topic with a policy of its own has lost the one that would let CloudWatch publish."""
    (topic,) = vpc.of_type("AWS::SNS::Topic")
    statements = vpc.one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    (allowed,) = (s for s in statements if s["Effect"] == "Allow")
    assert allowed["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allowed["Action"] == "sns:Publish"
    assert allowed["Resource"] == {"Ref": topic}
    assert allowed["Condition"] == {
        "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    }


def test_alarms_are_there_without_anybody_to_tell(plain: Synthesized) -> None:
    assert alarms(plain)
    assert plain.of_type("AWS::SNS::Topic") == {}


def test_trial_without_alarms_pays_for_none_and_keeps_its_metrics(gateway: Synthesized) -> None:
    assert alarms(gateway) == {}
    assert gateway.of_type("AWS::Logs::MetricFilter")


def metrics(alarm: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the metrics of an alarm; CloudWatch bills each."""
    found = alarm.get("Metrics", [alarm])
    # A query finds the metric of each agent, and counts as one for the first.
    return [m for m in found if "Expression" not in m or m["Expression"].startswith("SELECT")]


def test_costs_page_says_on_how_many_metrics_alarms_are(vpc: Synthesized) -> None:
    alarmed = vpc.of_type("AWS::CloudWatch::Alarm").values()
    counted = sum(len(metrics(r["Properties"])) for r in alarmed)
    assert f"{counted} \N{MULTIPLICATION SIGN} 0.10" in COSTS.read_text("utf-8")


def test_errors_are_counted_where_nothing_else_would_tell(vpc: Synthesized) -> None:
    counted = metrics(alarm(vpc, "Errors"))
    # CloudFormation says how a migration went.
    assert len(counted) == len(FUNCTIONS.keys() - {"migrate"})
    assert {m["MetricStat"]["Metric"]["MetricName"] for m in counted} == {"Errors"}


@pytest.mark.parametrize("name", ["Errors", "Throttles", "TableThrottles", "ExecutionsFailed"])
def test_metric_of_which_nothing_is_known_is_nothing(vpc: Synthesized, name: str) -> None:
    """Else one that is silent keeps the others from being an alarm."""
    found = alarm(vpc, name)
    (sum_of,) = (m["Expression"] for m in found["Metrics"] if "Expression" in m)
    assert sum_of.count("FILL(") == len(metrics(found))


def test_only_answers_that_nobody_foresaw_are_an_alarm(vpc: Synthesized) -> None:
    """A waking database and a stopped system answer 503."""
    found = alarm(vpc, "ApiErrors")
    filters = [f for f in metric_filters(vpc) if transformation(f)["MetricName"] == "unforeseen"]
    (counted,) = {json.dumps(f["MetricTransformations"]) for f in filters}
    (transformed,) = json.loads(counted)
    assert transformed["MetricNamespace"] == found["Namespace"] == NAMESPACE
    assert transformed["MetricName"] == found["MetricName"]
    assert transformed["Dimensions"] == [{"Key": "service", "Value": "$.service"}]
    groups = vpc.of_type("AWS::Logs::LogGroup")
    watched = {groups[f["LogGroupName"]["Ref"]]["Properties"]["LogGroupName"] for f in filters}
    assert watched == {"/aws/lambda/layover-test-api", "/aws/lambda/layover-test-sockets"}
    assert {f["FilterPattern"] for f in filters} == {'{ $.level = "ERROR" }'}


def test_failed_executions_are_an_alarm(vpc: Synthesized) -> None:
    names = {
        m["MetricStat"]["Metric"]["MetricName"]
        for m in alarm(vpc, "ExecutionsFailed")["Metrics"]
        if "MetricStat" in m
    }
    assert names == {"ExecutionsFailed"}


def test_share_of_failed_runs_is_an_alarm_for_the_worst_agent(vpc: Synthesized) -> None:
    found = alarm(vpc, "FailedShare")
    (query,) = found["Metrics"]
    service = vpc.functions()["turn"]["Environment"]["Variables"]["LAYOVER_SERVICE"]
    assert f"service = '{service}' GROUP BY agent" in query["Expression"]
    # One failure of a quiet agent is all its runs of those five minutes.
    assert (found["Threshold"], found["EvaluationPeriods"]) == (0.2, 3)
    assert found["TreatMissingData"] == "notBreaching"


def test_metric_of_failed_runs_is_made_of_the_line_of_each_end(vpc: Synthesized) -> None:
    filters = [f for f in metric_filters(vpc) if transformation(f)["MetricName"] == "failed_share"]
    values = {(f["FilterPattern"], transformation(f)["MetricValue"]) for f in filters}
    line = f'$.message = "{END_LINE}"'
    assert values == {
        (f'{{ ({line}) && ($.status = "failed") }}', "1"),
        (f'{{ ({line}) && ($.status != "failed") }}', "0"),
    }
    watched = {json.dumps(f["LogGroupName"]) for f in filters}
    # Functions that end runs other than by a cancel: turn, settle, sweep.
    assert len(watched) == 3
    # The names that the query groups by and asks for.
    keys = {each["Key"] for f in filters for each in transformation(f)["Dimensions"]}
    assert keys == {"service", "agent"}


def test_long_wait_for_a_provider_is_an_alarm(vpc: Synthesized) -> None:
    found = alarm(vpc, "ProviderAway")
    (waits,) = [
        f for f in metric_filters(vpc) if transformation(f)["MetricName"] == found["MetricName"]
    ]
    assert waits["FilterPattern"] == f'{{ $.message = "{PAUSE_LINE}" }}'
    assert transformation(waits)["MetricValue"] == "$.wait_s"
    assert transformation(waits)["Dimensions"] == [{"Key": "service", "Value": "$.service"}]
    groups = vpc.of_type("AWS::Logs::LogGroup")
    name = groups[waits["LogGroupName"]["Ref"]]["Properties"]["LogGroupName"]
    assert name == "/aws/lambda/layover-test-turn"
    assert (found["Statistic"], found["Threshold"]) == ("Maximum", 300)
    # One run that waits keeps it red: it logs a line behind each pause.
    assert found["Period"] > MAX_PAUSE_S * 1.25
    assert found["TreatMissingData"] == "notBreaching"


def test_age_of_the_oldest_approval_is_the_metric_that_the_sweeper_counts(vpc: Synthesized) -> None:
    found = alarm(vpc, "ApprovalAge")
    assert (found["Namespace"], found["MetricName"]) == (NAMESPACE, Metric.APPROVAL_AGE.value)
    service = vpc.functions()["sweep"]["Environment"]["Variables"]["LAYOVER_SERVICE"]
    assert found["Dimensions"] == [{"Name": "service", "Value": service}]
    assert found["Threshold"] == 3 * 24 * 3600
    assert found["TreatMissingData"] == "notBreaching"


def test_silence_of_the_sweeper_is_told_and_a_new_stack_is_not_red(vpc: Synthesized) -> None:
    """An alarm begins in INSUFFICIENT_DATA: missing data that were a breach would be one at once."""
    found = alarm(vpc, "NoSweeps")
    assert found["TreatMissingData"] == "missing"
    (topic,) = vpc.of_type("AWS::SNS::Topic")
    assert found["InsufficientDataActions"] == [{"Ref": topic}]
    others = [p for p in alarms(vpc).values() if p is not found]
    assert all("InsufficientDataActions" not in p for p in others)


def test_there_is_one_dashboard(vpc: Synthesized) -> None:
    board = json.dumps(vpc.one("AWS::CloudWatch::Dashboard"))
    assert Metric.APPROVAL_AGE.value in board


def test_same_stage_fits_into_two_regions_of_an_account(vpc: Synthesized) -> None:
    """Dashboards and budgets have one name for all regions."""
    name = {"Fn::Join": ["", ["layover-test-", {"Ref": "AWS::Region"}]]}
    assert vpc.one("AWS::CloudWatch::Dashboard")["DashboardName"] == name
    assert vpc.one("AWS::Budgets::Budget")["Budget"]["BudgetName"] == name


def test_budget_is_there_for_who_wants_one(vpc: Synthesized, plain: Synthesized) -> None:
    budget = vpc.one("AWS::Budgets::Budget")
    assert budget["Budget"]["BudgetLimit"] == {"Amount": 20, "Unit": "USD"}
    assert plain.of_type("AWS::Budgets::Budget") == {}


def test_limits_of_users_are_known_where_runs_begin_and_end_and_tokens_are_spent(
    vpc: Synthesized,
) -> None:
    limited = {
        name: f["Environment"]["Variables"].get("LAYOVER_DAILY_TOKENS")
        for name, f in vpc.functions().items()
    }
    assert {name for name, value in limited.items() if value == "100000"} == {
        *("api", "streams", "settle", "sweep"),
        *(name for name, each in FUNCTIONS.items() if each.model),
    }
