"""The end of a step's last call is journaled while the model is asked again: nobody else comes before it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from layover import Agent, Hook, Memory, ModelRequest, ObservationalMemory, ToolContext, tool
from layover.errors import ModelError, RetryableError
from layover.inmemory.model import call, calls, say
from layover.ports.table import Action, Put
from layover.values.message import Role
from layover.values.prompt import Prompt, Reply
from layover.values.runs.run import CallState, Status
from support.worlds.loops import LoopClock, skipping
from support.worlds.runs import ANN, Bench, told, types
from support.worlds.writes import Proceed, around_writes


@tool
async def look(ctx: ToolContext, what: str) -> str:
    """Look something up."""
    ctx.emit({"looks at": what})
    return f"{what} is there"


class Watched:
    """A bench whose `order` has what happened: `asked` (the model), `step` and `ended` (journaled)."""

    def __init__(self, agent: Agent, script: Sequence[Any], fails: Exception | None = None) -> None:
        self.order: list[str] = []
        self.fails = fails
        self.takes = 5.0
        """Seconds until the end of a call is journaled."""
        self.bench = Bench(agent, [self._asked(step) for step in script], clock=LoopClock())
        around_writes(self.bench, self._write)

    def _asked(self, step: Any) -> Callable[[Prompt], Awaitable[Reply]]:
        async def answer(prompt: Prompt) -> Reply:
            self.order.append("asked")
            await asyncio.sleep(1)
            if isinstance(step, Exception):
                raise step
            assert isinstance(step, Reply)
            return step

        return answer

    async def _write(self, actions: Sequence[Action], proceed: Proceed) -> None:
        puts = [a for a in actions if isinstance(a, Put)]
        calls = [p for p in puts if "#CALL#call_" in p.sk]
        ends = any(p.item.get("state") == CallState.SETTLED.value for p in calls)
        if ends:
            await asyncio.sleep(self.takes)
        if ends and self.fails is not None:
            raise self.fails
        await proceed()
        if ends:
            self.order.append("ended")
        elif any(p.sk.startswith("STEP#") and "#CALL#" not in p.sk for p in puts):
            self.order.append("step")


def agent(**fields: Any) -> Agent:
    return Agent("helper", model="m", tools=[look], **fields)


SCRIPT = [call("look", what="a"), say("done")]


@skipping
async def test_an_answer_is_not_journaled_if_the_end_of_the_call_before_it_is_not() -> None:
    watched = Watched(agent(), SCRIPT, fails=RetryableError("DynamoDB is away"))
    run_id = await watched.bench.start()
    with pytest.raises(RetryableError, match="DynamoDB is away"):
        await watched.bench.turn(run_id)
    assert watched.order == ["asked", "step", "asked"]
    snapshot = await watched.bench.plain.journal.runs.snapshot(ANN, run_id)
    assert snapshot is not None
    assert [c.state for c in snapshot.calls] == [CallState.OPEN]
    assert "turn-start" not in types(await watched.bench.events(run_id))[4:]


@skipping
async def test_a_run_whose_call_could_not_be_journaled_is_cancelled_by_another_attempt() -> None:
    watched = Watched(agent(), SCRIPT, fails=RetryableError("DynamoDB is away"))
    run_id = await watched.bench.start()
    turn = asyncio.create_task(watched.bench.turn(run_id))
    await asyncio.sleep(1.5)
    await watched.bench.plain.journal.commands.request_cancel(ANN, run_id)
    with pytest.raises(RetryableError, match="DynamoDB is away"):
        await turn
    watched.fails = None
    assert await watched.bench.drive(run_id) == "over"
    run = await watched.bench.run(run_id)
    assert run.status is Status.CANCELLED
    assert ("tool", "Cancelled: look may or may not have taken effect") in told(run.messages)


@skipping
async def test_an_attempt_that_was_overtaken_journals_nothing_behind_its_call() -> None:
    watched = Watched(agent(), SCRIPT)
    run_id = await watched.bench.start()
    turn = asyncio.create_task(watched.bench.turn(run_id))
    await asyncio.sleep(1.5)
    watched.takes = 0
    other = await watched.bench.plain.journal.writers.seize(ANN, run_id)
    assert other is not None
    [open_call] = other.snapshot.calls
    settled = {"result": "in doubt", "model_output": "in doubt"}
    await other.close_call(open_call.model_copy(update=settled))
    assert (await turn)["status"] == "left"
    assert watched.order == ["asked", "step", "asked", "ended"]
    snapshot = await watched.bench.plain.journal.runs.snapshot(ANN, run_id)
    assert snapshot is not None
    assert [c.result for c in snapshot.calls] == ["in doubt"]
    assert len(snapshot.steps) == 1


@skipping
async def test_a_run_does_not_end_before_its_last_call_is_journaled() -> None:
    """Its model fails meanwhile, or is not asked any more."""
    for script, fields in (
        ([SCRIPT[0], ModelError("no", status=401)], {}),
        (SCRIPT, {"max_iterations": 1}),
    ):
        watched = Watched(agent(**fields), script)
        save = watched.bench.threads.save_turn

        async def saved(record: Any, watched: Watched = watched, save: Any = save) -> None:
            watched.order.append("saved")
            await save(record)

        watched.bench.threads.save_turn = saved  # type: ignore[method-assign]
        run = await watched.bench.go()
        assert watched.order[-2:] == ["ended", "saved"]
        assert ("tool", "a is there") in told(run.messages)


class Reads(Hook):
    """It may tell anybody what it reads."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def before_model(self, ctx: Any, request: ModelRequest) -> None:
        self.order.append("read")


@skipping
async def test_a_hook_reads_a_result_once_it_is_journaled() -> None:
    hook = Reads()
    watched = Watched(agent(hooks=[hook]), SCRIPT)
    watched.order = hook.order
    await watched.bench.go()
    assert hook.order == ["read", "asked", "step", "ended", "read", "asked", "step"]


@skipping
async def test_a_result_is_compacted_once_it_is_journaled() -> None:
    watched = Watched(agent(memory=Memory(compaction=ObservationalMemory())), SCRIPT)
    await watched.bench.go()
    assert watched.order == ["asked", "step", "ended", "asked", "step"]


@skipping
async def test_the_model_is_asked_while_the_last_call_of_a_step_is_journaled() -> None:
    watched = Watched(agent(), [calls(SCRIPT[0], call("look", what="b")), say("done")])
    run = await watched.bench.go()
    assert watched.order == ["asked", "step", "ended", "asked", "ended", "step"]
    assert [m.role for m in run.messages] == [Role.ASSISTANT, Role.TOOL, Role.TOOL, Role.ASSISTANT]


@skipping
async def test_what_the_model_says_meanwhile_is_told_behind_the_end_of_the_call() -> None:
    watched = Watched(agent(), SCRIPT)
    run_id = await watched.bench.start(stream=True)
    assert await watched.bench.drive(run_id) == "over"
    events = [e.type for e in await watched.bench.events(run_id)]
    first_end = events.index("turn-end")
    assert events.index("data") < events.index("tool-execution-end") < first_end
    assert first_end < events.index("turn-start", first_end) < events.index("text-delta")
    assert events.count("turn-end") == events.count("turn-start") == 2
