"""The trace of a run is one tree, whichever processes had a part in it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from layover import (
    Agent,
    Hook,
    HookContext,
    Memory,
    ModelRequest,
    SemanticRecall,
    ToolContext,
    WorkingMemory,
    tool,
)
from layover.errors import ModelError, RetryableError
from layover.inmemory.embedder import HashingEmbedder
from layover.inmemory.model import ScriptedModel, call, say
from layover.plugins.memory.learns.extract import extract
from layover.runs.cancel import cancel
from layover.values.note import profile_key
from layover.values.prompt import Prompt
from layover.values.span import RUN, span_id_of, trace_id_of
from support.examples import choose_deaths
from support.otlp import Receiver
from support.worlds.runs import ANN, Choice, Crash, Offer, Power, answers, answers_of
from support.worlds.traces import TracedBench


@tool
def weather(city: str) -> str:
    """The weather."""
    return "sunny"


@tool(needs_approval=True)
def refund(order: str) -> str:
    """Pay back."""
    return "paid"


@tool
def broken(order: str) -> str:
    """Fail."""
    raise ValueError("no such order")


@tool(suspend=Offer, resume=Choice)
def book(ctx: ToolContext) -> str:
    """Book a slot."""
    if ctx.resume is None:
        return ctx.suspend(Offer(slots=["a"]))
    return "booked"


class NoTime:
    """`ports.Deadline` of an invocation that has no time for a request."""

    def remaining(self) -> timedelta:
        return timedelta(seconds=1)


WEATHER = [
    "invoke_agent guide",
    "  chat gpt-5-mini",
    "  execute_tool weather",
    "  chat gpt-5-mini",
]


def guide(*tools: Any, **more: Any) -> Agent:
    return Agent("guide", instructions="guide", model="openai/gpt-5-mini", tools=tools, **more)


async def test_a_run_is_one_trace_of_its_agent_its_requests_and_its_tools(
    receiver: Receiver,
) -> None:
    bench = TracedBench(guide(weather), answers(call("weather", city="Rome"), say("It is sunny.")))
    run = await bench.go()
    assert receiver.tree() == [
        "invoke_agent guide",
        "  chat gpt-5-mini",
        "  execute_tool weather",
        "  chat gpt-5-mini",
    ]
    assert {span.trace for span in receiver.spans} == {f"{trace_id_of(run.id):032x}"}
    root = receiver.named("invoke_agent guide")
    assert (root.id, root.parent, root.service) == (f"{span_id_of(run.id, RUN):016x}", "", "shop")
    assert root.attributes["gen_ai.conversation.id"] == "t1"
    assert root.attributes["layover.status"] == "success"
    assert not any(span.is_error for span in receiver.spans)


async def test_a_request_says_its_model_its_tokens_and_why_it_ended(receiver: Receiver) -> None:
    bench = TracedBench(guide(), answers(say("Hello.")))
    await bench.go()
    chat = receiver.named("chat gpt-5-mini").attributes
    assert chat["gen_ai.operation.name"] == "chat"
    assert (chat["gen_ai.provider.name"], chat["gen_ai.request.model"]) == ("openai", "gpt-5-mini")
    assert chat["gen_ai.agent.name"] == "guide"
    assert chat["gen_ai.usage.input_tokens"] > 0
    assert chat["gen_ai.usage.output_tokens"] > 0
    assert chat["gen_ai.response.finish_reasons"] == ["stop"]
    # Receivers add these up over all spans.
    assert "gen_ai.usage.input_tokens" not in receiver.named("invoke_agent guide").attributes


async def test_a_run_that_waited_goes_on_in_its_trace_and_the_wait_is_no_time_of_the_tool(
    receiver: Receiver,
) -> None:
    script = answers(call("refund", tool_call_id="r1", order="1"), say("Paid."))
    bench = TracedBench(guide(refund), script)
    run = await bench.go()
    assert receiver.tree() == ["chat gpt-5-mini"]
    bench.clock.advance(timedelta(days=2))
    await bench.answer(run.id, "r1", "approve")
    assert receiver.tree() == [
        "invoke_agent guide",
        "  chat gpt-5-mini",
        "  wait refund",
        "  execute_tool refund",
        "  chat gpt-5-mini",
    ]
    wait, execution = receiver.named("wait refund"), receiver.named("execute_tool refund")
    assert wait.end - wait.start > 2 * 86_400 - 1
    assert execution.end - execution.start < 1
    assert wait.attributes["layover.wait.decision"] == "approved"
    assert not wait.is_error


async def test_a_denied_call_is_a_wait_and_neither_an_execution_nor_an_error(
    receiver: Receiver,
) -> None:
    script = answers(call("refund", tool_call_id="r1", order="1"), say("I may not."))
    bench = TracedBench(guide(refund), script)
    run = await bench.go()
    await bench.answer(run.id, "r1", "deny")
    assert "  execute_tool refund" not in receiver.tree()
    assert receiver.named("wait refund").attributes["layover.wait.decision"] == "denied"
    assert not any(span.is_error for span in receiver.spans)


async def test_a_tool_that_suspends_itself_has_an_execution_before_its_wait_and_one_after(
    receiver: Receiver,
) -> None:
    bench = TracedBench(guide(book), answers(call("book", tool_call_id="b1"), say("Booked.")))
    run = await bench.go()
    await bench.answer(run.id, "b1", "resume", data={"slot": "a"})
    assert receiver.tree() == [
        "invoke_agent guide",
        "  chat gpt-5-mini",
        "  execute_tool book",
        "  wait book",
        "  execute_tool book",
        "  chat gpt-5-mini",
    ]
    first = next(s for s in receiver.spans if s.name == "execute_tool book")
    assert first.attributes["layover.suspended"] is True
    assert not any(span.is_error for span in receiver.spans)


async def test_a_sub_agent_that_waited_is_below_the_call_that_it_works_in(
    receiver: Receiver,
) -> None:
    clerk = Agent("clerk", instructions="clerk", model="openai/gpt-5-nano", tools=[refund])
    delegated = call("clerk", input="refund it", context=None)
    script = {
        "guide": [delegated, say("Done.")],
        "clerk": [call("refund", tool_call_id="r1", order="1"), say("Paid.")],
    }
    bench = TracedBench(guide(clerk.as_tool("refunds")), answers_of(script))
    run = await bench.go()
    await bench.answer(run.id, "r1", "approve")
    assert receiver.tree() == [
        "invoke_agent guide",
        "  chat gpt-5-mini",
        "  execute_tool clerk",
        "    invoke_agent clerk",
        "      chat gpt-5-nano",
        "      wait refund",
        "      execute_tool refund",
        "      chat gpt-5-nano",
        "  chat gpt-5-mini",
    ]
    chats = [s for s in receiver.spans if s.name == "chat gpt-5-nano"]
    assert {span.attributes["gen_ai.agent.name"] for span in chats} == {"clerk"}


async def test_a_hand_off_is_in_the_trace_with_both_agents(receiver: Receiver) -> None:
    clerk = Agent("clerk", instructions="clerk", model="openai/gpt-5-nano")
    script = ScriptedModel([call("transfer_to_clerk"), say("I am the clerk.")])
    bench = TracedBench(guide(handoffs=[clerk]), script)
    bench.agents["clerk"] = clerk
    run = await bench.go()
    assert run.status == "success"
    assert receiver.tree() == [
        "invoke_agent guide",
        "  chat gpt-5-mini",
        "  execute_tool transfer_to_clerk",
        "  handoff guide to clerk",
        "  chat gpt-5-nano",
    ]
    assert receiver.named("chat gpt-5-nano").attributes["gen_ai.agent.name"] == "clerk"


async def test_a_run_that_goes_on_in_fresh_invocations_is_one_trace(receiver: Receiver) -> None:
    script = answers(call("weather", city="Rome"), say("It is sunny."))
    bench = TracedBench(guide(weather), script)
    run_id = await bench.start()
    assert (await bench.turn(run_id, NoTime()))["status"] == "yielded"
    await bench.drive(run_id)
    assert receiver.tree() == WEATHER


@pytest.mark.parametrize("after", [False, True])
async def test_every_kill_leaves_one_whole_tree(receiver: Receiver, after: bool) -> None:
    recovered = set()
    for cut_at in choose_deaths(after):
        receiver.spans.clear()
        script = answers(call("weather", city="Rome"), say("It is sunny."))
        bench = TracedBench(guide(weather), script, power=Power(cut_at, after=after))
        run_id = await bench.start()
        await bench.drive(run_id)
        tree = receiver.tree()
        assert [line for line in tree if line != "  recover"] == WEATHER, (cut_at, tree)
        assert {s.trace for s in receiver.spans} == {f"{trace_id_of(run_id):032x}"}
        recovered.add("  recover" in tree)
        if not bench.power.cuts:
            break
    assert recovered == {True, False}


async def test_a_killed_tool_began_when_the_dead_process_began_it(receiver: Receiver) -> None:
    power = Power()

    @tool
    def pay(order: str) -> str:
        """Pay."""
        bench.clock.advance(timedelta(seconds=5))
        power.cut()
        return "paid"

    script = answers(call("pay", order="1"), say("I do not know."))
    bench = TracedBench(guide(pay), script, power=power)
    run_id = await bench.start()
    with pytest.raises(Crash):
        await bench.turn(run_id)
    assert receiver.spans == []
    power.restore()
    await bench.drive(run_id)
    assert receiver.tree() == [
        "invoke_agent guide",
        "  chat gpt-5-mini",
        "  execute_tool pay",
        "  recover",
        "  chat gpt-5-mini",
    ]
    execution = receiver.named("execute_tool pay")
    assert execution.end - execution.start > 5
    assert execution.is_error


async def test_what_is_received_twice_after_a_kill_has_one_id(receiver: Receiver) -> None:
    power = Power()
    bench = TracedBench(
        guide(weather), answers(call("weather", city="Rome"), say("It is sunny.")), power=power
    )
    run_id = await bench.start()

    class Cut:
        """Dies at the second request, after the first step's spans were sent."""

        async def complete(self, prompt: Any, on_delta: Any = None) -> Any:
            if len(prompt.messages) > 1 and not power.cuts:
                await bench.tracing.finish()
                power.cut()
            return await bench.model.complete(prompt, on_delta)

    bench.untraced = replace(bench.untraced, model=Cut())
    bench.process()
    with pytest.raises(Crash):
        await bench.turn(run_id)
    before = {(s.name, s.id) for s in receiver.spans}
    assert {name for name, _ in before} == {"chat gpt-5-mini", "execute_tool weather"}
    receiver.spans.clear()
    power.restore()
    await bench.drive(run_id)
    assert before <= {(s.name, s.id) for s in receiver.spans}


async def test_a_run_that_fails_is_an_error_and_so_is_the_request_that_failed(
    receiver: Receiver,
) -> None:
    refusing = ScriptedModel([ModelError("secret words", status=400)])
    bench = TracedBench(guide(), refusing)
    run = await bench.go()
    assert run.status == "failed"
    root, chat = receiver.named("invoke_agent guide"), receiver.named("chat gpt-5-mini")
    assert root.is_error
    assert chat.is_error
    assert run.error is not None
    assert root.attributes["error.type"] == chat.attributes["error.type"] == run.error.type
    assert b"secret words" not in b"".join(receiver.bodies)


async def test_a_tool_that_fails_is_an_error_and_its_run_is_not(receiver: Receiver) -> None:
    bench = TracedBench(guide(broken), answers(call("broken", order="1"), say("Sorry.")))
    await bench.go()
    assert receiver.named("execute_tool broken").is_error
    assert not receiver.named("invoke_agent guide").is_error


async def test_a_cancelled_run_ends_its_trace_and_is_no_error(receiver: Receiver) -> None:
    bench = TracedBench(guide(refund), answers(call("refund", tool_call_id="r1", order="1")))
    run = await bench.go()
    await cancel(bench.runtime, ANN, run.id)
    await bench.finish()
    root = receiver.named("invoke_agent guide")
    assert (root.attributes["layover.status"], root.is_error) == ("cancelled", False)
    assert receiver.named("wait refund").attributes["layover.wait.decision"] == "cancelled"


async def test_memory_that_learns_after_a_run_is_in_its_trace(receiver: Receiver) -> None:
    script = ScriptedModel([say("Hello."), say('{"facts": []}'), say("A greeting")])
    bench = TracedBench(guide(memory=Memory(profile=True, titles=False)), script)
    run = await bench.go("My name is Ann, and I have moved to Rome.")
    await extract(bench.runtime, bench.payload(run.id))
    await bench.finish()
    assert receiver.tree() == [
        "invoke_agent guide",
        "  search_memory",
        "  chat gpt-5-mini",
        "  update_memory profile",
        "    chat gpt-5-mini",
    ]


def remembering() -> TracedBench:
    script = answers(call("weather", city="Rome"), say("It is sunny."))
    return TracedBench(guide(weather, memory=Memory(profile=True, titles=False)), script)


async def test_what_memory_gives_a_turn_is_one_span_with_its_numbers_and_no_words(
    receiver: Receiver,
) -> None:
    bench = remembering()
    now = bench.clock.now()
    await bench.plain.memory.replace_note(ANN, profile_key("guide"), {"city": "likes Rome"}, now)
    run = await bench.go()
    assert receiver.tree() == [
        "invoke_agent guide",
        "  search_memory",
        "  chat gpt-5-mini",
        "  execute_tool weather",
        "  chat gpt-5-mini",
    ]
    search = receiver.named("search_memory").attributes
    assert search["gen_ai.operation.name"] == "search_memory"
    assert search["layover.run.id"] == run.id
    counts = [search[f"layover.memory.{name}"] for name in ("notes", "messages", "entries")]
    assert counts == [1, 0, 0]
    assert search["layover.memory.tokens"] > 0
    assert b"likes Rome" not in b"".join(receiver.bodies)


async def test_a_run_that_goes_on_keeps_what_memory_gave_and_searches_no_more(
    receiver: Receiver,
) -> None:
    script = answers(call("refund", tool_call_id="r1", order="1"), say("Paid."))
    bench = TracedBench(guide(refund, memory=Memory(profile=True, titles=False)), script)
    run = await bench.go()
    await bench.answer(run.id, "r1", "approve")
    assert [s.name for s in receiver.spans].count("search_memory") == 1


async def test_what_is_stored_for_recall_is_in_the_trace_of_its_run(receiver: Receiver) -> None:
    memory = Memory(semantic_recall=SemanticRecall(scope="resource"), titles=False)
    bench = TracedBench(guide(memory=memory), answers(say("Hello.")), embedder=HashingEmbedder())
    run = await bench.go("I live in Rome.")
    await extract(bench.runtime, bench.payload(run.id))
    await bench.finish()
    assert receiver.tree() == [
        "invoke_agent guide",
        "  search_memory",
        "    embeddings 256",
        "  chat gpt-5-mini",
        "  update_memory index",
        "    embeddings 256",
    ]
    spans = [s for s in receiver.spans if s.name == "embeddings 256"]
    assert {s.attributes["gen_ai.operation.name"] for s in spans} == {"embeddings"}
    assert {s.attributes["gen_ai.provider.name"] for s in spans} == {"hashing"}
    durations = receiver.points["gen_ai.client.operation.duration"]
    assert {d[2]["gen_ai.operation.name"] for d in durations} == {"embeddings"}


async def test_an_embedder_that_fails_is_an_error_of_its_request_and_of_nothing_else(
    receiver: Receiver,
) -> None:
    class Down(HashingEmbedder):
        async def embed(self, texts: Any) -> Any:
            raise ModelError("down", type="APIConnectionError")

    memory = Memory(semantic_recall=SemanticRecall(scope="resource"), titles=False)
    bench = TracedBench(guide(memory=memory), answers(say("Hello.")), embedder=Down())
    run = await bench.go("I live in Rome.")
    assert run.text == "Hello."
    assert [(s.name, s.attributes["error.type"]) for s in receiver.spans if s.is_error] == [
        ("embeddings 256", "ModelError")
    ]


async def test_what_a_sub_agent_remembers_is_searched_in_its_own_call_and_once(
    receiver: Receiver,
) -> None:
    clerk = Agent(
        "clerk",
        instructions="clerk",
        model="openai/gpt-5-nano",
        tools=[refund],
        memory=Memory(working_memory=WorkingMemory()),
    )
    script = {
        "guide": [call("clerk", input="go"), say("Paid.")],
        "clerk": [call("refund", tool_call_id="r1", order="1"), say("I paid.")],
    }
    bench = TracedBench(guide(clerk.as_tool("refunds", memory=True)), answers_of(script))
    run = await bench.go()
    await bench.answer(run.id, "r1", "approve")
    assert receiver.tree() == [
        "invoke_agent guide",
        "  chat gpt-5-mini",
        "  execute_tool clerk",
        "    invoke_agent clerk",
        "      search_memory",
        "      chat gpt-5-nano",
        "      wait refund",
        "      execute_tool refund",
        "      chat gpt-5-nano",
        "  chat gpt-5-mini",
    ]
    search = receiver.named("search_memory").attributes
    assert search["gen_ai.agent.name"] == "clerk"


class Judge(Hook):
    """Asks a model about each request."""

    async def before_model(self, ctx: HookContext, request: ModelRequest) -> None:
        await ctx.ask_model("Is it fine?", model="openai/judge")


async def test_a_hooks_question_is_a_request_of_the_agent_that_it_belongs_to(
    receiver: Receiver,
) -> None:
    clerk = Agent("clerk", instructions="clerk", model="openai/gpt-5-nano", hooks=[Judge()])
    script = {"guide": [call("clerk", input="go"), say("Done.")], "clerk": [say("I did.")]}

    def reply(prompt: Prompt) -> Any:
        return say("yes") if prompt.task == "hook" else script[str(prompt.system)].pop(0)

    bench = TracedBench(guide(clerk.as_tool("works")), ScriptedModel(reply))
    await bench.go()
    assert receiver.tree() == [
        "invoke_agent guide",
        "  chat gpt-5-mini",
        "  execute_tool clerk",
        "    invoke_agent clerk",
        "      chat gpt-5-nano",
        "      chat judge",
        "  chat gpt-5-mini",
    ]
    question = receiver.named("chat judge").attributes
    assert (question["gen_ai.agent.name"], question["layover.asked_by"]) == ("clerk", "hook")
    assert question["gen_ai.usage.output_tokens"] > 0


async def test_a_search_that_fails_is_an_error_and_the_next_attempt_searches_again(
    receiver: Receiver,
) -> None:
    bench = remembering()
    run_id = await bench.start()
    threads, whole = bench.untraced.threads, bench.untraced

    class Down:
        """A database that does not answer."""

        def __getattr__(self, name: str) -> Any:
            return getattr(threads, name)

        async def open_turn(self, query: Any) -> Any:
            raise RetryableError("the database sleeps")

    bench.untraced = replace(whole, threads=Down())
    bench.process()
    down = bench.tracing
    with pytest.raises(RetryableError):
        await bench.turn(run_id)
    await down.finish()
    assert receiver.named("search_memory").attributes["error.type"] == "RetryableError"
    bench.untraced = whole
    bench.process()
    await bench.drive(run_id)
    searches = [s for s in receiver.spans if s.name == "search_memory"]
    assert [s.is_error for s in searches] == [True, False]


async def test_a_trace_has_a_link_to_the_callers_trace(receiver: Receiver) -> None:
    bench = TracedBench(guide(), answers(say("Hello.")))
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    run = await bench.go(traceparent=f"00-{trace}-{span}-01")
    root = receiver.named("invoke_agent guide")
    assert root.links == ((trace, span),)
    assert root.trace == f"{trace_id_of(run.id):032x}"


async def test_tokens_and_durations_are_metrics_without_ids(receiver: Receiver) -> None:
    script = answers(call("weather", city="Rome"), say("It is sunny."))
    bench = TracedBench(guide(weather), script)
    run = await bench.go()
    tokens = receiver.points["gen_ai.client.token.usage"]
    assert {t[2]["gen_ai.token.type"] for t in tokens} == {"input", "output"}
    assert sum(t[0] for t in tokens) == run.usage.total_tokens
    durations = receiver.points["gen_ai.client.operation.duration"]
    assert sum(d[1] for d in durations) == 2
    assert {"gen_ai.execute_tool.duration", "gen_ai.invoke_agent.duration"} <= set(receiver.points)
    for points in receiver.points.values():
        for _, _, attributes in points:
            assert not [name for name in attributes if name.endswith(".id")]
