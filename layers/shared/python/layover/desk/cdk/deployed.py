"""The place of a deployed system: its own stack, or a construct in a stack of the deployer's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MACHINE = "StateMachineArn"
"""The output that tells which system it is: an account and region have one state machine of a name."""

PROJECT = "Project"
"""The output that tells which project made the system."""


@dataclass(frozen=True)
class Place:
    """The stack that has the system, and the id of the construct in it. Empty: the stack of the stage, of
    which the construct is all."""

    stack: str = ""
    id: str = ""


@dataclass(frozen=True)
class Deployed:
    """A system on AWS. `outputs`: the values of the construct's outputs, by names without its id."""

    place: Place
    outputs: Mapping[str, str]

    @property
    def release(self) -> str | None:
        """Return the version of Layover; None for a deployment from before it was told."""
        return self.outputs.get("Release")


def find(prefix: str, cloudformation: Any) -> Deployed | None:
    """Return the system whose names begin with the prefix (`shop-prod`); None if no stack of the account and
    region has it. Raises botocore's errors."""
    machine = f":stateMachine:{prefix}-run"
    for stack in _stacks(prefix, cloudformation):
        outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}
        for name, value in outputs.items():
            if name.endswith(MACHINE) and value.endswith(machine):
                id = name.removesuffix(MACHINE)
                ours = {k.removeprefix(id): v for k, v in outputs.items() if k.startswith(id)}
                return Deployed(Place(stack["StackName"], id), ours)
    return None


def _stacks(prefix: str, cloudformation: Any) -> Iterator[dict[str, Any]]:
    """Yield the stack of this name, which most systems have, and then all others."""
    from botocore.exceptions import ClientError

    try:
        yield from cloudformation.describe_stacks(StackName=prefix)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
    for page in cloudformation.get_paginator("describe_stacks").paginate():
        yield from (each for each in page["Stacks"] if each["StackName"] != prefix)
