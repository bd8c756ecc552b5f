"""Preload of execution environments (LAYOVER_LOCAL_PRELOAD): writes down which calls to AWS a function
makes and which of its configuration it reads.

A line a kind of call: `aws SERVICE OPERATION [ON]` or `env VARIABLE`, in LAYOVER_RECORDED/FUNCTION. ON is
`index` for a query of one, and the function that is invoked.

What counts as reading is what uses it. `wiring.runtime` looks at some variables to see whether there is a
port at all, and `Environment.settings` copies the rest for the services: neither needs a value."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

MAILS = "/v2/email/outbound-emails"
PARTS = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"} | {
    "ConditionCheck": "ConditionCheckItem"
}
SERVICES = {
    "DynamoDB_20120810": "dynamodb",
    "AWSStepFunctions": "stepfunctions",
    "AWSEvents": "events",
    "AmazonSSM": "ssm",
}
ASSEMBLE = frozenset(
    {
        ("runtime", None),
        ("settings", None),
        ("has_embedder", None),
        ("_plain_journal", "socket_endpoint"),
    }
)
"""Functions that look without using: at any variable, or at this one."""
ASSEMBLE_ALL = frozenset({"has_embedder"})
"""Those of them whose own helpers look without using, too."""
COPIED = {
    "sweep_patience": "sweep_patience_s",
    "run_retention": "run_retention_days",
    "thread_retention": "thread_retention_days",
    "entry_retention": "entry_retention_days",
}
"""Fields of the settings that have another name in the environment."""
_seen: set[str] = set()


def install() -> None:
    """Called before the handler is imported. With LAYOVER_TORTURE_FOLDER, processes die as well."""
    from layover.adapters.aws import sdk
    from layover.adapters.aws.client import AwsClient
    from layover.values.deployment.access import Access
    from layover.values.deployment.environment import Environment
    from layover.values.deployment.settings import Settings

    if "LAYOVER_TORTURE_FOLDER" in os.environ:
        from support.kills import points as kill_points

        kill_points.install()
    for kind in (Environment, Settings, Access):
        kind.model_rebuild()  # Building a model looks at defaults, which does not count as reading.
        _watch(kind, {field: info.alias for field, info in Environment.model_fields.items()})
    sdk.session().events.register("before-parameter-build", _call)
    send = AwsClient.send

    async def recorded(self: Any, method: str, path: str, headers: Any, body: bytes) -> Any:
        _request(method, path, headers.get("x-amz-target"), body)
        return await send(self, method, path, headers, body)

    AwsClient.send = recorded  # type: ignore[method-assign]


def _watch(kind: Any, variables: dict[str, str | None]) -> None:
    read = kind.__getattribute__
    fields = frozenset(kind.model_fields)

    def recorded(self: Any, name: str) -> Any:
        if name in fields or name == "__dict__":
            reader = sys._getframe(1)
            by, above = reader.f_code.co_name, reader.f_back and reader.f_back.f_code.co_name
            looks = {(by, None), (by, name)} & ASSEMBLE or above in ASSEMBLE_ALL
            if not looks:
                # A process that writes it out as JSON reads all of it.
                for each in fields if name == "__dict__" else (name,):
                    _note_variable(variables.get(COPIED.get(each, each)))
        return read(self, name)

    kind.__getattribute__ = recorded


def _note_variable(name: str | None) -> None:
    if name is not None:
        note(f"env {name}")


def _call(params: Any, model: Any, **_: Any) -> None:
    """A call of boto3's."""
    note(f"aws {model.service_model.service_name} {model.name}")


def _request(method: str, path: str, target: str | None, body: bytes) -> None:
    """A request of the functions' own client, by the name that boto3 has for it."""
    if function := re.fullmatch(r"/2015-03-31/functions/(.+)/invocations", path):
        return note(f"aws lambda Invoke {unquote(function[1])}")
    if path == MAILS:
        return note("aws ses SendEmail")
    if target is None:
        verb = {"POST": "PostToConnection", "DELETE": "DeleteConnection"}[method]
        return note(f"aws apigatewaymanagementapi {verb}")
    service, _, operation = target.partition(".")
    params = json.loads(body)
    on = " index" if "IndexName" in params else ""
    note(f"aws {SERVICES[service]} {operation}{on}")
    for item in params.get("TransactItems", ()):
        # What IAM asks for: the parts, not the whole.
        note(f"aws dynamodb {PARTS[next(iter(item))]}")
    return None


def note(line: str) -> None:
    """Once a process."""
    if line not in _seen:
        _seen.add(line)
        name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        with (Path(os.environ["LAYOVER_RECORDED"]) / name).open("a") as file:
            file.write(line + "\n")
