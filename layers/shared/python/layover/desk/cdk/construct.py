"""Layover as a construct, for a stack of one's own. The repository's stack is made of it."""

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Never

from aws_cdk import Annotations, CfnOutput, Stack, Token
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from layover.desk.cdk import certificates, prices
from layover.desk.cdk.build import Project, Target, build_if_changed
from layover.desk.cdk.connections import connections_of
from layover.desk.cdk.constructs.api import HttpApi
from layover.desk.cdk.constructs.bucket import Bucket
from layover.desk.cdk.constructs.channels import ChannelDocument, ChannelQueue
from layover.desk.cdk.constructs.database import Address, VpcDatabase, address_of
from layover.desk.cdk.constructs.domain import ApiDomain, domain_of
from layover.desk.cdk.constructs.events import Bus, Sweeper
from layover.desk.cdk.constructs.functions import (
    MIGRATE,
    Deployment,
    Functions,
    Sealing,
    function_arn,
)
from layover.desk.cdk.constructs.identity import UserPool, own_provider
from layover.desk.cdk.constructs.journal import Journal
from layover.desk.cdk.constructs.key import key_of
from layover.desk.cdk.constructs.layer import Layer
from layover.desk.cdk.constructs.migrate import Migration
from layover.desk.cdk.constructs.network import Network, Placement
from layover.desk.cdk.constructs.observability import MonitoredResources, Observability
from layover.desk.cdk.constructs.permissions import Resources
from layover.desk.cdk.constructs.seal import Seal
from layover.desk.cdk.constructs.sockets import SocketApi
from layover.desk.cdk.constructs.streams import StreamApi
from layover.desk.cdk.constructs.workflow import Workflow, execution_arn, machine_arn
from layover.desk.cdk.deployed import PROJECT
from layover.desk.cdk.groups import groups_of
from layover.desk.cdk.notify_queue import NOTIFY
from layover.desk.cdk.props import (
    Database,
    Domain,
    InvalidProps,
    Policies,
    agents_at,
    as_settings,
    expect,
    kind_of,
    refuse_unknown,
    settings_of,
    statements_of,
    subnets_of,
)
from layover.desk.cdk.regions import unfit
from layover.desk.cdk.settings import Provider, Settings
from layover.desk.shipped import release
from layover.values.deployment.access import CONNECTED

UNNAMED = "Default"
"""The id that the CDK leaves out of logical ids: resources below it are called as if they were in the stack
itself."""
BUILT = Path(".layover") / "cdk"
"""Folder of what is built at synthesis, below the folder from where the app runs."""
BUILT_CONTEXT = "@layover/built"
"""Context with the folder of what a command has built before (`layer` and `functions` in it): nothing is
built again then."""


class Layover(Construct):
    """The whole system: APIs, functions, state machine, table, bucket, bus, database, users, alarms.

    Args:
        scope: A stack. Its account and region are the system's.
        id: Part of the logical ids. Another one makes everything anew.
        agents: Path of the package or module with the agents, from where the app runs. What it needs from an
            index is in its `requirements.txt`. None: deploy what `layer` and `code` of the settings name.
        settings: Names and values of docs/reference/configuration.md, or `Settings`. Give a `name` to have
            several in an account.
        vpc: A VPC of yours; without it the construct makes one.
        function_subnets: Its subnets with a way out; by default the private ones.
        database_subnets: Its subnets for the database, in two zones; by default the isolated ones.
        database: A cluster of yours in that VPC; without it the construct makes one.
        user_pool: A user pool of yours; without it, and without an issuer, the construct makes one.
        user_pool_domain: The host of its sign-in pages. Without it the construct makes one, unless
            `user_pool.add_domain` did.
        issuer: URL of an OIDC provider of yours instead, with `audience` and `client_id`.
        audience: Audiences, one of which a token of `issuer` has to name.
        client_id: The public client at `issuer` with which `layover login` signs people in.
        tool_policies: What the tools may do, by the names of tools:
            `{"refund": {"actions": ["ses:SendEmail"], "resources": ["arn:..."]}}`, or `iam.PolicyStatement`s.
            IAM does not tell the tools apart: all run in `turn` and `resume`.
        domain: A host name of yours for the API and the console.
        packages: Paths of further packages of the project that the agents import.
        requirements: Path of the agents' requirements, if they are elsewhere.

    Raises InvalidProps, before anything is made.

    Example:
        ```python
        from aws_cdk import App, Stack

        from layover.cdk import Layover

        app = App()
        stack = Stack(app, "shop")
        Layover(stack, "Agents", agents="agents", settings={"name": "shop", "model": "openai/gpt-5-mini"})
        app.synth()
        ```
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        agents: str | Path | None = "agents",
        settings: Settings | Mapping[str, Any] | None = None,
        vpc: ec2.IVpc | None = None,
        function_subnets: ec2.SubnetSelection | None = None,
        database_subnets: ec2.SubnetSelection | None = None,
        database: Database | None = None,
        user_pool: cognito.IUserPool | None = None,
        user_pool_domain: cognito.IUserPoolDomain | None = None,
        issuer: str | None = None,
        audience: Sequence[str] | None = None,
        client_id: str | None = None,
        tool_policies: "Policies | None" = None,
        domain: Domain | None = None,
        packages: Sequence[str | Path] = (),
        requirements: str | Path | None = None,
        **unknown: Never,
    ) -> None:
        super().__init__(scope, id)
        parameters = inspect.signature(Layover.__init__).parameters.values()
        refuse_unknown(
            unknown, [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        )
        place = None if agents is None else agents_at(agents)
        more = {
            "agents": place.stem if place else None,
            "issuer": issuer,
            "audience": _texts("audience", audience),
            "client_id": client_id,
        }
        self.settings = settings_of(settings, more, has_vpc=vpc is not None)
        pages = self._check_users(user_pool, user_pool_domain)
        placement = self._placement(vpc, function_subnets, database_subnets, database)
        if domain is not None:
            if not isinstance(domain, Domain):
                refuse("domain", "Domain(name, certificate)", domain)
            domain.check()
        tools = (*_declared(self.settings), *statements_of(tool_policies or {}))
        self._check_place()
        sources = [place, *map(Path, packages)] if place else [self._code_of_agents]
        self._groups = groups_of(sources)
        self._connections = connections_of(sources)
        if place is not None:
            built = self._built(place, packages, requirements)
            self.settings = self.settings.model_copy(update=built)
        self._make_stores(placement, database, tools)
        self._make_doors(domain_of(self, domain, self.settings), user_pool, pages)
        self._make_functions(tools)
        self._connect()
        self._add_outputs()
        self._tell_price(makes_database=database is None)

    # What was given

    @property
    def _code_of_agents(self) -> Path:
        """The agents in what was built before."""
        return Path(self.settings.code) / self.settings.agents

    def _check_users(
        self, pool: cognito.IUserPool | None, domain: cognito.IUserPoolDomain | None
    ) -> str | None:
        """Return the URL of the sign-in pages that the pool has already."""
        settings = self.settings
        if pool is None:
            if domain is not None:
                raise InvalidProps(
                    "user_pool_domain needs the user_pool whose sign-in pages it has"
                )
            return None
        expect(
            pool, "user_pool_id", "user_pool", "a cognito.IUserPool, such as cognito.UserPool(...),"
        )
        if settings.issuer is not None:
            raise InvalidProps(
                "user_pool and issuer exclude each other: users belong to one of them"
            )
        for name in ("adopt_user_pool", "sign_up", "mfa", "groups"):
            if name in settings.model_fields_set:
                raise InvalidProps(
                    f"settings={{{name!r}: ...}} is about a user pool that Layover makes, and user_pool= is "
                    "given: leave one of them out"
                )
        if domain is not None:
            expect(domain, "domain_name", "user_pool_domain", "a cognito.IUserPoolDomain")
        domains = [
            each
            for root in (domain, pool)
            if root is not None
            for each in root.node.find_all()
            if isinstance(each, cognito.CfnUserPoolDomain)
        ]
        if domains:
            return _pages_at(
                self, domains[0].domain, own=domains[0].custom_domain_config is not None
            )
        if domain is None:
            return None
        return _pages_at(self, domain.domain_name, own="." in domain.domain_name)

    def _placement(
        self,
        vpc: ec2.IVpc | None,
        functions: ec2.SubnetSelection | None,
        database_subnets: ec2.SubnetSelection | None,
        database: Database | None,
    ) -> Placement | None:
        if database is not None and not isinstance(database, Database):
            refuse("database", "Database(cluster, owner=...)", database)
        if database is not None and vpc is not None:
            database.check()
        if vpc is None:
            alone = {
                "function_subnets": functions,
                "database_subnets": database_subnets,
                "database": database,
            }
            for name, value in alone.items():
                if value is not None:
                    raise InvalidProps(f"{name} needs the vpc that has it: vpc=...")
            return None
        if database is not None and database_subnets is not None:
            raise InvalidProps(
                "database and database_subnets exclude each other: the cluster has its own"
            )
        subnets = subnets_of(vpc, functions, database_subnets, makes_database=database is None)
        return Placement(vpc, *subnets)

    def _check_place(self) -> None:
        """Check the region, as far as it is known, and that nothing else in the stack has these names."""
        stack = Stack.of(self)
        region = stack.region
        # The CDK's command line knows the region of the credentials.
        if Token.is_unresolved(region):
            region = os.environ.get("CDK_DEFAULT_REGION", "")
        if (wrong := unfit(region, self.settings)) is not None:
            raise InvalidProps(wrong)
        mark = f"layover:{self.settings.prefix}"
        if stack.node.try_find_child(mark) is not None:
            raise InvalidProps(
                f"two systems in this stack would have names that begin with {self.settings.prefix}: give "
                "one of them another name, settings={'name': ...}"
            )
        # It has no resources, and only its name counts.
        Construct(stack, mark)

    def _built(
        self, agents: Path, packages: Sequence[str | Path], requirements: str | Path | None
    ) -> dict[str, str]:
        """Return the folders of the layer and of the code, as settings. They are built, unless a command has
        done so."""
        settings = self.settings
        if {"layer", "code"} & settings.model_fields_set:
            raise InvalidProps(
                "settings: layer and code name what was built, and agents= says what to build: give agents="
                "None with both, or leave them out"
            )
        folder = self.node.try_get_context(BUILT_CONTEXT)
        if folder is not None:
            return {"layer": f"{folder}/layer", "code": f"{folder}/functions"}
        if requirements is None and (agents / "requirements.txt").is_file():
            requirements = agents / "requirements.txt"
        project = Project(
            agents=agents,
            packages=tuple(Path(each) for each in _texts("packages", packages) or ()),
            requirements=None if requirements is None else Path(requirements),
        )
        project.check()
        certificates.fetch(certificates.BUNDLE)
        target = Target(folder=BUILT)
        build_if_changed(target, project)
        return {"layer": str(target.layer), "code": str(target.functions)}

    # What is made of it. What functions get (tables, URLs) is made before them, and what invokes them after
    # them: CloudFormation allows no circle of references.

    def _make_stores(
        self,
        placement: Placement | None,
        database: Database | None,
        tools: Sequence[iam.PolicyStatement],
    ) -> None:
        settings = self.settings
        self.network = Network(self, "Network", settings, placement, as_settings(tools))
        self._key = (
            key_of(self, "Key", name="data", settings=settings, what="users' data")
            if settings.own_key
            else None
        )
        self._database: Address = (
            VpcDatabase(self, "Database", settings, self.network, self._key).address
            if database is None
            else address_of(database, self.network)
        )
        self._journal = Journal(self, "Journal", settings, self._key)
        self._bus = Bus(self, "Events", settings)
        self._layer = Layer(self, "Layer", settings)

    def _make_doors(
        self, domain: Domain | None, pool: cognito.IUserPool | None, pages_of_pool: str | None
    ) -> None:
        settings = self.settings
        self._http = HttpApi(self, "Http", settings)
        self.domain: ApiDomain | None = None
        pages = [self._http.url]
        if domain is not None:
            self.domain = ApiDomain(self, "Domain", domain, self._http.api, self._http.stage)
            pages = [f"https://{domain.name}", *pages]
        self._url = pages[0]
        # Pages of the API itself, and those of the settings, may read streams and files.
        self._origins = [*pages, *settings.origins]
        self._bucket = Bucket(self, "Bucket", settings, self._origins, self._key)
        self._sockets = SocketApi(self, "Sockets", settings)
        self._streams = StreamApi(self, "Streams", settings)
        if settings.issuer is not None:
            self.identity = own_provider(settings)
        else:
            web = [f"{page}/" for page in pages]
            users = UserPool(
                self,
                "Identity",
                settings,
                web,
                pool=pool,
                pages=pages_of_pool,
                groups=self._groups.names,
            )
            self.identity = users.identity
            if users.makes_groups:
                self._warn_of_groups()

    def _files_at(self) -> tuple[str, ...]:
        """Return the beginnings of the URLs by which pages put files into the bucket."""
        name, region = self.bucket.bucket_name, Stack.of(self).region
        if "." in (self.settings.adopt_bucket or ""):  # No certificate is for its own host.
            return (
                f"https://s3.{region}.amazonaws.com/{name}/",
                f"https://s3.amazonaws.com/{name}/",
            )
        return (f"https://{name}.s3.{region}.amazonaws.com/", f"https://{name}.s3.amazonaws.com/")

    def _warn_of_groups(self) -> None:
        """Warn of rules whose groups are not in the stack."""
        if self._groups.unclear and not self.settings.groups:
            text = (
                f"Approval in {', '.join(self._groups.unclear)} names groups that only running the code "
                "tells, so the stack does not make them, and nobody can be put into them: name them in the "
                "setting `groups`"
            )
            Annotations.of(self).add_warning_v2("@layover:groups", text)

    def _sealing(self) -> Sealing | None:
        """Make the key of users' tokens if users connect accounts, and return what functions need of it."""
        settings, connections = self.settings, self._connections
        if not settings.connections and not connections.of_users:
            return None
        self._warn_of_secrets()
        return Sealing(
            key=Seal(self, "Seal", settings).key.key_arn,
            url=f"{self._url}{CONNECTED}",
            secrets=tuple(settings.tool_secrets) if settings.connections else connections.secrets,
        )

    def _warn_of_secrets(self) -> None:
        """Warn of connections whose services nobody can ask, because nobody finds the secret."""
        settings, connections = self.settings, self._connections
        variables = {*settings.tool_secrets, *settings.tool_env}
        if unset := [name for name in connections.secrets if name not in variables]:
            text = (
                f"connections have the secrets {', '.join(unset)}, which no setting has: say in "
                "`tool_secrets` where they are"
            )
            Annotations.of(self).add_warning_v2("@layover:connections:missing", text)
        if connections.unclear and not settings.connections:
            text = (
                f"Connection in {', '.join(connections.unclear)} has a secret that only running the code "
                "tells, so the functions that ask its service may not read it: name it by secret('NAME') "
                "there, or set the setting `connections`, with which they may read all `tool_secrets`"
            )
            Annotations.of(self).add_warning_v2("@layover:connections", text)

    def _make_functions(self, tools: tuple[iam.PolicyStatement, ...]) -> None:
        settings = self.settings
        deployment = Deployment(
            table=self.table.table_name,
            bucket=self.bucket.bucket_name,
            bus=self.bus.event_bus_name,
            resources=Resources(
                table=self.table.table_arn,
                bucket=self.bucket.bucket_arn,
                machine=machine_arn(self, settings),
                executions=execution_arn(self, settings),
                bus=self.bus.event_bus_arn,
                compact=function_arn(self, settings, "compact"),
                sockets=function_arn(self, settings, "sockets"),
                connections=self._sockets.connections,
                key=None if self._key is None else self._key.key_arn,
            ),
            database=self._database,
            network=self.network,
            identity=self.identity,
            socket_url=self._sockets.url,
            socket_endpoint=self._sockets.endpoint,
            stream_url=self._streams.url,
            page_sources=(self.identity.token_source, *self._files_at()),
            origins=self._origins,
            tools=tools,
            sealing=self._sealing(),
            api_url=self._url,
        )
        self._functions = Functions(self, "Functions", settings, self._layer, deployment)
        migration = Migration(
            self,
            "Migration",
            settings=settings,
            function=self._functions[MIGRATE],
            database=self._database,
            network=self.network,
        )
        # No function runs on a schema older than itself.
        for function in self._functions.others:
            function.node.add_dependency(migration.done)

    def _connect(self) -> None:
        """Make what invokes the functions, and what watches them."""
        settings, functions, live = self.settings, self._functions, self._functions.live
        self._workflow = Workflow(self, "Workflow", settings, functions.by_name, live)
        Sweeper(self, "Sweeper", settings, live["sweep"])
        queue = self._channels()
        self._http.serve(live["api"], self.identity)
        self._sockets.serve(live["sockets"])
        self._streams.serve(live["streams"], self.identity, self._origins)
        monitored = MonitoredResources(
            functions=functions.by_name,
            machine=self._workflow.machine,
            table=self.table,
            api=self.api,
            untold=None if queue is None else queue.untold,
        )
        self._observability = Observability(self, "Observability", settings, monitored)

    def _channels(self) -> ChannelQueue | None:
        """Make what tells people of calls that wait for them, if the settings say where people are."""
        if not self.settings.channels:
            return None
        ChannelDocument(self, "Channels", self.settings)
        return ChannelQueue(self, "Notices", self.settings, self.bus, self._functions.live[NOTIFY])

    # What the program may use

    @property
    def api(self) -> gateway.HttpApi:
        """The HTTP API."""
        return self._http.api

    @property
    def api_url(self) -> str:
        """URL of the API and of the console: of your domain, if there is one."""
        return self._url

    @property
    def stream_url(self) -> str:
        """URL of streamed responses."""
        return self._streams.url

    @property
    def socket_url(self) -> str:
        """URL of the WebSocket API."""
        return self._sockets.url

    @property
    def table(self) -> dynamodb.ITable:
        """The journal's table."""
        return self._journal.table

    @property
    def bucket(self) -> s3.IBucket:
        """The bucket of files and large bodies."""
        return self._bucket.bucket

    @property
    def bus(self) -> events.EventBus:
        """The bus on which requests for decisions are published: the source of rules of yours."""
        return self._bus.bus

    @property
    def state_machine(self) -> sfn.StateMachine:
        """The state machine of the runs."""
        return self._workflow.machine

    @property
    def functions(self) -> Mapping[str, lambda_.Function]:
        """The functions by their names, for their metrics and logs."""
        return self._functions.by_name

    @property
    def live(self) -> Mapping[str, lambda_.Alias]:
        """The alias of each function but `migrate`, for whatever else invokes one."""
        return self._functions.live

    @property
    def tool_functions(self) -> tuple[lambda_.Function, ...]:
        """The functions that run tools. Grant to each what tools need: `orders.grant_read_data(each)`."""
        names = (name for name, each in self.settings.functions.items() if each.tools)
        return tuple(self._functions[name] for name in names)

    @property
    def functions_group(self) -> ec2.SecurityGroup:
        """The security group of the functions in the VPC: what your databases and services let in."""
        return self.network.functions_group

    @property
    def metrics(self) -> Mapping[str, cloudwatch.IMetric]:
        """Metrics that the alarms watch: `executions_failed`, `failed_share`, `provider_wait`, `errors`,
        `throttles`, `unforeseen_errors`, `table_throttles`, `approval_age`, `sweeps`."""
        return self._observability.metrics

    @property
    def alarms(self) -> Mapping[str, cloudwatch.Alarm]:
        """The alarms by their names, such as `Errors`."""
        return self._observability.alarms

    def _add_outputs(self) -> None:
        outputs = {
            "ApiUrl": self.api_url,
            "SocketUrl": self.socket_url,
            "StreamUrl": self.stream_url,
            "Issuer": self.identity.issuer,
            "UserPoolId": self.identity.pool_id,
            "PeopleClientId": self.identity.client_id,
            "MachineClientId": self.identity.machine_id,
            "TokenUrl": self.identity.token_url,
            "StateMachineArn": self.state_machine.state_machine_arn,
            "EventBusName": self.bus.event_bus_name,
            "TableName": self.table.table_name,
            "BucketName": self.bucket.bucket_name,
            "Release": release(),
        }
        if self.settings.project:
            outputs[PROJECT] = self.settings.project
        if self.settings.provider is Provider.OPENAI:
            outputs["ModelKeyParameter"] = self.settings.key_parameter
        if self.domain is not None:
            outputs["DomainTarget"] = self.domain.target
        for name, value in outputs.items():
            if value is not None:
                CfnOutput(self, name, value=value).override_logical_id(f"{self._prefix}{name}")

    def _tell_price(self, *, makes_database: bool) -> None:
        """Have the CDK's command line say what the size sets, and what it costs."""
        alarm_metrics = self.network.alarm_metrics + self._observability.alarm_metrics
        lines = prices.idle(self.settings, alarm_metrics, makes_database=makes_database)
        Annotations.of(self).add_info_v2("@layover:size", prices.report(self.settings, lines))

    @property
    def _prefix(self) -> str:
        """Beginning of the outputs' names, made of the ids below the stack: `AgentsApiUrl`."""
        ids = self.node.path.removeprefix(Stack.of(self).node.path).split("/")
        letters = (c for each in ids if each != UNNAMED for c in each)
        return "".join(c for c in letters if c.isascii() and c.isalnum())


def refuse(prop: str, kind: str, value: object) -> Never:
    """Raise InvalidProps for a value of another kind."""
    raise InvalidProps(f"{prop}: {kind} is expected, not {kind_of(value)}")


def _texts(prop: str, values: Sequence[str | Path] | None) -> tuple[str, ...] | None:
    """Return the texts. Raises InvalidProps for a single text, whose letters would be taken for some."""
    if values is None:
        return None
    if isinstance(values, str | Path) or not isinstance(values, Sequence):
        refuse(prop, f"a list, {prop}=[...],", values)
    return tuple(map(str, values)) or None


def _declared(settings: Settings) -> Iterator[iam.PolicyStatement]:
    """Yield the permissions of tools that the settings name."""
    for policy in settings.tool_policies:
        yield iam.PolicyStatement(actions=list(policy.actions), resources=list(policy.resources))


def _pages_at(scope: Construct, domain: str, *, own: bool) -> str:
    """Return the URL of a pool's sign-in pages: at the deployer's own host, or at one of Cognito's."""
    host = domain if own else f"{domain}.auth.{Stack.of(scope).region}.amazoncognito.com"
    return f"https://{host}"
