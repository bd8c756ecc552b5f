"""Preload of execution environments (LAYOVER_LOCAL_PRELOAD): writes down which calls to AWS a function
makes and which of its configuration it reads.

A line a kind of call: `aws SERVICE OPERATION` or `env VARIABLE`, in LAYOVER_RECORDED/FUNCTION."""

import os
from pathlib import Path
from typing import Any

PARTS = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"} | {
    "ConditionCheck": "ConditionCheckItem"
}
_seen: set[str] = set()


def install() -> None:
    """Called before the handler is imported."""
    from layover.adapters import aws
    from layover.values.environment import Environment

    names = {field: info.alias for field, info in Environment.model_fields.items()}
    read = Environment.__getattribute__

    def recorded(self: Environment, name: str) -> Any:
        if name in names:
            note(f"env {names[name]}")
        return read(self, name)

    Environment.__getattribute__ = recorded  # type: ignore[method-assign]
    aws.session().events.register("before-parameter-build", _call)


def _call(params: Any, model: Any, **_: Any) -> None:
    note(f"aws {model.service_model.service_name} {model.name}")
    for item in params.get("TransactItems", ()):
        # What IAM asks for: the parts, not the whole.
        note(f"aws dynamodb {PARTS[next(iter(item))]}")


def note(line: str) -> None:
    """Once a process."""
    if line not in _seen:
        _seen.add(line)
        name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        with (Path(os.environ["LAYOVER_RECORDED"]) / name).open("a") as file:
            file.write(line + "\n")
