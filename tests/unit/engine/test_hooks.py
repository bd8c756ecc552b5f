"""Hooks that refuse, change, answer, allow and suspend; in the order of the list, journaled."""

from typing import Any, cast

import pytest
from pydantic import BaseModel

from layover import (
    Agent,
    Allow,
    Answer,
    DefinitionError,
    Hook,
    ModelError,
    ModelRequest,
    ModelResponse,
    NotFound,
    Refuse,
    Result,
    Retry,
    RetryableError,
    Suspend,
    ToolCall,
    ToolResult,
    tool,
)
from layover.ports import ChatModel
from layover.testing import ScriptedModel, call, calls, say
from layover.values.message import Role
from layover.values.runs.event import Event
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from support.worlds.runs import Bench, Crash, told, types, words_of


class Asks(Hook):
    """`before_tool` answers as it is told, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[ToolCall] = []

    async def before_tool(self, ctx: Any, call: ToolCall) -> Any:
        self.calls.append(call)
        return self.answers[min(len(self.calls), len(self.answers)) - 1]


class Till:
    """A tool that pays, with and without an approval."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        @tool(needs_approval=True)
        async def refund(amount: int) -> str:
            """Pay back."""
            self.paid.append(-amount)
            return f"refunded {amount}"

        self.tools = [pay, refund]


def bench(hooks: list[Any], *script: Any, **options: Any) -> tuple[Till, Bench]:
    till = Till()
    agent = Agent("shop", model="m", tools=till.tools, hooks=hooks, **options)
    return till, Bench(agent, list(script))


def results(run: Run) -> list[Any]:
    return [said for role, said in told(run.messages) if role == "tool"]


def decisions(events: list[Event]) -> list[tuple[Any, ...]]:
    return [(e.hook, e.decision, e.args, e.reason) for e in events if e.type == "hook-decision"]


# Before a tool


async def test_a_refused_call_does_not_run_and_the_model_reads_why() -> None:
    till, world = bench([Asks(Refuse("not today"))], call("pay", amount=3), say("I see."))
    run = await world.go()
    assert till.paid == []
    [result] = results(run)
    assert (result["declined"], result["reason"]) == (True, "not today")
    assert "not today" in world.model.prompts[-1].messages[-1].model_output
    events = await world.events(run.id)
    assert decisions(events) == [("Asks", "refuse", None, "not today")]
    assert types(events)[:5] == [
        "agent-start",
        "turn-start",
        "hook-decision",
        "tool-execution-end",
        "turn-end",
    ]


async def test_an_answered_call_is_settled_with_the_value_and_does_not_run() -> None:
    till, world = bench([Asks(Answer({"paid": 0}))], call("pay", amount=3), say("ok"))
    run = await world.go()
    assert (till.paid, results(run)) == ([], [{"paid": 0}])
    assert world.model.prompts[-1].messages[-1].model_output == '{"paid":0}'


async def test_allowed_arguments_are_the_ones_that_run() -> None:
    till, world = bench([Asks(Allow({"amount": 1}, "half"))], call("pay", amount=3), say("ok"))
    run = await world.go()
    assert till.paid == [1]
    events = await world.events(run.id)
    assert decisions(events) == [("Asks", "allow", {"amount": 1}, "half")]
    [start] = [e for e in events if e.type == "tool-execution-start"]
    assert start.args == {"amount": 1}
    # What the model asked for stays what it is.
    assert run.messages[0].tool_calls[0].args == {"amount": 3}


async def test_an_allowed_call_needs_no_approval_and_a_changed_one_does() -> None:
    till, world = bench([Asks(Allow(reason="small"))], call("refund", amount=3), say("ok"))
    assert ((await world.go()).status, till.paid) == (Status.SUCCESS, [-3])

    class Halves(Hook):
        def before_tool(self, ctx: Any, call: ToolCall) -> ToolCall:
            return call.model_copy(update={"args": {"amount": call.args["amount"] // 2}})

    till, world = bench([Halves()], call("refund", amount=8, tool_call_id="c1"), say("ok"))
    run = await world.go()
    [waiting] = run.pending
    assert (waiting.args, waiting.payload["args"]) == ({"amount": 4}, {"amount": 4})
    assert await world.answer(run.id, "c1", "approve") == "over"
    assert till.paid == [-4]
    # The person changed nothing, and the model is not told that one did.
    assert results(await world.run(run.id)) == ["refunded 4"]


async def test_hooks_are_asked_in_order_until_one_settles_the_call() -> None:
    first, second, third = Asks(Allow({"amount": 2})), Asks(Refuse("no")), Asks(None)
    till, world = bench([first, second, third], call("pay", amount=3), say("ok"))
    run = await world.go()
    assert till.paid == []
    assert [c.args for c in second.calls] == [{"amount": 2}]
    assert third.calls == []
    assert [d[1] for d in decisions(await world.events(run.id))] == ["allow", "refuse"]


async def test_a_suspending_hook_makes_an_approval_that_shows_its_reason() -> None:
    hook = Asks(Suspend("look first"), Refuse("asked twice"))
    till, world = bench([hook], call("pay", amount=3, tool_call_id="c1"), say("ok"))
    run = await world.go()
    assert (run.status, till.paid) == (Status.SUSPENDED, [])
    [waiting] = run.pending
    assert (waiting.kind, waiting.payload["reason"]) == ("approval", "look first")
    assert await world.answer(run.id, "c1", "approve", args={"amount": 2}) == "over"
    assert (till.paid, len(hook.calls)) == ([2], 1)
    assert [d[1] for d in decisions(await world.events(run.id))] == ["suspend"]


async def test_a_suspended_call_that_is_denied_does_not_run() -> None:
    till, world = bench([Asks(Suspend(None))], call("pay", amount=3, tool_call_id="c1"), say("ok"))
    run = await world.go()
    assert await world.answer(run.id, "c1", "deny", reason="no") == "over"
    assert till.paid == []
    assert results(await world.run(run.id))[0]["reason"] == "no"


async def test_siblings_of_a_suspended_call_settle_and_later_calls_wait() -> None:
    class Large(Hook):
        def before_tool(self, ctx: Any, call: ToolCall) -> Suspend | None:
            return Suspend("large") if call.args["amount"] > 10 else None

    asked = calls(
        call("pay", amount=1), call("pay", amount=50, tool_call_id="c2"), call("pay", amount=2)
    )
    till, world = bench([Large()], asked, say("ok"), tool_concurrency=2)
    run = await world.go()
    assert (till.paid, len(run.unexecuted)) == ([1], 1)
    assert await world.answer(run.id, "c2", "approve") == "over"
    assert till.paid == [1, 50, 2]


@pytest.mark.parametrize("answer", ["yes", 1, ModelRequest(model="m")])
async def test_what_is_no_answer_is_a_tool_error(answer: Any) -> None:
    till, world = bench([Asks(answer)], call("pay", amount=3), say("ok"))
    run = await world.go()
    assert (till.paid, run.status) == ([], Status.SUCCESS)
    assert results(run)[0].startswith("TypeError: before_tool of the hook 'Asks' returned")


async def test_a_hook_that_raises_before_a_tool_is_a_tool_error() -> None:
    class Breaks(Hook):
        def before_tool(self, ctx: Any, call: ToolCall) -> None:
            raise LookupError("the list is away")

    till, world = bench([Breaks()], call("pay", amount=3), say("ok"))
    run = await world.go()
    assert (till.paid, results(run)) == ([], ["LookupError: the list is away"])


async def test_arguments_of_a_hook_that_do_not_fit_settle_the_call() -> None:
    till, world = bench([Asks(Allow({"amount": "much"}))], call("pay", amount=3), say("ok"))
    run = await world.go()
    assert till.paid == []
    assert results(run)[0].startswith("Invalid tool input")


async def test_hooks_are_not_asked_about_calls_that_cannot_run() -> None:
    hook = Asks(None)
    asked = calls(call("pay", amount="x"), call("nothing", amount=1))
    _, world = bench([hook], asked, say("ok"))
    await world.go()
    assert hook.calls == []


# After a tool


async def test_a_changed_result_is_stored_and_read() -> None:
    class Shouts(Hook):
        def after_tool(self, ctx: Any, call: ToolCall, result: ToolResult) -> ToolResult:
            return result.model_copy(update={"value": result.value.upper()})

    _, world = bench([Shouts()], call("pay", amount=3), say("ok"))
    run = await world.go()
    assert results(run) == ["PAID 3"]
    assert world.model.prompts[-1].messages[-1].model_output == "PAID 3"


async def test_a_hook_that_raises_after_a_tool_ends_the_run_and_withholds_the_result() -> None:
    class Breaks(Hook):
        def after_tool(self, ctx: Any, call: ToolCall, result: ToolResult) -> None:
            raise LookupError("no scanner")

    till, world = bench([Breaks()], call("pay", amount=3))
    run = await world.go()
    assert (run.status, till.paid) == (Status.FAILED, [3])
    assert run.error is not None
    assert run.error.type == "LookupError"
    assert "after_tool of the hook 'Breaks' failed: no scanner" in words_of(run)
    assert results(run) == ["HookFailed: pay ran, and its result is withheld"]


# Around the model


class Seed(Hook):
    """Changes the settings of each request."""

    def __init__(self) -> None:
        self.asked = 0

    async def before_model(self, ctx: Any, request: ModelRequest) -> ModelRequest:
        self.asked += 1
        settings = request.settings.model_copy(update={"seed": self.asked})
        return request.model_copy(update={"settings": settings})


async def test_a_changed_request_is_sent_and_not_stored() -> None:
    class Replaces(Hook):
        def before_model(self, ctx: Any, request: ModelRequest) -> ModelRequest:
            [first, *rest] = request.messages
            part = first.content[0].model_copy(update={"text": "something else"})
            first = first.model_copy(update={"content": (part,)})
            return request.model_copy(update={"messages": [first, *rest], "tools": ()})

    _, world = bench([Replaces(), Seed()], say("ok"))
    run = await world.go("a secret")
    [prompt] = world.model.prompts
    assert (prompt.messages[0].text, prompt.tools, prompt.settings.seed) == (
        "something else",
        (),
        1,
    )
    assert [m.text for m in await world.stored()] == ["a secret", "ok"]
    assert run.input.text == "a secret"


async def test_a_changed_response_is_stored_and_its_calls_are_the_ones_that_run() -> None:
    class Edits(Hook):
        def after_model(self, ctx: Any, response: ModelResponse) -> ModelResponse:
            halves = [c.model_copy(update={"args": {"amount": 1}}) for c in response.calls]
            update = {"text": response.text.replace("darn", "****"), "calls": halves}
            return response.model_copy(update=update)

    till, world = bench([Edits()], call("pay", amount=9), say("darn it"))
    run = await world.go(stream=True)
    assert (till.paid, run.text) == ([1], "**** it")
    assert [m.text for m in await world.stored()][-1] == "**** it"
    deltas = [e for e in await world.events(run.id) if e.type == "text-delta"]
    assert [e.text for e in deltas] == ["**** it"]


async def test_retry_asks_the_model_again_and_its_calls_do_not_run() -> None:
    class Strict(Hook):
        def after_model(self, ctx: Any, response: ModelResponse) -> None:
            if response.calls or "euro" not in response.text:
                raise Retry("name the price in euros")

    till, world = bench([Strict()], call("pay", amount=9), say("3"), say("3 euros"))
    run = await world.go()
    assert (run.status, run.text, till.paid) == (Status.SUCCESS, "3 euros", [])
    newest = world.model.prompts[-1].messages[-1]
    assert (newest.role, newest.text) == (Role.USER, "name the price in euros")
    assert "name the price" not in str([m.text for m in await world.stored()])


async def test_a_third_retry_in_a_row_fails_the_run() -> None:
    class Never(Hook):
        def after_model(self, ctx: Any, response: ModelResponse) -> None:
            raise Retry("no")

    _, world = bench([Never()], say("1"), say("2"), say("3"))
    run = await world.go()
    assert run.status is Status.FAILED
    assert run.error is not None
    assert run.error.type == "RetriesUsedUp"


@pytest.mark.parametrize("point", ["before_model", "after_model", "at_end"])
async def test_a_hook_that_raises_elsewhere_fails_the_run(point: str) -> None:
    def breaks(self: Any, *given: Any) -> None:
        raise LookupError("gone")

    hook = type("Breaks", (), {point: breaks})()
    _, world = bench([hook], say("ok"))
    run = await world.go()
    assert run.status is Status.FAILED
    assert run.error is not None
    assert words_of(run) == f"{point} of the hook 'Breaks' failed: gone"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [(LookupError("half \ud83d, \0"), "half \ufffd, \ufffd"), (Unprintable(), "(no message)")],
)
@pytest.mark.parametrize("point", ["before_model", "after_model", "after_tool", "at_end"])
async def test_an_error_that_cannot_be_stored_as_it_is_still_fails_the_run(
    point: str, error: Exception, text: str
) -> None:
    def breaks(self: Any, *given: Any) -> None:
        raise error

    hook = type("Breaks", (), {point: breaks})()
    _, world = bench([hook], call("pay", amount=3), say("ok"))
    run = await world.go()
    assert run.status is Status.FAILED
    assert run.error is not None
    assert words_of(run) == f"{point} of the hook 'Breaks' failed: {text}"


async def test_a_copy_that_cannot_be_fails_the_run() -> None:
    class Wrong(Hook):
        def after_model(self, ctx: Any, response: ModelResponse) -> ModelResponse:
            return response.model_copy(update={"text": 3})

    _, world = bench([Wrong()], say("ok"))
    run = await world.go()
    assert run.error is not None
    assert words_of(run).endswith("it returned a ModelResponse with invalid fields: text")


async def test_a_wrong_field_is_named_once() -> None:
    class Wrong(Hook):
        def before_model(self, ctx: Any, request: ModelRequest) -> ModelRequest:
            return request.model_copy(update={"messages": ({}, {}), "model": 3})

    _, world = bench([Wrong()], say("ok"))
    run = await world.go()
    assert run.error is not None
    assert words_of(run).endswith("a ModelRequest with invalid fields: model, messages")


# The end


class Ends(Hook):
    """Keeps the ends that it was told of, and puts its number in the output."""

    def __init__(self) -> None:
        self.ends: list[Result] = []

    async def at_end(self, ctx: Any, result: Result) -> Result:
        self.ends.append(result)
        return result.model_copy(update={"output": len(self.ends)})


async def test_the_end_comes_once_and_not_at_a_suspension() -> None:
    hook = Ends()
    _, world = bench([hook], call("refund", amount=1, tool_call_id="c1"), say("done"))
    run = await world.go()
    assert (run.status, hook.ends) == (Status.SUSPENDED, [])
    assert await world.answer(run.id, "c1", "approve") == "over"
    [end] = hook.ends
    assert (end.status, end.text, len(end.messages)) == (Status.SUCCESS, "done", 3)
    assert (await world.run(run.id)).output == 1


async def test_the_end_of_a_failed_run_comes_with_its_error() -> None:
    hook = Ends()
    _, world = bench([hook], ModelError("broken", status=400))
    run = await world.go()
    assert run.status is Status.FAILED
    [end] = hook.ends
    assert end.error == run.error


async def test_a_sub_agent_has_hooks_of_its_own() -> None:
    low, high = Ends(), Ends()
    desk = Agent("desk", model="m", instructions="desk", tools=Till().tools, hooks=[low])
    top = Agent("top", model="m", tools=[desk.as_tool("x")], hooks=[high])
    world = Bench(top, [call("desk", input="a"), say("below"), say("above")])
    run = await world.go()
    assert [e.text for e in low.ends] == ["below"]
    assert [e.text for e in high.ends] == ["above"]
    assert low.ends[0].run_id == run.children[0].id


# Definitions, and what hooks cost


class Mute:
    """Is asked at no point."""


@pytest.mark.parametrize("hooks", [[Mute()], [Seed], Seed(), "hooks", 3])
def test_what_is_asked_at_no_point_is_refused(hooks: Any) -> None:
    with pytest.raises(DefinitionError, match=r"agent 'a': (a hook|hooks)"):
        Agent("a", hooks=hooks)


async def test_hooks_learn_of_their_run() -> None:
    seen: list[Any] = []

    class Looks:
        def before_model(self, ctx: Any, request: ModelRequest) -> None:
            seen.append(ctx)

    _, world = bench([Looks()], say("ok"))
    run = await world.go()
    [ctx] = seen
    assert (ctx.run_id, ctx.thread_id, ctx.resource_id) == (run.id, "t1", "ann")
    assert (ctx.agent_name, ctx.now.tzinfo is not None) == ("shop", True)


async def test_writes_are_made_only_for_hooks_that_need_them() -> None:
    class Same(Seed):
        idempotent = True

    async def writes(*hooks: Any) -> int:
        _, world = bench(list(hooks), call("pay", amount=1), say("ok"))
        run = await world.go()
        snapshot = await world.plain.journal.runs.snapshot("ann", run.id)
        assert snapshot is not None
        return sum(c.tool_name == "layover.hooks" for c in snapshot.calls)

    assert await writes() == 0
    assert await writes(Same(), Asks(Allow())) == 0
    assert await writes(Seed()) == 2
    assert await writes(Seed(), Seed(), Ends()) == 3


async def test_what_hooks_answered_is_no_call_that_anybody_may_decide() -> None:
    _, world = bench([Seed()], call("refund", amount=1), say("done"))
    run = await world.go()
    assert [p.tool_name for p in run.pending] == ["refund"]
    with pytest.raises(NotFound):
        await world.decide(run.id, "hooks_1", "approve")


async def test_in_process_they_are_the_same() -> None:
    till = Till()
    agent = Agent("shop", tools=till.tools, hooks=[Asks(Suspend("look first")), Ends()])
    with agent.override(model=ScriptedModel([call("pay", amount=3), say("ok")])):
        waiting = await agent.generate("hi")
        [pending] = waiting.pending
        assert pending.payload["reason"] == "look first"
        done = await agent.approve(waiting.run_id, pending.tool_call_id)
    assert (done.status, done.output, till.paid) == ("success", 1, [3])


async def test_a_request_that_is_another_one_at_each_attempt_is_not_tried_for_ever() -> None:
    class Times(Seed):
        idempotent = True

    class Dies:
        async def complete(self, prompt: Any, on_delta: Any) -> Any:
            raise Crash

    agent = Agent("shop", model="m", hooks=[Times(), Seed()])
    world = Bench(agent, cast(ChatModel, Dies()))
    run_id = await world.start()
    assert await world.drive(run_id) == "over"
    assert (await world.run(run_id)).status is Status.FAILED


async def test_an_output_that_the_end_changed_is_the_runs_in_process_too() -> None:
    class Price(BaseModel):
        euros: int

    class Doubles(Hook):
        def at_end(self, ctx: Any, result: Result) -> Result:
            assert result.output is not None
            return result.model_copy(update={"output": {"euros": 2 * result.output["euros"]}})

    agent = Agent("shop", output=Price, hooks=[Doubles()])
    with agent.override(model=ScriptedModel([say('{"euros": 3}')])):
        assert (await agent.generate("hi")).output == Price(euros=6)


@pytest.mark.parametrize("answer", [Refuse("stay"), Answer("no"), Suspend("sure?")])
async def test_a_hand_off_that_a_hook_kept_from_happening_does_not_happen(answer: Any) -> None:
    billing = Agent("billing", instructions="billing")
    front = Agent("front", model="m", handoffs=[billing], hooks=[Asks(answer)])
    world = Bench(front, [call("transfer_to_billing", tool_call_id="t1"), say("I stay.")])
    world.agents["billing"] = billing
    run = await world.go()
    if run.status is Status.SUSPENDED:
        assert await world.answer(run.id, "t1", "deny") == "over"
    run = await world.run(run.id)
    assert (run.agent, run.text) == ("front", "I stay.")
    assert "handoff" not in [e.type for e in await world.events(run.id)]


@pytest.mark.parametrize("point", ["before_model", "after_model", "at_end"])
async def test_a_hook_that_says_retryable_costs_an_attempt_and_no_run(point: str) -> None:
    asked: list[int] = []

    def wakes(self: Any, *given: Any) -> None:
        asked.append(1)
        if len(asked) == 1:
            raise RetryableError("the list wakes up")

    hook = type("Wakes", (), {point: wakes})()
    _, world = bench([hook], *([say("ok")] * 2))
    assert ((await world.go()).status, len(asked)) == (Status.SUCCESS, 2)
