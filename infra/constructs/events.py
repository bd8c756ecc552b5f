"""The bus on which requests for a decision are published, and the sweeper's clock."""

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.constructs.acknowledge import acknowledge
from infra.constructs.time import duration
from infra.settings import Settings


class Bus(Construct):
    """A bus of its own: an event carries its task token, and on the account's default bus it would reach
    listeners there."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        self.bus = events.EventBus(self, "Bus", event_bus_name=settings.prefix)


class Sweeper(Construct):
    """Invokes the sweep. The next sweep does the work that a failed one left."""

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
            rule, ("Serverless-EventBusDLQ", "A missed look is made up for by the next one.")
        )
