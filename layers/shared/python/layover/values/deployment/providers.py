"""Providers of models in addition to the deployment's own (`LAYOVER_PROVIDERS`)."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, model_validator

from layover.errors import nearest, unknown_name
from layover.values.base import Value

PROVIDERS = "LAYOVER_PROVIDERS"
"""The variable that has them."""
ANTHROPIC = "anthropic"
"""The provider of Claude, which a key of its own is enough for."""
ANTHROPIC_BASE_URL = "https://api.anthropic.com"
ANTHROPIC_KEY = "ANTHROPIC_API_KEY"
ANTHROPIC_VERSION = "2023-06-01"
"""The version of its API that requests are written to."""
BEDROCK_PREFIX = "bedrock/"
"""Prefix of the names of models that Amazon Bedrock serves."""
OFFLINE_PREFIX = "offline/"
"""Prefix of embedders that run on this machine."""
HASHING_PREFIX = "hashing/"
"""Prefix of the embedder for tests, which needs no model."""
TITAN = "amazon.titan-embed-text-"
"""Beginning of the names of Bedrock's embedders that have an adapter."""
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
RESERVED = frozenset({"openai", "bedrock", "offline", "hashing"})
"""Prefixes that already have a meaning."""


class ProviderAddress(Value):
    """A server of models. `api`: OpenAI's Chat Completions, or Anthropic's Messages. Its key is in a variable
    (`api_key_env`: on one machine), in an SSM SecureString parameter (`api_key_parameter`), or not needed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: Annotated[str, Field(pattern=r"^https?://[^/?#\s]+")]
    api: Literal["openai", "anthropic"] = "openai"
    api_key_env: str = ""
    api_key_parameter: str = ""

    @model_validator(mode="after")
    def _has_one_key(self) -> "ProviderAddress":
        if self.api_key_env and self.api_key_parameter:
            raise ValueError("api_key_env and api_key_parameter exclude each other")
        return self


def _check_names(providers: Mapping[str, ProviderAddress]) -> Mapping[str, ProviderAddress]:
    for name in providers:
        if not NAME.fullmatch(name) or name in RESERVED:
            raise ValueError(
                f"{name!r} cannot be a provider's name: 1 to 64 small letters, digits, '_' or '-', "
                f"and not one of {', '.join(sorted(RESERVED))}"
            )
    return providers


ProviderAddresses = Annotated[Mapping[str, ProviderAddress], AfterValidator(_check_names)]
"""Addresses by the prefix that their models' names begin with."""


def providers_in(variables: Mapping[str, str]) -> Mapping[str, ProviderAddress]:
    """Return the providers that these variables name: those of LAYOVER_PROVIDERS, and Anthropic if a key of
    it is set and none of them has its name. Raises ValueError for LAYOVER_PROVIDERS that are invalid."""
    providers = TypeAdapter[Mapping[str, ProviderAddress]](ProviderAddresses).validate_json(
        variables.get(PROVIDERS) or "{}"
    )
    if not variables.get(ANTHROPIC_KEY) or ANTHROPIC in providers:
        return providers
    url = variables.get("ANTHROPIC_BASE_URL") or ANTHROPIC_BASE_URL
    address = ProviderAddress(base_url=url, api="anthropic", api_key_env=ANTHROPIC_KEY)
    return {**providers, ANTHROPIC: address}


def split_model(model: str, providers: Mapping[str, ProviderAddress]) -> tuple[str | None, str]:
    """Return the provider that a model's name begins with, and the name that it has there. None: the
    deployment's own provider, and the name as it is."""
    prefix, slash, name = model.partition("/")
    return (prefix, name) if slash and prefix in providers else (None, model)


def mistyped_provider(model: str, providers: Iterable[str]) -> str | None:
    """Return a sentence about a prefix that is nearly a provider's; None if it is one, or like none: a
    deployment's own provider may have such names."""
    names = {*providers, "openai", "bedrock"}
    prefix, slash, _ = model.partition("/")
    if not slash or prefix in names or nearest(prefix, names) is None:
        return None
    return unknown_name("provider", prefix, names)


def is_titan(model: str) -> bool:
    """Return whether Bedrock's embedder of this name has an adapter."""
    return model.removeprefix(BEDROCK_PREFIX).startswith(TITAN)
