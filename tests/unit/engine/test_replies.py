"""A provider's replies, in whatever shape: texts, arguments, ids, times."""

import json
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, tool
from layover.clock import ManualClock
from layover.inmemory.model import call, calls, say
from layover.values.message import Role
from layover.values.prompt import Delta, Prompt, Reply, RequestedCall
from layover.values.runs.event import ToolCallDelta
from layover.values.runs.run import Status
from support.worlds.runs import Bench, nested, seen, suspended, told, types


@tool
async def look(what: str) -> dict[str, str]:
    """Look something up."""
    return {"found": what}


@tool
async def anything(x: Any) -> str:
    """Take anything."""
    return "got it"


class Anything(BaseModel):
    """An answer of any shape."""

    x: Any


@tool
async def refund(amount: float = 5, note: Any = None) -> str:
    """Refund."""
    return f"refunded {amount}"


@tool(needs_approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


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


@pytest.mark.parametrize(
    "args",
    [f'{{"{name}": {x}}}' for name in ("amount", "note") for x in ("1e999", "NaN", "[-1e999]")],
)
async def test_a_number_that_json_cannot_say_is_a_tools_error_and_not_the_default(
    args: str,
) -> None:
    reply = Reply(calls=(RequestedCall(id="c", name="refund", args=args),))
    bench = Bench(agent(refund), [reply, say("sorry")])
    run = await bench.go()
    assert run.status is Status.SUCCESS
    assert "Invalid tool input: " in seen(bench.model.prompts[1])[0]
    await bench.events(run.id)


@pytest.mark.parametrize("levels", [100, 150, 194, 198, 300])
async def test_arguments_that_are_nested_too_deep_are_a_tools_error(levels: int) -> None:
    bench = Bench(agent(anything), [call("anything", x=nested(levels)), say("sorry")])
    run = await bench.go()
    assert run.status is Status.SUCCESS
    assert "Invalid tool input: " in seen(bench.model.prompts[1])[0]
    await bench.events(run.id)


async def test_arguments_of_a_hundred_levels_reach_the_tool() -> None:
    bench = Bench(agent(anything), [call("anything", x=nested(99)), say("fine")])
    run = await bench.go()
    assert seen(bench.model.prompts[1]) == ["got it"]
    assert types(await bench.events(run.id)).count("tool-execution-start") == 1


async def test_an_answer_that_is_nested_too_deep_is_asked_for_again() -> None:
    def answer(levels: int) -> Reply:
        return say(json.dumps({"x": nested(levels)}))

    bench = Bench(agent(output=Anything), [answer(150), answer(50)])
    run = await bench.go()
    assert (run.status, run.output) == (Status.SUCCESS, {"x": nested(50)})
    await bench.events(run.id)


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


@pytest.mark.parametrize("sign", ["é", "漢", "😀", "#"])
async def test_a_call_id_whose_encoded_form_is_too_long_for_a_key_is_replaced(sign: str) -> None:
    reply = call("pay", tool_call_id=sign * 256)
    run = await suspended(Bench(agent(pay), [reply]))
    assert 0 < len(run.pending[0].tool_call_id) <= 100


async def test_a_short_call_id_stays_whatever_it_is_made_of() -> None:
    bench = Bench(agent(look), [call("look", tool_call_id="é/漢#😀", what="a"), say("fine")])
    run = await bench.go()
    assert run.messages[0].tool_calls[0].tool_call_id == "é/漢#😀"


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

        async def complete(self, prompt: Prompt, on_delta: Any = None) -> Reply:
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
