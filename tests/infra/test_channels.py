"""Channels on AWS: the way from the bus to people, who may send, and who may read what."""

import json
from typing import Any

import pytest

from layover.desk.cdk.settings import Settings
from layover.values.decision import BusEvent
from support.aws.forms import CHANNEL_SECRETS, CHANNELS
from support.aws.templates import Synthesized, listed

TOLD = ("api", "notify")
VARIABLES = {"LAYOVER_CHANNELS_PARAMETER", "LAYOVER_API_URL"}
SLACK = {name: place for name, place in CHANNEL_SECRETS.items() if name.startswith("SLACK")}


def queues(stack: Synthesized) -> tuple[dict[str, Any], dict[str, Any]]:
    """The queue of events, and the one of those that nobody could be told of."""
    all_queues = [r["Properties"] for r in stack.of_type("AWS::SQS::Queue").values()]
    (queue,) = (q for q in all_queues if "RedrivePolicy" in q)
    (dead,) = (q for q in all_queues if "RedrivePolicy" not in q)
    return queue, dead


def test_deployment_without_channels_has_nothing_of_them(vpc: Synthesized) -> None:
    for kind in ("AWS::SQS::Queue", "AWS::Lambda::EventSourceMapping", "AWS::SSM::Parameter"):
        assert not vpc.of_type(kind)
    assert "ses:SendEmail" not in json.dumps(vpc.template)
    for function in vpc.functions().values():
        assert not VARIABLES & function["Environment"]["Variables"].keys()


def test_every_event_about_a_waiting_call_gets_to_the_function(connected: Synthesized) -> None:
    rules = [r["Properties"] for r in connected.of_type("AWS::Events::Rule").values()]
    (rule,) = (r for r in rules if "EventPattern" in r)
    assert rule["EventPattern"]["source"] == ["layover"]
    assert set(rule["EventPattern"]["detail-type"]) == {event.value for event in BusEvent}
    assert rule["EventBusName"]
    # What the bus cannot deliver is where what the function cannot handle is.
    (target,) = rule["Targets"]
    assert target["DeadLetterConfig"]["Arn"]
    mapping = connected.one("AWS::Lambda::EventSourceMapping")
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 2}
    # An alias by its ARN: the function's own, and the alias's name.
    assert ":live" in json.dumps(mapping["FunctionName"])
    assert "FunctionsNotify" in json.dumps(mapping["FunctionName"])


def test_event_that_is_not_handled_comes_again_for_an_hour_and_then_rings_an_alarm(
    connected: Synthesized,
) -> None:
    queue, dead = queues(connected)
    timeout = connected.functions()["notify"]["Timeout"]
    # Lambda refuses a shorter one: an event that is being handled would be handed out again.
    assert queue["VisibilityTimeout"] >= timeout
    attempts = queue["RedrivePolicy"]["maxReceiveCount"]
    assert queue["VisibilityTimeout"] * attempts >= 3600
    assert dead["MessageRetentionPeriod"] == 14 * 24 * 3600
    for each in (queue, dead):
        assert each["SqsManagedSseEnabled"] is True
    policies = [json.dumps(p) for p in connected.of_type("AWS::SQS::QueuePolicy").values()]
    assert len(policies) == 2
    assert all("aws:SecureTransport" in policy for policy in policies)
    alarms = [a["Properties"] for a in connected.of_type("AWS::CloudWatch::Alarm").values()]
    (alarm,) = (a for a in alarms if "not told" in a.get("AlarmDescription", ""))
    assert (alarm["Threshold"], alarm["MetricName"]) == (0, "ApproximateNumberOfMessagesVisible")


def test_channels_are_a_parameter_that_two_functions_may_read(connected: Synthesized) -> None:
    parameter = connected.one("AWS::SSM::Parameter")
    assert parameter["Name"] == "/shop/prod/channels"
    assert json.loads(parameter["Value"]) == CHANNELS
    for name, function in connected.functions().items():
        variables = function["Environment"]["Variables"]
        reads = json.dumps(
            [s for s in connected.statements(name) if "ssm:GetParameter" in listed(s["Action"])]
        )
        if name not in TOLD:
            assert not VARIABLES & variables.keys()
            assert "channels" not in reads
            continue
        assert variables["LAYOVER_CHANNELS_PARAMETER"] == "/shop/prod/channels"
        assert variables["LAYOVER_API_URL"] == "https://agents.example.com"
        assert "parameter/shop/prod/channels" in reads


def test_secrets_of_channels_are_read_by_those_who_use_them_only(connected: Synthesized) -> None:
    for name, function in connected.functions().items():
        variables = function["Environment"]["Variables"]
        places = json.dumps(
            [s["Resource"] for s in connected.statements(name) if "Get" in str(s["Action"])]
        )
        own = {secret for secret in CHANNEL_SECRETS if secret in variables}
        expected = {
            # It checks signatures, and opens forms.
            "api": set(SLACK),
            "notify": set(CHANNEL_SECRETS) - {"SLACK_SIGNING_SECRET"},
        }.get(name, set())
        assert own == expected, name
        for secret, place in CHANNEL_SECRETS.items():
            assert (place.removeprefix("/") in places) is (secret in expected), (name, secret)


def test_mail_is_sent_by_one_function_from_one_address(connected: Synthesized) -> None:
    for name in connected.functions():
        sends = [s for s in connected.statements(name) if "ses:SendEmail" in listed(s["Action"])]
        assert bool(sends) is (name == "notify")
        for statement in sends:
            assert statement["Action"] == "ses:SendEmail"
            condition = {"StringEquals": {"ses:FromAddress": "approvals@example.com"}}
            assert statement["Condition"] == condition


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"channel_secrets": {}}, "channels need SLACK_BOT_TOKEN, SLACK_SIGNING_SECRET"),
        ({"channels": {}}, "which no channel needs"),
        ({"channels": {**CHANNELS, "people": "bea"}}, "channels: "),
        (
            {"channel_secrets": {**CHANNEL_SECRETS, "SLACK_BOT_TOKEN": "/aws/slack"}},
            "/aws and /ssm",
        ),
        ({"channel_secrets": {**CHANNEL_SECRETS, "TEAMS_FINANCE": "arn:aws:x"}}, "the whole ARN"),
    ],
)
def test_channels_that_reach_nobody_are_refused_at_synthesis(
    change: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        Settings.of({"channels": CHANNELS, "channel_secrets": CHANNEL_SECRETS, **change})


def test_more_people_than_a_parameter_takes_are_refused() -> None:
    people = {f"p{n}@example.com": {"id": f"{n:040}", "groups": ["finance"]} for n in range(150)}
    channels = {"finance": [{"mail": [*people]}], "people": people, "mail_from": "a@example.com"}
    with pytest.raises(ValueError, match="name fewer people"):
        Settings.of({"channels": channels})
