"""Postgres: its address, and the roles that may sign in."""

from dataclasses import dataclass
from typing import Any

from aws_cdk import Annotations, ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_rds as rds
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct, IDependable

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.network import Network
from layover.desk.cdk.constructs.time import duration
from layover.desk.cdk.props import Database
from layover.desk.cdk.settings import Settings

PORT = 5432
OWNER = "layover_owner"
"""The role that owns the tables."""
RUNTIME_ROLE = "layover_runtime"
"""The database's role of all functions but migrate; migration 0001 makes it."""
CREDENTIALS = "@aws-cdk/aws-rds:generatedCredsNotApplied"
RDS_ROOTS = "/opt/certificates/rds.pem"
"""Amazon's roots of RDS certificates, put into the layer by `layover.desk.cdk.build`."""


@dataclass(frozen=True)
class Address:
    """The database as functions reach it. Strings may be CloudFormation tokens."""

    host: str
    name: str
    resource_id: str
    """`cluster-...`: the id by which IAM knows the cluster."""
    admin: str
    """The role that owns the tables."""
    admin_secret: secretsmanager.ISecret
    """The secret with its password."""
    needs: tuple[IDependable, ...]
    """Resources that have to exist before the first connection."""

    def url(self, role: str) -> str:
        """Return a libpq URL without a password: TLS, with the server's certificate and name checked."""
        tls = f"sslmode=verify-full&sslrootcert={RDS_ROOTS}"
        return f"postgresql://{role}@{self.host}:{PORT}/{self.name}?{tls}"

    def sign_in(self, scope: Construct, role: str) -> iam.PolicyStatement:
        """Return the permission to connect as this role, and as no other."""
        arn = Stack.of(scope).format_arn(
            service="rds-db",
            resource="dbuser",
            resource_name=f"{self.resource_id}/{role}",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        return iam.PolicyStatement(actions=["rds-db:connect"], resources=[arn])


def address_of(database: Database, network: Network) -> Address:
    """Return the address of a cluster of the program that makes the stack, and let the functions in. Raises
    InvalidProps."""
    secret, resource_id = database.check()
    cluster = database.cluster
    for number, group in enumerate(cluster.connections.security_groups):
        # In this stack: `allow_from` puts the rule into the cluster's, and then each would need the other.
        ec2.CfnSecurityGroupIngress(
            network,
            f"Database{number}",
            description="From functions of Layover",
            group_id=group.security_group_id,
            source_security_group_id=network.functions_group.security_group_id,
            ip_protocol="tcp",
            from_port=PORT,
            to_port=PORT,
        )
    return Address(
        host=cluster.cluster_endpoint.hostname,
        name=database.name,
        resource_id=resource_id,
        admin=database.owner,
        admin_secret=secret,
        needs=(cluster, network),
    )


class VpcDatabase(Construct):
    """Aurora Serverless v2. It pauses at zero units without connections, leaves a snapshot when it is
    deleted, and may be restored from one."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        settings: Settings,
        network: Network,
        key: kms.IKey | None = None,
    ) -> None:
        """`key`: encrypts the storage of a cluster that begins empty; None: a key of RDS's does. A restored
        one keeps the key of its snapshot."""
        super().__init__(scope, id)
        cluster = self._cluster(settings, network, key)
        acknowledge(
            cluster,
            (
                "AwsSolutions-RDS2",
                "Its own storage is encrypted; a restored one as its snapshot is.",
            ),
            ("AwsSolutions-RDS10", "`retain` keeps a snapshot; `false` is asked for by name."),
            ("AwsSolutions-RDS11", "A subnet without a way in; another port hides nothing."),
        )
        # RDS makes it, because of `manage_master_user_password`.
        assert cluster.secret is not None
        self.address = Address(
            host=cluster.cluster_endpoint.hostname,
            name=settings.database_name,
            resource_id=cluster.cluster_resource_identifier,
            admin=OWNER,
            admin_secret=cluster.secret,
            needs=(cluster, network),
        )

    def _cluster(
        self, settings: Settings, network: Network, key: kms.IKey | None
    ) -> rds.DatabaseCluster | rds.DatabaseClusterFromSnapshot:
        group = ec2.SecurityGroup(
            self,
            "Group",
            vpc=network.vpc,
            description="Postgres",
            allow_all_outbound=False,
        )
        group.add_ingress_rule(network.functions_group, ec2.Port.tcp(PORT), "From functions")
        alike: dict[str, Any] = {
            "engine": rds.DatabaseClusterEngine.aurora_postgres(
                # The major version that the tests run on.
                version=rds.AuroraPostgresEngineVersion.VER_18_4
            ),
            # Only a release moves the minor version. RDS would move it by itself, and the next deployment
            # that touches the version would then ask for an older one, which RDS refuses.
            "writer": rds.ClusterInstance.serverless_v2("Writer", auto_minor_version_upgrade=False),
            **_capacity(settings),
            "readers": _readers(settings.database_readers),
            # RDS makes, rotates and deletes the password; for a restored cluster, it makes a new one.
            "manage_master_user_password": True,
            "iam_authentication": True,
            "vpc": network.vpc,
            "vpc_subnets": network.database_subnets,
            "security_groups": [group],
            "backup": rds.BackupProps(retention=duration(settings.database_backup)),
            "delete_automated_backups": not settings.retain,
            "deletion_protection": settings.protects,
            "copy_tags_to_snapshot": True,
            # A cluster cannot outlive its VPC; a snapshot can.
            "removal_policy": RemovalPolicy.SNAPSHOT if settings.retain else RemovalPolicy.DESTROY,
        }
        if settings.restore_snapshot is not None:
            # Database, owner and encryption are the snapshot's. CloudFormation refuses to be told them again.
            cluster = rds.DatabaseClusterFromSnapshot(
                self, "Cluster", snapshot_identifier=settings.restore_snapshot, **alike
            )
            # The warning says that generated credentials are ignored. There are none: RDS makes the password.
            Annotations.of(cluster).acknowledge_warning(CREDENTIALS)
            return cluster
        return rds.DatabaseCluster(
            self,
            "Cluster",
            default_database_name=settings.database_name,
            credentials=rds.Credentials.from_username(OWNER),
            storage_encrypted=True,
            storage_encryption_key=key,
            **alike,
        )


def _capacity(settings: Settings) -> dict[str, Any]:
    """Return the capacity of a cluster. One that never comes to zero has nothing to pause."""
    least = settings.database_min_acu
    return {
        "serverless_v2_min_capacity": least,
        "serverless_v2_max_capacity": settings.database_max_acu,
        "serverless_v2_auto_pause_duration": None if least else duration(settings.database_pause),
    }


def _readers(count: int) -> list[rds.IClusterInstance]:
    """Return readers that are as large as the writer, whose place one of them takes."""
    return [
        rds.ClusterInstance.serverless_v2(
            f"Reader{number}", auto_minor_version_upgrade=False, scale_with_writer=True
        )
        for number in range(count)
    ]
