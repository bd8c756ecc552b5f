"""Roles and variables against what the functions of a running system do: what each one needs, and no more."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from layover.desk.cdk.calls import CALLS
from layover.desk.cdk.settings import FUNCTIONS, TUNED
from layover.desk.cdk.variables import AGENTS, KEY, LOADS_AGENTS, READS
from layover.values.deployment.environment import Environment
from support.aws.templates import Synthesized, listed

Recording = Mapping[str, frozenset[str]]
NAMES = sorted(FUNCTIONS)
ON = {
    "table": "table",
    "bucket": "bucket",
    "machine": "machine",
    "executions": "executions",
    "bus": "bus",
    "compact": "function:compact",
    "sockets": "function:sockets",
    "connections": "connections",
}
IAM = {
    "dynamodb TransactWriteItems": (),  # its parts are recorded beside it
    "s3 HeadObject": ("s3:GetObject",),
    "s3 CopyObject": ("s3:GetObject", "s3:PutObject"),
    "s3 ListObjectsV2": ("s3:ListBucket",),
    "s3 DeleteObjects": ("s3:DeleteObject",),
    "lambda Invoke": ("lambda:InvokeFunction",),
    "apigatewaymanagementapi PostToConnection": ("execute-api:ManageConnections",),
    "apigatewaymanagementapi DeleteConnection": ("execute-api:ManageConnections",),
}
"""Calls that IAM knows by other names."""
SERVICES = {"stepfunctions": "states"}
RESOURCES = {
    "dynamodb:Query index": "table/index/*",
    "s3:ListBucket": "bucket",
    "states:StartExecution": "machine",
    "states:SendTaskSuccess": "machine",
    "states:StopExecution": "executions",
    "states:DescribeExecution": "executions",
}
"""The resource of an action whose service does not determine it."""
BY_SERVICE = {
    "dynamodb": "table",
    "s3": "bucket/u/*",
    "events": "bus",
    "execute-api": "connections",
    "ses": "identities",
}
BY_SETTINGS = {"notify": {"ses:SendEmail identities"}}
"""What a deployment allows whose channels have mail (test_channels.py)."""
NOT_SEEN = {
    # A missing object is a 404 with this permission and a 403 without it: no function lists.
    "s3:ListBucket bucket": {
        *("turn", "resume", "settle", "sockets", "extract", "compact", "streams", "notify")
    },
    # What a socket has not taken a second after the work (tests/unit/sockets/test_delivery.py).
    "lambda:InvokeFunction function:sockets": {
        *("api", "turn", "resume", "settle", "sweep", "sockets", "streams")
    },
    # A decision that comes between the suspension and its token (tests/unit/approvals/test_task_tokens.py),
    # and a run that is given up while one of its calls waits.
    "states:SendTaskSuccess machine": {"resume", "settle"},
    # The process that first finds a socket gone, or sends it a run's last event, forgets the line. Often it
    # learns that from API Gateway, and on a busy machine it is `sockets`, which gets the work that takes
    # longer than a second.
    "dynamodb:DeleteItem table": {"resume", "settle", "streams"},
    "dynamodb:ConditionCheckItem table": {"api", "settle", "streams"},
    # What a run leaves is too long for an item: seldom what a run leaves that never got on.
    "s3:PutObject bucket/u/*": {"settle"},
    # A reminder comes after a minute at the earliest (tests/unit/recovery/test_reminders.py). Decisions in a
    # stream, in a token's answer, and by the end of a run that failed while a call waited, are seldom
    # (tests/unit/approvals/test_outcomes.py).
    "events:PutEvents bus": {"sweep", "settle", "streams", "turn"},
    # An export that takes longer than a request is erased, or fails, while it is made
    # (tests/unit/retention/test_export_jobs.py).
    "s3:AbortMultipartUpload bucket/u/*": {"api", "sweep"},
    # The newest run of a chat, for a client whose messages have no ids and who asks for another answer.
    "dynamodb:Query table/index/*": {"streams"},
}
"""Actions that are allowed and not recorded: the functions, and the reason."""
NOT_DEPLOYED = {
    "LAYOVER_AGENTS": "functions/user_agents is what is packed",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "only a stage that traces has it (test_traces.py)",
    "LAYOVER_OTLP_HEADERS_PARAMETER": "likewise",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "likewise",
    "OTEL_SDK_DISABLED": "a stage without an endpoint traces nothing",
    "LAYOVER_TOOL_SECRETS": "only a stage whose tools have some has it (test_construct.py)",
    "LAYOVER_CONNECTIONS_KEY": "only a stage with users' connections has it (test_connections.py)",
    "LAYOVER_CONNECTIONS_URL": "likewise",
    "LAYOVER_CHANNELS": "for the one-machine system: a deployment has it in a parameter",
    "LAYOVER_CHANNELS_PARAMETER": "only a stage with channels has it",
    "LAYOVER_API_URL": "likewise",
    "LAYOVER_LOG_FILE": "for the one-machine system: Lambda logs to CloudWatch",
    "LAYOVER_SWEEP_PATIENCE_S": "for tests that cannot wait a minute",
    "ANTHROPIC_API_KEY": "would be in the template in plain sight: the setting `providers` names it",
    "ANTHROPIC_BASE_URL": "likewise in `providers`",
    "GEMINI_API_KEY": "as ANTHROPIC_API_KEY",
    "GEMINI_BASE_URL": "likewise in `providers`",
    "OPENAI_API_KEY": "would be in the template in plain sight: KEY is read instead",
}
"""Variables that no function is given, and why."""
ONLY = {
    # Without it no request waits: the default of all but Turn, and of requests that a person waits for.
    "LAYOVER_DATABASE_WAKING_S": {"api", "streams", "turn"},
}
"""Variables that all with a database look at, and only these are given."""
OTHER_FORMS = {"LAYOVER_PROVIDER", "LAYOVER_LOGIN_SCOPE"}
"""Variables of deployments without a key (test_bedrock.py), and of an issuer (test_doors.py)."""


def on(action: str, line: list[str]) -> str:
    """Return the resource of a recorded call, as in ON."""
    if action == "lambda:InvokeFunction":
        return f"function:{line[2]}"
    if line[2:] == ["index"]:
        return RESOURCES["dynamodb:Query index"]
    return RESOURCES.get(action) or BY_SERVICE[action.split(":")[0]]


def made(lines: frozenset[str]) -> Iterator[str]:
    """Recorded calls as IAM names them: action and resource."""
    for service, operation, *more in (x.split()[1:] for x in lines if x.startswith("aws ")):
        call = f"{service} {operation}"
        for action in IAM.get(call, (f"{SERVICES.get(service, service)}:{operation}",)):
            yield f"{action} {on(action, [service, operation, *more])}"


def allowed(name: str) -> set[str]:
    """Return the actions and resources that a role allows."""
    # Seconds, and a process of node's: for no worker that only collects.
    from layover.desk.cdk.constructs.permissions import Resources, statements

    made = statements(CALLS[name], Resources(**ON))
    found: list[dict[str, Any]] = [s.to_statement_json() for s in made]
    # A running system has no aliases. Both ARNs are allowed: docs/adr/0015-versions-and-aliases.md.
    actions = {
        f"{action} {resource.removesuffix(':live')}"
        for each in found
        for action in listed(each["Action"])
        for resource in listed(each["Resource"])
    }
    return actions | BY_SETTINGS.get(name, set())


def read(lines: frozenset[str]) -> set[str]:
    """The variables that a function read, but for those that no deployment gives."""
    found = {line.removeprefix("env ") for line in lines if line.startswith("env ")}
    if "OPENAI_API_KEY" in found:
        found.add(KEY)
    return found - NOT_DEPLOYED.keys()


def test_every_function_was_at_work(recorded: Recording) -> None:
    assert recorded.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("name", NAMES)
def test_role_allows_every_call_that_was_made(recorded: Recording, name: str) -> None:
    assert set(made(recorded[name])) - allowed(name) == set()


@pytest.mark.parametrize("name", NAMES)
def test_role_allows_no_call_that_was_never_made(recorded: Recording, name: str) -> None:
    unseen = {call for call, names in NOT_SEEN.items() if name in names}
    assert allowed(name) - set(made(recorded[name])) - unseen == set()


def test_role_lists_only_what_owners_have() -> None:
    from layover.desk.cdk.constructs.permissions import Resources, statements

    every = [s for name in NAMES for s in statements(CALLS[name], Resources(**ON))]
    lists = [s.to_statement_json() for s in every if "s3:ListBucket" in s.actions]
    assert len(lists) == sum(bool(calls.blobs) for calls in CALLS.values())
    for statement in lists:
        assert listed(statement["Action"]) == ["s3:ListBucket"]
        assert statement["Condition"] == {"StringLike": {"s3:prefix": "u/*"}}


@pytest.mark.parametrize("name", NAMES)
def test_function_is_given_what_it_reads_and_nothing_else(recorded: Recording, name: str) -> None:
    others = {v for v, names in ONLY.items() if name not in names}
    seen = read(recorded[name]) - others
    assert seen == set(READS[name])


def test_functions_that_load_agents_are_told_their_package(recorded: Recording) -> None:
    """Where a project has given it another name than `user_agents` (test_construct.py)."""
    loading = {name for name, lines in recorded.items() if f"env {AGENTS}" in lines}
    assert {"api", "turn"} <= loading <= {*LOADS_AGENTS}


def test_template_gives_each_function_exactly_these(vpc: Synthesized) -> None:
    """`vpc` sets all that can be set."""
    own = {"AWS_LAMBDA_EXEC_WRAPPER"}
    given = {n: set(f["Environment"]["Variables"]) - own for n, f in vpc.functions().items()}
    wanted = {name: set(READS[name]) - OTHER_FORMS for name in NAMES}
    wanted["migrate"] -= {"LAYOVER_DATABASE_AUTH"}
    assert given == wanted


def test_every_variable_can_be_set_by_a_deployment() -> None:
    known = {field.alias for field in Environment.model_fields.values()}
    assert set().union(*READS.values()) == known - NOT_DEPLOYED.keys()
    assert set(TUNED.values()) <= known
