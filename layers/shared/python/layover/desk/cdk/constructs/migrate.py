"""The schema, which every deployment with other migrations brings up to date."""

import hashlib

from aws_cdk import CustomResource
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IDependable

from layover.adapters.store.postgres.migrate import shipped_migrations
from layover.desk.cdk.constructs.database import Address
from layover.desk.cdk.constructs.network import Network
from layover.desk.cdk.constructs.time import duration
from layover.desk.cdk.settings import Settings


def schema_hash() -> str:
    """Return a hash that changes with any migration, and with nothing else."""
    lines = [f"{m.name} {m.checksum}" for m in shipped_migrations()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


class Migration(Construct):
    """A custom resource that the `migrate` function answers itself, under one constant physical id.
    CloudFormation invokes it again when the migrations change. On deletion it does not connect: the cluster's
    own removal policy decides what happens to the data."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        settings: Settings,
        function: lambda_.Function,
        database: Address,
        network: Network,
    ) -> None:
        super().__init__(scope, id)
        resource = CustomResource(
            self,
            "Schema",
            service_token=function.function_arn,
            resource_type="Custom::LayoverSchema",
            properties={"Schema": schema_hash()},
            service_timeout=duration(settings.migrate_response),
        )
        # The response to CloudFormation needs the network, on deletion as well: so the resource is made last
        # and deleted first.
        needs: list[IDependable] = [function, *database.needs, network]
        resource.node.add_dependency(*needs)
        self.done: IDependable = resource
