"""The key of KMS that seals the tokens of users' connections."""

from constructs import Construct

from layover.desk.cdk.constructs.key import key_of
from layover.desk.cdk.settings import Settings


class Seal(Construct):
    """The key."""

    def __init__(self, scope: Construct, id: str, settings: Settings) -> None:
        super().__init__(scope, id)
        self.key = key_of(
            self, "Key", name="connections", settings=settings, what="tokens of users' connections"
        )
