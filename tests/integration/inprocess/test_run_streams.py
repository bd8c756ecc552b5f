"""`agent.stream` returns a handle; decisions can be followed as a stream, too."""

import asyncio
from typing import Any

import pytest

from layover import Agent, DecisionError, RunStream, tool
from layover.inmemory.table import InMemoryTable
from layover.testing import ScriptedModel, call, calls, say
from layover.wiring import in_memory_runtime


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def script() -> ScriptedModel:
    return ScriptedModel([call("pay", amount=3, tool_call_id="c1"), say("all is paid")])


async def read(stream: RunStream[Any]) -> list[str]:
    return [event.type async for event in stream if "delta" not in event.type]


async def test_a_stream_knows_its_run_before_its_first_event() -> None:
    agent = Agent("a", model="m")
    with agent.override(model=ScriptedModel([say("hello there")])):
        stream = agent.stream("hi")
        assert stream.run_id.startswith("run_")
        assert {event.run_id async for event in stream} == {stream.run_id}
        result = await stream.result()
        assert (result.run_id, result.text) == (stream.run_id, "hello there")


async def test_the_result_reads_what_is_left() -> None:
    agent = Agent("a", model="m", tools=[pay])
    with agent.override(model=script()):
        waiting = await agent.stream("hi").result()
        assert (waiting.status, waiting.pending[0].tool_call_id) == ("suspended", "c1")
        done = await agent.stream_approve(waiting.run_id, "c1").result()
        assert (done.status, done.text) == ("success", "all is paid")


@pytest.mark.parametrize("verdict", ["approve", "deny"])
async def test_a_decision_is_followed_from_itself_on(verdict: str) -> None:
    agent = Agent("a", model="m", tools=[pay])
    with agent.override(model=script()):
        run_id = (await agent.generate("hi")).run_id
        decide = agent.stream_approve if verdict == "approve" else agent.stream_deny
        types = await read(decide(run_id, "c1", reason="so"))
    assert types[0] == "tool-call-decided"
    assert "agent-start" not in types
    assert types[-2:] == ["finish", "agent-end"]
    assert ("tool-execution-start" in types) == (verdict == "approve")


async def test_a_refused_decision_is_raised_and_changes_nothing() -> None:
    agent = Agent("a", model="m", tools=[pay])
    with agent.override(model=script()):
        run_id = (await agent.generate("hi")).run_id
        for stream in (agent.stream_approve(run_id, "c2"), agent.stream_deny("run_x", "c1")):
            with pytest.raises(DecisionError):
                await read(stream)
        with pytest.raises(DecisionError):
            await agent.stream_resume(run_id, "c1", {"x": 1}).result()
        assert agent.state().status == "suspended"


async def test_abort_cancels_one_run_and_no_other() -> None:
    running: list[str] = []
    go_on = asyncio.Event()

    @tool(idempotent=True)
    async def wait(name: str) -> str:
        """Wait."""
        running.append(name)
        await go_on.wait()
        return name

    def reply(prompt: Any) -> Any:
        text = prompt.messages[0].text
        return say(f"{text} done") if len(prompt.messages) > 1 else call("wait", name=text)

    agent = Agent("a", model="m", tools=[wait])
    with agent.override(model=ScriptedModel(reply)):
        one, other = agent.stream("one"), agent.stream("other")
        reading = [asyncio.create_task(each.result()) for each in (one, other)]
        while len(running) < 2:
            await asyncio.sleep(0)
        one.abort()
        assert (await reading[0]).status == "cancelled"
        go_on.set()
        assert (await reading[1]).text == "other done"


async def test_abort_before_the_first_event_cancels_the_run_before_its_model_is_asked() -> None:
    agent = Agent("a", model="m")
    with agent.override(model=ScriptedModel([say("never"), say("hello")])) as model:
        stream = agent.stream("hi", thread_id="t")
        stream.abort()
        types = await read(stream)
        result = await stream.result()
        assert (result.run_id, result.status, result.text) == (stream.run_id, "cancelled", "")
        assert (types[-1], model.prompts) == ("finish", [])
        assert agent.state().status == "cancelled"
        # The thread is free, and no other run is aborted.
        assert (await agent.generate("hi", thread_id="t")).text == "never"


async def test_its_events_are_those_of_any_run_that_is_cancelled_before_its_model() -> None:
    later: list[str] = []
    agent = Agent("a", model="m")
    with agent.override(model=ScriptedModel([])):
        agent.on("agent-start", lambda event: agent.abort())
        for name in ("agent-start", "turn-start", "error", "finish", "agent-end"):
            agent.on(name, lambda event: later.append(event.type))
        assert (await agent.generate("hi")).status == "cancelled"
    other = Agent("a", model="m")
    with other.override(model=ScriptedModel([])):
        stream = other.stream("hi")
        stream.abort()
        assert await read(stream) == later


async def test_abort_of_one_stream_that_has_not_begun_leaves_the_others_alone() -> None:
    agent = Agent("a", model="m")
    with agent.override(model=ScriptedModel([say("hello")])):
        one, other = agent.stream("one"), agent.stream("other")
        one.abort()
        assert (await other.result()).text == "hello"
        assert (await one.result()).status == "cancelled"


async def test_abort_before_a_decision_is_followed_cancels_the_run_and_decides_nothing() -> None:
    agent = Agent("a", model="m", tools=[pay])
    with agent.override(model=script()) as model:
        run_id = (await agent.generate("hi")).run_id
        stream = agent.stream_approve(run_id, "c1")
        stream.abort()
        events = [event async for event in stream]
        types = [event.type for event in events]
        assert (await stream.result()).status == "cancelled"
    [decided] = [event for event in events if event.type == "tool-call-decided"]
    assert (decided.decision, decided.decided_by, decided.via) == ("cancelled", "local", "api")
    # Every call that waits is settled when its run is cancelled.
    assert types == ["tool-call-decided", "tool-execution-end", "message", "finish"]
    assert len(model.prompts) == 1


async def test_call_that_waits_beside_a_running_one_is_cancelled_by_whoever_aborts() -> None:
    running = asyncio.Event()

    @tool
    async def hang() -> None:
        """Take long."""
        running.set()
        await asyncio.Event().wait()

    agent = Agent("a", model="m", tools=[pay, hang], tool_concurrency=2)
    decided: list[Any] = []
    agent.on("tool-call-decided", decided.append)
    with agent.override(model=ScriptedModel([calls(call("pay", amount=3), call("hang"))])):
        run = asyncio.create_task(agent.generate("hi", resource_id="ann"))
        await asyncio.wait_for(running.wait(), 30)
        agent.abort()
        assert (await run).status == "cancelled"
    assert [(event.decision, event.decided_by) for event in decided] == [("cancelled", "ann")]


async def test_abort_of_a_decision_about_an_unknown_run_is_refused_as_the_decision_is() -> None:
    agent = Agent("a", model="m", tools=[pay])
    stream = agent.stream_approve("run_x", "c1")
    stream.abort()
    with pytest.raises(DecisionError):
        await stream.result()


async def test_abort_while_the_run_is_being_accepted_counts() -> None:
    class Slow(InMemoryTable):
        """A table during whose first look somebody aborts."""

        looks = 0

        async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Any:
            self.looks += 1
            if self.looks == 1:
                stream.abort()
            return await super().get(pk, sk, consistent=consistent)

    agent = Agent("a", model="m")
    model = ScriptedModel([])
    agent.runtime = in_memory_runtime(agent, model=model, table=Slow())
    stream = agent.stream("hi")
    assert (await stream.result()).status == "cancelled"
    assert model.prompts == []
