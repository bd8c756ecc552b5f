"""Any provider that speaks OpenAI's `POST /embeddings`."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from layover.adapters.models.faults import (
    ProviderFault,
    disconnected,
    from_status,
    invalid,
    unusable,
)
from layover.adapters.models.retrying import Sleep, retrying
from layover.values.prompt import Embedded
from layover.values.runs.usage import Usage, tokens_said

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PREFIX = "openai/"
MOST_TEXTS = 256
MOST_CHARACTERS = 200_000
"""Of one request: OpenAI takes 2,048 texts and 300,000 tokens, others less."""
CONNECT_TIMEOUT_S = 5.0
TIMEOUT_S = 60.0


class OpenAIEmbedder:
    """`ports.Embedder`; one client for each event loop, nothing is imported before the first call.

    `model` is the label that vectors are kept with; its leading `openai/` is not sent."""

    def __init__(
        self,
        model: str,
        api_key: str | None,
        base_url: str | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.model = model
        self._api_key = api_key or "none"
        self._base_url = base_url
        self._sleep = sleep
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = (
            WeakKeyDictionary()
        )

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One vector a text, in order, in as few requests as the provider takes. Raises ModelError."""
        vectors: list[list[float]] = []
        usages: list[Usage] = []
        try:
            for batch in _batches(texts):
                asked = partial(self._asked, batch)
                found, usage = await retrying(asked, self._sleep, _nobody)
                vectors += found
                usages.append(usage)
        except ProviderFault as fault:
            client = self._clients.get(asyncio.get_running_loop())
            url = str(client.base_url) if client else self._base_url or ""
            fault.name_provider(url, self.model)
            raise fault.error from fault.__cause__
        return Embedded(vectors, self.model, Usage.total(usages) if usages else None)

    async def aclose(self) -> None:
        """Close this event loop's connections; the next call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def _asked(self, texts: list[str]) -> tuple[list[list[float]], Usage]:
        import httpx2
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        body = {
            "model": self.model.removeprefix(PREFIX),
            "input": texts,
            "encoding_format": "float",
        }
        options: Any = {"timeout": httpx2.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)}
        try:
            response = await self._client().post(
                "/embeddings", body=body, cast_to=httpx2.Response, options=options
            )
        except APIStatusError as error:
            refused = error.response
            raise from_status(
                refused.status_code, _decoded(refused.text), refused.headers
            ) from error
        except APIConnectionError as error:
            raise disconnected(error, timeout=isinstance(error, APITimeoutError)) from error
        except (httpx2.InvalidURL, UnicodeError, ExceptionGroup) as error:
            raise unusable(error) from error
        answer = _decoded(response.text)
        return _vectors(answer, len(texts)), _usage(answer)

    def _client(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI

        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = AsyncOpenAI(api_key=self._api_key, base_url=self._base_url, max_retries=0)
            self._clients[loop] = client
        return client


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == MOST_TEXTS or size + len(text) > MOST_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(text or " ")  # the provider refuses an empty text
        size += len(text)
    if batch:
        yield batch


def _vectors(answer: Any, number: int) -> list[list[float]]:
    """The vectors in the order of their texts, whatever the order of the answer."""
    try:
        found = {int(row["index"]): [float(x) for x in row["embedding"]] for row in answer["data"]}
        return [found[index] for index in range(number)]
    except (KeyError, TypeError, ValueError) as error:
        raise invalid("The embedder's answer has not one vector for each text") from error


def _usage(answer: Any) -> Usage:
    """What the provider counted; some do not say it."""
    said = answer.get("usage")
    tokens = said.get("prompt_tokens") if isinstance(said, dict) else None
    return Usage(input_tokens=tokens_said(tokens))


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _nobody(fault: ProviderFault) -> None:
    """Nobody hears of a fault that passes."""
