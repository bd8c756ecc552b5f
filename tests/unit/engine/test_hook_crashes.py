"""The process dies at any port call of a run whose hooks answer differently each time that they are asked:
what was journaled is what happened, at every depth."""

import asyncio
from collections import Counter, defaultdict
from typing import Any

import pytest

from layover import (
    Agent,
    Allow,
    Hook,
    ModelRequest,
    ModelResponse,
    Refuse,
    Result,
    Suspend,
    ToolCall,
    ToolResult,
    tool,
)
from layover.testing import call, calls, say
from layover.values.prompt import Prompt
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.examples import share
from support.worlds.runs import ANN, Bench, Power, answers_of, told

SCRIPT = {
    "top": [
        calls(call("desk", input="a"), call("send", n=1, tool_call_id="top_send")),
        say("all is done"),
    ],
    "desk": [
        calls(
            call("send", n=1, tool_call_id="send"),
            call("put", n=1, tool_call_id="put"),
            call("pay", n=1, tool_call_id="pay"),
            call("drop", n=1, tool_call_id="drop"),
        ),
        say("desk is done"),
    ],
}


class Fickle(Hook):
    """Says how often it was asked, in whatever it answers."""

    def __init__(self) -> None:
        self.asked: Counter[Any] = Counter()

    def _times(self, *what: Any) -> int:
        self.asked[what] += 1
        return self.asked[what]

    async def before_model(self, ctx: Any, request: ModelRequest) -> ModelRequest:
        times = self._times("before_model", ctx.agent_name, len(request.messages))
        settings = request.settings.model_copy(update={"seed": times})
        return request.model_copy(update={"settings": settings})

    async def after_model(self, ctx: Any, response: ModelResponse) -> ModelResponse | None:
        if response.calls:
            return None
        times = self._times("after_model", ctx.agent_name)
        return response.model_copy(update={"text": f"{response.text} {times}"})

    async def before_tool(self, ctx: Any, call: ToolCall) -> Any:
        times = self._times("before_tool", call.tool_call_id)
        if call.tool_name == "drop":
            return Refuse(f"no {times}")
        if call.tool_name == "pay":
            return Suspend(f"look {times}")
        return None if call.tool_name == "desk" else Allow({"n": 10 * times}, f"{times}")

    async def after_tool(self, ctx: Any, call: ToolCall, result: ToolResult) -> ToolResult | None:
        if call.tool_name == "desk":
            return None
        times = self._times("after_tool", call.tool_call_id)
        return result.model_copy(update={"value": f"{result.value} seen {times}"})

    async def at_end(self, ctx: Any, result: Result) -> Result:
        times = self._times("at_end", ctx.agent_name)
        return result.model_copy(update={"output": times})


class World:
    """The tools' side effects, and the seeds of the requests that the model saw."""

    def __init__(self, power: Power) -> None:
        self.power = power
        self.done: list[tuple[str, int]] = []
        self.seeds: dict[tuple[str, int], set[int | None]] = defaultdict(set)
        self.hook = Fickle()

    def top(self) -> Agent:
        def does(name: str, **options: Any) -> Any:
            async def act(n: int) -> str:
                """Act."""
                self.power.point()
                self.done.append((name, n))
                self.power.point()
                return f"{name} {n}"

            return tool(name=name, **options)(act)

        send, put = does("send"), does("put", idempotent=True)
        made = [send, put, does("pay"), does("drop")]
        desk = Agent("desk", instructions="desk", tools=made, hooks=[self.hook], tool_concurrency=2)
        return Agent(
            "top",
            instructions="top",
            tools=[desk.as_tool("x"), send],
            hooks=[self.hook],
            tool_concurrency=2,
        )

    def model(self) -> Any:
        scripted = answers_of(SCRIPT)
        answer = scripted.complete

        async def complete(prompt: Prompt, on_delta: Any) -> Any:
            key = (prompt.system or "", len(prompt.messages))
            self.seeds[key].add(prompt.settings.seed)
            return await answer(prompt, on_delta)

        scripted.complete = complete
        return scripted


async def tell(power: Power) -> tuple[World, Bench, Run]:
    world = World(power)
    bench = Bench(world.top(), world.model(), power=power)
    run_id = await bench.start(stream=True)
    assert await bench.drive(run_id) == "suspended"
    assert await bench.answer(run_id, "pay", "approve") == "over"
    return world, bench, await bench.run(run_id)


async def check(where: str, world: World, bench: Bench, run: Run) -> None:
    assert run.status is Status.SUCCESS, where
    # One request for a step, whichever process sent it.
    assert {len(seeds) for seeds in world.seeds.values()} == {1}, where
    events = await bench.events(run.id)
    said = [e for e in events if e.type == "hook-decision"]
    assert sorted(e.tool_call_id for e in said) == ["drop", "pay", "put", "send", "top_send"], where
    args = {e.tool_call_id: e.args["n"] for e in said if e.args}
    starts = {e.tool_call_id: e.args for e in events if e.type == "tool-execution-start"}
    for call_id, n in args.items():
        assert starts[call_id] == {"n": n}, where
    for name, wanted in (("send", {args["send"], args["top_send"]}), ("put", {args["put"]})):
        assert {n for what, n in world.done if what == name} <= wanted, where
    sent = Counter(done for done in world.done if done[0] == "send")
    assert sum(sent.values()) <= 2, where
    assert [done for done in world.done if done[0] in ("pay", "drop")] in ([("pay", 1)], []), where
    await _check_texts(where, bench, run, {e.tool_call_id: e.reason for e in said})


async def _check_texts(where: str, bench: Bench, run: Run, reasons: dict[str, str | None]) -> None:
    [child] = run.children
    stored = await bench.stored()
    assert told(stored)[1:] == told(run.messages), where
    declined = [s for _, s in told(child.messages) if isinstance(s, dict)]
    assert [d["reason"] for d in declined] == [reasons["drop"]], where
    snapshot = await bench.plain.journal.runs.snapshot(ANN, run.id)
    assert snapshot is not None
    ends = [c.result["output"] for c in snapshot.calls if c.args == {"point": "at_end"}]
    assert len(ends) == 2, where
    [finish] = [e for e in await bench.events(run.id) if e.type == "finish"]
    assert finish.output == run.output, where
    assert run.output in ends, where


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_at_any_port_call_leaves_what_was_journaled(after: bool) -> None:
    asked_more = 0
    for k in range(1 + after, 1_000, 2 * share(5)):
        power = Power(k, after=after)
        world, bench, run = await asyncio.wait_for(tell(power), 60)
        if not power.cuts:
            break
        await check(f"crash {k}", world, bench, run)
        again = sum(times - 1 for times in world.hook.asked.values())
        # What one death can lose: the answers of one window, or those of one step.
        assert again <= 4, (k, world.hook.asked)
        asked_more += again
    assert k > 20
    assert asked_more > 0, "no crash came between an answer and its journaling"


async def test_without_a_crash_every_hook_is_asked_once() -> None:
    world, bench, run = await tell(Power())
    await check("calm", world, bench, run)
    assert set(world.hook.asked.values()) == {1}
    assert run.text == "all is done 1"
