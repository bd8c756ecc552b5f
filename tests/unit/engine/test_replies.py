"""What a provider answers, in whatever shape: texts, arguments, ids, times."""

import json
from datetime import timedelta
from typing import Any

import pytest

from layover import Agent, tool
from layover.adapters.inmemory.model import call, calls, say
from layover.clock import ManualClock
from layover.values.event import ToolCallDelta
from layover.values.message import Role
from layover.values.prompt import Delta, Prompt, Reply, RequestedCall
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


async def test_deltas_name_a_call_as_its_message_does() -> None:
    def look_up(given: str, what: str) -> Reply:
        return call("look", tool_call_id=given, what=what)

    steps = [calls(look_up("a", "1"), look_up("a", "2"), look_up("x" * 5_000, "3"))]
    bench = Bench(agent(look), [*steps, look_up("a", "4"), say("done")])
    run = await bench.go(stream=True)
    written = {c.tool_call_id: c.args for m in run.messages for c in m.tool_calls}
    assert len(written) == 4
    deltas = [e for e in await bench.events(run.id) if isinstance(e, ToolCallDelta)]
    assert {e.tool_call_id: json.loads(e.args_delta) for e in deltas} == written


async def test_a_reply_that_begins_again_keeps_no_id_of_the_broken_one() -> None:
    whole = RequestedCall(id="b", name="look", args='{"what": "x"}')

    class Breaking:
        """A stream that breaks in a call, and then makes another one."""

        async def complete(self, prompt: Prompt, on_delta: Any) -> Reply:
            if len(prompt.messages) > 1:
                return say("done")
            on_delta(Delta(kind="tool-call", text="{", tool_call_id="a", tool_name="look"))
            on_delta(Delta(kind="restart"))
            on_delta(Delta(kind="tool-call", text=whole.args, tool_call_id="b", tool_name="look"))
            return Reply(calls=(whole,), finish_reason="tool-calls")

    bench = Bench(agent(look), Breaking())
    run = await bench.go(stream=True)
    assert [c.tool_call_id for m in run.messages for c in m.tool_calls] == ["b"]
    deltas = [e for e in await bench.events(run.id) if isinstance(e, ToolCallDelta)]
    assert [e.tool_call_id for e in deltas] == ["a", "b"]


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
