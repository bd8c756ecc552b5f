"""The state machine, from the file that the one-machine runner interprets."""

from collections.abc import Mapping

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from layover.desk.cdk.constructs.acknowledge import acknowledge
from layover.desk.cdk.constructs.logs import log_group
from layover.desk.cdk.constructs.permissions import invoked, service
from layover.desk.cdk.settings import Settings
from layover.desk.shipped import sources

DRIVEN = ("turn", "resume", "extract", "compact", "settle")
"""The functions that the definition names, each as `${TurnFunctionArn}`."""


def machine_name(settings: Settings) -> str:
    """Return the machine's name. It is known before the machine is made, because the functions that the
    machine invokes start it."""
    return f"{settings.prefix}-run"


def machine_arn(scope: Construct, settings: Settings) -> str:
    """Return the machine's ARN without a reference to it, which would close a circle."""
    return _states_arn(scope, "stateMachine", machine_name(settings))


def execution_arn(scope: Construct, settings: Settings) -> str:
    """Return the ARN of all executions of the machine."""
    return _states_arn(scope, "execution", f"{machine_name(settings)}:*")


def _states_arn(scope: Construct, resource: str, name: str) -> str:
    return Stack.of(scope).format_arn(
        service="states",
        resource=resource,
        resource_name=name,
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )


class Workflow(Construct):
    """The state machine of standard executions: traced, and logged without their data."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        settings: Settings,
        functions: Mapping[str, lambda_.Function],
        live: Mapping[str, lambda_.Alias],
    ) -> None:
        """`live`: the aliases, which the definition names."""
        super().__init__(scope, id)
        role = iam.Role(
            self,
            "Role",
            assumed_by=service("states.amazonaws.com"),
            description="Invokes the functions of a run",
        )
        arns = [arn for name in DRIVEN for arn in invoked(functions[name].function_arn)]
        role.add_to_policy(iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=arns))
        group = log_group(self, "Log", settings, f"/aws/vendedlogs/states/{settings.prefix}-run")
        self.machine = sfn.StateMachine(
            self,
            "Run",
            state_machine_name=machine_name(settings),
            definition_body=sfn.DefinitionBody.from_file(str(sources().definition)),
            definition_substitutions={
                f"{name.capitalize()}FunctionArn": live[name].function_arn for name in DRIVEN
            },
            role=role,
            tracing_enabled=True,
            # Without data: an outside caller may put a user's text into the answer of a task token
            # (docs/security.md#what-is-logged).
            logs=sfn.LogOptions(
                destination=group, level=sfn.LogLevel.ALL, include_execution_data=False
            ),
            removal_policy=RemovalPolicy.DESTROY,
        )
        acknowledge(
            role,
            (
                "AwsSolutions-IAM5[Resource::*]",
                "Log delivery and X-Ray have no resources to name.",
            ),
        )
