"""What a model call cost and how much a model reads, by the catalogue of the package `genai-prices`
(offline, part of the layer)."""

from decimal import Decimal

from layover.values.runs.usage import Usage


def cost(model: str, usage: Usage) -> Decimal | None:
    """US dollars at today's list price, cached input at its own rate. None where the model is not
    known, or its price does not fit the usage; never raises."""
    try:
        return _cost(model.removeprefix("openai/"), usage)
    except Exception:
        # A catalogue that stumbles costs a number, never a run.
        return None


def context_window(model: str) -> int | None:
    """Tokens that the model reads at most. None where the catalogue does not know; never raises."""
    try:
        return _window(model.removeprefix("openai/"))
    except Exception:
        return None


def _window(model: str) -> int | None:
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    for provider, name in _readings(model):
        try:
            return calc_price(Counts(), name, provider_id=provider).model.context_window
        except LookupError:
            continue
    return None


def _cost(model: str, usage: Usage) -> Decimal | None:
    from genai_prices import Usage as Counts
    from genai_prices import calc_price

    counts = Counts(
        input_tokens=usage.input_tokens,
        cache_read_tokens=min(usage.cached_input_tokens, usage.input_tokens),
        output_tokens=usage.output_tokens,
    )
    for provider, name in _readings(model):
        try:
            return calc_price(counts, name, provider_id=provider).total_price
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
