"""Amazon Bedrock behind the port: each model by the API that reaches it, each request signed by the role."""

import asyncio
from contextlib import suppress

from layover.adapters.aws.services import AwsServices
from layover.adapters.http.client import MakeClient
from layover.adapters.http.direct import DirectClient
from layover.errors import ConfigurationError
from layover.ids import RandomIds
from layover.plugins.models.bedrock import families
from layover.plugins.models.bedrock.converse import ConverseChat
from layover.plugins.models.bedrock.endpoint import bedrock_endpoint
from layover.plugins.models.bedrock.faults import refused
from layover.plugins.models.faults import not_configured
from layover.plugins.models.http_chat import HttpChat
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.retrying import Sleep
from layover.ports import ChatModel, Ids, OnDelta
from layover.values.deployment.providers import BEDROCK_PREFIX
from layover.values.prompt import Prompt, Reply


class BedrockChat(ChatModel):
    """Bedrock's models. `aws`: the signer, the region, and Bedrock's endpoint. A leading `bedrock/` of a
    model's name is not sent."""

    def __init__(
        self,
        aws: AwsServices,
        *,
        make_client: MakeClient = DirectClient,
        ids: Ids | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._aws = aws
        self._make_client = make_client
        self._ids = ids or RandomIds()
        self._sleep = sleep
        self._converse: HttpChat | None = None
        self._completions: HttpChat | None = None

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """One reply; see the port."""
        name = prompt.model.removeprefix(BEDROCK_PREFIX)
        request = prompt.model_copy(update={"model": name, "api": "chat"})
        try:
            chat = self._chat(name)
        except ConfigurationError as error:
            message = f"Amazon Bedrock cannot be asked for {name}: {error}"
            raise not_configured(message).error from error
        return await chat.complete(request, on_delta)

    def dial(self, model: str) -> None:
        """Begin to connect to the API of this model, unless a connection is idle."""
        with suppress(ConfigurationError):
            self._chat(model.removeprefix(BEDROCK_PREFIX)).dial(model)

    async def aclose(self) -> None:
        """Close this event loop's connections; the next call opens new ones."""
        for chat in (self._converse, self._completions):
            if chat is not None:
                await chat.aclose()

    def _chat(self, model: str) -> HttpChat:
        if families.speaks_chat_completions(model):
            if self._completions is None:
                # Bedrock does not document a field for the cache's key.
                self._completions = OpenAIChat(
                    None,
                    endpoint=bedrock_endpoint(self._aws, self._make_client, path="/openai/v1"),
                    prompt_cache_key=False,
                    ids=self._ids,
                    sleep=self._sleep,
                )
            return self._completions
        if self._converse is None:
            endpoint = bedrock_endpoint(self._aws, self._make_client, refused)
            self._converse = ConverseChat(endpoint, self._ids, self._sleep)
        return self._converse
