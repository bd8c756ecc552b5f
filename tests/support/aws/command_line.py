"""Lines for the AWS CLI, held against botocore's description of the services: no line is sent by the CLI."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from botocore import xform_name
from botocore.session import get_session

OF_THE_CLI = frozenset({"configure", "s3", "sso"})
"""Commands that no service describes."""
OF_EVERY_COMMAND = frozenset({"max-items", "output", "profile", "query", "region"})
RENAMED = {"send-task-success": {"task-output": "output"}}
"""Options whose parameter has the name of one that every command has."""
_ENDS = frozenset("|;&()")


@dataclass(frozen=True)
class AwsCommand:
    """A request to a service. `operation`: as boto3's clients name it."""

    service: str
    operation: str
    parameters: Mapping[str, str | bool]


def aws_lines(source: str) -> Iterator[list[str]]:
    """Yield the words of each line for the AWS CLI in a shell's source, without `aws`."""
    for line in source.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="".join(sorted(_ENDS)))
        lexer.whitespace_split = True
        words = [*lexer]
        for at, word in enumerate(words):
            if word == "aws":
                rest = words[at + 1 :]
                end = next((n for n, each in enumerate(rest) if each[0] in _ENDS), len(rest))
                yield rest[:end]
            elif "$(aws " in word:
                yield from aws_lines(word.partition("$(")[2])


def read_line(words: Sequence[str], *, is_whole: bool = True) -> AwsCommand:
    """Return what a line asks. `is_whole`: it has every parameter that the service requires. Raises
    ValueError with what no service takes."""
    service, name, *rest = words
    if service not in _services():
        raise ValueError(f"there is no service {service}")
    model = _model(service)
    operations = {xform_name(each, "-"): each for each in model.operation_names}
    if name not in operations:
        raise ValueError(f"{service} has no {name}")
    shape = model.operation_model(operations[name]).input_shape
    members = {xform_name(each, "-"): each for each in (shape.members if shape else ())}
    members |= RENAMED.get(name, {})
    options = _options(rest)
    known = {each for each in options if each not in OF_EVERY_COMMAND or each in members}
    if unknown := known - members.keys():
        raise ValueError(f"{service} {name} has no {', '.join(sorted(unknown))}")
    parameters = {members[each]: options[each] for each in known}
    if lacking := set(shape.required_members if shape and is_whole else ()) - parameters.keys():
        raise ValueError(f"{service} {name} needs {', '.join(sorted(lacking))}")
    return AwsCommand(service, xform_name(operations[name]), parameters)


def _options(words: Sequence[str]) -> dict[str, str | bool]:
    """Return the value of each option; True: it has none."""
    found: dict[str, str | bool] = {}
    for word in words:
        if word.startswith("--"):
            newest = word[2:]
            found[newest] = True
        elif found[newest] is True:
            found[newest] = word
        else:
            found[newest] = f"{found[newest]} {word}"
    return found


@cache
def _services() -> frozenset[str]:
    return frozenset(get_session().get_available_services())


@cache
def _model(service: str) -> Any:
    return get_session().get_service_model(service)
