"""The NAT instance: the functions' requests to the internet go through it, port 443 only."""

from pathlib import Path

import jsii
from aws_cdk import CfnCreationPolicy, CfnResourceSignal
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra.constructs.acknowledge import acknowledge
from infra.settings import Settings

IMAGE = "{{resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64}}"
"""A dynamic reference is looked up when the instance is made or its own properties change; a template
parameter would replace the instance with every deploy after a new image."""
SCRIPT = Path(__file__).parents[1] / "nat.sh"
SIGNAL = "PT15M"
"""The script ends after twelve minutes at most."""
HTTPS = 443


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
    """`provider` goes into a VPC; `finish` does the rest once the VPC has made the instance."""

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
        """Add its rules, its set-up, and its restart."""
        connections = self.provider.connections
        vpc = ec2.Peer.ipv4(self._settings.vpc_cidr)
        connections.allow_from(vpc, ec2.Port.tcp(HTTPS), "From the VPC")
        connections.allow_to_any_ipv4(ec2.Port.tcp(HTTPS), "HTTPS, and nothing else")
        self._harden()
        self._set_up()
        self._recover(scope)

    def _harden(self) -> None:
        """Set what the provider cannot: an encrypted disk, and metadata for sessions alone (IMDSv2)."""
        resource = self._resource()
        disk = ec2.CfnInstance.EbsProperty(
            encrypted=True, volume_type="gp3", delete_on_termination=True
        )
        resource.block_device_mappings = [
            ec2.CfnInstance.BlockDeviceMappingProperty(device_name="/dev/xvda", ebs=disk)
        ]
        # IMDSv2, and from the instance itself: traffic that it forwards is a hop further away.
        resource.metadata_options = ec2.CfnInstance.MetadataOptionsProperty(
            http_tokens="required", http_put_response_hop_limit=1
        )
        acknowledge(
            self._instance(),
            ("AwsSolutions-EC28", "Detailed monitoring costs; the status checks are watched."),
            ("CloudFormation-Validate::W9010", "A deployer pins the image of their own region."),
            ("AwsSolutions-EC29", "It holds nothing, and goes with the stack."),
        )

    def _set_up(self) -> None:
        """Set the instance up. The CDK's own commands fail at times without a word; these report how they
        ended. Without a way out the deployment ends here, and not with a migration that never answers."""
        self._first_boot.add_commands(f"VPC_CIDR={self._settings.vpc_cidr}", SCRIPT.read_text())
        # The signal is signed by the instance's own identity, so it needs no permission.
        self._first_boot.add_signal_on_exit_command(self._instance())
        self._resource().cfn_options.creation_policy = CfnCreationPolicy(
            resource_signal=CfnResourceSignal(count=1, timeout=SIGNAL)
        )

    def _recover(self, scope: Construct) -> None:
        """Recover from a lost host (the instance starts on another one) and from a hung system (it is
        restarted)."""
        checks = {
            "StatusCheckFailed_System": actions.Ec2InstanceAction.RECOVER,
            "StatusCheckFailed_Instance": actions.Ec2InstanceAction.REBOOT,
        }
        for name, action in checks.items():
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
        """Return the instance. There is one, as the VPC is told: the commands name the signalling one."""
        (instance,) = self.provider.gateway_instances
        return instance

    def _resource(self) -> ec2.CfnInstance:
        resource = self._instance().node.default_child
        assert isinstance(resource, ec2.CfnInstance)
        return resource
