"""Memory in a prompt: data, pinned for the run, changed for the next one
(docs/behaviour.md#pinned-context)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from layover import Agent, Memory, WorkingMemory, tool
from layover.plugins.memory.learns.profiles import delete_profile, put_profile
from layover.runtime import Runtime
from layover.testing import ScriptedModel, call, say
from layover.wiring import in_memory_runtime


class Notes(BaseModel):
    """The notes that the assistant keeps."""

    name: str | None = None
    city: str | None = None


def agent(*script: Any, memory: Memory) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(list(script))
    made = Agent("helper", instructions="Help.", memory=memory)
    made.runtime = in_memory_runtime(made, model=model)
    return made, model


async def test_notes_change_the_next_runs_prompt_and_not_their_own() -> None:
    memory = Memory(working_memory=WorkingMemory(schema=Notes))
    helper, model = agent(
        call("update_working_memory", name="Ann"), say("noted"), say("hello Ann"), memory=memory
    )
    await helper.generate("I am Ann", thread_id="t", resource_id="ann")
    await helper.generate("who am I?", thread_id="other", resource_id="ann")
    first, second, third = [p.system or "" for p in model.prompts]
    assert "Ann" not in first
    assert first == second, "a run's prompt is pinned"
    assert "- name: Ann" in third
    assert third.startswith("Help.")


async def profile_after(change: Callable[[Runtime], Awaitable[Any]]) -> list[str]:
    """The system messages of a run that a person approved once the profile was changed: before and
    after that."""

    @tool(needs_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([call("pay", tool_call_id="c"), say("done")])
    made = Agent("helper", tools=[pay], memory=Memory(profile=True))
    made.runtime = in_memory_runtime(made, model=model)
    await put_profile(made.runtime, "ann", "helper", {"city": "Bern", "diet": "vegan"})
    run = await made.generate("pay", resource_id="ann")
    await change(made.runtime)
    assert (await made.approve(run.run_id, "c")).status == "success"
    return [p.system or "" for p in model.prompts[:2]]


async def test_a_profile_that_was_deleted_and_made_anew_leaves_a_running_prompt() -> None:
    async def anew(runtime: Runtime) -> None:
        await delete_profile(runtime, "ann", "helper")
        await put_profile(runtime, "ann", "helper", {"city": "Oslo"})

    before, after = await profile_after(anew)
    assert "Bern" in before
    assert after == ""


async def test_a_fact_that_was_taken_out_of_the_profile_leaves_a_running_prompt() -> None:
    before, after = await profile_after(
        lambda runtime: put_profile(runtime, "ann", "helper", {"city": "Oslo", "name": "Ann"})
    )
    assert after == before.replace("- diet: vegan\n", "") != before, "what is left stays pinned"
    _, emptied = await profile_after(lambda runtime: put_profile(runtime, "ann", "helper", {}))
    assert emptied == ""


async def test_a_profile_that_nobody_changed_stays_byte_for_byte() -> None:
    before, after = await profile_after(lambda runtime: asyncio.sleep(0))
    assert after == before


async def test_notes_of_one_user_are_not_shown_to_another() -> None:
    memory = Memory(working_memory=WorkingMemory())
    helper, model = agent(
        call("update_working_memory", memory="likes tea"), say("noted"), say("hi"), memory=memory
    )
    result = await helper.generate("I like tea", resource_id="ann")
    assert result.messages[1].content[0].is_error is False, result.messages[1]  # type: ignore[union-attr]
    await helper.generate("hello", resource_id="bob")
    assert "tea" not in (model.prompts[-1].system or "")


async def test_the_plan_stands_before_the_input_as_data() -> None:
    steps = [{"step": "look <b>", "status": "done"}, {"step": "book", "status": "pending"}]
    plan: dict[str, Any] = {"goal": "a trip", "phase": "search", "iterations": 1, "steps": steps}
    helper, model = agent(call("plan", **plan), say("ok"), say("go"), memory=Memory(plan=True))
    made = await helper.generate("plan a trip", thread_id="t")
    assert "plan" in [t.name for t in model.prompts[0].tools]
    assert made.status == "success"
    await helper.generate("go on", thread_id="t")
    given = model.prompts[-1].messages[-1]
    texts = [p.text for p in given.content]  # type: ignore[union-attr]
    assert texts[-1] == "go on"
    assert "a trip" in texts[0]
    assert "<b>" not in texts[0], "what is remembered cannot open a tag"
