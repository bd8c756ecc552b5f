"""Credentials of a function for each new database connection."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from layover.adapters.aws.services import AwsServices
from layover.errors import ConfigurationError, RetryableError

LIFETIME_S = 900
"""The lifetime of a token, the longest that RDS accepts. An open connection stays open."""


def iam_token(dsn: str, aws: AwsServices) -> Callable[[], str]:
    """Tokens for the host, port and user of a `postgresql://` URL, signed locally, without a request.

    The callable raises ConfigurationError if the URL names no host or user, or there are no credentials."""
    address = urlsplit(dsn)
    host, port, user = address.hostname, address.port or 5432, unquote(address.username or "")
    if not host or not user:
        raise ConfigurationError("LAYOVER_DATABASE_URL names no host or no user for IAM to sign")
    query = {"Action": "connect", "DBUser": user}
    return lambda: aws.presign("rds-db", f"{host}:{port}", query, LIFETIME_S)


def secret_password(secret: str, client: Callable[[], Any]) -> Callable[[], str]:
    """The password in a secret as RDS keeps it, read for each connection: RDS rotates it.

    The callable raises RetryableError if Secrets Manager does not answer."""

    def password() -> str:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = client().get_secret_value(SecretId=secret)
        except (BotoCoreError, ClientError) as error:
            kind = type(error).__name__
            raise RetryableError(f"the database's secret was not read: {kind}") from error
        text: str = json.loads(answer["SecretString"])["password"]
        return text

    return password
