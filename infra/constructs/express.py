"""Experimental: Aurora's express configuration. No VPC, no NAT, no password: a public TLS end point and IAM.

CloudFormation does not know it, so custom resources ask RDS. Synthesized and tested as a template; nobody
has deployed it yet."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import custom_resources as custom
from constructs import Construct

from infra.constructs.acknowledge import acknowledge, spelled
from infra.constructs.database import PUBLIC_ROOTS, Address
from infra.constructs.logs import log_group
from infra.settings import Settings

OWNER = "postgres"
CALLER = "AWS679f53fac002430cb0da5b7982bd2287"
"""The CDK's name for the one function behind all its custom resources of this kind."""
CREATED = ("DBCluster.Endpoint", "DBCluster.DbClusterResourceId")
INSTANCE = "DBInstances.0.DBInstanceIdentifier"


class ExpressDatabase(Construct):
    """One cluster with the one instance that RDS gives it. Deletion: first the instance, then the cluster."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        self._settings = settings
        self._name = f"{settings.prefix}-express"
        self._logs = log_group(self, "Log", settings, f"/layover/{settings.stage}/express")
        cluster = self._cluster()
        instance = self._instance()
        instance.node.add_dependency(cluster)
        acknowledge(
            Stack.of(self).node.find_child(CALLER),
            (
                "AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/"
                "AWSLambdaBasicExecutionRole]",
                "The CDK's own function, which writes to its own log.",
            ),
            ("Serverless-LambdaDLQ", "CloudFormation waits for its answer."),
            ("Serverless-LambdaTracing", "It runs when the stack is made and when it goes."),
        )
        self.address = Address(
            host=cluster.get_response_field("DBCluster.Endpoint"),
            name="postgres",
            roots=PUBLIC_ROOTS,
            resource_id=cluster.get_response_field("DBCluster.DbClusterResourceId"),
            admin=OWNER,
            admin_secret=None,
            needs=(cluster, instance),
        )

    def _cluster(self) -> custom.AwsCustomResource:
        name = {"DBClusterIdentifier": self._name}
        create = _call(
            "createDBCluster",
            {**name, "Engine": "aurora-postgresql", "WithExpressConfiguration": True},
            custom.PhysicalResourceId.of(self._name),
            CREATED,
        )
        # Asked when anything about this resource changes. It alters nothing, and answers with the same
        # fields as `create`: without them the update fails at whoever reads them.
        modify = _call(
            "modifyDBCluster",
            {**name, "ApplyImmediately": True},
            custom.PhysicalResourceId.of(self._name),
            CREATED,
        )
        kept: dict[str, Any] = {"SkipFinalSnapshot": True}
        if self._settings.retain:
            kept = {"SkipFinalSnapshot": False, "FinalDBSnapshotIdentifier": f"{self._name}-last"}
        return self._resource(
            "Cluster",
            [
                "rds:CreateDBCluster",
                "rds:CreateDBInstance",
                "rds:ModifyDBCluster",
                "rds:DeleteDBCluster",
                "rds:CreateDBClusterSnapshot",
                "rds:AddTagsToResource",
            ],
            on_create=create,
            on_update=modify,
            on_delete=_call("deleteDBCluster", {**name, **kept}),
        )

    def _instance(self) -> custom.AwsCustomResource:
        """Found when the stack is made, deleted before the cluster is. Not proven: that RDS knows it as soon
        as the cluster is asked for; else the deployment fails here."""
        find = _call(
            "describeDBInstances",
            {"Filters": [{"Name": "db-cluster-id", "Values": [self._name]}]},
            custom.PhysicalResourceId.from_response(INSTANCE),
            (INSTANCE,),
        )
        delete = _call(
            "deleteDBInstance",
            {"DBInstanceIdentifier": custom.PhysicalResourceIdReference()},
            # It was never found, or is gone already: nothing to hold a teardown up for.
            passes="DBInstanceNotFound",
        )
        return self._resource(
            "Instance",
            ["rds:DescribeDBInstances", "rds:DeleteDBInstance"],
            on_create=find,
            on_delete=delete,
        )

    def _resource(
        self,
        id: str,
        allowed: list[str],
        *,
        on_create: custom.AwsSdkCall,
        on_delete: custom.AwsSdkCall,
        on_update: custom.AwsSdkCall | None = None,
    ) -> custom.AwsCustomResource:
        permission = iam.PolicyStatement(actions=allowed, resources=self._arns())
        resource = custom.AwsCustomResource(
            self,
            id,
            on_create=on_create,
            on_update=on_update,
            on_delete=on_delete,
            policy=custom.AwsCustomResourcePolicy.from_statements([permission]),
            # The one that Lambda carries may be older than express configurations.
            install_latest_aws_sdk=True,
            log_group=self._logs,
            timeout=Duration.minutes(10),
        )
        acknowledge(
            resource,
            (
                f"AwsSolutions-IAM5[Resource::{spelled(self, self._arns()[1])}]",
                "RDS names the instance of an express cluster by itself.",
            ),
        )
        return resource

    def _arns(self) -> list[str]:
        """The cluster, its instance, its last snapshot."""
        stack = Stack.of(self)

        def arn(kind: str, name: str) -> str:
            return stack.format_arn(
                service="rds",
                resource=kind,
                resource_name=name,
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )

        return [
            arn("cluster", self._name),
            arn("db", f"{self._name}*"),
            arn("cluster-snapshot", f"{self._name}-last"),
        ]


def _call(
    action: str,
    parameters: Mapping[str, Any],
    physical_id: custom.PhysicalResourceId | None = None,
    paths: tuple[str, ...] = (),
    passes: str | None = None,
) -> custom.AwsSdkCall:
    return custom.AwsSdkCall(
        service="rds",
        action=action,
        parameters=parameters,
        physical_resource_id=physical_id,
        output_paths=list(paths) or None,
        ignore_error_codes_matching=passes,
    )
