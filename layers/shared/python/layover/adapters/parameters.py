"""Secrets in SSM's parameter store and in Secrets Manager."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.retries import NoAnswer, ServiceError
from layover.errors import ConfigurationError, RetryableError

_NO_PARAMETER = "ParameterNotFound"
_NO_SECRET = "ResourceNotFoundException"


def secret_parameter(name: str, ssm: AwsClient, *, what: str = "the model provider's key") -> str:
    """The value of a SecureString parameter. Blocks until SSM answers, because the adapter cannot be made
    without it.

    Raises ConfigurationError if there is none (the deployer has to put it there), RetryableError if SSM does
    not answer. The value never appears in a message."""
    request = {"Name": name, "WithDecryption": True}
    answer = _call(
        ssm, "AmazonSSM.GetParameter", request, missing=_NO_PARAMETER, name=name, what=what
    )
    return str(answer["Parameter"]["Value"])


def secret_value(arn: str, secrets_manager: AwsClient, *, what: str) -> str:
    """The text of a secret, in its current version. Blocks and raises as `secret_parameter` does."""
    answer = _call(
        secrets_manager,
        "secretsmanager.GetSecretValue",
        {"SecretId": arn},
        missing=_NO_SECRET,
        name=arn,
        what=what,
    )
    if not isinstance(answer.get("SecretString"), str):
        raise ConfigurationError(f"{arn} has bytes: the deployer has to put {what} there as text")
    return str(answer["SecretString"])


def _call(
    client: AwsClient,
    target: str,
    request: Mapping[str, Any],
    *,
    missing: str,
    name: str,
    what: str,
) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        try:
            return await client.call(target, request, version="1.1")
        finally:
            await client.aclose()

    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, ask()).result()
    except ServiceError as error:
        if error.code == missing:
            kind = "SSM" if missing == _NO_PARAMETER else "Secrets Manager"
            form = " (SecureString)" if missing == _NO_PARAMETER else ""
            raise ConfigurationError(
                f"the deployer has to put {what} into {kind} as {name}{form}"
            ) from error
        raise RetryableError(f"{name} was not read: {error.code}") from error
    except NoAnswer as error:
        raise RetryableError(f"{name} was not read: {error}") from error
