"""Valid answers of an embedder."""

import math
from collections.abc import Sequence
from operator import mul
from random import Random
from typing import Any

import pytest

from layover import Embedded, Usage
from layover.errors import ContextLengthExceeded, ModelError
from layover.plugins.memory.reads.semantic.embedding import embed


class Saying:
    """Answers this, whatever it is asked."""

    model = "my-own"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def embed(self, texts: Sequence[str]) -> Any:
        return self._answer


@pytest.mark.parametrize(
    "answer",
    [None, 3, "vector", [], [[1.0]], [[1.0]] * 3, [["x"], ["y"]], [None, [1.0]], Embedded([], "m")],
)
async def test_what_is_not_one_vector_a_text_is_refused(answer: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        await embed(Saying(answer), ["a", "b"])


async def test_a_vector_that_nothing_can_be_compared_with_is_none() -> None:
    found = await embed(Saying([[float("nan")], [0.0], [3, 4]]), ["a", "b", "c"])
    assert found.vectors == (None, None, (0.6, 0.8))


async def test_a_plain_list_of_vectors_is_an_answer_that_nobody_is_paid_for() -> None:
    found = await embed(Saying([[2.0, 0.0]]), ["a"])
    assert found.vectors == ((1.0, 0.0),)
    assert (found.answer.model, found.answer.usage) == ("my-own", None)


async def test_an_answer_says_what_it_cost() -> None:
    answer = Embedded([[1.0]], "my-own", Usage(input_tokens=1))
    assert (await embed(Saying(answer), ["a"])).answer is answer


@pytest.mark.parametrize("dimensions", [4_097, 100_000])
async def test_vectors_that_are_too_long_are_refused_and_somebody_is_told(
    dimensions: int, caplog: pytest.LogCaptureFixture
) -> None:
    answer = Embedded([[1.0] * dimensions] * 2, "my-own", Usage(input_tokens=1))
    result = await embed(Saying(answer), ["a", "b"])
    assert result.vectors == (None, None)
    assert result.answer.usage == Usage(input_tokens=1)
    (record,) = caplog.records
    assert (record.levelname, record.__dict__["model"]) == ("ERROR", "my-own")
    assert f"they have {dimensions:,} dimensions, and 4,096 are taken at most" in record.message


@pytest.mark.parametrize("dimensions", [1, 3_072, 3_900])
async def test_vectors_that_fit_are_used_without_a_word(
    dimensions: int, caplog: pytest.LogCaptureFixture
) -> None:
    result = await embed(Saying([[1.0] * dimensions]), ["a"])
    assert result.vectors[0] is not None
    assert len(result.vectors[0]) == dimensions
    assert caplog.records == []


@pytest.mark.parametrize("dimensions", [3_901, 4_096])
async def test_the_last_numbers_of_a_vector_that_does_not_fit_are_left_out(
    dimensions: int, caplog: pytest.LogCaptureFixture
) -> None:
    given = [2.0] * 3_900 + [7.0] * (dimensions - 3_900)
    result = await embed(Saying([given]), ["a"])
    assert result.vectors[0] is not None
    assert len(result.vectors[0]) == 3_900
    assert set(result.vectors[0]) == {result.vectors[0][0]}
    assert math.hypot(*result.vectors[0]) == pytest.approx(1)
    assert caplog.records == []


async def test_vectors_without_their_last_numbers_are_as_near_as_whole_ones() -> None:
    random = Random(7)
    whole = [[random.gauss(0, 1) for _ in range(4_096)] for _ in range(8)]
    near = [[x + random.gauss(0, 1) for x in whole[0]], [x + random.gauss(0, 2) for x in whole[0]]]
    result = await embed(Saying([*near, *whole]), [""] * 10)
    for at, other in enumerate((*near, *whole)):
        kept = sum(map(mul, result.vectors[0] or (), result.vectors[at] or ()))
        lengths = math.hypot(*near[0]) * math.hypot(*other)
        assert kept == pytest.approx(sum(map(mul, near[0], other)) / lengths, abs=0.02)


class Choosy:
    """Refuses a batch for one text in it, as providers do, and counts its requests."""

    model = "choosy"

    def __init__(self, refusal: ModelError) -> None:
        self._refusal = refusal
        self.requests = 0

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.requests += 1
        if "bad" in texts:
            raise self._refusal
        return Embedded([[1.0, 0.0] for _ in texts], self.model, Usage(input_tokens=len(texts)))


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_text_that_the_embedder_refuses_costs_no_other_its_vector(status: int) -> None:
    embedder = Choosy(ModelError("too long", status=status))
    found = await embed(embedder, ["a", "bad", "c", "d", "bad"])
    assert [v is not None for v in found.vectors] == [True, False, True, True, False]
    assert [e.message for e in found.refusals] == ["too long", "too long"]
    assert found.answer.usage == Usage(input_tokens=3)


async def test_a_text_that_is_too_long_is_one_that_is_refused() -> None:
    found = await embed(Choosy(ContextLengthExceeded("too many tokens")), ["bad"])
    assert (found.vectors, len(found.refusals), found.answer.usage) == ((None,), 1, None)


async def test_one_refused_text_of_many_is_found_with_few_requests() -> None:
    embedder = Choosy(ModelError("no", status=400))
    found = await embed(embedder, ["a"] * 63 + ["bad"])
    assert (found.vectors.count(None), embedder.requests) == (1, 13)


@pytest.mark.parametrize("status", [None, 401, 403, 404, 429, 500])
async def test_a_fault_that_is_of_no_text_is_raised_at_once(status: int | None) -> None:
    embedder = Choosy(ModelError("no", status=status))
    with pytest.raises(ModelError):
        await embed(embedder, ["a", "bad"])
    assert embedder.requests == 1


async def test_a_vector_of_another_length_than_the_first_is_none() -> None:
    found = await embed(Saying([[0.0], [1.0, 0.0], [1.0], [0.0, 1.0]]), ["a", "b", "c", "d"])
    assert found.vectors == (None, (1.0, 0.0), None, (0.0, 1.0))
