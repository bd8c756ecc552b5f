"""The stack's own key of KMS, for the table, the bucket and the cluster."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from constructs import Construct

from layover.desk.cdk.settings import Settings

PENDING = Duration.days(30)
"""The longest time that KMS keeps a deleted key before it is gone, with all that it encrypted."""


def key_of(scope: Construct, id: str, name: str, settings: Settings, what: str) -> kms.Key:
    """Return a key that rotates by itself every year, and opens what it encrypted before. Its policy has the
    account only: each role gets the right from its own policy.

    Args:
        scope: The construct whose key it is.
        id: The key's id in it.
        name: The end of its alias, behind the stage's prefix: `data`.
        settings: Whether the key stays when the stack goes, as what it encrypts does.
        what: What it encrypts, for people who read the list of keys.
    """
    return kms.Key(
        scope,
        id,
        description=f"{settings.prefix}: {what}",
        alias=f"{settings.prefix}-{name}",
        enable_key_rotation=True,
        pending_window=PENDING,
        # As the data: without the key, nobody reads it.
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        if settings.retain
        else RemovalPolicy.DESTROY,
    )
