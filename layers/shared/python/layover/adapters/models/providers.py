"""Several providers in one deployment: the prefix of a model's name picks one."""

from collections.abc import Callable, Mapping

from layover.adapters.models.openai_chat import OpenAIChat
from layover.errors import ConfigurationError
from layover.ports import ChatModel, OnDelta
from layover.values.deployment.environment import Environment
from layover.values.deployment.providers import ProviderAddress, split_model
from layover.values.prompt import Prompt, Reply

Addresses = Mapping[str, ProviderAddress]
KeyOf = Callable[[str], str | None]


class Providers(ChatModel):
    """Asks the provider that a model's name begins with, and `own`, with the name as it is, where it
    begins with none. `key_of` is asked for a provider's key at its first use."""

    def __init__(self, own: ChatModel, addresses: Addresses, key_of: KeyOf) -> None:
        self._own = own
        self._addresses = addresses
        self._key_of = key_of
        self._made: dict[str, OpenAIChat] = {}

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """One reply; see the port. Raises ConfigurationError where a provider has no key."""
        provider, name = split_model(prompt.model, self._addresses)
        if provider is None:
            return await self._own.complete(prompt, on_delta)
        # The prefix that the wire cuts, so that the rest is sent as it is.
        there = prompt.model_copy(update={"model": f"openai/{name}"})
        return await self._chat(provider).complete(there, on_delta)

    async def aclose(self) -> None:
        """Close this event loop's connections to them; the next call opens new ones."""
        for chat in self._made.values():
            await chat.aclose()

    def _chat(self, provider: str) -> OpenAIChat:
        if provider not in self._made:
            url = self._addresses[provider].base_url
            self._made[provider] = OpenAIChat(self._key_of(provider), url)
        return self._made[provider]


def make_model(
    environment: Environment,
    own_key: Callable[[], str | None],
    variables: Mapping[str, str],
    parameter: Callable[[str], str],
) -> ChatModel:
    """The deployment's own provider, and the further ones that it names. See `find_key`."""
    own: ChatModel
    if environment.provider == "bedrock":
        from layover.adapters.aws.sdk import session
        from layover.adapters.models.bedrock import BedrockChat

        own = BedrockChat(session)
    else:
        own = OpenAIChat(own_key(), environment.openai_base_url)
    addresses = environment.providers

    def key_of(name: str) -> str | None:
        return find_key(name, addresses[name], variables, parameter)

    return Providers(own, addresses, key_of) if addresses else own


def find_key(
    provider: str,
    address: ProviderAddress,
    variables: Mapping[str, str],
    parameter: Callable[[str], str],
) -> str | None:
    """A provider's key; None where it wants none. `parameter` reads one of SSM. Raises ConfigurationError
    where its variable is not set."""
    if address.api_key_parameter:
        return parameter(address.api_key_parameter)
    if not address.api_key_env:
        return None
    key = variables.get(address.api_key_env)
    if not key:
        told = f"LAYOVER_PROVIDERS has the key of {provider} in {address.api_key_env}"
        raise ConfigurationError(f"{told}, and it is not set")
    return key
