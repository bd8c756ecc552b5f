"""The adapters that LAYOVER_PROVIDER selects."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from layover import wiring
from layover.inmemory.embedder import HashingEmbedder
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.plugins.models.embeddings.bedrock import BedrockEmbedder
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.providers import Providers
from layover.values.runs.usage import Usage

MODEL = "openai.gpt-oss-120b-1:0"
CLAUDE = "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
TITAN = "bedrock/amazon.titan-embed-text-v2:0"
CACHED = (
    wiring.environment,
    wiring.runtime,
    wiring._metrics,
    wiring._model,
    wiring._embeds,
    wiring._embedder_named,
)

AWS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME")

Environ = Callable[..., None]


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[Environ]:
    """`environ(LAYOVER_PROVIDER="bedrock")`: a process that has only just started."""

    def forget() -> None:
        for each in CACHED:
            each.cache_clear()

    def given(**variables: str) -> None:
        for name in ("LAYOVER_PROVIDER", "LAYOVER_EMBEDDER_MODEL", "OPENAI_BASE_URL", *AWS):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        forget()

    yield given
    forget()


on_bedrock = partial(dict[str, Any], LAYOVER_PROVIDER="bedrock")


def test_another_provider_is_refused_when_the_environment_is_read(environ: Environ) -> None:
    environ(LAYOVER_PROVIDER="azure")
    with pytest.raises(ValueError, match="LAYOVER_PROVIDER"):
        wiring.environment()


@pytest.mark.parametrize("name", ["openai/text-embedding-3-small", "bedrock/cohere.embed-v4:0"])
def test_embedder_that_bedrock_has_no_adapter_for_is_off_and_said_once(
    environ: Environ, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    environ(**on_bedrock(LAYOVER_EMBEDDER_MODEL=name))
    with caplog.at_level(logging.WARNING, "layover"):
        assert wiring.runtime().embedder is None
        assert wiring.in_memory_runtime().embedder is None
    (said,) = (r.getMessage() for r in caplog.records if r.name == "layover")
    assert "LAYOVER_EMBEDDER_MODEL" in said


def test_no_embedder_is_off_without_a_word(
    environ: Environ, caplog: pytest.LogCaptureFixture
) -> None:
    environ(**on_bedrock())
    with caplog.at_level(logging.WARNING, "layover"):
        assert wiring.runtime().embedder is None
    assert [r.getMessage() for r in caplog.records if r.name == "layover"] == []


def test_bedrock_answers_and_embeds(environ: Environ) -> None:
    environ(**on_bedrock(LAYOVER_EMBEDDER_MODEL=TITAN, OPENAI_BASE_URL="http://127.0.0.1:9/v1"))
    assert isinstance(wiring._model(), BedrockChat)
    assert isinstance(wiring._embedder_named(TITAN), BedrockEmbedder)
    embedder = wiring.runtime().embedder
    assert embedder is not None
    assert embedder.model == TITAN


def test_embedder_of_this_machine_stays_on_this_machine(environ: Environ) -> None:
    environ(**on_bedrock(LAYOVER_EMBEDDER_MODEL="hashing/256"))
    embedder = wiring.runtime().embedder
    assert embedder is not None
    assert isinstance(wiring._embedder_named("hashing/256"), HashingEmbedder)


def test_any_openai_compatible_server_is_the_default(environ: Environ) -> None:
    environ(LAYOVER_EMBEDDER_MODEL=TITAN, OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    model = wiring._model()
    assert isinstance(model, Providers)
    assert type(model.chat_of("openai/gpt-5-mini")[0]) is OpenAIChat
    assert not isinstance(wiring._embedder_named("openai/" + TITAN), BedrockEmbedder)


def test_model_of_bedrock_is_asked_there_whatever_the_deployments_provider_is(
    environ: Environ,
) -> None:
    environ()
    model = wiring._model()
    assert isinstance(model, Providers)
    assert isinstance(model.chat_of(CLAUDE)[0], BedrockChat)
    assert model.chat_of(f"openai/{CLAUDE}") == (model.chat_of("x")[0], f"openai/{CLAUDE}")


def test_embedder_of_bedrocks_is_asked_there_beside_another_provider(environ: Environ) -> None:
    environ(LAYOVER_EMBEDDER_MODEL=TITAN)
    assert isinstance(wiring._embedder(), BedrockEmbedder)


def test_one_machine_has_no_bedrock(environ: Environ) -> None:
    """The local server, the stand-in or one with a key, answers for Bedrock's models, too."""
    environ(AWS_ENDPOINT_URL="http://127.0.0.1:9")
    model = wiring._model()
    assert not isinstance(wiring._embedder_named(TITAN), BedrockEmbedder)
    assert isinstance(model, Providers)
    assert type(model.chat_of(CLAUDE)[0]) is OpenAIChat


def test_price_of_bedrocks_model_is_known_beside_another_provider(environ: Environ) -> None:
    environ()
    ports = wiring.runtime()
    assert ports.price is not None
    for name in (CLAUDE, CLAUDE.removeprefix("bedrock/")):
        assert (ports.price(name, Usage(input_tokens=1_000_000)) or 0) > 0
    assert ports.price("some-model", Usage(input_tokens=1_000_000)) is None


@pytest.mark.parametrize("name", [MODEL, f"bedrock/{MODEL}", TITAN, TITAN.split("/")[1]])
def test_what_a_model_of_bedrock_costs_is_known(environ: Environ, name: str) -> None:
    environ(**on_bedrock())
    ports = wiring.runtime()
    assert ports.price is not None
    assert (ports.price(name, Usage(input_tokens=1_000_000)) or 0) > 0
    assert ports.window is not None
    assert ports.window(name)
