"""A model that makes the same failing call again and again."""

from typing import Any

from layover import Agent, Retry, tool
from layover.adapters.inmemory.model import call, calls, say
from layover.values.prompt import Reply, RequestedCall
from layover.values.runs.run import Status
from support.worlds.runs import Bench

SEEN: list[int] = []


@tool
async def ship(order: str, weight: int) -> str:
    """Ship an order."""
    raise LookupError(f"no order {order}")


@tool
async def count(order: str) -> str:
    """Count, and fail differently each time."""
    SEEN.append(1)
    raise LookupError(f"{len(SEEN)} looks and no order {order}")


@tool
async def poll() -> str:
    """Ask for another attempt."""
    raise Retry("not ready yet")


@tool
async def wrong() -> dict[str, str]:
    """Return what is wrong, without an error."""
    return {"status": "wrong"}


def agent(*tools: Any, **options: Any) -> Agent:
    return Agent("helper", model="m", tools=tools, **options)


def broken(args: str) -> Reply:
    return Reply(calls=(RequestedCall(id="c", name="ship", args=args),))


async def test_the_third_step_with_the_same_failing_call_ends_the_run() -> None:
    bench = Bench(agent(ship), [call("ship", order="7", weight=1)] * 20)
    run = await bench.go()
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == "SameCallFailed"
    assert "ship was called in 3 steps" in run.error.message
    assert "order" not in run.error.message  # the tool's own words are in the call's result
    assert len(bench.model.prompts) == 3


async def test_arguments_that_are_not_whole_end_it_too() -> None:
    bench = Bench(agent(ship), [broken('{"order": "7"')] * 20)
    run = await bench.go()
    assert (run.status, len(bench.model.prompts)) == (Status.FAILED, 3)


async def test_a_tool_that_does_not_exist_ends_it_too() -> None:
    bench = Bench(agent(ship), [call("sheep", order="7")] * 20)
    run = await bench.go()
    assert (run.status, len(bench.model.prompts)) == (Status.FAILED, 3)


async def test_other_calls_between_do_not_hide_it() -> None:
    same, other = call("ship", order="7", weight=1), call("wrong")
    bench = Bench(agent(ship, wrong), [same, other, calls(other, same), other, same, say("no")])
    run = await bench.go()
    assert (run.status, len(bench.model.prompts)) == (Status.FAILED, 5)


async def test_a_sub_agent_that_ends_so_is_its_callers_tool_error() -> None:
    helper = Agent("shipper", model="m", tools=[ship])
    boss = agent(helper.as_tool("Ships."))
    failing = [call("ship", order="7", weight=1)] * 3
    bench = Bench(boss, [call("shipper", input="ship"), *failing, say("I could not.")])
    run = await bench.go()
    assert (run.status, run.text) == (Status.SUCCESS, "I could not.")


async def test_one_step_may_make_the_call_often() -> None:
    same = call("ship", order="7", weight=1)
    run = await Bench(agent(ship), [calls(same, same, same), say("sorry")]).go()
    assert (run.status, run.text) == (Status.SUCCESS, "sorry")


async def test_a_call_that_changes_or_fails_otherwise_may_go_on() -> None:
    changed = [call("ship", order=str(n), weight=1) for n in range(5)]
    run = await Bench(agent(ship), [*changed, say("sorry")]).go()
    assert run.text == "sorry"
    run = await Bench(agent(count), [call("count", order="7")] * 5 + [say("sorry")]).go()
    assert run.text == "sorry"


async def test_a_result_that_is_no_error_and_a_wish_for_another_attempt_may_go_on() -> None:
    for made, name in ((wrong, "wrong"), (poll, "poll")):
        run = await Bench(agent(made), [call(name)] * 5 + [say("done")]).go()
        assert (run.status, run.text) == (Status.SUCCESS, "done")
