"""The embedder that a name stands for: one on this machine, or a provider's.

Each adapter is imported where it is made, because all of them would take 24 ms of a cold start."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from layover.ports import Embedder
from layover.values.deployment.environment import Environment
from layover.values.deployment.providers import (
    BEDROCK_PREFIX,
    HASHING_PREFIX,
    OFFLINE_PREFIX,
    is_titan,
    split_model,
)

if TYPE_CHECKING:
    from layover.adapters.aws.services import AwsServices


def has_embedder(environment: Environment, variables: Mapping[str, str]) -> bool:
    """True if the deployment has an embedder. Logs an embedder for which Bedrock has no adapter."""
    name = environment.embedder_model or ""
    is_elsewhere = split_model(name, environment.providers)[0] is not None
    if not name or is_elsewhere or not _asks_bedrock(name, environment, variables):
        return bool(name)
    has_adapter = name.startswith((OFFLINE_PREFIX, HASHING_PREFIX)) or is_titan(name)
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
    *,
    aws: "Callable[[], AwsServices]",
) -> Embedder:
    """The embedder of this name. Its key is read before its first request. Raises ConfigurationError if there
    is no adapter."""
    if name.startswith(OFFLINE_PREFIX):
        from layover.plugins.models.embeddings.offline import OfflineEmbedder

        return OfflineEmbedder(name)
    from layover.adapters.http.choice import choose_client
    from layover.plugins.models.embeddings.openai import OpenAIEmbedder

    make_client = choose_client(variables)
    provider, sent_as = split_model(name, environment.providers)
    if provider is not None:
        from layover.plugins.models.providers import find_key

        address = environment.providers[provider]
        key = partial(find_key, provider, address, variables, parameter)
        return OpenAIEmbedder(name, key, address.base_url, sent_as=sent_as, make_client=make_client)
    if _asks_bedrock(name, environment, variables):
        from layover.plugins.models.embeddings.bedrock import BedrockEmbedder

        return BedrockEmbedder(name, aws(), make_client=make_client)
    return OpenAIEmbedder(name, own_key, environment.openai_base_url, make_client=make_client)


def _asks_bedrock(name: str, environment: Environment, variables: Mapping[str, str]) -> bool:
    if environment.provider == "bedrock":
        return True
    if not name.startswith(BEDROCK_PREFIX):
        return False
    from layover.plugins.models.providers import has_bedrock

    return has_bedrock(variables)
