"""Random runs keep the promises of docs/journal.md: random scripts of model replies and tool outcomes, random
suspensions and decisions in any order, the process dying at random port calls, a cancel at a random time."""

import asyncio
from itertools import pairwise

from hypothesis import example, given

from layover.values.message import DataPart, Message, Role, ToolResultPart
from layover.values.runs.event import Event
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from layover.values.thread import ThreadHead
from support.examples import examples
from support.worlds.random_runs import NEVER_TWICE, OTHER, Driver, Script, scripts
from support.worlds.runs import ANN, Power


def _check_events(run: Run, events: list[Event]) -> None:
    types = [e.type for e in events]
    assert types.count("agent-start") <= 1
    assert types.count("finish") == 1
    last = "agent-end" if run.status is Status.SUCCESS else "finish"
    assert types[-1] == last
    if run.status is Status.FAILED:
        assert types[types.index("finish") - 1] == "error"
    ended: dict[str | None, list[int]] = {}
    for event in events:
        if event.type == "turn-end":
            ended.setdefault(event.message.run_id, []).append(event.step)
    for steps in ended.values():
        assert steps == sorted(set(steps)), "a step ends once, in order"
    assert set(ended) <= {run.id, *(child.id for child in run.children)}
    settled = [e.tool_call_id for e in events if e.type == "tool-execution-end"]
    assert len(settled) == len(set(settled)), "a call is settled once"


def _check_hooks(events: list[Event], ran: list[str]) -> None:
    """Check that a hook's answer is recorded once, and that the tool ran as it says."""
    answers = [e for e in events if e.type == "hook-decision"]
    assert len({e.tool_call_id for e in answers}) == len(answers), "a hook decides once"
    given = {e.args["key"] for e in answers if e.args}
    assert {r.removeprefix("once ") for r in ran if r.startswith("once")} <= given


def _check_children(run: Run) -> None:
    """Whatever died, a sub-agent ended as its run lets it, and its chain of messages is whole."""
    assert all(child.status.over for child in run.children)
    assert all(c.pending == () and c.unexecuted == () for c in run.children)
    for child in run.children:
        own = [child.input, *child.messages]
        assert all(b.parent_id == a.id for a, b in pairwise(own)), "one chain of parents"
        assert all(a.created_at < b.created_at for a, b in pairwise(own)), "times only grow"
        if run.status is Status.SUCCESS and not _is_refused(child):
            assert (child.status, child.text) == (Status.SUCCESS, "that was it")
    spent = sum(item["total_tokens"] for item in run.usage.sub_agents)
    assert spent == sum(child.usage.total_tokens for child in run.children)


def _is_refused(child: Run) -> bool:
    """More worked in the background than may."""
    return child.error is not None and child.error.type == "LimitReached"


def _check_notices(run: Run) -> None:
    """A run is told once of each end in the background, and before its own."""
    parts = [m.content[0] for m in run.messages if m.role is Role.CUSTOM]
    noticed = [part.data["run_id"] for part in parts if isinstance(part, DataPart)]
    assert len(noticed) == len(set(noticed)), "an end is told once"
    if run.status is Status.SUCCESS:
        beside = {c.id for c in run.children if c.agent == "aide" and not _is_refused(c)}
        assert set(noticed) == beside, "no end is left untold"


def _check_handoffs(run: Run, events: list[Event], script: Script, head: ThreadHead) -> None:
    """A step gives the conversation away once, and the run and its thread are whose it is then."""
    handoffs = [e for e in events if e.type == "handoff"]
    steps = sum("hand" in kinds for kinds in script.steps)
    if run.status is Status.SUCCESS:
        assert len(handoffs) == steps
    assert len(handoffs) <= steps
    holder = "agent"
    for handoff in handoffs:
        assert (handoff.giver, handoff.to) == (holder, OTHER[holder])
        holder = handoff.to
    assert (run.agent, head.agent) == (holder, holder)
    parts = [p for m in run.messages for p in m.content if isinstance(p, ToolResultPart)]
    done = [p for p in parts if str(p.result).endswith("has the conversation from here on")]
    assert len(done) <= steps, "a step says once that it handed over"


def _follows_a_call_never_made(result: Message, own: list[Message], run: Run) -> bool:
    """A cancelled run has no result of the call before it in its step, whose message is a place."""
    if run.status is Status.SUCCESS or result.role is not Role.TOOL:
        return False
    before = own[: own.index(result)]
    speaker = next(m for m in reversed(before) if m.role is Role.ASSISTANT)
    calls = [call.tool_call_id for call in speaker.tool_calls]
    answered = {p.tool_call_id for m in own for p in m.content if isinstance(p, ToolResultPart)}
    at = calls.index(next(p for p in result.content if isinstance(p, ToolResultPart)).tool_call_id)
    return at > 0 and calls[at - 1] not in answered


def _check_messages(run: Run, stored: list[Message]) -> None:
    own = [run.input, *run.messages]
    assert [m.id for m in stored] == [m.id for m in own], "what is shown is what is stored"
    assert all(a.created_at < b.created_at for a, b in pairwise(own)), "times only grow"
    gaps = [b for a, b in pairwise(own) if b.parent_id != a.id]
    assert all(_follows_a_call_never_made(b, own, run) for b in gaps), "one chain of parents"
    for message in own:
        if message.tool_calls and run.status is Status.SUCCESS:
            at = own.index(message)
            results = [m.content[0] for m in own[at + 1 :] if m.role is Role.TOOL]
            ids = [getattr(p, "tool_call_id", "") for p in results[: len(message.tool_calls)]]
            assert ids == [c.tool_call_id for c in message.tool_calls], "results in call order"


async def _play(script: Script) -> None:
    driver = Driver(script)
    run = await driver.play()
    bench = driver.bench
    assert run.status.over
    assert run.pending == ()
    if script.cancel_after is None:
        assert run.status is Status.SUCCESS, run.error
    events = await bench.events(run.id)
    _check_events(run, events)
    _check_hooks(events, driver.effects.ran)
    _check_children(run)
    _check_notices(run)
    head = await bench.head()
    _check_handoffs(run, events, script, head)
    assert (head.active_run, head.leaf_id) == (None, [run.input, *run.messages][-1].id)
    if not head.unsaved:
        _check_messages(run, await bench.stored())
    for kind in NEVER_TWICE:
        effects = [r.partition(" by ")[0] for r in driver.effects.ran if r.startswith(kind)]
        assert len(effects) == len(set(effects)), f"{kind} ran twice: {effects}"
    waiting = await bench.plain.journal.decisions.page_pending(ANN, None, 100, None)
    assert waiting.items == (), "nothing waits for a run that is over"


TWO_HANDOFFS = Script(
    [["hand", "hand", "approve"], ["hand", "aide"]], 2, ["yes"], [4, 9], [True] * 4, 0, None
)
"""Chance seldom has two hand-offs in one step."""
NEVER_MADE = Script(
    [["plain", "plain", "approve", "plain"], ["plain", "approve"]],
    3, ["yes"], [13, 13, 13], [False] * 4, 0, 3,
)  # fmt: skip
"""Cancelled when one of two calls was settled, and the one before it had never begun."""


@examples(150)
@given(scripts())
@example(TWO_HANDOFFS)
@example(NEVER_MADE)
def test_a_run_loses_nothing_and_does_nothing_twice_whatever_dies(script: Script) -> None:
    asyncio.run(_play(script))


def test_the_power_switch_really_cuts() -> None:
    """The property above would hold of anything if nothing ever died."""
    script = Script([["plain", "once"]], 1, ["yes"], [3, 7], [False, True, False, False], 0, None)
    driver = Driver(script)
    asyncio.run(driver.play())
    assert driver.cuts == []
    assert driver.bench.power.cuts == 2
    assert isinstance(driver.bench.power, Power)
