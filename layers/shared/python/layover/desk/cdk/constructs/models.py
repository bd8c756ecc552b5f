"""Permission to call the named models on Bedrock, and no others."""

import re
from collections.abc import Iterator

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from layover.desk.cdk.settings import Settings

ASK = ("bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream")
"""IAM knows Converse and Chat Completions on `bedrock-runtime` under the actions of InvokeModel, and their
streams under the second."""
EMBED = ("bedrock:InvokeModel",)
PROFILE = re.compile(r"(?:[a-z]{2}|apac|us-gov|global)\.")
"""Prefix of an inference profile's id; the profile answers in one of several regions."""


def model_statements(
    scope: Construct, settings: Settings, *, asks: bool, embeds: bool
) -> Iterator[iam.PolicyStatement]:
    """Return the permissions of a function that asks models or embedders; none for another provider's."""
    if asks:
        yield from _statements(scope, settings.bedrock_models, ASK)
    if embeds:
        yield from _statements(scope, settings.bedrock_embedders, EMBED)


def anywhere(settings: Settings) -> list[str]:
    """Return ARNs with a wildcard for the region, one for each inference profile."""
    names = (*settings.bedrock_models, *settings.bedrock_embedders)
    return [_underneath(name) for name in names if PROFILE.match(name)]


def _statements(
    scope: Construct, names: tuple[str, ...], actions: tuple[str, ...]
) -> Iterator[iam.PolicyStatement]:
    direct = [_model(Aws.REGION, name) for name in names if not PROFILE.match(name)]
    profiles = [name for name in names if PROFILE.match(name)]
    if direct:
        yield iam.PolicyStatement(actions=list(actions), resources=direct)
    for name in profiles:
        profile = Stack.of(scope).format_arn(
            service="bedrock", resource="inference-profile", resource_name=name
        )
        yield iam.PolicyStatement(actions=list(actions), resources=[profile])
        # AWS chooses the region of each request, and may add regions. The condition allows the model only
        # through the profile.
        yield iam.PolicyStatement(
            actions=list(actions),
            resources=[_underneath(name)],
            conditions={"StringEquals": {"bedrock:InferenceProfileArn": profile}},
        )


def _underneath(profile: str) -> str:
    """Return the model that a profile calls, in any region."""
    return _model("*", PROFILE.sub("", profile, count=1))


def _model(region: str, name: str) -> str:
    return f"arn:{Aws.PARTITION}:bedrock:{region}::foundation-model/{name}"
