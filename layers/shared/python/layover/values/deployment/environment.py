"""The variables of the functions, by name. Only `layover.wiring` reads them from the process."""

import json
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, Json, model_validator

from layover.values.deployment.access import Access
from layover.values.deployment.providers import (
    KEYED,
    PROVIDERS,
    ProviderAddresses,
    providers_in,
)
from layover.values.deployment.settings import Settings


class Environment(BaseModel):
    """Every variable that the functions read, by its name."""

    table: str = Field(default="", alias="LAYOVER_TABLE")
    bucket: str = Field(default="", alias="LAYOVER_BUCKET")
    state_machine_arn: str = Field(default="", alias="LAYOVER_STATE_MACHINE_ARN")
    event_bus: str = Field(default="default", alias="LAYOVER_EVENT_BUS")
    compact_function: str = Field(default="", alias="LAYOVER_COMPACT_FUNCTION")
    """Name or ARN; without it, no steps are observed ahead while a run goes on."""
    socket_url: str = Field(default="", alias="LAYOVER_SOCKET_URL")
    socket_endpoint: str = Field(default="", alias="LAYOVER_SOCKET_ENDPOINT")
    """URL of `@connections`; without it no client can follow a run by socket."""
    socket_function: str = Field(default="sockets", alias="LAYOVER_SOCKET_FUNCTION")
    database_url: str = Field(default="", alias="LAYOVER_DATABASE_URL")
    database_admin_url: str = Field(default="", alias="LAYOVER_DATABASE_ADMIN_URL")
    database_admin_secret: str = Field(default="", alias="LAYOVER_DATABASE_ADMIN_SECRET")
    """ARN of the secret in which RDS keeps the owner's password; without it, `database_auth` applies."""
    database_auth: Literal["url", "iam"] = Field(default="url", alias="LAYOVER_DATABASE_AUTH")
    """`url`: the URLs hold all that is needed. `iam`: a signed token is the password of each connection."""
    database_waking_s: float = Field(default=0, ge=0, alias="LAYOVER_DATABASE_WAKING_S")
    """The time that Turn waits for a sleeping database (90 s): history is never skipped. `api` waits for as
    long as its caller does (20 s)."""
    agents: str = Field(default="user_agents", alias="LAYOVER_AGENTS")
    provider: Literal["openai", "bedrock"] = Field(default="openai", alias="LAYOVER_PROVIDER")
    """`bedrock`: signed with the role, in its own region; neither a key nor OPENAI_BASE_URL is read."""
    providers: Json[ProviderAddresses] = Field(default={}, alias=PROVIDERS)
    """Further providers, by the prefix of their models' names."""
    anthropic_api_key: str | None = Field(default=None, alias="ANTHROPIC_API_KEY", repr=False)
    """A key with which `anthropic/` names Anthropic's models, unless `providers` says otherwise."""
    anthropic_base_url: str | None = Field(default=None, alias="ANTHROPIC_BASE_URL")
    gemini_api_key: str | None = Field(default=None, alias="GEMINI_API_KEY", repr=False)
    """The same for `gemini/` and Google's endpoint for OpenAI's clients."""
    gemini_base_url: str | None = Field(default=None, alias="GEMINI_BASE_URL")
    context_windows: Json[dict[str, Annotated[int, Field(ge=1)]]] = Field(
        default={}, alias="LAYOVER_CONTEXT_WINDOWS"
    )
    """Tokens of models' context windows, by their names, before the catalogue's."""
    openai_api_key: str | None = Field(default=None, alias="OPENAI_API_KEY")
    openai_base_url: str | None = Field(default=None, alias="OPENAI_BASE_URL")
    api_key_parameter: str = Field(default="", alias="LAYOVER_API_KEY_PARAMETER")
    """SSM SecureString parameter with the key, read once; OPENAI_API_KEY wins."""
    model: str = Field(default="openai/gpt-5-mini", alias="LAYOVER_MODEL")
    last_messages: int = Field(default=20, ge=1, alias="LAYOVER_LAST_MESSAGES")
    embedder_model: str | None = Field(default=None, alias="LAYOVER_EMBEDDER_MODEL")
    semantic_recall_top_k: int = Field(default=5, ge=1, alias="LAYOVER_SEMANTIC_RECALL_TOP_K")
    observer_model: str | None = Field(default=None, alias="LAYOVER_OBSERVER_MODEL")
    observer_message_tokens: int = Field(
        default=30_000, ge=1, alias="LAYOVER_OBSERVER_MESSAGE_TOKENS"
    )
    reflector_observation_tokens: int = Field(
        default=40_000, ge=1, alias="LAYOVER_REFLECTOR_OBSERVATION_TOKENS"
    )
    extractor_model: str | None = Field(default=None, alias="LAYOVER_EXTRACTOR_MODEL")
    title_model: str | None = Field(default=None, alias="LAYOVER_TITLE_MODEL")
    log_level: str = Field(default="INFO", alias="LAYOVER_LOG_LEVEL")
    log_file: str | None = Field(default=None, alias="LAYOVER_LOG_FILE")
    """The function's log on one machine: answers with status 500 name it."""

    node_memory_days: int | None = Field(default=None, ge=1, alias="LAYOVER_NODE_MEMORY_DAYS")
    scope: str = Field(default="layover/use", alias="LAYOVER_SCOPE")
    act_as_scope: str = Field(default="layover/act-as", alias="LAYOVER_ACT_AS_SCOPE")
    operate_scope: str = Field(default="layover/operate", alias="LAYOVER_OPERATE_SCOPE")
    audit_scope: str = Field(default="layover/audit", alias="LAYOVER_AUDIT_SCOPE")
    read_content_scope: str = Field(
        default="layover/read-content", alias="LAYOVER_READ_CONTENT_SCOPE"
    )
    groups_claim: str = Field(default="cognito:groups", alias="LAYOVER_GROUPS_CLAIM")
    operate_group: str | None = Field(default=None, alias="LAYOVER_OPERATE_GROUP")
    audit_group: str | None = Field(default=None, alias="LAYOVER_AUDIT_GROUP")
    read_content_group: str | None = Field(default=None, alias="LAYOVER_READ_CONTENT_GROUP")
    login_scope: str | None = Field(default=None, alias="LAYOVER_LOGIN_SCOPE")
    issuer: str | None = Field(default=None, alias="LAYOVER_ISSUER")
    client_id: str | None = Field(default=None, alias="LAYOVER_CLIENT_ID")
    stream_url: str | None = Field(default=None, alias="LAYOVER_STREAM_URL")
    """URL of `streams`; without it, `api` streams."""
    page_sources: str = Field(default="", alias="LAYOVER_PAGE_SOURCES")
    """URLs that the console's page asks besides the API, the issuer and the streams, separated by blanks."""
    origins: str = Field(default="", alias="LAYOVER_ORIGINS")
    """Origins of pages that may read streams, separated by commas."""
    daily_tokens: int | None = Field(default=None, ge=1, alias="LAYOVER_DAILY_TOKENS")
    daily_cost_usd: Decimal | None = Field(default=None, gt=0, alias="LAYOVER_DAILY_COST_USD")
    runs_per_minute: int | None = Field(default=None, ge=1, alias="LAYOVER_RUNS_PER_MINUTE")
    docs: bool = Field(default=True, alias="LAYOVER_DOCS")
    max_user_waits: int = Field(default=10, ge=0, alias="LAYOVER_MAX_USER_WAITS")
    max_user_streams: int = Field(default=10, ge=0, alias="LAYOVER_MAX_USER_STREAMS")
    max_waits: int = Field(default=60, ge=0, alias="LAYOVER_MAX_WAITS")
    otlp_endpoint: str = Field(default="", alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    """URL of a receiver of traces and metrics; without it, nothing is traced and nothing of OpenTelemetry is
    imported. `plugins.traces` reads the other variables of `OTEL_`."""
    otel_disabled: str = Field(default="", alias="OTEL_SDK_DISABLED")
    otlp_headers_parameter: str = Field(default="", alias="LAYOVER_OTLP_HEADERS_PARAMETER")
    """SSM SecureString parameter with the receiver's headers, as `OTEL_EXPORTER_OTLP_HEADERS` has them."""
    trace_content: bool = Field(
        default=False, alias="OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    )
    """`true`: spans also say what messages, arguments and results say, as hooks have left them."""
    tool_secrets: str = Field(default="", alias="LAYOVER_TOOL_SECRETS")
    """Names, with commas, of those secrets of tools whose variables say where AWS has them."""
    connections_key: str = Field(default="", alias="LAYOVER_CONNECTIONS_KEY")
    """ARN of the KMS key, or of its alias, that seals users' tokens; else the path of a key file. Without it,
    no user can connect an account."""
    connections_url: str = Field(default="", alias="LAYOVER_CONNECTIONS_URL")
    """URL of the page to which services send users back."""
    channels: str = Field(default="", alias="LAYOVER_CHANNELS")
    """The channels to people, as JSON (`layover.plugins.people.config`): on one machine."""
    channels_parameter: str = Field(default="", alias="LAYOVER_CHANNELS_PARAMETER")
    """SSM parameter with the same document."""
    api_url: str = Field(default="", alias="LAYOVER_API_URL")
    """URL of the HTTP API: links in messages begin with it."""
    service: str = Field(default="layover", alias="LAYOVER_SERVICE")
    """The name of this deployment in its account: a dimension of every metric, and part of every log line."""
    sweep_patience_s: float = Field(default=60, gt=0, alias="LAYOVER_SWEEP_PATIENCE_S")
    provider_patience_s: float = Field(
        default=3_600, ge=0, le=2_592_000, alias="LAYOVER_PROVIDER_PATIENCE_S"
    )
    run_retention_days: int = Field(default=30, ge=1, alias="LAYOVER_RUN_RETENTION_DAYS")
    """Days after its end that a run's records are kept; the thread's messages stay in the database."""
    thread_retention_days: int | None = Field(
        default=None, ge=1, alias="LAYOVER_THREAD_RETENTION_DAYS"
    )
    """Days without activity after which a thread is deleted."""
    entry_retention_days: int | None = Field(
        default=None, ge=1, alias="LAYOVER_ENTRY_RETENTION_DAYS"
    )
    audit_days: int = Field(default=400, ge=1, alias="LAYOVER_AUDIT_DAYS")
    """Days that a decision's row is kept. It outlives the run, the thread and the user."""

    @model_validator(mode="before")
    @classmethod
    def _with_keyed(cls, variables: Any) -> Any:
        # Before anything is read: each function reads a few of the variables only.
        if not isinstance(variables, dict):
            return variables
        if not any(variables.get(each.key) for each in KEYED.values()):
            return variables
        try:
            addresses = providers_in(variables)
        except ValueError:
            return variables  # The field's own error says what is wrong.
        texts = {name: address.model_dump() for name, address in addresses.items()}
        return {**variables, PROVIDERS: json.dumps(texts)}

    @property
    def traces(self) -> bool:
        """Return whether anything is traced. The specification knows one word that switches it off."""
        return bool(self.otlp_endpoint) and self.otel_disabled.strip().lower() != "true"

    @property
    def settings(self) -> Settings:
        """The part that the engine and the services know."""
        derived = {
            "access": Access.model_validate(vars(self)),
            "origins": tuple(self.origins.split(",")) if self.origins else (),
            "sweep_patience": timedelta(seconds=self.sweep_patience_s),
            "provider_patience": timedelta(seconds=self.provider_patience_s),
            "run_retention": timedelta(days=self.run_retention_days),
            "thread_retention": _days(self.thread_retention_days),
            "entry_retention": _days(self.entry_retention_days),
            "traces": self.traces,
        }
        # Everything else has the name of its variable's field.
        return Settings.model_validate({**vars(self), **derived})


def _days(number: int | None) -> timedelta | None:
    return None if number is None else timedelta(days=number)
