"""A model that writes its calls as text, and an agent whose settings read them as calls."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, Hook, Memory, ModelResponse, tool
from layover.engine.models.text_calls import with_text_call
from layover.inmemory.model import call, say
from layover.values.message import DataPart, ToolCallPart
from layover.values.prompt import Reply
from layover.values.runs.event import ToolCallDelta
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.run import Status
from support.worlds.runs import Bench

CALL = '{"name": "look", "arguments": {"what": "x"}}'
OTHER_TOOL = '{"name": "pay", "arguments": {"euros": 5}}'


class Answer(BaseModel):
    name: str
    arguments: dict[str, str]


class HoldsBack(Hook):
    def after_model(self, ctx: Any, response: ModelResponse) -> ModelResponse:
        return response


@tool
async def look(what: str, deep: bool = False) -> str:
    """Look something up."""
    return f"found {what}"


@tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def agent(*, text_calls: bool = True, **options: Any) -> Agent:
    settings = ModelSettings(text_calls=text_calls, **options.pop("settings", {}))
    return Agent(
        "helper", **{"model": "m", "tools": [look, pay], "model_settings": settings, **options}
    )


def calls_of(run: Any) -> list[ToolCallPart]:
    parts = [part for message in run.messages for part in message.content]
    return [part for part in parts if isinstance(part, ToolCallPart)]


def names_of(run: Any) -> list[str]:
    return [part.tool_name for part in calls_of(run)]


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"\n {CALL} \n",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>```json\n{CALL}\n```</tool_call>",
        f"```xml\n<function_call>{CALL}</function_call>\n```",
        f"<tools>{CALL}</tools>",
        CALL.replace('"x"', '"x\n"'),
        CALL.replace('"look"', '"functions.look"'),
        '{"tool": "look", "args": {"what": "x"}}',
        '{"function": "look", "parameters": {"what": "x"}}',
        '{"type": "function", "id": "c1", "name": "look", "arguments": {"what": "x"}}',
        json.dumps({"name": "look", "arguments": json.dumps({"what": "x"})}),
    ],
)
async def test_text_that_is_nothing_but_a_call_is_that_call(text: str) -> None:
    bench = Bench(agent(), [say(text), say("It is x.")])
    run = await bench.go()
    assert (run.status, run.text) == (Status.SUCCESS, "It is x.")
    assert names_of(run) == ["look"]
    assert "found x" in str(bench.model.prompts[1].messages)
    assert text not in [message.text for message in run.messages]


@pytest.mark.parametrize(
    "text",
    [
        f"I call it: {CALL}",
        f"{CALL}\nThen I answer.",
        f"{CALL}\n{CALL}",
        f"[{CALL}]",
        f"```json\n{CALL}\n```\n```json\n{CALL}\n```",
        f"<answer>{CALL}</answer>",
        f"<tool_call>{CALL}",
        CALL[:-1],
        '{"name": "nobody", "arguments": {"what": "x"}}',
        '{"name": "look", "arguments": {}}',
        '{"name": "look", "arguments": {"what": ["x"]}}',
        '{"name": "look", "arguments": {"what": "x", "who": "ann"}}',
        '{"name": "look", "arguments": ["x"]}',
        '{"name": "look", "arguments": "x"}',
        '{"name": "look", "arguments": {"what": "x"}, "reason": "because"}',
        '{"name": "look", "tool": "look", "arguments": {"what": "x"}}',
        '{"name": "look", "arguments": {"what": "x"}, "args": {"what": "x"}}',
        '{"name": ["look"], "arguments": {"what": "x"}}',
        '{"name": "look", "what": "x"}',
        '{"name": "look"}',
        '{"name": "look", "arguments": {"what": NaN}}',
        '{"name": ' + "[" * 100_000,
        "{}",
        "null",
    ],
)
async def test_anything_else_stays_text(text: str) -> None:
    run = await Bench(agent(), [say(text)]).go()
    assert (run.status, run.text) == (Status.SUCCESS, text)
    assert names_of(run) == []


async def test_setting_is_off_by_itself() -> None:
    bare = Agent("helper", model="m", tools=[look])
    assert (await Bench(bare, [say(CALL)]).go()).text == CALL
    assert (await Bench(agent(text_calls=False), [say(CALL)]).go()).text == CALL


async def test_streamed_text_is_taken_back_and_comes_again_as_the_call() -> None:
    bench = Bench(agent(), [say(CALL), say("It is x.")])
    run = await bench.go(stream=True)
    events = await bench.events(run.id)
    shown = [event.type for event in events]
    starts = [at for at, each in enumerate(shown) if each == "turn-start"]
    assert len(starts) == 3  # The first step begins twice.
    again = next(each for each in events[starts[1] :] if isinstance(each, ToolCallDelta))
    (made,) = calls_of(run)
    assert (again.tool_call_id, again.tool_name) == (made.tool_call_id, "look")
    assert json.loads(again.args_delta) == made.args == {"what": "x"}
    assert "text-delta" not in shown[starts[1] : starts[2]]


async def test_reply_that_hooks_hold_back_is_told_once_as_the_call() -> None:
    bench = Bench(agent(hooks=[HoldsBack()]), [say(CALL), say("It is x.")])
    run = await bench.go(stream=True)
    shown = [event.type for event in await bench.events(run.id)]
    assert shown.count("turn-start") == 2
    assert shown.count("tool-call-delta") == 1
    assert names_of(run) == ["look"]


async def test_call_that_needs_a_person_waits_for_one() -> None:
    run = await Bench(agent(), [say(OTHER_TOOL), say("paid")]).go()
    assert run.status is Status.SUSPENDED


async def test_tool_that_is_not_in_the_request_is_not_called() -> None:
    bench = Bench(agent(tools=[look]), [say(OTHER_TOOL)])
    assert (await bench.go()).text == OTHER_TOOL


async def test_memorys_own_tools_are_called_as_well() -> None:
    text = json.dumps({"name": "plan", "arguments": {"goal": "a cake"}})
    bench = Bench(agent(memory=Memory(plan=True)), [say(text), say("done")])
    run = await bench.go()
    assert names_of(run) == ["plan"]


@pytest.mark.parametrize("choice", ["required", "look"])
async def test_call_in_text_is_the_call_that_a_setting_forces(choice: str) -> None:
    bench = Bench(agent(settings={"tool_choice": choice}), [say(CALL), say("x")])
    run = await bench.go()
    assert (run.status, names_of(run)) == (Status.SUCCESS, ["look"])


async def test_no_call_is_read_where_the_request_wants_none() -> None:
    run = await Bench(agent(settings={"tool_choice": "none"}), [say(CALL)]).go()
    assert run.text == CALL


async def test_output_that_looks_like_a_call_is_the_output() -> None:
    run = await Bench(agent(output=Answer), [say(CALL)]).go()
    assert run.output == json.loads(CALL)


async def test_promised_call_that_came_as_text_is_made() -> None:
    bench = Bench(agent(), [say(CALL, finish_reason="tool-calls"), say("x")])
    assert names_of(await bench.go()) == ["look"]


@pytest.mark.parametrize("reason", ["length", "content-filter"])
async def test_text_that_was_cut_or_filtered_is_no_call(reason: Any) -> None:
    run = await Bench(agent(), [say(CALL, finish_reason=reason)]).go()
    assert names_of(run) == []


async def test_reply_with_a_call_of_its_own_keeps_its_text() -> None:
    both = call("look", what="y").model_copy(update={"text": CALL})
    bench = Bench(agent(), [both, say("done")])
    run = await bench.go()
    assert names_of(run) == ["look"]
    assert run.messages[0].text == CALL


async def test_state_of_the_provider_goes_with_the_message_that_it_belongs_to() -> None:
    bench = Bench(agent(), [say(CALL).model_copy(update={"state": {"items": [1]}}), say("x")])
    run = await bench.go()
    assert "items" not in str(bench.model.prompts[1].messages)
    assert run.status is Status.SUCCESS


async def test_sources_of_a_text_that_is_a_call_are_void() -> None:
    sources = DataPart(name="citations", data=[{"url": "https://a.example"}])
    bench = Bench(agent(), [say(CALL).model_copy(update={"data": (sources,)}), say("x")])
    run = await bench.go()
    assert names_of(run) == ["look"]
    assert sources not in run.messages[0].content


async def test_setting_is_not_sent_and_is_inherited() -> None:
    bench = Bench(agent(), [say("x")])
    await bench.go()
    prompt = bench.model.prompts[0]
    assert prompt.settings.text_calls
    assert prompt.settings.for_sub_agent().text_calls
    reply = Reply(text=CALL)
    assert with_text_call(prompt, reply, [look], is_output=False).calls
    assert with_text_call(prompt, reply, [look], is_output=True) is reply
