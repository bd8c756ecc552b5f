"""Amazon's Titan text embeddings on Bedrock: `InvokeModel`, one text a request."""

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from layover.errors import ConfigurationError, ModelError
from layover.plugins.models.faults import (
    ProviderFault,
    from_status,
    invalid,
    make_disconnect_fault,
)
from layover.plugins.models.retrying import Requests, Sleep, retrying
from layover.values.deployment.providers import BEDROCK_PREFIX, TITAN, is_titan
from layover.values.prompt import Embedded
from layover.values.runs.usage import Usage, parse_tokens

MAX_CONCURRENT = 4
"""The most requests at once, because the journal and the store use the same threads."""
MAX_CHARACTERS = 50_000
"""Titan's own limit for a text. It does not read the rest."""


class BedrockEmbedder:
    """`ports.Embedder`. `model` is the label with which vectors are kept; its leading `bedrock/` is not sent.
    `client` returns boto3's client of `bedrock-runtime`, without its own retries."""

    def __init__(
        self, model: str, client: Callable[[], Any], *, sleep: Sleep = asyncio.sleep
    ) -> None:
        if not is_titan(model):
            raise ConfigurationError(
                f"there is no adapter for the embedder {model!r} on Bedrock, "
                f"only for {BEDROCK_PREFIX}{TITAN}v2:0"
            )
        self.model = model
        self._client = client
        self._sleep = sleep

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector for each text, in order. Raises ModelError and then gives up the other requests."""
        limit = asyncio.Semaphore(MAX_CONCURRENT)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(text, limit)) for text in texts]
        except ExceptionGroup as failed:
            first = failed.exceptions[0]
            if not isinstance(first, ProviderFault):
                raise first from first.__cause__
            raise first.error from first.__cause__
        results = [task.result() for task in tasks]
        usage = Usage.total([each for _, each in results]) if results else None
        return Embedded([vector for vector, _ in results], self.model, usage)

    async def _one(self, text: str, limit: asyncio.Semaphore) -> tuple[list[float], Usage]:
        # Titan refuses an empty text.
        body = json.dumps({"inputText": text[:MAX_CHARACTERS] or " "})
        async with limit:
            ask = partial(asyncio.to_thread, self._invoke, body)
            return await retrying(ask, self._sleep, Requests())

    def _invoke(self, body: str) -> tuple[list[float], Usage]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = self._client().invoke_model(
                modelId=self.model.removeprefix(BEDROCK_PREFIX),
                body=body,
                contentType="application/json",
                accept="application/json",
            )
            text = answer["body"].read()
        except ClientError as error:
            raise _fault(error.response) from error
        except BotoCoreError as error:
            raise _unanswered(error) from error
        return _read(text)


def _fault(response: Any) -> ProviderFault:
    error, about = response.get("Error", {}), response.get("ResponseMetadata", {})
    body = {"code": error.get("Code"), "message": error.get("Message")}
    return from_status(about.get("HTTPStatusCode", 500), body, about.get("HTTPHeaders", {}))


def _unanswered(error: Exception) -> ProviderFault:
    """A broken connection is a passing fault; a missing credential is not."""
    from botocore import exceptions

    if isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError):
        late = exceptions.ConnectTimeoutError | exceptions.ReadTimeoutError
        return make_disconnect_fault(error, timeout=isinstance(error, late))
    return ProviderFault(ModelError(str(error), type=type(error).__name__), is_transient=False)


def _read(text: bytes) -> tuple[list[float], Usage]:
    try:
        answer = json.loads(text)
        vector = [float(x) for x in answer["embedding"]]
    except (KeyError, TypeError, ValueError) as error:
        raise invalid("The embedder's answer has no vector") from error
    return vector, Usage(input_tokens=parse_tokens(answer.get("inputTextTokenCount")))
