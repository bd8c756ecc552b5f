"""Several providers in one deployment: the prefix of a model's name picks one."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from layover.adapters.aws.services import AwsServices
from layover.adapters.http.choice import choose_client
from layover.adapters.http.client import MakeClient
from layover.adapters.http.direct import DirectClient
from layover.errors import ConfigurationError, ModelError
from layover.plugins.models.closing import may_miss_close
from layover.plugins.models.openai_chat import OPENAI_BASE_URL, OpenAIChat
from layover.ports import ChatModel, OnDelta
from layover.values.deployment.environment import Environment
from layover.values.deployment.providers import (
    BEDROCK_PREFIX,
    ProviderAddress,
    mistyped_provider,
    split_model,
)
from layover.values.prompt import Prompt, Reply

if TYPE_CHECKING:
    from layover.plugins.models.anthropic.chat import AnthropicChat
    from layover.plugins.models.bedrock.chat import BedrockChat

logger = logging.getLogger("layover")

BEDROCK_ENDPOINT = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
_NO_SUCH_MODEL = (400, 404)
Addresses = Mapping[str, ProviderAddress]
KeyOf = Callable[[str], str | None]


class Providers(ChatModel):
    """Calls the provider that a model's name begins with, or `own`, with the name as it is, if it begins with
    none. `key_of` returns a provider's key before its first request. `bedrock` makes the client for names
    that begin with `bedrock/`; None: `own` serves them."""

    def __init__(
        self,
        own: "OpenAIChat | BedrockChat",
        addresses: Addresses,
        key_of: KeyOf,
        bedrock: Callable[[], "BedrockChat"] | None = None,
        make_client: MakeClient = DirectClient,
    ) -> None:
        self._own = own
        self._addresses = addresses
        self._key_of = key_of
        self._make_bedrock = bedrock
        self._make_client = make_client
        self._bedrock: BedrockChat | None = None
        self._models: dict[str, OpenAIChat | AnthropicChat] = {}

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """One reply; see the port."""
        model = prompt.model
        chat, name = self.chat_of(model)
        # The second wire is OpenAI's: other providers are called as ever.
        api = prompt.api if chat is self._own else "chat"
        if (name, api) != (prompt.model, prompt.api):
            prompt = prompt.model_copy(update={"model": name, "api": api})
        try:
            return await chat.complete(prompt, on_delta)
        except ModelError as error:
            error.provider = self._provider_of(model)
            mistyped = mistyped_provider(name, self._addresses)
            if error.status in _NO_SUCH_MODEL and mistyped is not None:
                # Only in the log: who reads a run's error need not know the deployment's providers.
                logger.warning("the model %r: %s", name, mistyped)
            raise

    def _provider_of(self, model: str) -> str:
        """Return the name by which operators know the provider of a model."""
        provider, _ = split_model(model, self._addresses)
        is_bedrock = self._make_bedrock is not None and model.startswith(BEDROCK_PREFIX)
        return provider or ("bedrock" if is_bedrock else "openai")

    def dial(self, model: str) -> None:
        """Begin to connect to the provider of a model, unless a connection is idle."""
        chat, name = self.chat_of(model)
        chat.dial(name)

    def chat_of(self, model: str) -> "tuple[OpenAIChat | AnthropicChat | BedrockChat, str]":
        """Return the client that serves a model, and the name to ask it for."""
        provider, name = split_model(model, self._addresses)
        if provider is not None:
            # The prefix that the wire cuts, so that the rest is sent as it is.
            return self._chat(provider), f"openai/{name}"
        if self._make_bedrock is not None and model.startswith(BEDROCK_PREFIX):
            self._bedrock = self._bedrock or self._make_bedrock()
            return self._bedrock, model
        return self._own, model

    async def aclose(self) -> None:
        """Close this event loop's connections to them; the next call opens new ones."""
        for chat in self._models.values():
            await chat.aclose()
        if self._bedrock is not None:
            await self._bedrock.aclose()

    def _chat(self, provider: str) -> "OpenAIChat | AnthropicChat":
        if provider not in self._models:
            self._models[provider] = self._new_chat(provider)
        return self._models[provider]

    def _new_chat(self, provider: str) -> "OpenAIChat | AnthropicChat":
        address, key = self._addresses[provider], partial(self._key_of, provider)
        url = address.base_url
        if address.api == "anthropic":
            from layover.plugins.models.anthropic.chat import AnthropicChat

            return AnthropicChat(key, url, make_client=self._make_client)
        return OpenAIChat(
            key, url, make_client=self._make_client, streams_always=may_miss_close(url)
        )


def make_model(
    environment: Environment,
    own_key: Callable[[], str | None],
    variables: Mapping[str, str],
    parameter: Callable[[str], str],
    aws: Callable[[], AwsServices],
) -> "Providers | BedrockChat":
    """The deployment's own provider, Bedrock, and the further ones that it names. A key is read before the
    first request that needs it: a deployment that only asks other providers does not need one."""
    addresses = environment.providers
    make_client = choose_client(variables)

    def key_of(name: str) -> str | None:
        return find_key(name, addresses[name], variables, parameter)

    def bedrock() -> "BedrockChat":
        from layover.plugins.models.bedrock.chat import BedrockChat

        return BedrockChat(aws(), make_client=make_client)

    if environment.provider == "bedrock":
        if not addresses:
            return bedrock()
        return Providers(bedrock(), addresses, key_of, make_client=make_client)
    url = environment.openai_base_url or OPENAI_BASE_URL
    own = OpenAIChat(own_key, url, make_client=make_client, streams_always=may_miss_close(url))
    with_bedrock = bedrock if has_bedrock(variables) else None
    return Providers(own, addresses, key_of, with_bedrock, make_client)


def can_serve(environment: Environment, model: str) -> bool:
    """Return whether the environment names somebody to ask for this model: a server, a key, or an account of
    AWS. It asks nobody."""
    provider, _ = split_model(model, environment.providers)
    is_bedrock = environment.provider == "bedrock" or model.startswith(BEDROCK_PREFIX)
    own = environment.openai_api_key or environment.openai_base_url or environment.api_key_parameter
    return provider is not None or is_bedrock or bool(own)


def has_bedrock(variables: Mapping[str, str]) -> bool:
    """Return whether there is a Bedrock: not on one machine, whose own server answers for Bedrock's models,
    too."""
    return BEDROCK_ENDPOINT in variables or "AWS_ENDPOINT_URL" not in variables


def find_key(
    provider: str,
    address: ProviderAddress,
    variables: Mapping[str, str],
    parameter: Callable[[str], str],
) -> str | None:
    """A provider's key; None if it wants none. `parameter` reads one of SSM. Raises ConfigurationError
    if its variable is not set."""
    if address.api_key_parameter:
        return parameter(address.api_key_parameter)
    if not address.api_key_env:
        return None
    key = variables.get(address.api_key_env)
    if not key:
        message = f"LAYOVER_PROVIDERS has the key of {provider} in {address.api_key_env}"
        raise ConfigurationError(f"{message}, and it is not set: the deployer has to set it")
    return key
