"""Secrets in SSM's parameter store."""

from collections.abc import Callable
from typing import Any

from layover.errors import ConfigurationError, RetryableError


def secret_parameter(name: str, client: Callable[[], Any]) -> str:
    """The value of a SecureString parameter. `client` answers SSM's.

    Raises ConfigurationError where there is none (the deployer has to put it there), RetryableError
    where SSM does not answer. The value goes into no message."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = client().get_parameter(Name=name, WithDecryption=True)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code == "ParameterNotFound":
            raise ConfigurationError(f"put the model provider's key into SSM as {name}") from error
        raise RetryableError(f"the parameter {name} was not read: {code}") from error
    except BotoCoreError as error:
        kind = type(error).__name__
        raise RetryableError(f"the parameter {name} was not read: {kind}") from error
    value: str = answer["Parameter"]["Value"]
    return value
