"""The journal's table."""

from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from layover.adapters.journal.items.schema import TABLE, TTL_ATTRIBUTE
from layover.desk.cdk.settings import Settings


class Journal(Construct):
    """An on-demand table of the shape that the adapter and the one-machine runner share, or an adopted
    one."""

    def __init__(
        self, scope: Construct, id: str, settings: Settings, key: kms.IKey | None = None
    ) -> None:
        """`key`: encrypts the table; None: a key of DynamoDB's does."""
        super().__init__(scope, id)
        name = settings.adopt_table
        self.table: dynamodb.ITable = (
            dynamodb.Table.from_table_name(self, "Table", name)
            if name
            else self._make(settings, key)
        )

    def _make(self, settings: Settings, key: kms.IKey | None) -> dynamodb.Table:
        table = dynamodb.Table(
            self,
            "Table",
            **_keys(TABLE["KeySchema"]),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute=TTL_ATTRIBUTE,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED if key else None,
            encryption_key=key,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=settings.protects,
            # Not RETAIN: a first deployment that fails has to remove it, or the next one cannot make it.
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
            if settings.retain
            else RemovalPolicy.DESTROY,
        )
        for index in TABLE["GlobalSecondaryIndexes"]:
            projection = index["Projection"]
            table.add_global_secondary_index(
                index_name=index["IndexName"],
                projection_type=dynamodb.ProjectionType[projection["ProjectionType"]],
                non_key_attributes=projection.get("NonKeyAttributes"),
                **_keys(index["KeySchema"]),
            )
        return table


def _keys(schema: list[dict[str, str]]) -> dict[str, Any]:
    """Return a key schema of DynamoDB's API as the CDK's arguments."""
    types = {a["AttributeName"]: a["AttributeType"] for a in TABLE["AttributeDefinitions"]}
    words = {"HASH": "partition_key", "RANGE": "sort_key"}
    kinds = {"S": dynamodb.AttributeType.STRING, "N": dynamodb.AttributeType.NUMBER}
    return {
        words[key["KeyType"]]: dynamodb.Attribute(
            name=key["AttributeName"], type=kinds[types[key["AttributeName"]]]
        )
        for key in schema
    }
