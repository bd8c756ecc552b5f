"""The way from the bus to people: a queue behind the bus, and the function that empties it
(docs/adr/0021-channels.md)."""

import json
from collections.abc import Sequence

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.time import duration
from layover.desk.cdk.notify_queue import AT_ONCE, ATTEMPTS, BATCH, KEPT, NOTIFY, PAUSE_FACTOR
from layover.desk.cdk.settings import Settings
from layover.plugins.people.channel import Grant
from layover.values.channels import OPERATORS_GROUP, QUEUED, QUEUED_FOR_OPERATORS
from layover.values.decision import RUN_FINISHED, BusEvent

SOURCE = "layover"
FIVE_MINUTES = Duration.minutes(5)
STANDARD_BYTES = 4096
"""The largest parameter that costs nothing."""


class ChannelDocument(Construct):
    """The configuration of channels as a parameter, because variables of a function have 4 KB in all."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        text = json.dumps(settings.channels, ensure_ascii=False, separators=(",", ":"))
        is_large = len(text.encode()) > STANDARD_BYTES
        self.name = settings.channels_parameter
        ssm.StringParameter(
            self,
            "Document",
            parameter_name=self.name,
            string_value=text,
            description=f"{settings.prefix}: where people are told of calls that wait for them",
            tier=ssm.ParameterTier.ADVANCED if is_large else ssm.ParameterTier.STANDARD,
        )


class ChannelQueue(Construct):
    """The way of an event about a waiting call from the bus to `notify`, at least once. Only its ids go that
    way: an event has arguments and a token that decides. One that is not handled for an hour is put aside."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        settings: Settings,
        bus: events.IEventBus,
        notify: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, id)
        dead = sqs.Queue(
            self,
            "Dead",
            queue_name=f"{settings.prefix}-{NOTIFY}-dead",
            retention_period=duration(KEPT),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        queue = sqs.Queue(
            self,
            "Queue",
            queue_name=f"{settings.prefix}-{NOTIFY}",
            visibility_timeout=duration(PAUSE_FACTOR * settings.functions[NOTIFY].timeout),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=ATTEMPTS),
        )
        rule = self._rule_of_calls(bus, queue)
        if OPERATORS_GROUP in (settings.channels or {}):
            self._rules_of_failures(bus, queue)
        self.untold = {
            "put_aside": dead.metric_approximate_number_of_messages_visible(period=FIVE_MINUTES),
            "undelivered": cloudwatch.Metric(
                namespace="AWS/Events",
                metric_name="FailedInvocations",
                dimensions_map={"EventBusName": bus.event_bus_name, "RuleName": rule.rule_name},
                statistic="Sum",
                period=FIVE_MINUTES,
            ),
        }
        """Counts of events that nobody could be told of."""
        acknowledge(
            dead,
            ("Serverless-SQSRedrivePolicy", "It is where messages end: an alarm watches it."),
        )
        acknowledge(
            notify,
            (
                "Serverless-LambdaEventSourceMappingDestination",
                "The queue puts aside what fails again and again.",
            ),
        )
        notify.add_event_source(
            sources.SqsEventSource(
                queue, batch_size=BATCH, max_concurrency=AT_ONCE, report_batch_item_failures=True
            )
        )

    def _rule_of_calls(self, bus: events.IEventBus, queue: sqs.IQueue) -> events.Rule:
        pattern = events.EventPattern(
            source=[SOURCE], detail_type=[each.value for each in BusEvent]
        )
        what = "Calls that wait for people, and what became of them"
        return self._rule(bus, _target(queue, QUEUED), "Rule", what, pattern)

    def _rules_of_failures(self, bus: events.IEventBus, queue: sqs.IQueue) -> None:
        # Of ends only failures are passed on: most runs succeed.
        failed = {RUN_FINISHED: {"status": ["failed"]}}
        for kind, names in QUEUED_FOR_OPERATORS.items():
            pattern = events.EventPattern(
                source=[SOURCE], detail_type=[kind], detail=failed.get(kind)
            )
            what = f"{kind}, for operators"
            self._rule(bus, _target(queue, names), kind, what, pattern)

    def _rule(
        self,
        bus: events.IEventBus,
        target: events.IRuleTarget,
        id: str,
        what: str,
        pattern: events.EventPattern,
    ) -> events.Rule:
        rule = events.Rule(
            self,
            id,
            description=what,
            event_bus=bus,
            event_pattern=pattern,
            targets=[target],
        )
        acknowledge(
            rule,
            (
                "Serverless-EventBusDLQ",
                "EventBridge would keep a whole event there, with its token. An alarm counts those.",
            ),
        )
        return rule


def _target(queue: sqs.IQueue, names: Sequence[str]) -> events.IRuleTarget:
    """Return the queue as the target of a rule, which gets these fields of an event's detail."""
    ids = {name: events.EventField.from_path(f"$.detail.{name}") for name in names}
    message = {"detail-type": events.EventField.detail_type, "detail": ids}
    return targets.SqsQueue(queue, message=events.RuleTargetInput.from_object(message))


def resource_of(scope: Construct, grant: Grant) -> str:
    """Return the ARN of what a channel's grant is for."""
    return Stack.of(scope).format_arn(
        service=grant.service,
        resource=grant.kind,
        resource_name="*",
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )


def statement_of(scope: Construct, grant: Grant) -> iam.PolicyStatement:
    """Return the permission that a channel asks for."""
    return iam.PolicyStatement(
        actions=list(grant.actions),
        resources=[resource_of(scope, grant)],
        conditions=grant.conditions,
    )
