"""What a model reads of a result that is empty."""

from typing import Any

import pytest

from layover import tool
from layover.declare.tools.empty import note_if_empty

NOTE = "Nothing fits. Go on without it."


def output_of(result: Any) -> str:
    """Return what a model reads of this result."""

    @tool(to_model_output=note_if_empty(NOTE))
    def look() -> Any:
        """Look."""
        return result

    return look.show(look())[0]


@pytest.mark.parametrize("result", [None, "", [], ()])
def test_a_result_that_is_nothing_is_read_as_the_note(result: Any) -> None:
    assert output_of(result) == NOTE


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ({}, f'{{"note":"{NOTE}"}}'),
        ({"entries": []}, f'{{"entries":[],"note":"{NOTE}"}}'),
        ({"entries": [], "next": None}, f'{{"entries":[],"next":null,"note":"{NOTE}"}}'),
        ({"found": {"entries": []}}, f'{{"found":{{"entries":[]}},"note":"{NOTE}"}}'),
    ],
)
def test_an_object_without_a_value_keeps_its_fields_and_gets_the_note(
    result: Any, output: str
) -> None:
    assert output_of(result) == output


@pytest.mark.parametrize(
    ("result", "output"),
    [
        (0, "0"),
        (False, "false"),
        (" ", " "),
        ([""], '[""]'),
        ({"entries": [{}]}, '{"entries":[{}]}'),
        ({"entries": [], "total": 0}, '{"entries":[],"total":0}'),
    ],
)
def test_a_result_that_says_something_is_read_as_it_is(result: Any, output: str) -> None:
    assert output_of(result) == output
