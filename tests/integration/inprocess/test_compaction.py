"""Long runs and long threads under a compaction mode: what the model sees, when a run waits."""

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from layover import Agent, Memory, ObservationalMemory, RollingSummary, tool
from layover.context.assembly import estimated_tokens
from layover.context.tokens import estimate, message_tokens
from layover.testing import InMemoryMetrics, ScriptedModel, call, fail, say
from layover.values.deployment.settings import Settings
from layover.values.message import Role
from layover.values.metrics import Metric
from layover.values.prompt import Prompt, Reply
from layover.values.runs.run import Status
from layover.values.runs.usage import Usage
from support.worlds.runs import Bench

STEPS = 50
T, BLOCK = 30_000, 40_000


@tool(idempotent=True)
def read(page: int) -> str:
    """One page of a long book: about 2,000 tokens."""
    return f"page {page}: the code is K-{page * 7919}. " + "words of a page " * 500


def agent(result_tokens: float | None = None, **compaction: Any) -> Agent:
    memory = Memory(
        compaction=ObservationalMemory(**compaction), titles=False, result_tokens=result_tokens
    )
    return Agent(
        "reader", instructions="Read.", tools=[read], memory=memory, max_iterations=STEPS + 5
    )


def observing(prompt: Prompt) -> Reply:
    """Notes the code of every page in the transcript."""
    found = re.findall(r"code is (K-\d+)", prompt.messages[-1].text)
    pages = re.findall(r"page (\d+): the code", prompt.messages[-1].text)
    lines = [
        f"* INFO (00:00) page {p} has the code {c}" for p, c in zip(pages, found, strict=False)
    ]
    return say("\n".join(lines))


class Reader:
    """Reads page after page, then answers from what it sees of page 3."""

    def __init__(self, steps: int = STEPS) -> None:
        self.steps = steps
        self.asked = 0
        self.sizes: list[int] = []

    def __call__(self, prompt: Prompt) -> Reply:
        self.asked += 1
        self.sizes.append(estimated_tokens(prompt))
        if self.asked <= self.steps:
            return call("read", page=self.asked)
        seen = re.search(r"page 3 has the code (K-\d+)", str(prompt.messages[0].text))
        return say(f"page 3: {seen.group(1) if seen else 'unknown'}")


def bench(reader: Any, observer: Any, *, ahead: bool = True, **compaction: Any) -> Bench:
    made = Bench(agent(**compaction), ScriptedModel(reader, background={"observer": observer}))
    metrics = InMemoryMetrics()
    made.plain = replace(made.plain, metrics=metrics)
    made.runtime = replace(made.runtime, metrics=metrics)
    made.metrics = metrics  # type: ignore[attr-defined]
    if ahead:
        made.observe_ahead()
    return made


def counted(stage: Bench, metric: Metric) -> float:
    return float(stage.metrics.total(metric))  # type: ignore[attr-defined]


async def test_an_observer_that_fails_or_answers_garbage_fails_no_run() -> None:
    for answer in (fail("down"), say("I would rather not."), say("")):
        reader = Reader(20)
        stage = bench(reader, lambda prompt, answer=answer: answer)
        run = await stage.go("read 20 pages")
        assert run.status is Status.SUCCESS
        assert counted(stage, Metric.COMPACTION_FAILED) > 0
        assert counted(stage, Metric.OBSERVATIONS_MADE) == 0


@pytest.mark.parametrize(("result_tokens", "least"), [(math.inf, 2), (None, 8)])
async def test_fifty_steps_never_exceed_the_thresholds_and_still_know_step_three(
    result_tokens: float | None, least: float
) -> None:
    reader = Reader()
    stage = bench(reader, observing, result_tokens=result_tokens)
    run = await stage.go("read 50 pages, then tell the code of page 3")
    assert run.status is Status.SUCCESS
    assert run.text == f"page 3: K-{3 * 7919}"
    fixed = estimate("Read.") + 200
    assert max(reader.sizes) <= T + BLOCK + fixed
    raw = STEPS * 2_000
    ratio = raw / max(reader.sizes)
    print(f"largest prompt {max(reader.sizes)} tokens of {raw} read: {ratio:.1f} times smaller")
    assert ratio > least
    assert counted(stage, Metric.COMPACTION_WAITS) == 0, "slices were ready in time"


async def test_the_run_waits_where_nothing_was_observed_ahead_and_goes_on() -> None:
    reader = Reader()
    stage = bench(reader, observing, ahead=False, result_tokens=math.inf)
    run = await stage.go("read 50 pages, then tell the code of page 3")
    assert run.text == f"page 3: K-{3 * 7919}"
    assert max(reader.sizes) <= T * 1.2 + 4_000
    assert counted(stage, Metric.COMPACTION_WAITS) > 0


async def test_the_input_stays_in_the_prompt_of_its_run() -> None:
    reader = Reader()
    stage = bench(reader, observing)
    await stage.go("read 50 pages, then tell the code of page 3")
    last = stage.model.turns[-1]
    users = [m for m in last.messages if m.role is Role.USER]
    assert len(users) == 1
    assert users[0].text.endswith("read 50 pages, then tell the code of page 3")
    assert users[0].text.startswith("<observations>")
    assert "<observations>" not in (last.system or "")


async def test_every_message_is_stored_with_its_tokens_the_input_too() -> None:
    stage = bench(Reader(2), observing)
    await stage.go("read 2 pages")
    stored = await stage.stored()
    assert [m.token_count for m in stored] == [message_tokens(m) for m in stored]
    assert stored[0].role is Role.USER


async def test_a_later_run_starts_from_the_observations_and_the_messages_behind_them() -> None:
    reader = Reader(20)
    stage = bench(reader, observing)
    await stage.go("read 20 pages")
    await stage.remember()
    run = await stage.go("what now?")
    assert run.status is Status.SUCCESS
    last = stage.model.turns[-1]
    assert "page 3 has the code" in last.messages[0].text
    assert estimated_tokens(last) < T + 2_000


async def test_a_prompts_calls_and_results_stay_together() -> None:
    stage = bench(Reader(), observing)
    await stage.go("read 50 pages, then tell the code of page 3")
    for prompt in stage.model.turns:
        calls = {c.tool_call_id for m in prompt.messages for c in m.tool_calls}
        results = {
            p.tool_call_id
            for m in prompt.messages
            if m.role is Role.TOOL
            for p in m.content
            if p.type == "tool_result"
        }
        assert calls == results


async def test_many_observations_are_condensed_again() -> None:
    def wordy(prompt: Prompt) -> Reply:
        at = len(stage.model.prompts)
        notes = (f"* INFO (00:00) {at}.{n} {'a long note ' * 20}" for n in range(10))
        return say("\n".join(notes))

    def forgetful(prompt: Prompt) -> Reply:
        numbers = [int(n) for n in re.findall(r"\* \[(\d+)\]", prompt.messages[-1].text)]
        return say(json.dumps({"drop": numbers[: len(numbers) // 2], "merge": []}))

    stage = bench(Reader(30), wordy, message_tokens=10_000, observation_tokens=2_000)
    stage.model = ScriptedModel(Reader(30), background={"observer": wordy, "reflector": forgetful})
    stage.plain = replace(stage.plain, model=stage.model)
    stage.runtime = replace(stage.runtime, model=stage.model)
    stage.observe_ahead()
    run = await stage.go("read 30 pages")
    assert run.status is Status.SUCCESS
    await stage.remember()
    tasks = [p.task for p in stage.model.prompts]
    assert "reflector" in tasks


def chatty(tail: int = 4) -> Bench:
    memory = Memory(compaction=RollingSummary(max_window=12_000, tail=tail), titles=False)
    five = "## Goal\nHelp.\n## Facts and decisions\nThe code is Z-9.\n## Current state\nTalking."
    model = ScriptedModel(
        lambda prompt: say("fine " + "and words " * 100),
        background={"summary": lambda prompt: say(five)},
    )
    return Bench(Agent("helper", memory=memory), model)


async def test_a_rolling_summary_takes_the_place_of_old_messages_and_keeps_the_tail() -> None:
    stage = chatty()
    for n in range(12):
        await stage.go(f"question {n}: " + "some more words " * 60)
        await stage.remember()
    last = stage.model.turns[-1]
    assert "Z-9" in last.messages[0].text
    assert last.messages[0].text.startswith("<summary>")
    assert 4 <= len(last.messages) < 24
    summaries = [p for p in stage.model.prompts if p.task == "summary"]
    assert len(summaries) >= 2
    assert "Z-9" in summaries[-1].messages[-1].text, "the summary before is read with the messages"


@pytest.mark.parametrize("answer", [fail("down"), say(""), say("no idea")])
async def test_a_summary_that_fails_leaves_the_older_one(answer: Any) -> None:
    stage = chatty()
    for n in range(6):
        await stage.go(f"question {n}: " + "some more words " * 60)
        await stage.remember()
    stage.model._scripts["summary"] = iter([answer] * 50)
    for n in range(6):
        run = await stage.go(f"question {n}: " + "some more words " * 60)
        assert run.status is Status.SUCCESS
        await stage.remember()
    assert "Z-9" in stage.model.turns[-1].messages[0].text


@pytest.mark.parametrize("again", [fail("down"), say(""), "cut"])
async def test_a_cut_summary_for_which_there_is_none_better_stays(again: Any) -> None:
    """Its last line, which is no whole one, does not."""
    text = "## Goal\nHelp.\n## Facts and decisions\nThe code is Z-9.\nThe other is Z-"
    cut = say(text, finish_reason="length")
    stage = chatty()
    stage.model._scripts["summary"] = iter([cut, cut if again == "cut" else again] * 20)
    for n in range(6):
        run = await stage.go(f"question {n}: " + "some more words " * 60)
        assert run.status is Status.SUCCESS
        await stage.remember()
    seen = stage.model.turns[-1].messages[0].text
    assert "Z-9" in seen
    assert "The other" not in seen


async def test_what_is_more_than_the_memory_model_can_read_is_summarised_in_steps() -> None:
    five = "## Goal\nHelp.\n## Facts and decisions\nThe code is Z-9.\n## Current state\nTalking."
    memory = Memory(compaction=RollingSummary(max_window=40_000, tail=4), titles=False)
    model = ScriptedModel(
        lambda prompt: say("fine"), background={"summary": lambda prompt: say(five)}
    )
    stage = Bench(
        Agent("helper", memory=memory), model, settings=Settings(observer_model="openai/small")
    )
    stage.plain = replace(stage.plain, window=lambda m: 12_000 if "small" in m else 128_000)
    for n in range(14):
        await stage.go(f"question {n}: " + "some more words " * 450)
        await stage.remember()
    asked = [p for p in model.prompts if p.task == "summary"]
    assert len(asked) >= 3
    assert max(map(estimated_tokens, asked)) < 9_000


def costing(text: str) -> Reply:
    return say(text).model_copy(update={"usage": Usage(input_tokens=7)})


def spent(stage: Bench, task: str) -> list[int]:
    """Input tokens of what background work of this name has cost."""
    rows = stage.threads.usage_rows.items()
    return [u.usage.input_tokens for (_, _, step), (_, u) in rows if step.startswith(task)]


async def test_an_answer_that_cannot_be_used_is_asked_for_once_more() -> None:
    stage = chatty()
    useful = [costing("## Current state\nThe code is Z-9.")] * 9
    stage.model._scripts["summary"] = iter([costing("## Goal"), *useful])
    for n in range(6):
        await stage.go(f"question {n}: " + "some more words " * 60)
        await stage.remember()
    await stage.go("and now?")
    assert "Z-9" in stage.model.turns[-1].messages[0].text
    first, *others = spent(stage, "summary")
    assert first == 14, "both answers were paid for"
    assert set(others) == {7}


async def test_memory_models_read_who_speaks_as_the_agent_calls_them() -> None:
    for task, compaction in (
        ("observer", ObservationalMemory()),
        ("summary", RollingSummary(max_window=12_000, tail=4)),
    ):
        memory = Memory(compaction=compaction, titles=False, role_prefix={"user": "Customer"})
        model = ScriptedModel(
            lambda prompt: say("words " * 8_000),
            background={task: lambda prompt: say("* INFO (1:00) x")},
        )
        stage = Bench(Agent("helper", memory=memory), model)
        for n in range(6):
            await stage.go(f"question {n}: " + "some more words " * 60)
            await stage.remember()
        asked = [p.messages[-1].text for p in model.prompts if p.task == task]
        assert asked
        assert all("] Customer: question" in text for text in asked)


async def test_what_cannot_be_used_twice_is_counted_and_its_cost_is_kept() -> None:
    stage = bench(Reader(20), lambda prompt: costing("I would rather not."))
    await stage.go("read 20 pages")
    failures = counted(stage, Metric.COMPACTION_FAILED)
    assert failures > 0
    assert spent(stage, "observer") == [14] * int(failures)


async def test_what_the_observer_says_again_is_stored_once_and_asked_for_once() -> None:
    notes = ["* INFO (00:00) The user reads a book.", "* INFO (00:00) the user reads a  book"]
    answers: list[str] = []

    def repeating(_: Prompt) -> Reply:
        answers.append(notes[len(answers) % 2])
        return say(answers[-1])

    stage = bench(Reader(30), repeating)
    run = await stage.go("read 30 pages")
    assert run.status is Status.SUCCESS
    assert len(answers) > 3
    assert counted(stage, Metric.OBSERVATIONS_MADE) == 1
    assert counted(stage, Metric.COMPACTION_FAILED) == 0
    prompt = stage.model.turns[-1].messages[0].text
    assert prompt.lower().count("the user reads a book") == 1


async def test_what_a_user_says_later_does_not_drown_under_what_the_observer_says_again() -> None:
    reader = Reader(30)
    stage = bench(reader, lambda _: say("* INFO (00:00) The user reads a book."))
    await stage.go("read 30 pages of the book")
    reader.asked = 0
    await stage.go("By the way, my wife Ada is a vegetarian and allergic to nuts.")
    reader.asked = 0
    await stage.go("read on")
    prompt = stage.model.turns[-1].messages[0].text
    assert prompt.count("The user reads a book.") == 1
    assert prompt.count("* INFO (00:00) User: By the way, my wife Ada is a vegetarian") == 1
