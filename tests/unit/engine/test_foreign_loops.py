"""A loop that is not Layover's drives a run by `RunWork`: the journal reads as one that Layover's loop wrote,
and each of the two goes on where the other died or had to wait."""

import re
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from layover import Agent
from layover.clock import MICROSECOND
from layover.declare.schemas.render import as_text
from layover.engine.declines import decline_of
from layover.engine.definition import definition_of
from layover.engine.exact_calls import approval_request
from layover.engine.invocation import Invocation
from layover.engine.outcomes import Ready, Settled, interrupted_error
from layover.engine.progress import Aside, Over, Progress, Suspended
from layover.engine.state import RunState
from layover.engine.supervise import supervise
from layover.engine.tools.execute import prepare
from layover.engine.work import RunWork
from layover.inmemory.model import call, calls, say
from layover.runs.finish import end_run, thread_of
from layover.values.base import strict_json
from layover.values.message import Message, Part, Role, TextPart, ToolCallPart
from layover.values.prompt import Prompt, Reply
from layover.values.runs.event import TurnStart
from layover.values.runs.run import (
    CallRecord,
    CallState,
    FinishReason,
    PromptSnapshot,
    Status,
    StepRecord,
    ToolMessageSlot,
)
from support.worlds.runs import ANN, Bench, Crash, Ledger, Power, answers, told, types


async def foreign_loop(work: RunWork) -> Progress:
    """A loop of another framework, as far as the journal is concerned."""
    await work.begin(partial(definition_of, work.agent))
    while True:
        step = work.state.step
        if step is not None and not await has_settled(work, step):
            return Suspended(work.state.waiting())
        if step is not None and not step.slots and not await work.has_messages():
            await work.finish()
            return Over(Status.SUCCESS, FinishReason.STOP)
        if (progress := await work.may_ask()) is not None:
            return progress
        await work.listen()
        work.emit(TurnStart(at=work.clock.now(), step=work.state.next_key()[0]))
        await work.put_step(as_step(work, await work.runtime.model.complete(prompt_of(work), None)))


async def has_settled(work: RunWork, step: StepRecord) -> bool:
    """Settle the step's calls, one after another; False: one waits."""
    for each in work.state.calls_of(step):
        tool = work.agent.tool(each.tool_name)
        assert tool is not None
        ready = prepare({tool.name: tool}, tool.name, each.proposed)
        assert isinstance(ready, Ready)
        if each.state is CallState.OPEN:
            await work.settle(step, each, interrupted_error(tool.name))
        elif each.state is CallState.PLANNED and tool.needs_approval:
            await work.suspend([(each, approval_request(ready, work.clock.now()))])
        elif each.decision is not None and (declined := decline_of(each)) is not None:
            await work.settle(step, each, declined)
        elif each.state is not CallState.SETTLED and not each.undecided:
            await run_tool(work, step, each, ready)
    if work.state.settled(step):
        await work.end_step(step)
    return work.state.settled(step)


async def run_tool(work: RunWork, step: StepRecord, each: CallRecord, ready: Ready) -> None:
    [begun] = await work.open([(each, ready.args.as_dict())])
    value: Any = await ready.tool.invoke(ready.args, None)  # type: ignore[arg-type]  # these read no context
    await work.settle(step, begun, Settled(value, as_text(value)))


def prompt_of(work: RunWork) -> Prompt:
    state = work.state
    messages = (state.meta.input, *state.sendable())
    return Prompt(model="m", messages=messages, run_id=state.run_id)


def as_step(work: RunWork, reply: Reply) -> StepRecord:
    """Return the reply as a step's record."""
    state, ids = work.state, work.runtime.ids
    index, key = state.next_key()
    at = state.next_time(work.clock.now())
    parts: list[Part] = [TextPart(text=reply.text)] if reply.text else []
    wanted = [
        ToolCallPart(tool_call_id=c.id, tool_name=c.name, args=strict_json(c.args))
        for c in reply.calls
    ]
    message = Message(
        id=ids.new("msg"),
        thread_id=state.meta.thread_id,
        run_id=state.run_id,
        parent_id=state.newest_id(),
        role=Role.ASSISTANT,
        content=(*parts, *wanted),
        created_at=at,
    )
    slots = [
        ToolMessageSlot(
            tool_call_id=part.tool_call_id,
            message_id=ids.new("msg"),
            created_at=at + (number + 1) * MICROSECOND,
        )
        for number, part in enumerate(wanted)
    ]
    return StepRecord(
        key=key,
        index=index,
        message=message,
        usage=reply.usage,
        model=reply.model,
        finish_reason=reply.finish_reason,
        slots=tuple(slots),
        notices=state.notices,
        base=None if state.base else PromptSnapshot(as_of=state.meta.input.created_at),
        agent=work.agent.name,
        definition="" if state.steps else definition_of(work.agent),
    )


async def foreign_turn(bench: Bench, run_id: str) -> Progress:
    """One invocation that takes the run, lets the foreign loop drive it, and ends it."""
    runtime = bench.runtime
    log = await runtime.journal.writers.acquire(ANN, run_id, f"{run_id}-1")
    assert log is not None
    state = RunState(log.snapshot)
    invocation = Invocation(runtime, log)
    progress = await supervise(invocation, foreign_loop(RunWork(invocation, state, bench.agent)))
    if isinstance(progress, Over):
        await end_run(runtime, log, state, thread_of(log), over=progress)
    return progress


def bench_of(*script: Reply, power: Power | None = None) -> tuple[Bench, Ledger]:
    ledger = Ledger()
    agent = Agent("helper", model="m", tools=[ledger.look, ledger.pay], tool_concurrency=1)
    return Bench(agent, answers(*script), power=power), ledger


SCRIPT = (
    calls(call("look", n=1, tool_call_id="a"), call("look", n=2, tool_call_id="b")),
    say("Two."),
)
PAID = (call("pay", amount=40, tool_call_id="a"), say("Paid."))


async def shown(bench: Bench, run_id: str) -> list[Any]:
    """What the journal has: the events, and the run's steps and calls, with ids by their order. Not shown:
    whether the end of a step's last call was written next to the model's request."""
    snapshot = await bench.plain.journal.runs.snapshot(ANN, run_id)
    assert snapshot is not None
    facts = [
        *[event.model_dump_json() for event in await bench.events(run_id)],
        *[step.message.model_dump_json() for step in snapshot.steps],
        *[
            step.model_dump_json(include={"key", "slots", "agent", "definition"})
            for step in snapshot.steps
        ],
        *[each.model_dump_json(exclude={"opener", "log_seq"}) for each in snapshot.calls],
    ]
    names: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"{found[1]}-{len(names)}")

    return [re.sub(r"\b(msg|run|call)_(?!id\b)\w+", named, fact) for fact in facts]


async def test_its_journal_reads_as_one_of_layovers_own_loop() -> None:
    own, _ = bench_of(*SCRIPT)
    own_id = await own.start()
    assert await own.drive(own_id) == "over"
    foreign, ledger = bench_of(*SCRIPT)
    run_id = await foreign.start()
    assert isinstance(await foreign_turn(foreign, run_id), Over)
    assert ledger.done == [("look", 1), ("look", 2)]
    assert await shown(foreign, run_id) == await shown(own, own_id)
    assert told(await foreign.stored()) == told(await own.stored())
    assert types(await foreign.events(run_id)) == [
        "agent-start",
        "turn-start",
        *["tool-execution-start", "tool-execution-end"] * 2,
        "turn-end",
        "turn-start",
        "turn-end",
        "finish",
        "agent-end",
    ]


async def cut_points(*script: Reply) -> Sequence[int]:
    """All calls of ports that a foreign turn makes."""
    bench, _ = bench_of(*script)
    run_id = await bench.start()
    before = bench.power.calls
    await foreign_turn(bench, run_id)
    return range(before + 1, bench.power.calls + 1)


@pytest.mark.parametrize("after", [False, True], ids=["before it takes effect", "behind"])
async def test_layovers_loop_goes_on_where_it_dies(after: bool) -> None:
    for point in await cut_points(*SCRIPT):
        bench, ledger = bench_of(*SCRIPT, power=Power(point, after=after))
        run_id = await bench.start()
        with pytest.raises(Crash):
            await foreign_turn(bench, run_id)
        bench.power.restore()
        assert await bench.drive(run_id) == "over", point
        texts = [text for role, text in told(await bench.stored()) if role == "assistant"]
        assert texts[-1] == "Two.", point
        # A tool that ran, and whose result no record has, is in doubt: it does not run again.
        assert len(ledger.done) == len(set(map(str, ledger.done))), point


async def test_it_goes_on_where_layovers_loop_dies_between_a_tool_and_its_record() -> None:
    bench, ledger = bench_of(*SCRIPT)
    run_id = await bench.start()
    before = bench.power.calls
    await bench.turn(run_id)
    for point in range(before + 1, bench.power.calls + 1):
        bench, ledger = bench_of(*SCRIPT, power=Power(point, after=True))
        run_id = await bench.start()
        with pytest.raises(Crash):
            await bench.turn(run_id)
        bench.power.restore()
        if not (await bench.meta(run_id)).status.over:
            assert isinstance(await foreign_turn(bench, run_id), Over), point
        assert len(ledger.done) == len(set(map(str, ledger.done))), point
        assert (await bench.run(run_id)).status is Status.SUCCESS


async def test_what_it_lets_wait_is_decided_and_goes_on_in_either_loop() -> None:
    for goes_on in (foreign_turn, Bench.drive):
        bench, ledger = bench_of(*PAID)
        run_id = await bench.start()
        progress = await foreign_turn(bench, run_id)
        assert isinstance(progress, Suspended)
        assert [c.tool_call_id for c in progress.waiting] == ["a"]
        [pending] = (await bench.run(run_id)).pending
        assert (pending.args, pending.attempt) == ({"amount": 40}, 1)
        bench.clock.advance(timedelta(minutes=1))
        await bench.decide(run_id, "a", "approve", attempt=1)
        await goes_on(bench, run_id)
        assert ledger.done == [40]
        assert (await bench.run(run_id)).status is Status.SUCCESS


async def test_it_may_not_ask_while_another_run_has_the_thread() -> None:
    bench, _ = bench_of(*SCRIPT)
    run_id = await bench.start()
    log = await bench.runtime.journal.writers.acquire(ANN, run_id, f"{run_id}-1")
    assert log is not None
    work = RunWork(
        Invocation(bench.runtime, log, holds_thread=False), RunState(log.snapshot), bench.agent
    )
    assert await foreign_loop(work) == Aside()
