"""Amazon's Titan text embeddings on Bedrock: `InvokeModel`, one text a request."""

import asyncio
import json
from collections.abc import Sequence
from functools import cached_property, partial
from urllib.parse import quote

from layover.adapters.aws.services import AwsServices
from layover.adapters.http.client import MakeClient
from layover.adapters.http.direct import DirectClient
from layover.errors import ConfigurationError
from layover.plugins.models.bedrock.endpoint import bedrock_endpoint
from layover.plugins.models.circuit import Circuit
from layover.plugins.models.endpoint import Endpoint
from layover.plugins.models.faults import ProviderFault, invalid, not_configured
from layover.plugins.models.retrying import Requests, Sleep, retrying
from layover.values.deployment.providers import BEDROCK_PREFIX, TITAN, is_titan
from layover.values.prompt import Embedded
from layover.values.runs.usage import Usage, parse_tokens

MAX_CONCURRENT = 4
"""The most requests at once."""
MAX_CHARACTERS = 50_000
"""Titan's own limit for a text. It does not read the rest."""
TIMEOUT_S = 60.0


class BedrockEmbedder:
    """`ports.Embedder`; one pool of connections for each event loop, none before the first call. `model` is
    the label with which vectors are kept; its leading `bedrock/` is not sent. `aws`: the signer, the region,
    and Bedrock's endpoint."""

    def __init__(
        self,
        model: str,
        aws: AwsServices,
        *,
        make_client: MakeClient = DirectClient,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if not is_titan(model):
            raise ConfigurationError(
                f"there is no adapter for the embedder {model!r} on Bedrock, "
                f"only for {BEDROCK_PREFIX}{TITAN}v2:0"
            )
        self.model = model
        self._aws = aws
        self._make_client = make_client
        self._sleep = sleep
        self._circuit = Circuit()

    @cached_property
    def _endpoint(self) -> Endpoint:
        return bedrock_endpoint(self._aws, self._make_client)

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
        body = json.dumps({"inputText": text[:MAX_CHARACTERS] or " "}).encode()
        async with limit:
            return await retrying(
                partial(self._invoke, body), self._sleep, Requests(), self._circuit
            )

    async def _invoke(self, body: bytes) -> tuple[list[float], Usage]:
        try:
            endpoint = self._endpoint
        except ConfigurationError as error:
            message = f"Amazon Bedrock cannot be asked for {self.model}: {error}"
            raise not_configured(message) from error
        path = f"/model/{quote(self.model.removeprefix(BEDROCK_PREFIX), safe='')}/invoke"
        response = await endpoint.post(path, body, {}, TIMEOUT_S)
        try:
            answer = json.loads(response.text)
            vector = [float(x) for x in answer["embedding"]]
        except (KeyError, TypeError, ValueError) as error:
            raise invalid("The embedder's answer has no vector") from error
        return vector, Usage(input_tokens=parse_tokens(answer.get("inputTextTokenCount")))

    async def aclose(self) -> None:
        """Close this event loop's connections; the next call opens new ones."""
        if "_endpoint" in vars(self):
            await self._endpoint.aclose()
