"""Providers of models in addition to the deployment's own (`LAYOVER_PROVIDERS`)."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, model_validator

from layover.errors import nearest, unknown_name
from layover.values.base import Value

PROVIDERS = "LAYOVER_PROVIDERS"
"""The variable that has them."""
ANTHROPIC = "anthropic"
"""The provider of Claude, for which its own key is enough."""
ANTHROPIC_BASE_URL = "https://api.anthropic.com"
ANTHROPIC_KEY = "ANTHROPIC_API_KEY"
ANTHROPIC_VERSION = "2023-06-01"
"""The version of its API that requests are written to."""
GEMINI = "gemini"
"""The provider of Gemini, by its endpoint for OpenAI's clients."""
GEMINI_BASE_URL = "https://generativelanguage.googleapis.com/v1beta/openai"
GEMINI_KEY = "GEMINI_API_KEY"
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


class KeyedProvider(NamedTuple):
    """A provider that a key in its variable is enough for."""

    key: str
    url: str
    """The variable that names another server of the same API."""
    base_url: str
    api: Literal["openai", "anthropic"]


KEYED = {
    ANTHROPIC: KeyedProvider(ANTHROPIC_KEY, "ANTHROPIC_BASE_URL", ANTHROPIC_BASE_URL, "anthropic"),
    GEMINI: KeyedProvider(GEMINI_KEY, "GEMINI_BASE_URL", GEMINI_BASE_URL, "openai"),
}
"""By the prefix of their models' names."""


def providers_in(variables: Mapping[str, str]) -> Mapping[str, ProviderAddress]:
    """Return the providers that these variables name: those of LAYOVER_PROVIDERS, and those whose key is set
    and whose name none of them has. Raises ValueError for LAYOVER_PROVIDERS that are invalid."""
    providers = TypeAdapter[Mapping[str, ProviderAddress]](ProviderAddresses).validate_json(
        variables.get(PROVIDERS) or "{}"
    )
    added = {
        name: ProviderAddress(
            base_url=variables.get(each.url) or each.base_url, api=each.api, api_key_env=each.key
        )
        for name, each in KEYED.items()
        if variables.get(each.key) and name not in providers
    }
    return {**providers, **added}


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
