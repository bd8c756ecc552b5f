"""Nothing begins while the operator has stopped the system, or when a user's day is used up."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from layover import Agent, DetectInjection
from layover.adapters.journal.allowance import TableAllowance
from layover.clock import ManualClock
from layover.errors import DayUsedUp, LimitReached, StoppedByOperator
from layover.inmemory.model import ScriptedModel, call, fail, say
from layover.inmemory.table import InMemoryTable
from layover.keys import SPENT, Keys
from layover.ports import Allowance, DayLimits, DayUse, NoAllowance, Reservation
from layover.runs.accept import StartRun, make_request_key, start_run
from layover.runs.cancel import cancel
from layover.threads.threads import delete
from layover.values.deployment.access import Actor
from layover.values.deployment.settings import Settings
from layover.values.message import Role
from layover.values.prompt import Prompt, Reply
from layover.values.runs.run import OnBusy, Status
from layover.values.runs.usage import Usage
from support.worlds.loops import skipping
from support.worlds.runs import ANN, Bench, Crash, Ledger

LIMITED = Settings(daily_tokens=100, daily_cost_usd=Decimal("0.5"))
EVENING = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)


@dataclass
class Allowed(NoAllowance):
    """An allowance by hand."""

    use: DayUse = field(default_factory=DayUse)
    off: bool = False
    noted: int = 0

    def note(self, owner: str, usage: Usage) -> None:
        self.noted += usage.total_tokens

    async def used(self, owner: str) -> DayUse:
        return self.use

    async def stopped(self) -> bool:
        return self.off


def under(bench: Bench, allowed: Allowance) -> Bench:
    """The bench with this allowance."""
    bench.plain = replace(bench.plain, allowance=allowed)
    bench.runtime = replace(bench.runtime, allowance=allowed)
    return bench


def plain_bench(allowed: Allowed, settings: Settings = LIMITED) -> Bench:
    """An agent that says one word."""
    script = [say("one"), say("two")]
    bench = Bench(Agent("a", model="m"), script, settings=settings, clock=ManualClock(EVENING))
    return under(bench, allowed)


def limited_bench(
    script: list[Any],
    limits: DayLimits,
    agent: Agent | None = None,
    settings: Settings | None = None,
) -> tuple[Bench, TableAllowance]:
    """A bench whose users' days are counted in a table; its model answers as scripted."""
    clock = ManualClock(EVENING)
    given = settings or Settings(daily_tokens=limits.tokens, daily_cost_usd=limits.cost_usd)
    used = agent or Agent("helper", model="m", tools=[Ledger().pay])
    bench = Bench(used, script, settings=given, clock=clock)
    allowance = TableAllowance(InMemoryTable(), clock)
    return under(bench, allowance), allowance


async def test_nothing_is_accepted_while_the_system_is_stopped() -> None:
    bench = plain_bench(Allowed(off=True))
    with pytest.raises(StoppedByOperator):
        await bench.start()


async def test_request_that_was_accepted_before_is_answered_while_stopped() -> None:
    allowed = Allowed()
    bench = plain_bench(allowed)
    first = await bench.start()
    await bench.drive(first)
    request = StartRun("again")
    key = make_request_key("k", "t1", request, bench.clock.now())
    run = await start_run(bench.plain, Actor(sub=ANN), "t1", request, key)
    allowed.off = True
    assert (await start_run(bench.plain, Actor(sub=ANN), "t1", request, key)).id == run.id


async def test_run_that_has_not_begun_waits_while_stopped() -> None:
    allowed = Allowed()
    bench = plain_bench(allowed)
    run_id = await bench.start()
    allowed.off = True
    for _ in range(7):
        # More often than a run has attempts: none of them is used up.
        assert (await bench.turn(run_id))["status"] == "paused"
    allowed.off = False
    assert await bench.drive(run_id) == "over"
    assert (await bench.run(run_id)).text == "one"


async def test_run_under_way_asks_the_model_no_more_while_stopped() -> None:
    allowed, ledger = Allowed(), Ledger()
    bench = under(ledger.bench(call("look", n=1), say("seen")), allowed)
    allowed.note = lambda owner, usage: setattr(allowed, "off", True)  # type: ignore[method-assign]
    run_id = await bench.start()
    assert (await bench.turn(run_id))["status"] == "yielded"
    assert ledger.done == [("look", 1)]
    assert (await bench.turn(run_id))["status"] == "paused"
    allowed.off = False
    del allowed.note
    assert await bench.drive(run_id) == "over"
    assert (await bench.run(run_id)).text == "seen"


@pytest.mark.parametrize(
    "use", [DayUse(100), DayUse(101), DayUse(1, Decimal("0.5")), DayUse(1, Decimal(9))]
)
async def test_user_whose_day_is_used_up_begins_nothing(use: DayUse) -> None:
    bench = plain_bench(Allowed(use))
    with pytest.raises(DayUsedUp) as refused:
        await bench.start()
    assert refused.value.retry_after == timedelta(hours=1)


async def test_queued_run_fails_when_its_users_day_is_used_up() -> None:
    allowed = Allowed()
    bench = plain_bench(allowed)
    first = await bench.start()
    queued = await bench.start(on_busy=OnBusy.ENQUEUE)
    assert await bench.drive(first) == "over"
    allowed.use = DayUse(100)
    assert (await bench.turn(queued))["status"] == "over"
    run = await bench.run(queued)
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == "LimitReached"


async def test_run_that_has_begun_ends_before_its_next_step_when_the_day_is_used_up() -> None:
    bench, _ = limited_bench([call("pay", amount=5), say("paid")], DayLimits(tokens=1))
    run_id = await bench.start()
    assert await bench.drive(run_id) == "suspended"
    run = await bench.run(run_id)
    await bench.decide(run_id, run.pending[0].tool_call_id, "approve")
    assert await bench.drive(run_id) == "over"
    run = await bench.run(run_id)
    assert run.error is not None
    assert run.error.type == "LimitReached"
    assert run.messages[-1].role == "tool"


async def test_parallel_runs_pass_a_daily_limit_by_one_step_at_most() -> None:
    script = [say(f"{n}", usage=Usage(input_tokens=900, output_tokens=100)) for n in range(8)]
    bench, allowance = limited_bench(script, DayLimits(tokens=3_500), Agent("a", model="m"))
    runs = [await bench.start(thread=f"t{n}") for n in range(8)]
    await asyncio.gather(*(bench.drive(run_id) for run_id in runs))
    statuses = sorted([(await bench.run(run_id)).status for run_id in runs])
    assert statuses == [Status.FAILED] * 4 + [Status.SUCCESS] * 4
    assert await allowance.used(ANN) == DayUse(4_000)


async def test_step_that_fails_holds_nothing() -> None:
    bench, allowance = limited_bench([fail("no", status=400)], DayLimits(tokens=9_000))
    assert (await bench.go()).status is Status.FAILED
    assert await allowance.reserve(ANN, "other", DayUse(1), DayLimits(tokens=1)) == "granted"


DAY = DayLimits(tokens=9_000)


async def room_that_is_left(allowance: TableAllowance) -> str:
    """What a step that needs the whole day hears."""
    return await allowance.reserve(ANN, "other", DayUse(9_000), DayLimits(tokens=1))


async def test_run_cancelled_in_the_first_step_of_a_day_keeps_no_other_waiting() -> None:
    started = asyncio.Event()

    async def never(prompt: Prompt) -> Reply:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    bench, allowance = limited_bench([never], DAY)
    run_id = await bench.start()
    turn = asyncio.create_task(bench.turn(run_id))
    await asyncio.wait_for(started.wait(), 60)
    assert await room_that_is_left(allowance) == "busy"
    await bench.plain.journal.commands.request_cancel(ANN, run_id)
    await asyncio.wait_for(turn, 60)
    assert (await bench.run(run_id)).status is Status.CANCELLED
    assert await room_that_is_left(allowance) == "granted"


@pytest.mark.parametrize("by", ["settle", "cancel"])
async def test_run_that_ends_after_its_process_died_keeps_no_other_waiting(by: str) -> None:
    def dies(prompt: Prompt) -> Reply:
        raise Crash("in the model's answer")

    bench, allowance = limited_bench([dies] * 9, DAY)
    run_id = await bench.start()
    with pytest.raises(Crash):
        await bench.turn(run_id)
    assert await room_that_is_left(allowance) == "busy"
    if by == "cancel":
        await cancel(bench.plain, ANN, run_id, holder_has_s=0)
    else:
        while await bench.settle(run_id, Error="Crash") == "again":
            with pytest.raises(Crash):
                await bench.turn(run_id)
    assert (await bench.run(run_id)).status.over
    assert await room_that_is_left(allowance) == "granted"


async def test_run_beyond_a_users_rate_is_refused_until_the_next_minute() -> None:
    settings = Settings(runs_per_minute=1)
    bench, _ = limited_bench([say("one"), say("two")], DayLimits(), settings=settings)
    await bench.drive(await bench.start())
    with pytest.raises(LimitReached) as refused:
        await bench.start()
    assert refused.value.retry_after == timedelta(minutes=1)
    bench.clock.advance(timedelta(minutes=1))
    await bench.drive(await bench.start())


@pytest.mark.parametrize("use", [DayUse(99, Decimal("0.49")), DayUse()])
async def test_room_in_the_day_is_enough(use: DayUse) -> None:
    bench = plain_bench(Allowed(use))
    assert (await bench.go()).status is Status.SUCCESS


async def test_unlimited_users_are_not_looked_up() -> None:
    bench = plain_bench(Allowed(DayUse(10**9, Decimal(10**6))), settings=Settings())
    assert (await bench.go()).status is Status.SUCCESS


async def test_every_model_call_is_noted_for_its_user() -> None:
    allowed, ledger = Allowed(), Ledger()
    bench = under(ledger.bench(call("look", n=1), say("seen")), allowed)
    run = await bench.go()
    assert run.usage.total_tokens > 0
    assert allowed.noted == run.usage.total_tokens


async def test_what_a_hook_asks_a_model_counts_towards_the_users_day() -> None:
    verdict = say('{"injection": false}', usage=Usage(input_tokens=200, output_tokens=5))
    model: Any = ScriptedModel([say("ok")], background={"hook": [verdict]})
    agent = Agent("helper", model="m", hooks=[DetectInjection(on_error="allow")])
    bench, _ = limited_bench(model, DayLimits(tokens=100), agent)
    run = await bench.go()
    assert [prompt.task for prompt in bench.model.prompts] == ["hook", "turn"]
    assert run.usage.total_tokens == 205 + say("ok").usage.total_tokens
    with pytest.raises(DayUsedUp):
        await bench.start("again")


@pytest.mark.parametrize("end", ["over", "being ended", "deleted"])
@skipping
async def test_a_step_that_began_after_the_end_of_its_run_holds_no_room(end: str) -> None:
    """It is cut off as its process learns of the end, and the run never reserves again."""

    class Slow(ScriptedModel):
        async def complete(self, prompt: Prompt, on_delta: Any = None) -> Reply:
            await asyncio.sleep(600)
            return await super().complete(prompt, on_delta)

    class Late(TableAllowance):
        async def reserve(self, *args: Any) -> Reservation:
            if end == "over":
                await cancel(bench.plain, ANN, run_id, holder_has_s=0)
            elif end == "deleted":
                await delete(bench.plain, ANN, "t1")
            else:
                assert await bench.plain.journal.writers.seize(ANN, run_id)
            return await super().reserve(*args)

    table, clock = InMemoryTable(), ManualClock(EVENING)
    settings = Settings(daily_tokens=100_000)
    made = Bench(Agent("helper", model="m"), Slow([say("late")]), settings=settings, clock=clock)
    bench = under(made, Late(table, clock))
    run_id = await bench.start()
    assert (await bench.turn(run_id))["status"] == ("over" if end == "over" else "left")
    day = await table.get(Keys(ANN).day(EVENING.replace(hour=0)), SPENT)
    assert day is not None
    assert [name for name in day if name.startswith("hold_")] == []


async def test_a_sub_agent_that_is_cut_off_and_then_gone_holds_no_room_after_the_run() -> None:
    desk = Agent("desk", instructions="desk", model="m")

    def reply(prompt: Prompt) -> Any:
        if prompt.system == "desk":
            raise Crash
        return say("done") if prompt.messages[-1].role is Role.TOOL else call("desk", input="a")

    table, clock = InMemoryTable(), ManualClock(EVENING)
    top = Agent("top", instructions="top", model="m", tools=[desk.as_tool("Ask.")])
    settings = Settings(daily_tokens=100_000)
    made = Bench(top, ScriptedModel(reply), settings=settings, clock=clock)
    bench = under(made, TableAllowance(table, clock))
    run_id = await bench.start()
    with pytest.raises(Crash):
        await bench.turn(run_id)
    day = Keys(ANN).day(EVENING.replace(hour=0))
    cut = await table.get(day, SPENT)
    assert cut is not None
    assert [name for name in cut if name.startswith("hold_")] != []
    bench.agents["top"] = Agent("top", instructions="top", model="m")
    assert (await bench.turn(run_id))["status"] == "over"
    assert (await bench.run(run_id)).status is Status.SUCCESS
    after = await table.get(day, SPENT)
    assert after is not None
    assert [name for name in after if name.startswith("hold_")] == []


async def test_a_reservation_that_comes_after_the_end_of_its_run_holds_no_room() -> None:
    """The process was cut off before it had an answer, and has released its room."""
    clock, limits = ManualClock(EVENING), DayLimits(tokens=100)

    class Slow(InMemoryTable):
        async def write(self, action: Any) -> Any:
            if action.set.get("hold_cut"):
                await allowance.release_all(ANN, ["cut"])
            return await super().write(action)

    allowance = TableAllowance(Slow(), clock)
    assert await allowance.reserve(ANN, "cut", DayUse(90), limits) is Reservation.BUSY
    assert await allowance.reserve(ANN, "next", DayUse(90), limits) is Reservation.GRANTED


async def test_a_reservation_that_comes_while_its_room_is_released_holds_none() -> None:
    clock, limits, reads = ManualClock(EVENING), DayLimits(tokens=100), list[str]()

    class Meddled(InMemoryTable):
        async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Any:
            item = await super().get(pk, sk, consistent=consistent)
            reads.append(sk)
            if len(reads) == 1:
                held = await allowance.reserve(ANN, "cut", DayUse(90), limits)
                assert held is Reservation.GRANTED
            return item

    allowance = TableAllowance(Meddled(), clock)
    await allowance.release_all(ANN, ["cut"])
    assert await allowance.reserve(ANN, "next", DayUse(90), limits) is Reservation.GRANTED


async def test_a_used_up_day_is_no_missing_verdict_that_an_author_could_allow() -> None:
    @dataclass
    class UsedUp(Allowed):
        async def reserve(self, *args: Any) -> Reservation:
            return Reservation.USED_UP

    agent = Agent("helper", model="m", hooks=[DetectInjection(on_error="allow")])
    settings = Settings(daily_tokens=100)
    bench = under(Bench(agent, [say("ok")], settings=settings), UsedUp())
    run = await bench.go()
    assert run.error is not None
    assert (run.error.type, bench.model.prompts) == ("LimitReached", [])
