"""`agent.override`: another model and empty stores while a `with` lasts."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from layover import Agent, EpisodicMemory, Memory, NotFound, tool
from layover.ports import OnDelta
from layover.testing import (
    HashingEmbedder,
    ManualClock,
    ScriptedModel,
    ScriptExhausted,
    call,
    calls,
    say,
    tool_results,
)
from layover.values.prompt import Prompt, Reply
from layover.wiring import in_memory_runtime


@tool
def look(what: str) -> str:
    """Look."""
    if what == "nothing":
        raise LookupError("no such thing")
    return f"seen {what}"


@tool(needs_approval=True, expires_after=timedelta(days=1))
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def agent() -> Agent:
    return Agent("shop", tools=[look, pay])


# What goes wrong


async def test_a_script_with_a_step_too_few_fails_the_test_with_what_was_asked() -> None:
    shop, model = agent(), ScriptedModel([call("look", what="a lamp")])
    with pytest.raises(ScriptExhausted) as caught, shop.override(model=model):
        await shop.generate("What is there?")
    assert str(caught.value).splitlines() == [
        "the script for 'turn' has no step 2. Asked of openai/gpt-5-mini with tools look, pay:",
        "  user: What is there?",
        '  assistant: look({"what": "a lamp"})',
        "  tool: look -> seen a lamp",
    ]


async def test_a_test_that_fails_in_consequence_names_the_script_first() -> None:
    shop = agent()
    with (
        pytest.raises(ScriptExhausted, match="no step 1") as caught,
        shop.override(model=ScriptedModel([])),
    ):
        assert (await shop.generate("hi")).text == "hi"
    assert isinstance(caught.value.__cause__, AssertionError)


async def test_an_outcome_of_pytest_stays_and_says_what_the_script_lacked() -> None:
    shop = agent()
    with (
        pytest.raises(pytest.fail.Exception, match="DID NOT RAISE") as caught,
        shop.override(model=ScriptedModel([])),
        pytest.raises(NotFound),
    ):
        await shop.generate("hi")
    assert "no step 1" in caught.value.__notes__[0]


async def test_a_failing_test_restores_the_agent() -> None:
    shop = agent()
    with pytest.raises(LookupError), shop.override(model=ScriptedModel([])):
        raise LookupError
    assert shop.runtime is None


async def test_two_tests_that_override_one_agent_at_once_are_told_so() -> None:
    shop = agent()
    first, second = (shop.override(model=ScriptedModel([])) for _ in range(2))
    first.__enter__()
    second.__enter__()
    with pytest.raises(RuntimeError, match="agent 'shop': overrides have to end in reverse order"):
        first.__exit__(None, None, None)


async def test_a_script_for_a_background_task_that_ends_too_early_fails_the_test_too() -> None:
    shop = agent()
    override = shop.override(model=ScriptedModel([say("hi")], background={"title": []}))
    override.__enter__()
    await shop.generate("please tell me about my late order", thread_id="t")
    await shop.wait_for_memory()
    with pytest.raises(ScriptExhausted, match="the script for 'title' has no step 1"):
        override.__exit__(None, None, None)


# What is fresh, and what comes back


async def test_twice_in_a_row_nothing_is_left_of_the_first_time() -> None:
    shop = Agent("shop", memory=Memory(episodic=EpisodicMemory()))
    for text in ("first", "second"):
        with shop.override(model=ScriptedModel([say(text)]), embedder=HashingEmbedder()) as model:
            assert shop.state().status == "idle"
            done = await shop.generate("hi", thread_id="t")
            await shop.wait_for_memory()
        assert done.text == text
        (prompt,) = model.turns
        assert [m.text for m in prompt.messages] == ["hi"]
        with pytest.raises(NotFound):
            await shop.approve(done.run_id, "call_1")


async def test_an_override_in_an_override_gives_back_the_outer_one_and_its_runs() -> None:
    shop = agent()
    with shop.override(model=ScriptedModel([call("pay", amount=5), say("outer")])):
        waiting = await shop.generate("hi", thread_id="t")
        with shop.override(model=ScriptedModel([say("inner")])):
            assert (await shop.generate("hi", thread_id="t")).text == "inner"
        done = await shop.approve(waiting.run_id, waiting.pending[0].tool_call_id)
    assert done.text == "outer"


async def test_a_runtime_that_was_set_is_back_with_its_runs() -> None:
    shop = agent()
    script = [call("pay", amount=5), say("mine")]
    shop.runtime = mine = in_memory_runtime(shop, model=ScriptedModel(script))
    waiting = await shop.generate("hi")
    with shop.override(model=ScriptedModel([say("inner")])):
        assert (await shop.generate("hi")).text == "inner"
        shop.runtime = in_memory_runtime(shop, model=ScriptedModel([say("set inside")]))
        assert (await shop.generate("hi")).text == "set inside"
    assert shop.runtime is mine
    done = await shop.approve(waiting.run_id, waiting.pending[0].tool_call_id)
    assert done.text == "mine"


async def test_a_handler_of_a_test_is_gone_after_it() -> None:
    shop = agent()
    before: list[str] = []
    within: list[str] = []
    shop.on("finish", lambda event: before.append(event.run_id))
    with shop.override(model=ScriptedModel([say("a")])):
        shop.on("finish", lambda event: within.append(event.run_id))
        await shop.generate("hi")
    with shop.override(model=ScriptedModel([say("b")])):
        await shop.generate("hi")
    assert (len(before), len(within)) == (2, 1)


async def test_one_override_may_be_entered_again_for_fresh_stores() -> None:
    shop = agent()
    override = shop.override(model=ScriptedModel([say("one"), say("two")]))
    for text in ("one", "two"):
        with override as model:
            assert (await shop.generate("hi", thread_id="t")).text == text
        assert len(model.turns[-1].messages) == 1


def test_it_works_around_a_loop_of_its_own() -> None:
    shop = agent()
    with shop.override(model=ScriptedModel([say("sync")])):
        assert asyncio.run(shop.generate("hi")).text == "sync"


@pytest.fixture
def shop_in_a_fixture() -> Iterator[Agent]:
    shop = agent()
    with shop.override(model=ScriptedModel([say("of the fixture")])):
        yield shop


async def test_a_fixture_may_override(shop_in_a_fixture: Agent) -> None:
    assert (await shop_in_a_fixture.generate("hi")).text == "of the fixture"


async def test_a_model_of_ones_own_works_without_a_script() -> None:
    class Echo:
        async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
            return say(prompt.messages[-1].text)

    shop = agent()
    with shop.override(model=Echo()):
        assert (await shop.generate("hi")).text == "hi"


# What a test can look at


async def test_steps_that_nothing_asked_for_are_there_to_be_asserted() -> None:
    shop, left = agent(), say("never")
    with shop.override(model=ScriptedModel([say("hi"), left])) as model:
        await shop.generate("hi")
    assert model.unused == [left]


async def test_a_reaction_and_a_generator_leave_nothing_unused() -> None:
    for model in (ScriptedModel(lambda _: say("hi")), ScriptedModel(say("hi") for _ in range(3))):
        assert (await model.complete(Prompt(model="m"))).text == "hi"
        assert model.unused == []


async def test_results_of_tools_are_read_by_the_tools_name() -> None:
    shop = agent()
    both = calls(call("look", what="a"), call("pay", amount=5), call("look", what="nothing"))
    with shop.override(model=ScriptedModel([both, say("done")])):
        waiting = await shop.generate("hi")
        done = await shop.deny(waiting.run_id, waiting.pending[0].tool_call_id, "no")
    assert tool_results(done, "look") == ["seen a", "LookupError: no such thing"]
    assert [r["reason"] for r in tool_results(done, "pay")] == ["no"]
    assert len(tool_results(done)) == 3


async def test_a_call_expires_when_the_clock_is_moved() -> None:
    shop, clock = agent(), ManualClock()
    script = [call("pay", amount=5), say("too late"), say("next")]
    with shop.override(model=ScriptedModel(script), clock=clock) as model:
        await shop.generate("hi", thread_id="t")
        clock.advance(timedelta(days=2))
        assert (await shop.generate("and now?", thread_id="t")).text == "next"
    assert not model.unused
