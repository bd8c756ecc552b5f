"""The stack: composition only."""

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.constructs.api import HttpApi
from infra.constructs.bucket import Bucket
from infra.constructs.database import VpcDatabase
from infra.constructs.events import Bus, Sweeper
from infra.constructs.functions import MIGRATE, Deployment, Functions, function_arn
from infra.constructs.identity import UserPool, own_provider
from infra.constructs.journal import Journal
from infra.constructs.layer import Layer
from infra.constructs.migrate import Migration
from infra.constructs.network import Network
from infra.constructs.observability import MonitoredResources, Observability
from infra.constructs.permissions import Resources
from infra.constructs.sockets import SocketApi
from infra.constructs.streams import StreamApi
from infra.constructs.workflow import Workflow, execution_arn, machine_arn
from infra.settings import Provider, Settings


class LayoverStack(Stack):
    """All resources of a stage. The account and the region are the deployer's.

    What functions get (tables, URLs) is made before them, and what invokes them after them: CloudFormation
    allows no circle of references."""

    def __init__(self, scope: Construct, settings: Settings) -> None:
        super().__init__(
            scope,
            settings.prefix,
            description="Layover: durable runs of LLM agents",
            # CloudFormation would delete all it can before it reaches a protected resource.
            termination_protection=settings.protects,
        )
        self.settings = settings
        self.network = Network(self, "Network", settings)
        self.database = VpcDatabase(self, "Database", settings, self.network).address
        self.journal = Journal(self, "Journal", settings)
        self.bus = Bus(self, "Events", settings)
        self.layer = Layer(self, "Layer", settings)
        self.api = HttpApi(self, "Http", settings)
        # Pages of the API itself, and those of the settings, may read streams and files.
        origins = [self.api.url, *settings.origins]
        self.bucket = Bucket(self, "Bucket", settings, origins)
        self.sockets = SocketApi(self, "Sockets", settings)
        self.streams = StreamApi(self, "Streams", settings)
        if settings.issuer is not None:
            self.identity = own_provider(settings)
        else:
            self.identity = UserPool(self, "Identity", settings, [f"{self.api.url}/"]).identity
        deployment = Deployment(
            table=self.journal.table.table_name,
            bucket=self.bucket.bucket.bucket_name,
            bus=self.bus.bus.event_bus_name,
            resources=Resources(
                table=self.journal.table.table_arn,
                bucket=self.bucket.bucket.bucket_arn,
                machine=machine_arn(self, settings),
                executions=execution_arn(self, settings),
                bus=self.bus.bus.event_bus_arn,
                compact=function_arn(self, settings, "compact"),
                sockets=function_arn(self, settings, "sockets"),
                connections=self.sockets.connections,
            ),
            database=self.database,
            network=self.network,
            identity=self.identity,
            socket_url=self.sockets.url,
            socket_endpoint=self.sockets.endpoint,
            stream_url=self.streams.url,
            origins=origins,
        )
        self.functions = Functions(self, "Functions", settings, self.layer, deployment)
        migration = Migration(
            self,
            "Migration",
            settings=settings,
            function=self.functions[MIGRATE],
            database=self.database,
            network=self.network,
        )
        # No function runs on a schema older than itself.
        for function in self.functions.others:
            function.node.add_dependency(migration.done)
        self.workflow = Workflow(self, "Workflow", settings, self.functions.by_name)
        Sweeper(self, "Sweeper", settings, self.functions["sweep"])
        self.api.serve(self.functions["api"], self.identity)
        self.sockets.serve(self.functions["sockets"])
        self.streams.serve(self.functions["streams"], self.identity, origins)
        monitored = MonitoredResources(
            functions=self.functions.by_name,
            machine=self.workflow.machine,
            table=self.journal.table,
            api=self.api.api,
        )
        Observability(self, "Observability", settings, monitored)
        self._add_outputs()

    def _add_outputs(self) -> None:
        outputs = {
            "ApiUrl": self.api.url,
            "SocketUrl": self.sockets.url,
            "StreamUrl": self.streams.url,
            "Issuer": self.identity.issuer,
            "StateMachineArn": self.workflow.machine.state_machine_arn,
            "EventBusName": self.bus.bus.event_bus_name,
            "TableName": self.journal.table.table_name,
            "BucketName": self.bucket.bucket.bucket_name,
        }
        if self.settings.provider is Provider.OPENAI:
            outputs["ModelKeyParameter"] = self.settings.key_parameter
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
