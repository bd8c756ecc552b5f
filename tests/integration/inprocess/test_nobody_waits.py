"""Learning from a run in its author's process: no caller waits for it, and it is done."""

import asyncio
from collections.abc import Awaitable, Callable

from layover import Agent
from layover.inmemory.model import ScriptedModel, say
from layover.values.prompt import Prompt, Reply
from layover.wiring import in_memory_runtime

BOUND_S = 10
QUESTION = "why is my order so late"


def agent(titled: Callable[[Prompt], Awaitable[Reply]]) -> Agent:
    helper = Agent("helper")
    model = ScriptedModel(lambda prompt: say("fine"), background={"title": titled})
    helper.runtime = in_memory_runtime(helper, model=model)
    return helper


async def title(helper: Agent, thread: str = "t") -> str | None:
    head = await helper.runtime.journal.heads.get("local", thread)
    return str(head.title) if head.title is not None else None


async def test_a_run_answers_while_memory_still_learns_from_it() -> None:
    may_answer = asyncio.Event()

    async def titled(prompt: Prompt) -> Reply:
        await may_answer.wait()
        return say("Late order")

    helper = agent(titled)
    async with asyncio.timeout(BOUND_S):
        assert (await helper.generate(QUESTION, thread_id="t")).text == "fine"
        assert (await helper.generate("and now", thread_id="t")).text == "fine"
        events = [e.type async for e in helper.stream("and then", thread_id="t")]
        assert (events[-1], await title(helper)) == ("agent-end", None)
        may_answer.set()
        await helper.wait_for_memory()
    assert await title(helper) == "Late order"


def test_asyncio_run_does_not_end_before_memory_has_learned() -> None:
    asked: list[Prompt] = []

    async def titled(prompt: Prompt) -> Reply:
        asked.append(prompt)
        for _ in range(100):
            await asyncio.sleep(0)
        return say("Late order")

    helper = agent(titled)

    async def both() -> None:
        await helper.generate(QUESTION, thread_id="t")
        await helper.generate(QUESTION, thread_id="other")

    asyncio.run(both())
    assert asyncio.run(title(helper)) == "Late order"
    assert asyncio.run(title(helper, "other")) == "Late order"
    asyncio.run(helper.wait_for_memory())


async def test_memory_learns_from_a_users_runs_in_their_order() -> None:
    under_way: list[str] = []
    most: list[int] = []

    async def titled(prompt: Prompt) -> Reply:
        under_way.append(prompt.messages[-1].text)
        most.append(len(under_way))
        for _ in range(100):
            await asyncio.sleep(0)
        under_way.pop()
        return say("Late order")

    helper = agent(titled)
    for thread in ("one", "two", "three"):
        await helper.generate(QUESTION, thread_id=thread)
    await helper.wait_for_memory()
    assert most == [1, 1, 1]
