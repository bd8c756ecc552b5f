"""`layover eval --runs FILE`, and `--continue FILE` after it was stopped."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from layover.desk.cli.client import USAGE
from layover.desk.cli.evals import FAILED, Request, main
from layover.desk.cli.here import current
from layover.desk.evals.outcome import Outcome

MODULE = "continued_agents"
AGENTS = """
from layover import Agent, tool

@tool
def note(text: str) -> str:
    \"\"\"Note a text.\"\"\"
    with open("notes", "a") as file:
        file.write(text + "\\n")
    return text

below = Agent("below", instructions="You are below.")
desk = Agent("desk", instructions="You note.", tools=[note], handoffs=[below])
other = Agent("other")
"""
CASES = ("a", "b", "c")


def case(name: str, word: str = "Done.") -> str:
    script = f"[{{call: note, args: {{text: {name}}}}}, {{say: {word}}}]"
    return f"  - {{name: {name}, input: hi, expect: {{output: {{contains: Done}}}}, script: {script}}}\n"


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{MODULE}.py").write_text(AGENTS)
    (tmp_path / "layover.toml").write_text(f'agents = "{MODULE}"\n')
    write_cases(*map(case, CASES), folder=tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = dict(os.environ)
    yield
    sys.modules.pop(MODULE, None)
    os.environ.clear()
    os.environ.update(before)


def write_cases(*cases: str, folder: Path = Path()) -> None:
    (folder / "cases.yaml").write_text("agent: desk\ncases:\n" + "".join(cases))


def evaluated(**more: Any) -> int:
    sys.modules.pop(MODULE, None)
    return main(Request(file=Path("cases.yaml"), **more), current())


def begun(**more: Any) -> list[str]:
    """The lines of a whole evaluation, whose notes are gone."""
    evaluated(runs=Path("runs"), **more)
    Path("notes").unlink()
    return Path("runs").read_text().splitlines(keepends=True)


def gone_on(**more: Any) -> int:
    return evaluated(continue_from=Path("runs"), **more)


def notes() -> list[str]:
    return Path("notes").read_text().split() if Path("notes").exists() else []


# What cannot go on


def refused(capsys: pytest.CaptureFixture[str], **more: Any) -> str:
    before = Path("runs").read_bytes() if Path("runs").exists() else None
    capsys.readouterr()
    assert gone_on(**more) == USAGE
    assert notes() == []
    assert (Path("runs").read_bytes() if Path("runs").exists() else None) == before
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_file_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "runs cannot be read: No such file" in refused(capsys)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no whole line: remove it"),
        (b'{"layover_eval": 1, "ag', "has no whole line: remove it"),
        (b"agent: desk\ncases: []\n", "is not a file that --runs writes"),
        (b"[1]\n", "is not a file that --runs writes"),
        (b"\xff\xfe\n", "is not a file that --runs writes"),
        (b'{"layover_eval":2}\n', "is of another release of Layover"),
    ],
)
def test_file_that_has_no_runs_is_refused_and_left_as_it_is(
    capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    Path("runs").write_bytes(content)
    assert message in refused(capsys)


def test_report_of_all_results_is_no_file_of_runs(capsys: pytest.CaptureFixture[str]) -> None:
    evaluated(json=Path("runs"))
    Path("notes").unlink()
    assert "is not a file that --runs writes" in refused(capsys)


def test_line_in_the_middle_that_is_no_run_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    lines = begun()
    Path("runs").write_text("".join([*lines[:2], "{}\n", *lines[3:]]))
    assert "runs:3: this line is not a run: remove it" in refused(capsys)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("You note.", "You note down."),
        ("Note a text.", "Note it."),
        ("You are below.", "You are far below."),
    ],
)
def test_agent_that_changed_since_is_refused(
    capsys: pytest.CaptureFixture[str], before: str, after: str
) -> None:
    begun()
    Path(f"{MODULE}.py").write_text(AGENTS.replace(before, after))
    assert "the definition of desk changed since runs: begin anew" in refused(capsys)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"model": "openai/other"}, "and this command openai/other: name the same, or begin anew"),
        ({"judges": ("openai/j",)}, "and this command openai/j: name the same"),
        ({"stubs_only": True}, "has `stubs_only` no, and this command yes"),
    ],
)
def test_other_way_of_running_is_refused(
    capsys: pytest.CaptureFixture[str], more: dict[str, Any], message: str
) -> None:
    begun()
    assert message in refused(capsys, **more)


def test_runs_of_another_agent_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    begun()
    Path("cases.yaml").write_text(
        "agent: other\ncases: [{name: a, input: hi, expect: {}, script: [{say: Hi.}]}]"
    )
    assert "has `agent` desk, and this command other" in refused(capsys)


def test_runs_of_another_file_of_cases_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    begun()
    write_cases(case("x"), case("y"))
    assert "runs has runs of other cases: begin anew" in refused(capsys)


def test_file_that_is_there_is_not_begun_again(capsys: pytest.CaptureFixture[str]) -> None:
    lines = begun()
    assert evaluated(runs=Path("runs")) == USAGE
    assert "--continue runs goes on with it" in capsys.readouterr().err
    assert Path("runs").read_text() == "".join(lines)
    assert notes() == []


def test_both_options_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluated(runs=Path("runs"), continue_from=Path("runs")) == USAGE
    assert "name one of them" in capsys.readouterr().err


def test_runs_go_on_where_the_file_cannot_be_written_and_the_command_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = 'import os; os.path.isdir("runs") or (os.remove("runs"), os.mkdir("runs"))'
    Path(f"{MODULE}.py").write_text(
        AGENTS.replace("    return text", f"    {broken}\n    return text")
    )
    assert evaluated(runs=Path("runs")) == USAGE
    said = capsys.readouterr()
    assert "3 of 3 cases held" in said.out
    assert "runs does not have all runs: it could not be written: Is a directory" in said.err
    assert notes() == ["a", "b", "c"]


# What goes on


@pytest.mark.parametrize("count", range(1, 7))
@pytest.mark.parametrize("is_cut", [False, True])
def test_only_runs_that_the_file_does_not_have_are_made(
    capsys: pytest.CaptureFixture[str], count: int, is_cut: bool
) -> None:
    """Stopped after each run, and within the line of the next one."""
    whole = begun(repeat=2, json=Path("before.json"))
    rest = whole[count][:-1] if is_cut else ""
    Path("runs").write_text("".join(whole[:count]) + rest)
    assert gone_on(repeat=2, json=Path("after.json")) == 0
    assert len(notes()) == 6 - (count - 1)
    said = capsys.readouterr()
    assert f"{count - 1} of 6 runs are in runs and are not made again" in said.err
    assert said.out.count("3 of 3 cases held, 6 runs") == 2
    assert cleaned("after.json") == cleaned("before.json")
    lines = Path("runs").read_text().splitlines()
    assert sorted(run_of(line) for line in lines[1:]) == [(n, k) for n in CASES for k in (1, 2)]


def cleaned(name: str) -> Any:
    """A report without the time that its runs took, and the one at which it was written."""
    report = json.loads(Path(name).read_text())
    for time in ("ended_at", "seconds"):
        report.pop(time)
    for each in report["cases"]:
        for run in each["runs"]:
            run.pop("seconds")
    return report


def run_of(line: str) -> tuple[str, int]:
    run = json.loads(line)["run"]
    return run["case"], run["repeat"]


def test_line_that_is_cut_within_a_letter_is_made_again() -> None:
    whole = "".join(begun()).encode()
    cut = whole.splitlines(keepends=True)
    Path("runs").write_bytes(b"".join(cut[:2]) + cut[2][:5] + "é".encode()[:1])
    assert gone_on() == 0
    assert notes() == ["b", "c"]


def test_whole_evaluation_makes_no_run_and_exits_as_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun()
    assert gone_on() == 0
    assert notes() == []
    assert "3 of 3 cases held" in capsys.readouterr().out


def test_run_that_did_not_hold_is_a_result_and_stays_one() -> None:
    write_cases(case("a", "No."), case("b"))
    begun()
    assert gone_on() == FAILED
    assert notes() == []


def test_case_that_changed_runs_again_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    write_cases(case("a"), case("b", "No."), case("c"))
    begun(repeat=2)
    write_cases("  # a comment\n", *map(case, CASES))
    assert gone_on(repeat=2) == 0
    assert notes() == ["b", "b"]
    assert "changed since, and run again: b" in capsys.readouterr().err
    Path("notes").unlink()
    assert gone_on(repeat=2) == 0
    assert notes() == []
    assert "changed since" not in capsys.readouterr().err


def test_case_that_is_new_or_gone_costs_no_other() -> None:
    begun()
    write_cases(case("c"), case("d"), case("a"))
    assert gone_on() == 0
    assert notes() == ["d"]


@pytest.mark.parametrize(("first", "then", "more"), [(1, 3, 6), (3, 1, 0), (2, 3, 3)])
def test_other_count_of_repeats_makes_only_what_is_missing(
    capsys: pytest.CaptureFixture[str], first: int, then: int, more: int
) -> None:
    begun(repeat=first)
    capsys.readouterr()
    assert gone_on(repeat=then) == 0
    assert len(notes()) == more
    assert f"3 of 3 cases held, {3 * then} runs" in capsys.readouterr().out


def test_interrupted_command_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = AGENTS.replace(
        "    return text", '    if text == "b": raise KeyboardInterrupt\n    return text'
    )
    Path(f"{MODULE}.py").write_text(text)
    assert evaluated(runs=Path("runs")) == 130
    assert "--continue runs goes on with it" in capsys.readouterr().err
    assert notes() == ["a", "b"]
    Path(f"{MODULE}.py").write_text(AGENTS)
    assert gone_on() == 0
    assert notes() == ["a", "b", "b", "c"]


def test_outcome_comes_back_as_it_was_written() -> None:
    begun()
    lines = Path("runs").read_text().splitlines()
    run = Outcome.model_validate(json.loads(lines[1])["run"])
    assert json.loads(lines[1])["run"] == run.model_dump(mode="json")
