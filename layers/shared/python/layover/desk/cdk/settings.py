"""Every number of a deployment, with its unit, and the deployer's choices."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    field_validator,
    model_validator,
)

from layover.desk.cdk.providers import ContextWindows, FurtherProviders, keys_of
from layover.desk.cdk.sizes import Nat, Size, values_of
from layover.errors import ConfigurationError, unknown_name
from layover.plugins.people.config import read_channels, secrets_of
from layover.project import FILE, ID, MAX_NAME, NAME, Project, read, refuse_reserved, text_of
from layover.values.channels import Channels
from layover.values.deployment.providers import (
    BEDROCK_PREFIX,
    HASHING_PREFIX,
    OFFLINE_PREFIX,
    ProviderAddress,
)
from layover.values.lease import max_waits
from layover.values.refusals import refusal


class SettingsInvalid(ValueError):
    """The settings of a stage make no sense, or do not exist. The deployer must change what the message
    names."""


class Provider(StrEnum):
    """The provider of the models."""

    OPENAI = "openai"
    """OpenAI, or any server that speaks its API: with a key."""
    BEDROCK = "bedrock"
    """Amazon Bedrock in the stack's region: with the functions' roles, and only the named models."""


class Mfa(StrEnum):
    """The rule of a second factor (TOTP) for the stack's own users."""

    REQUIRED = "required"
    """For every user: Cognito's pages ask for it at the first sign-in."""
    OPTIONAL = "optional"
    """For users who have enrolled by `layover mfa`."""
    OFF = "off"


class FunctionSettings(BaseModel):
    """Memory, time and reach of one Lambda function."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_mib: int = Field(ge=128, le=10_240)
    """CPU comes with it: 1,769 MiB are one core."""
    timeout: timedelta
    postgres: bool = True
    """True if it connects to Postgres, from the private subnets."""
    model: bool = False
    """True if it calls chat models."""
    tools: bool = False
    """True if it runs the tools of the agents."""


FUNCTIONS: Mapping[str, FunctionSettings] = {
    # An HTTP API gives up on its function after 30 s (docs/aws-facts.md#api-gateway).
    "api": FunctionSettings(memory_mib=1024, timeout=timedelta(seconds=29)),
    # 900 s is the most that Lambda gives: a turn that needs more yields to a fresh invocation.
    "turn": FunctionSettings(
        memory_mib=1024, timeout=timedelta(seconds=900), model=True, tools=True
    ),
    "resume": FunctionSettings(memory_mib=1024, timeout=timedelta(seconds=900), tools=True),
    "extract": FunctionSettings(memory_mib=1024, timeout=timedelta(seconds=900), model=True),
    "compact": FunctionSettings(memory_mib=1024, timeout=timedelta(seconds=900), model=True),
    "settle": FunctionSettings(memory_mib=512, timeout=timedelta(seconds=60)),
    "sweep": FunctionSettings(memory_mib=512, timeout=timedelta(seconds=60)),
    # A WebSocket API gives up after 29 s; a replay of missed events stops at 20 s.
    "sockets": FunctionSettings(memory_mib=512, timeout=timedelta(seconds=29), postgres=False),
    # A REST API ends a stream after 15 minutes.
    "streams": FunctionSettings(memory_mib=512, timeout=timedelta(seconds=900)),
    # It waits for Slack, mail and Teams, in the time of a batch of events.
    "notify": FunctionSettings(memory_mib=512, timeout=timedelta(seconds=30), postgres=False),
    # Five minutes for a waking database, two for the lock, and the migrations themselves.
    "migrate": FunctionSettings(memory_mib=512, timeout=timedelta(minutes=14)),
}
"""By the name of the folder in `functions/`."""


class Statement(BaseModel):
    """One permission of the functions that run tools."""

    # A condition that was left out without a word would allow more than was meant.
    model_config = ConfigDict(frozen=True, extra="forbid")

    actions: tuple[str, ...]
    resources: tuple[str, ...]


DEV = "dev"
"""The stage if none is named."""
STAGES = "infra/stages"
"""Folder of a deployer's settings for each stage."""
USE, ACT_AS = "layover/use", "layover/act-as"
OPERATE, AUDIT, READ = "layover/operate", "layover/audit", "layover/read-content"
"""The scopes that the stack's own user pool gives."""
SUBNET = re.compile("subnet-[0-9a-f]+")
MAX_HOST = 253
HOST = re.compile(r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$")
PROXY = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?/?")
BEDROCK_ID = re.compile(r"[a-z0-9][A-Za-z0-9.:_-]*")
"""The id of a model on Bedrock: no wildcard, no ARN, no maker before a slash."""
TITAN = "amazon.titan-embed-text-"
"""Beginning of the ids of the embedders that have an adapter."""
NEAR = 0.7
"""Likeness (`difflib`) above which a word before a colon is taken for a setting."""
IN_CODE = frozenset(
    {
        "agents",
        "channel_secrets",
        "channels",
        "functions",
        "has_own_vpc",
        "tool_env",
        "tool_policies",
        "tool_secrets",
    }
)
"""Settings that the command line cannot express."""
BUILT_PATHS = frozenset({"stages", "layer", "code"})
"""Settings that name folders of the machine that deploys, and nothing of the deployment."""
OF_THE_CDK = frozenset({"cli-telemetry", "acknowledged-issue-numbers"})
"""Names that the CDK keeps in `cdk.json` and `cdk.context.json`, and that have neither `@` nor a colon."""
LOOKED_UP_BY_THE_CDK = frozenset(
    {
        "ami",
        "availability-zones",
        "cc-api-provider",
        "endpoint-service-availability-zones",
        "hosted-zone",
        "key-provider",
        "load-balancer",
        "load-balancer-listener",
        "plugin",
        "security-group",
        "ssm",
        "vpc-provider",
    }
)
"""Beginnings of names in `cdk.context.json`: `vpc-provider:account=1:...`. They are written out, because the
import of the CDK starts a process."""
MAX_CHANNELS = 8192
"""Bytes of the largest parameter that SSM takes."""
GROUP = r"""^[^\s,;\[\]"]{1,128}$"""
"""A group's name, as Cognito and `Approval` take it."""
MACHINE_SCOPES = ("operate", "audit", "read-content")
"""Scopes that a backend's client has only if a setting says so."""
SECRET_ARN = re.compile(r"arn:[a-z-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:\S+-[A-Za-z0-9]{6}")
"""A secret of Secrets Manager: IAM compares ARNs with the six characters that it puts behind the name."""
WAITS_OF_A_NEW_ACCOUNT = 5
"""An account begins with a concurrency of 10 for everything."""


def _names(value: object) -> object:
    """Split the command line's `a,b`."""
    return [v.strip() for v in value.split(",") if v.strip()] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]


TUNED: Mapping[str, str] = {
    name: f"LAYOVER_{name.upper()}"
    for name in (
        "model",
        "embedder_model",
        "title_model",
        "observer_model",
        "extractor_model",
        "last_messages",
        "semantic_recall_top_k",
        "node_memory_days",
        "log_level",
        "run_retention_days",
        "thread_retention_days",
        "entry_retention_days",
        "observer_message_tokens",
        "reflector_observation_tokens",
        "daily_tokens",
        "daily_cost_usd",
        "scope",
        "act_as_scope",
        "operate_scope",
        "audit_scope",
        "read_content_scope",
        "groups_claim",
        "login_scope",
        "audit_days",
        "max_user_waits",
        "max_user_streams",
        "docs",
        "runs_per_minute",
        "provider_patience_s",
    )
}
"""Settings that functions get as they are: field -> variable."""
VARIABLES: Mapping[str, str] = {
    **TUNED,
    "provider": "LAYOVER_PROVIDER",
    "providers": "LAYOVER_PROVIDERS",
    "context_windows": "LAYOVER_CONTEXT_WINDOWS",
    "openai_base_url": "OPENAI_BASE_URL",
    "otlp_endpoint": "OTEL_EXPORTER_OTLP_ENDPOINT",
    "channels": "LAYOVER_CHANNELS",
}
"""Settings of a stage that are variables on one machine: field -> variable."""


class Settings(BaseModel):
    """The settings of a deployment. `[stages.STAGE]` of `layover.toml` or `infra/stages/STAGE.json` keeps its
    fields; context wins over it: `layover deploy --stage prod -c retain=false`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="layover", max_length=MAX_NAME, pattern=NAME)
    """Beginning of every name, so that an account can hold several projects: `name` of `layover.toml`. It
    stays as it is: another one makes everything anew."""
    project: str = Field(default="", pattern=ID)
    """The project that makes the stack: `id` of `layover.toml`. The stack tells it, and is not changed by
    another project."""
    stage: str = Field(default=DEV, pattern=r"^[a-z][a-z0-9]{0,15}$")
    """Part of every name, so that an account can hold several stages."""
    size: Size = Size.SMALL
    """`production` sets what `layover.desk.cdk.sizes` lists. Each setting that is given wins over it."""
    retain: bool = True
    """Data outlives the stack: the table and the bucket stay, and the cluster leaves a snapshot. `false`
    leaves nothing."""
    protection: bool = True
    """Protect the stack, and all that `retain` keeps, against deletion. `make deploy` makes a new stack
    without protection, so that a first deployment that fails can be removed. To take a stack down, turn it
    off."""
    adopt_table: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]{3,255}$")
    """Name of an existing table, which an earlier stack left or which was restored. The stack uses an adopted
    resource and never changes or deletes it; its properties (indexes, TTL, CORS, MFA) stay as they are.
    Without the setting the next deployment would begin with an empty one, so it stays in the stage's file."""
    adopt_bucket: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
    adopt_user_pool: str | None = Field(default=None, pattern=r"^[a-z0-9-]+_[A-Za-z0-9]+$")
    """Id of an existing user pool. The stack makes clients, scopes and the host of the sign-in pages in
    it."""
    restore_snapshot: str | None = Field(default=None, pattern=r"^[A-Za-z][A-Za-z0-9:_-]*$")
    """Snapshot from which the cluster is restored: an identifier or an ARN. It stays in the stage's file as
    well, because CloudFormation replaces a cluster whose snapshot changes."""
    issuer: str | None = None
    """Your own OIDC provider, instead of Cognito."""
    audience: Names = ()
    """Audiences, one of which a token of `issuer` has to name."""
    client_id: str | None = None
    """The public client at `issuer` with which `layover login` signs people in."""
    token_url: str | None = Field(default=None, pattern=r"^https://[^\s;,]+$")
    """URL at which `issuer` gives tokens, if that is another host: the console asks no other."""
    scope: str = USE
    """Scope that every token needs. ID tokens have none, so they are refused."""
    act_as_scope: str = ACT_AS
    """Scope with which a backend names the end user (`X-Layover-Resource`)."""
    operate_scope: str = OPERATE
    """Scope with which an operator lists, cancels, redrives and denies all users' runs."""
    audit_scope: str = AUDIT
    """Scope with which an auditor reads decisions and operations, over all users."""
    read_content_scope: str = READ
    """Scope with which an operator also reads what all users' runs say."""
    groups_claim: str | None = None
    """LAYOVER_GROUPS_CLAIM: the claim of a token that names the caller's groups."""
    operate_group: str | None = Field(default=None, pattern=GROUP)
    """LAYOVER_OPERATE_GROUP: its members are operators. In a user pool that Layover made it is
    `layover-operators`; elsewhere, without it, only `operate_scope` makes an operator."""
    audit_group: str | None = Field(default=None, pattern=GROUP)
    """LAYOVER_AUDIT_GROUP: likewise for auditors, `layover-auditors`."""
    read_content_group: str | None = Field(default=None, pattern=GROUP)
    """LAYOVER_READ_CONTENT_GROUP: likewise for `read_content_scope`, `layover-readers`."""
    login_scope: str | None = None
    """LAYOVER_LOGIN_SCOPE: the scopes to ask `issuer` for when a person signs in, where they have other names
    than in its tokens."""
    sign_up: bool = False
    """Open the user pool for sign-up to everyone."""
    machine_client: bool = False
    """Give the user pool a client for your backend (Cognito bills those by the month)."""
    machine_scopes: Names = ()
    """Scopes of that client besides `use` and `act-as`: `operate`, `audit`, `read-content`."""
    groups: Names = ()
    """Groups that the stack makes in its own user pool, besides those that `Approval` names in the agents'
    code: for names that the code computes, of which synthesis warns."""
    connections: bool = False
    """True: users connect accounts although the agents' code has no such `Connection` that synthesis can
    read, because a package of others has it. All `tool_secrets` are then for the functions that ask its
    service, the API among them."""
    callback_urls: Names = ()
    """URLs of your own front ends to which the user pool's pages send browsers back, letter by letter."""
    origins: Names = ()
    """Web origins that may call the API and put files into the bucket."""
    domain: str | None = Field(default=None, max_length=MAX_HOST, pattern=HOST.pattern)
    """A host name of the deployer's for the API and its console: `agents.example.com`."""
    domain_certificate: str | None = Field(
        default=None, pattern=r"^arn:aws:acm:[a-z0-9-]+:\d{12}:certificate/[A-Za-z0-9-]+$"
    )
    """ARN of a certificate of ACM for `domain`, in the stack's region. Without it the stack makes one, which
    `domain_zone` proves."""
    domain_zone: str | None = Field(default=None, pattern="^Z[A-Z0-9]{1,31}$")
    """Id of the hosted zone of Route 53 that gets the records. Without it the deployer makes the one that the
    output `DomainTarget` names."""
    alarms: bool = True
    """Make alarms. They cost by the month whether they have an address or not; a trial may do without."""
    alarms_email: str | None = None
    budget_usd: float | None = Field(default=None, gt=0)
    """US dollars of the whole account in a month; mails at 80 % spent and at 100 % forecast."""
    daily_tokens: int | None = Field(default=None, ge=1)
    """Tokens for each user and day (UTC). After that, no step of their runs begins."""
    daily_cost_usd: Decimal | None = Field(default=None, gt=0)
    runs_per_minute: int | None = Field(default=None, ge=1)
    provider_patience_s: float | None = Field(default=None, ge=0, le=2_592_000)
    api_concurrency: int = Field(default=100, ge=0)
    """Simultaneous invocations of `api`, long polls included, that are reserved for it. The rest of the
    account's concurrency is for runs. 0 reserves nothing (necessary in an account with less than 200)."""
    mfa: Mfa = Mfa.OPTIONAL
    nat: Nat = Nat.INSTANCE
    nat_gateways: int = Field(default=1, ge=1, le=3)
    """NAT gateways, each in another zone: functions of a zone go out through that zone's."""
    vpc_id: str | None = Field(default=None, pattern="^vpc-[0-9a-f]+$")
    """An existing VPC, which the stack uses instead of making one; with `nat=none`."""
    has_own_vpc: bool = False
    """True if the program that makes the stack gives it a VPC (`Layover(vpc=...)`)."""
    function_subnets: Names = ()
    """Ids of its subnets from which functions reach the model provider and AWS."""
    database_subnets: Names = ()
    """Ids of its subnets for the database, in at least two zones."""
    https_proxy: str | None = None
    """URL of the proxy that is the only way out of `function_subnets`: the functions there get it as
    HTTPS_PROXY, for models and for AWS. It is in plain sight, so it has no password."""
    no_proxy: Names = ()
    """Hosts that those functions ask directly (NO_PROXY): the endpoints that the VPC has."""
    docs: bool = False
    """Serve `/docs`, without a token."""
    max_user_waits: int | None = Field(default=None, ge=0)
    """Requests of one user that may wait at the same time; any further one is answered at once."""
    max_user_streams: int | None = Field(default=None, ge=0)
    """Streams of one user that may be open at the same time."""
    max_waits: int | None = Field(default=None, ge=0)
    """Waiting requests of all users, and as many streams. Without it, 60 % of `api_concurrency`, or 5 if
    nothing is reserved."""
    nat_ami: str | None = None
    """Image of the NAT instance (`ami-...`); without it, Amazon Linux 2023 of the day when it is made."""

    provider: Provider = Provider.OPENAI
    """LAYOVER_PROVIDER."""
    model: str | None = None
    """LAYOVER_MODEL; `layover.values.deployment.environment` describes this and the others of `TUNED`."""
    models: Names = ()
    """Further models that agents name. On Bedrock, roles may call only these and the ones named below."""
    embedder_model: str | None = None
    title_model: str | None = None
    observer_model: str | None = None
    extractor_model: str | None = None
    last_messages: int | None = Field(default=None, ge=1)
    semantic_recall_top_k: int | None = Field(default=None, ge=1)
    observer_message_tokens: int | None = Field(default=None, ge=1)
    reflector_observation_tokens: int | None = Field(default=None, ge=1)
    node_memory_days: int | None = Field(default=None, ge=1)
    run_retention_days: int | None = Field(default=None, ge=1)
    audit_days: int | None = Field(default=None, ge=1)
    thread_retention_days: int | None = Field(default=None, ge=1)
    entry_retention_days: int | None = Field(default=None, ge=1)
    log_level: str | None = Field(default=None, pattern="^(DEBUG|INFO|WARNING|ERROR)$")
    otlp_endpoint: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """OTEL_EXPORTER_OTLP_ENDPOINT: the receiver of traces and metrics, without `/v1/traces`. The agents'
    requirements list its packages (docs/guides/tracing.md)."""
    otlp_headers_parameter: str = ""
    """SSM SecureString parameter with the receiver's headers, made by hand: `authorization=Bearer ...`."""
    trace_content: bool = False
    """True: traces also say what messages, arguments and results say, as the agents' hooks leave them."""
    openai_base_url: str | None = None
    """OPENAI_BASE_URL."""
    api_key_parameter: str = ""
    """SSM SecureString parameter with its key, made by hand; else `/layover/STAGE/openai-api-key`."""
    providers: FurtherProviders = Field(default={})
    """LAYOVER_PROVIDERS: the keys are in SSM SecureString parameters, made by hand."""

    context_windows: ContextWindows = Field(default={})
    """LAYOVER_CONTEXT_WINDOWS: tokens by the names of models that the catalogue does not know."""

    revision: str = Field(default="", max_length=64)
    """Any text: another one publishes every function anew. It is for what a template does not show, such as a
    cluster of your own that another one has replaced under the same name."""

    stages: str = STAGES
    """Folder with a file of settings for each stage."""
    layer: str = "build/layer"
    """Folder that `layover.desk.cdk.build` made for the layer."""
    code: str = "build/functions"
    """Folder that `layover.desk.cdk.build` made of the functions and the agents."""

    agents: str = Field(default="user_agents", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """LAYOVER_AGENTS: the package of the agents in `code`."""
    tool_env: Mapping[str, str] = Field(default={})
    """Environment variables of every function that imports the agents. They are in plain sight, so nothing
    secret belongs here."""
    tool_secrets: Mapping[str, str] = Field(default={})
    """Environment variable -> name of an SSM SecureString parameter, or ARN of a secret of Secrets Manager.
    Only the functions that run tools have the variable, which holds that, and may read the value:
    `{"SHOP_KEY": "/shop/api-key"}`."""
    tool_policies: tuple[Statement, ...] = ()
    """`Statement(actions=("ses:SendEmail",), resources=("arn:...",))`: of the functions that run tools."""
    channels: Mapping[str, Any] = Field(default={})
    """The places in which people are told of calls that wait for them (`layover.plugins.people.config`).
    Without it nobody is told by Layover."""
    channel_secrets: Mapping[str, str] = Field(default={})
    """As `tool_secrets`, for channels: `SLACK_BOT_TOKEN`, `SLACK_SIGNING_SECRET`, and the URLs of Teams by
    the names that `channels` has."""
    functions: Mapping[str, FunctionSettings] = FUNCTIONS

    database_name: str = "layover"
    database_min_acu: float = 0
    """Aurora capacity units; 0 lets the cluster pause."""
    database_max_acu: float = 4
    database_pause: timedelta = timedelta(seconds=300)
    """Time without a connection until it pauses. Aurora takes no less."""
    database_backup: timedelta = timedelta(days=7)
    database_readers: int = Field(default=0, ge=0, le=2)
    """Readers in other zones, each as large as the writer: one of them takes its place within a minute. No
    function reads from them."""
    bucket_versions_days: int | None = Field(default=None, ge=1)
    """Days that S3 keeps what was overwritten or deleted, for whoever has to bring it back. Erased files
    of users live on for as long. None: no versions."""
    own_key: bool = False
    """Encrypt the table, the bucket and the cluster with a key of KMS of the stack's own, instead of AWS's.
    It is decided once: CloudFormation replaces a cluster whose key changes."""
    turn_waits_for_database: timedelta = timedelta(seconds=90)
    """A paused cluster takes 15 to 30 s to wake. A turn waits for it, because it never skips history."""
    api_waits_for_database: timedelta = timedelta(seconds=20)
    """Part of a request's time; after that, 503 asks the client to try again."""
    migrate_response: timedelta = timedelta(minutes=15)
    """CloudFormation gives up on the migrations after this; `migrate` itself has 14 minutes."""
    sweep_every: timedelta = timedelta(minutes=1)
    log_retention: timedelta = timedelta(days=30)
    unfinished_uploads: timedelta = timedelta(days=1)
    """Age at which the parts of an incomplete upload are deleted."""
    api_rate: int = 50
    """Requests a second over all users; beyond that, 429."""
    api_burst: int = 100
    open_rate: int = 2
    """The same for each path that needs no token, because nobody knows the caller there."""
    open_burst: int = 100
    """Enough for some people at once, each with a page and the files that it loads."""
    link_rate: int = 10
    """In place of `open_rate`, for links that decide and for what Slack sends: a presser who is refused there
    is not asked again."""
    login_callback: str = "http://localhost:8976/callback"
    """URL at which `layover login` listens; Cognito compares it letter by letter."""
    password_length: int = 12
    access_token: timedelta = timedelta(hours=1)
    refresh_token: timedelta = timedelta(days=30)
    approval_alarm: timedelta = timedelta(days=3)
    """Age at which a call that waits for a person raises an alarm."""
    alarm_errors: int = 5
    """Errors of all functions in five minutes. The alarm ignores a few, because they are retried."""
    dashboard: bool = False
    """Make a dashboard of CloudWatch. Three of them are free in an account; each other costs 3.00 a month."""
    dashboard_shows: timedelta = timedelta(hours=24)
    vpc_cidr: str = "10.42.0.0/20"
    vpc_zones: int = 2
    """Aurora requires two."""

    @model_validator(mode="wrap")
    @classmethod
    def _has_a_size(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Fill in what the size sets. `model_fields_set` has only what was given: what a size sets is a
        default, and may change with it."""
        if not isinstance(values, Mapping):
            return handler(values)
        by_size = values_of(values)
        settings = handler({**by_size, **values})
        settings.__pydantic_fields_set__.difference_update(by_size.keys() - values.keys())
        return settings

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for rule in _RULES:
            if wrong := rule.find(self):
                raise ValueError(rule.says.format(wrong=wrong, settings=self))
        return self

    @field_validator("functions")
    @classmethod
    def _has_all_functions(
        cls, functions: Mapping[str, FunctionSettings]
    ) -> Mapping[str, FunctionSettings]:
        if wrong := next((name for name in functions if name not in FUNCTIONS), None):
            raise ValueError(f"functions: {unknown_name('function', wrong, FUNCTIONS)}")
        if missing := [name for name in FUNCTIONS if name not in functions]:
            raise ValueError(f"functions: {', '.join(missing)} are missing")
        return functions

    @model_validator(mode="after")
    def _is_taken_by_cognito(self) -> Self:
        for setting, value in (("stage", self.stage), ("name", self.name)):
            refuse_reserved(setting, value)
        return self

    @model_validator(mode="after")
    def _has_keys_of_its_own(self) -> Self:
        parameters = {
            "api_key_parameter": (self.api_key_parameter,),
            "providers": keys_of(self.providers),
            "tool_secrets": tuple(self.tool_secrets.values()),
            "channel_secrets": tuple(self.channel_secrets.values()),
        }
        for setting, names in parameters.items():
            for name in names:
                if name.lower().lstrip("/").startswith(("aws", "ssm")):
                    raise ValueError(
                        f"{setting} cannot name {name!r}: SSM keeps /aws and /ssm for itself"
                    )
        return self

    @field_validator("tool_secrets", "channel_secrets")
    @classmethod
    def _has_places(cls, secrets: Mapping[str, str]) -> Mapping[str, str]:
        for name, place in secrets.items():
            if place.startswith("arn:") and not SECRET_ARN.fullmatch(place):
                raise ValueError(
                    f"{name} cannot be at {place!r}: give the name of an SSM parameter, or the whole ARN of "
                    "a secret of Secrets Manager, with the six characters at its end"
                )
        return secrets

    @model_validator(mode="after")
    def _reaches_its_channels(self) -> Self:
        try:
            needed = secrets_of(self.places)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
        if missing := [name for name in needed if name not in self.channel_secrets]:
            raise ValueError(
                f"channels need {', '.join(missing)}: say in channel_secrets where they are"
            )
        if unused := [name for name in self.channel_secrets if name not in needed]:
            raise ValueError(f"channel_secrets has {', '.join(unused)}, which no channel needs")
        size = len(json.dumps(self.channels, ensure_ascii=False).encode())
        if size > MAX_CHANNELS:
            raise ValueError(
                f"channels have {size:,} bytes, and a parameter takes {MAX_CHANNELS:,}: name fewer people"
            )
        return self

    @model_validator(mode="after")
    def _has_a_way_out(self) -> Self:
        if self.has_own_vpc and self.vpc_id is not None:
            raise ValueError("vpc_id and the construct's vpc exclude each other: give one of them")
        has_vpc = self.has_own_vpc or self.vpc_id is not None
        if (self.nat is Nat.NONE) != has_vpc:
            raise ValueError(
                "nat=none and vpc_id go together: the stack's own VPC needs a way out to the model "
                "provider, and yours has the one that you gave it"
            )
        subnets = (*self.function_subnets, *self.database_subnets)
        if self.vpc_id is None and subnets:
            raise ValueError("function_subnets and database_subnets need a vpc_id")
        if self.vpc_id is not None and not (self.function_subnets and self.database_subnets[1:]):
            raise ValueError("vpc_id needs function_subnets, and database_subnets in two zones")
        wrong = next((each for each in subnets if not SUBNET.fullmatch(each)), None)
        if wrong is not None:
            raise ValueError(
                "function_subnets and database_subnets must be ids, like subnet-0123456789abcdef0, "
                f"not {wrong!r}"
            )
        if self.nat_ami and self.nat is not Nat.INSTANCE:
            raise ValueError("nat_ami needs nat=instance: nothing else has an image")
        return self

    @model_validator(mode="after")
    def _has_a_proxy_that_fits(self) -> Self:
        if self.https_proxy is None:
            if self.no_proxy:
                raise ValueError("no_proxy needs an https_proxy")
            return self
        if self.vpc_id is None and not self.has_own_vpc:
            raise ValueError(
                "https_proxy needs a vpc_id: the stack's own VPC has a way out without a proxy"
            )
        if not PROXY.fullmatch(self.https_proxy):
            # The value is not repeated: it may have a password in it, which would be in plain sight.
            raise ValueError(
                "https_proxy must be like http://proxy.example:3128, without a user and a password"
            )
        return self

    @model_validator(mode="after")
    def _names_its_models(self) -> Self:
        for setting, names in (
            ("models", self.bedrock_models),
            ("an embedder_model", self.bedrock_embedders),
        ):
            for name in names:
                if not BEDROCK_ID.fullmatch(name):
                    raise ValueError(f"Bedrock wants {setting} by id, not {name!r}")
        if not all(name.startswith(TITAN) for name in self.bedrock_embedders):
            raise ValueError(
                f"Bedrock has embedder_model=bedrock/{TITAN}v2:0 and no other, "
                f"not {self.embedder_model!r}"
            )
        if self._on_bedrock and not self.model:
            raise ValueError("provider=bedrock needs a model: no role allows all of them")
        if self._on_bedrock and (self.openai_base_url or self.api_key_parameter):
            raise ValueError(
                "provider=bedrock signs with the functions' roles: remove openai_base_url and "
                "api_key_parameter"
            )
        return self

    @property
    def bedrock_models(self) -> tuple[str, ...]:
        """Ids of Bedrock's models that runs and memory call, each once: all names, or with another provider
        those that begin with `bedrock/`."""
        tasks = (self.title_model, self.observer_model, self.extractor_model)
        return _bedrock_ids((self.model, *self.models, *tasks), every=self._on_bedrock)

    @property
    def bedrock_embedders(self) -> tuple[str, ...]:
        """The id of the embedder, unless it needs no provider or is another provider's."""
        name = self.embedder_model or ""
        is_here = name.startswith((HASHING_PREFIX, OFFLINE_PREFIX))
        return _bedrock_ids([name], every=self._on_bedrock and not is_here)

    @property
    def _on_bedrock(self) -> bool:
        return self.provider is Provider.BEDROCK

    @property
    def protects(self) -> bool:
        """True if deletion is refused until a deployment says otherwise."""
        return self.retain and self.protection

    @property
    def waits(self) -> int:
        """Requests of all users that may wait at the same time."""
        if self.max_waits is not None:
            return self.max_waits
        return max_waits(self.api_concurrency) or WAITS_OF_A_NEW_ACCOUNT

    @property
    def prefix(self) -> str:
        """Return the prefix of names."""
        return f"{self.name}-{self.stage}"

    @cached_property
    def places(self) -> Channels:
        """The channels, read."""
        return read_channels(self.channels) if self.channels else Channels()

    @property
    def channels_parameter(self) -> str:
        """Name of the SSM parameter with the channels."""
        return f"/{self.name}/{self.stage}/channels"

    @property
    def key_parameter(self) -> str:
        """Name of the SSM parameter with the model provider's key."""
        return self.api_key_parameter or f"/{self.name}/{self.stage}/openai-api-key"

    @classmethod
    def from_context(
        cls,
        context: Mapping[str, Any],
        in_code: Mapping[str, Any] | None = None,
        root: Path | None = None,
    ) -> Self:
        """Return the settings. `context`: of the CDK's command line and `cdk.json`; fields that it does not
        have are those of the stage's file, then those of the project, and then those that the program gives
        (`in_code`). `root`: the folder of the project, if not the current one. Raises SettingsInvalid."""
        try:
            return cls._in_context(context, in_code or {}, root or Path())
        except ValueError as error:
            raise SettingsInvalid(str(error)) from error

    @classmethod
    def _in_context(
        cls, context: Mapping[str, Any], in_code: Mapping[str, Any], root: Path
    ) -> Self:
        simple = set(cls.model_fields) - IN_CODE
        _check_names("the context (-c, cdk.json)", filter(_is_ours, context), simple)
        values = {k: v for k, v in context.items() if k in simple and v is not None}
        _check_values(values)
        folder, stage = root / values.get("stages", STAGES), values.get("stage", DEV)
        if "stages" in values and not folder.is_dir():
            raise ValueError(f"there is no folder {folder} for the files of the stages")
        project = read(root) if (root / FILE).is_file() else None
        where, stage_values = _stage_values(folder, stage, project)
        _check_names(where, stage_values, set(cls.model_fields))
        return cls.of({**in_code, **_of_project(project), **stage_values, **values})

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str | None = None) -> Self:
        """Return the settings with these values. `where` has the values, as an error names it: with it, a
        name that does not exist is refused with the nearest one. Raises ValueError with a line for each
        problem."""
        if where is not None:
            _check_names(where, values, set(cls.model_fields))
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            lines = (
                refusal(".".join(map(str, each["loc"])), each, _fields_of(each["loc"]))
                for each in errors
            )
            raise ValueError("\n".join(lines)) from None


@dataclass(frozen=True)
class _Rule:
    """A rule about several settings. `find`: returns what breaks it, false if nothing does; `says`: what to
    do, with what was found as `{wrong}`."""

    find: Callable[[Settings], object]
    says: str


_POOL_SCOPES = (USE, ACT_AS, OPERATE, AUDIT, READ)


def _scopes(s: Settings) -> tuple[str, ...]:
    return (s.scope, s.act_as_scope, s.operate_scope, s.audit_scope, s.read_content_scope)


_RULES = (
    _Rule(
        lambda s: s.issuer and not s.audience,
        "issuer needs an audience: tokens for other applications would be taken",
    ),
    _Rule(
        lambda s: s.token_url and not s.issuer,
        "token_url needs an issuer: the user pool's is known",
    ),
    _Rule(
        lambda s: not s.issuer and _scopes(s) != _POOL_SCOPES,
        "scope, act_as_scope, operate_scope, audit_scope and read_content_scope need an issuer: "
        f"the user pool's are {USE}, {ACT_AS}, {OPERATE}, {AUDIT} and {READ}",
    ),
    _Rule(
        lambda s: s.issuer and s.adopt_user_pool,
        "adopt_user_pool and issuer exclude each other: users belong to one of them",
    ),
    _Rule(
        lambda s: s.issuer and s.mfa is not Mfa.OPTIONAL,
        "mfa belongs to the stack's own user pool: your issuer decides for its users",
    ),
    _Rule(
        lambda s: s.issuer and (s.sign_up or s.machine_client),
        "sign_up and machine_client belong to the stack's own user pool: your issuer has its own "
        "users and clients",
    ),
    _Rule(
        lambda s: s.issuer and (s.groups or s.callback_urls),
        "groups and callback_urls belong to the stack's own user pool: your issuer has its own "
        "groups, and its public client the URLs of your front ends",
    ),
    _Rule(
        lambda s: s.groups and s.adopt_user_pool,
        "groups and adopt_user_pool exclude each other: the stack changes nothing in an adopted "
        "pool. Make a group there with: aws cognito-idp create-group "
        "--user-pool-id {settings.adopt_user_pool} --group-name NAME",
    ),
    _Rule(
        lambda s: s.machine_scopes and not s.machine_client,
        "machine_scopes needs machine_client: it has those scopes",
    ),
    _Rule(
        lambda s: next((each for each in s.machine_scopes if each not in MACHINE_SCOPES), None),
        "machine_scopes cannot have {wrong!r}: besides use and act-as there are "
        f"{' and '.join(MACHINE_SCOPES)}",
    ),
    _Rule(
        lambda s: next((each for each in s.groups if not re.fullmatch(GROUP, each)), None),
        "groups cannot have {wrong!r}: a name has up to 128 characters, and no blanks, commas, "
        "semicolons, brackets or quotes",
    ),
    _Rule(
        lambda s: next((url for url in s.callback_urls if not _may_return_to(url)), None),
        "callback_urls cannot have {wrong!r}: Cognito takes https://HOST/PATH, http://localhost for "
        "tests, or an app's own scheme, without a fragment (#)",
    ),
    _Rule(
        lambda s: s.login_scope and not s.issuer,
        f"login_scope needs an issuer: at the user pool people ask for {USE}, as its tokens have it",
    ),
    _Rule(
        lambda s: s.sign_up and not (s.daily_tokens or s.daily_cost_usd),
        "sign_up needs daily_tokens or daily_cost_usd (better both): strangers would spend "
        "without a limit",
    ),
    _Rule(
        lambda s: s.size is Size.PRODUCTION and not s.alarms_email,
        "size=production needs alarms_email: without an address its alarms tell nobody",
    ),
    _Rule(
        lambda s: s.nat_gateways > 1 and s.nat is not Nat.GATEWAY,
        "nat_gateways needs nat=gateway: an instance and a VPC of your own have one way out",
    ),
    _Rule(
        lambda s: s.nat_gateways > s.vpc_zones,
        "nat_gateways cannot be {settings.nat_gateways}: the VPC has {settings.vpc_zones} zones "
        "(vpc_zones), and each has one",
    ),
    _Rule(
        lambda s: s.domain and not (s.domain_certificate or s.domain_zone),
        "domain needs domain_certificate, the ARN of a certificate for {settings.domain}, or "
        "domain_zone, the id of the hosted zone in which the stack proves one",
    ),
    _Rule(
        lambda s: (s.domain_certificate or s.domain_zone) and not s.domain,
        "domain_certificate and domain_zone need the domain that they are for",
    ),
    _Rule(
        lambda s: s.budget_usd and not s.alarms_email,
        "budget_usd needs alarms_email: its warnings go there",
    ),
)
"""The rules about several settings, in the order in which they are told."""


def _may_return_to(url: str) -> bool:
    """Return whether Cognito sends browsers back to this URL."""
    if re.search(r"[\s#*]", url):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.scheme in ("http", "https"):
        return bool(parts.hostname) and (parts.scheme == "https" or parts.hostname == "localhost")
    # Browsers run or open what these have, and never return to a page.
    return bool(parts.scheme) and parts.scheme not in ("javascript", "data", "file", "blob")


def _bedrock_ids(names: Iterable[str | None], *, every: bool) -> tuple[str, ...]:
    """Return the ids, each once: of every name, or of those that begin with `bedrock/`."""
    full_names = (name for name in names if name and (every or name.startswith(BEDROCK_PREFIX)))
    return tuple(dict.fromkeys(name.removeprefix(BEDROCK_PREFIX) for name in full_names))


def _fields_of(place: tuple[int | str, ...]) -> Iterable[str]:
    """Return the names of the fields of a setting whose values have some."""
    models: dict[int | str, type[BaseModel]] = {
        "providers": ProviderAddress,
        "functions": FunctionSettings,
        "tool_policies": Statement,
    }
    model = models.get(place[0]) if place else None
    return model.model_fields if model else ()


def _is_ours(name: str) -> bool:
    """Return whether a name of the context is meant as a setting. Names of the CDK's and of other packages'
    begin with `@`, or have something before a colon that is unlike any setting."""
    if name.startswith("@") or name in OF_THE_CDK:
        return False
    before, colon, _ = name.partition(":")
    if not colon:
        return True
    if before in LOOKED_UP_BY_THE_CDK:
        return False
    # Nearer than a typo without a colon has to be: a word of others before it, like `company`, is as near to
    # `domain` as some typos are.
    return bool(get_close_matches(before.casefold(), Settings.model_fields, 1, NEAR))


def _check_values(values: Mapping[str, Any]) -> None:
    """Raise ValueError for the first setting without a value: `-c stage=$STAGE` with a variable that is not
    set would deploy the default stage. Only a list may be empty."""
    for name, value in values.items():
        if value == "" and Settings.model_fields[name].annotation != tuple[str, ...]:
            raise ValueError(f"{name} is empty: leave it out, or give it a value")


def _check_names(where: str, names: Iterable[str], choices: set[str]) -> None:
    """Raise ValueError for the first name that is not a setting: it would be left out without a word, and
    `-c stge=prod` would deploy another stage."""
    name = next((each for each in sorted(names) if each not in choices), None)
    if name is None:
        return
    if name in IN_CODE:
        raise ValueError(f"{where}: {name} cannot be given there: write it in infra/settings.py")
    text = f"{where}: {unknown_name('setting', name, choices)}"
    listed = "" if text.endswith("?") else "; docs/reference/configuration.md lists the settings"
    raise ValueError(f"{text}{listed}")


def _of_project(project: Project | None) -> dict[str, str]:
    """Return what tells the project's stacks from those of others, as far as it says so."""
    if project is None:
        return {}
    values = {"name": project.settings.name, "project": project.settings.id}
    return {name: value for name, value in values.items() if value}


def _stage_values(folder: Path, stage: str, project: Project | None) -> tuple[str, dict[str, Any]]:
    """Return where the stage's settings are, and the settings: of its file, or of the project."""
    file, of_file = folder / f"{stage}.json", _stage_file(folder, stage)
    if project is None or (of_file and stage not in project.settings.stages):
        return str(file), of_file
    where, of_project = f"{FILE}: [stages.{stage}]", project.stage(stage)
    if of_file and of_project:
        raise ValueError(f"{where} and {file} both have settings of the stage: keep one of them")
    if wrong := next((name for name in ("stage", "stages") if name in of_project), None):
        raise ValueError(f"{where}: {wrong} cannot be given there: its heading names the stage")
    return (str(file), of_file) if of_file else (where, {"stage": stage, **of_project})


def _stage_file(folder: Path, stage: str) -> dict[str, Any]:
    """Return the settings of the stage's file; empty without a file."""
    file = folder / f"{stage}.json"
    if not file.is_file():
        return {}
    text = text_of(file)
    try:
        values = json.loads(text, object_pairs_hook=_once_each)
    except json.JSONDecodeError as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    except ValueError as error:
        raise ValueError(f"{file} {error}") from None
    if not isinstance(values, dict):
        kind = type(values).__name__
        raise ValueError(f"{file} has to be a JSON object with the stage's settings, not a {kind}")
    if (other := values.get("stage", stage)) != stage:
        raise ValueError(f"{file} has the settings of stage {stage!r}, and says stage {other!r}")
    if "stages" in values:
        raise ValueError(f"{file}: a file cannot say where it is: give `stages` with -c")
    return {"stage": stage, **values}


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the JSON object. Raises ValueError for a name that stands twice in it: JSON's readers keep the
    last one without a word."""
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"has {twice!r} twice")
    return dict(pairs)
