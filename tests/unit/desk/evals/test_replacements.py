"""`layover bench recall`: pairs of statements, and which of them supersede others."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from layover.desk.cli.main import app
from layover.desk.evals.replacements import Fate, StatementPair, fate_of, measure_replacements
from layover.inmemory.embedder import HashingEmbedder

SHIPPED = StatementPair("Order A-1 is in preparation.", "Order A-1 is shipped.", replaces=True)
OTHER = StatementPair("Order A-1 is shipped.", "Order B-2 is shipped.", replaces=False)
SEVERAL = StatementPair("Anna speaks French.", "Anna speaks German.", replaces=True)


async def test_statement_that_is_lost_though_it_holds_is_false() -> None:
    wrong = StatementPair(SHIPPED.old, SHIPPED.new, replaces=False)
    figures = await measure_replacements([wrong, OTHER], HashingEmbedder())
    assert (figures.true, figures.made, figures.others, figures.false) == (0, 0, 2, 1)


async def test_replacement_that_words_cannot_tell_is_missing_and_not_false() -> None:
    figures = await measure_replacements([SHIPPED, SEVERAL, OTHER], HashingEmbedder())
    assert list(figures.lines()) == [
        "replaced    1 of 2 statements that a later one replaces",
        "false       0 of 3 pairs lose one that holds",
    ]


@pytest.mark.parametrize("similarity", [None, 0.1, 0.95])
def test_statement_of_another_order_stands_however_near_it_is(similarity: float | None) -> None:
    assert fate_of(OTHER.old, OTHER.new, similarity=similarity) is Fate.STAND


def test_statement_that_says_the_same_is_dropped_if_its_vector_is_near() -> None:
    assert fate_of(OTHER.old, "Order A-1 was shipped.", similarity=0.95) is Fate.DROPPED
    assert fate_of(OTHER.old, "Order A-1 was shipped.", similarity=0.1) is Fate.STAND


@pytest.mark.parametrize("pairs", ["x", [1], [{"old": "a", "new": "b"}], [{"old": 1, "new": "b"}]])
def test_pairs_of_another_format_are_refused_in_one_line(tmp_path: Path, pairs: Any) -> None:
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"pairs": pairs}))
    result = CliRunner().invoke(app, ["bench", "recall", str(file)])
    assert result.exit_code == 1
    assert "holds no conversations with questions" in result.output
    assert result.output.count("\n") == 1
