"""Channels on AWS: the way from the bus to people, who may send, and who may read what."""

import json
from typing import Any

import pytest

from layover.approvals.bus import publish
from layover.clock import SystemClock
from layover.desk.cdk.settings import Settings
from layover.desk.local.aws.queue import Queue
from layover.desk.local.aws.storage import Storage
from layover.values.decision import OUTAGE_QUIET, RUN_FINISHED, BusEvent
from support.aws.forms import CHANNEL_SECRETS, CHANNELS
from support.aws.templates import Synthesized, listed
from support.worlds.channels import asked

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
    rule = rule_for(connected, BusEvent.REQUESTED)
    assert rule["EventPattern"]["source"] == ["layover"]
    assert set(rule["EventPattern"]["detail-type"]) == {event.value for event in BusEvent}
    assert rule["EventBusName"]
    mapping = connected.one("AWS::Lambda::EventSourceMapping")
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 2}
    # An alias by its ARN: the function's own, and the alias's name.
    assert ":live" in json.dumps(mapping["FunctionName"])
    assert "FunctionsNotify" in json.dumps(mapping["FunctionName"])


@pytest.mark.parametrize("kind", list(BusEvent))
async def test_queue_gets_the_ids_of_an_event_and_nothing_else_of_it(
    connected: Synthesized, kind: BusEvent
) -> None:
    told, run_id = await asked()
    run, call = await told.bench.meta(run_id), await told.bench.call(run_id, "call_1")
    await publish(told.bench.plain, kind, run, call, n=7, decision={"reason": "a secret"})
    name, whole = told.bench.callbacks.events[-1]
    event = {"detail-type": name, "source": "layover", "detail": dict(whole)}
    assert {"task_token", "args", "payload", "decision"} <= whole.keys()
    (target,) = rule_for(connected, kind)["Targets"]
    # EventBridge keeps in a dead-letter queue what it had to send, or the event: AWS does not say which.
    assert target.keys() <= {"Arn", "Id", "InputTransformer"}
    body = json.loads(transformed(target["InputTransformer"], event))
    ids = {"owner": "ann", "run_id": run_id, "tool_call_id": "call_1", "attempt": 1, "n": 7}
    assert body == {"detail-type": kind.value, "detail": ids}
    # On one machine it is the same.
    storage = Storage()
    queue = Queue(storage, [kind.value])
    with storage.transaction() as connection:
        queue.send(connection, event, SystemClock().now())
    (message,) = queue.receive(SystemClock().now())
    assert json.loads(message.body) == body


def rule_for(stack: Synthesized, kind: str) -> dict[str, Any]:
    """The one rule that passes events of this type on."""
    rules: list[dict[str, Any]] = [
        r["Properties"] for r in stack.of_type("AWS::Events::Rule").values()
    ]
    matching = (r for r in rules if kind in r.get("EventPattern", {}).get("detail-type", ()))
    (rule,) = matching
    return rule


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        (RUN_FINISHED, {"owner": "ann", "run_id": "run_1", "status": "failed", "agent": "shop"}),
        (OUTAGE_QUIET, {"outage": "a1"}),
    ],
)
def test_operators_are_told_of_failures_by_their_ids(
    connected: Synthesized, kind: str, detail: dict[str, Any]
) -> None:
    rule = rule_for(connected, kind)
    # Runs that succeed cost the queue nothing.
    assert rule["EventPattern"].get("detail", {}) in ({}, {"status": ["failed"]})
    assert ("detail" in rule["EventPattern"]) == (kind == RUN_FINISHED)
    event = {"detail-type": kind, "source": "layover", "detail": detail}
    body = json.loads(transformed(rule["Targets"][0]["InputTransformer"], event))
    ids = {name: value for name, value in detail.items() if name not in ("status", "agent")}
    assert body == {"detail-type": kind, "detail": ids}
    storage = Storage()
    queue = Queue(storage, [kind])
    with storage.transaction() as connection:
        queue.send(connection, event, SystemClock().now())
    (message,) = queue.receive(SystemClock().now())
    assert json.loads(message.body) == body


def transformed(transformer: dict[str, Any], event: dict[str, Any]) -> str:
    """What EventBridge makes of an event: a value takes the place of its name, a text with its quotes."""
    text = str(transformer["InputTemplate"])
    for name, path in transformer["InputPathsMap"].items():
        value: Any = event
        for step in path.removeprefix("$.").split("."):
            value = value[step]
        assert f'"<{name}>"' not in text, "a text with a quote in it would break the message"
        text = text.replace(f"<{name}>", json.dumps(value))
    return text


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
    counted = [m["MetricStat"]["Metric"] for m in alarm["Metrics"] if "MetricStat" in m]
    assert [m["MetricName"] for m in counted] == [
        "ApproximateNumberOfMessagesVisible",
        # What the bus cannot deliver is nowhere: it would be there with its token.
        "FailedInvocations",
    ]
    assert {d["Name"] for d in counted[1]["Dimensions"]} == {"EventBusName", "RuleName"}
    assert alarm["Threshold"] == 0


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
