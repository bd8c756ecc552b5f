"""Published versions of the functions, and the alias that everything invokes
(docs/adr/0015-versions-and-aliases.md)."""

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

from aws_cdk import RemovalPolicy
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IConstruct

from layover.desk.cdk.build import content_hash
from layover.desk.cdk.rollback import ALIAS
from layover.desk.cdk.settings import BUILT_PATHS, Settings
from layover.desk.shipped import release

DIGITS = 12


def digest_of(settings: Settings) -> str:
    """Return a hash of all that makes this deployment another one than the last: the same for all functions.

    It is part of the functions' descriptions, so each deployment with a change publishes all of them. A
    version keeps the values that its variables had when it was published, and the template shows only the
    names of what they refer to: a cluster that a setting replaces would leave the alias at a version that
    asks the old one. And Lambda publishes nothing for a function that has not changed: the CDK's own hash may
    change with the CDK, and the deployment would fail."""
    values = settings.model_dump(mode="json", exclude={*BUILT_PATHS, "project"})
    parts = (
        release(),
        version("aws-cdk-lib"),
        json.dumps(values, sort_keys=True),
        content_hash(Path(settings.layer)),
        content_hash(Path(settings.code)),
        content_hash(Path(__file__).parents[1], "*.py"),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]


def version_options(digest: str) -> lambda_.VersionOptions:
    """Return the options of a version. The last ones stay, for the way back. One whose deployment fails goes:
    Lambda would not publish the same once more, and the next deployment would fail as well."""
    return lambda_.VersionOptions(
        description=f"Layover {release()} ({digest})",
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    )


def aliases(scope: Construct, functions: dict[str, lambda_.Function]) -> dict[str, lambda_.Alias]:
    """Return the alias of each function. None moves before all functions are published, so a deployment that
    fails until then has changed nothing that anybody invokes."""
    result = {
        name: lambda_.Alias(
            scope,
            f"{name.capitalize()}Live",
            alias_name=ALIAS,
            version=function.current_version,
        )
        for name, function in functions.items()
    }
    versions = [function.current_version for function in functions.values()]
    for alias in result.values():
        alias.node.add_dependency(*versions)
    return result


def allow_first(api: IConstruct) -> None:
    """Make the integrations of an HTTP or WebSocket API wait for the permissions to invoke: an alias is new
    once, and an API that may not invoke it yet answers 500."""
    below = api.node.find_all()
    permissions = [each for each in below if isinstance(each, lambda_.CfnPermission)]
    for integration in (each for each in below if isinstance(each, gateway.CfnIntegration)):
        for permission in permissions:
            integration.add_resource_dependency(permission)
