"""The cost of a model call."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from layover.plugins.models.catalogue import Counts, get_snapshot
from layover.plugins.models.prices import cost, price_at, price_of, rates_at
from layover.values.deployment.environment import Environment
from layover.values.runs.usage import Usage

USAGE = Usage(input_tokens=1_000_000, output_tokens=100_000)


@pytest.mark.parametrize("model", ["", "mystery", "layover-stand-in", "a/b", "a/b/c", "openai/"])
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert cost(model, USAGE) is None


@pytest.mark.parametrize(
    "usage",
    [
        Usage(input_tokens=-1),
        Usage(input_tokens=1, cached_input_tokens=5),
        Usage(output_tokens=1, reasoning_tokens=9),
    ],
)
def test_senseless_usage_never_raises(usage: Usage) -> None:
    price = cost("gpt-4o-mini", usage)
    assert price is None or price >= 0


def test_a_model_without_a_price_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    environment = Environment()
    for _ in range(3):
        assert price_of("mystery-of-this-test", USAGE, environment) is None
    assert price_of("layover-stand-in", USAGE, environment) is None
    assert price_of("openai/gpt-4o-mini", USAGE, environment) == Decimal("0.21")
    (line,) = [record.getMessage() for record in caplog.records]
    assert "mystery-of-this-test" in line
    assert "limit tokens" in line


def test_nothing_used_costs_nothing() -> None:
    assert cost("gpt-4o-mini", Usage()) == 0


def test_input_and_output_have_their_own_rates() -> None:
    # gpt-4o-mini has had the same list price since 2024: 0.15 and 0.60 USD a million.
    assert cost("gpt-4o-mini", USAGE) == Decimal("0.21")


def test_cached_input_has_a_rate_of_its_own() -> None:
    cached = USAGE.model_copy(update={"cached_input_tokens": 1_000_000})
    assert cost("gpt-4o-mini", cached) == Decimal("0.135")


def test_what_is_written_to_the_cache_has_a_rate_of_its_own() -> None:
    # claude-sonnet-4: 3 USD a million of input, 3.75 where it is written to the cache.
    written = USAGE.model_copy(update={"cache_write_input_tokens": 1_000_000, "output_tokens": 0})
    plain = written.model_copy(update={"cache_write_input_tokens": 0})
    assert cost("claude-sonnet-4-0", plain) == Decimal("3")
    assert cost("claude-sonnet-4-0", written) == Decimal("3.75")


def test_reasoning_is_part_of_the_output_already() -> None:
    thought = USAGE.model_copy(update={"reasoning_tokens": 50_000})
    assert cost("gpt-4o-mini", thought) == cost("gpt-4o-mini", USAGE)


@pytest.mark.parametrize(
    "model", ["openai/gpt-4o-mini", "openai/openai/gpt-4o-mini", "gpt-4o-mini-2024-07-18"]
)
def test_prefixes_and_dated_names_find_the_same_price(model: str) -> None:
    assert cost(model, USAGE) == Decimal("0.21")


@pytest.mark.parametrize("model", ["text-embedding-3-small", "openai/text-embedding-3-small"])
def test_embedders_have_a_price(model: str) -> None:
    assert cost(model, Usage(input_tokens=1_000_000)) == Decimal("0.02")


def test_price_imports_no_http_client_and_others_find_the_package_whole() -> None:
    code = (
        "import sys\n"
        "from layover.plugins.models.prices import cost\n"
        "from layover.values.runs.usage import Usage\n"
        "assert cost('gpt-5-mini', Usage(input_tokens=1))\n"
        "print('httpx2' in sys.modules)\n"
        "from genai_prices import UpdatePrices, wait_prices_updated_sync\n"
        "import genai_prices\n"
        "print(UpdatePrices.__module__, 'httpx2' in sys.modules, hasattr(genai_prices, 'x'))\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "genai_prices.update_prices", "True", "False"]


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(input_tokens=1, output_tokens=1),
        Usage(input_tokens=987, cached_input_tokens=654, output_tokens=321),
        Usage(input_tokens=199_999, cached_input_tokens=7, cache_write_input_tokens=11),
        Usage(input_tokens=1_200_001, cached_input_tokens=600_003, output_tokens=70_001),
        Usage(output_tokens=12_345_678),
    ],
)
def test_every_model_costs_what_the_catalogue_calculates(usage: Usage) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    counts = Counts(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_input_tokens,
        cache_write_tokens=usage.cache_write_input_tokens,
        output_tokens=usage.output_tokens,
    )
    entries = [
        (provider, model) for provider in get_snapshot().providers for model in provider.models
    ]
    by_rates = 0
    for provider, model in entries:
        expected = model.calc_price(counts, provider, genai_request_timestamp=now).total_price
        assert price_at(now, (provider, model), usage) == expected, f"{provider.id}/{model.id}"
        by_rates += rates_at((provider, model), now) is not None
    assert len(entries) > by_rates > len(entries) / 2, "the test is about both ways"
