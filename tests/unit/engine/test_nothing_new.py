"""Steps that bring nothing new: the model is told, and then its run ends."""

import asyncio
from typing import Any

import pytest

from layover import (
    Agent,
    DefinitionError,
    Hook,
    HookContext,
    Limits,
    Retry,
    ToolCall,
    ToolResult,
    tool,
)
from layover.inmemory.model import ScriptedModel, call, calls, say
from layover.values.message import Role
from layover.values.prompt import Prompt, Reply, RequestedCall
from layover.values.runs.event import LoopEvent
from layover.values.runs.run import Status
from support.examples import share
from support.worlds.runs import Bench, Power

TOLD = "[Nothing new"
SEEN: list[int] = []


@tool(idempotent=True)
async def look(order: str) -> dict[str, str]:
    """Look an order up."""
    return {"order": order, "state": "open"}


@tool
async def list_all() -> list[str]:
    """List all orders."""
    return ["7", "8"]


@tool
async def ship(order: str, weight: int) -> str:
    """Ship an order."""
    raise LookupError(f"no order {order}")


@tool
async def count(order: str) -> str:
    """Count, and answer differently each time."""
    SEEN.append(1)
    return f"{len(SEEN)} looks"


@tool
async def poll() -> str:
    """Ask for another attempt."""
    raise Retry("not ready yet")


@tool(polling=True)
async def status() -> str:
    """Ask how far a job is."""
    return "running"


def agent(*tools: Any, **options: Any) -> Agent:
    made: list[Any] = [*tools] or [look, list_all, ship]
    return Agent("helper", model="m", tools=made, **options)


def told(prompt: Prompt) -> list[int]:
    """The messages of a prompt that say so, by their places from the end."""
    outputs = [m.model_output or "" for m in prompt.messages]
    return [at - len(outputs) for at, output in enumerate(outputs) if TOLD in output]


SAME = call("look", order="7")
FAILING = call("ship", order="7", weight=1)


async def loops(bench: Bench, run_id: str) -> list[LoopEvent]:
    return [e for e in await bench.events(run_id) if isinstance(e, LoopEvent)]


async def test_the_same_call_is_told_so_with_its_fifth_equal_result_and_ends_with_its_eighth() -> (
    None
):
    bench = Bench(agent(), [SAME] * 20)
    run = await bench.go()
    assert (run.status, run.finish_reason, run.error) == (Status.SUCCESS, "loop", None)
    assert len(bench.model.prompts) == 8
    assert [told(p) for p in bench.model.prompts] == [[]] * 5 + [[-1], [-3], [-5]]
    [loop] = await loops(bench, run.id)
    assert (loop.tools, loop.steps) == (("look",), 7)


async def test_a_model_that_listens_goes_on() -> None:
    bench = Bench(agent(), [*[SAME] * 5, call("look", order="8"), *[SAME] * 6, say("It is open.")])
    run = await bench.go()
    assert (run.finish_reason, run.text) == ("stop", "It is open.")


async def test_two_calls_that_alternate_come_no_further_either() -> None:
    bench = Bench(agent(), [SAME, call("list_all")] * 10)
    run = await bench.go()
    assert (run.finish_reason, len(bench.model.prompts)) == ("loop", 9)
    [loop] = await loops(bench, run.id)
    assert loop.tools == ("list_all", "look")


async def test_one_new_call_among_repeated_ones_is_something_new() -> None:
    script = [calls(SAME, call("look", order=str(n))) for n in range(12)]
    run = await Bench(agent(), [*script, say("done")]).go()
    assert run.text == "done"


async def test_a_failing_test_after_each_edit_is_no_loop() -> None:
    edits = [each for n in range(6) for each in (call("look", order=str(n)), FAILING)]
    run = await Bench(agent(), [*edits, say("mended")]).go()
    assert run.text == "mended"


@pytest.mark.parametrize(
    "same",
    [
        FAILING,
        call("sheep", order="7"),
        Reply(calls=(RequestedCall(id="c", name="ship", args='{"order": "7"'),)),
    ],
    ids=["failed", "no such tool", "cut arguments"],
)
async def test_the_same_error_for_the_third_time_in_a_row_ends_it_at_once(same: Reply) -> None:
    bench = Bench(agent(), [same] * 20)
    run = await bench.go()
    assert (run.status, run.finish_reason) == (Status.SUCCESS, "loop")
    assert len(bench.model.prompts) == 3
    [loop] = await loops(bench, run.id)
    assert loop.steps == 3


async def test_one_step_may_make_the_call_often() -> None:
    run = await Bench(agent(), [calls(FAILING, FAILING, FAILING), say("sorry")]).go()
    assert run.text == "sorry"


async def test_errors_that_differ_may_go_on() -> None:
    changed = [call("ship", order=str(n), weight=1) for n in range(8)]
    run = await Bench(agent(), [*changed, say("sorry")]).go()
    assert run.text == "sorry"


async def test_results_that_differ_are_news() -> None:
    run = await Bench(agent(count), [*[call("count", order="7")] * 12, say("done")]).go()
    assert run.text == "done"


@pytest.mark.parametrize("name", ["poll", "status"])
async def test_polling_and_a_wish_for_another_attempt_are_always_news(name: str) -> None:
    bench = Bench(agent(poll, status), [*[call(name)] * 12, say("ready")])
    run = await bench.go()
    assert run.text == "ready"
    assert not any(told(p) for p in bench.model.prompts)


async def test_the_number_of_steps_is_the_agents() -> None:
    bench = Bench(agent(limits=Limits(stale_steps=1)), [SAME] * 20)
    run = await bench.go()
    assert (run.finish_reason, len(bench.model.prompts)) == ("loop", 5)
    assert told(bench.model.prompts[2]) == [-1]


async def test_an_agent_may_repeat_itself_until_its_other_limits() -> None:
    bench = Bench(agent(limits=Limits(stale_steps=None), max_iterations=12), [SAME] * 20)
    run = await bench.go()
    assert (run.finish_reason, len(bench.model.prompts)) == ("max-iterations", 12)
    assert not any(told(p) for p in bench.model.prompts)


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "4"])
def test_a_number_that_is_none_is_refused(number: Any) -> None:
    with pytest.raises(DefinitionError, match="stale_steps"):
        Limits(stale_steps=number)


async def test_a_sub_agent_that_ends_so_answers_its_caller() -> None:
    helper = Agent("shipper", model="m", tools=[look])
    boss = agent(helper.as_tool("Looks."))
    bench = Bench(boss, [call("shipper", input="look"), *[SAME] * 8, say("I could not.")])
    run = await bench.go()
    assert (run.finish_reason, run.text) == ("stop", "I could not.")
    assert run.children[0].finish_reason == "loop"
    [loop] = await loops(bench, run.id)
    assert loop.agent_path == ("helper", "shipper")


async def test_a_sub_agent_in_the_background_that_ends_so_is_told_of_in_its_place() -> None:
    helper = Agent("shipper", model="m", tools=[look])
    boss = Agent("helper", model="m", tools=[helper.as_tool("Looks.", background=True)])

    def answer(prompt: Prompt) -> Reply:
        if any(spec.name == "look" for spec in prompt.tools):
            return SAME
        is_first = all(m.role is not Role.ASSISTANT for m in prompt.messages)
        return call("shipper", input="look") if is_first else say("Fine.")

    bench = Bench(boss, ScriptedModel(answer))
    run = await bench.go()
    assert run.children[0].finish_reason == "loop"
    [loop] = await loops(bench, run.id)
    assert (loop.agent_path, loop.steps) == (("helper", "shipper"), 7)
    assert loop.parent_tool_call_id == run.messages[0].tool_calls[0].tool_call_id


class DiesOnce(Hook):
    """Dies behind the end of a sub-agent, once a call of its caller has been written."""

    def __init__(self, power: Power) -> None:
        self.power = power
        self.has_ended = asyncio.Event()
        self.dies = True

    async def after_tool(self, ctx: HookContext, call: ToolCall, result: ToolResult) -> None:
        if call.tool_name == "shipper" and self.dies:
            self.dies = False
            self.has_ended.set()
            for _ in range(100):
                await asyncio.sleep(0)
            self.power.dead = True


async def test_the_end_of_a_sub_agent_is_told_once_although_its_process_died_before_it_was_written() -> (
    None
):
    hook = DiesOnce(Power())

    @tool
    async def wait() -> str:
        """Wait for the sub-agent."""
        await hook.has_ended.wait()
        return "waited"

    helper = Agent("shipper", model="m", tools=[look])
    boss = agent(helper.as_tool("Looks."), wait, hooks=[hook], tool_concurrency=2)
    both = calls(call("shipper", input="look"), call("wait"))
    script = [both, *[SAME] * 8, say("I could not.")]
    bench = Bench(boss, script, power=hook.power)
    run = await bench.go()
    assert not hook.dies
    assert (run.finish_reason, run.text) == ("stop", "I could not.")
    [loop] = await loops(bench, run.id)
    assert loop.agent_path == ("helper", "shipper")
    # It stands before the end of the call that it explains.
    told_of: list[tuple[str, str]] = [
        (e.type, getattr(e, "tool_name", "")) for e in await bench.events(run.id)
    ]
    end = ("tool-execution-end", "shipper")
    assert told_of.index(("loop", "")) == told_of.index(end) - 1


@pytest.mark.parametrize("after", [False, True])
async def test_a_death_anywhere_leaves_the_end_of_a_sub_agent_in_the_log_once(after: bool) -> None:
    def bench(power: Power | None = None) -> Bench:
        def answer(prompt: Prompt) -> Reply:
            if any(spec.name == "look" for spec in prompt.tools):
                return SAME
            is_first = all(m.role is not Role.ASSISTANT for m in prompt.messages)
            return call("shipper", input="look") if is_first else say("I could not.")

        limited = Agent("shipper", model="m", tools=[look], limits=Limits(stale_steps=1))
        top = Agent("helper", model="m", tools=[limited.as_tool("Looks.")])
        return Bench(top, ScriptedModel(answer), power=power)

    quiet = bench()
    await quiet.go()
    for cut_at in range(1, quiet.power.calls + 1, share(5)):
        mortal = bench(Power(cut_at, after=after))
        run = await mortal.go()
        assert run.text == "I could not.", cut_at
        [loop] = await loops(mortal, run.id)
        assert loop.agent_path == ("helper", "shipper")


async def test_another_runs_calls_do_not_count() -> None:
    bench = Bench(agent(), [*[SAME] * 4, say("open"), *[SAME] * 4, say("still open")])
    assert (await bench.go()).text == "open"
    assert (await bench.go()).text == "still open"


@pytest.mark.parametrize("after", [False, True])
async def test_a_death_anywhere_changes_neither_the_end_nor_what_the_model_is_told(
    after: bool,
) -> None:
    quiet = Bench(agent(), [SAME] * 8)
    await quiet.go()
    wanted = [told(p) for p in quiet.model.prompts]
    for cut_at in range(1 + after % share(2), quiet.power.calls + 1, share(2)):
        # A death before its answer was journaled asks the model once more.
        bench = Bench(agent(), [SAME] * 16, power=Power(cut_at, after=after))
        run = await bench.go()
        assert run.finish_reason == "loop", cut_at
        [loop] = await loops(bench, run.id)
        assert loop.steps == 7
        assert [each for each in map(told, bench.model.prompts) if each][-1] == wanted[-1]
