"""The model that follows a script."""

import asyncio
import json

import pytest

from layover.errors import ContextLengthExceeded, ModelError
from layover.testing import (
    ScriptedModel,
    ScriptExhausted,
    broken,
    call,
    calls,
    fail,
    say,
    too_long,
)
from layover.values.prompt import Delta, Prompt, Reply

PROMPT = Prompt(model="openai/test")
STREAM = Prompt(model="openai/test", stream=True)
TITLE = Prompt(model="openai/test", task="title")


async def test_a_script_that_is_used_up_says_so() -> None:
    model = ScriptedModel([say("only")])
    await model.complete(PROMPT)
    with pytest.raises(ScriptExhausted, match="'turn' has no step 2"):
        await model.complete(PROMPT)


async def test_failures_are_raised_in_their_turn() -> None:
    model = ScriptedModel([fail("busy", status=503), too_long(), say("ok")])
    with pytest.raises(ModelError, match="busy") as caught:
        await model.complete(PROMPT)
    assert (caught.value.status, caught.value.type) == (503, "InternalServerError")
    with pytest.raises(ContextLengthExceeded):
        await model.complete(PROMPT)
    assert (await model.complete(PROMPT)).text == "ok"


async def test_a_broken_stream_is_repeated_with_the_next_step() -> None:
    deltas: list[Delta] = []
    model = ScriptedModel([broken("Hel"), say("Hello")])
    reply = await model.complete(STREAM, deltas.append)
    assert reply.text == "Hello"
    assert [d.kind for d in deltas] == ["text", "restart", "text"]
    assert len(model.prompts) == 1


async def test_background_tasks_leave_the_script_alone() -> None:
    model = ScriptedModel([say("turn")], background={"extractor": [say("mine")]})
    assert (await model.complete(TITLE)).text == ""
    extract = PROMPT.model_copy(update={"task": "extractor"})
    assert (await model.complete(extract)).text == "mine"
    assert (await model.complete(PROMPT)).text == "turn"
    assert len(model.prompts) == 3
    assert model.turns == [PROMPT]


async def test_a_call_has_its_arguments_and_an_id() -> None:
    model = ScriptedModel([call("refund", amount=40), call("refund", tool_call_id="x")])
    first, second = await model.complete(PROMPT), await model.complete(PROMPT)
    assert (first.calls[0].id, first.calls[0].name) == ("call_1", "refund")
    assert json.loads(first.calls[0].args) == {"amount": 40}
    assert second.calls[0].id == "x"
    assert first.finish_reason == "tool-calls"


async def test_several_calls_may_be_one_step() -> None:
    model = ScriptedModel([calls(call("a"), call("b", x=1), text="Both.")])
    reply = await model.complete(PROMPT)
    assert [(c.id, c.name) for c in reply.calls] == [("call_1", "a"), ("call_2", "b")]
    assert reply.text == "Both."


async def test_a_reaction_sees_the_prompt() -> None:
    async def later(prompt: Prompt) -> Reply:
        await asyncio.sleep(0)
        return say(f"later {prompt.task}")

    model = ScriptedModel([lambda p: say(p.model), later, lambda _: fail()])
    assert (await model.complete(PROMPT)).text == "openai/test"
    assert (await model.complete(PROMPT)).text == "later turn"
    with pytest.raises(ModelError):
        await model.complete(PROMPT)


async def test_one_reaction_may_answer_everything() -> None:
    model = ScriptedModel(lambda p: say(p.model))
    assert [(await model.complete(PROMPT)).text for _ in range(3)] == ["openai/test"] * 3
