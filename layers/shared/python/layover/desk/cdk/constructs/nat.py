"""The NAT instance, through which the functions reach the internet, on port 443 only."""

from collections.abc import Mapping
from pathlib import Path

import jsii
from aws_cdk import CfnCreationPolicy, CfnResourceSignal
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.settings import Settings

IMAGE = "{{resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64}}"
"""CloudFormation looks a dynamic reference up only when it makes the instance or changes its properties. A
template parameter would replace the instance with the first deploy after each new image."""
SCRIPT = Path(__file__).parents[1] / "nat.sh"
SIGNAL = "PT15M"
"""Longer than the script takes, which ends after twelve minutes at most."""
HTTPS = 443
CHECKS: Mapping[str, actions.Ec2InstanceAction] = {
    "StatusCheckFailed_System": actions.Ec2InstanceAction.RECOVER,
    "StatusCheckFailed_Instance": actions.Ec2InstanceAction.REBOOT,
}
"""Checks of EC2, each with an alarm, and what is done about it."""


@jsii.implements(ec2.IMachineImage)
class PinnedImage:
    """An image by its id, without a look-up at synthesis."""

    def __init__(self, image_id: str) -> None:
        self._id = image_id

    def get_image(self, scope: Construct) -> ec2.MachineImageConfig:
        """Implements the CDK's interface."""
        return ec2.MachineImageConfig(
            image_id=self._id,
            os_type=ec2.OperatingSystemType.LINUX,
            user_data=ec2.UserData.for_linux(),
        )


class NatInstance:
    """The instance. A VPC takes `provider` and makes the instance; `finish` does the rest after that."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._first_boot = ec2.UserData.for_linux()
        self.provider = ec2.NatProvider.instance_v2(
            instance_type=ec2.InstanceType.of(
                ec2.InstanceClass.BURSTABLE4_GRAVITON, ec2.InstanceSize.NANO
            ),
            machine_image=PinnedImage(settings.nat_ami or IMAGE),
            # Nothing by default: the rules below say what may pass.
            default_allowed_traffic=ec2.NatTrafficDirection.NONE,
            credit_specification=ec2.CpuCredits.STANDARD,
            associate_public_ip_address=True,
            user_data=self._first_boot,
        )

    def finish(self, scope: Construct) -> None:
        """Add the instance's rules, its script and its recovery."""
        connections = self.provider.connections
        vpc = ec2.Peer.ipv4(self._settings.vpc_cidr)
        connections.allow_from(vpc, ec2.Port.tcp(HTTPS), "From the VPC")
        connections.allow_to_any_ipv4(ec2.Port.tcp(HTTPS), "HTTPS, and nothing else")
        self._harden()
        self._set_up()
        self._recover(scope)

    def _harden(self) -> None:
        """Set what the provider cannot: an encrypted disk, and metadata only for sessions (IMDSv2)."""
        resource = self._resource()
        disk = ec2.CfnInstance.EbsProperty(
            encrypted=True, volume_type="gp3", delete_on_termination=True
        )
        resource.block_device_mappings = [
            ec2.CfnInstance.BlockDeviceMappingProperty(device_name="/dev/xvda", ebs=disk)
        ]
        # Only the instance itself may read its metadata: a request that it forwards is one hop further away.
        resource.metadata_options = ec2.CfnInstance.MetadataOptionsProperty(
            http_tokens="required", http_put_response_hop_limit=1
        )
        acknowledge(
            self._instance(),
            ("AwsSolutions-EC28", "Detailed monitoring costs extra; alarms watch the checks."),
            ("CloudFormation-Validate::W9010", "A deployer pins the image of their own region."),
            ("AwsSolutions-EC29", "It holds nothing, and goes with the stack."),
        )

    def _set_up(self) -> None:
        """Set the instance up with our own script. The CDK's commands sometimes fail silently; the script
        signals how it ended. So a deployment without a way out fails here, and not later in a migration whose
        response never arrives."""
        self._first_boot.add_commands(f"VPC_CIDR={self._settings.vpc_cidr}", SCRIPT.read_text())
        # The instance signs the signal with its own identity, so it needs no permission.
        self._first_boot.add_signal_on_exit_command(self._instance())
        self._resource().cfn_options.creation_policy = CfnCreationPolicy(
            resource_signal=CfnResourceSignal(count=1, timeout=SIGNAL)
        )

    def _recover(self, scope: Construct) -> None:
        """Recover from a lost host (AWS starts the instance on another one) and from a hung system (AWS
        restarts it)."""
        for name, action in CHECKS.items():
            metric = cloudwatch.Metric(
                namespace="AWS/EC2",
                metric_name=name,
                dimensions_map={"InstanceId": self._instance().instance_id},
                statistic="Maximum",
            )
            alarm = cloudwatch.Alarm(
                scope,
                f"{name.replace('_', '')}0",
                metric=metric,
                threshold=1,
                evaluation_periods=3,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            )
            alarm.add_alarm_action(actions.Ec2Action(action))

    def _instance(self) -> ec2.Instance:
        """Return the instance. There is exactly one (`nat_gateways=1`), because its commands name the
        instance that signals."""
        (instance,) = self.provider.gateway_instances
        return instance

    def _resource(self) -> ec2.CfnInstance:
        resource = self._instance().node.default_child
        assert isinstance(resource, ec2.CfnInstance)
        return resource
