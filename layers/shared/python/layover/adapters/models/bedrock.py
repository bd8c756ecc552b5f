"""Amazon Bedrock's OpenAI-compatible endpoint: the same wire, each request signed by the role.

Signatures (SigV4, service `bedrock`) are made by the `openai` package with botocore."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from layover.adapters.models.faults import ProviderFault
from layover.adapters.models.openai_chat import OpenAIChat, connections
from layover.adapters.models.retrying import Sleep
from layover.errors import ConfigurationError, ModelError
from layover.ports import Ids, OnDelta
from layover.values.prompt import Prompt, Reply

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

PREFIX = "bedrock/"


class BedrockChat(OpenAIChat):
    """`session` answers a boto3 session: who signs, and in which region. `base_url`: instead of the
    region's own `https://bedrock-runtime.REGION.amazonaws.com/openai/v1`.

    A leading `bedrock/` of a model's name is not sent."""

    def __init__(
        self,
        session: Callable[[], Any],
        base_url: str | None = None,
        *,
        ids: Ids | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        # Nothing says that Bedrock knows the field of the cache's key.
        super().__init__(None, prompt_cache_key=False, ids=ids, sleep=sleep)
        self._session = session
        self._endpoint = base_url

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """One reply; see the port. Raises ConfigurationError where there is no region."""
        named = prompt.model_copy(update={"model": prompt.model.removeprefix(PREFIX)})
        return await super().complete(named, on_delta)

    async def _post(
        self, prompt: Prompt, body: bytes, silence_s: float, *, stream: bool
    ) -> "httpx2.Response":
        from openai import OpenAIError

        try:
            return await super()._post(prompt, body, silence_s, stream=stream)
        except OpenAIError as error:
            # Answers and broken connections are faults by now: nothing was signed, nothing sent.
            unsigned = ModelError(f"No AWS credentials: {error}", type="AuthenticationError")
            raise ProviderFault(unsigned, passing=False) from error

    def _connect(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI
        from openai.providers import bedrock

        session = self._session()
        if session.region_name is None:
            raise ConfigurationError("LAYOVER_PROVIDER=bedrock needs a region (AWS_REGION)")
        # Named one by one: what is not would come from variables that are not ours.
        provider = bedrock(
            endpoint="runtime",
            region=session.region_name,
            base_url=self._endpoint,
            credential_provider=session.get_credentials,
        )
        return AsyncOpenAI(provider=provider, max_retries=0, http_client=connections())
