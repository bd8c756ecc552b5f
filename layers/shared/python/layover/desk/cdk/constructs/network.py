"""Private subnets for the database and for the functions that connect to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aws_cdk import Annotations, Aws
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.nat import CHECKS, NatInstance
from layover.desk.cdk.settings import Settings, Statement
from layover.desk.cdk.sizes import Nat

ANSWERS = "cloudformation-custom-resource-response-*"
"""AWS's own buckets, one for each region, into which the migration puts its response by a presigned URL."""
OURS = {"aws:PrincipalAccount": Aws.ACCOUNT_ID, "aws:ResourceAccount": Aws.ACCOUNT_ID}


@dataclass(frozen=True)
class Placement:
    """A VPC of the program that makes the stack, and the subnets in it."""

    vpc: ec2.IVpc
    functions: ec2.SubnetSelection
    """Subnets with a way to the internet."""
    database: ec2.SubnetSelection


class Network(Construct):
    """The stack's own VPC, or subnets of the deployer's. In its own, functions reach DynamoDB and S3 through
    free gateway endpoints, and the rest (models, Step Functions, EventBridge) as `nat` says."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        settings: Settings,
        placement: Placement | None = None,
        tools: Sequence[Statement] = (),
    ) -> None:
        """`tools`: what the functions that run tools may do; the endpoints of the stack's own VPC let it
        pass."""
        super().__init__(scope, id)
        self._settings = settings
        self.alarm_metrics = 0
        """Metrics of the alarms that it makes."""
        self._tools = tools
        self.vpc: ec2.IVpc
        if placement is not None:
            self.vpc = placement.vpc
            self.function_subnets = placement.functions
            self.database_subnets = placement.database
        elif settings.vpc_id is None:
            self.vpc = self._own()
            self.function_subnets = ec2.SubnetSelection(subnet_group_name="functions")
            """Subnets of the functions."""
            self.database_subnets = ec2.SubnetSelection(subnet_group_name="database")
            """Subnets of the cluster. In the stack's own VPC they have no way out."""
        else:
            # Nothing is looked up: only its ids are used.
            self.vpc = ec2.Vpc.from_vpc_attributes(
                self, "Vpc", vpc_id=settings.vpc_id, availability_zones=["unknown"]
            )
            self.function_subnets = self._subnets("Function", settings.function_subnets)
            self.database_subnets = self._subnets("Database", settings.database_subnets)
        self.functions_group = ec2.SecurityGroup(
            self,
            "Functions",
            vpc=self.vpc,
            description="Functions that ask the database",
            allow_all_outbound=True,
            allow_all_ipv6_outbound=True if self.has_ipv6 else None,
        )

    def _subnets(self, name: str, ids: tuple[str, ...]) -> ec2.SubnetSelection:
        subnets = [
            ec2.Subnet.from_subnet_id(self, f"{name}{number}", id) for number, id in enumerate(ids)
        ]
        for subnet in subnets:
            # The warning is about a route table's id, which nothing here uses: routes are the deployer's.
            Annotations.of(subnet).acknowledge_warning("@aws-cdk/aws-ec2:noSubnetRouteTableId")
        return ec2.SubnetSelection(subnets=subnets)

    @property
    def has_ipv6(self) -> bool:
        """True if functions leave the VPC by IPv6 only."""
        return self._settings.nat is Nat.IPV6

    def _own(self) -> ec2.Vpc:
        nat = NatInstance(self._settings) if self._settings.nat is Nat.INSTANCE else None
        vpc = self._vpc(nat.provider if nat else ec2.NatProvider.gateway())
        if nat is not None:
            nat.finish(self)
            self.alarm_metrics = len(CHECKS)
        self._endpoints(vpc)
        return vpc

    def _vpc(self, nat: ec2.NatProvider) -> ec2.Vpc:
        def subnets(name: str, kind: ec2.SubnetType, mask: int) -> ec2.SubnetConfiguration:
            return ec2.SubnetConfiguration(name=name, subnet_type=kind, cidr_mask=mask)

        vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(self._settings.vpc_cidr),
            max_azs=self._settings.vpc_zones,
            nat_gateway_provider=nat,
            nat_gateways=0 if self.has_ipv6 else self._settings.nat_gateways,
            # The CDK then makes the egress-only gateway, and the routes of `functions` to it.
            ip_protocol=ec2.IpProtocol.DUAL_STACK if self.has_ipv6 else None,
            # Nothing is ever put into the default group, and emptying it would take a separate function.
            restrict_default_security_group=False,
            subnet_configuration=[
                subnets("public", ec2.SubnetType.PUBLIC, 28),
                subnets("functions", ec2.SubnetType.PRIVATE_WITH_EGRESS, 23),
                subnets("database", ec2.SubnetType.PRIVATE_ISOLATED, 27),
            ],
        )
        acknowledge(
            vpc,
            ("AwsSolutions-VPC7", "Flow logs cost more than the rest of an idle system."),
        )
        return vpc

    def _endpoints(self, vpc: ec2.Vpc) -> None:
        """Add the endpoints, only to the subnets of the functions: the NAT instance takes its updates from
        Amazon's buckets, which the endpoints' policies refuse."""
        services = {
            "DynamoDb": ec2.GatewayVpcEndpointAwsService.DYNAMODB,
            "S3": ec2.GatewayVpcEndpointAwsService.S3,
        }
        functions = [ec2.SubnetSelection(subnet_group_name="functions")]
        for name, service in services.items():
            endpoint = vpc.add_gateway_endpoint(name, service=service, subnets=functions)
            for statement in self._endpoint_statements(name.lower()):
                statement.add_any_principal()
                endpoint.add_to_policy(statement)

    def _endpoint_statements(self, service: str) -> Iterator[iam.PolicyStatement]:
        """Yield what an endpoint allows: this account's identities on this account's data; the actions of
        tools elsewhere; and on S3 the requests without this account's identity: downloads by a link, and the
        response to CloudFormation."""
        yield iam.PolicyStatement(
            actions=[f"{service}:*"], resources=["*"], conditions={"StringEquals": OURS}
        )
        account = {"StringEquals": {"aws:PrincipalAccount": Aws.ACCOUNT_ID}}
        for tool in self._tools:
            actions = [a for a in tool.actions if a.lower().startswith(f"{service}:")]
            if actions:
                yield iam.PolicyStatement(
                    actions=actions, resources=list(tool.resources), conditions=account
                )
        if service == "s3":
            yield iam.PolicyStatement(actions=["s3:GetObject"], resources=["*"])
            answers = f"arn:{Aws.PARTITION}:s3:::{ANSWERS}/*"
            yield iam.PolicyStatement(actions=["s3:PutObject"], resources=[answers])
