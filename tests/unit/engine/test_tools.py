"""Tool calls: errors, time-outs, what the model sees."""

import asyncio
import json
import math
import threading
from typing import Any

import pytest
from pydantic import BaseModel, Json, field_validator

from layover import Agent, ToolContext, tool
from layover.inmemory.model import call, calls, say
from layover.values.message import Role
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.worlds.runs import Bench, nested, seen, told, types


class Payload(BaseModel):
    """The payload that a person is shown."""

    note: str

    @field_validator("note")
    @classmethod
    def _fussy(cls, note: str) -> str:
        if note == "odd":
            raise KeyError("odd")
        return note


class Answer(BaseModel):
    """The answer that a person gives."""

    yes: bool


class Abort(BaseException):
    """No Exception."""


async def run_tool(made: Any, **args: Any) -> tuple[str, Bench, Run]:
    """Run one call of this tool, and return its result as the model reads it, the bench, and the run."""
    bench = Bench(Agent("helper", model="m", tools=[made]), [call(made.name, **args), say("done")])
    run = await bench.go()
    assert run.status is Status.SUCCESS
    return seen(bench.model.prompts[1])[0], bench, run


def raising(error: BaseException, *, plain: bool = False) -> Any:
    @tool
    async def breaks() -> str:
        """Break."""
        raise error

    @tool(name="breaks")
    def breaks_in_thread() -> str:
        """Break."""
        raise error

    return breaks_in_thread if plain else breaks


async def test_an_unknown_tool_is_an_error_for_the_model_and_nothing_else() -> None:
    bench = Bench(Agent("helper", model="m"), [call("ghost"), say("ok")])
    run = await bench.go()
    assert (run.status, seen(bench.model.prompts[1])) == (
        Status.SUCCESS,
        ["Tool ghost not found"],
    )


async def test_arguments_that_do_not_fit_never_reach_the_handler() -> None:
    ran: list[int] = []

    @tool
    async def double(n: int) -> int:
        """Double."""
        ran.append(n)
        return 2 * n

    told_model, _, run = await run_tool(double, n="many")
    assert told_model.startswith("Invalid tool input: n: ")
    assert ran == []
    assert [p.is_error for m in run.messages for p in m.content if p.type == "tool_result"] == [
        True
    ]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("no such order"), "ValueError: no such order"),
        (ValueError(), "ValueError: (no message)"),
        (ValueError("a\0b\ud800"), "ValueError: a�b�"),
        (TimeoutError("the upstream is slow"), "TimeoutError: the upstream is slow"),
        (SystemExit(3), "RuntimeError: the tool tried to exit (3)"),
        (asyncio.CancelledError(), "CancelledError: the tool cancelled itself"),
        (Abort("stop"), "Abort: stop"),
    ],
)
async def test_whatever_a_tool_raises_is_told_to_the_model(
    error: BaseException, says: str, plain: bool
) -> None:
    told_model, _, _ = await run_tool(raising(error, plain=plain))
    assert told_model == says


@pytest.mark.parametrize("plain", [False, True])
async def test_the_log_says_where_a_tool_failed_and_nothing_of_what_it_was_given(
    plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await run_tool(raising(KeyError("the secret argument"), plain=plain))
    (record,) = [r for r in caplog.records if r.levelname == "WARNING"]
    assert "failed with KeyError" in record.getMessage()
    assert vars(record)["where"][-1].split("/")[-1].startswith("test_tools.py:")
    assert vars(record)["run_id"]
    assert "secret" not in str(vars(record))


async def test_a_tool_that_awaits_something_cancelled_is_a_tool_error() -> None:
    @tool
    async def waits() -> str:
        """Wait for a cancelled task."""
        task = asyncio.ensure_future(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task
        return "never"

    told_model, _, _ = await run_tool(waits)
    assert told_model.startswith("CancelledError")


async def test_a_tool_that_cancels_its_own_task_ends_no_run() -> None:
    @tool
    async def suicidal() -> str:
        """Cancel the task that this runs in."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)
        return "never"

    assert (await run_tool(suicidal))[0].startswith("CancelledError")


@pytest.mark.parametrize("plain", [False, True])
async def test_a_call_that_takes_too_long_is_a_tool_error(plain: bool) -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(60)
        return "never"

    @tool(name="slow", timeout=0.05)
    def slow_in_thread() -> str:
        """Take long."""
        release.wait(30)
        return "never"

    told_model, _, _ = await run_tool(slow_in_thread if plain else slow)
    release.set()
    assert told_model == "TimeoutError: slow took longer than 0.05 s"


async def test_a_tools_own_time_out_is_told_in_its_own_words_though_the_tool_has_a_limit() -> None:
    @tool(timeout=30)
    async def asks() -> str:
        """Ask an upstream."""
        raise TimeoutError("the upstream is slow")

    assert (await run_tool(asks))[0] == "TimeoutError: the upstream is slow"


async def test_a_predicate_that_raises_stops_the_call_and_not_the_run() -> None:
    ran: list[int] = []

    def unsure(args: dict[str, Any], ctx: ToolContext) -> bool:
        raise KeyError("amount")

    @tool(needs_approval=unsure)
    async def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    told_model, _, _ = await run_tool(pay, amount=3)
    assert (told_model, ran) == ("KeyError: 'amount'", [])


async def test_a_predicate_that_is_cancelled_stops_the_call_and_not_the_run() -> None:
    async def unsure(args: dict[str, Any], ctx: ToolContext) -> bool:
        raise asyncio.CancelledError

    @tool(needs_approval=unsure)
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    assert (await run_tool(pay, amount=3))[0].startswith("CancelledError")


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ({"wrong": 1}, "Invalid suspend payload: note: "),
        ({"note": "odd"}, "KeyError: 'odd'"),
        (object(), "Invalid suspend payload: "),
    ],
)
async def test_a_suspension_that_is_not_as_declared_is_a_tool_error(
    payload: Any, says: str
) -> None:
    @tool(suspend=Payload, resume=Answer)
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        return ctx.suspend(payload)

    assert (await run_tool(ask))[0].startswith(says)


async def test_a_tool_that_suspends_without_saying_so_is_a_tool_error() -> None:
    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        return ctx.suspend({"note": "x"})

    assert (await run_tool(ask))[0].startswith("ConfigurationError: ")


async def test_what_the_model_sees_is_computed_once_and_kept_beside_the_raw_result() -> None:
    shaped: list[Any] = []

    def shape(result: dict[str, int]) -> str:
        shaped.append(result)
        return f"about {result['n']}"

    @tool(to_model_output=shape)
    async def count() -> dict[str, int]:
        """Count."""
        return {"n": 7}

    bench = Bench(
        Agent("helper", model="m", tools=[count]),
        [call("count"), call("count"), say("a"), say("b")],
    )
    run = await bench.go("one")
    await bench.go("two")
    assert len(shaped) == 2
    assert seen(bench.model.prompts[-1]) == ["about 7", "about 7"]
    ends = [e for e in await bench.events(run.id) if e.type == "tool-execution-end"]
    assert [e.result for e in ends] == [{"n": 7}, {"n": 7}]
    assert [r for role, r in told(await bench.stored()) if role == "tool"] == [{"n": 7}] * 2


@pytest.mark.parametrize("shaper", ["to_model_output", "to_message"])
async def test_a_shaper_that_raises_is_a_tool_error(shaper: str) -> None:
    def bad(result: Any) -> Any:
        raise LookupError("no shape")

    @tool(**{shaper: bad})  # type: ignore[call-overload,untyped-decorator]
    async def count() -> int:
        """Count."""
        return 7

    assert (await run_tool(count))[0] == "LookupError: no shape"


async def test_a_result_that_contains_itself_is_a_tool_error() -> None:
    @tool
    async def ring() -> Any:
        """Make a ring."""
        made: list[Any] = []
        made.append(made)
        return made

    told_model, _, run = await run_tool(ring)
    assert ": " in told_model
    assert run.status is Status.SUCCESS


@pytest.mark.parametrize("way", ["result", "model_output", "emit", "message"])
async def test_a_result_that_says_nothing_but_its_address_is_a_tool_error(way: str) -> None:
    """The model read `<Order object at 0x7f...>` as a success."""

    class Order:
        """Says nothing about itself."""

    def shape(result: Any) -> Any:
        return Order() if way == "model_output" else result

    def card(result: Any) -> Any:
        return {"name": "card", "data": Order()} if way == "message" else None

    @tool(to_model_output=shape, to_message=card)
    async def find(ctx: ToolContext) -> Any:
        """Find an order."""
        if way == "emit":
            ctx.emit({"order": Order()})
        return [Order()] if way == "result" else "found"

    told_model, _, run = await run_tool(find)
    assert told_model.startswith("ValueError: a value of type Order has no JSON form: give text")
    assert run.status is Status.SUCCESS


@pytest.mark.parametrize("way", ["result", "suspend", "emit", "message"])
@pytest.mark.parametrize("levels", [101, 150, 195, 199, 300])
async def test_what_a_tool_nests_too_deep_is_a_tool_error_and_the_events_stay_readable(
    levels: int, way: str
) -> None:
    def card(result: Any) -> Any:
        return {"name": "card", "data": nested(levels)} if way == "message" else None

    @tool(suspend=Any, resume=Answer, to_message=card)
    async def dig(ctx: ToolContext) -> Any:
        """Dig."""
        if way == "suspend":
            return ctx.suspend(nested(levels))
        if way == "emit":
            ctx.emit(nested(levels))
        return nested(levels) if way == "result" else "dug"

    told_model, bench, run = await run_tool(dig)
    assert told_model.startswith(("ValueError: ", "Pydantic"))
    assert types(await bench.events(run.id))[-1] == "agent-end"


async def test_a_hundred_levels_are_kept_of_whatever_a_tool_says() -> None:
    deepest = nested(100)

    @tool(suspend=Any, resume=Answer, to_message=lambda r: {"name": "card", "data": r})
    async def dig(ctx: ToolContext) -> Any:
        """Dig."""
        ctx.emit(deepest)
        return ctx.suspend(deepest) if ctx.resume is None else deepest

    bench = Bench(Agent("helper", model="m", tools=[dig]), [call("dig"), say("done")])
    run = await bench.go()
    assert run.pending[0].payload == deepest
    await bench.answer(run.id, "call_1", "resume", data={"yes": True})
    run = await bench.run(run.id)
    assert told(run.messages)[1] == ("tool", deepest)
    events = await bench.events(run.id)
    assert [e.data for e in events if e.type == "data"] == [deepest] * 2


@pytest.mark.parametrize("levels", [101, 199])
async def test_an_argument_that_only_becomes_deep_is_shown_as_its_text(levels: int) -> None:
    @tool
    async def read(text: Json[Any]) -> str:
        """Read."""
        return "read"

    told_model, bench, run = await run_tool(read, text=json.dumps(nested(levels)))
    assert told_model == "read"
    [start] = [e for e in await bench.events(run.id) if e.type == "tool-execution-start"]
    assert json.loads(start.args["text"]) == nested(levels)


async def test_an_authors_validator_that_raises_anything_is_a_tool_error() -> None:
    @tool
    async def read(payload: Payload) -> str:
        """Read."""
        return "read"

    assert (await run_tool(read, payload={"note": "odd"}))[0] == "KeyError: 'odd'"


async def test_results_that_no_store_takes_are_cleaned() -> None:
    @tool
    async def odd() -> dict[str, Any]:
        """Answer with oddities."""
        return {"k\0": "v\ud800", "n": math.nan}

    told_model, bench, run = await run_tool(odd)
    result = told(run.messages)[1][1]
    assert result == {"k�": "v�", "n": None}
    assert "\0" not in told_model
    assert told(await bench.stored())[2][1] == result


async def test_a_custom_message_is_stored_and_shown_and_never_sent_to_a_model() -> None:
    @tool(to_message=lambda args, result: {"name": "card", "data": {"n": args["n"], "is": result}})
    async def draw(n: int) -> int:
        """Draw a card."""
        return n * 10

    bench = Bench(
        Agent("helper", model="m", tools=[draw]),
        [calls(call("draw", n=1), call("draw", n=2)), say("a"), say("b")],
    )
    run = await bench.go("one")
    await bench.go("two")
    shown = [m.role.value for m in run.messages]
    assert shown == ["assistant", "tool", "tool", "custom", "custom", "assistant"]
    assert run.messages[3].content[0].model_dump() == {
        "type": "data",
        "name": "card",
        "data": {"n": 1, "is": 10},
    }
    assert all(m.role is not Role.CUSTOM for p in bench.model.prompts for m in p.messages)
    assert [m.role for m in await bench.stored()].count(Role.CUSTOM) == 2
    messages = [e.message.id for e in await bench.events(run.id) if e.type == "message"]
    assert sorted(messages) == sorted(m.id for m in run.messages)


async def test_a_huge_result_is_cut_for_the_model_and_kept_whole() -> None:
    @tool
    async def dump() -> str:
        """Dump."""
        return "a" * 150_000 + "z" * 150_000

    told_model, bench, run = await run_tool(dump)
    cut = json.loads(told_model)
    assert cut["_truncated"] is True
    assert (cut["original_chars"], cut["head"][0], cut["tail"][-1]) == (300_000, "a", "z")
    assert cut["url"] == f"/runs/{run.id}/tool-calls/call_1/result"
    assert len(told(run.messages)[1][1]) == 300_000
    assert (await bench.call(run.id, "call_1")).result == "a" * 150_000 + "z" * 150_000


async def test_a_result_at_the_limit_is_not_cut() -> None:
    @tool
    async def dump() -> str:
        """Dump."""
        return "a" * 200_000

    assert len((await run_tool(dump))[0]) == 200_000


@pytest.mark.parametrize("plain", [False, True])
async def test_what_a_tool_emits_comes_before_its_end_and_in_order(plain: bool) -> None:
    @tool
    async def steps(ctx: ToolContext) -> str:
        """Go step by step."""
        for n in range(20):
            ctx.emit({"n": n})
        return "done"

    @tool(name="steps")
    def steps_in_thread(ctx: ToolContext) -> str:
        """Go step by step."""
        for n in range(20):
            ctx.emit({"n": n})
        return "done"

    _, bench, run = await run_tool(steps_in_thread if plain else steps)
    events = await bench.events(run.id)
    assert [e.data["n"] for e in events if e.type == "data"] == list(range(20))
    at = types(events)
    assert at.index("tool-execution-end") > max(i for i, t in enumerate(at) if t == "data")


async def test_a_call_knows_where_it_belongs() -> None:
    found: list[ToolContext] = []

    @tool
    async def who(ctx: ToolContext) -> str:
        """Tell which caller asks."""
        found.append(ctx)
        return "me"

    _, _, run = await run_tool(who)
    (ctx,) = found
    assert (ctx.run_id, ctx.thread_id, ctx.resource_id) == (run.id, "t1", "ann")
    assert (ctx.agent_name, ctx.tool_call_id, ctx.resume) == ("helper", "call_1", None)
    assert ctx.idempotency_key
    assert ctx.cancelled is False
