"""Answers that have to fit a type."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent
from layover.values.runs.run import Status
from reports import Found, report
from reports.kit import Asked, Json, Provider, delta, events, said


class Person(BaseModel):
    name: str
    age: int


class Item(BaseModel):
    field: str


class Section(BaseModel):
    name: str
    items: list[Item]


class Question(BaseModel):
    question: str


def asked(output: type[BaseModel], *answers: bytes | Json) -> Asked:
    """A thread whose provider gives these answers, the last of them for ever."""
    agent = Agent(name="clerk", model="m", output=output)
    return Asked(agent, Provider(lambda _, n: answers[min(n, len(answers)) - 1]))


async def output_of(thread: Asked) -> Any:
    """The output of one message, which one request has to bring."""
    run = await thread.say("hi")
    assert (run.status, len(thread.provider.requests)) == (Status.SUCCESS, 1)
    return run.output


@report("openai/openai-agents-python#3055, pydantic/pydantic-ai#4310", Found.MENDED)
async def test_a_refusal_is_the_answer_and_nobody_asks_again() -> None:
    """A refusal in the place of the JSON ends the run with its words, and nobody asks again."""
    refusal = delta({"role": "assistant", "refusal": "I can't help with that."})
    thread = asked(Person, events(refusal, delta({}, "stop")))
    run = await thread.say("hi")
    assert (run.status, run.finish_reason) == (Status.SUCCESS, "content-filter")
    assert (run.text, run.output) == ("I can't help with that.", None)
    assert len(thread.provider.requests) == 1


@report("vllm-project/vllm#16182, vllm-project/vllm#48863", Found.MENDED)
async def test_json_among_the_thoughts_is_the_answer_if_there_is_no_other() -> None:
    """An answer that its server files under the thoughts, all of it, is the answer."""
    first = delta({"role": "assistant", "reasoning_content": '{"name": "Ethan", '})
    rest = delta({"reasoning_content": '"age": 28}'})
    thread = asked(Person, events(first, rest, delta({}, "stop")))
    assert await output_of(thread) == {"name": "Ethan", "age": 28}


@report("anthropics/claude-agent-sdk-python#510", Found.MENDED)
async def test_a_list_that_came_as_text_is_the_list() -> None:
    """A list that the model wrote as the text of its JSON is that list."""
    thread = asked(Section, said(json.dumps({"name": "S", "items": '[{"field": "a"}]'})))
    assert await output_of(thread) == {"name": "S", "items": [{"field": "a"}]}


@pytest.mark.parametrize("between", ["\n", ""])
@report("syswonder/robonix#41, Effect-TS/effect#6178", Found.RIGHT)
async def test_the_same_json_twice_is_one_answer(between: str) -> None:
    """An answer that comes twice, with a line break or nothing between, is one."""
    whole = '{"name": "Ethan", "age": 28}'
    thread = asked(Person, said(whole + between + whole))
    assert await output_of(thread) == {"name": "Ethan", "age": 28}


@report("iDiagoValeta/localOllamaRAG#153", Found.MENDED)
async def test_backslashes_of_formulas_are_kept() -> None:
    """A lone backslash in a string, as in formulas, is itself."""
    thread = asked(Question, said(r'{"question": "What is \sigma in \( x \)?"}'))
    assert await output_of(thread) == {"question": r"What is \sigma in \( x \)?"}


@report("THU-MAIC/OpenMAIC#1493", Found.MENDED)
async def test_nul_and_half_a_character_in_an_answer_do_not_stop_a_run() -> None:
    """Characters that no database stores are replaced, and the rest of the answer is kept."""
    thread = asked(Question, said(r'{"question": "a\u0000b \ud83d c"}'))
    assert await output_of(thread) == {"question": "a\ufffdb \ufffd c"}


@report("kunchenguid/no-mistakes#1050", Found.RIGHT, held_back=True)
async def test_stray_tags_behind_the_json_are_passed_over() -> None:
    """JSON with closing tags of the provider's protocol behind it is the answer."""
    whole = '{"name": "Ethan", "age": 28}\n</tool_call>\n</function_calls>'
    assert await output_of(asked(Person, said(whole))) == {"name": "Ethan", "age": 28}


@report("jundot/omlx#2990", Found.MENDED, held_back=True)
async def test_blanks_without_an_end_do_not_cost_a_whole_answer() -> None:
    """An answer that has only blanks left is given up long before its limit, and the run
    says that it was cut."""
    blanks = [delta({"content": "\n" + " " * 40}) for _ in range(2_000)]
    stream = events(delta({"content": '{"name": "Ethan",'}), *blanks, delta({}, "length"))
    thread = asked(Person, stream)
    run = await thread.say("hi")
    assert run.error is not None
    assert "cut" in run.error.message
    assert all(len(json.dumps(request)) < 5_000 for request in thread.provider.requests)
