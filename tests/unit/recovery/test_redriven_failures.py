"""A run that failed goes on from its last journaled step once its cause is mended."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, Hook, HookContext, Result, tool
from layover.errors import Conflict, LimitReached, NotFound
from layover.inmemory.model import ScriptedModel, call, calls, fail, say
from layover.recovery.redrive import PAUSE, redrive
from layover.runs.cancel import cancel
from layover.runs.messages import send
from layover.values.deployment.access import Actor
from layover.values.message import Role, TextPart
from layover.values.runs.run import Status
from support.worlds.runs import ANN, Bench, types

BAD_KEY = fail("bad key", status=401)


class Till:
    """A till that counts what it pays."""

    def __init__(self) -> None:
        self.paid = 0

    @property
    def tools(self) -> list[Any]:
        @tool
        def pay(n: int) -> str:
            """Pay."""
            self.paid += n
            return "paid"

        @tool(needs_approval=True)
        def refund(n: int) -> str:
            """Pay money back."""
            self.paid -= n
            return "paid back"

        return [pay, refund]


def bench_of(script: Any, till: Till | None = None, **options: Any) -> Bench:
    tools = till.tools if till is not None else []
    return Bench(Agent("helper", model="openai/small", tools=tools, **options), script)


async def failed(bench: Bench) -> str:
    """A run that has failed; its id."""
    run = await bench.go()
    assert run.status is Status.FAILED
    return run.id


async def goes_on(bench: Bench, run_id: str) -> None:
    """Redrive the run, to its end."""
    run = await redrive(bench.plain, ANN, run_id)
    assert run.status is Status.RUNNING
    assert run.error is None
    assert await bench.drive(run_id) == "over"


async def test_a_strangers_run_is_not_there() -> None:
    bench = bench_of([BAD_KEY])
    run_id = await failed(bench)
    with pytest.raises(NotFound):
        await redrive(bench.plain, "bob", run_id)


@pytest.mark.parametrize("end", ["success", "cancelled"])
async def test_a_run_that_did_not_fail_has_nothing_to_go_on_with(end: str) -> None:
    bench = bench_of([say("Hello.")])
    run_id = await bench.start()
    if end == "cancelled":
        await cancel(bench.plain, ANN, run_id)
    else:
        await bench.drive(run_id)
    with pytest.raises(Conflict, match=end):
        await redrive(bench.plain, ANN, run_id)


async def test_a_run_whose_thread_has_gone_on_is_left_as_it_is() -> None:
    bench = bench_of([BAD_KEY, say("Hello.")])
    run_id = await failed(bench)
    await bench.go("again")
    with pytest.raises(Conflict, match="thread has gone on"):
        await redrive(bench.plain, ANN, run_id)
    assert (await bench.run(run_id)).status is Status.FAILED


async def test_a_run_whose_thread_is_at_work_is_left_as_it_is() -> None:
    bench = bench_of([BAD_KEY, say("Hello.")])
    run_id = await failed(bench)
    await bench.start("again")
    with pytest.raises(Conflict, match="thread has gone on"):
        await redrive(bench.plain, ANN, run_id)


async def test_a_run_that_did_not_read_a_message_is_left_as_it_is() -> None:
    """The message has its place behind the failure."""
    bench = bench_of([BAD_KEY])
    run_id = await bench.start()
    await send(bench.plain, Actor(sub=ANN), run_id, [TextPart(text="and hurry")])
    await bench.drive(run_id)
    with pytest.raises(Conflict, match="thread has gone on"):
        await redrive(bench.plain, ANN, run_id)


async def test_a_second_redrive_within_a_minute_is_refused() -> None:
    bench = bench_of(ScriptedModel(lambda _: BAD_KEY))
    run_id = await failed(bench)
    await goes_on(bench, run_id)
    with pytest.raises(LimitReached):
        await redrive(bench.plain, ANN, run_id)
    bench.clock.advance(PAUSE)
    await goes_on(bench, run_id)


async def test_of_many_at_once_one_lets_the_run_go_on() -> None:
    bench = bench_of([BAD_KEY, say("Hello.")])
    run_id = await failed(bench)
    many = (redrive(bench.plain, ANN, run_id) for _ in range(5))
    answers = await asyncio.gather(*many, return_exceptions=True)
    assert sum(not isinstance(a, BaseException) for a in answers) >= 1
    assert bench.callbacks.started.count((ANN, run_id, 2)) == 1
    assert await bench.drive(run_id) == "over"


async def test_a_run_goes_on_as_if_nothing_had_been() -> None:
    bench = bench_of([BAD_KEY, say("Hello.")])
    run_id = await failed(bench)
    await goes_on(bench, run_id)
    run = await bench.run(run_id)
    assert (run.status, run.text, run.error) == (Status.SUCCESS, "Hello.", None)
    head = await bench.head()
    assert head.active_run is None
    assert head.leaf_id == run.messages[-1].id


async def test_its_log_has_the_redrive_in_place_of_the_failure() -> None:
    bench = bench_of([BAD_KEY, say("Hello.")])
    run_id = await failed(bench)
    before = types(await bench.events(run_id))
    assert before[-2:] == ["error", "finish"]
    await goes_on(bench, run_id)
    events = types(await bench.events(run_id))
    assert events[: len(before)] == [*before[:-2], "redriven", "turn-start"]
    assert events.count("finish") == 1
    assert "error" not in events


async def test_what_was_done_is_not_done_again() -> None:
    till = Till()
    bench = bench_of([call("pay", n=5), BAD_KEY, say("Done.")], till)
    run_id = await failed(bench)
    await goes_on(bench, run_id)
    assert till.paid == 5
    run = await bench.run(run_id)
    assert [m.role for m in run.messages] == [Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert run.text == "Done."


async def test_a_call_that_waited_stays_cancelled() -> None:
    till = Till()
    both = calls(call("pay", n=1), call("refund", tool_call_id="r", n=5))
    bench = bench_of([both, BAD_KEY, say("Done.")], till)
    run_id = await bench.start()
    await bench.drive(run_id)
    await bench.decide(run_id, "r", "deny", reason="no")
    await bench.hear(run_id, "r")
    assert (await bench.run(run_id)).status is Status.FAILED
    await goes_on(bench, run_id)
    assert till.paid == 1
    assert (await bench.run(run_id)).text == "Done."


async def test_the_next_run_reads_what_the_redriven_one_said() -> None:
    bench = bench_of([BAD_KEY, say("Blue."), say("You like blue.")])
    run_id = await failed(bench)
    await goes_on(bench, run_id)
    await bench.go("what do I like?")
    texts = [m.text for m in bench.model.turns[-1].messages]
    assert texts == ["hello", "Blue.", "what do I like?"]


async def test_the_database_has_the_run_as_it_ended_at_last() -> None:
    bench = bench_of([BAD_KEY, say("Blue.")])
    run_id = await failed(bench)
    await goes_on(bench, run_id)
    leaf_id = (await bench.head()).leaf_id
    assert leaf_id is not None
    page = await bench.threads.messages(ANN, "t1", leaf_id, 10, None)
    assert page is not None
    assert [m.text for m in page.items] == ["hello", "Blue."]


async def test_hooks_at_the_end_are_asked_again() -> None:
    told: list[Any] = []

    class Book(Hook):
        def at_end(self, ctx: HookContext, result: Result) -> None:
            told.append(str(result.status))

    bench = bench_of([BAD_KEY, say("Blue.")], hooks=[Book()])
    run_id = await failed(bench)
    await goes_on(bench, run_id)
    assert told == ["failed", "success"]
    assert (await bench.run(run_id)).status is Status.SUCCESS


async def test_a_run_that_fails_again_can_be_redriven_again() -> None:
    bench = bench_of([BAD_KEY, BAD_KEY, say("Blue.")])
    run_id = await failed(bench)
    await goes_on(bench, run_id)
    assert (await bench.run(run_id)).status is Status.FAILED
    bench.clock.advance(PAUSE)
    await goes_on(bench, run_id)
    assert (await bench.run(run_id)).text == "Blue."


async def test_records_that_have_expired_are_not_gone_on_with() -> None:
    bench = bench_of([BAD_KEY])
    run_id = await failed(bench)
    bench.clock.advance(timedelta(days=40))
    with pytest.raises((Conflict, NotFound)):
        await redrive(bench.plain, ANN, run_id)
