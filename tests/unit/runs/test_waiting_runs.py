"""A run that only waits does not hold its thread: the conversation goes on
(docs/run-lifecycle.md#set-aside)."""

from dataclasses import replace
from typing import Any

import pytest

from layover import Agent, Approval, tool
from layover.context.waiting import WAITS
from layover.errors import ThreadBusy
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.records.threads import live_messages
from layover.runs.accept import send_message
from layover.threads.messages import list_messages
from layover.threads.threads import get as thread_of
from layover.values.deployment.access import Actor
from layover.values.message import Message, Role
from layover.values.runs.run import MAX_WAITING_RUNS, OnBusy, OnWaiting, Status
from support.worlds.runs import ANN, Bench

PAID: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_is_paid() -> None:
    PAID.clear()


@tool(needs_approval=True)
async def pay(amount: float) -> str:
    """Pay."""
    PAID.append(amount)
    return f"paid {amount:g}"


@tool(name="pay", needs_approval=Approval(by=["all"], requester=True, when_edited="keep"))
async def pay_on(amount: float) -> str:
    """Pay, also if the wish was left for another branch."""
    return await pay.fn(amount)


MEMBER = Actor(sub=ANN, groups=frozenset({"all"}))


def kept_bench_of(*replies: Any) -> Bench:
    return Bench(Agent("shop", model="m", tools=[pay_on]), list(replies))


def bench_of(*replies: Any, **agent: Any) -> Bench:
    return Bench(Agent("shop", model="m", tools=[pay], **agent), list(replies))


async def waits(bench: Bench, text: str = "pay 7") -> str:
    """Start a run that waits for its approval."""
    run_id = await bench.start(text)
    assert await bench.drive(run_id) == "suspended"
    return run_id


def shown(messages: Any) -> list[tuple[str, Any]]:
    """Roles and texts, of results the model's view."""
    return [(str(m.role), m.model_output if m.role is Role.TOOL else m.text) for m in messages]


def prompts(bench: Bench) -> list[list[tuple[str, Any]]]:
    return [shown(turn.messages) for turn in bench.model.turns]


async def listed(bench: Bench) -> list[Message]:
    page = await list_messages(bench.plain, ANN, "t1", None, 100, None)
    return list(page.items)


async def thread_in(bench: Bench) -> Any:
    return await thread_of(bench.plain, ANN, "t1")


async def test_a_message_while_a_run_waits_is_answered_at_once_by_another_run() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."))
    first = await waits(bench)
    second = await bench.start("weather?")
    assert second != first
    assert await bench.drive(second) == "over"
    assert (await bench.run(second)).text == "It rains."
    assert (await bench.run(first)).status is Status.SUSPENDED
    thread = await thread_in(bench)
    assert thread.active_run is None
    assert [(run.id, run.status) for run in thread.waiting_runs] == [(first, Status.SUSPENDED)]
    assert PAID == []


async def test_the_other_run_reads_that_the_call_waits_and_nobody_stores_that() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."))
    await waits(bench)
    await bench.drive(await bench.start("weather?"))
    assert prompts(bench)[1] == [
        ("user", "pay 7"),
        ("assistant", ""),
        ("tool", WAITS),
        ("user", "weather?"),
    ]
    everything = [*await listed(bench), *await bench.stored()]
    assert not [m for m in everything if m.role is Role.TOOL]
    assert [(str(m.role), m.text) for m in await listed(bench)] == [
        ("user", "pay 7"),
        ("assistant", ""),
        ("user", "weather?"),
        ("assistant", "It rains."),
    ]


def with_desk(*replies: Any, **agent: Any) -> Bench:
    """An agent whose sub-agent pays."""
    desk = Agent("desk", model="m", tools=[pay])
    tools = [pay, desk.as_tool("Pays.")]
    return Bench(Agent("shop", model="m", tools=tools, tool_concurrency=3, **agent), list(replies))


DELEGATES = call("desk", input="pay 7", tool_call_id="d1")
BELOW = call("pay", amount=7, tool_call_id="c1")


async def test_a_run_whose_sub_agent_waits_does_not_hold_its_thread() -> None:
    replies = (DELEGATES, BELOW, say("It rains."), say("It is paid."), say("Paid."))
    bench = with_desk(*replies)
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    assert (await bench.head()).waiting_runs == (first,)
    assert ("tool", WAITS) in prompts(bench)[2]
    assert await bench.answer(first, "c1", "approve") == "over"
    assert PAID == [7]
    texts = [m.text for m in await listed(bench)]
    assert texts == ["pay 7", "", "", "weather?", "It rains.", "Paid."]


async def test_a_run_hears_what_was_said_in_another_branch_once() -> None:
    again = call("pay", amount=8, tool_call_id="c8")
    first_call = call("pay", amount=7, tool_call_id="c7")
    bench = kept_bench_of(
        first_call, say("It rains."), again, say("It snows."), say("Both are paid.")
    )
    first = await waits(bench)
    question = (await bench.meta(first)).input.id
    await bench.drive(await bench.start("weather?", parent_id=question))
    weather = (await listed(bench))[-1]
    assert await bench.answer(first, "c7", "approve", actor=MEMBER) == "suspended"
    await bench.drive(await bench.start("and now?", parent_id=weather.id))
    assert await bench.answer(first, "c8", "approve", actor=MEMBER) == "over"
    heard = [text for _, text in prompts(bench)[-1]]
    assert heard.count("weather?") == 1
    assert heard.count("It rains.") == 1
    assert heard.count("It snows.") == 1


def by_words(prompt: Any) -> Any:
    """Let "both" ask two sub-agents, each of which asks for a payment."""
    text = prompt.messages[-1].text
    if text == "both":
        return calls(DELEGATES, call("desk", input="pay 8", tool_call_id="d2"))
    if text.startswith("pay "):
        amount = int(text.removeprefix("pay "))
        return call("pay", amount=amount, tool_call_id=f"c{amount}")
    return say("done")


async def both_wait(bench: Bench) -> str:
    bench.model = ScriptedModel(by_words)
    bench.runtime = replace(bench.runtime, model=bench.model)
    run_id = await bench.start("both")
    assert await bench.drive(run_id) == "suspended"
    return run_id


async def test_a_run_does_not_hold_its_thread_once_a_branch_settled_one_of_two_sub_agents_calls() -> (
    None
):
    bench = with_desk()
    first = await both_wait(bench)
    await bench.decide(first, "c7", "approve")
    await bench.branch(first, "c7")
    assert PAID == [7]
    second = await bench.start("weather?")
    assert await bench.drive(second) == "over"
    assert (await bench.head()).waiting_runs == (first,)
    assert await bench.answer(first, "c8", "approve") == "over"
    assert PAID == [7, 8]


async def test_a_run_holds_its_thread_while_a_branch_makes_a_call() -> None:
    @tool(needs_approval=True)
    async def refund(amount: float) -> str:
        """Refund."""
        with pytest.raises(ThreadBusy):
            await bench.start("weather?")
        PAID.append(amount)
        return "refunded"

    replies = [
        calls(
            call("refund", amount=7, tool_call_id="c7"), call("refund", amount=8, tool_call_id="c8")
        )
    ]
    bench = Bench(Agent("shop", model="m", tools=[refund], tool_concurrency=3), replies)
    first = await waits(bench, "both")
    await bench.decide(first, "c7", "approve")
    await bench.branch(first, "c7")
    assert PAID == [7]


async def test_a_queued_run_starts_when_the_sub_agent_of_the_one_before_it_waits() -> None:
    bench = with_desk(DELEGATES, BELOW, say("It rains."))
    first = await bench.start("pay 7")
    second = await bench.start("weather?", on_busy=OnBusy.ENQUEUE)
    assert await bench.drive(first) == "suspended"
    assert await bench.drive(second) == "over"


async def test_a_run_holds_its_thread_while_a_sub_agent_works_next_to_one_that_waits() -> None:
    async def slow(_: Any) -> Any:
        with pytest.raises(ThreadBusy):
            await bench.start("weather?")
        return say("Nothing to pay.")

    def reply(prompt: Any) -> Any:
        text = prompt.messages[-1].text
        if text == "both":
            return calls(DELEGATES, call("desk", input="nothing", tool_call_id="d2"))
        return BELOW if text == "pay 7" else slow(prompt)

    bench = with_desk()
    bench.model = ScriptedModel(reply)
    bench.runtime = replace(bench.runtime, model=bench.model)
    assert await bench.drive(await bench.start("both")) == "suspended"


async def test_results_that_are_there_are_among_those_that_wait_in_the_order_of_the_calls() -> None:
    both = calls(
        call("pay", amount=7, tool_call_id="c1"),
        call("pay", amount=8, tool_call_id="c2"),
        call("pay", amount=9, tool_call_id="c3"),
    )
    bench = bench_of(both, say("It rains."), tool_concurrency=3)
    first = await waits(bench)
    await bench.decide(first, "c2", "approve")
    await bench.branch(first, "c2")
    await bench.drive(await bench.start("weather?"))
    results = [m.content[0] for m in bench.model.turns[-1].messages if m.role is Role.TOOL]
    assert [part.tool_call_id for part in results] == ["c1", "c2", "c3"]
    assert [part.result for part in results] == [WAITS, "paid 8", WAITS]


async def test_an_approved_run_goes_on_with_its_results_and_then_what_was_said_meanwhile() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Paid, and take an umbrella."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    assert await bench.answer(first, "call_1", "approve") == "over"
    assert PAID == [7]
    run = await bench.run(first)
    assert (run.status, run.text) == (Status.SUCCESS, "Paid, and take an umbrella.")
    *before, note = prompts(bench)[2]
    assert before == [
        ("user", "pay 7"),
        ("assistant", ""),
        ("tool", "paid 7"),
        ("user", "weather?"),
        ("assistant", "It rains."),
    ]
    assert note[0] == "user"
    assert "went on" in note[1]
    order = [
        ("user", "pay 7"),
        ("assistant", ""),
        ("tool", "paid 7"),
        ("user", "weather?"),
        ("assistant", "It rains."),
        ("assistant", "Paid, and take an umbrella."),
    ]
    assert shown(await bench.stored()) == order
    assert [m.id for m in await listed(bench)] == [m.id for m in await bench.stored()]
    thread = await thread_in(bench)
    assert (thread.active_run, thread.waiting_runs) == (None, ())


async def test_a_later_run_reads_both_in_the_order_of_the_conversation() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Paid."), say("Yes."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    await bench.answer(first, "call_1", "approve")
    await bench.go("all done?")
    assert [text for _, text in prompts(bench)[3]] == [
        "pay 7",
        "",
        "paid 7",
        "weather?",
        "It rains.",
        "Paid.",
        "all done?",
    ]


async def test_a_decision_while_another_run_works_settles_the_call_and_waits_for_the_thread() -> (
    None
):
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Paid."))
    first = await waits(bench)
    second = await bench.start("weather?")
    assert await bench.answer(first, "call_1", "approve") == "left"
    assert PAID == [7]
    assert (await bench.head()).ready == (first,)
    assert len(bench.model.turns) == 1
    await bench.drive(second)
    head = await bench.head()
    assert (head.active_run, head.ready, head.waiting_runs) == (first, (), ())
    assert (ANN, first, 2) in bench.callbacks.started
    assert await bench.drive(first) == "over"
    assert (await bench.run(first)).text == "Paid."
    assert PAID == [7]
    texts = [m.text for m in await bench.stored() if m.text]
    assert texts == ["pay 7", "weather?", "It rains.", "Paid."]


async def test_a_waiting_run_goes_on_before_queued_ones() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Paid."), say("Third."))
    first = await waits(bench)
    second = await bench.start("weather?")
    third = await bench.start("and?", on_busy=OnBusy.ENQUEUE)
    await bench.answer(first, "call_1", "approve")
    await bench.drive(second)
    assert (await bench.head()).active_run == first
    await bench.drive(first)
    assert (await bench.head()).active_run == third
    await bench.drive(third)
    texts = [m.text for m in await bench.stored() if m.text]
    assert texts == ["pay 7", "weather?", "It rains.", "Paid.", "and?", "Third."]


async def test_a_run_in_the_queue_starts_when_the_one_before_it_begins_to_wait() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Paid."))
    first = await bench.start("pay 7")
    second = await bench.start("weather?", on_busy=OnBusy.ENQUEUE)
    assert await bench.drive(first) == "suspended"
    assert (ANN, second, 1) in bench.callbacks.started
    assert await bench.drive(second) == "over"
    await bench.answer(first, "call_1", "approve")
    texts = [m.text for m in await bench.stored() if m.text]
    assert texts == ["pay 7", "weather?", "It rains.", "Paid."]


async def test_a_run_that_waits_itself_gives_the_thread_back_to_one_that_was_decided() -> None:
    bench = bench_of(
        call("pay", amount=7), call("pay", amount=8), say("Paid seven."), say("Paid eight.")
    )
    first = await waits(bench)
    second = await waits(bench, "pay 8")
    assert await bench.answer(first, "call_1", "approve") == "over"
    assert (await bench.run(second)).status is Status.SUSPENDED
    assert prompts(bench)[2][2:-1] == [
        ("tool", "paid 7"),
        ("user", "pay 8"),
        ("assistant", ""),
        ("tool", WAITS),
    ]
    assert await bench.answer(second, "call_2", "approve") == "over"
    assert PAID == [7, 8]
    assert shown(await bench.stored()) == [
        ("user", "pay 7"),
        ("assistant", ""),
        ("tool", "paid 7"),
        ("user", "pay 8"),
        ("assistant", ""),
        ("tool", "paid 8"),
        ("assistant", "Paid seven."),
        ("assistant", "Paid eight."),
    ]


async def test_a_denied_run_goes_on_as_well() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Not paid."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    assert await bench.answer(first, "call_1", "deny", reason="no") == "over"
    assert (await bench.run(first)).text == "Not paid."
    assert PAID == []


async def test_a_waiting_run_that_is_cancelled_leaves_the_thread_as_it_is() -> None:
    from layover.runs.cancel import cancel

    bench = bench_of(call("pay", amount=7), say("It rains."), say("Sun."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    leaf = (await bench.head()).leaf_id
    await cancel(bench.plain, ANN, first)
    head = await bench.head()
    assert (head.leaf_id, head.waiting_runs) == (leaf, ())
    await bench.go("tomorrow?")
    roles = [role for role, _ in prompts(bench)[-1]]
    assert roles == ["user", "assistant", "tool", "user", "assistant", "user"]
    assert "Cancelled" in prompts(bench)[-1][2][1]


async def test_as_many_runs_wait_aside_as_may_and_the_next_message_is_refused() -> None:
    many = [call("pay", amount=n) for n in range(MAX_WAITING_RUNS + 1)]
    bench = bench_of(*many)
    for n in range(MAX_WAITING_RUNS + 1):
        await waits(bench, f"pay {n}")
    with pytest.raises(ThreadBusy):
        await bench.start("and now?")


async def test_an_agent_that_refuses_answers_no_message_while_its_run_waits() -> None:
    bench = bench_of(call("pay", amount=7), on_waiting="refuse")
    first = await waits(bench)
    with pytest.raises(ThreadBusy) as refusal:
        await bench.start("weather?")
    assert refusal.value.ids["run_id"] == first
    assert (await bench.head()).waiting_runs == ()


@pytest.mark.parametrize("by", ["agent", "request"])
async def test_a_message_is_refused_while_the_run_that_waits_is_set_aside_too(by: str) -> None:
    policy = {"on_waiting": "refuse"} if by == "agent" else {}
    chosen = {} if by == "agent" else {"on_waiting": OnWaiting.REFUSE}
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Paid."), say("Sun."), **policy)
    first = await waits(bench)
    await bench.drive(await bench.start("weather?", on_waiting=OnWaiting.ANSWER))
    assert (await bench.head()).waiting_runs == (first,)
    for _ in range(2):
        with pytest.raises(ThreadBusy, match=first):
            await bench.start("tomorrow?", **chosen)
    await bench.answer(first, "call_1", "approve")
    assert (await bench.go("tomorrow?", **chosen)).text == "Sun."


async def test_a_message_that_interrupts_is_not_refused_while_a_run_is_set_aside() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Sun."), on_waiting="refuse")
    await waits(bench)
    await bench.drive(await bench.start("weather?", on_waiting=OnWaiting.ANSWER))
    assert (await bench.go("tomorrow?", on_busy=OnBusy.INTERRUPT)).text == "Sun."


async def test_a_run_at_work_is_what_a_message_meets_while_another_is_set_aside() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Sun."), on_waiting="refuse")
    await waits(bench)
    second = await bench.start("weather?", on_waiting=OnWaiting.ANSWER)
    third = await bench.start("tomorrow?", on_busy=OnBusy.ENQUEUE)
    await bench.drive(second)
    assert await bench.drive(third) == "over"


async def test_a_request_chooses_otherwise_than_its_agent() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), on_waiting="refuse")
    await waits(bench)
    second = await bench.start("weather?", on_waiting=OnWaiting.ANSWER)
    assert await bench.drive(second) == "over"


async def test_a_steered_run_goes_on_waiting_and_reads_the_message_after_its_results() -> None:
    bench = bench_of(call("pay", amount=7), say("Paid to Bea."), on_waiting="steer")
    first = await waits(bench)
    assert await bench.start("to Bea, please") == first
    assert (await bench.run(first)).status is Status.SUSPENDED
    assert [m.text for m in await listed(bench)][-1] == "to Bea, please"
    await bench.answer(first, "call_1", "approve")
    assert prompts(bench)[1][2:] == [("tool", "paid 7"), ("user", "to Bea, please")]
    assert shown(await bench.stored())[2:] == [
        ("tool", "paid 7"),
        ("user", "to Bea, please"),
        ("assistant", "Paid to Bea."),
    ]


async def test_a_message_withdraws_what_waits_and_the_run_goes_on_with_it() -> None:
    bench = bench_of(call("pay", amount=7), say("Then not."), on_waiting="withdraw")
    first = await waits(bench)
    assert await bench.start("never mind") == first
    held = await bench.call(first, "call_1")
    assert (held.decision.kind, held.decision.decided_by) == ("withdrawn", ANN)
    item = await bench.item(first, "call_1")
    assert await bench.drive(first, call=item, output={"layover": "decided"}) == "over"
    assert PAID == []
    last = prompts(bench)[1][-2:]
    assert last[1] == ("user", "never mind")
    assert "wrote again" in last[0][1]
    assert (await bench.run(first)).text == "Then not."


async def test_a_message_that_interrupts_ends_a_run_that_waits() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."))
    first = await waits(bench)
    second = await bench.start("weather?", on_busy=OnBusy.INTERRUPT)
    assert (await bench.run(first)).status is Status.CANCELLED
    await bench.drive(second)
    assert (await bench.head()).waiting_runs == ()


async def test_journal_and_database_show_the_same_conversation_at_every_moment() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Paid."))
    first = await waits(bench)
    moments = [[m.text for m in await listed(bench)]]
    second = await bench.start("weather?")
    moments.append([m.text for m in await listed(bench)])
    await bench.drive(second)
    moments.append([m.text for m in await listed(bench)])
    await bench.answer(first, "call_1", "approve")
    moments.append([m.text for m in await listed(bench)])
    assert moments == [
        ["pay 7", ""],
        ["pay 7", "", "weather?"],
        ["pay 7", "", "weather?", "It rains."],
        ["pay 7", "", "", "weather?", "It rains.", "Paid."],
    ]
    assert await live_messages(bench.plain, await bench.head()) == []


async def test_a_run_that_may_not_go_on_leaves_what_was_said_meanwhile_the_newest() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Yes."), max_iterations=1)
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    await bench.answer(first, "call_1", "approve")
    assert (await bench.run(first)).finish_reason == "max-iterations"
    assert [m.text for m in await bench.stored()][-1] == "It rains."
    await bench.go("sure?")
    assert [text for _, text in prompts(bench)[2]] == [
        "pay 7",
        "",
        "paid 7",
        "weather?",
        "It rains.",
        "sure?",
    ]


async def test_a_run_at_work_that_begins_to_wait_lets_one_go_on_that_is_ready() -> None:
    bench = bench_of(call("pay", amount=7), call("pay", amount=8), say("Paid seven."))
    first = await waits(bench)
    second = await bench.start("pay 8")
    await bench.answer(first, "call_1", "approve")
    assert await bench.drive(second) == "suspended"
    assert (ANN, first, 2) in bench.callbacks.started
    assert await bench.drive(first) == "over"
    assert (await bench.run(second)).status is Status.SUSPENDED


async def test_a_branch_that_begins_elsewhere_is_not_heard() -> None:
    bench = kept_bench_of(say("Hello."), call("pay", amount=7), say("It rains."), say("Paid."))
    greeting = await bench.go("hi")
    first = await waits(bench)
    answer = greeting.messages[-1].id
    await bench.drive(await bench.start("weather?", parent_id=answer))
    await bench.answer(first, "call_1", "approve", actor=MEMBER)
    assert [text for _, text in prompts(bench)[2]] == ["hi", "Hello.", "weather?"]
    assert [text for _, text in prompts(bench)[3]] == ["hi", "Hello.", "pay 7", "", "paid 7"]
    assert [m.text for m in await bench.stored()] == ["hi", "Hello.", "pay 7", "", "", "Paid."]


async def test_a_message_to_a_run_at_work_makes_it_take_one_more_step() -> None:
    from layover.runs.accept import send_message
    from layover.values.deployment.access import Actor

    async def reply(prompt: Any) -> Any:
        await send_message(bench.plain, Actor(sub=ANN), run_id, "in Bonn")
        return say("It rains.")

    bench = bench_of(reply, say("In Bonn it does not."))
    run_id = await bench.start("weather?")
    assert await bench.drive(run_id) == "over"
    assert shown(await bench.stored()) == [
        ("user", "weather?"),
        ("assistant", "It rains."),
        ("user", "in Bonn"),
        ("assistant", "In Bonn it does not."),
    ]


async def test_a_run_that_is_over_takes_no_message() -> None:
    from layover.errors import Conflict
    from layover.runs.accept import send_message
    from layover.values.deployment.access import Actor

    bench = bench_of(say("It rains."))
    run = await bench.go("weather?")
    with pytest.raises(Conflict):
        await send_message(bench.plain, Actor(sub=ANN), run.id, "in Bonn")


async def test_what_a_cancelled_run_did_not_read_stays_in_the_thread() -> None:
    from layover.runs.cancel import cancel

    bench = bench_of(call("pay", amount=7), say("Yes."), on_waiting="steer")
    first = await waits(bench)
    await bench.start("to Bea")
    await cancel(bench.plain, ANN, first)
    assert [m.text for m in await bench.stored()] == ["pay 7", "", "", "to Bea"]


async def test_results_of_a_run_that_goes_on_are_listed_before_it_ends() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), call("pay", amount=8), say("Paid."))
    first = await waits(bench)
    await bench.drive(await bench.start("weather?"))
    assert await bench.answer(first, "call_1", "approve") == "suspended"
    assert shown(await listed(bench)) == [
        ("user", "pay 7"),
        ("assistant", ""),
        ("tool", "paid 7"),
        ("user", "weather?"),
        ("assistant", "It rains."),
        ("assistant", ""),
    ]
    assert await bench.answer(first, "call_2", "approve") == "over"
    assert [m.id for m in await listed(bench)] == [m.id for m in await bench.stored()]


async def test_what_was_said_meanwhile_is_answered_again_on_a_branch_of_its_own() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("It pours."), say("Paid."))
    first = await waits(bench)
    second = await bench.start("weather?")
    await bench.drive(second)
    before = (await bench.meta(second)).input.parent_id
    third = await bench.start("weather?", parent_id=before)
    assert await bench.drive(third) == "over"
    assert prompts(bench)[2] == prompts(bench)[1]
    await bench.answer(first, "call_1", "approve")
    assert [m.text for m in await listed(bench) if m.text] == [
        *("pay 7", "weather?", "It pours.", "Paid."),
    ]


async def test_conversation_is_whole_while_a_run_that_was_set_aside_goes_on() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Paid."))
    first = await waits(bench)
    second = await bench.start("weather?")
    assert await bench.answer(first, "call_1", "approve") == "left"
    await bench.drive(second)
    # It has its thread back, and has said nothing yet.
    assert (await bench.head()).active_run == first
    assert [m.text for m in await listed(bench)] == ["pay 7", "", "", "weather?", "It rains."]


async def test_message_to_a_run_that_is_set_aside_is_listed_when_it_is_taken() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Sun."), say("Paid to Bea."))
    first = await waits(bench)
    second = await bench.start("weather?")
    await send_message(bench.plain, Actor(sub=ANN), first, "to Bea")
    said = ["pay 7", "", "weather?"]
    assert [m.text for m in await listed(bench)] == [*said, "to Bea"]
    await bench.drive(second)
    await send_message(bench.plain, Actor(sub=ANN), first, "soon")
    said += ["It rains."]
    assert [m.text for m in await listed(bench)] == [*said, "to Bea", "soon"]
    await bench.go("tomorrow?")
    said += ["tomorrow?", "Sun."]
    assert [m.text for m in await listed(bench)] == [*said, "to Bea", "soon"]
    times = [m.created_at for m in await listed(bench)]
    assert times == sorted(set(times))
    ids = [m.id for m in await listed(bench)][-2:]
    await bench.answer(first, "call_1", "approve")
    said.insert(2, "")
    assert [m.text for m in await listed(bench)] == [*said, "to Bea", "soon", "Paid to Bea."]
    assert [m.id for m in await listed(bench)][-3:-1] == ids


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_of_a_thread_fit_together_while_a_run_has_not_read_what_it_was_sent(
    limit: int,
) -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."))
    first = await waits(bench)
    await bench.go("weather?")
    for text in ("to Bea", "soon"):
        await send_message(bench.plain, Actor(sub=ANN), first, text)
    texts: list[str] = []
    cursor = None
    for _ in range(10):
        page = await list_messages(bench.plain, ANN, "t1", None, limit, cursor)
        texts += [m.text for m in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert texts == ["pay 7", "", "weather?", "It rains.", "to Bea", "soon"]


async def test_message_to_a_run_that_is_set_aside_is_not_in_a_branch_without_the_run() -> None:
    bench = kept_bench_of(say("Hello."), call("pay", amount=7), say("It rains."), say("Paid."))
    greeting = await bench.go("hi")
    first = await waits(bench)
    await bench.drive(await bench.start("weather?", parent_id=greeting.messages[-1].id))
    await send_message(bench.plain, Actor(sub=ANN), first, "to Bea")
    assert [m.text for m in await listed(bench)] == ["hi", "Hello.", "weather?", "It rains."]
    await bench.answer(first, "call_1", "approve", actor=MEMBER)
    texts = ["hi", "Hello.", "pay 7", "", "", "to Bea", "Paid."]
    assert [m.text for m in await listed(bench)] == texts


@pytest.mark.parametrize("aside", [False, True], ids=["holds the thread", "set aside"])
async def test_message_behind_one_that_is_not_read_yet_follows_what_was_said(aside: bool) -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Sun."), say("Paid."))
    first = await waits(bench)
    if aside:
        await bench.go("weather?")
    await send_message(bench.plain, Actor(sub=ANN), first, "to Bea")
    newest = (await listed(bench))[-1]
    assert newest.text == "to Bea"
    await bench.go("tomorrow?", parent_id=newest.id)
    said = ["pay 7", ""] + (["weather?", "It rains."] if aside else [])
    answer = "Sun." if aside else "It rains."
    assert [m.text for m in await listed(bench)] == [*said, "tomorrow?", answer, "to Bea"]
    await bench.answer(first, "call_1", "approve")
    texts = [m.text for m in await listed(bench)]
    assert texts == ["pay 7", "", *said[1:], "tomorrow?", answer, "to Bea", texts[-1]]


async def test_message_to_a_run_that_goes_on_is_behind_what_was_said_meanwhile() -> None:
    bench = bench_of(call("pay", amount=7), say("It rains."), say("Paid to Bea."))
    first = await waits(bench)
    second = await bench.start("weather?")
    await bench.answer(first, "call_1", "approve")
    await bench.drive(second)
    await send_message(bench.plain, Actor(sub=ANN), first, "to Bea")
    texts = ["pay 7", "", "", "weather?", "It rains.", "to Bea"]
    assert [m.text for m in await listed(bench)] == texts
    await bench.drive(first)
    assert [m.text for m in await listed(bench)] == [*texts, "Paid to Bea."]
