"""Private subnets for the database and for the functions that ask it."""

from pathlib import Path

import jsii
from aws_cdk import CfnCreationPolicy, CfnResourceSignal
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.constructs.acknowledge import acknowledge
from infra.settings import Settings

NAT_IMAGE = "{{resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64}}"
"""A dynamic reference is looked up when the instance is made or its own properties change; a template
parameter would replace the instance with every deploy after a new image."""
NAT_SCRIPT = Path(__file__).parents[1] / "nat.sh"
NAT_SIGNAL = "PT15M"
"""The script ends after twelve minutes at most."""
HTTPS = 443


@jsii.implements(ec2.IMachineImage)
class PinnedImage:
    """An image by its id, without a look-up at synthesis."""

    def __init__(self, image_id: str) -> None:
        self._id = image_id

    def get_image(self, scope: Construct) -> ec2.MachineImageConfig:
        """What the CDK asks for."""
        return ec2.MachineImageConfig(
            image_id=self._id,
            os_type=ec2.OperatingSystemType.LINUX,
            user_data=ec2.UserData.for_linux(),
        )


class Network(Construct):
    """A VPC: DynamoDB and S3 through free gateway endpoints, everything else (the model provider, Step
    Functions, EventBridge) through one NAT instance, port 443 only."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        first_boot = ec2.UserData.for_linux()
        nat = ec2.NatProvider.instance_v2(
            instance_type=ec2.InstanceType.of(
                ec2.InstanceClass.BURSTABLE4_GRAVITON, ec2.InstanceSize.NANO
            ),
            machine_image=PinnedImage(settings.nat_ami or NAT_IMAGE),
            # Nothing by default: what may pass is said below.
            default_allowed_traffic=ec2.NatTrafficDirection.NONE,
            credit_specification=ec2.CpuCredits.STANDARD,
            associate_public_ip_address=True,
            user_data=first_boot,
        )
        self.vpc = self._vpc(settings, nat)
        nat.connections.allow_from(
            ec2.Peer.ipv4(settings.vpc_cidr), ec2.Port.tcp(HTTPS), "From the VPC"
        )
        nat.connections.allow_to_any_ipv4(ec2.Port.tcp(HTTPS), "HTTPS, and nothing else")
        self._harden(nat)
        self._set_up(nat, first_boot, settings)
        self._recover(nat)
        self.functions_group = self._functions_group()

    @property
    def function_subnets(self) -> ec2.SubnetSelection:
        """Where functions are."""
        return ec2.SubnetSelection(subnet_group_name="functions")

    @property
    def database_subnets(self) -> ec2.SubnetSelection:
        """Where the cluster is: no way out of there."""
        return ec2.SubnetSelection(subnet_group_name="database")

    def _vpc(self, settings: Settings, nat: ec2.NatInstanceProviderV2) -> ec2.Vpc:
        def subnets(name: str, kind: ec2.SubnetType, mask: int) -> ec2.SubnetConfiguration:
            return ec2.SubnetConfiguration(name=name, subnet_type=kind, cidr_mask=mask)

        def endpoint(
            service: ec2.GatewayVpcEndpointAwsService,
        ) -> ec2.GatewayVpcEndpointOptions:
            return ec2.GatewayVpcEndpointOptions(service=service)

        vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(settings.vpc_cidr),
            max_azs=settings.vpc_zones,
            nat_gateway_provider=nat,
            nat_gateways=1,
            # Nothing is ever put into the default group; emptying it takes a function of its own.
            restrict_default_security_group=False,
            subnet_configuration=[
                subnets("public", ec2.SubnetType.PUBLIC, 28),
                subnets("functions", ec2.SubnetType.PRIVATE_WITH_EGRESS, 23),
                subnets("database", ec2.SubnetType.PRIVATE_ISOLATED, 27),
            ],
            gateway_endpoints={
                "DynamoDb": endpoint(ec2.GatewayVpcEndpointAwsService.DYNAMODB),
                "S3": endpoint(ec2.GatewayVpcEndpointAwsService.S3),
            },
        )
        acknowledge(
            vpc,
            ("AwsSolutions-VPC7", "Flow logs cost more than the rest of an idle system."),
        )
        return vpc

    def _functions_group(self) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self,
            "Functions",
            vpc=self.vpc,
            description="Functions that ask the database",
            allow_all_outbound=True,
        )

    def _harden(self, nat: ec2.NatInstanceProviderV2) -> None:
        """What the provider has no words for: an encrypted disk."""
        for instance in nat.gateway_instances:
            resource = instance.node.default_child
            assert isinstance(resource, ec2.CfnInstance)
            disk = ec2.CfnInstance.EbsProperty(
                encrypted=True, volume_type="gp3", delete_on_termination=True
            )
            resource.block_device_mappings = [
                ec2.CfnInstance.BlockDeviceMappingProperty(device_name="/dev/xvda", ebs=disk)
            ]
            acknowledge(
                instance,
                ("AwsSolutions-EC28", "Detailed monitoring costs; the status checks are watched."),
                (
                    "CloudFormation-Validate::W9010",
                    "A deployer pins the image of their own region.",
                ),
                ("AwsSolutions-EC29", "It holds nothing, and goes with the stack."),
            )

    def _set_up(
        self, nat: ec2.NatInstanceProviderV2, first_boot: ec2.UserData, settings: Settings
    ) -> None:
        """The CDK's own commands fail at times, and nobody hears of it. These say how they ended: without
        a way out the deployment ends here, and not with a migration that nobody hears from."""
        first_boot.add_commands(f"VPC_CIDR={settings.vpc_cidr}", NAT_SCRIPT.read_text())
        # One: who signals is named in the commands.
        (instance,) = nat.gateway_instances
        # It proves by the instance's own identity who it is, so it needs no permission.
        first_boot.add_signal_on_exit_command(instance)
        resource = instance.node.default_child
        assert isinstance(resource, ec2.CfnInstance)
        resource.cfn_options.creation_policy = CfnCreationPolicy(
            resource_signal=CfnResourceSignal(count=1, timeout=NAT_SIGNAL)
        )

    def _recover(self, nat: ec2.NatInstanceProviderV2) -> None:
        """A lost host: the instance starts on another one. A hung system: it is restarted."""
        checks = {
            "StatusCheckFailed_System": actions.Ec2InstanceAction.RECOVER,
            "StatusCheckFailed_Instance": actions.Ec2InstanceAction.REBOOT,
        }
        for number, instance in enumerate(nat.gateway_instances):
            for name, action in checks.items():
                metric = cloudwatch.Metric(
                    namespace="AWS/EC2",
                    metric_name=name,
                    dimensions_map={"InstanceId": instance.instance_id},
                    statistic="Maximum",
                )
                alarm = cloudwatch.Alarm(
                    self,
                    f"{name.replace('_', '')}{number}",
                    metric=metric,
                    threshold=1,
                    evaluation_periods=3,
                    comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
                )
                alarm.add_alarm_action(actions.Ec2Action(action))
