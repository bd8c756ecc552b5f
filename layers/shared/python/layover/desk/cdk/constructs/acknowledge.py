"""Acknowledgement of findings that are intended, with the reason, next to the resource."""

from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from constructs import IConstruct


def acknowledge(construct: IConstruct, *rules: tuple[str, str]) -> None:
    """Acknowledge `(rule, reason)` each, for the construct and all below it."""
    for rule, reason in rules:
        Validations.of(construct).acknowledge(Acknowledgment(id=rule, reason=reason))


def spelled(scope: IConstruct, text: str) -> str:
    """Return a string with tokens as findings spell it: `<Bucket.Arn>/u/*`."""
    return _flat(Stack.of(scope).resolve(text))


def _flat(value: Any) -> str:
    match value:
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(_flat(part) for part in parts)
    return str(value)
