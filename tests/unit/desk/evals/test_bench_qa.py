"""`layover bench qa`: conversations are learned, questions asked, answers judged. No file of others is here:
these are of our own making, in the formats of LoCoMo and LongMemEval."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from layover.desk.cli.bench_qa import Request, main
from layover.desk.cli.main import app
from layover.desk.evals.qa.data import DataInvalid, read_data
from layover.desk.evals.qa.judge import PAIRS
from layover.testing import HashingEmbedder, ScriptedModel, fail, say
from layover.values.prompt import Prompt

SHELF = "I bought a walnut shelf for the hall yesterday"
LOCOMO: Any = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ann", "dia_id": "D1:1", "text": SHELF},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Nice!", "blip_caption": "a shelf"},
            ],
            "session_2_date_time": "9:05 am on 1 June, 2023",
            "session_2": [
                {"speaker": "Ben", "dia_id": "D2:1", "text": "How is the shelf in the hall?"},
                {"speaker": "Ann", "dia_id": "D2:2", "text": "It carries all of my books now."},
            ],
        },
        "qa": [
            {
                "question": "What wood is the shelf?",
                "answer": "walnut",
                "evidence": [],
                "category": 4,
            },
            {"question": "Where is the shelf?", "answer": "in the hall", "category": 1},
            {"question": "Who owns a cat?", "adversarial_answer": "Ben", "category": 5},
        ],
    }
]
LONG: Any = [
    {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "What wood is my shelf?",
        "answer": "walnut",
        "question_date": "2023/06/02 (Fri) 10:00",
        "haystack_dates": ["2023/05/30 (Tue) 08:00", "2023/05/08 (Mon) 13:56"],
        "haystack_sessions": [
            [{"role": "user", "content": "Hello again."}],
            [
                {"role": "user", "content": SHELF, "has_answer": True},
                {"role": "assistant", "content": "Congratulations."},
                {"role": "assistant", "content": " "},
            ],
        ],
    }
]


class Models:
    """Scripted models. `asked`: their prompts by task. `right`: how the judge judges the answers."""

    def __init__(self, answer: Callable[[Prompt], Any] | None = None) -> None:
        self.asked: dict[str, list[Prompt]] = {}
        self.right: Callable[[dict[str, Any]], bool] = lambda about: True
        self._answer = answer or (lambda prompt: say("walnut"))

    @property
    def model(self) -> ScriptedModel:
        tasks = {"judge": self._judge, "extractor": self._extract, "observer": self._observe}
        return ScriptedModel(self._noted("answer", self._answer), background=tasks)

    def _noted(self, task: str, reply: Callable[[Prompt], Any]) -> Callable[[Prompt], Any]:
        def answer(prompt: Prompt) -> Any:
            self.asked.setdefault(task, []).append(prompt)
            return reply(prompt)

        return answer

    def _judge(self, prompt: Prompt) -> Any:
        self.asked.setdefault("judge", []).append(prompt)
        about = json.loads(prompt.messages[0].text)
        for pair in PAIRS:
            if (pair.question, pair.answer) == (about["question"], about["answer"]):
                return say(json.dumps({"reason": "known", "holds": pair.holds}))
        return say(json.dumps({"reason": "because", "holds": self.right(about)}))

    def _extract(self, prompt: Prompt) -> Any:
        self.asked.setdefault("extractor", []).append(prompt)
        text = prompt.messages[-1].text
        entry = {"content": "The shelf in the hall is walnut", "kind": "environment"}
        entry["evidence"] = SHELF
        return say(json.dumps({"entries": [entry] if SHELF in text else []}))

    def _observe(self, prompt: Prompt) -> Any:
        self.asked.setdefault("observer", []).append(prompt)
        return say("* INFO (13:56) Ann bought a walnut shelf for the hall")


def write(folder: Path, data: Any) -> Path:
    path = folder / "questions.json"
    path.write_text(json.dumps(data), "utf-8")
    return path


def run(folder: Path, data: Any, models: Models, **options: Any) -> int:
    request = Request(file=write(folder, data), **options)
    return main(request, models.model, HashingEmbedder())


# What cannot be measured


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([], "no list"),
        ({"conversations": []}, "neither"),
        ([{"conversation": {}}], "malformed"),
        ([{**LOCOMO[0], "qa": []}], "no question"),
        ([LONG[0], LONG[0]], "two questions"),
        ([{**LONG[0], "haystack_dates": []}], "malformed"),
        ([{**LONG[0], "question_date": "May 2023"}], "malformed"),
    ],
)
def test_another_file_is_refused_with_the_reason(
    tmp_path: Path, data: Any, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, data, models := Models()) == 2
    assert why in capsys.readouterr().err
    assert models.asked == {}


def test_a_model_that_nobody_serves_is_named_before_anything_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LAYOVER_PROVIDERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    request = Request(file=write(tmp_path, LONG), judge="openai/gpt-5")
    assert main(request) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err


# Formats


def test_locomo_has_its_sessions_speakers_pictures_and_no_adversarial_questions(
    tmp_path: Path,
) -> None:
    data = read_data(write(tmp_path, LOCOMO))
    (conversation,) = data.conversations
    first, second = conversation.sessions
    assert [(s.role, s.text) for s in first] == [
        ("user", f"Ann: {SHELF}"),
        ("assistant", "Ben: Nice! [shows a picture: a shelf]"),
    ]
    assert first[0].at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert [s.role for s in second] == ["assistant", "user"]
    assert [(q.id, q.kind, q.answer) for q in conversation.questions] == [
        ("conv-1/1", "category 4", "walnut"),
        ("conv-1/2", "category 1", "in the hall"),
    ]


def test_longmemeval_has_its_sessions_in_order_and_its_own_date(tmp_path: Path) -> None:
    (conversation,) = read_data(write(tmp_path, LONG)).conversations
    assert [[s.text for s in session] for session in conversation.sessions] == [
        [SHELF, "Congratulations."],
        ["Hello again."],
    ]
    assert conversation.questions[0].at == datetime(2023, 6, 2, 10, tzinfo=UTC)


def test_times_go_up_where_sessions_overlap(tmp_path: Path) -> None:
    dates = ["2023/05/08 (Mon) 13:56"] * 2
    (conversation,) = read_data(
        write(tmp_path, [{**LONG[0], "haystack_dates": dates}])
    ).conversations
    times = [said.at for session in conversation.sessions for said in session]
    assert times == sorted(set(times))


# The measurement


def test_what_was_learned_is_in_the_prompt_with_the_question_and_its_day(tmp_path: Path) -> None:
    models = Models()
    assert run(tmp_path, LONG, models) == 0
    (prompt,) = models.asked["answer"]
    text = "\n".join(message.text for message in prompt.messages)
    assert "The shelf in the hall is walnut" in text
    assert prompt.messages[-1].text.endswith("What wood is my shelf?")
    assert "Today is Friday, 02 June 2023" in (prompt.system or "")
    assert prompt.task != "extractor"
    # A request for each turn, with its own time; the greeting teaches nothing.
    assert len(models.asked["extractor"]) <= 2


def test_no_question_is_in_the_prompt_of_another_one_and_none_teaches(tmp_path: Path) -> None:
    models = Models()
    assert run(tmp_path, LOCOMO, models) == 0
    first, second = models.asked["answer"]
    assert "What wood is the shelf?" in first.messages[-1].text
    assert all("What wood" not in message.text for message in second.messages)
    assert all("What wood" not in p.messages[-1].text for p in models.asked["extractor"])


def test_a_long_conversation_is_observed_and_the_observations_are_in_the_prompt(
    tmp_path: Path,
) -> None:
    chatter = [
        {"role": role, "content": f"{role} {n}: " + "words and more words " * 200}
        for n in range(20)
        for role in ("user", "assistant")
    ]
    sessions = [LONG[0]["haystack_sessions"][1], chatter]
    dates = ["2023/05/08 (Mon) 13:56", "2023/05/09 (Tue) 13:56"]
    sample = {**LONG[0], "haystack_sessions": sessions, "haystack_dates": dates}
    models = Models()
    assert run(tmp_path, [sample], models) == 0
    assert models.asked["observer"]
    (prompt,) = models.asked["answer"]
    text = "\n".join(message.text for message in prompt.messages)
    assert "Ann bought a walnut shelf for the hall" in text


def test_figures_have_shares_with_intervals_by_kind_and_the_judges_own_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = Models()
    models.right = lambda about: about["reference"] == "walnut"
    out = tmp_path / "figures.json"
    assert run(tmp_path, LOCOMO, models, json=out) == 0
    figures = json.loads(out.read_text())
    assert (figures["all"]["number"], figures["all"]["of"]) == (1, 2)
    assert figures["all"]["interval"] == [0.0945, 0.9055]
    assert figures["kinds"]["category 4"]["share"] == 1.0
    assert figures["kinds"]["category 1"]["share"] == 0.0
    assert figures["judge"]["wrong_on_pairs"]["of"] == len(PAIRS)
    assert figures["judge"]["wrong_on_pairs"]["number"] == 0
    assert figures["judge"]["another_verdict"] == {
        **figures["judge"]["another_verdict"],
        "number": 0,
        "of": 2,
    }
    assert set(figures["setup"]["prompts"]) == {
        "answers",
        "judge",
        "pairs",
        "extractor",
        "observer",
    }
    printed = capsys.readouterr().out
    assert "all questions: 1 of 2, 50.0% (95 % interval 9.5% to 90.5%)" in printed


def test_a_judge_that_says_yes_to_all_is_found_out(tmp_path: Path) -> None:
    class Yes(Models):
        def _judge(self, prompt: Prompt) -> Any:
            return say('It is: {"reason": "yes", "holds": true}')

    out = tmp_path / "figures.json"
    assert run(tmp_path, LONG, Yes(), json=out) == 0
    judge = json.loads(out.read_text())["judge"]
    assert judge["wrong_for_right"]["share"] == 1.0
    assert judge["right_for_wrong"]["share"] == 0.0
    assert judge["wrong_on_pairs"]["share"] == 0.5


def test_a_judge_that_changes_its_mind_is_found_out(tmp_path: Path) -> None:
    models = Models()
    verdicts = iter([True, False])
    models.right = lambda about: next(verdicts)
    out = tmp_path / "figures.json"
    assert run(tmp_path, LONG, models, json=out) == 0
    assert json.loads(out.read_text())["judge"]["another_verdict"]["share"] == 1.0


def test_an_answer_that_fails_and_one_without_a_verdict_are_in_no_figure(tmp_path: Path) -> None:
    models = Models(lambda prompt: fail("down", status=400))
    out = tmp_path / "figures.json"
    assert run(tmp_path, LONG, models, json=out) == 1
    figures = json.loads(out.read_text())
    assert (figures["all"]["of"], figures["without_verdict"]) == (0, 1)
    assert "down" in figures["questions"][0]["problem"]

    class Mute(Models):
        def _judge(self, prompt: Prompt) -> Any:
            return say("perhaps")

    assert run(tmp_path, LONG, Mute()) == 1


def test_a_conversation_that_cannot_be_imported_costs_only_its_own_questions(
    tmp_path: Path,
) -> None:
    large = [[{"role": "user", "content": "x" * 300_000}]]
    dates = ["2023/05/08 (Mon) 13:56"]
    other = {**LONG[0], "question_id": "q2", "haystack_sessions": large, "haystack_dates": dates}
    out = tmp_path / "figures.json"
    assert run(tmp_path, [other, *LONG], Models(), json=out) == 1
    figures = json.loads(out.read_text())
    assert (figures["all"]["of"], figures["without_verdict"]) == (1, 1)
    assert "TooLarge" in figures["questions"][0]["problem"]


def test_what_failed_is_asked_again_when_it_goes_on(tmp_path: Path) -> None:
    lines, out = tmp_path / "lines.jsonl", tmp_path / "figures.json"
    broken = Models(lambda prompt: fail("down", status=400))
    assert run(tmp_path, LONG, broken, continue_from=lines) == 1
    assert run(tmp_path, LONG, Models(), continue_from=lines, json=out) == 0
    assert len(json.loads(out.read_text())["questions"]) == 1


def test_a_limit_asks_only_the_first_questions(tmp_path: Path) -> None:
    models = Models()
    assert run(tmp_path, LOCOMO, models, limit=1) == 0
    assert len(models.asked["answer"]) == 1


# Going on


def test_a_measurement_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    assert run(tmp_path, LOCOMO, Models(), limit=1, continue_from=lines) == 0
    with lines.open("a") as file:
        file.write('{"line": "answered", "of": {"id": "cut')  # a process died here
    models, out = Models(), tmp_path / "figures.json"
    assert run(tmp_path, LOCOMO, models, continue_from=lines, json=out) == 0
    assert len(models.asked["answer"]) == 1
    asked = [json.loads(p.messages[0].text)["question"] for p in models.asked["judge"]]
    assert set(asked) == {"Where is the shelf?"}, "known pairs are not judged again"
    assert json.loads(out.read_text())["all"]["of"] == 2
    again = Models()
    assert run(tmp_path, LOCOMO, again, continue_from=lines) == 0
    assert again.asked == {}


@pytest.mark.parametrize(
    "change", [{"model": "openai/other"}, {"judge": "openai/other"}, {"observer": "openai/other"}]
)
def test_a_file_of_another_setup_is_refused(
    tmp_path: Path, change: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines.jsonl"
    assert run(tmp_path, LONG, Models(), continue_from=lines) == 0
    before = lines.read_text()
    assert run(tmp_path, LONG, models := Models(), continue_from=lines, **change) == 2
    assert next(iter(change)) in capsys.readouterr().err
    assert (models.asked, lines.read_text()) == ({}, before)
    assert run(tmp_path, LOCOMO, Models(), continue_from=lines) == 2


@pytest.mark.parametrize("text", ["", "{}\n", "[]\n", '{"layover_eval": 1}\n', "\xff\n"])
def test_another_file_is_not_gone_on_with(tmp_path: Path, text: str) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_bytes(text.encode("latin-1"))
    assert run(tmp_path, LONG, Models(), continue_from=lines) == 2
    assert lines.read_bytes() == text.encode("latin-1")


def test_data_is_named_by_its_content(tmp_path: Path) -> None:
    with pytest.raises(DataInvalid, match="cannot be read"):
        read_data(tmp_path / "missing.json")
    assert len(read_data(write(tmp_path, LONG)).sha256) == 16


def test_the_command_takes_its_options_and_says_why_nothing_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LAYOVER_PROVIDERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    options = "--model openai/a --judge openai/b --extractor openai/c --observer openai/d"
    more = "--limit 1 --again 0 --at-once 2 --json out.json --continue lines.jsonl"
    arguments = ["bench", "qa", str(write(tmp_path, LONG)), *options.split(), *more.split()]
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, list(tmp_path.glob("*.jsonl"))) == (2, [])
    assert "openai/a" in result.output
    assert CliRunner().invoke(app, [*arguments[:3], "--limit", "0"]).exit_code == 2
