"""What a provider answers, in whatever shape: texts, arguments, ids, times."""

from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, tool
from layover.adapters.inmemory.model import call, calls, say
from layover.clock import ManualClock
from layover.values.message import Role
from layover.values.prompt import Prompt, Reply, RequestedCall
from layover.values.run import Status
from run_kit import Bench, seen, told


@tool
async def look(what: str) -> dict[str, str]:
    """Look something up."""
    return {"found": what}


def agent(*tools: Any, **options: Any) -> Agent:
    return Agent("helper", model="m", tools=tools, **options)


async def test_text_that_no_store_takes_is_replaced_and_saved() -> None:
    odd = "a\0b\ud800c"
    reply = Reply(
        text=odd,
        reasoning=odd,
        finish_reason="tool-calls",
        calls=(RequestedCall(id=odd, name="look", args='{"what": "x\\u0000\\ud83d"}'),),
    )
    bench = Bench(agent(look), [reply, say(odd)])
    run = await bench.go(stream=True)
    assert (run.status, run.text) == (Status.SUCCESS, "a�b�c")
    assert told(run.messages)[1] == ("tool", {"found": "x��"})
    await bench.events(run.id)


@pytest.mark.parametrize("args", ["not json", "[1]", '"text"', "[" * 100_000, '{"what": NaN}', ""])
async def test_arguments_that_are_no_object_are_a_tools_error_and_end_no_run(args: str) -> None:
    reply = Reply(calls=(RequestedCall(id="c", name="look", args=args),))
    bench = Bench(agent(look), [reply, say("sorry")])
    run = await bench.go()
    assert run.status is Status.SUCCESS
    assert "Invalid tool input: " in seen(bench.model.prompts[1])[0]


async def test_missing_and_repeated_call_ids_become_unique_in_the_run() -> None:
    def asked(*ids: str) -> Reply:
        return Reply(
            calls=tuple(RequestedCall(id=i, name="look", args='{"what":"x"}') for i in ids)
        )

    class Raw:
        """A provider that does not name its calls."""

        def __init__(self) -> None:
            self.prompts: list[Prompt] = []
            self.script = [asked("a", "a", ""), asked("a", ""), say("done")]

        async def complete(self, prompt: Prompt, on_delta: Any = None) -> Reply:
            self.prompts.append(prompt)
            return self.script[len(self.prompts) - 1]

    bench = Bench(agent(look, tool_concurrency=3), Raw())
    run = await bench.go()
    assert run.status is Status.SUCCESS
    named = [c.tool_call_id for m in run.messages for c in m.tool_calls]
    assert named[0] == "a"
    assert len(set(named)) == len([i for i in named if i]) == 5
    assert len([m for m in run.messages if m.role is Role.TOOL]) == 5


async def test_a_call_id_too_long_for_a_key_is_replaced() -> None:
    reply = Reply(calls=(RequestedCall(id="x" * 5_000, name="look", args='{"what": "a"}'),))
    run = await Bench(agent(look), [reply, say("fine")]).go()
    assert run.status is Status.SUCCESS
    assert 0 < len(run.messages[0].tool_calls[0].tool_call_id) <= 100


async def test_times_rise_strictly_while_the_clock_stands_still_or_goes_back() -> None:
    clock = ManualClock()

    @tool(to_message=lambda result: {"name": "card", "data": result})
    async def back(n: int) -> int:
        """Turn the clock back."""
        clock.advance(timedelta(hours=-1))
        return n

    script = [calls(call("back", n=1), call("back", n=2)), call("back", n=3), say("a"), say("b")]
    bench = Bench(agent(back), script, clock=clock)
    run = await bench.go("one")
    times = [run.input.created_at, *(m.created_at for m in run.messages)]
    again = await bench.go("two")
    times += [again.input.created_at, *(m.created_at for m in again.messages)]
    assert times == sorted(set(times))
    assert [m.role for m in await bench.stored()].count(Role.CUSTOM) == 3


async def test_each_message_hangs_on_the_one_before_it() -> None:
    bench = Bench(agent(look), [calls(call("look", what="a"), call("look", what="b")), say("x")])
    run = await bench.go()
    chain = [run.input, *run.messages]
    assert [m.parent_id for m in chain[1:]] == [m.id for m in chain[:-1]]
