"""Runs whose records have expired, read from the tree that stays with their thread."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from layover import Agent
from layover.clock import ManualClock
from layover.errors import NewerFormat, NotFound
from layover.ids import RandomIds, made_at
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.journal import in_memory_journal
from layover.inmemory.model import call, say
from layover.runs import read as runs
from layover.runs.feedback import give_feedback, take_back
from layover.values.runs.views import Run
from support.worlds.runs import ANN, Bench, answers_of

SCRIPT = {
    "top": [call("desk", input="do it"), say("all done")],
    "desk": [call("low", input="you"), say("desk done")],
    "low": [say("low done")],
}


async def ended() -> tuple[Bench, Run]:
    """A run with two levels of sub-agents, whose records are gone."""
    low = Agent("low", instructions="low")
    desk = Agent("desk", instructions="desk", tools=[low.as_tool("x")])
    top = Agent("top", instructions="top", tools=[desk.as_tool("x")])
    bench = Bench(top, answers_of(SCRIPT), clock=ManualClock(datetime.now(UTC)))
    run = await bench.go()
    await bench.plain.journal.erasure.erase_run(ANN, run.thread_id, run.id)
    return bench, run


async def test_the_tree_of_an_expired_run_is_read_as_it_was() -> None:
    bench, run = await ended()
    bench.clock.advance(timedelta(days=31))
    found = await runs.get(bench.plain, ANN, run.id, wait=5)
    same = run.model_copy(update={"updated_at": found.updated_at})
    assert found.model_dump(mode="json") == same.model_dump(mode="json")
    (desk,) = found.children
    assert (desk.text, desk.children[0].text) == ("desk done", "low done")


async def test_a_tree_repeats_nothing_that_the_thread_has() -> None:
    bench, run = await ended()
    (thread,) = bench.threads.of(ANN)
    tree = thread.snapshots[run.id]
    assert not {"id", "thread_id", "text", "pending", "error"} & tree["run"].keys()
    assert (tree["version"], tree["messages"]) == (3, [run.messages[-1].id, 1 + len(run.messages)])


@pytest.mark.parametrize("version", [1, 2])
async def test_a_tree_of_before_is_read(version: int) -> None:
    bench, run = await ended()
    (thread,) = bench.threads.of(ANN)
    tree = thread.snapshots[run.id]["run"]
    if version == 1:
        tree = run.model_dump(mode="json", exclude={"messages", "input"})
    ids = [run.input.id, *(m.id for m in run.messages)]
    thread.snapshots[run.id] = {"version": version, "run": tree, "message_ids": ids}
    bench.clock.advance(timedelta(days=31))
    found = await runs.get(bench.plain, ANN, run.id)
    same = run.model_copy(update={"updated_at": found.updated_at})
    assert found.model_dump(mode="json") == same.model_dump(mode="json")


async def test_an_expired_run_takes_feedback_and_shows_it() -> None:
    bench, run = await ended()
    bench.clock.advance(timedelta(days=31))
    given = await give_feedback(bench.plain, ANN, run.id, -1, "wrong")
    found = await runs.get(bench.plain, ANN, run.id)
    assert found.feedback == given
    await take_back(bench.plain, ANN, run.id)
    assert (await runs.get(bench.plain, ANN, run.id)).feedback is None
    with pytest.raises(NotFound):
        await give_feedback(bench.plain, "bob", run.id, -1, None)


async def test_an_expired_run_whose_thread_a_restored_table_lacks_takes_feedback() -> None:
    bench, run = await ended()
    bench.clock.advance(timedelta(days=31))
    journal = in_memory_journal(bench.clock, InMemoryBlobs())
    runtime = replace(bench.plain, journal=journal)
    given = await give_feedback(runtime, ANN, run.id, -1, None)
    assert (await runs.get(runtime, ANN, run.id)).feedback == given
    assert await journal.heads.get(ANN, run.thread_id) is not None


async def test_feedback_from_before_is_shown_once_the_records_expired() -> None:
    bench = Bench(Agent("top"), [say("done")], clock=ManualClock(datetime.now(UTC)))
    run = await bench.go()
    given = await give_feedback(bench.plain, ANN, run.id, 0.5, None)
    await bench.plain.journal.erasure.erase_run(ANN, run.thread_id, run.id)
    bench.clock.advance(timedelta(days=31))
    assert (await runs.get(bench.plain, ANN, run.id)).feedback == given


async def test_nobody_elses_run_and_none_of_a_deleted_thread_is_found() -> None:
    bench, run = await ended()
    bench.clock.advance(timedelta(days=31))
    with pytest.raises(NotFound):
        await runs.get(bench.plain, "bob", run.id)
    await bench.plain.journal.erasure.mark_deleted(ANN, run.thread_id)
    with pytest.raises(NotFound):
        await runs.get(bench.plain, ANN, run.id)


async def test_an_unknown_run_that_cannot_have_expired_costs_no_look_into_the_database() -> None:
    bench, _ = await ended()

    async def asked(*_: Any) -> None:
        raise AssertionError("the database may be asleep")

    bench.threads.past_run = asked  # type: ignore[method-assign,assignment]
    with pytest.raises(NotFound):
        await runs.get(bench.plain, ANN, RandomIds().new("run"))


async def test_a_tree_of_a_newer_release_is_refused_and_says_so() -> None:
    bench, run = await ended()
    bench.clock.advance(timedelta(days=31))
    thread = bench.threads.find(ANN, run.thread_id)
    assert thread is not None
    thread.snapshots[run.id]["version"] = 99
    with pytest.raises(NewerFormat, match="version 99"):
        await runs.get(bench.plain, ANN, run.id)


def test_an_id_tells_when_it_was_made() -> None:
    made = made_at(RandomIds().new("run"))
    assert made is not None
    assert abs(made - datetime.now(UTC)) < timedelta(minutes=1)
    assert made_at("run_1") is None
    assert made_at("nonsense") is None
