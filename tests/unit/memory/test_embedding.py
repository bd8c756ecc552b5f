"""What counts as an embedder's answer."""

from collections.abc import Sequence
from typing import Any

import pytest

from layover import Embedded, Usage
from layover.memory.embedding import embed


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
