"""Any provider that speaks OpenAI's `POST /embeddings`."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from layover.adapters.http.client import MakeClient
from layover.adapters.http.direct import DirectClient
from layover.plugins.models.circuit import Circuit
from layover.plugins.models.endpoint import Endpoint, Key, bearer, json_or_text
from layover.plugins.models.faults import ProviderFault, invalid
from layover.plugins.models.openai_chat import OPENAI_BASE_URL
from layover.plugins.models.retrying import Requests, Sleep, retrying
from layover.values.prompt import Embedded
from layover.values.runs.usage import Usage, parse_tokens

PREFIX = "openai/"
PATH = "/embeddings"
MAX_TEXTS = 256
MAX_CHARACTERS = 200_000
"""Limits of one request. OpenAI takes 2,048 texts and 300,000 tokens, others less."""
TIMEOUT_S = 60.0


class OpenAIEmbedder:
    """`ports.Embedder`; one pool of connections for each event loop, none before the first call.

    `model` is the label with which vectors are kept; its leading `openai/` is not sent. `sent_as`: the name
    that is sent, if it is a different one."""

    def __init__(
        self,
        model: str,
        api_key: Key,
        base_url: str | None = None,
        *,
        sent_as: str | None = None,
        make_client: MakeClient = DirectClient,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.model = model
        self._sent_as = sent_as or model.removeprefix(PREFIX)
        url = base_url or OPENAI_BASE_URL
        self._endpoint = Endpoint(url, bearer(api_key), make_client=make_client)
        self._sleep = sleep
        self._circuit = Circuit()

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector for each text, in order, in as few requests as the provider allows. Raises
        ModelError."""
        vectors: list[list[float]] = []
        usages: list[Usage] = []
        try:
            for batch in _batches(texts):
                request = partial(self._request, batch)
                batch_vectors, usage = await retrying(
                    request, self._sleep, Requests(), self._circuit
                )
                vectors += batch_vectors
                usages.append(usage)
        except ProviderFault as fault:
            fault.name_provider(self._endpoint.base_url, self.model)
            raise fault.error from fault.__cause__
        return Embedded(vectors, self.model, Usage.total(usages) if usages else None)

    async def aclose(self) -> None:
        """Close this event loop's connections; the next call opens new ones."""
        await self._endpoint.aclose()

    async def _request(self, texts: list[str]) -> tuple[list[list[float]], Usage]:
        body = {
            "model": self._sent_as,
            "input": texts,
            "encoding_format": "float",
        }
        # A lone surrogate has no bytes in UTF-8.
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        response = await self._endpoint.post(PATH, data, {}, TIMEOUT_S)
        answer = json_or_text(response.text)
        return _vectors(answer, len(texts)), _usage(answer)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == MAX_TEXTS or size + len(text) > MAX_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text or " ")  # the provider refuses an empty text
        size += len(text)
    if batch:
        yield batch


def _vectors(answer: Any, number: int) -> list[list[float]]:
    """The vectors in the order of their texts, whatever the order of the answer."""
    try:
        vectors = {
            int(row["index"]): [float(x) for x in row["embedding"]] for row in answer["data"]
        }
        return [vectors[index] for index in range(number)]
    except (KeyError, TypeError, ValueError) as error:
        raise invalid("The embedder's answer does not have one vector for each text") from error


def _usage(answer: Any) -> Usage:
    """The provider's count, which some do not give."""
    usage = answer.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return Usage(input_tokens=parse_tokens(tokens))
