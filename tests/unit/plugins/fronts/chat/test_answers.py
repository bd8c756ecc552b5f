"""Answers of chats whose stream ends before their run: none looks like a complete one."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.api.routes_ag_ui import AgUiFrames
from functions.api.routes_chat import UiFrames
from layover.adapters.journal.leases import TableLeases
from layover.inmemory.table import InMemoryTable
from layover.plugins.fronts.chat.answers import BROKEN_OFF, answer
from layover.plugins.fronts.protocols.ag_ui import AgUiRun
from layover.plugins.fronts.protocols.ui_messages import UiMessage
from layover.runs.follow import STREAM_LIVES
from layover.threads import threads
from layover.values.lease import Lease, LeaseKind
from layover.values.runs.event import TextDelta, ToolCallSuspended, TurnStart
from layover.values.runs.run import SuspensionKind
from support.logs.scenarios import desk
from support.worlds.services import ANN, ManualPace
from support.worlds.sockets import SocketBench

HALF_A_MINUTE = timedelta(seconds=30)


@pytest.fixture
def world() -> SocketBench:
    return SocketBench()


async def ui(world: SocketBench, run_id: str, **more: Any) -> list[Any]:
    """The data of an answer for `useChat`."""
    return await data(world, run_id, UiFrames(UiMessage(run_id, "t")), **more)


async def ag_ui(world: SocketBench, run_id: str, **more: Any) -> list[Any]:
    """The data of an answer for AG-UI."""
    return await data(world, run_id, AgUiFrames(AgUiRun("t", "r", run_id)), **more)


async def data(world: SocketBench, run_id: str, translation: Any, **more: Any) -> list[Any]:
    pace = more.pop("pace", None) or ManualPace().pace
    looks = answer(world.runtime, ANN, run_id, translation, pace=pace, **more)
    whole = b"".join([piece async for piece in looks]).decode()
    blocks = [block.removeprefix("data: ") for block in whole.split("\n\n") if block]
    return [each if each == "[DONE]" else json.loads(each) for each in blocks]


def ask(world: SocketBench) -> ToolCallSuspended:
    """The event of a call that waits."""
    now = world.clock.now()
    return ToolCallSuspended(
        at=now,
        tool_call_id="c1",
        tool_name="refund",
        args={},
        kind=SuspensionKind.APPROVAL,
        payload={},
        resume_schema={},
        attempt=1,
        agent_path=("support",),
        requested_at=now,
    )


async def waiting_run(world: SocketBench) -> str:
    """A run that waits for a person, and has said so."""
    run = await world.run((await world.thread()).id)
    log = await world.take(run.id)
    step = await world.step(log, "one moment", ("c1", "refund", {}))
    await world.suspend(log, step, "c1")
    log.emit(ask(world))
    await log.flush()
    return run.id


async def hold_all_places(world: SocketBench) -> None:
    """As many streams of ANN's are open as may."""
    now, most = world.clock.now(), world.runtime.settings.max_user_streams
    for n in range(most):
        lease = Lease(ANN, LeaseKind.STREAM, str(n), now + timedelta(minutes=1))
        assert await world.runtime.leases.take(lease, most, now)


async def test_an_answer_that_no_place_is_left_for_ends_with_an_error(world: SocketBench) -> None:
    run_id = (await world.running()).snapshot.meta.id
    await hold_all_places(world)
    assert (await ui(world, run_id))[-2:] == [{"type": "error", "errorText": BROKEN_OFF}, "[DONE]"]
    end = (await ag_ui(world, run_id))[-1]
    assert (end["type"], end["message"]) == ("RUN_ERROR", BROKEN_OFF)


async def test_an_answer_that_outlives_its_stream_or_token_ends_with_an_error(
    world: SocketBench,
) -> None:
    run_id = (await world.running()).snapshot.meta.id
    for until, seconds in (
        (None, STREAM_LIVES.total_seconds()),
        (world.clock.now() + HALF_A_MINUTE, HALF_A_MINUTE.total_seconds()),
    ):
        paced = ManualPace()
        found = await ui(world, run_id, until=until, pace=paced.pace)
        assert [each["type"] for each in found[:-1]][-1] == "error"
        assert found[-1] == "[DONE]"
        assert sum(paced.slept) == pytest.approx(seconds)


async def test_an_error_ends_the_step_before_it(world: SocketBench) -> None:
    log = await world.running()
    now = world.clock.now()
    log.emit(TurnStart(at=now, step=1), TextDelta(at=now, step=1, text="hel"))
    await log.flush()
    await hold_all_places(world)
    found = await ag_ui(world, log.snapshot.meta.id)
    assert [each["type"] for each in found] == [
        "RUN_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_ERROR",
    ]
    types = [each["type"] for each in (await ui(world, log.snapshot.meta.id))[:-1]]
    assert types == ["start", "start-step", "text-start", "text-delta", "text-end", "error"]


async def test_an_answer_whose_thread_is_deleted_ends_with_an_error(world: SocketBench) -> None:
    meta = (await world.running()).snapshot.meta
    await threads.delete(world.runtime, ANN, meta.thread_id)
    assert (await ui(world, meta.id))[-2]["type"] == "error"


async def test_an_answer_whose_run_waits_asks_though_no_place_is_left(world: SocketBench) -> None:
    run_id = await waiting_run(world)
    await hold_all_places(world)
    found = await ui(world, run_id)
    assert found[-2:] == [{"type": "finish", "finishReason": "tool-calls"}, "[DONE]"]
    assert (await ag_ui(world, run_id))[-1]["outcome"]["type"] == "interrupt"


@pytest.mark.parametrize(
    "frames",
    [lambda run: UiFrames(UiMessage(run, "t")), lambda run: AgUiFrames(AgUiRun("t", "r", run))],
)
async def test_an_answer_ends_for_now_where_a_call_of_a_sub_agent_waits(frames: Any) -> None:
    bench = desk()
    run_id = await bench.start(stream=True)
    assert await bench.drive(run_id) == "suspended"
    paced, runtime = ManualPace(), replace(bench.plain, leases=TableLeases(InMemoryTable()))
    looks = answer(runtime, ANN, run_id, frames(run_id), pace=paced.pace)
    whole = b"".join([piece async for piece in looks]).decode()
    assert sum(paced.slept) < 1
    assert BROKEN_OFF not in whole
    assert '"finishReason": "tool-calls"' in whole or '"type": "interrupt"' in whole


@pytest.mark.parametrize("is_place_left", [True, False])
async def test_what_closes_an_answer_comes_before_its_interrupts(
    world: SocketBench, is_place_left: bool
) -> None:
    run_id = await waiting_run(world)
    if not is_place_left:
        await hold_all_places(world)

    async def closing() -> bytes:
        return b'data: "state"\n\n'

    found = await ag_ui(world, run_id, closing=closing)
    assert found.count("state") == 1
    assert found[-1]["type"] == "RUN_FINISHED"
    assert found.index("state") < len(found) - 1
