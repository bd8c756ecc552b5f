"""The Lambda functions: one layer, one asset, and a role for each function."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aws_cdk import ArnFormat, Aws, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from layover.desk.cdk.build import HANDLERS, USER_AGENTS
from layover.desk.cdk.calls import CALLS, SEALS, Calls
from layover.desk.cdk.constructs.acknowledge import acknowledge, spelled
from layover.desk.cdk.constructs.channels import resource_of, statement_of
from layover.desk.cdk.constructs.database import RUNTIME_ROLE, Address
from layover.desk.cdk.constructs.identity import Identity
from layover.desk.cdk.constructs.layer import ARCHITECTURE, RUNTIME, Layer
from layover.desk.cdk.constructs.logs import log_group
from layover.desk.cdk.constructs.models import anywhere, model_statements
from layover.desk.cdk.constructs.network import Network
from layover.desk.cdk.constructs.permissions import OWNERS, Resources, service, statements
from layover.desk.cdk.constructs.time import duration
from layover.desk.cdk.constructs.versions import aliases, digest_of, version_options
from layover.desk.cdk.ipv6 import SERVICES, host_of
from layover.desk.cdk.notify_queue import NOTIFY
from layover.desk.cdk.providers import as_variable, keys_of, windows_as_variable
from layover.desk.cdk.rollback import ALIAS
from layover.desk.cdk.settings import TUNED, FunctionSettings, Provider, Settings
from layover.desk.cdk.variables import (
    ACCEPTS,
    AGENTS,
    API_URL,
    CHANNELED,
    CHANNELS,
    CONNECTIONS_KEY,
    CONNECTIONS_URL,
    EMBEDS,
    KEY,
    LOADS_AGENTS,
    ORIGINS,
    PROVIDERS,
    READS,
    SECRETS,
    SENDS_TRACES,
    TRACE_CONTENT,
    TRACE_HEADERS,
    TRACES,
    WINDOWS,
    check_size,
)
from layover.plugins.people.channel import Grant
from layover.plugins.people.config import grants_of, secrets_of

MIGRATE = "migrate"
STREAMS = "streams"
WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"
"""Variable with the program that replaces Lambda's own runtime client, which cannot stream
(docs/adr/0013-response-streaming.md)."""
VPC_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
)
"""Permissions that Lambda needs in a function's role to place it in a subnet."""
DENIED_TO_CODE = (*VPC_ACTIONS, "ec2:DetachNetworkInterface")
"""The same, denied to the function's own code: AWS's rule for execution roles. Lambda's own requests have no
`lambda:SourceFunctionArn`, so they pass (docs/aws-facts.md#lambda)."""


def function_name(settings: Settings, name: str) -> str:
    """Return the function's name. It is known before the function is made, so that functions may invoke each
    other without a circle of references."""
    return f"{settings.prefix}-{name}"


def function_arn(scope: Construct, settings: Settings, name: str) -> str:
    """Return the ARN of the function of this name."""
    return Stack.of(scope).format_arn(
        service="lambda",
        resource="function",
        resource_name=function_name(settings, name),
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )


@dataclass(frozen=True)
class Sealing:
    """Facts of users' connections for functions. `secrets`: names of those secrets of tools that are secrets
    of connections."""

    key: str
    """ARN."""
    url: str
    """The page to which services send users back."""
    secrets: tuple[str, ...]


@dataclass(frozen=True)
class Deployment:
    """Facts of the rest of the stack for functions: names, ARNs, URLs, the address of Postgres, the
    subnets."""

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
    page_sources: tuple[str, ...]
    """URLs that the console's page asks besides the API, the issuer and the streams."""
    origins: list[str]
    tools: tuple[iam.PolicyStatement, ...] = ()
    """Permissions of the functions that run tools."""
    sealing: Sealing | None = None
    """None: no user connects an account."""
    api_url: str = ""
    """Beginning of the links in messages."""


class Functions(Construct):
    """Every function of the settings, by its name: `functions["turn"]`."""

    def __init__(
        self, scope: Construct, id: str, settings: Settings, layer: Layer, deployment: Deployment
    ) -> None:
        super().__init__(scope, id)
        self._settings = settings
        self._layer = layer
        self._deployment = deployment
        self._digest = digest_of(settings)
        self.by_name: dict[str, lambda_.Function] = {
            name: self._function(name, each) for name, each in settings.functions.items()
        }
        self.live: dict[str, lambda_.Alias] = aliases(self, self._others)
        """Aliases that are to be invoked. `migrate` has none: CloudFormation invokes it before anything is
        published."""
        newer = "Python 3.13 is what the layer is built for and the tests run on."
        failing = "Nothing is lost: runs are in the journal, and the sweeper and CloudFormation try again."
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
        """Return all functions but the one that makes the schema, which they wait for."""
        return list(self._others.values())

    @property
    def _others(self) -> dict[str, lambda_.Function]:
        return {name: function for name, function in self.by_name.items() if name != MIGRATE}

    def _function(self, name: str, each: FunctionSettings) -> lambda_.Function:
        title = name.capitalize()
        full = function_name(self._settings, name)
        group = log_group(self, f"{title}Log", self._settings, f"/aws/lambda/{full}")
        network = self._deployment.network
        # Only functions that use the database are in a subnet: the others reach AWS without the NAT.
        place: dict[str, Any] = {
            "vpc": network.vpc,
            "vpc_subnets": network.function_subnets,
            "security_groups": [network.functions_group],
            "ipv6_allowed_for_dual_stack": True if network.has_ipv6 else None,
        }
        return lambda_.Function(
            self,
            title,
            function_name=full,
            description=f"Layover: {name} ({self._digest})",
            current_version_options=version_options(self._digest),
            runtime=RUNTIME,
            architecture=ARCHITECTURE,
            handler=f"{HANDLERS}.{name}.handler.handler",
            code=self._layer.code,
            layers=[self._layer.version],
            memory_size=each.memory_mib,
            timeout=duration(each.timeout),
            environment=self._environment(name, each),
            role=self._role(title, name, each),
            log_group=group,
            tracing=lambda_.Tracing.ACTIVE,
            # Long polls could otherwise take the whole account's concurrency, and runs would get none.
            reserved_concurrent_executions=self._settings.api_concurrency or None
            if name == "api"
            else None,
            # CloudFormation has its answer by then: a repeated migration would run into the rollback.
            retry_attempts=0 if name == MIGRATE else None,
            # It invokes itself while there is more to send to a socket, 20 s apart, and ends with that
            # socket. Lambda would stop it after 16 times, and the client would wait for ever.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if name == "sockets" else None,
            **(place if each.postgres else {}),
        )

    def _environment(self, name: str, each: FunctionSettings) -> dict[str, str]:
        """Return those of the variables that the function reads for which this deployment has a value."""
        values = self._values(name)
        variables = {key: values.get(key) for key in READS[name]}
        if name == STREAMS:
            variables[WRAPPER] = f"/var/task/{HANDLERS}/{name}/bootstrap"
        if each.postgres:
            variables |= self._of_the_way_out()
        if name in LOADS_AGENTS:
            if self._settings.agents != USER_AGENTS:
                variables[AGENTS] = self._settings.agents
            # A module of the project may read them when it is imported: an `extract` that cannot import it
            # learns nothing.
            variables |= self._settings.tool_env
        variables |= self._of_traces(name)
        secrets = self._secrets_of(name, each)
        variables |= secrets
        variables[SECRETS] = ",".join(secrets) or None
        if (sealing := self._deployment.sealing) is not None and name in SEALS:
            variables |= {CONNECTIONS_KEY: sealing.key, CONNECTIONS_URL: sealing.url}
        if self._reaches_people(name):
            variables |= {
                CHANNELS: self._settings.channels_parameter,
                API_URL: self._deployment.api_url,
            }
        texts = {key: str(value) for key, value in variables.items() if value is not None}
        check_size(name, Stack.of(self).resolve(texts))
        return texts

    def _of_the_way_out(self) -> dict[str, str | None]:
        """Return the variables of functions in the subnets, which have no other way out."""
        if self._deployment.network.has_ipv6:
            return {
                f"AWS_ENDPOINT_URL_{variable}": f"https://{host_of(service, Aws.REGION)}"
                for variable, service in SERVICES.items()
            }
        if not self._settings.https_proxy:
            return {}
        return {
            "HTTPS_PROXY": self._settings.https_proxy,
            "NO_PROXY": ",".join(self._settings.no_proxy) or None,
        }

    def _secrets_of(self, name: str, each: FunctionSettings) -> dict[str, str]:
        """Return those of the tools' secrets that the function may read, with their places: all, if it runs
        tools, and those of connections, if it asks their services."""
        sealing = self._deployment.sealing
        of_connections = sealing.secrets if sealing is not None and name in SEALS else ()
        of_tools = {
            secret: place
            for secret, place in self._settings.tool_secrets.items()
            if each.tools or secret in of_connections
        }
        return of_tools | self._secrets_of_channels(name)

    def _reaches_people(self, name: str) -> bool:
        """Return whether the function reads the channels: one tells people, one takes what they press."""
        return bool(self._settings.channels) and name in CHANNELED

    def _secrets_of_channels(self, name: str) -> dict[str, str]:
        if not self._reaches_people(name):
            return {}
        # `notify` only sends, and `api` only takes what people press.
        sends = name == NOTIFY
        names = secrets_of(self._settings.places, to_send=sends, to_answer=not sends)
        return {each: self._settings.channel_secrets[each] for each in names}

    def _of_traces(self, name: str) -> dict[str, str | None]:
        settings = self._settings
        if not settings.otlp_endpoint or name not in (*ACCEPTS, *SENDS_TRACES):
            return {}
        receiver: dict[str, str | None] = {TRACES: settings.otlp_endpoint}
        if name in ACCEPTS:
            return receiver
        receiver[TRACE_HEADERS] = settings.otlp_headers_parameter or None
        receiver[TRACE_CONTENT] = "true" if settings.trace_content else None
        return receiver

    def _values(self, name: str) -> dict[str, object]:
        """Return every variable that has a value."""
        settings, deployment = self._settings, self._deployment
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
            WINDOWS: windows_as_variable(settings.context_windows),
            "LAYOVER_SERVICE": settings.prefix,
            "LAYOVER_MAX_WAITS": settings.waits,
            "LAYOVER_TABLE": deployment.table,
            "LAYOVER_BUCKET": deployment.bucket,
            "LAYOVER_STATE_MACHINE_ARN": deployment.resources.machine,
            "LAYOVER_EVENT_BUS": deployment.bus,
            "LAYOVER_COMPACT_FUNCTION": f"{function_name(settings, 'compact')}:{ALIAS}",
            "LAYOVER_SOCKET_URL": deployment.socket_url,
            "LAYOVER_SOCKET_ENDPOINT": deployment.socket_endpoint,
            "LAYOVER_SOCKET_FUNCTION": f"{function_name(settings, 'sockets')}:{ALIAS}",
            "LAYOVER_STREAM_URL": deployment.stream_url,
            "LAYOVER_PAGE_SOURCES": " ".join(deployment.page_sources),
            ORIGINS: ",".join(deployment.origins),
            "LAYOVER_ISSUER": deployment.identity.issuer,
            "LAYOVER_CLIENT_ID": deployment.identity.client_id,
            "LAYOVER_OPERATE_GROUP": deployment.identity.operate_group,
            "LAYOVER_AUDIT_GROUP": deployment.identity.audit_group,
            "LAYOVER_READ_CONTENT_GROUP": deployment.identity.read_content_group,
        }

    @property
    def _on_bedrock(self) -> bool:
        return self._settings.provider is Provider.BEDROCK

    def _database(self, name: str) -> dict[str, object]:
        address = self._deployment.database
        settings = self._settings
        # A person waits for the response to a request, so it says 503 earlier than a turn gives up.
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
            *statements(calls, self._deployment.resources),
            *self._secrets(name, each),
            *self._seals(name),
            *(statement_of(self, grant) for grant in self._grants(name)),
            *model_statements(self, self._settings, asks=each.model, embeds=EMBEDS in READS[name]),
        ):
            role.add_to_policy(statement)
        self._acknowledge(role, name, calls)
        return role

    def _basics(self, name: str, each: FunctionSettings) -> Iterator[iam.PolicyStatement]:
        """Yield the permissions to log and, for a function that uses the database, to reach it and sign in.
        AWS's managed policies for this would allow every log group of the account."""
        yield iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[self._log_streams(name)],
        )
        if not each.postgres:
            return
        yield iam.PolicyStatement(actions=list(VPC_ACTIONS), resources=["*"])
        arn = function_arn(self, self._settings, name)
        yield iam.PolicyStatement(
            effect=iam.Effect.DENY,
            actions=list(DENIED_TO_CODE),
            resources=["*"],
            # AWS does not say that the ARN is without the version: both are denied.
            conditions={"ArnLike": {"lambda:SourceFunctionArn": [arn, f"{arn}:*"]}},
        )
        address = self._deployment.database
        if name != MIGRATE:
            yield address.sign_in(self, RUNTIME_ROLE)
        else:
            # It signs in as the cluster's master user, whose password RDS keeps in this secret.
            yield iam.PolicyStatement(
                actions=["secretsmanager:GetSecretValue"],
                resources=[address.admin_secret.secret_arn],
            )

    def _secrets(self, name: str, each: FunctionSettings) -> Iterator[iam.PolicyStatement]:
        """Yield the permissions for parameters, and those of the agents' tools. Parameters need no permission
        on a key: AWS's own key, which encrypts them, serves everyone who may read the parameter."""
        reads = KEY in READS[name] and not self._on_bedrock
        names = [self._settings.key_parameter] if reads else []
        if PROVIDERS in READS[name]:
            names += keys_of(self._settings.providers)
        if self._settings.otlp_endpoint and name in SENDS_TRACES:
            names += filter(None, [self._settings.otlp_headers_parameter])
        if self._reaches_people(name):
            names.append(self._settings.channels_parameter)
        places = self._secrets_of(name, each).values()
        names += [place for place in places if not place.startswith("arn:")]
        if names:
            arns = [
                Stack.of(self).format_arn(
                    service="ssm", resource="parameter", resource_name=name.removeprefix("/")
                )
                for name in names
            ]
            yield iam.PolicyStatement(actions=["ssm:GetParameter"], resources=arns)
        if secrets := [place for place in places if place.startswith("arn:")]:
            yield iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=secrets)
        for statement in self._deployment.tools if each.tools else ():
            # A role's policy takes a statement over, and two roles have these.
            yield statement.copy()

    def _seals(self, name: str) -> Iterator[iam.PolicyStatement]:
        """Yield the permission for the key of users' tokens, for what this deployment seals only."""
        sealing = self._deployment.sealing
        if sealing is not None and name in SEALS:
            yield iam.PolicyStatement(
                actions=[f"kms:{action}" for action in SEALS[name]],
                resources=[sealing.key],
                conditions={
                    "StringEquals": {"kms:EncryptionContext:layover": self._settings.prefix}
                },
            )

    def _grants(self, name: str) -> list[Grant]:
        """Return what the channels ask for."""
        return grants_of(self._settings.places) if name == NOTIFY else []

    def _log_streams(self, name: str) -> str:
        return Stack.of(self).format_arn(
            service="logs",
            resource="log-group",
            resource_name=f"/aws/lambda/{function_name(self._settings, name)}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _acknowledge(self, role: iam.Role, name: str, calls: Calls) -> None:
        on = self._deployment.resources
        reasons = {
            "*": "X-Ray and network interfaces: AWS has no resources to name for them.",
            self._log_streams(name): "The streams of the function's own log group.",
        }
        if calls.index:
            reasons[f"{on.table}/index/*"] = "The table's own indexes."
        if calls.blobs:
            reasons[f"{on.bucket}/{OWNERS}"] = "All users' objects: the code keeps them apart."
        if calls.pushes:
            reasons[on.connections] = "Connections get their ids when they are opened."
        for model in anywhere(self._settings):
            reasons[model] = "An inference profile answers in regions that AWS chooses."
        for grant in self._grants(name):
            reasons[resource_of(self, grant)] = grant.reason
        if calls.executions:
            reasons[on.executions] = "Executions of the one machine have their own names."
        rules = (
            (f"AwsSolutions-IAM5[Resource::{spelled(self, arn)}]", reason)
            for arn, reason in reasons.items()
        )
        acknowledge(role, *rules)
