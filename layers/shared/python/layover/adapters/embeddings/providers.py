"""The embedder that a name stands for: on this machine, for tests, else a provider's."""

import logging
from collections.abc import Callable, Mapping

from layover.adapters.embeddings import bedrock, offline
from layover.adapters.embeddings.openai import OpenAIEmbedder
from layover.adapters.inmemory.embedder import PREFIX, HashingEmbedder
from layover.adapters.models.providers import find_key, has_bedrock
from layover.ports import Embedder
from layover.values.deployment.environment import Environment
from layover.values.deployment.providers import BEDROCK_PREFIX, split_model


def has_embedder(environment: Environment, variables: Mapping[str, str]) -> bool:
    """True if the deployment has an embedder. It logs one that Bedrock has no adapter for."""
    name = environment.embedder_model or ""
    is_elsewhere = split_model(name, environment.providers)[0] is not None
    if not name or is_elsewhere or not _asks_bedrock(name, environment, variables):
        return bool(name)
    has_adapter = name.startswith((offline.PREFIX, PREFIX)) or bedrock.embeds(name)
    if not has_adapter:
        logging.getLogger("layover").warning(
            "recall is off: on Bedrock, LAYOVER_EMBEDDER_MODEL has to be "
            "bedrock/amazon.titan-embed-text-v2:0"
        )
    return has_adapter


def make_embedder(
    name: str,
    environment: Environment,
    own_key: Callable[[], str | None],
    variables: Mapping[str, str],
    parameter: Callable[[str], str],
) -> Embedder:
    """The embedder of this name. See `find_key`; raises ConfigurationError where there is no adapter."""
    if name.startswith(offline.PREFIX):
        return offline.OfflineEmbedder(name)
    if name.startswith(PREFIX):
        return HashingEmbedder()
    provider, sent_as = split_model(name, environment.providers)
    if provider is not None:
        address = environment.providers[provider]
        key = find_key(provider, address, variables, parameter)
        return OpenAIEmbedder(name, key, address.base_url, sent_as=sent_as)
    if _asks_bedrock(name, environment, variables):
        from layover.adapters.aws.sdk import bedrock_client

        return bedrock.BedrockEmbedder(name, bedrock_client)
    return OpenAIEmbedder(name, own_key(), environment.openai_base_url)


def _asks_bedrock(name: str, environment: Environment, variables: Mapping[str, str]) -> bool:
    if environment.provider == "bedrock":
        return True
    return name.startswith(BEDROCK_PREFIX) and has_bedrock(variables)
