"""How a provider is asked: what is told, what is kept, and what becomes of a run that ends too early."""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eval import observing, prompts
from eval.asking import MAX_FAILURES, Answers, Job, answers
from eval.cases import SETS, Observed, Transcript, observed, transcripts
from eval.prompts import memory_number
from eval.results import Results
from eval.run import Options, jobs_of, parse, real, topic_names
from eval.tasks import OBSERVER, all_tasks
from eval.watched import Provider
from layover.plugins.memory.learns import requests
from layover.testing import ScriptedModel, fail, say
from layover.values.deployment.settings import Settings
from layover.values.prompt import Prompt

SETTINGS = Settings(model="openai/one")
OBSERVER_TASK = next(task for task in all_tasks() if task.name == OBSERVER)
JOBS = [Job(OBSERVER_TASK, "main", case) for case in observed() if case.lines]
"""Each takes one request: an answer that is of no use would be asked for again."""


class Asked:
    """A model that answers as a script says, and counts."""

    def __init__(self, answer: Any = None, settings: Settings = SETTINGS) -> None:
        self.prompts: list[Prompt] = []
        self.most_at_once = 0
        self._now = 0
        self._answer = answer or (lambda prompt: say(script_of(prompt)))
        self.provider = Provider(ScriptedModel([], background={OBSERVER: self._reply}), settings)

    async def _reply(self, prompt: Prompt) -> Any:
        self.prompts.append(prompt)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        return self._answer(prompt)


def script_of(prompt: Prompt) -> str:
    """Return the observer's scripted answer to a conversation."""
    return next(c.scripted for c in observed() if is_about(prompt, c))


def is_about(prompt: Prompt, case: Observed) -> bool:
    return prompt.messages[-1].text == observing.request(case, "m").messages[-1].text


async def ask(
    asked: Asked, path: Path | None = None, jobs: list[Job] = JOBS, at_once: int = 1
) -> tuple[Answers, list[str]]:
    told: list[str] = []
    results = Results(path)
    return await answers(jobs, asked.provider, results, at_once=at_once, say=told.append), told


# A provider that does not answer.


async def test_a_server_that_is_away_is_given_up_and_what_is_left_counts_as_failed() -> None:
    asked = Asked(lambda _: fail("connection refused", status=503))
    result, told = await ask(asked)
    assert len(asked.prompts) == MAX_FAILURES
    assert (result.failed, result.left) == (len(JOBS), len(JOBS) - MAX_FAILURES)
    assert result.stopped == f"{MAX_FAILURES} cases in a row were not answered"
    assert "failed" in told[0]
    assert "connection refused" in told[0]


async def test_a_server_that_answers_now_and_then_is_asked_on() -> None:
    turns = iter([*(503, 503, 200) * len(JOBS)])
    asked = Asked(
        lambda p: fail("busy", status=s) if (s := next(turns)) != 200 else say(script_of(p))
    )
    result, _ = await ask(asked)
    assert (result.stopped, len(asked.prompts)) == ("", len(JOBS))
    assert result.failed == sum(place % 3 != 2 for place in range(len(JOBS)))


async def test_requests_that_are_refused_for_what_they_say_do_not_give_the_server_up() -> None:
    asked = Asked(lambda _: fail("this text is too rude", status=400))
    result, _ = await ask(asked)
    assert (result.stopped, result.failed, result.left) == ("", len(JOBS), 0)


async def test_an_interrupted_run_says_so_and_has_what_came_before(tmp_path: Path) -> None:
    whole = asyncio.Event()

    def answer(prompt: Prompt) -> Any:
        if len(asked.prompts) < 3:
            return say(script_of(prompt))
        whole.set()
        return _never()

    asked = Asked(answer)
    asked.provider = Provider(
        ScriptedModel([], background={OBSERVER: lambda p: _flat(asked, p)}), SETTINGS
    )
    task = asyncio.create_task(ask(asked, tmp_path / "results"))
    await whole.wait()
    task.cancel()
    result, _ = await task
    assert (result.stopped, result.left) == ("it was interrupted", len(JOBS) - 2)
    again = Asked()
    rest, told = await ask(again, tmp_path / "results")
    assert (len(again.prompts), rest.reused, rest.failed) == (len(JOBS) - 2, 2, 0)
    assert told[0] == f"2 of {len(JOBS)} cases were answered before"


async def _flat(asked: Asked, prompt: Prompt) -> Any:
    reply = await asked._reply(prompt)
    return await reply if asyncio.iscoroutine(reply) else reply


async def _never() -> Any:
    await asyncio.Event().wait()


# A run that goes on.


async def test_what_failed_is_asked_again_and_what_was_answered_is_not(tmp_path: Path) -> None:
    path = tmp_path / "results"
    bad = JOBS[1].case
    broken = Asked(lambda p: fail("no", status=400) if is_about(p, bad) else say(script_of(p)))
    first, _ = await ask(broken, path)
    assert first.failed == 1
    good = Asked()
    second, _ = await ask(good, path)
    assert [is_about(p, bad) for p in good.prompts] == [True]
    assert (second.failed, second.reused) == (0, len(JOBS) - 1)
    fresh, _ = await ask(Asked())
    assert [figures(second, i) for i in range(len(JOBS))] == [
        figures(fresh, i) for i in range(len(JOBS))
    ]


def figures(result: Answers, index: int) -> tuple[Any, ...]:
    score = result.scores[index]
    return score.facts, score.found, score.stored, score.wrong, score.remarks, score.texts


async def test_another_model_a_changed_case_or_a_changed_prompt_is_asked_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results"
    await ask(Asked(), path)
    other = Asked(settings=Settings(model="openai/two"))
    await ask(other, path)
    assert len(other.prompts) == len(JOBS)
    changed = JOBS[0].case.model_copy(update={"why": "changed"})
    case = Asked()
    await ask(case, path, [Job(OBSERVER_TASK, "main", changed), *JOBS[1:]])
    assert len(case.prompts) == 1
    monkeypatch.setattr(prompts, "memory_number", lambda _: "changed")
    prompt = Asked()
    task = OBSERVER_TASK.__class__(**{**vars(OBSERVER_TASK), "prompt": lambda: "changed"})
    await ask(prompt, path, [Job(task, "main", job.case) for job in JOBS])
    assert len(prompt.prompts) == len(JOBS)
    unchanged = Asked()
    await ask(unchanged, path)
    assert unchanged.prompts == []


async def test_a_line_that_a_killed_process_left_unfinished_is_measured_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "results"
    await ask(Asked(), path)
    path.write_bytes(path.read_bytes()[:-20])
    asked = Asked()
    await ask(asked, path)
    assert len(asked.prompts) == 1
    again = Asked()
    await ask(again, path)
    assert again.prompts == []


async def test_results_of_other_code_are_counted(
    tmp_path: Path,
) -> None:
    path = tmp_path / "results"
    await ask(Asked(), path)
    path.write_text(path.read_text().replace(prompts.code_number(), "0" * 8), "utf-8")
    result, _ = await ask(Asked(), path)
    assert (result.reused, result.other_code) == (len(JOBS), len(JOBS))


@pytest.mark.parametrize("text", ["A diary.\n", '{"tables": []}\n', "[1]\n", '{"a": 1}'])
def test_a_file_of_something_else_is_refused_and_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "diary"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match="line 1 is not a result of make eval"):
        Results(path)
    assert path.read_text("utf-8") == text


# What is told.


async def test_each_case_is_told_when_it_ends_with_its_count_its_result_and_its_seconds() -> None:
    _, told = await ask(Asked())
    assert len(told) == len(JOBS)
    assert told[0].startswith(f"[1/{len(JOBS)}] observer {JOBS[0].case.id}: ")
    assert re.search(r" facts \(\d+\.\d s\)$", told[0])
    wrong, told = await ask(Asked(lambda _: say("* INFO (09:00) The moon is made of cheese.")))
    assert any(" wrong" in line or ": 0 of " in line for line in told)
    assert wrong.failed == 0


@pytest.mark.parametrize("at_once", [1, 3])
async def test_so_many_cases_are_asked_at_once_and_no_more(at_once: int) -> None:
    asked = Asked()
    await ask(asked, at_once=at_once)
    assert asked.most_at_once == at_once


async def test_the_file_says_what_the_table_says_with_the_numbers_of_the_prompts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.json"
    options = parse(["observer", "--json", str(path), "--at-once", "2"])
    assert isinstance(options, Options)
    assert await real(options, Asked().provider, Results(None))
    shown = capsys.readouterr().out
    content = json.loads(path.read_text("utf-8"))
    (table,) = content["tables"]
    assert f"observer: openai/one, prompt {table['prompt']}, set main" in shown
    assert table["prompt"] == memory_number("observer")
    row = next(line.split() for line in shown.splitlines() if line.startswith("observer "))
    cells = table["rows"][0]
    assert row[1:3] == [str(cells["cases"]), str(cells["stored"])]
    assert cells["found"] == sum(len(c.must) for c in observed() if c.lines)
    assert [c["case"] for c in content["cases"]] == [c.id for c in observed()]
    assert content["code"] == prompts.code_number()


# What is measured.


def test_the_sets_have_no_case_in_common_and_topics_have_their_own_names() -> None:
    ids = Counter(case.id for name in SETS for task in all_tasks() for case in task.cases(name))
    assert [id for id, count in ids.items() if count > 1] == []
    assert len(set(topic_names())) == len(topic_names())


def test_conversations_apart_have_rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    options = parse(["advice", "debugging"])
    assert isinstance(options, Options)
    apart = [c for c in transcripts() if c.topic == "advice"]
    extractor = next(t for t in all_tasks() if t.name == "extractor")
    task = extractor.__class__(**{**vars(extractor), "cases": lambda name: sets[name]})
    sets: dict[str, Any] = {"main": transcripts(), "apart": apart}
    monkeypatch.setattr("eval.run.all_tasks", lambda: (task,))
    jobs = jobs_of(options)
    assert Counter((j.set, j.topic) for j in jobs)[("apart", "advice")] == len(apart)
    only = Options(options.topics, ("apart",))
    assert {j.set for j in jobs_of(only)} == {"apart"}


async def test_a_set_without_cases_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    options = Options(frozenset({OBSERVER}), ("apart",))
    assert not await real(options, Asked().provider, Results(None))
    assert "no cases: --set apart has none of these topics" in capsys.readouterr().out


@pytest.mark.parametrize(
    "args",
    [
        ["--at-once", "0"],
        ["--at-once", "x"],
        ["--set", "best"],
        ["--json", "no-such-folder/file"],
        ["--continue", "no-such-folder/file"],
        ["--continue", "."],
    ],
)
def test_an_argument_that_cannot_work_is_refused_before_anything_is_asked(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(args)
    assert ended.value.code == 2
    assert args[0] in capsys.readouterr().err


def test_topics_and_options_come_in_any_order() -> None:
    options = parse(["planted", "--at-once", "1", "observer"])
    assert isinstance(options, Options)
    assert (options.topics, options.at_once) == (frozenset({"planted", "observer"}), 1)
    whole = parse(["extractor"])
    assert isinstance(whole, Options)
    jobs = [job.case for job in jobs_of(whole)]
    assert jobs == [case for name in SETS for case in transcripts(name)]


def test_a_prompt_has_another_number_once_its_text_its_schema_or_its_limit_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = memory_number.__wrapped__
    before = number("profile")
    assert number("profile") == before
    assert len(before) == 8
    task = requests.TASKS["profile"]
    others = {before}
    with monkeypatch.context() as patched:
        patched.setitem(requests.TASKS, "profile", requests.Task(99, schema=task.schema))
        others.add(number("profile"))
    with monkeypatch.context() as patched:
        patched.setitem(requests.TASKS, "profile", requests.Task(task.tokens, schema={}))
        others.add(number("profile"))
    with monkeypatch.context() as patched:
        patched.setattr(requests, "prompt_file", lambda _: "Do as you like.")
        others.add(number("profile"))
    assert len(others) == 4


def test_every_task_of_memory_has_a_number_of_its_own() -> None:
    assert len({memory_number(task) for task in requests.TASKS}) == len(requests.TASKS)


def test_transcripts_are_of_the_form_that_the_sets_share() -> None:
    assert all(isinstance(c, Transcript) for name in SETS for c in transcripts(name))
