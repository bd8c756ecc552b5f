"""The stack: the construct, and the protection of the whole."""

from aws_cdk import Stack
from constructs import Construct

from layover.desk.cdk.construct import UNNAMED, Layover
from layover.desk.cdk.settings import Settings


class LayoverStack(Stack):
    """All resources of a stage. The account and the region are the deployer's."""

    def __init__(self, scope: Construct, settings: Settings) -> None:
        super().__init__(
            scope,
            settings.prefix,
            description="Layover: durable runs of LLM agents",
            # CloudFormation would delete all it can before it reaches a protected resource.
            termination_protection=settings.protects,
        )
        self.settings = settings
        # Stages that are deployed were made before there was a construct: this id leaves their names as they
        # are. `make layer` has built the code.
        self.system = Layover(self, UNNAMED, agents=None, settings=settings)
