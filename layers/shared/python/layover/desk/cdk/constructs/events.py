"""The bus on which requests for a decision are published, and the sweeper's clock."""

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.time import duration
from layover.desk.cdk.settings import Settings


class Bus(Construct):
    """The stack's own bus. An event carries its task token, which decides a call: on the account's default
    bus it would reach every listener there."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        self.bus = events.EventBus(self, "Bus", event_bus_name=settings.prefix)


class Sweeper(Construct):
    """Invokes the sweep. What a failed sweep leaves is the next one's work."""

    def __init__(
        self, scope: Construct, id: str, settings: Settings, sweep: lambda_.IFunction
    ) -> None:
        super().__init__(scope, id)
        rule = events.Rule(
            self,
            "Schedule",
            description="Watches runs whose execution is gone",
            schedule=events.Schedule.rate(duration(settings.sweep_every)),
            targets=[
                targets.LambdaFunction(
                    sweep, retry_attempts=0, max_event_age=duration(settings.sweep_every)
                )
            ],
        )
        acknowledge(
            rule, ("Serverless-EventBusDLQ", "The next sweep makes up for one that was missed.")
        )
