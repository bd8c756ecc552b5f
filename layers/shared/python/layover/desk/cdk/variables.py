"""The variables of each function: exactly the ones that it reads.

`tests/infra/test_calls.py` compares the table with what the functions of a running system read."""

import json
from collections.abc import Mapping
from typing import Any

MAX_BYTES = 4096
"""Of all variables of a function, as JSON: Lambda refuses more, in the middle of a deployment."""
REFERENCE_BYTES = 64
"""Of a value that only the deployment knows: names have up to 63, the host of the database some more."""
_PSEUDO_BYTES = {
    "AWS::Region": 14,
    "AWS::AccountId": 12,
    "AWS::Partition": 10,
    "AWS::URLSuffix": 13,
}

AGENTS = "LAYOVER_AGENTS"
"""The package of the agents, where a project has given it another name than `user_agents`."""
LOADS_AGENTS = ("api", "compact", "extract", "resume", "settle", "streams", "sweep", "turn")
"""Functions that may read it."""
SECRETS = "LAYOVER_TOOL_SECRETS"
"""The names of the tools' secrets, whose variables say where they are."""
CONNECTIONS_KEY = "LAYOVER_CONNECTIONS_KEY"
"""The key of users' tokens, where agents have connections of users: for the functions of `calls.SEALS`."""
CONNECTIONS_URL = "LAYOVER_CONNECTIONS_URL"
CHANNELS = "LAYOVER_CHANNELS_PARAMETER"
"""The parameter with the channels, where a stage has some."""
API_URL = "LAYOVER_API_URL"
CHANNELED = ("api", "notify")
"""Functions that may read both."""
TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""The receiver of traces, where a stage has one."""
TRACE_HEADERS = "LAYOVER_OTLP_HEADERS_PARAMETER"
TRACE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ACCEPTS = ("api", "streams")
"""Functions that only keep the trace context of the requests that start runs."""
SENDS_TRACES = ("compact", "extract", "resume", "settle", "sweep", "turn")
"""Functions that may read all three."""
ALL = ("LAYOVER_SERVICE", "LAYOVER_LOG_LEVEL")
STATE = ("LAYOVER_TABLE", "LAYOVER_BUCKET", "LAYOVER_AUDIT_DAYS")
"""The journal, and how long it keeps decisions."""
DATABASE = ("LAYOVER_DATABASE_URL", "LAYOVER_DATABASE_AUTH")
MACHINE = ("LAYOVER_STATE_MACHINE_ARN", "LAYOVER_EVENT_BUS")
SOCKETS = ("LAYOVER_SOCKET_URL", "LAYOVER_SOCKET_ENDPOINT", "LAYOVER_SOCKET_FUNCTION")
ORIGINS = "LAYOVER_ORIGINS"
"""Origins of pages that may read streams. For all other responses API Gateway sets the headers."""
KEY = "LAYOVER_API_KEY_PARAMETER"
PROVIDERS = "LAYOVER_PROVIDERS"
ASKS = ("LAYOVER_PROVIDER", PROVIDERS, KEY, "OPENAI_BASE_URL")
"""Variables that say where models are, for a prompt or an embedding."""
WINDOWS = "LAYOVER_CONTEXT_WINDOWS"
EMBEDS = "LAYOVER_EMBEDDER_MODEL"
DAY = ("LAYOVER_DAILY_TOKENS", "LAYOVER_DAILY_COST_USD")
CALLER = (
    "LAYOVER_SCOPE",
    "LAYOVER_ACT_AS_SCOPE",
    "LAYOVER_OPERATE_SCOPE",
    "LAYOVER_AUDIT_SCOPE",
    "LAYOVER_READ_CONTENT_SCOPE",
    "LAYOVER_GROUPS_CLAIM",
    "LAYOVER_OPERATE_GROUP",
    "LAYOVER_AUDIT_GROUP",
    "LAYOVER_READ_CONTENT_GROUP",
)
"""Variables that make a caller of a token's claims. A run records the scopes, and tools read them."""
RETENTION = ("LAYOVER_THREAD_RETENTION_DAYS", "LAYOVER_ENTRY_RETENTION_DAYS")
PATIENCE = "LAYOVER_PROVIDER_PATIENCE_S"
OBSERVES = ("LAYOVER_OBSERVER_MESSAGE_TOKENS", "LAYOVER_REFLECTOR_OBSERVATION_TOKENS")

READS: Mapping[str, tuple[str, ...]] = {
    "api": (
        *ALL,
        *STATE,
        *DATABASE,
        *MACHINE,
        *SOCKETS,
        *DAY,
        "LAYOVER_RUNS_PER_MINUTE",
        "LAYOVER_RUN_RETENTION_DAYS",
        "LAYOVER_THREAD_RETENTION_DAYS",
        # Users search what an agent remembers of them, which embeds their query.
        *ASKS,
        EMBEDS,
        WINDOWS,
        "LAYOVER_MODEL",
        *CALLER,
        "LAYOVER_LOGIN_SCOPE",
        "LAYOVER_DATABASE_WAKING_S",
        "LAYOVER_DOCS",
        "LAYOVER_MAX_USER_WAITS",
        "LAYOVER_MAX_WAITS",
        "LAYOVER_ISSUER",
        "LAYOVER_CLIENT_ID",
        "LAYOVER_STREAM_URL",
        "LAYOVER_PAGE_SOURCES",
    ),
    "turn": (
        *ALL,
        *STATE,
        *DATABASE,
        "LAYOVER_DATABASE_WAKING_S",
        *MACHINE,
        *SOCKETS,
        *DAY,
        *ASKS,
        "LAYOVER_COMPACT_FUNCTION",
        EMBEDS,
        WINDOWS,
        "LAYOVER_SEMANTIC_RECALL_TOP_K",
        "LAYOVER_MODEL",
        PATIENCE,
        "LAYOVER_LAST_MESSAGES",
        *OBSERVES,
        "LAYOVER_RUN_RETENTION_DAYS",
        "LAYOVER_THREAD_RETENTION_DAYS",
        "LAYOVER_NODE_MEMORY_DAYS",
    ),
    "resume": (*ALL, *STATE, *DATABASE, *MACHINE, *SOCKETS, "LAYOVER_NODE_MEMORY_DAYS"),
    # Whoever ends a run gives back its room in the day.
    "settle": (*ALL, *STATE, *DATABASE, *MACHINE, *SOCKETS, *DAY),
    "sweep": (
        *ALL,
        *STATE,
        *DATABASE,
        *MACHINE,
        *SOCKETS,
        *DAY,
        "LAYOVER_RUN_RETENTION_DAYS",
        "LAYOVER_NODE_MEMORY_DAYS",
        *RETENTION,
    ),
    "sockets": (*ALL, *STATE, *SOCKETS),
    "notify": (*ALL, *STATE),
    "streams": (
        *ALL,
        *STATE,
        *DATABASE,
        *MACHINE,
        *SOCKETS,
        *DAY,
        "LAYOVER_RUNS_PER_MINUTE",
        "LAYOVER_RUN_RETENTION_DAYS",
        "LAYOVER_THREAD_RETENTION_DAYS",
        *CALLER,
        "LAYOVER_DATABASE_WAKING_S",
        "LAYOVER_MAX_USER_STREAMS",
        "LAYOVER_MAX_WAITS",
        ORIGINS,
    ),
    "extract": (
        *ALL,
        *STATE,
        *DATABASE,
        *DAY,
        *ASKS,
        EMBEDS,
        "LAYOVER_EXTRACTOR_MODEL",
        "LAYOVER_MODEL",
        PATIENCE,
        "LAYOVER_RUN_RETENTION_DAYS",
        *RETENTION,
        "LAYOVER_TITLE_MODEL",
    ),
    "compact": (
        *ALL,
        *STATE,
        *DATABASE,
        *DAY,
        *ASKS,
        WINDOWS,
        "LAYOVER_LAST_MESSAGES",
        "LAYOVER_MODEL",
        "LAYOVER_OBSERVER_MODEL",
        *OBSERVES,
    ),
    "migrate": (
        *ALL,
        "LAYOVER_DATABASE_ADMIN_URL",
        "LAYOVER_DATABASE_ADMIN_SECRET",
        "LAYOVER_DATABASE_AUTH",
    ),
}
"""Variables by the name of the folder in `functions/`. A deployment sets those for which it has a value."""


class VariablesTooLarge(ValueError):
    """The variables of a function have more bytes than Lambda takes. The deployer must shorten them."""


def check_size(function: str, variables: Mapping[str, Any]) -> None:
    """Raise VariablesTooLarge if Lambda would refuse the variables of this function. `variables`: as they
    are in the template, with references."""
    sizes = {name: len(_json({name: ""})) - 1 + _size(value) for name, value in variables.items()}
    size = sum(sizes.values()) + 1
    if size <= MAX_BYTES:
        return
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:3]
    listed = ", ".join(f"{name} ({sizes[name]:,})" for name in largest)
    raise VariablesTooLarge(
        f"the variables of the function {function} have {size:,} bytes, and Lambda takes {MAX_BYTES:,}. The "
        f"largest: {listed}. Name fewer `providers`, or put a router in front of them; give tools fewer or "
        "shorter `tool_env`, such as the name of an SSM parameter instead of its value"
    )


def _size(value: Any) -> int:
    """Return the bytes of a value of the template, without the quotes around it."""
    if isinstance(value, str):
        return len(_json(value)) - 2
    if "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return sum(map(_size, parts)) + _size(separator) * (len(parts) - 1)
    return _PSEUDO_BYTES.get(value.get("Ref"), REFERENCE_BYTES)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
