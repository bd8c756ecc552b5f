"""What goes wrong while a run is set aside: deaths, cancels, a database that is away, other branches."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Approval, Limits, Memory, ObservationalMemory, tool
from layover.errors import ModelError, RetryableError
from layover.files.store import Files, thread_file_facts
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.plugins.memory.condenses.compact import compact
from layover.recovery.sweep import sweep
from layover.runs.accept import StartRun, make_request_key, send_message, start_run
from layover.runs.cancel import cancel
from layover.runs.messages import send, withdraw_again
from layover.threads.messages import list_messages
from layover.threads.threads import delete
from layover.values.deployment.access import Actor
from layover.values.message import FilePart, Role, TextPart
from layover.values.runs.payload import CompactPayload
from layover.values.runs.run import OnBusy, OnWaiting, Status
from support.worlds.journal import instead
from support.worlds.runs import ANN, Bench, without_decisions

PAID: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_is_paid() -> None:
    PAID.clear()


@tool(needs_approval=True)
async def pay(amount: float) -> str:
    """Pay."""
    PAID.append(amount)
    return f"paid {amount:g}"


@tool(needs_approval=True, to_message=lambda result: {"name": "receipt", "data": result})
async def bill(amount: float) -> str:
    """Bill, with a receipt for the person."""
    return f"billed {amount:g}"


KEPT = Approval(by=["all"], requester=True, when_edited="keep")
MEMBER = Actor(sub=ANN, groups=frozenset({"all"}))


@tool(
    name="bill",
    needs_approval=KEPT,
    to_message=lambda result: {"name": "receipt", "data": result},
)
async def bill_on(amount: float) -> str:
    """Bill, also if the wish was left for another branch."""
    return f"billed {amount:g}"


def bench_of(*replies: Any, tools: Any = (pay, bill), **agent: Any) -> Bench:
    return Bench(Agent("shop", model="m", tools=list(tools), **agent), list(replies))


async def waits(bench: Bench, text: str = "pay 7", **options: Any) -> str:
    run_id = await bench.start(text, **options)
    assert await bench.drive(run_id) == "suspended"
    return run_id


async def listed(bench: Bench) -> list[str]:
    """What a reader of the thread is shown."""
    page = await list_messages(bench.plain, ANN, "t1", None, 100, None)
    ids = [m.id for m in page.items]
    assert len(set(ids)) == len(ids)
    return [_words(m) for m in page.items]


def _words(message: Any) -> str:
    if message.role is Role.TOOL:
        return str(message.content[0].result)
    if message.role is Role.CUSTOM:
        return "receipt"
    return str(message.text) or "calls"


async def stored(bench: Bench) -> list[str]:
    return [_words(m) for m in await bench.stored()]


async def both(bench: Bench) -> list[str]:
    """The conversation, the same for readers and in the database."""
    shown = await listed(bench)
    assert shown == await stored(bench)
    # A `to_message` message has the time of its step, wherever it stands.
    times = [m.created_at for m in await bench.stored() if m.role is not Role.CUSTOM]
    assert times == sorted(times)
    return shown


async def test_a_run_that_is_cancelled_before_its_first_turn_follows_the_one_that_waits() -> None:
    bench = bench_of(call("pay", amount=7), say("Sun."), say("Paid."))
    first = await waits(bench)
    await cancel(bench.plain, ANN, await bench.start("weather?"))
    await bench.go("tomorrow?")
    assert await both(bench) == ["pay 7", "calls", "weather?", "tomorrow?", "Sun."]
    await bench.answer(first, "call_1", "approve")
    assert await both(bench) == [
        "pay 7",
        "calls",
        "paid 7",
        "weather?",
        "tomorrow?",
        "Sun.",
        "Paid.",
    ]


async def test_runs_that_a_missing_database_did_not_save_keep_their_order() -> None:
    bench = bench_of(call("pay", amount=7), say("Sun."))
    first = await waits(bench)
    bench.threads.away = True
    await cancel(bench.plain, ANN, await bench.start("weather?"))
    await cancel(bench.plain, ANN, first)
    assert (await bench.head()).unsaved
    bench.threads.away = False
    await bench.go("tomorrow?")
    shown = await both(bench)
    assert [shown[0], *shown[3:]] == ["pay 7", "weather?", "tomorrow?", "Sun."]


async def test_an_unsaved_run_that_follows_one_that_waits_is_saved_behind_it() -> None:
    bench = bench_of(call("pay", amount=7), say("Sun."))
    await waits(bench)
    bench.threads.away = True
    await cancel(bench.plain, ANN, await bench.start("weather?"))
    bench.threads.away = False
    await bench.go("tomorrow?")
    assert await both(bench) == ["pay 7", "calls", "weather?", "tomorrow?", "Sun."]


async def test_a_run_that_ends_before_it_heard_the_others_leaves_their_messages_newest() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Sun."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    await bench.decide(first, "call_1", "approve")
    await bench.plain.journal.commands.request_cancel(ANN, first)
    assert await bench.drive(first) == "over"
    assert (await bench.run(first)).status is Status.CANCELLED
    shown = await both(bench)
    assert [shown[0], *shown[3:]] == ["pay 7", "weather?", "It rains."]
    await bench.go("tomorrow?")
    shown = await both(bench)
    assert [shown[0], *shown[3:]] == ["pay 7", "weather?", "It rains.", "tomorrow?", "Sun."]


async def test_a_run_that_took_its_thread_and_was_cancelled_leaves_their_messages_newest() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Sun."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    await bench.decide(first, "call_1", "approve")
    await taken_back(bench, first)
    await cancel(bench.plain, ANN, first)
    shown = await both(bench)
    assert [shown[0], *shown[3:]] == ["pay 7", "weather?", "It rains."]
    await bench.go("tomorrow?")
    shown = await both(bench)
    assert [shown[0], *shown[3:]] == ["pay 7", "weather?", "It rains.", "tomorrow?", "Sun."]


async def taken_back(bench: Bench, run_id: str) -> None:
    """The run has its thread again, and its process dies before it does anything with it."""
    from layover.runs.aside import take_back

    execution = str((await bench.meta(run_id)).execution)
    log = await bench.plain.journal.writers.acquire(ANN, run_id, execution)
    assert log is not None
    await take_back(bench.plain, log, waits=True)
    assert (await bench.head()).active_run == run_id


async def test_a_message_to_a_run_that_ends_before_it_heard_the_others_comes_behind_them() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    await bench.start("quick!", on_waiting=OnWaiting.STEER)
    await bench.decide(first, "call_1", "approve")
    await taken_back(bench, first)
    await cancel(bench.plain, ANN, first)
    assert (await both(bench))[3:] == ["weather?", "It rains.", "quick!"]


async def test_what_is_said_while_a_call_is_asked_again_follows_what_was_said_before() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Sun."), say("Paid."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    _redefine(bench)
    assert await bench.answer(first, "call_1", "approve") == "suspended"
    assert PAID == []
    await bench.go("tomorrow?")
    assert await both(bench) == ["pay 7", "calls", "weather?", "It rains.", "tomorrow?", "Sun."]
    assert await bench.answer(first, "call_1", "approve") == "over"
    expected = [
        "pay 7",
        "calls",
        "paid 7 to x",
        "weather?",
        "It rains.",
        "tomorrow?",
        "Sun.",
        "Paid.",
    ]
    assert await both(bench) == expected
    assert [m.text for m in bench.model.turns[-1].messages][3:-1] == expected[3:-1]


def _redefine(bench: Bench) -> None:
    """A deployment gives the tool another parameter."""

    @tool(name="pay", needs_approval=True)
    async def pay_to(amount: float, to: str = "x") -> str:
        """Pay."""
        PAID.append(amount)
        return f"paid {amount:g} to {to}"

    bench.agents["shop"] = Agent("shop", model="m", tools=[pay_to, bill])


TWO = calls(call("bill", amount=7, tool_call_id="c1"), call("pay", amount=8, tool_call_id="c2"))


async def test_a_message_of_a_tool_comes_behind_what_was_said_while_its_step_waited() -> None:
    bench = bench_of(TWO, say("It rains."), say("Sun."), say("Both."))
    first = await waits(bench)
    await bench.answer(first, "c1", "approve")
    await bench.go("weather?")
    assert await both(bench) == ["pay 7", "calls", "billed 7", "weather?", "It rains."]
    await bench.go("tomorrow?")
    await bench.answer(first, "c2", "approve")
    assert await both(bench) == [
        "pay 7",
        "calls",
        "billed 7",
        "paid 8",
        "weather?",
        "It rains.",
        "tomorrow?",
        "Sun.",
        "receipt",
        "Both.",
    ]


async def test_a_message_of_a_tool_that_ran_while_another_run_works_comes_behind_it() -> None:
    bench = bench_of(call("bill", amount=7), say("It rains."), say("Billed."))
    first = await waits(bench)
    second = await bench.start("weather?")
    await bench.answer(first, "call_1", "approve")
    await bench.drive(second)
    await bench.drive(first)
    assert await both(bench) == [
        "pay 7",
        "calls",
        "billed 7",
        "weather?",
        "It rains.",
        "receipt",
        "Billed.",
    ]


async def test_a_message_of_a_tool_of_a_run_that_ends_set_aside_is_in_the_conversation() -> None:
    bench = bench_of(call("bill", amount=7), say("It rains."), max_iterations=1)
    first = await waits(bench)
    second = await bench.start("weather?")
    await bench.answer(first, "call_1", "approve")
    await bench.drive(second)
    await bench.drive(first)
    assert (await bench.run(first)).status is Status.SUCCESS
    assert await both(bench) == ["pay 7", "calls", "billed 7", "weather?", "It rains.", "receipt"]


async def test_a_run_goes_on_in_its_own_branch_if_the_others_chose_another() -> None:
    replies = say("Hello."), call("bill", amount=7), say("It rains."), say("Billed.")
    bench = bench_of(*replies, tools=[bill_on])
    start = await bench.go("hi")
    first = await waits(bench)
    second = await bench.start("weather?", parent_id=start.messages[-1].id)
    await bench.drive(second)
    assert await both(bench) == ["hi", "Hello.", "weather?", "It rains."]
    await bench.answer(first, "call_1", "approve", actor=MEMBER)
    assert await both(bench) == [
        "hi",
        "Hello.",
        "pay 7",
        "calls",
        "billed 7",
        "receipt",
        "Billed.",
    ]
    assert not [m for m in bench.model.turns[-1].messages if "weather" in m.text]


async def test_a_message_to_a_thread_whose_queue_waits_does_not_overtake_it() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Third."))
    first = await bench.start("pay 7")
    second = await bench.start("weather?", on_busy=OnBusy.ENQUEUE)
    await _suspend(bench, first)
    third = await bench.start("and?", on_busy=OnBusy.ENQUEUE)
    assert (await bench.head()).active_run == second
    await bench.drive(second)
    await bench.drive(third)
    assert await both(bench) == ["pay 7", "calls", "weather?", "It rains.", "and?", "Third."]


async def _suspend(bench: Bench, run_id: str) -> None:
    """Drive the run until its call waits, with a process that dies before it hands the thread on."""
    from layover.runs import turn as turns

    async def dies(*_: Any) -> bool:
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "hand_on", dies)
        assert await bench.drive(run_id) == "suspended"


async def test_the_sweeper_hands_a_thread_on_once_although_two_look() -> None:
    import asyncio

    bench = bench_of(call("pay", amount=7), say("It rains."))
    first = await bench.start("pay 7")
    second = await bench.start("weather?", on_busy=OnBusy.ENQUEUE)
    await _suspend(bench, first)
    bench.clock.advance(bench.plain.settings.sweep_patience * 61)
    await asyncio.gather(sweep(bench.plain), sweep(bench.plain))
    assert bench.callbacks.started.count((ANN, second, 1)) == 1
    assert (await bench.head()).waiting_runs == (first,)
    await bench.drive(second)
    assert await both(bench) == ["pay 7", "calls", "weather?", "It rains."]


async def test_a_withdrawal_is_made_whole_by_the_request_that_is_repeated() -> None:
    bench = bench_of(call("pay", amount=7), say("Then not."), on_waiting="withdraw")
    first = await waits(bench)
    request = StartRun("never mind")
    key = make_request_key("k", "t1", request, bench.clock.now())

    with pytest.raises(RetryableError):
        await start_run(without_decisions(bench.plain), Actor(sub=ANN), "t1", request, key)
    run = await start_run(bench.plain, Actor(sub=ANN), "t1", request, key)
    assert run.id == first
    assert (await bench.call(first, "call_1")).decision.kind == "withdrawn"
    item = await bench.item(first, "call_1")
    assert await bench.drive(first, call=item, output={"layover": "decided"}) == "over"
    assert await both(bench) == [
        "pay 7",
        "calls",
        (await stored(bench))[2],
        "never mind",
        "Then not.",
    ]
    again = await start_run(bench.plain, Actor(sub=ANN), "t1", request, key)
    assert again.id == first


async def test_a_message_withdraws_no_call_that_the_run_makes_in_answer_to_it() -> None:
    """The call that waited is decided as the message arrives: the run goes on with it at once."""
    script = [call("pay", amount=7), call("pay", amount=8, tool_call_id="call_2")]
    bench = bench_of(*script, on_waiting="withdraw")
    run_id = await waits(bench)
    commands = bench.plain.journal.commands

    async def go_on_with(*args: Any) -> bool:
        is_new = await commands.add_message(*args)
        await bench.decide(run_id, "call_1", "approve")
        item = await bench.item(run_id, "call_1")
        output = {"layover": "decided"}
        assert await bench.drive(run_id, call=item, output=output) == "suspended"
        return is_new

    quick = instead(commands, add_message=go_on_with)
    runtime = replace(bench.plain, journal=replace(bench.plain.journal, commands=quick))
    run = await start_run(runtime, Actor(sub=ANN), "t1", StartRun("pay 8 instead"))
    assert run.id == run_id
    assert (await bench.call(run_id, "call_1")).decision.kind == "approved"
    assert (await bench.call(run_id, "call_2")).decision is None


async def test_a_withdrawal_with_a_file_is_made_whole_by_the_request_that_is_repeated() -> None:
    bench = bench_of(call("pay", amount=7), say("Then not."), on_waiting="withdraw")
    first = await waits(bench)
    facts = thread_file_facts("f1", "t1", "a.csv", "text/csv", b"1,2", bench.clock.now())
    await Files(bench.plain.blobs, ANN).keep(facts, b"1,2")
    request = StartRun([TextPart(text="never mind"), FilePart(file_id="f1")])
    key = make_request_key("k", "t1", request, bench.clock.now())
    with pytest.raises(RetryableError):
        await start_run(without_decisions(bench.plain), Actor(sub=ANN), "t1", request, key)
    await start_run(bench.plain, Actor(sub=ANN), "t1", request, key)
    assert (await bench.call(first, "call_1")).decision.kind == "withdrawn"


async def test_a_repeated_request_withdraws_no_budget_that_is_asked_for_since() -> None:
    limits = Limits(tool_calls=0)
    bench = bench_of(call("pay", amount=7), say("Then not."), on_waiting="withdraw", limits=limits)
    run_id = await bench.start("pay 7")
    assert await bench.drive(run_id) == "suspended"
    await send(bench.plain, Actor(sub=ANN), run_id, [TextPart(text="never mind")])
    await withdraw_again(bench.plain, Actor(sub=ANN), run_id, lambda _: True)
    [budget] = (await bench.run(run_id)).pending
    assert budget.tool_name == "layover.budget"


async def test_a_branch_whose_call_is_the_last_at_work_hands_the_thread_on() -> None:
    bench = bench_of(
        call("pay", amount=7, tool_call_id="c0"), TWO, say("Paid."), tool_concurrency=2
    )
    first = await waits(bench)
    second = await waits(bench, "both")
    await bench.decide(second, "c1", "approve")
    assert await bench.answer(first, "c0", "approve") == "left"
    assert (await bench.head()).ready == (first,)
    await bench.branch(second, "c1")
    assert (ANN, first, 2) in bench.callbacks.started
    assert await bench.drive(first) == "over"
    assert (await bench.run(first)).text == "Paid."


async def test_readers_see_what_others_said_while_a_run_that_took_its_thread_back_thinks() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    await bench.start("quick!", on_waiting=OnWaiting.STEER)
    await bench.decide(first, "call_1", "approve")
    await taken_back(bench, first)
    assert await listed(bench) == ["pay 7", "calls", "weather?", "It rains.", "quick!"]


async def test_a_message_that_a_failing_run_did_not_read_stays_behind_what_it_said() -> None:
    def reply(prompt: Any) -> Any:
        texts = [m.text for m in prompt.messages]
        if texts[-1] == "hurry":
            return ModelError("down")
        return say("Sun.") if "tomorrow?" in texts else call("pay", amount=7, tool_call_id="c1")

    bench = Bench(Agent("shop", model="m", tools=[pay]), ScriptedModel(reply))
    first = await waits(bench)
    await bench.start("hurry", on_waiting=OnWaiting.STEER)
    await bench.answer(first, "c1", "approve")
    assert (await bench.run(first)).status is Status.FAILED
    assert await both(bench) == ["pay 7", "calls", "paid 7", "hurry"]
    await bench.go("tomorrow?")
    assert await both(bench) == ["pay 7", "calls", "paid 7", "hurry", "tomorrow?", "Sun."]


LONG = "word " * 900


async def test_nothing_is_condensed_of_an_open_call_and_what_follows_it_is() -> None:
    texts: list[str] = []

    def observe(prompt: Any) -> Any:
        texts.append("".join(m.text for m in prompt.messages))
        return say("* INFO (00:00) words")

    script = [
        say(LONG),
        call("pay", amount=7, tool_call_id="c1"),
        say(LONG),
        say(LONG),
        say(f"Paid. {LONG}"),
    ]
    memory = Memory(compaction=ObservationalMemory(message_tokens=2_000), last_messages=2)
    model = ScriptedModel(script, background={"observer": observe})
    bench = Bench(Agent("shop", model="m", tools=[pay], memory=memory), model)
    bench.observe_ahead()
    await bench.go("hi")
    await bench.remember()
    first = await waits(bench)
    for _ in range(2):
        await bench.go("tell me more")
        await bench.remember()
    assert [text for text in texts if "tell me more" in text]
    assert not [text for text in texts if "pay 7" in text]
    await bench.answer(first, "c1", "approve")
    await compact(bench.plain, bench.payload(first, CompactPayload))
    assert len([text for text in texts if "paid 7" in text and "pay 7" in text]) == 1
    await both(bench)


async def test_the_end_of_a_sub_agent_in_the_background_is_told_behind_what_others_said() -> None:
    aide = Agent("aide", instructions="aide", model="m", tools=[pay])

    def reply(prompt: Any) -> Any:
        texts = [m.text for m in prompt.messages]
        if (prompt.system or "").startswith("aide"):
            return say("aide paid") if prompt.messages[-1].role is Role.TOOL else ask
        if texts[-1] == "weather?":
            return say("It rains.")
        if texts[-1] == "pay 7":
            return call("aide", input="pay", tool_call_id="a1")
        return say("It pays." if prompt.messages[-1].role is Role.TOOL else "All paid.")

    ask = call("pay", amount=7, tool_call_id="c1")
    shop = Agent("shop", model="m", tools=[aide.as_tool("x", background=True)])
    bench = Bench(shop, ScriptedModel(reply))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    assert await bench.answer(first, "c1", "approve") == "over"
    shown = [
        m.text for m in await bench.stored() if m.role in (Role.USER, Role.ASSISTANT) and m.text
    ]
    assert shown == ["pay 7", "It pays.", "weather?", "It rains.", "All paid."]
    await both(bench)


async def test_a_deleted_thread_ends_the_runs_that_are_set_aside() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    await delete(bench.plain, ANN, "t1")
    run = await bench.plain.journal.runs.get(ANN, first)
    assert run is None or run.status.over
    assert f"{first}-1" in bench.callbacks.stopped


async def test_the_conversation_is_whole_if_a_run_ends_with_a_call_that_never_began() -> None:
    # The second call has not begun, and its place is what the next message follows.
    bench = bench_of(say("Hi."), TWO, say("Ann."), say("Still Ann."))
    await bench.go("my name is Ann")
    first = await waits(bench)
    second = await bench.start("what is my name?")
    await cancel(bench.plain, ANN, first)
    assert await bench.drive(second) == "over"
    said = ["my name is Ann", "Hi.", "pay 7", "calls", "Cancelled: bill was not run"]
    assert await both(bench) == [*said, "what is my name?", "Ann."]
    await bench.go("and now?")
    texts = [message.text for message in bench.model.turns[-1].messages]
    assert [text for text in texts if text][:2] == ["my name is Ann", "Hi."]
    # As every provider wants it, each call that the model is shown has its result.
    prompt = bench.model.turns[-1].messages
    asked = [c.tool_call_id for message in prompt for c in message.tool_calls]
    results = [m.content[0].tool_call_id for m in prompt if m.role is Role.TOOL]
    assert asked == results == ["c1"]


async def test_a_run_follows_the_places_of_one_that_ended_without_the_database() -> None:
    bench = bench_of(TWO, say("Sun."))
    first = await waits(bench)
    second = await bench.start("weather?")
    bench.threads.away = True
    await cancel(bench.plain, ANN, first)
    bench.threads.away = False
    assert await bench.drive(second) == "over"
    said = ["pay 7", "calls", "Cancelled: bill was not run"]
    assert await both(bench) == [*said, "weather?", "Sun."]


async def test_a_result_that_comes_late_is_read_by_every_later_run() -> None:
    bench = bench_of(TWO, say("It rains."), say("Both."), say("Yes."), tool_concurrency=2)
    first = await waits(bench)
    await bench.answer(first, "c2", "approve")
    await bench.go("weather?")
    await bench.answer(first, "c1", "approve")
    await bench.go("did you?")
    said = ["pay 7", "calls", "billed 7", "paid 8", "weather?", "It rains.", "receipt", "Both."]
    assert await both(bench) == [*said, "did you?", "Yes."]
    results = [m.model_output for m in bench.model.turns[-1].messages if m.role is Role.TOOL]
    assert results == ["billed 7", "paid 8"]


async def test_a_message_to_a_run_that_is_cancelled_while_it_is_set_aside_stays() -> None:
    bench = bench_of(call("bill", amount=7), say("It rains."), say("Sun."))
    first = await waits(bench)
    await bench.go("weather?")
    await send_message(bench.plain, Actor(sub=ANN), first, "the other account")
    await cancel(bench.plain, ANN, first)
    said = ["pay 7", "calls", "Cancelled: bill was not run", "weather?", "It rains."]
    assert await listed(bench) == [*said, "the other account"]
    await bench.go("tomorrow?")
    assert await both(bench) == [*said, "the other account", "tomorrow?", "Sun."]
    assert not (await bench.head()).unsaved


async def test_a_message_to_a_cancelled_run_comes_behind_the_run_at_work() -> None:
    bench = bench_of(call("bill", amount=7), say("It rains."), say("Sun."))
    first = await waits(bench)
    second = await bench.start("weather?")
    await send_message(bench.plain, Actor(sub=ANN), first, "the other account")
    await send_message(bench.plain, Actor(sub=ANN), first, "please")
    queued = await bench.start("tomorrow?", on_busy=OnBusy.ENQUEUE)
    await cancel(bench.plain, ANN, first)
    said = ["pay 7", "calls", "Cancelled: bill was not run", "weather?"]
    left = ["the other account", "please"]
    assert await listed(bench) == [*said, *left]
    # The sweeper keeps its records until they have their place.
    bench.clock.advance(timedelta(hours=2))
    await sweep(bench.plain)
    await bench.drive(second)
    assert await listed(bench) == [*said, "It rains.", *left, "tomorrow?"]
    await bench.drive(queued)
    assert await both(bench) == [*said, "It rains.", *left, "tomorrow?", "Sun."]
    head = await bench.head()
    assert (head.unsaved, head.unplaced) == ((), ())


async def test_the_message_of_a_queued_run_that_is_cancelled_stays() -> None:
    bench = bench_of(say("It rains."), say("Sun."))
    first = await bench.start("weather?")
    texts = ("one", "two", "three")
    queued = [await bench.start(text, on_busy=OnBusy.ENQUEUE) for text in texts]
    await send_message(bench.plain, Actor(sub=ANN), queued[0], "more of one")
    await cancel(bench.plain, ANN, queued[0])
    await cancel(bench.plain, ANN, queued[2])
    left = ["one", "more of one", "three"]
    assert await listed(bench) == ["weather?", *left]
    await bench.drive(first)
    assert await listed(bench) == ["weather?", "It rains.", *left, "two"]
    await bench.drive(queued[1])
    assert await both(bench) == ["weather?", "It rains.", *left, "two", "Sun."]
    assert [message.text for message in bench.model.turns[-1].messages][2:] == [*left, "two"]


async def test_the_message_of_a_queued_run_that_is_cancelled_stays_in_the_branch_it_begins() -> (
    None
):
    bench = bench_of(say("It rains."), say("Sun."))
    await bench.go("weather?")
    second = await bench.start("tomorrow?")
    options: dict[str, Any] = {"parent_id": None, "on_busy": OnBusy.ENQUEUE}
    branch = await bench.start("from the beginning", **options)
    await cancel(bench.plain, ANN, branch)
    await bench.drive(second)
    assert await both(bench) == ["weather?", "It rains.", "tomorrow?", "Sun."]
    await sweep(bench.plain)
    input = (await bench.meta(branch)).input
    page = await list_messages(bench.plain, ANN, "t1", input.id, 9, None)
    assert [message.text for message in page.items] == ["from the beginning"]


async def test_a_message_behind_one_of_a_tool_that_has_no_place_yet_follows_what_was_said() -> None:
    bench = bench_of(TWO, say("Sun."), say("Both."))
    first = await waits(bench)
    await bench.answer(first, "c1", "approve")
    page = await list_messages(bench.plain, ANN, "t1", None, 100, None)
    [receipt] = [message for message in page.items if message.role is Role.CUSTOM]
    assert await bench.drive(await bench.start("weather?", parent_id=receipt.id)) == "over"
    await bench.answer(first, "c2", "approve")
    said = ["pay 7", "calls", "billed 7", "paid 8", "weather?", "Sun."]
    assert await both(bench) == [*said, "receipt", "Both."]
