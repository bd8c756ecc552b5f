"""Secrets in SSM's parameter store."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.retries import NoAnswer, ServiceError
from layover.errors import ConfigurationError, RetryableError


def secret_parameter(name: str, ssm: AwsClient) -> str:
    """The value of a SecureString parameter. Blocks until SSM answers, because the adapter cannot be made
    without it.

    Raises ConfigurationError if there is none (the deployer has to put it there), RetryableError if SSM does
    not answer. The value never appears in a message."""

    async def ask() -> str:
        try:
            request = {"Name": name, "WithDecryption": True}
            answer = await ssm.call("AmazonSSM.GetParameter", request, version="1.1")
            return str(answer["Parameter"]["Value"])
        finally:
            await ssm.aclose()

    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, ask()).result()
    except ServiceError as error:
        if error.code == "ParameterNotFound":
            message = f"the deployer has to put the model provider's key into SSM as {name}"
            raise ConfigurationError(f"{message} (SecureString)") from error
        raise RetryableError(f"the parameter {name} was not read: {error.code}") from error
    except NoAnswer as error:
        raise RetryableError(f"the parameter {name} was not read: {error}") from error
