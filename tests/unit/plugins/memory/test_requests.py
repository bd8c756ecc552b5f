"""What memory asks models for, and within which limits (docs/behaviour.md#memory-requests)."""

import ast
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import layover.plugins.memory
from layover import Agent, EpisodicMemory, Memory
from layover.context.literal import ROOM_TO_THINK
from layover.inmemory.model import ScriptedModel, fail, say, too_long
from layover.plugins.memory.condenses import observer, reflector, summary
from layover.plugins.memory.condenses.job import CompactionJob
from layover.plugins.memory.learns import facts, requests, rules
from layover.plugins.memory.learns.extract import extract
from layover.plugins.memory.learns.requests import (
    TASKS,
    Part,
    joint_prompt,
    memory_prompt,
    text_prompt,
)
from layover.plugins.memory.learns.titles import title_prompt
from layover.values.memory.compaction import Marker, Observation
from layover.values.message import Message, Role, TextPart
from layover.values.prompt import Prompt
from support.worlds.runs import Bench

AT = datetime(2026, 3, 1, tzinfo=UTC)
WORDS = "The boiler of house 9 drips since the frost."
LENGTH: Any = "length"


def message(text: str = WORDS) -> Message:
    return Message(
        id="m", thread_id="t", role=Role.USER, content=(TextPart(text=text),), created_at=AT
    )


def observation(text: str) -> Observation:
    return Observation(id="obs_1", at=AT, marker=Marker.INFO, text=text)


def every_part(model: str = "own/model") -> list[Part]:
    """The parts of a lesson, as their modules make them."""
    turn = facts.turn_of([message()])
    known = {"city": "lives in Bern"}
    settings = EpisodicMemory()
    return [
        rules.part(model, [message()], known, ["The boiler is of 2019."], settings),
        facts.part("profile", model, turn, known, message()),
        facts.part("session", model, turn, {"state": "it drips"}, message()),
    ]


def every_request(model: str = "own/model") -> dict[str, Prompt]:
    """A request of each task, as its module makes it."""
    turn = facts.turn_of([message()])
    prompts = [
        title_prompt(model, message()),
        rules.request(model, [message()], None, [], EpisodicMemory()),
        facts.request("profile", model, turn, {}, message()),
        facts.request("session", model, turn, {}, message()),
        observer.request(model, [message()], []),
        reflector.request(model, [observation(WORDS)], 100),
        summary.request(model, [message()], None),
        joint_prompt(every_part(model)),
    ]
    return {prompt.task: prompt for prompt in prompts}


def schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all schemas in it."""
    if isinstance(schema, dict):
        yield schema
        for inner in schema.values():
            yield from schemas(inner)


def test_every_task_is_among_those_that_are_tested() -> None:
    assert every_request().keys() == TASKS.keys()


def test_no_other_module_of_memory_makes_a_request_or_sends_one() -> None:
    package = Path(layover.plugins.memory.__path__[0])
    makers = {
        path.name
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Prompt", "ask_model")
    }
    assert makers == {"requests.py"}


def test_a_request_is_one_user_message_below_its_prompt() -> None:
    prompt = text_prompt("observer", "m", "text", AT)
    assert (prompt.task, prompt.model, prompt.stream) == ("observer", "m", False)
    assert [(m.role, m.text) for m in prompt.messages] == [(Role.USER, "text")]
    assert "CRITICAL" in (prompt.system or "")


@pytest.mark.parametrize("task", TASKS)
def test_every_request_has_a_limit_and_its_prompt(task: str) -> None:
    prompt = every_request()[task]
    assert 100 <= (prompt.settings.max_tokens or 0) <= 8_000 + ROOM_TO_THINK
    assert prompt.settings.temperature == 0
    assert prompt.stops_repeating
    assert (prompt.system or "").strip()
    assert prompt.tools == ()


@pytest.mark.parametrize("task", ["extractor", "profile", "session", "reflector", "lesson"])
def test_an_answer_in_json_has_a_schema_that_a_strict_provider_takes(task: str) -> None:
    output = every_request()[task].output
    assert output is not None
    assert output.strict
    assert output.name == task
    for each in schemas(output.json_schema):
        if each.get("type") == "object":
            assert each["additionalProperties"] is False
            assert each["required"] == list(each["properties"])


@pytest.mark.parametrize("task", ["title", "observer", "summary"])
def test_an_answer_in_lines_has_no_schema(task: str) -> None:
    assert every_request()[task].output is None


@pytest.mark.parametrize("task", ["extractor", "profile", "session"])
def test_a_model_quotes_before_it_writes(task: str) -> None:
    prompt = every_request()[task]
    assert prompt.output is not None
    (items,) = prompt.output.json_schema["properties"].values()
    assert next(iter(items["items"]["properties"])) == "evidence"
    shown = str(prompt.system)
    assert shown.index('"evidence"') < shown.index('"content"')


@pytest.mark.parametrize(
    ("model", "has_room", "reasoning", "temperature"),
    [
        ("openai/gpt-4o-mini", False, None, 0),
        ("eu.anthropic.claude-sonnet-4-5-20250929-v1:0", False, None, 0),
        ("local/Qwen2.5-Coder-1.5B-Instruct", False, None, 0),
        ("openai/gpt-5-nano", True, "low", None),
        ("gemini/gemini-2.5-flash", True, "low", None),
        ("openai/o4-mini", True, "low", None),
        ("openai/gpt-5-pro", True, None, 0),
        ("openai/gpt-5.2", True, None, 0),
        ("deepseek/deepseek-reasoner", True, None, 0),
        ("some/claude-thinking", True, None, 0),
        ("anything", True, None, 0),
    ],
)
def test_a_model_that_may_think_has_room_for_it_and_is_asked_to_think_little(
    model: str, has_room: bool, reasoning: str | None, temperature: int | None
) -> None:
    settings = every_request(model)["title"].settings
    assert settings.max_tokens == TASKS["title"].tokens + (ROOM_TO_THINK if has_room else 0)
    assert (settings.reasoning, settings.temperature) == (reasoning, temperature)


@pytest.mark.parametrize("task", TASKS)
def test_every_request_asks_a_model_that_thinks_anyway_to_think_little(task: str) -> None:
    settings = every_request("openai/gpt-5-nano")[task].settings
    assert (settings.reasoning, settings.temperature) == ("low", None)


def test_the_limit_of_observations_grows_with_what_is_read_and_ends() -> None:
    def limit(words: int) -> int:
        prompt = text_prompt("observer", "gpt-4o", "word " * words, AT)
        return prompt.settings.max_tokens or 0

    assert limit(10) == 2_000
    assert 4_000 < limit(4_000) < 8_000
    assert limit(100_000) == 8_000


def test_an_agent_that_keeps_more_of_a_turn_has_a_longer_answer() -> None:
    def limit(per_turn: int) -> int:
        settings = EpisodicMemory(per_turn=per_turn)
        return rules.request("gpt-4o", [message()], None, [], settings).settings.max_tokens or 0

    assert limit(1) == limit(5) < limit(20)


# A lesson: one request for several parts


def test_a_lesson_has_the_rules_of_its_parts_and_says_everything_once() -> None:
    parts = every_part("gpt-4o")
    prompt = joint_prompt(parts)
    for part in parts:
        rules_of_part = str(part.alone.system).partition("\n- ")[2]
        for line in rules_of_part.splitlines():
            is_about_nothing = "[]}" in line
            assert is_about_nothing or line in str(prompt.system)
    assert "Nothing new" not in str(prompt.system)
    assert "teach nothing:" not in str(prompt.system)
    assert str(prompt.system).count("All of it is data") == 1
    assert json.loads(prompt.messages[0].text) == {
        "profile": {"city": "lives in Bern"},
        "session": {"state": "it drips"},
        "known": {"1": "The boiler is of 2019."},
        "turn": [{"role": "user", "text": WORDS}],
    }


def test_the_answer_to_a_lesson_has_the_lists_of_its_parts_and_room_for_them() -> None:
    parts = every_part("gpt-4o")
    prompt = joint_prompt(parts)
    assert prompt.output is not None
    lists = prompt.output.json_schema["properties"]
    assert list(lists) == ["entries", "profile", "session"]
    assert list(lists.values()) == [part.list_schema for part in parts]
    assert prompt.settings.max_tokens == sum(part.alone.settings.max_tokens or 0 for part in parts)
    thinking = joint_prompt(every_part("gpt-5"))
    assert (thinking.settings.max_tokens, thinking.settings.reasoning) == (
        5_000 + ROOM_TO_THINK,
        "low",
    )


def test_the_example_of_a_lesson_is_an_answer_that_its_parts_read_as_an_example() -> None:
    parts = every_part()
    system = str(joint_prompt(parts).system)
    answer = json.loads(next(line for line in system.splitlines() if line.startswith('{"')))
    for part in parts:
        (item,) = answer[part.field]
        assert requests.is_example(part.task, item["evidence"])
        assert item["evidence"] in system.partition("this would be the answer")[0]


def test_the_authors_instructions_are_in_a_lesson_as_well() -> None:
    settings = EpisodicMemory(instructions="Keep the weather.")
    entries = rules.part("m", [message()], None, [], settings)
    prompt = joint_prompt([entries, every_part("m")[1]])
    assert "Keep the weather." in str(prompt.system)
    assert "`replaces`, the numbers" not in str(prompt.system)


# The one way in which requests are sent


def bench(*answers: Any, task: str = "extractor", **memory: Any) -> Bench:
    model = ScriptedModel(lambda _: say("fine"), background={task: answers})
    remembers = Memory(**{"titles": task == "title", **memory})
    return Bench(Agent("helper", memory=remembers), model)


async def learn(world: Bench, text: str = WORDS) -> list[Prompt]:
    """Let memory learn from a turn. Return the requests."""
    run = await world.go(text, thread="t1")
    await extract(world.plain, world.payload(run.id))
    return [p for p in world.model.prompts if p.task != "turn"]


REFUSALS = [
    fail("max_tokens is too large: 6000. This model supports at most 4096", status=400),
    fail("The maximum tokens you requested exceeds the model limit of 4096", status=400),
    fail("`max_completion_tokens` must be less than or equal to 2048", status=422),
    too_long("maximum context length is 4096 tokens, you requested 6200"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
async def test_a_limit_that_a_model_refuses_is_lowered(refusal: Any) -> None:
    world = bench(refusal, say('{"entries": []}'), episodic=EpisodicMemory())
    prompts = await learn(world)
    assert [p.settings.max_tokens for p in prompts] == [2_000 + ROOM_TO_THINK, 4_000]


async def test_limits_are_lowered_twice_at_most() -> None:
    world = bench(*[REFUSALS[0]] * 5, episodic=EpisodicMemory())
    limits = [p.settings.max_tokens for p in await learn(world)]
    assert limits == [2_000 + ROOM_TO_THINK, 4_000, 1_000]


@pytest.mark.parametrize("error", [fail("no such key", status=401), fail("down", status=503)])
async def test_any_other_fault_is_not_asked_about_again(error: Any) -> None:
    assert len(await learn(bench(error, error, episodic=EpisodicMemory()))) == 1


async def test_a_title_that_never_ends_is_its_first_line() -> None:
    answer = say("A boiler that drips\nWrite a title for a conversation that", finish_reason=LENGTH)
    world = bench(answer, task="title")
    await learn(world)
    head = await world.plain.threads.head("ann", "t1")
    assert head is not None
    assert head.title == "A boiler that drips"


async def test_entries_that_were_cut_are_kept_as_far_as_they_are_whole() -> None:
    entry = {
        "evidence": WORDS,
        "source": "user_assertion",
        "content": "The boiler of house 9 drips.",
    }
    whole = json.dumps({"entries": [entry, {**entry, "content": "It began with the frost."}]})
    cut = whole[: whole.index("with the frost")]
    world = bench(say(cut, finish_reason=LENGTH), episodic=EpisodicMemory())
    assert len(await learn(world)) == 1
    stored = await world.plain.memory.list_entries("ann", "helper", 9, None)
    assert [e.content for e in stored] == ["The boiler of house 9 drips."]


def test_the_words_of_a_limit_are_not_those_of_another_refusal() -> None:
    assert requests._LIMIT_REFUSED.search("Invalid schema for response_format") is None
    assert requests._LIMIT_REFUSED.search("Rate limit of tokens per minute") is None


def test_the_authors_instructions_follow_the_prompt() -> None:
    prompt = memory_prompt("extractor", "m", message(), instructions="  Keep the weather. ")
    assert str(prompt.system).endswith("\n\nKeep the weather.\n")


async def observed(*answers: Any) -> tuple[list[str], int]:
    """The texts that a compaction reads from these answers, and how often it asked."""
    world = bench(*answers, task="observer")
    run = await world.go(WORDS)
    snapshot = await world.plain.journal.runs.snapshot("ann", run.id)
    assert snapshot is not None
    nothing: Any = None
    job = CompactionJob(world.plain, Agent("helper"), snapshot.meta, nothing, "m")
    answer = await job.ask(
        observer.request("m", [message()], []),
        lambda text: observer.parse(text, [message()], iter("abc").__next__),
        "no observations",
    )
    lines = [o.text for o in answer.value] if answer else []
    return lines, sum(p.task == "observer" for p in world.model.prompts)


async def test_of_observations_that_were_cut_the_whole_lines_are_kept() -> None:
    text = "* INFO (00:00) The boiler drips.\n* INFO (00:00) The user is an adm"
    assert await observed(say(text, finish_reason=LENGTH)) == (["The boiler drips."], 1)
    assert await observed(say(text)) == (["The boiler drips.", "The user is an adm"], 1)


async def test_an_answer_that_was_cut_is_not_asked_for_again_however_useless_it_is() -> None:
    useless = "I think about the boiler, and "
    assert await observed(say(useless, finish_reason=LENGTH), say(useless)) == ([], 1)
    assert await observed(say("", finish_reason=LENGTH), say(useless)) == ([], 1)
    assert await observed(say(useless), say("* INFO (00:00) It drips.")) == (["It drips."], 2)
