"""What the first stories of the simulation found, each as a short test of its own.

Seeds do not stay what they are: a new act changes every story. So a fault that a story has found is written
down here, with nothing in it but the writers that meet."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, tool
from layover.adapters.journal.followers.connections import TableConnections
from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.engine.time_left import NoDeadline
from layover.errors import LayoverError, NotFound, RetryableError
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.inmemory.table import InMemoryTable
from layover.keys import EVENT_PREFIX, Keys
from layover.plugins.people.press_book import TablePressBook
from layover.ports.table import Action, Item, Write
from layover.recovery.redrive import redrive
from layover.recovery.sweep import sweep
from layover.runs.accept import StartRun, send_message, start_run
from layover.runs.cancel import cancel
from layover.runs.turn import turn
from layover.threads.messages import list_messages
from layover.threads.threads import delete
from layover.values.channels import NoticeKind
from layover.values.deployment.access import Actor
from layover.values.deployment.settings import Settings
from layover.values.message import Message, Role
from layover.values.runs.event import EventPage
from layover.values.runs.payload import TurnPayload
from layover.values.runs.run import DecisionKind, OnBusy, OnWaiting, Status
from layover.values.socket import Connection
from simulation.faults import Act, Faults, Features, Story
from simulation.play import play, said
from support.worlds.channels import BEA, CARL, asked
from support.worlds.loops import skipping
from support.worlds.runs import ANN, Bench, with_tools

OWNER = Actor(sub=ANN)
Work = Callable[[], Awaitable[Any]]


class Meeting(InMemoryTable):
    """A table at which somebody else acts once, right before or right after a write that is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._before: tuple[Callable[[Sequence[Any]], bool], Work] | None = None
        self._after: tuple[Callable[[Sequence[Any]], bool], Work] | None = None

    def before(self, is_it: Callable[[Sequence[Any]], bool], work: Work) -> None:
        self._before = is_it, work

    def after(self, is_it: Callable[[Sequence[Any]], bool], work: Work) -> None:
        self._after = is_it, work

    async def write(self, action: Write) -> Item | None:
        await self._meet("_before", [action])
        result = await super().write(action)
        await self._meet("_after", [action])
        return result

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        await self._meet("_before", actions)
        await super().transact(actions, token)
        await self._meet("_after", actions)

    async def _meet(self, when: str, actions: Sequence[Any]) -> None:
        waited_for = getattr(self, when)
        if waited_for is not None and waited_for[0](actions):
            setattr(self, when, None)
            await waited_for[1]()


def sets(*names: str) -> Callable[[Sequence[Any]], bool]:
    """Return a test of writes: whether one sets one of these attributes."""
    return lambda actions: any(
        name in getattr(action, "set", {}) for action in actions for name in names
    )


def writes_key(part: str) -> Callable[[Sequence[Any]], bool]:
    """Return a test of writes: whether one is of an item with this in its key."""
    return lambda actions: any(part in action.pk + "|" + action.sk for action in actions)


def decides(actions: Sequence[Any]) -> bool:
    """Test writes: whether one transaction has a decision, and its row of the audit."""
    return len(actions) > 1 and any(action.sk.startswith("AUDIT#") for action in actions)


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool
async def look(amount: int) -> str:
    """Look."""
    return f"saw {amount}"


def pay_call(number: int) -> Any:
    return call("pay", amount=number, tool_call_id=f"c{number}")


def says(script: dict[str, Any]) -> Any:
    """Return a model that answers these messages so, and any other with `ok`."""

    def reply(prompt: Any) -> Any:
        last = prompt.messages[-1]
        return script.get(last.text, say("ok")) if last.role is Role.USER else say("ok")

    return ScriptedModel(reply)


async def listed(bench: Bench) -> list[Message]:
    """Return what a reader of the thread sees."""
    return list((await list_messages(bench.plain, ANN, "t1", None, 100, None)).items)


async def shown(bench: Bench) -> list[str]:
    """Return the texts of it."""
    return [message.text for message in await listed(bench) if message.text]


async def test_the_next_model_knows_what_an_approved_call_has_done() -> None:
    """A call waits next to one that has run, and another message is answered meanwhile."""
    step = calls(pay_call(1), call("look", amount=2, tool_call_id="c2"))
    agent = Agent("shop", model="m", tools=[pay, look], tool_concurrency=2)
    bench = Bench(agent, says({"pay 1, and look": step}))
    first = await bench.start("pay 1, and look")
    assert await bench.drive(first) == "suspended"
    assert await bench.drive(await bench.start("and the weather?")) == "over"
    await bench.decide(first, "c1", "approve")
    await bench.drive(first)
    assert await bench.drive(await bench.start("did you pay?")) == "over"
    seen = [m.model_output for m in bench.model.turns[-1].messages if m.role is Role.TOOL]
    assert seen == ["paid 1", "saw 2"]


@pytest.mark.parametrize("seed", range(12))
def test_people_who_cancel_at_once_end_the_run_without_a_sweeper(seed: int) -> None:
    """Each of two cancels used to seize the run from the other, until both gave up."""
    acts = (Act(0.0, "say", 1, 0), *(Act(5.0, "cancel", n, n) for n in range(2, 7)))
    features = Features(sweeper=False, patience_s=300, words=("pay",), hooks=bool(seed % 2))
    story = Story(seed, "calm-cancels", Faults(), features, acts, 1.0)
    played = play(story)
    assert not played.complaints, said(played)


@skipping
async def test_of_two_who_cancel_at_once_one_ends_the_run() -> None:
    """The second is there before the first has ended it, and does not take it away."""
    table, taken = Meeting(), asyncio.Event()
    agent = Agent("shop", model="m", tools=[pay])
    bench = Bench(agent, [calls(pay_call(1), pay_call(2))], table=table)
    run_id = await bench.start("pay both")
    assert await bench.drive(run_id) == "suspended"
    stopped: list[str] = []

    async def wait_for_other() -> None:
        taken.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(taken.wait(), 0.2)

    async def stop(execution: str, _: str) -> None:
        stopped.append(execution)
        taken.set()

    callbacks: Any = bench.callbacks
    callbacks.stop = stop
    table.before(sets("outcome"), wait_for_other)
    await asyncio.gather(*(cancel(bench.plain, ANN, run_id, by=OWNER) for _ in range(2)))
    assert (await bench.run(run_id)).status is Status.CANCELLED
    assert len(stopped) == 1


@skipping
async def test_a_cancelled_run_denies_no_payment_that_was_made() -> None:
    """One of two waiting calls is approved, and the run is cancelled in the same second."""
    paid: list[int] = []
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        started.set()
        await go_on.wait()
        paid.append(amount)
        return f"paid {amount}"

    table = Meeting()
    agent = Agent("shop", model="m", tools=[pay], tool_concurrency=2)
    bench = Bench(agent, [calls(pay_call(1), pay_call(2)), say("ok")], table=table)
    run_id = await bench.start("pay")
    await bench.drive(run_id)
    await bench.decide(run_id, "c1", "approve")
    branches: list[asyncio.Task[Any]] = []

    async def resume() -> None:
        branches.append(asyncio.ensure_future(bench.branch(run_id, "c1")))
        begun = asyncio.ensure_future(started.wait())
        await asyncio.wait([branches[0], begun], return_when=asyncio.FIRST_COMPLETED, timeout=5)
        begun.cancel()

    table.before(writes_key("#CALL#"), resume)
    await cancel(bench.plain, ANN, run_id, by=OWNER)
    go_on.set()
    await asyncio.gather(*branches, return_exceptions=True)
    record = await bench.call(run_id, "c1")
    assert branches
    assert not (paid and "was not run" in str(record.result)), record.result


async def test_a_run_that_answers_a_message_is_not_set_aside() -> None:
    """It waits for a sub-agent in the background, and is asked something meanwhile."""
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def reply(prompt: Any) -> Any:
        last = prompt.messages[-1]
        if (prompt.system or "").startswith("aide"):
            return pay_call(1) if last.role is Role.USER else say("paid")
        if last.text == "pay later":
            return call("aide", input="pay 1", tool_call_id="a1")
        if last.text == "and the invoice?":
            reading.set()
            await go_on.wait()
            return say("The invoice is 42 euros.")
        return say("ok")

    aide = Agent("aide", model="m", instructions="aide", tools=[pay])
    agent = Agent("shop", model="m", tools=[aide.as_tool("Pays.", background=True)])
    bench = Bench(agent, ScriptedModel(reply))
    first = await bench.start("pay later")
    assert await bench.drive(first) == "suspended"
    await send_message(bench.plain, OWNER, first, "and the invoice?")
    turn = asyncio.ensure_future(bench.drive(first))
    await asyncio.wait_for(reading.wait(), 30)
    request = StartRun("what is the weather?", on_busy=OnBusy.ENQUEUE)
    second = await start_run(bench.plain, OWNER, "t1", request)
    go_on.set()
    await turn
    if second.status is Status.RUNNING:
        await bench.drive(second.id)
    assert "The invoice is 42 euros." in await shown(bench)


@pytest.mark.parametrize("end", ["a cancel", "a turn"])
async def test_the_bus_learns_of_a_decision_that_it_refused_for_a_moment(end: str) -> None:
    agent = Agent("shop", model="m", tools=[pay], tool_concurrency=2)
    bench = Bench(agent, [calls(pay_call(1), pay_call(2)), say("ok")])
    run_id = await bench.start("pay")
    await bench.drive(run_id)
    callbacks: Any = bench.callbacks
    publish = callbacks.publish

    async def away(kind: str, detail: Any) -> None:
        raise RetryableError("EventBridge did not take the event")

    callbacks.publish = away
    await bench.decide(run_id, "c1", "approve")
    callbacks.publish = publish
    if end == "a cancel":
        await cancel(bench.plain, ANN, run_id, by=OWNER, holder_has_s=0)
    else:
        await bench.decide(run_id, "c2", "approve")
        await bench.branch(run_id, "c2")
        await bench.drive(run_id)
    for _ in range(60):
        bench.clock.advance(timedelta(minutes=1))
        await sweep(bench.plain)
    told = [
        detail["tool_call_id"] for kind, detail in callbacks.events if kind == "ApprovalDecided"
    ]
    assert "c1" in told


async def test_a_thread_keeps_its_history_if_the_run_before_is_cancelled() -> None:
    """The second of two calls has not begun when another message takes the thread."""
    bench = Bench(
        Agent("shop", model="m", tools=[pay]), says({"pay both": calls(pay_call(1), pay_call(2))})
    )
    await bench.go("my name is Ann")
    first = await bench.start("pay both")
    assert await bench.drive(first) == "suspended"
    second = await bench.start("what is my name?")
    await cancel(bench.plain, ANN, first, by=OWNER, holder_has_s=0)
    assert await bench.drive(second) == "over"
    assert "my name is Ann" in [m.text for m in bench.model.turns[-1].messages]
    assert "my name is Ann" in await shown(bench)


@skipping
async def test_a_vote_that_arrives_late_does_not_cover_the_outcome() -> None:
    told, run_id = await asked()
    await told.tell()
    await told.decide(BEA, run_id)
    voted = told.events[-1]
    slack: Any = told.slack
    update, is_slow, go_on = slack.update, asyncio.Event(), asyncio.Event()

    async def slow(*args: Any) -> Any:
        if not is_slow.is_set():
            is_slow.set()
            await go_on.wait()
        return await update(*args)

    slack.update = slow
    late = asyncio.ensure_future(told.tell(voted))
    await asyncio.wait_for(is_slow.wait(), 30)
    await told.decide(CARL, run_id)
    outcome = asyncio.ensure_future(told.tell(told.events[-1]))
    await asyncio.wait([outcome], timeout=0.2)
    go_on.set()
    await asyncio.gather(late, outcome, return_exceptions=True)
    for event in told.events:
        await told.tell(event)
    assert ("#payouts", "decided") in told.shown()
    assert [kind for to, kind in told.shown() if to == "#payouts"] == ["decided"]


@skipping
@pytest.mark.parametrize("event", ["a request", "a vote"])
async def test_a_vote_that_covers_an_outcome_which_is_not_noted_yet_is_covered_again(
    event: str,
) -> None:
    """Whoever has shown the vote fails, since another process tells the outcome, and comes again after it."""
    told, run_id = await asked()
    await told.tell()
    requested = told.events[-1]
    await told.decide(BEA, run_id)
    given = requested if event == "a request" else told.events[-1]
    slack: Any = told.slack
    update, is_slow, is_told, is_covered = slack.update, *(asyncio.Event() for _ in range(3))

    async def slow(address: Any, reference: str, notice: Any, links: Any) -> Any:
        if notice.kind is NoticeKind.VOTED:
            is_slow.set()
            await is_told.wait()
            return await update(address, reference, notice, links)
        done = await update(address, reference, notice, links)
        is_told.set()
        await is_covered.wait()
        return done

    slack.update = slow
    late = asyncio.ensure_future(told.tell(given))
    await asyncio.wait_for(is_slow.wait(), 30)
    await told.decide(CARL, run_id)
    outcome = asyncio.ensure_future(told.tell(told.events[-1]))
    with pytest.raises(RetryableError):
        await late
    assert ("#payouts", "voted") in told.shown()
    is_covered.set()
    await outcome
    await told.tell(given)
    assert [kind for to, kind in told.shown() if to == "#payouts"] == ["decided"]


async def test_no_edit_runs_with_arguments_that_nobody_was_shown() -> None:
    """The tool is not deployed when its call is edited, and comes back with another default."""
    paid: list[Any] = []

    def pay_to(account_now: str) -> Any:
        @tool(needs_approval=True)
        async def pay(amount: int, account: str = account_now) -> str:
            """Pay."""
            paid.append((amount, account))
            return f"paid {amount}"

        return pay

    agent = Agent("shop", model="m", tools=[pay_to("the old one")])
    bench = Bench(agent, [call("pay", amount=100, tool_call_id="c1"), say("ok")])
    run = await bench.go()
    bench.agents = {"shop": with_tools(agent)}
    request = DecisionRequest(Verdict.APPROVE, args={"amount": 50}, attempt=1)
    refused = False
    try:
        await decide(bench.runtime, OWNER, run.id, "c1", request)
    except LayoverError:
        refused = True
    bench.agents = {"shop": with_tools(agent, pay_to("a new one"))}
    if not refused:
        await bench.hear(run.id, "c1")
    assert (50, "a new one") not in paid


async def test_the_sweeper_looks_at_runs_behind_connections_that_do_not_close() -> None:
    bench = Bench(Agent("shop", model="m"), [say("hi")] * 9)
    connections, now = TableConnections(bench.table), bench.clock.now()
    for number in range(450):
        ends_at = now + timedelta(hours=3)
        await connections.open(
            Connection(id=f"c{number}", owner=f"u{number}", token_expires_at=now, ends_at=ends_at)
        )
    bench.clock.advance(timedelta(minutes=5))
    runs = [await bench.start(f"hello {number}", thread=f"t{number}") for number in range(8)]
    bench.callbacks.started.clear()  # `api` died before it started them
    for _ in range(60):
        bench.clock.advance(timedelta(minutes=1))
        await sweep(bench.plain)
    assert {run_id for _, run_id, _ in bench.callbacks.started} == set(runs)


async def test_retention_leaves_a_thread_that_was_just_written_in() -> None:
    table = Meeting()
    settings = Settings(thread_retention=timedelta(days=30))
    bench = Bench(
        Agent("shop", model="m"), [say("hi"), say("hello")], table=table, settings=settings
    )
    await bench.go("hello")
    await bench.remember()
    accepted: list[str] = []

    async def user() -> None:
        accepted.append(await bench.start("I am back"))

    table.before(sets("deleted"), user)
    for _ in range(33):
        bench.clock.advance(timedelta(days=1))
        await sweep(bench.plain)
        if accepted:
            break
    assert accepted
    assert not (await bench.head()).deleted


@pytest.mark.parametrize(
    "order", ["ask answer send cancel", "ask send cancel answer", "send ask cancel answer"]
)
async def test_a_message_to_a_run_that_is_then_cancelled_stays_in_the_thread(order: str) -> None:
    """Another run takes the thread, before it or after."""
    bench = Bench(Agent("shop", model="m", tools=[pay]), says({"pay": pay_call(1)}))
    first, second = await bench.start("pay"), ""
    assert await bench.drive(first) == "suspended"
    for act in order.split():
        if act == "ask":
            second = await bench.start("and the weather?")
        elif act == "answer":
            assert await bench.drive(second) == "over"
        elif act == "send":
            await send_message(bench.plain, OWNER, first, "use the other account")
        else:
            await cancel(bench.plain, ANN, first, by=OWNER, holder_has_s=0)
    assert "use the other account" in await shown(bench)


async def test_what_is_said_behind_messages_that_found_their_place_is_later_than_all_of_them() -> (
    None
):
    """Both were sent to a run that was then cancelled, the second by a process whose clock is ahead."""
    bench = Bench(Agent("shop", model="m", tools=[pay]), says({"pay": pay_call(1)}))
    first = await bench.start("pay")
    assert await bench.drive(first) == "suspended"
    second = await bench.start("and the weather?")
    await send_message(bench.plain, OWNER, first, "use the other account")
    bench.clock.advance(timedelta(seconds=5))
    await send_message(bench.plain, OWNER, first, "the one in Rome")
    bench.clock.advance(timedelta(seconds=-5))
    await cancel(bench.plain, ANN, first, by=OWNER, holder_has_s=0)
    assert await bench.drive(second) == "over"
    await bench.go("thanks")
    times = [message.created_at for message in await listed(bench)]
    assert "the one in Rome" in await shown(bench)
    assert times == sorted(set(times))


async def test_a_thread_goes_on_behind_a_run_that_was_cancelled_without_the_database() -> None:
    """It was set aside, has not read what it was sent, and is not in the database when the next begins."""
    bench = Bench(Agent("shop", model="m", tools=[pay]), says({"pay": pay_call(1)}))
    await bench.go("my name is Ann")
    first = await bench.start("pay")
    assert await bench.drive(first) == "suspended"
    second = await bench.start("what is my name?")
    await send_message(bench.plain, OWNER, first, "psst")
    threads: Any = bench.threads
    save_turn, save_messages = threads.save_turn, threads.save_messages

    async def away(*_: Any) -> None:
        raise RetryableError("the database is away")

    threads.save_turn = threads.save_messages = away
    await cancel(bench.plain, ANN, first, by=OWNER, holder_has_s=0)
    threads.save_turn, threads.save_messages = save_turn, save_messages
    assert await bench.drive(second) == "over"
    assert "my name is Ann" in [message.text for message in bench.model.turns[-1].messages]
    for _ in range(3):
        bench.clock.advance(timedelta(hours=1))
        await sweep(bench.plain)
    assert await shown(bench) == ["my name is Ann", "ok", "pay", "what is my name?", "ok", "psst"]
    assert not (await bench.head()).unsaved


async def test_the_message_of_a_queued_run_that_is_cancelled_stays_in_the_thread() -> None:
    bench = Bench(Agent("shop", model="m"), [say("one"), say("two")])
    first = await bench.start("hello")
    queued = await start_run(
        bench.plain, OWNER, "t1", StartRun("are you there?", on_busy=OnBusy.ENQUEUE)
    )
    assert queued.status is Status.QUEUED
    await cancel(bench.plain, ANN, queued.id, by=OWNER)
    await bench.drive(first)
    assert "are you there?" in await shown(bench)


async def test_a_message_that_is_cancelled_in_the_queue_does_not_stop_its_thread() -> None:
    """It names a message of the run at work as its parent, which the database does not have yet."""
    bench = Bench(Agent("shop", model="m", tools=[pay]), says({"pay": pay_call(1)}))
    first = await bench.start("pay")
    parent = (await listed(bench))[0].id
    request = StartRun("are you there?", on_busy=OnBusy.ENQUEUE, parent_id=parent)
    queued = await start_run(bench.plain, OWNER, "t1", request)
    await cancel(bench.plain, ANN, queued.id, by=OWNER)
    assert await bench.drive(first) == "suspended"
    await bench.decide(first, "c1", "approve")
    assert await bench.drive(first) == "over"
    thread = bench.threads.find(ANN, "t1")
    assert thread is not None
    [said] = [each for each in thread.messages.values() if each.text == "are you there?"]
    assert said.parent_id == parent


async def test_a_message_is_later_than_the_parent_that_it_names() -> None:
    """Its own process has a clock that is behind."""
    bench = Bench(Agent("shop", model="m", tools=[pay]), says({"pay": pay_call(1)}))
    bench.clock.advance(timedelta(seconds=10))
    await bench.start("pay")
    [asked] = await listed(bench)
    bench.clock.advance(timedelta(seconds=-5))
    request = StartRun("pay what?", on_busy=OnBusy.ENQUEUE, parent_id=asked.id)
    queued = await start_run(bench.plain, OWNER, "t1", request)
    answer = await bench.plain.journal.runs.get(ANN, queued.id)
    assert answer is not None
    assert answer.input.parent_id == asked.id
    assert answer.input.created_at > asked.created_at


async def test_a_press_counts_although_the_answer_of_its_write_was_lost() -> None:
    class Doubling(InMemoryTable):
        """A client that repeats each write, since the first answer was lost."""

        async def write(self, action: Write) -> Item | None:
            await super().write(action)
            return await super().write(action)

    bench = Bench(Agent("shop", model="m"), [])
    assert await TablePressBook(Doubling()).accept_once("v0=abc", bench.clock.now())


async def test_a_message_withdraws_only_what_waited_when_it_was_sent() -> None:
    """An approver is quicker: the run reads the message, and asks for the corrected call."""

    def reply(prompt: Any) -> Any:
        last = prompt.messages[-1]
        is_order = last.role is Role.USER and last.text.startswith("pay")
        return pay_call(int(last.text.split()[1])) if is_order else say("ok")

    table = Meeting()
    bench = Bench(Agent("shop", model="m", tools=[pay]), ScriptedModel(reply), table=table)
    run_id = await bench.start("pay 100")
    assert await bench.drive(run_id) == "suspended"

    async def approver() -> None:
        await bench.decide(run_id, "c100", "approve")
        item = await bench.item(run_id, "c100")
        await bench.drive(run_id, call=item, output={"layover": "decided"})

    table.after(writes_key("|SAID#"), approver)
    await bench.start("pay 50 instead", on_waiting=OnWaiting.WITHDRAW)
    assert (await bench.call(run_id, "c100")).decision.kind is DecisionKind.APPROVED
    assert (await bench.call(run_id, "c50")).decision is None


async def test_a_decision_in_a_thread_that_is_being_deleted_finds_no_call() -> None:
    table = Meeting()
    bench = Bench(Agent("shop", model="m", tools=[pay]), [pay_call(1), say("ok")], table=table)
    run = await bench.go()
    table.after(decides, lambda: delete(bench.plain, ANN, "t1"))
    with pytest.raises(NotFound):
        await bench.decide(run.id, "c1", "approve")


async def test_a_reader_of_a_thread_that_is_being_deleted_sees_no_gap() -> None:
    """Batches of events are deleted side by side, and the delete of the newest takes longest."""
    table, is_read = Meeting(), asyncio.Event()
    bench = Bench(Agent("shop", model="m"), [say("hello")], table=table)
    run = await bench.go()
    pk = Keys(ANN).run(run.id)
    first, *_, newest = await table.query(pk, EVENT_PREFIX, EVENT_PREFIX + "~")
    pages: list[EventPage] = []

    async def read() -> None:
        pages.append(await bench.plain.journal.events.page(ANN, run.id, 0, 100))
        is_read.set()

    table.before(writes_key(newest["sk"]), is_read.wait)
    table.after(writes_key(first["sk"]), read)
    await delete(bench.plain, ANN, "t1")
    [page] = pages
    assert (page.items, page.done) == ((), False)


async def test_a_decided_call_whose_decider_dies_is_woken_within_minutes() -> None:
    """The decider's clock is 2 s behind that of the sweep which is looking at the run."""
    table = Meeting()
    bench = Bench(Agent("shop", model="m", tools=[pay]), [pay_call(1), say("ok")], table=table)
    run = await bench.go()
    await bench.wait(run.id, "c1", "token-1")
    bench.clock.advance(timedelta(minutes=70))
    callbacks: Any = bench.callbacks

    async def dies(*_: Any) -> Any:
        raise RetryableError("the process dies here")

    async def decider() -> None:
        publish, wake = callbacks.publish, callbacks.wake
        callbacks.publish = callbacks.wake = dies
        bench.clock.advance(timedelta(seconds=-2))
        with contextlib.suppress(RetryableError):
            await bench.decide(run.id, "c1", "approve")
        bench.clock.advance(timedelta(seconds=2))
        callbacks.publish, callbacks.wake = publish, wake

    table.before(sets("lost_at"), decider)
    await sweep(bench.plain)
    for _ in range(20):
        if bench.callbacks.woken:
            break
        bench.clock.advance(timedelta(minutes=1))
        await sweep(bench.plain)
    assert bench.callbacks.woken == ["token-1"]


@skipping
async def test_a_run_that_is_redriven_at_its_beginning_begins_once() -> None:
    """The first turn's first events arrive after a second turn has looked for them."""

    async def reply(_: Any) -> Any:
        await asyncio.sleep(1)
        return say("hi")

    table, is_next = Meeting(), asyncio.Event()
    bench = Bench(Agent("shop", model="m"), ScriptedModel(reply), table=table)
    run_id = await bench.start("hello")
    turns: list[asyncio.Task[Any]] = []

    async def second_turn() -> None:
        await redrive(bench.plain, ANN, run_id)
        payload = TurnPayload(owner=ANN, run_id=run_id, execution=f"{run_id}-2")
        # The state machine takes a turn that has yielded again.
        while (await turn(bench.plain, payload, NoDeadline()))["status"] == "yielded":
            pass

    async def wait_for_second() -> None:
        turns.append(asyncio.ensure_future(second_turn()))
        table.before(writes_key("EVENT#"), let_first_go)
        await is_next.wait()

    async def let_first_go() -> None:
        is_next.set()
        await asyncio.sleep(0.5)

    table.before(writes_key("EVENT#"), wait_for_second)
    await bench.turn(run_id)
    await asyncio.gather(*turns)
    types = [event.type for event in await bench.events(run_id)]
    assert (len(turns), types.count("finish")) == (1, 1)
    assert types.count("agent-start") == 1
