"""The key of KMS that seals the tokens of users' connections."""

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from constructs import Construct

from layover.desk.cdk.settings import Settings

PENDING = Duration.days(30)
"""The longest time that KMS keeps a deleted key before it is gone, with all that it sealed."""


class Seal(Construct):
    """The key. It rotates by itself every year, and opens what it sealed before. Its policy has the account
    only: each role gets the right from its own policy."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        self.key = kms.Key(
            self,
            "Key",
            description=f"{settings.prefix}: tokens of users' connections",
            alias=f"{settings.prefix}-connections",
            enable_key_rotation=True,
            pending_window=PENDING,
            # As the table: without the key, nobody reads the tokens in it.
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
            if settings.retain
            else RemovalPolicy.DESTROY,
        )
