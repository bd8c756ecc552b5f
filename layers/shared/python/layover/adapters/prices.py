"""Prices of model calls and sizes of models' windows, by the catalogue of the package `genai-prices`
(offline, part of the layer)."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from layover.values.deployment.environment import Environment
from layover.values.deployment.providers import BEDROCK_PREFIX, split_model
from layover.values.runs.usage import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

T = TypeVar("T")

MAX_MODELS = 256
"""Models whose place in the catalogue is kept: finding one takes longer than calculating its price."""


def cost(model: str, usage: Usage) -> Decimal | None:
    """US dollars at today's list price, cached input at its own rate. None if the model is not
    known, or its price does not fit the usage; never raises."""
    try:
        return _cost(model.removeprefix("openai/"), usage)
    except Exception:
        # A catalogue that stumbles costs a number, never a run.
        return None


def context_window(model: str) -> int | None:
    """Tokens that the model reads at most. None if the catalogue does not know; never raises."""
    try:
        return _window(model.removeprefix("openai/"))
    except Exception:
        return None


def look_up_first(
    look_up: Callable[[str], T | None], model: str, environment: Environment
) -> T | None:
    """The entry of the model under the names that the catalogue may have for it: an id of Bedrock's
    does not say that it is one, and a deployment's own name for a provider is in no catalogue."""
    provider, name = split_model(model, environment.providers)
    if provider is not None:
        result = look_up(model)
        return look_up(name) if result is None else result
    of_bedrock = f"{BEDROCK_PREFIX}{model.removeprefix(BEDROCK_PREFIX)}"
    if environment.provider == "bedrock":
        return look_up(of_bedrock)
    result = look_up(model)
    return look_up(of_bedrock) if result is None else result


def _window(model: str) -> int | None:
    entry = _find(model)
    return entry[1].context_window if entry else None


def _cost(model: str, usage: Usage) -> Decimal | None:
    entry = _find(model)
    if entry is None:
        return None
    from layover.adapters.catalogue import Counts

    provider, info = entry
    read = min(usage.cached_input_tokens, usage.input_tokens)
    counts = Counts(
        input_tokens=usage.input_tokens,
        cache_read_tokens=read,
        cache_write_tokens=min(usage.cache_write_input_tokens, usage.input_tokens - read),
        output_tokens=usage.output_tokens,
    )
    # Some prices depend on the hour.
    now = datetime.now(UTC)
    return info.calc_price(counts, provider, genai_request_timestamp=now).total_price


@lru_cache(MAX_MODELS)
def _find(model: str) -> "tuple[Provider, ModelInfo] | None":
    """The model in the catalogue, which does not change while a process lives."""
    from layover.adapters.catalogue import get_snapshot

    for provider, name in _readings(model):
        try:
            return get_snapshot().find_provider_model(name, None, provider, None)
        except LookupError:
            continue
    return None


def _readings(model: str) -> list[tuple[str | None, str]]:
    """A name alone says its provider; a router's (`anthropic/claude-sonnet-4.5`) is in the catalogue as
    the router has it, or under the maker's own name."""
    maker, slash, name = model.partition("/")
    if not slash:
        # The catalogue tells a provider by its chat models: an embedder's name alone says none.
        return [(None, model), ("openai", model)]
    return [("openrouter", model), (maker, name)]
