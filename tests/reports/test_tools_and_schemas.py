"""Calls of tools: arguments, results, errors, and calls without an end."""

import asyncio
import json
from typing import Annotated, Any

import pytest
from pydantic import Field

from layover import Agent, ModelSettings, tool
from layover.inmemory.model import ScriptedModel, say
from layover.values.message import ToolResultPart
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from reports import Found, report
from reports.kit import Asked, Json, Provider, delta, events, said

Call = tuple[str, str]
"""The name of a tool and the text of its arguments."""


def calls(*wanted: Call) -> bytes:
    """A streamed answer of these calls."""
    pieces = [
        {"index": n, "id": f"c{n}", "function": {"name": name, "arguments": args}}
        for n, (name, args) in enumerate(wanted)
    ]
    return events(delta({"role": "assistant", "tool_calls": pieces}), delta({}, "tool_calls"))


def asked(made: Any, *answers: bytes) -> Asked:
    """A thread with this tool, whose provider gives these answers, the last of them for ever."""
    answer = Provider(lambda _, n: answers[min(n, len(answers)) - 1])
    return Asked(Agent("desk", model="m", tools=[made]), answer)


def result_of(run: Run) -> ToolResultPart:
    """The result of the only call of a run."""
    parts = [part for message in run.messages for part in message.content]
    [result] = [part for part in parts if isinstance(part, ToolResultPart)]
    return result


async def outcome(made: Any, args: str = "{}") -> tuple[ToolResultPart, str]:
    """The result of a call of this tool, and what the model reads of it in the next request."""
    thread = asked(made, calls((made.name, args)), said("Done."))
    run = await thread.say("hi")
    assert (run.status, run.text) == (Status.SUCCESS, "Done.")
    return result_of(run), thread.provider.requests[-1]["messages"][-1]["content"]


def strictly(text: str) -> Any:
    """The value of a text of JSON that every reader takes."""

    def refuse(what: str) -> None:
        raise ValueError(what)

    return json.loads(text, parse_constant=refuse)


@tool
async def fetch() -> str:
    """Fetch something."""
    raise asyncio.CancelledError


@report("HKUDS/nanobot#1072", Found.RIGHT)
async def test_a_tool_that_cancels_itself_has_failed() -> None:
    """A cancellation that comes out of a tool is the tool's error, and the run goes on."""
    result, seen = await outcome(fetch)
    assert result.is_error
    assert seen.startswith("CancelledError")


@tool
def first() -> str:
    """Return the first of nothing."""
    return next(iter([]))


@report("langchain-ai/langchain#22997, python/cpython#112182", Found.RIGHT)
async def test_a_tool_that_reads_past_the_end_of_an_iterator_has_failed() -> None:
    """A StopIteration out of a plain function is the tool's error, and nothing waits for it."""
    async with asyncio.timeout(60):
        result, seen = await outcome(first)
    assert result.is_error
    assert "StopIteration" in seen


@tool
def names() -> list[str]:
    """List names of files."""
    return ["r\udce9sum\udce9", "half \ud83d"]


@report("MoonshotAI/kimi-cli#994, cyborg-garden/hermes-agent-mt#76", Found.RIGHT)
async def test_halves_of_characters_in_a_result_stop_nothing() -> None:
    """A result with letters that UTF-8 lacks reaches the model, and the thread goes on."""
    _, seen = await outcome(names)
    assert strictly(seen) == ["r\ufffdsum\ufffd", "half \ufffd"]


@tool
def search(query: str, limit: float = 10) -> str:
    """Search."""
    return f"{query}: {limit}"


@report("langchain-ai/langchain-google#1874", Found.RIGHT)
async def test_an_infinite_argument_is_told_as_what_it_is() -> None:
    """Infinity, which JSON lacks, is an error that the model reads, and no reader's JSON breaks."""
    result, seen = await outcome(search, '{"query": "a", "limit": Infinity}')
    assert result.is_error
    assert seen.startswith("Invalid tool input")


@tool
def pods(
    namespace: str,
    limit: int | None = None,
    selector: Annotated[str | None, Field(pattern=r"^\w+=\w+$")] = None,
    tail: int = 5,
) -> list[Any]:
    """List pods."""
    return [namespace, limit, selector, tail]


@report("can1357/oh-my-pi#2981", Found.MENDED)
async def test_an_empty_text_for_an_optional_argument_leaves_it_out() -> None:
    """An empty text for an optional argument that takes no such text means that it is left out."""
    args: Json = {"namespace": "kube-system", "limit": "", "selector": "", "tail": ""}
    result, _ = await outcome(pods, json.dumps(args))
    assert result.result == ["kube-system", None, None, 5]


@tool
def scores() -> dict[str, float]:
    """Return scores."""
    return {"mean": float("nan"), "best": float("inf")}


@report("modelcontextprotocol/python-sdk#3385", Found.RIGHT)
async def test_a_result_without_a_number_is_json() -> None:
    """NaN and infinities in a result are null, for the model and for readers."""
    result, seen = await outcome(scores)
    assert strictly(seen) == result.result == {"mean": None, "best": None}


helper = Agent("helper", model="m")


@tool
def ask_helper(question: str) -> str:
    """Ask another agent."""
    with helper.override(model=ScriptedModel([say("42")])):
        return helper.run_sync(question).text


@report("pydantic/pydantic-ai#7277", Found.RIGHT)
async def test_a_plain_tool_may_run_another_agent() -> None:
    """An agent that a plain tool runs to its end answers, and nothing waits for ever."""
    async with asyncio.timeout(60):
        _, seen = await outcome(ask_helper, '{"question": "6 * 7?"}')
    assert seen == "42"


@report("earendil-works/pi#5016", Found.RIGHT)
async def test_a_tool_that_does_not_exist_is_not_called_for_ever() -> None:
    """A model that calls a tool that there is not is told so, and the run ends after few requests."""
    thread = asked(search, calls(("read", '{"path": "a"}')))
    run = await thread.say("hi")
    assert (run.status, run.finish_reason) == (Status.SUCCESS, "loop")
    assert len(thread.provider.requests) < 5


@report("openai/openai-agents-js#887", Found.RIGHT, held_back=True)
async def test_arguments_that_are_not_json_are_told_to_the_model() -> None:
    """Arguments that are not JSON are an error that the model reads, and the thread goes on."""
    thread = asked(search, calls(("search", '{"{"query": "a"}')), said("Done."))
    run = await thread.say("hi")
    assert (run.status, run.text) == (Status.SUCCESS, "Done.")
    assert result_of(run).is_error
    call, result = thread.provider.requests[-1]["messages"][-2:]
    assert isinstance(strictly(call["tool_calls"][0]["function"]["arguments"]), dict)
    assert result["content"].startswith("Invalid tool input")


@report("agno-agi/agno#3291", Found.RIGHT, held_back=True)
@pytest.mark.parametrize("choice", ["required", "search"])
async def test_a_call_is_forced_once(choice: str) -> None:
    """A call that the author forces is forced once, and then the model may answer."""

    def answer(request: Json, _: int) -> bytes:
        is_forced = request.get("tool_choice") not in (None, "auto")
        return calls(("search", '{"query": "a"}')) if is_forced else said("Done.")

    settings = ModelSettings(tool_choice=choice)
    agent = Agent("desk", model="m", tools=[search], model_settings=settings)
    thread = Asked(agent, Provider(answer))
    run = await thread.say("hi")
    assert (run.text, len(thread.provider.requests)) == ("Done.", 2)
