"""Accepting a run."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from layover.errors import (
    Conflict,
    DatabaseWaking,
    InvalidRequest,
    LimitReached,
    NotFound,
    RetryableError,
    ThreadBusy,
    TooLarge,
)
from layover.inmemory.journal import in_memory_journal
from layover.inmemory.table import InMemoryTable
from layover.ports import Accepted, StaleHead
from layover.ports.table import Action, Item
from layover.runs import read as runs
from layover.runs.accept import ACCEPT_TIMEOUT_S, StartRun, make_request_key, start_run
from layover.runs.long_polls import Pace
from layover.threads import threads
from layover.values.deployment.access import Actor
from layover.values.message import DataPart, FilePart, InputPart, TextPart
from layover.values.runs.run import OnBusy, RunMeta, Status
from layover.values.runs.views import Run
from support.worlds.journal import instead
from support.worlds.services import ANN, BOB, ManualPace, ServiceBench


class SlowTable(InMemoryTable):
    """Others come in between."""

    async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Item | None:
        await asyncio.sleep(0)
        return await super().get(pk, sk, consistent=consistent)

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        await asyncio.sleep(0)
        await super().transact(actions, token)


async def never_cancelled(*_: Any) -> RunMeta | None:
    """Runs that are to be interrupted never end."""
    raise RetryableError("not now")


async def always_late(*_: Any, **__: Any) -> Accepted:
    """Another writer is always faster."""
    raise StaleHead


class Rounds:
    """Time in rounds of the event loop, of 5 ms each."""

    def __init__(self) -> None:
        self._now = 0.0

    @property
    def pace(self) -> Pace:
        return Pace(sleep=self._sleep, now=lambda: self._now)

    async def gather(self, *work: Awaitable[Run]) -> list[Run]:
        """The results, while time passes."""
        done = asyncio.ensure_future(asyncio.gather(*work))
        while not done.done():
            self._now += 0.005
            await asyncio.sleep(0)
        return await done

    async def _sleep(self, seconds: float) -> None:
        until = self._now + seconds
        while self._now < until:
            await asyncio.sleep(0)


def behind(world: ServiceBench, table: InMemoryTable, **methods: Any) -> None:
    """Let the world have a journal over this table, that answers these commands in another way."""
    journal = in_memory_journal(world.clock, table=table)
    world.journal = replace(journal, commands=instead(journal.commands, **methods))
    world.runtime = replace(world.runtime, journal=world.journal)


async def test_a_foreign_thread_is_not_there(world: ServiceBench) -> None:
    thread = await world.thread()
    with pytest.raises(NotFound):
        await start_run(world.runtime, Actor(sub=BOB), thread.id, StartRun("hi"))


async def test_a_deleted_thread_takes_no_run(world: ServiceBench) -> None:
    thread = await world.thread()
    await threads.delete(world.runtime, ANN, thread.id)
    with pytest.raises(NotFound):
        await world.run(thread.id)


@pytest.mark.parametrize("empty", ["", [], [TextPart(text="")], [DataPart(name="x", data=1)]])
async def test_an_empty_input_is_refused(world: ServiceBench, empty: Any) -> None:
    thread = await world.thread()
    with pytest.raises(InvalidRequest):
        await start_run(world.runtime, Actor(sub=ANN), thread.id, StartRun(empty))


async def test_more_than_a_megabyte_of_input_is_refused(world: ServiceBench) -> None:
    thread = await world.thread()
    with pytest.raises(TooLarge):
        await world.run(thread.id, "x" * (1024 * 1024))


@pytest.mark.parametrize(
    "part",
    [
        FilePart(url="http://example.com/a.png"),
        FilePart(url="https://"),
        FilePart(url="https://[broken"),
        FilePart(url="file:///etc/passwd"),
        FilePart(file_id="file_1"),
        FilePart(file_id="file_1", url="https://example.com/a.png"),
        FilePart(),
    ],
)
async def test_a_file_part_needs_one_source_that_is_known(
    world: ServiceBench, part: InputPart
) -> None:
    thread = await world.thread()
    with pytest.raises(InvalidRequest):
        await start_run(world.runtime, Actor(sub=ANN), thread.id, StartRun([part]))


async def test_an_unknown_parent_is_refused(world: ServiceBench) -> None:
    thread = await world.thread()
    with pytest.raises(InvalidRequest):
        await world.run(thread.id, parent_id="msg_elsewhere")


async def test_another_threads_message_is_no_parent(world: ServiceBench) -> None:
    first, second = await world.thread(), await world.thread()
    run = await world.run(first.id)
    await world.finish(run.id)
    with pytest.raises(InvalidRequest):
        await world.run(second.id, parent_id=run.input.id)


async def test_a_parent_needs_the_database_and_a_sleeping_one_says_so(world: ServiceBench) -> None:
    thread = await world.thread()
    world.threads.asleep = True
    with pytest.raises(DatabaseWaking):
        await world.run(thread.id, parent_id="msg_old")


async def test_a_second_run_is_refused_with_the_one_that_is_active(world: ServiceBench) -> None:
    thread = await world.thread()
    run = await world.run(thread.id)
    with pytest.raises(ThreadBusy) as refusal:
        await world.run(thread.id)
    assert refusal.value.ids["run_id"] == run.id


async def test_one_of_many_runs_at_once_wins_the_thread(world: ServiceBench) -> None:
    thread = await world.thread()
    results = await asyncio.gather(
        *(world.run(thread.id, f"n {i}") for i in range(8)), return_exceptions=True
    )
    assert sum(not isinstance(r, BaseException) for r in results) == 1
    assert sum(isinstance(r, ThreadBusy) for r in results) == 7


async def test_the_queue_holds_a_hundred(world: ServiceBench) -> None:
    thread = await world.thread()
    await world.run(thread.id)
    for _ in range(100):
        queued = await world.run(thread.id, on_busy=OnBusy.ENQUEUE)
        assert queued.status is Status.QUEUED
    with pytest.raises(LimitReached):
        await world.run(thread.id, on_busy=OnBusy.ENQUEUE)


@pytest.mark.parametrize("on_busy", [OnBusy.ENQUEUE, OnBusy.INTERRUPT])
async def test_however_many_come_at_once_nobody_is_sent_away(
    world: ServiceBench, on_busy: OnBusy
) -> None:
    behind(world, SlowTable(), request_cancel=never_cancelled)
    thread = await world.thread()
    rounds = Rounds()
    asked = StartRun("me too", on_busy=on_busy)
    found = await rounds.gather(
        *(
            start_run(world.runtime, Actor(sub=ANN), thread.id, asked, pace=rounds.pace)
            for _ in range(40)
        )
    )
    head = await world.journal.heads.get(ANN, thread.id)
    assert head is not None
    assert sorted([str(head.active_run), *head.queue]) == sorted(run.id for run in found)
    assert len({run.id for run in found}) == 40


async def test_a_thread_that_never_stands_still_is_given_up(world: ServiceBench) -> None:
    behind(world, InMemoryTable(), accept=always_late)
    thread = await world.thread()
    paced = ManualPace()
    with pytest.raises(Conflict):
        await start_run(world.runtime, Actor(sub=ANN), thread.id, StartRun("hi"), pace=paced.pace)
    assert max(paced.slept) <= 0.5
    assert ACCEPT_TIMEOUT_S <= sum(paced.slept) < ACCEPT_TIMEOUT_S + 0.5


async def test_a_run_in_the_queue_has_no_parent_until_it_starts(world: ServiceBench) -> None:
    thread = await world.thread()
    first = await world.run(thread.id, "one")
    await world.finish(first.id)
    second = await world.run(thread.id, "two")
    queued = await world.run(thread.id, "three", on_busy=OnBusy.ENQUEUE)
    shown = await runs.get(world.runtime, ANN, queued.id)
    assert (queued.input.parent_id, shown.input.parent_id) == (None, None)
    await world.finish(second.id)
    started = await runs.get(world.runtime, ANN, queued.id)
    assert started.input.parent_id == f"{second.id}.a1"


async def test_cancelled_runs_leave_room_in_the_queue(world: ServiceBench) -> None:
    thread = await world.thread()
    await world.run(thread.id)
    for _ in range(100):
        queued = await world.run(thread.id, on_busy=OnBusy.ENQUEUE)
        await runs.cancel(world.runtime, Actor(sub=ANN), queued.id)
    assert (await world.run(thread.id, on_busy=OnBusy.ENQUEUE)).status is Status.QUEUED


async def test_a_key_with_another_request_is_refused(world: ServiceBench) -> None:
    thread, other = await world.thread(), await world.thread()
    now = world.clock.now()
    asked = StartRun("hi")
    await start_run(
        world.runtime,
        Actor(sub=ANN),
        thread.id,
        asked,
        make_request_key("k", thread.id, asked, now),
    )
    for thread_id, changed in ((thread.id, StartRun("ho")), (other.id, asked)):
        key = make_request_key("k", thread_id, changed, now)
        with pytest.raises(Conflict):
            await start_run(world.runtime, Actor(sub=ANN), thread_id, changed, key)


async def test_a_key_gives_the_same_run_though_the_thread_is_busy(world: ServiceBench) -> None:
    thread = await world.thread()
    asked = StartRun("hi")
    key = make_request_key("k", thread.id, asked, world.clock.now())
    answers = await asyncio.gather(
        *(start_run(world.runtime, Actor(sub=ANN), thread.id, asked, key) for _ in range(5))
    )
    assert len({run.id for run in answers}) == 1
    assert len(world.callbacks.started) == 1


async def test_a_key_is_forgotten_after_a_day(world: ServiceBench) -> None:
    thread = await world.thread()
    asked = StartRun("hi", on_busy=OnBusy.ENQUEUE)
    key = make_request_key("k", thread.id, asked, world.clock.now())
    first = await start_run(world.runtime, Actor(sub=ANN), thread.id, asked, key)
    world.clock.advance(timedelta(hours=25))
    key = make_request_key("k", thread.id, asked, world.clock.now())
    assert (await start_run(world.runtime, Actor(sub=ANN), thread.id, asked, key)).id != first.id


async def test_a_run_is_accepted_though_its_execution_cannot_be_started(
    world: ServiceBench,
) -> None:
    thread = await world.thread()
    world.callbacks.down = True
    run = await world.run(thread.id)
    assert (await runs.get(world.runtime, ANN, run.id)).status is Status.RUNNING


async def test_accepting_never_needs_the_database(world: ServiceBench) -> None:
    world.threads.asleep = True
    thread = await world.thread()
    await world.run(thread.id)
    assert world.threads.asked == 0


async def test_a_run_is_started_with_its_input_behind_the_newest_message(
    world: ServiceBench,
) -> None:
    thread = await world.thread()
    first = await world.run(thread.id, "one")
    await world.finish(first.id)
    second = await world.run(thread.id, "two")
    assert second.input.parent_id == f"{first.id}.a1"
    assert second.input.text == "two"
    assert world.callbacks.started == [f"{first.id}-1", f"{second.id}-1"]


async def test_an_inputs_time_is_after_everything_in_the_thread(world: ServiceBench) -> None:
    thread = await world.thread()
    first = await world.run(thread.id, "one")
    await world.finish(first.id)
    world.clock.advance(timedelta(days=-1))
    second = await world.run(thread.id, "two")
    head = await world.journal.heads.get(ANN, thread.id)
    assert head is not None
    assert head.last_created_at is not None
    assert second.input.created_at > head.last_created_at


async def test_null_as_parent_begins_a_new_root(world: ServiceBench) -> None:
    thread = await world.thread()
    first = await world.run(thread.id, "one")
    await world.finish(first.id)
    assert (await world.run(thread.id, "again", parent_id=None)).input.parent_id is None


async def test_a_message_of_the_active_run_is_a_parent(world: ServiceBench) -> None:
    thread = await world.thread()
    first = await world.run(thread.id)
    queued = await world.run(thread.id, parent_id=first.input.id, on_busy=OnBusy.ENQUEUE)
    assert queued.input.parent_id == first.input.id


async def test_a_lost_head_is_made_again_from_the_database(world: ServiceBench) -> None:
    thread = await world.thread()
    run = await world.run(thread.id)
    await world.finish(run.id)
    world.restart()
    second = await world.run(thread.id, "still there?")
    assert second.input.parent_id == f"{run.id}.a1"


async def test_parts_are_cleaned_and_kept_in_order(world: ServiceBench) -> None:
    thread = await world.thread()
    parts: list[InputPart] = [
        DataPart(name="form", data={"a\x00": ["\ud800"]}),
        FilePart(url="https://example.com/a.png", mime_type="image/png"),
        TextPart(text="see\x00this"),
    ]
    run = await start_run(world.runtime, Actor(sub=ANN), thread.id, StartRun(parts))
    assert run.input.content == (
        DataPart(name="form", data={"a�": ["�"]}),
        FilePart(url="https://example.com/a.png", mime_type="image/png"),
        TextPart(text="see�this"),
    )


async def test_an_interrupt_ends_a_run_that_waits_and_takes_its_place(world: ServiceBench) -> None:
    waiting, _ = await world.suspended()
    run = await world.run(waiting.thread_id, "stop that", on_busy=OnBusy.INTERRUPT)
    assert world.callbacks.started[-1] == f"{run.id}-1"
    taken = await runs.get(world.runtime, ANN, run.id)
    assert taken.status is Status.RUNNING
    assert taken.input.parent_id is not None
    found = await runs.get(world.runtime, ANN, waiting.id)
    assert (found.status, found.pending) == (Status.CANCELLED, ())
