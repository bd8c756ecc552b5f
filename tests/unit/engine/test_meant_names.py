"""Calls under names that are only nearly those of a tool: markers of a format, namespaces, capitals."""

from typing import Any

import pytest

from layover import Agent, tool
from layover.engine.models.text_calls import meant_name
from layover.inmemory.model import call, say
from layover.values.message import ToolCallPart, ToolResultPart
from layover.values.runs.event import TextDelta, ToolCallDelta
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import Status
from support.worlds.runs import Bench


@tool
async def look_up(what: str) -> str:
    """Look something up."""
    return f"found {what}"


@tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def agent(**options: Any) -> Agent:
    return Agent("helper", **{"model": "m", "tools": [look_up, pay], **options})


def parts(run: Any, kind: Any) -> list[Any]:
    found = [part for message in run.messages for part in message.content]
    return [part for part in found if isinstance(part, kind)]


@pytest.mark.parametrize(
    "name",
    [
        "look_up<|channel|>commentary",
        "look_up<|channel|>json",
        "look_up <|constrain|>json",
        "functions.look_up",
        "functions.look_up<|channel|>commentary",
        "default_api:look_up",
        "Look_Up",
        "look-up",
    ],
)
async def test_call_runs_the_only_tool_that_its_name_can_mean(name: str) -> None:
    bench = Bench(agent(), [call(name, what="x"), say("It is x.")])
    run = await bench.go()
    assert (run.status, run.text) == (Status.SUCCESS, "It is x.")
    assert [part.tool_name for part in parts(run, ToolCallPart)] == ["look_up"]
    assert [part.result for part in parts(run, ToolResultPart)] == ["found x"]


@pytest.mark.parametrize("name", ["wipe<|channel|>commentary", "look", "<|channel|>", "my.look_up"])
async def test_any_other_name_stays_unknown(name: str) -> None:
    bench = Bench(agent(), [call(name, what="x"), say("No.")])
    run = await bench.go()
    assert [part.result for part in parts(run, ToolResultPart)] == [f"Tool {name} not found"]


async def test_tool_that_needs_an_approval_waits_for_it_under_any_name() -> None:
    run = await Bench(agent(), [call("functions.pay<|channel|>json", euros=5)]).go()
    assert run.status is Status.SUSPENDED
    assert [part.tool_name for part in parts(run, ToolCallPart)] == ["pay"]


def test_name_that_several_tools_fit_is_left_as_it_is() -> None:
    assert meant_name("LOOK_UP", ["look_up", "look-up"]) == "LOOK_UP"
    assert meant_name("look-up<|x|>", ["look_up", "look-up"]) == "look-up"
    assert meant_name("functions.pay", ["functions.pay", "pay"]) == "functions.pay"


async def test_streamed_call_is_told_again_under_its_tools_name_with_all_that_was_said() -> None:
    reply = call("look_up<|channel|>json", what="x").model_copy(update={"text": "I look."})
    bench = Bench(agent(), [reply, say("It is x.")])
    run = await bench.go(stream=True)
    events = await bench.events(run.id)
    starts = [at for at, each in enumerate(events) if each.type == "turn-start"]
    assert len(starts) == 3  # The first step begins twice.
    first = events[starts[1] : starts[2]]
    assert "".join(each.text for each in first if isinstance(each, TextDelta)) == "I look."
    (made,) = parts(run, ToolCallPart)
    told = [each for each in first if isinstance(each, ToolCallDelta)]
    assert {(each.tool_name, each.tool_call_id) for each in told} == {
        ("look_up", made.tool_call_id)
    }


async def test_forced_call_counts_under_the_name_that_it_means() -> None:
    forced = agent(model_settings=ModelSettings(tool_choice="look_up"))
    run = await Bench(forced, [call("functions.look_up", what="x"), say("It is x.")]).go()
    assert run.status is Status.SUCCESS
