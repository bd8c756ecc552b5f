"""Settle: pauses that grow before another attempt, and an end that says no more than it may."""

import json
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent
from layover.inmemory.model import fail, say
from layover.recovery.give_up import MAX_FAULTS, give_up
from layover.values.deployment.settings import Settings
from layover.values.runs.payload import SettlePayload
from layover.values.runs.run import Status
from support.worlds.runs import ANN, Bench, words_of

NEVER_LOADED = {"Error": "Runtime.ImportModuleError", "Cause": "{}"}
SECRET = "the card of Ann is 4111"
FAULTY = {"Error": "ValueError", "Cause": json.dumps({"errorMessage": SECRET})}


async def settle(bench: Bench, run_id: str, error: Any) -> tuple[str, int]:
    """The status, and the pause in seconds."""
    answer = await give_up(bench.plain, bench.payload(run_id, SettlePayload, error=error))
    return answer["status"], answer["pause_s"]


async def take(bench: Bench, run_id: str) -> None:
    """An attempt that does nothing."""
    await bench.plain.journal.writers.acquire(ANN, run_id, f"{run_id}-1")


async def begun(**settings: Any) -> tuple[Bench, str]:
    bench = Bench(Agent("helper", model="m"), [say("done")], settings=Settings(**settings))
    return bench, await bench.start()


async def test_an_outage_of_a_minute_does_not_use_up_all_attempts() -> None:
    bench, run_id = await begun()
    pauses = []
    for _ in range(4):
        await take(bench, run_id)
        status, pause_s = await settle(bench, run_id, FAULTY)
        assert status == "again"
        pauses.append(pause_s)
    assert pauses == [2, 6, 18, 54]
    await take(bench, run_id)
    assert await settle(bench, run_id, FAULTY) == ("over", 0)


async def test_execution_of_a_run_that_failed_fails_also_if_its_turn_died_behind_the_end() -> None:
    bench = Bench(Agent("helper", model="m"), [fail("no", status=401)])
    run_id = await bench.start()
    await bench.turn(run_id)
    assert await settle(bench, run_id, FAULTY) == ("over", 0)


async def test_execution_of_a_run_that_succeeded_does_not_fail_if_its_turn_died_behind_the_end() -> (
    None
):
    bench, run_id = await begun()
    await bench.turn(run_id)
    assert await settle(bench, run_id, FAULTY) == ("left", 0)


async def test_faults_before_any_attempt_are_counted_and_end_the_run_after_hours() -> None:
    bench, run_id = await begun()
    answers = [await settle(bench, run_id, NEVER_LOADED) for _ in range(MAX_FAULTS)]
    assert {status for status, _ in answers} == {"again"}
    pauses = [pause_s for _, pause_s in answers]
    assert pauses == sorted(pauses)
    assert timedelta(hours=3) < timedelta(seconds=sum(pauses)) < timedelta(hours=4)
    assert await settle(bench, run_id, NEVER_LOADED) == ("over", 0)
    run = await bench.run(run_id)
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == "AttemptsUsedUp"
    assert f"no attempt at the run could begin, {MAX_FAULTS} times in a row" in words_of(run)


async def test_attempt_that_begins_starts_the_count_of_faults_again() -> None:
    bench, run_id = await begun(sweep_patience=timedelta(seconds=2))
    for _ in range(3):
        for _ in range(MAX_FAULTS):
            assert (await settle(bench, run_id, NEVER_LOADED))[0] == "again"
        await take(bench, run_id)


async def test_a_run_waits_for_the_release_that_fits_however_long_that_takes() -> None:
    bench, run_id = await begun()
    for _ in range(3 * MAX_FAULTS):
        await take(bench, run_id)
        newer = {"Error": "NewerFormat", "Cause": "{}"}
        assert await settle(bench, run_id, newer) == ("again", 60)
    # Its own faults count as before.
    for status in ("again", "again", "again", "again", "over"):
        await take(bench, run_id)
        assert (await settle(bench, run_id, FAULTY))[0] == status


@pytest.mark.parametrize("error", [FAULTY, {**FAULTY, "Cause": SECRET}])
async def test_error_of_a_run_that_is_given_up_has_the_kind_and_no_text(error: Any) -> None:
    bench, run_id = await begun()
    for _ in range(5):
        await take(bench, run_id)
    assert await settle(bench, run_id, error) == ("over", 0)
    run = await bench.run(run_id)
    assert run.error is not None
    assert "the last error: ValueError" in words_of(run)
    assert SECRET not in run.model_dump_json()


async def test_pauses_of_one_machine_are_seconds() -> None:
    bench, run_id = await begun(sweep_patience=timedelta(seconds=2))
    pauses = [(await settle(bench, run_id, NEVER_LOADED))[1] for _ in range(MAX_FAULTS)]
    assert min(pauses) == 1
    assert max(pauses) == 30
