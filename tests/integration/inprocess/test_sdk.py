"""An agent in its author's process (docs/behaviour.md#in-process): the same engine, stores in memory."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from layover import (
    Agent,
    ConfigurationError,
    DecisionError,
    InvalidRequest,
    Memory,
    NotFound,
    ThreadBusy,
    ToolContext,
    tool,
)
from layover.inmemory.model import ScriptedModel, call, calls, fail, say
from layover.values.message import Role
from layover.values.prompt import Prompt, Reply
from layover.values.runs.run import OnWaiting, Status
from layover.wiring import in_memory_runtime
from support.worlds.runs import answers, told, types

BOUND_S = 10


class Offer(BaseModel):
    """The offer that a person is shown."""

    slots: list[str]


class Choice(BaseModel):
    """The choice that a person makes."""

    slot: str


class Verdict(BaseModel):
    """A structured answer."""

    score: int


@tool
def look(what: str) -> str:
    """Look something up."""
    return f"saw {what}"


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    await asyncio.sleep(0)
    return f"paid {amount}"


@tool(suspend=Offer, resume=Choice)
async def book(ctx: ToolContext) -> str:
    """Book."""
    if ctx.resume is None:
        return ctx.suspend(Offer(slots=["a", "b"]))
    return f"booked {ctx.resume.slot}"


def agent(model: Any, **options: Any) -> Agent:
    made = Agent("helper", tools=[look, pay, book], tool_concurrency=40, **options)
    made.runtime = in_memory_runtime(
        made, model=ScriptedModel(model) if isinstance(model, list) else model
    )
    return made


class Hanging:
    """A model that never answers its first question."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def complete(self, prompt: Prompt, on_delta: Any = None) -> Reply:
        if self.asked.is_set():
            return say("here again")
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


# -- what goes wrong ----------------------------------------------------------------------------


async def test_a_failed_run_is_a_result_and_the_agent_is_usable_at_once() -> None:
    helper = agent([fail("no such model", status=404), say("fine")])
    failed = await helper.generate("hi", thread_id="t")
    assert (failed.status, failed.finish_reason) == ("failed", "error")
    assert failed.error_detail is not None
    assert failed.error_detail.message == "no such model"
    assert helper.state().status == "failed"
    assert (await helper.generate("hi", thread_id="t")).text == "fine"


async def test_a_model_with_a_bug_fails_the_run_and_raises_nothing() -> None:
    result = await agent([]).generate("hi")
    assert (result.status, result.error is not None) == ("failed", True)


async def test_a_title_that_cannot_be_made_fails_no_run() -> None:
    def bug(prompt: Prompt) -> Reply:
        raise LookupError("bug")

    model = ScriptedModel([say("fine")], background={"title": bug})
    helper = agent(model)
    result = await helper.generate("please tell me about my late order")
    await helper.wait_for_memory()
    assert (result.status, [p.task for p in model.prompts]) == ("success", ["turn", "title"])


async def test_abort_ends_the_run_as_cancelled_and_frees_the_thread() -> None:
    model = Hanging()
    helper = agent(model)
    errors: list[Any] = []
    helper.on("error", errors.append)
    running = asyncio.create_task(helper.generate("hi", thread_id="t"))
    await asyncio.wait_for(model.asked.wait(), BOUND_S)
    assert helper.state().status == "running"
    helper.abort()
    result = await asyncio.wait_for(running, BOUND_S)
    assert (result.status, result.finish_reason, result.error) == ("cancelled", "cancelled", None)
    assert (helper.state().status, errors) == ("cancelled", [])
    assert (await helper.generate("again", thread_id="t")).text == "here again"


async def test_a_tool_may_abort_from_its_own_thread() -> None:
    @tool
    def stop(ctx: ToolContext) -> str:
        """Stop everything."""
        helper.abort()
        return "stopped"

    async def hang(prompt: Prompt) -> Reply:
        await asyncio.Event().wait()
        raise AssertionError

    helper = Agent("helper", tools=[stop])
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel([call("stop"), hang]))
    result = await asyncio.wait_for(helper.generate("hi"), BOUND_S)
    assert (result.status, told(result.messages)[1]) == ("cancelled", ("tool", "stopped"))


@pytest.mark.parametrize("event", ["agent-start", "turn-start"])
async def test_a_model_is_not_asked_once_a_handler_has_aborted(event: str) -> None:
    model = ScriptedModel([say("never")])
    helper = agent(model)

    async def abort(event: Any) -> None:
        helper.abort()

    helper.on(event, abort)
    result = await asyncio.wait_for(helper.generate("hi"), BOUND_S)
    assert (result.status, result.finish_reason, model.prompts) == ("cancelled", "cancelled", [])
    assert helper.state().status == "cancelled"


async def test_a_tool_is_not_called_once_a_handler_has_aborted() -> None:
    helper = agent([call("look", what="a"), say("never")])
    started: list[Any] = []
    helper.on("message", lambda event: helper.abort())
    helper.on("tool-execution-start", started.append)
    result = await asyncio.wait_for(helper.generate("hi"), BOUND_S)
    assert (result.status, started) == ("cancelled", [])


async def test_an_approved_tool_may_abort_and_the_model_is_not_asked_again() -> None:
    @tool(needs_approval=True)
    def stop() -> str:
        """Stop everything."""
        helper.abort()
        return "stopped"

    model = ScriptedModel([call("stop"), say("never")])
    helper = Agent("helper", tools=[stop])
    helper.runtime = in_memory_runtime(helper, model=model)
    waiting = await helper.generate("hi")
    approving = helper.approve(waiting.run_id, waiting.pending[0].tool_call_id)
    result = await asyncio.wait_for(approving, BOUND_S)
    assert (result.status, len(model.prompts)) == ("cancelled", 1)


async def test_an_abort_stops_a_model_that_answers_before_anybody_looks_at_the_journal() -> None:
    async def slowly(prompt: Prompt) -> Reply:
        helper.abort()
        await asyncio.sleep(0.1)
        return say("never")

    helper = agent([slowly])
    result = await asyncio.wait_for(helper.generate("hi"), BOUND_S)
    assert (result.status, result.text) == ("cancelled", "")


async def test_a_handler_that_waits_for_the_run_holds_nothing_up() -> None:
    helper = agent([say("fine")])
    over = asyncio.Event()

    async def wait(event: Any) -> None:
        await over.wait()

    async def stop_waiting(prompt: Prompt) -> Reply:
        over.set()
        return say("fine")

    helper.runtime = in_memory_runtime(helper, model=ScriptedModel([stop_waiting]))
    helper.on("agent-start", wait)
    assert (await asyncio.wait_for(helper.generate("hi"), BOUND_S)).status == "success"


async def test_abort_before_any_run_does_nothing() -> None:
    helper = agent([])
    helper.abort()
    assert helper.state().status == "idle"


async def test_a_caller_that_gives_up_cancels_its_run_and_frees_the_thread() -> None:
    model = Hanging()
    helper = agent(model)
    running = asyncio.create_task(helper.generate("hi", thread_id="t"))
    await asyncio.wait_for(model.asked.wait(), BOUND_S)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert helper.state().status == "cancelled"
    async with asyncio.timeout(BOUND_S):
        assert (await helper.generate("again", thread_id="t")).text == "here again"
    assert helper.state().status == "success"


async def test_a_caller_that_gives_up_on_its_last_breath_leaves_a_cancelled_run() -> None:
    helper = agent(Hanging())

    async def give_up() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(helper.generate("hi"), 0.01)

    await asyncio.to_thread(asyncio.run, give_up())
    assert helper.state().status == "cancelled"


@pytest.mark.parametrize("broken", [False, True])
async def test_a_handler_that_raises_ends_no_run(broken: bool) -> None:
    helper = agent([call("look", what="a"), say("fine")])
    seen: list[str] = []

    def bad(event: Any) -> None:
        raise ValueError("mine")

    async def bad_later(event: Any) -> None:
        raise ValueError("mine")

    helper.on("turn-start", bad if broken else bad_later)
    helper.on("turn-start", lambda e: seen.append(e.type))
    assert (await helper.generate("hi")).status == "success"
    assert len(seen) == 2


async def test_another_runtime_takes_effect_and_handlers_stay() -> None:
    heard: list[str] = []
    shop = agent(ScriptedModel([say("first")]))
    shop.on("finish", lambda event: heard.append(event.run_id))
    first = await shop.generate("hi")
    shop.runtime = in_memory_runtime(shop, model=ScriptedModel([say("second")]))
    assert shop.state().status == "idle"
    second = await shop.generate("hi")
    assert (first.text, second.text) == ("first", "second")
    assert heard == [first.run_id, second.run_id]
    with pytest.raises(NotFound):
        await shop.approve(first.run_id, "c1")


async def test_a_suspended_thread_is_busy_where_the_agent_refuses() -> None:
    helper = agent([call("pay", amount=1)])
    helper.on_waiting = OnWaiting.REFUSE
    await helper.generate("hi", thread_id="t")
    with pytest.raises(ThreadBusy):
        await helper.generate("and now", thread_id="t")
    assert helper.state().status == "suspended"


async def test_a_message_while_a_call_waits_is_answered_and_the_waiting_run_learns_of_it() -> None:
    helper = agent([call("pay", amount=1), say("it rains"), say("paid")])
    first = await helper.generate("hi", thread_id="t")
    assert (await helper.generate("weather?", thread_id="t")).text == "it rains"
    result = await helper.approve(first.run_id, first.pending[0].tool_call_id)
    assert (result.status, result.text) == (Status.SUCCESS, "paid")


async def test_a_decision_while_another_run_works_gives_the_result_once_that_one_is_over() -> None:
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def slow(prompt: Any) -> Any:
        asked.set()
        await goes_on.wait()
        return say("it rains")

    helper = agent([call("pay", amount=1), slow, say("paid")])
    first = await helper.generate("hi", thread_id="t")
    other = asyncio.create_task(helper.generate("weather?", thread_id="t"))
    await asked.wait()
    approval = asyncio.create_task(helper.approve(first.run_id, first.pending[0].tool_call_id))
    goes_on.set()
    assert (await other).text == "it rains"
    assert (await approval).text == "paid"


async def test_a_message_withdraws_a_call_in_process() -> None:
    helper = agent([call("pay", amount=1), say("not then")])
    helper.on_waiting = OnWaiting.WITHDRAW
    first = await helper.generate("hi", thread_id="t")
    result = await helper.generate("never mind", thread_id="t")
    assert (result.run_id, result.text) == (first.run_id, "not then")


async def test_a_thread_of_another_agent_is_refused() -> None:
    model = answers(say("fine"))
    one, two = Agent("one"), Agent("two")
    one.runtime = two.runtime = in_memory_runtime(one, two, model=model)
    await one.generate("hi", thread_id="t")
    with pytest.raises(InvalidRequest):
        await two.generate("hi", thread_id="t")


@pytest.mark.parametrize("most", [0, -1])
async def test_a_limit_below_one_step_is_refused(most: int) -> None:
    with pytest.raises(InvalidRequest):
        await agent([]).generate("hi", max_iterations=most)


@pytest.mark.parametrize("input", ["", []])
async def test_an_empty_input_is_refused_and_takes_no_thread(input: Any) -> None:
    helper = agent([say("fine")])
    with pytest.raises(InvalidRequest):
        await helper.generate(input, thread_id="t")
    assert (await helper.generate("hi", thread_id="t")).status == "success"


async def test_decisions_that_do_not_fit_are_refused_and_the_call_waits_as_before() -> None:
    helper = agent([calls(call("pay", amount=1), call("book")), say("done")])
    first = await helper.generate("hi")
    run, (one, two) = first.run_id, [p.tool_call_id for p in first.pending]
    for refused in (
        helper.approve("run_unknown", one),
        helper.approve(run, "call_unknown"),
        helper.approve(run, one, {"amount": "much"}),
        helper.resume(run, one, {"slot": "a"}),
        helper.approve(run, two),
        helper.resume(run, two, {"slot": 3}),
    ):
        with pytest.raises(DecisionError):
            await refused
    assert [p.tool_call_id for p in helper.state().pending] == [one, two]
    await helper.approve(run, one)
    with pytest.raises(DecisionError):
        await helper.deny(run, one)
    assert (await helper.resume(run, two, {"slot": "a"})).status == "success"
    with pytest.raises(DecisionError):
        await helper.approve(run, one)


async def test_an_unknown_run_is_not_found_as_well_as_refused() -> None:
    with pytest.raises(NotFound):
        await agent([]).approve("run_unknown", "c")


# -- what works ---------------------------------------------------------------------------------


async def test_the_state_before_the_first_run_is_idle_and_empty() -> None:
    state = agent([]).state()
    assert (state.status, state.messages, state.pending) == ("idle", [], [])
    assert state.usage.total_tokens == 0


async def test_a_result_has_the_response_and_never_the_input() -> None:
    helper = agent([call("look", what="a"), say("fine")])
    result = await helper.generate("hi")
    assert told(result.messages) == [("assistant", ""), ("tool", "saw a"), ("assistant", "fine")]
    assert (result.status, result.text, result.finish_reason) == ("success", "fine", "stop")
    assert (result.usage.total_tokens, result.pending, result.error) == (30, [], None)
    assert result.run_id
    state = helper.state()
    assert (state.status, state.messages, state.usage) == (
        "success",
        result.messages,
        result.usage,
    )


async def test_structured_output_is_an_instance_of_its_type() -> None:
    result = await agent([say('{"score": 3}')], output=Verdict).generate("hi")
    assert result.output == Verdict(score=3)
    assert isinstance(result.output, Verdict)


async def test_parts_are_taken_as_input() -> None:
    model = ScriptedModel([say("fine")])
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    await agent(model).generate(parts)
    assert model.prompts[0].messages[0].text == "one\n\ntwo"


async def test_a_stream_yields_typed_events_with_deltas_until_the_end() -> None:
    helper = agent([call("look", what="a"), say("all is fine")])
    events = [e async for e in helper.stream("hi")]
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert len({e.run_id for e in events}) == 1
    assert "".join(e.text for e in events if e.type == "text-delta") == "all is fine"
    assert types(events)[-2:] == ["finish", "agent-end"]
    assert helper.state().status == "success"


async def test_a_stream_ends_where_the_run_waits() -> None:
    helper = agent([call("pay", amount=1), say("done")])
    events = [e async for e in helper.stream("hi")]
    assert events[-1].type == "tool-call-suspended"
    assert helper.state().status == "suspended"
    result = await helper.approve(events[0].run_id, events[-1].tool_call_id)
    assert result.text == "done"


async def test_a_consumer_that_leaves_a_stream_leaves_the_run_alone() -> None:
    helper = agent([call("look", what="a"), say("fine")])
    stream = helper.stream("hi", thread_id="t")
    async for _ in stream:
        break
    await stream.aclose()
    for _ in range(BOUND_S * 100):
        if helper.state().status == "success":
            break
        await asyncio.sleep(0.01)
    assert told(helper.state().messages)[-1] == ("assistant", "fine")


async def test_handlers_get_each_event_of_their_name_once_over_suspensions() -> None:
    helper = agent([calls(call("pay", amount=1), call("pay", amount=2)), say("done")])
    heard: list[Any] = []
    for name in ("agent-start", "turn-start", "tool-call-decided", "turn-end", "finish", "message"):
        helper.on(name, heard.append)
    first = await helper.generate("hi")
    for pending in first.pending:
        await helper.approve(first.run_id, pending.tool_call_id)
    assert len({e.seq for e in heard}) == len(heard)
    assert [e.seq for e in heard] == sorted(e.seq for e in heard)
    names = [e.type for e in heard]
    assert (names.count("agent-start"), names.count("finish")) == (1, 1)
    assert (names.count("tool-call-decided"), names.count("message")) == (2, 4)


async def test_a_handler_that_comes_late_hears_only_what_follows() -> None:
    helper = agent([call("pay", amount=1), say("done")])
    first = await helper.generate("hi")
    heard: list[str] = []
    for name in ("agent-start", "tool-call-suspended", "turn-end", "finish"):
        helper.on(name, lambda e: heard.append(e.type))
    await helper.approve(first.run_id, first.pending[0].tool_call_id)
    assert heard == ["turn-end", "turn-end", "finish"]


async def test_a_handler_may_decide_the_call_that_it_hears_of() -> None:
    helper = agent([calls(call("pay", amount=1), call("look", what="a")), say("done")])

    async def approve(event: Any) -> None:
        await helper.approve(event.run_id, event.tool_call_id)

    helper.on("tool-call-suspended", approve)
    result = await asyncio.wait_for(helper.generate("hi"), BOUND_S)
    assert (result.status, result.text) == ("success", "done")
    assert [r for role, r in told(result.messages) if role == "tool"] == ["paid 1", "saw a"]


async def test_calls_approved_at_the_same_time_each_run_once_and_none_is_in_doubt() -> None:
    ran: list[int] = []

    @tool(needs_approval=True)
    async def send(n: int) -> str:
        """Send, slowly for the first ones."""
        ran.append(n)
        await asyncio.sleep(0.02 * (n % 3))
        return f"sent {n}"

    step = calls(*(call("send", n=n) for n in range(8)))
    helper = Agent("helper", tools=[send], tool_concurrency=40)
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel([step, say("done")]))
    first = await helper.generate("hi")
    results = await asyncio.gather(
        *(helper.approve(first.run_id, p.tool_call_id) for p in first.pending)
    )
    assert sorted(ran) == list(range(8))
    assert helper.state().status == "success"
    assert results[-1].status == "success"
    shown = [r for role, r in told(helper.state().messages) if role == "tool"]
    assert shown == [f"sent {n}" for n in range(8)]


async def test_many_decisions_use_up_no_attempts() -> None:
    step = calls(*(call("pay", amount=n) for n in range(12)))
    helper = agent([step, say("done")])
    first = await helper.generate("hi")
    ids = [p.tool_call_id for p in first.pending]
    await asyncio.gather(*(helper.approve(first.run_id, c) for c in ids[:-1]))
    assert helper.state().status == "suspended"
    last = await helper.deny(first.run_id, ids[-1], "no")
    assert (last.status, last.text) == ("success", "done")


async def test_the_limit_of_steps_may_be_given_with_the_input() -> None:
    helper = agent(ScriptedModel(lambda prompt: call("look", what="x")))
    result = await helper.generate("hi", max_iterations=3)
    assert (result.status, result.finish_reason) == ("success", "max-iterations")
    assert [m.role for m in result.messages].count(Role.ASSISTANT) == 3


async def test_a_list_as_output_is_the_value_itself() -> None:
    helper = agent([say('{"value": [{"score": 1}, {"score": 2}]}')], output=list[Verdict])
    result = await helper.generate("judge")
    assert result.output == [Verdict(score=1), Verdict(score=2)]


async def test_a_result_has_what_the_validator_returned() -> None:
    def doubled(verdict: Verdict, _: Any) -> Verdict:
        return Verdict(score=verdict.score * 2)

    helper = agent([say('{"score": 4}')], output=Verdict, output_validator=doubled)
    assert (await helper.generate("judge")).output == Verdict(score=8)


async def test_threads_keep_apart_and_continue() -> None:
    model = answers(say("ok"))
    helper = agent(model)
    await helper.generate("one", thread_id="a")
    await helper.generate("two", thread_id="b")
    await helper.generate("three", thread_id="a")
    await helper.generate("four")
    assert [[m.text for m in p.messages] for p in model.prompts] == [
        ["one"],
        ["two"],
        ["one", "ok", "three"],
        ["four"],
    ]


async def test_an_agent_without_history_sees_its_own_input_alone_and_the_thread_keeps_all() -> None:
    model = ScriptedModel([say("one"), call("look", what="x"), say("two")])
    helper = agent(model, memory=Memory(history="none", titles=False))
    await helper.generate("first", thread_id="t")
    await helper.generate("second", thread_id="t")
    assert [[m.role for m in p.messages] for p in model.prompts] == [
        ["user"],
        ["user"],
        ["user", "assistant", "tool"],
    ]
    assert model.prompts[-1].messages[0].text == "second"


async def test_runs_on_several_threads_go_on_at_once() -> None:
    together = asyncio.Barrier(3)

    async def meet(prompt: Prompt) -> Reply:
        await asyncio.wait_for(together.wait(), BOUND_S)
        return say(prompt.messages[-1].text)

    helper = agent(ScriptedModel(meet))
    results = await asyncio.gather(*(helper.generate(f"q{n}", thread_id=f"t{n}") for n in range(3)))
    assert [r.text for r in results] == ["q0", "q1", "q2"]


async def test_users_see_nothing_of_each_other_under_the_same_thread_id() -> None:
    model = answers(say("ok"))
    helper = agent(model)
    await helper.generate("ann's secret", thread_id="t", resource_id="ann")
    await helper.generate("hello", thread_id="t", resource_id="bob")
    assert [m.text for m in model.prompts[-1].messages] == ["hello"]


async def test_a_first_turn_names_its_thread_and_only_the_first() -> None:
    model = ScriptedModel(
        lambda prompt: say("fine"), background={"title": [say('**"Late order"**'), say("Other")]}
    )
    helper = agent(model)
    await helper.generate("why is my order so late", thread_id="t", resource_id="ann")
    await helper.generate("and why is it broken as well", thread_id="t", resource_id="ann")
    await helper.wait_for_memory()
    head = await helper.runtime.journal.heads.get("ann", "t")
    assert head.title == "Late order"
    assert [p.task for p in model.prompts].count("title") == 1


async def test_a_script_cannot_run_an_agent_where_a_loop_runs() -> None:
    helper = agent([say("never")])
    with pytest.raises(ConfigurationError, match=r"await agent\.generate"):
        helper.run_sync("hi")
    assert helper.state().status == "idle"


def test_a_script_reads_why_its_run_cannot_begin() -> None:
    helper = agent([say("never")])
    with pytest.raises(InvalidRequest, match="at least 1"):
        helper.run_sync("hi", max_iterations=0)


def test_a_script_runs_an_agent_without_a_loop_and_goes_on_with_its_thread() -> None:
    model = ScriptedModel([say("Good morning."), say("As I said.")])
    helper = agent(model)
    first = helper.run_sync("hi", thread_id="t", resource_id="ann")
    second = helper.run_sync("hi again", thread_id="t", resource_id="ann")
    assert (first.text, second.text) == ("Good morning.", "As I said.")
    assert len(model.turns[1].messages) == 3


async def test_a_plain_function_in_a_thread_runs_an_agent() -> None:
    helper = agent([say("from a thread")])
    assert (await asyncio.to_thread(helper.run_sync, "hi")).text == "from a thread"


def test_an_agent_works_in_one_asyncio_run_after_the_other() -> None:
    scripts = agent([call("pay", amount=1), say("done"), say("again")])
    scripts.on("finish", lambda e: None)
    first = asyncio.run(scripts.generate("hi", thread_id="t"))
    assert first.status == "suspended"
    second = asyncio.run(scripts.approve(first.run_id, first.pending[0].tool_call_id))
    assert second.text == "done"

    async def stream() -> list[str]:
        return [e.type async for e in scripts.stream("hi", thread_id="t")]

    assert asyncio.run(stream())[-1] == "agent-end"
