"""Prices of model calls and sizes of models' windows, by the catalogue of the package `genai-prices`
(offline, part of the layer)."""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from layover.values.deployment.environment import Environment
from layover.values.deployment.providers import BEDROCK_PREFIX, split_model
from layover.values.runs.usage import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

    Entry = tuple[Provider, ModelInfo]

T = TypeVar("T")

logger = logging.getLogger("layover")

Rates = tuple[Decimal, Decimal, Decimal, Decimal]
"""US dollars for a million tokens: uncached input, input read from a cache, written to it, output."""

MAX_MODELS = 256
"""The number of models whose place in the catalogue is kept, because finding one takes longer than
calculating its price."""
_MILLION = Decimal(1_000_000)
_unpriced: set[str] = set()
"""Models whose missing price has been said."""
_STAND_IN = "layover-"
"""Beginning of the names of models that cost nothing: those of this project."""
_rates: dict[int, Rates | None] = {}
"""Keyed by the identity of the catalogue's price, which lives as long as the process."""


def cost(model: str, usage: Usage) -> Decimal | None:
    """US dollars at today's list price, cached input at its own rate. None if the model is not
    known, or its price does not fit the usage; never raises."""
    try:
        entry = _find(model.removeprefix("openai/"))
        # Some prices depend on the hour.
        return None if entry is None else price_at(datetime.now(UTC), entry, usage)
    except Exception:
        # If the catalogue fails, only a number is missing. A run must not fail for it.
        return None


def price_of(model: str, usage: Usage, environment: Environment) -> Decimal | None:
    """US dollars, under the names that the catalogue may have for a model. One without a price is said once
    in a process."""
    price = look_up_first(lambda name: cost(name, usage), model, environment)
    if price is None and model not in _unpriced and not model.startswith(_STAND_IN):
        _unpriced.add(model)
        logger.warning(
            "no price is known for %r: its runs have no cost and limits in dollars do not hold for it; "
            "limit tokens instead, or update the package genai-prices",
            model,
        )
    return price


def context_window(model: str) -> int | None:
    """Tokens that the model reads at most. None if the catalogue does not know; never raises."""
    try:
        entry = _find(model.removeprefix("openai/"))
        return entry[1].context_window if entry else None
    except Exception:
        return None


def window_of(model: str, environment: Environment) -> int | None:
    """Tokens that a model reads at most: the deployer's number, else the catalogue's; None if neither has
    one."""
    windows, bare = environment.context_windows, model.removeprefix("openai/")
    for name in (model, bare, f"openai/{bare}"):
        if name in windows:
            return windows[name]
    return look_up_first(context_window, model, environment)


def look_up_first(
    look_up: Callable[[str], T | None], model: str, environment: Environment
) -> T | None:
    """The entry of the model under the names that the catalogue may have for it: an id of Bedrock does not
    say that it is one, and no catalogue has a deployment's own name for a provider."""
    provider, name = split_model(model, environment.providers)
    if provider is not None:
        result = look_up(model)
        return look_up(name) if result is None else result
    of_bedrock = f"{BEDROCK_PREFIX}{model.removeprefix(BEDROCK_PREFIX)}"
    if environment.provider == "bedrock":
        return look_up(of_bedrock)
    result = look_up(model)
    return look_up(of_bedrock) if result is None else result


def price_at(now: datetime, entry: "Entry", usage: Usage) -> Decimal:
    """Return US dollars by the model's price at a time. Raises the catalogue's errors."""
    read = min(usage.cached_input_tokens, usage.input_tokens)
    write = min(usage.cache_write_input_tokens, usage.input_tokens - read)
    counts = (usage.input_tokens - read - write, read, write, usage.output_tokens)
    rates = rates_at(entry, now)
    if rates is None or min(counts) < 0:
        uncached, read, write, output = counts
        return _calculate(entry, now, uncached=uncached, read=read, write=write, output=output)
    return sum((r * n / _MILLION for r, n in zip(rates, counts, strict=True)), Decimal(0))


def rates_at(entry: "Entry", now: datetime) -> "Rates | None":
    """Return the rates at a time. The catalogue's own calculation takes 70 us, one by rates 3."""
    prices = entry[1].get_prices(now)
    if id(prices) not in _rates:
        _rates[id(prices)] = _find_rates(entry, now, vars(prices).values())
    return _rates[id(prices)]


def _find_rates(entry: "Entry", now: datetime, prices: Iterable[object]) -> "Rates | None":
    """Return the price of a million tokens of each kind; None if a price has steps, or counts requests."""
    if not all(isinstance(price, Decimal | None) for price in prices):
        return None
    if _calculate(entry, now):
        return None
    million = int(_MILLION)
    return (
        _calculate(entry, now, uncached=million),
        _calculate(entry, now, read=million),
        _calculate(entry, now, write=million),
        _calculate(entry, now, output=million),
    )


def _calculate(
    entry: "Entry",
    now: datetime,
    *,
    uncached: int = 0,
    read: int = 0,
    write: int = 0,
    output: int = 0,
) -> Decimal:
    """Return the catalogue's price of these tokens. Raises its errors."""
    from layover.plugins.models.catalogue import Counts

    provider, info = entry
    counts = Counts(
        input_tokens=uncached + read + write,
        cache_read_tokens=read,
        cache_write_tokens=write,
        output_tokens=output,
    )
    return info.calc_price(counts, provider, genai_request_timestamp=now).total_price


@lru_cache(MAX_MODELS)
def _find(model: str) -> "Entry | None":
    """The model in the catalogue, which does not change while a process lives."""
    from layover.plugins.models.catalogue import get_snapshot

    for provider, name in _readings(model):
        try:
            return get_snapshot().find_provider_model(name, None, provider, None)
        except LookupError:
            continue
    return None


def _readings(model: str) -> list[tuple[str | None, str]]:
    """The ways to read a name. It names its provider. The catalogue has a router's name
    (`anthropic/claude-sonnet-4.5`) either as the router spells it or under the maker's own name."""
    maker, slash, name = model.partition("/")
    if not slash:
        # The catalogue recognises a provider by its chat models, not by an embedder's name.
        return [(None, model), ("openai", model)]
    return [("openrouter", model), (maker, name)]
