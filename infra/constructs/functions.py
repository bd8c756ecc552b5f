"""The Lambda functions: one layer, one asset, a role each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.build import HANDLERS
from infra.calls import CALLS, Calls
from infra.choices import Provider
from infra.constructs.acknowledge import acknowledge, spelled
from infra.constructs.database import RUNTIME_ROLE, Address
from infra.constructs.identity import Identity
from infra.constructs.layer import ARCHITECTURE, RUNTIME, Layer
from infra.constructs.logs import log_group
from infra.constructs.models import anywhere, model_statements
from infra.constructs.network import Network
from infra.constructs.permissions import OWNERS, Resources, service, statements
from infra.constructs.time import duration
from infra.function_settings import FunctionSettings
from infra.providers import as_variable, keys_of
from infra.settings import TUNED, Settings
from infra.variables import EMBEDS, KEY, ORIGINS, PROVIDERS, READS

MIGRATE = "migrate"
STREAMS = "streams"
WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"
"""The variable with the program that takes the place of Lambda's own runtime client, which cannot stream."""
VPC_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)
"""Permissions that Lambda needs in a function's role to place it in a subnet."""


def function_name(settings: Settings, name: str) -> str:
    """Return the name, known before the function is made, so that the functions that it invokes may invoke
    it."""
    return f"{settings.prefix}-{name}"


def function_arn(scope: Construct, settings: Settings, name: str) -> str:
    """The ARN of the function of this name."""
    return Stack.of(scope).format_arn(
        service="lambda",
        resource="function",
        resource_name=function_name(settings, name),
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )


@dataclass(frozen=True)
class Deployment:
    """The inputs of functions: names, the address of Postgres, and the subnets."""

    table: str
    bucket: str
    bus: str
    resources: Resources
    database: Address
    network: Network
    identity: Identity
    socket_url: str
    socket_endpoint: str
    stream_url: str
    origins: list[str]


class Functions(Construct):
    """Every function of the settings, by its name: `functions["turn"]`."""

    def __init__(
        self, scope: Construct, id: str, settings: Settings, layer: Layer, world: Deployment
    ) -> None:
        super().__init__(scope, id)
        self._settings = settings
        self._layer = layer
        self._world = world
        self.by_name: dict[str, lambda_.Function] = {
            name: self._function(name, each) for name, each in settings.functions.items()
        }
        newer = "Python 3.13 is what the layer is built for and the tests run on."
        failing = (
            "Nothing is lost: runs are in the journal, the sweeper and CloudFormation ask again."
        )
        acknowledge(
            self,
            ("AwsSolutions-L1", newer),
            ("Serverless-LambdaLatestVersion", newer),
            ("Serverless-LambdaDLQ", failing),
            ("Serverless-LambdaAsyncFailureDestination", failing),
        )

    def __getitem__(self, name: str) -> lambda_.Function:
        return self.by_name[name]

    @property
    def others(self) -> list[lambda_.Function]:
        """All functions but the one that makes the schema, which they wait for."""
        return [function for name, function in self.by_name.items() if name != MIGRATE]

    def _function(self, name: str, each: FunctionSettings) -> lambda_.Function:
        title = name.capitalize()
        full = function_name(self._settings, name)
        group = log_group(self, f"{title}Log", self._settings, f"/aws/lambda/{full}")
        role = self._role(title, name, each)
        return lambda_.Function(
            self,
            title,
            function_name=full,
            description=f"Layover: {name}",
            runtime=RUNTIME,
            architecture=ARCHITECTURE,
            handler=f"{HANDLERS}.{name}.handler.handler",
            code=self._layer.code,
            layers=[self._layer.version],
            memory_size=each.memory_mib,
            timeout=duration(each.timeout),
            environment=self._environment(name, each),
            role=role,
            log_group=group,
            tracing=lambda_.Tracing.ACTIVE,
            reserved_concurrent_executions=self._settings.api_concurrency or None
            if name == "api"
            else None,
            # CloudFormation has its answer by then: a repeated migration would run into the rollback.
            retry_attempts=0 if name == MIGRATE else None,
            # It invokes itself while there is more to send to a socket, 20 s apart, and ends with that
            # socket. Lambda would stop it after 16 times, and the client would wait for ever.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if name == "sockets" else None,
            **self._place(each),
        )

    def _place(self, each: FunctionSettings) -> dict[str, Any]:
        """Place the function in a subnet, if it needs one."""
        network = self._world.network
        if not each.postgres:
            return {}
        return {
            "vpc": network.vpc,
            "vpc_subnets": network.function_subnets,
            "security_groups": [network.functions_group],
        }

    def _environment(self, name: str, each: FunctionSettings) -> dict[str, str]:
        """Return the function's variables, as far as this deployment has a value for each."""
        values = self._values(name)
        variables = {key: values.get(key) for key in READS[name]}
        if name == STREAMS:
            variables[WRAPPER] = f"/var/task/{HANDLERS}/{name}/bootstrap"
        if each.tools:
            variables |= {**self._settings.tool_env, **self._settings.tool_secrets}
        return {key: str(value) for key, value in variables.items() if value is not None}

    def _values(self, name: str) -> dict[str, object]:
        """Return every variable that has a value."""
        settings, world = self._settings, self._world
        if not self._on_bedrock:
            of_provider: dict[str, object] = {
                KEY: settings.key_parameter,
                "OPENAI_BASE_URL": settings.openai_base_url,
            }
        else:
            of_provider = {"LAYOVER_PROVIDER": "bedrock"}
        return {
            **of_provider,
            **{variable: getattr(settings, field) for field, variable in TUNED.items()},
            **self._database(name),
            PROVIDERS: as_variable(settings.providers),
            "LAYOVER_SERVICE": settings.prefix,
            "LAYOVER_MAX_WAITS": settings.waits,
            "LAYOVER_TABLE": world.table,
            "LAYOVER_BUCKET": world.bucket,
            "LAYOVER_STATE_MACHINE_ARN": world.resources.machine,
            "LAYOVER_EVENT_BUS": world.bus,
            "LAYOVER_COMPACT_FUNCTION": function_name(settings, "compact"),
            "LAYOVER_SOCKET_URL": world.socket_url,
            "LAYOVER_SOCKET_ENDPOINT": world.socket_endpoint,
            "LAYOVER_SOCKET_FUNCTION": function_name(settings, "sockets"),
            "LAYOVER_STREAM_URL": world.stream_url,
            ORIGINS: ",".join(world.origins),
            "LAYOVER_ISSUER": world.identity.issuer,
            "LAYOVER_CLIENT_ID": world.identity.client_id,
        }

    @property
    def _on_bedrock(self) -> bool:
        return self._settings.provider is Provider.BEDROCK

    def _database(self, name: str) -> dict[str, object]:
        address = self._world.database
        settings = self._settings
        # A person waits for the answer to a request.
        wake_timeout = (
            settings.api_waits_for_database
            if name in ("api", STREAMS)
            else settings.turn_waits_for_database
        )
        owns = name == MIGRATE
        return {
            "LAYOVER_DATABASE_ADMIN_URL": address.url(address.admin),
            "LAYOVER_DATABASE_ADMIN_SECRET": address.admin_secret.secret_arn if owns else None,
            "LAYOVER_DATABASE_AUTH": None if owns else "iam",
            "LAYOVER_DATABASE_URL": address.url(RUNTIME_ROLE),
            "LAYOVER_DATABASE_WAKING_S": int(wake_timeout.total_seconds()),
        }

    def _role(self, title: str, name: str, each: FunctionSettings) -> iam.Role:
        role = iam.Role(
            self,
            f"{title}Role",
            assumed_by=service("lambda.amazonaws.com"),
            description=f"Layover: {name}",
        )
        calls = CALLS[name]
        for statement in (
            *self._basics(name, each),
            *statements(calls, self._world.resources),
            *self._sign_in(name, each),
            *self._secrets(name, each),
            *model_statements(self, self._settings, asks=each.model, embeds=EMBEDS in READS[name]),
        ):
            role.add_to_policy(statement)
        self._acknowledge(role, name, calls)
        return role

    def _basics(self, name: str, each: FunctionSettings) -> Iterator[iam.PolicyStatement]:
        yield iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[self._log_streams(name)],
        )
        if each.postgres:
            yield iam.PolicyStatement(actions=list(VPC_ACTIONS), resources=["*"])

    def _sign_in(self, name: str, each: FunctionSettings) -> Iterator[iam.PolicyStatement]:
        address = self._world.database
        if not each.postgres:
            return
        if name != MIGRATE:
            yield address.sign_in(self, RUNTIME_ROLE)
        else:
            yield iam.PolicyStatement(
                actions=["secretsmanager:GetSecretValue"],
                resources=[address.admin_secret.secret_arn],
            )

    def _secrets(self, name: str, each: FunctionSettings) -> Iterator[iam.PolicyStatement]:
        """Yield the permissions for parameters. The key that encrypts them is AWS's own and open to readers
        of the parameters."""
        reads = KEY in READS[name] and not self._on_bedrock
        names = [self._settings.key_parameter] if reads else []
        if PROVIDERS in READS[name]:
            names += keys_of(self._settings.providers)
        if each.tools:
            names += self._settings.tool_secrets.values()
        if names:
            arns = [self._arn("ssm", "parameter", name.removeprefix("/")) for name in names]
            yield iam.PolicyStatement(actions=["ssm:GetParameter"], resources=arns)
        for each_more in self._settings.tool_policies if each.tools else ():
            yield iam.PolicyStatement(
                actions=list(each_more.actions), resources=list(each_more.resources)
            )

    def _arn(self, service: str, resource: str, name: str) -> str:
        return Stack.of(self).format_arn(service=service, resource=resource, resource_name=name)

    def _log_streams(self, name: str) -> str:
        return Stack.of(self).format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"/aws/lambda/{function_name(self._settings, name)}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _acknowledge(self, role: iam.Role, name: str, calls: Calls) -> None:
        on = self._world.resources
        reasons = {
            "*": "X-Ray and network interfaces: AWS knows no resources to name for them.",
            self._log_streams(name): "The streams of the function's own log group.",
        }
        if calls.index:
            reasons[f"{on.table}/index/*"] = "The table's own indexes."
        if calls.blobs:
            reasons[f"{on.bucket}/{OWNERS}"] = "All users' objects: the code holds them apart."
        if calls.pushes:
            reasons[on.connections] = "Connections get their ids when they are opened."
        for model in anywhere(self._settings):
            reasons[model] = "An inference profile answers in regions that AWS chooses."
        if calls.executions:
            reasons[on.executions] = "Executions of the one machine have names of their own."
        rules = (
            (f"AwsSolutions-IAM5[Resource::{spelled(self, arn)}]", reason)
            for arn, reason in reasons.items()
        )
        acknowledge(role, *rules)
