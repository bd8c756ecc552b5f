"""The loop of a run: order of events, limits, failures, structured output, attempts."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from layover import Agent, ToolContext, tool
from layover.errors import AttemptsUsedUp, DefinitionError, RetryableError
from layover.inmemory.model import ScriptedModel, broken, call, calls, fail, say
from layover.runs.cancel import cancel
from layover.values.message import Role
from layover.values.prompt import Prompt, Reply
from layover.values.runs.event import MessageEvent
from layover.values.runs.run import FinishReason, OnBusy, Status
from layover.values.runs.usage import Usage
from support.worlds.loops import skipping
from support.worlds.runs import ANN, Bench, answers, told, types, words_of

PLAIN = ["agent-start", "turn-start", "turn-end", "finish", "agent-end"]


class Verdict(BaseModel):
    """A structured answer."""

    score: int


@tool
async def look(what: str) -> dict[str, str]:
    """Look something up."""
    return {"found": what}


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def agent(*tools: Any, **options: Any) -> Agent:
    return Agent("helper", model="m", tools=tools, **options)


def fault(prompt: Prompt) -> Reply:
    """Fail in passing, as a step of a script."""
    raise RetryableError("boom")


async def test_a_refusing_provider_fails_the_run_with_one_error_just_before_finish() -> None:
    bench = Bench(agent(), [fail("no such model", status=404)])
    run = await bench.go()
    assert (run.status, run.finish_reason) == (Status.FAILED, FinishReason.ERROR)
    assert run.error is not None
    assert words_of(run) == "no such model"
    assert types(await bench.events(run.id)) == ["agent-start", "turn-start", "error", "finish"]


async def test_the_message_of_a_reply_says_its_model_and_its_use() -> None:
    bench = Bench(agent(look), [call("look", what="a"), say("found")])
    run = await bench.go()
    events = [e for e in await bench.events(run.id) if isinstance(e, MessageEvent)]
    by_role = [(e.message.role, e.model, e.usage is not None) for e in events]
    assert by_role == [
        (Role.ASSISTANT, "m", True),
        (Role.TOOL, None, False),
        (Role.ASSISTANT, "m", True),
    ]
    spent = Usage.total([e.usage for e in events if e.usage is not None])
    assert spent.total_tokens == run.usage.total_tokens > 0


async def test_what_a_failed_run_had_produced_is_kept() -> None:
    bench = Bench(agent(look), [call("look", what="a"), fail()])
    run = await bench.go()
    assert told(run.messages) == [("assistant", ""), ("tool", {"found": "a"})]
    assert told(await bench.stored()) == [("user", "hello"), *told(run.messages)]


async def test_the_thread_is_free_after_a_failure_and_the_next_run_continues_it() -> None:
    bench = Bench(agent(), [fail(), say("back")])
    await bench.go("one")
    assert (await bench.head()).active_run is None
    run = await bench.go("two")
    assert run.status is Status.SUCCESS
    assert told(await bench.stored()) == [
        ("user", "one"),
        ("user", "two"),
        ("assistant", "back"),
    ]


async def test_an_agent_that_is_gone_fails_its_run_at_once() -> None:
    bench = Bench(agent(), [])
    run_id = await bench.start()
    bench.agents.clear()
    assert await bench.drive(run_id) == "over"
    run = await bench.run(run_id)
    assert run.error is not None
    assert (run.status, run.error.type) == (Status.FAILED, "UnknownAgent")
    assert types(await bench.events(run_id)) == ["error", "finish"]


async def test_agents_that_cannot_be_imported_fail_the_run_with_what_is_wrong() -> None:
    bench = Bench(agent(), [])
    run_id = await bench.start()

    def broken_module() -> Any:
        raise DefinitionError("the agents' module 'x' cannot be imported: SyntaxError")

    bench.runtime = replace(bench.runtime, agents=broken_module)
    assert await bench.drive(run_id) == "over"
    run = await bench.run(run_id)
    assert run.error is not None
    assert (run.error.type, "SyntaxError" in words_of(run)) == ("DefinitionError", True)
    assert (await bench.head()).active_run is None


async def test_a_fault_of_the_engine_is_attempted_five_times_and_then_settled() -> None:
    bench = Bench(agent(), ScriptedModel(fault))
    run_id = await bench.start()
    assert await bench.drive(run_id) == "over"
    run = await bench.run(run_id)
    assert run.error is not None
    assert (run.status, run.error.type) == (Status.FAILED, "AttemptsUsedUp")
    events = types(await bench.events(run_id))
    assert events == ["agent-start", *["turn-start"] * 5, "error", "finish"]
    assert (await bench.head()).active_run is None


async def test_a_turn_after_five_attempts_is_refused_until_settle_ends_the_run() -> None:
    bench = Bench(agent(), ScriptedModel(fault))
    run_id = await bench.start()
    for _ in range(5):
        with pytest.raises(RetryableError):
            await bench.turn(run_id)
    with pytest.raises(AttemptsUsedUp):
        await bench.turn(run_id)
    assert await bench.settle(run_id, Error="AttemptsUsedUp") == "over"
    assert (await bench.run(run_id)).status is Status.FAILED
    assert (await bench.turn(run_id))["status"] in ("left", "over")


async def test_a_journaled_step_lets_the_attempts_count_from_new() -> None:
    four = [fault] * 4
    bench = Bench(agent(look), [*four, call("look", what="a"), *four, say("x")])
    assert (await bench.go()).status is Status.SUCCESS


async def test_settle_while_the_database_is_away_frees_the_thread_and_the_next_turn_saves() -> None:
    bench = Bench(agent(), [say("one"), say("two")])
    bench.threads.away = True
    run_id = await bench.start("first")
    assert await bench.drive(run_id) == "over"
    assert (await bench.run(run_id)).status is Status.FAILED
    head = await bench.head()
    assert (head.active_run, head.unsaved) == (None, (run_id,))
    assert types(await bench.events(run_id))[-2:] == ["error", "finish"]
    bench.threads.away = False
    run = await bench.go("second")
    assert told(await bench.stored()) == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("assistant", "two"),
    ]
    assert (run.status, (await bench.head()).unsaved) == (Status.SUCCESS, ())
    assert told(bench.model.prompts[-1].messages)[:2] == [("user", "first"), ("assistant", "one")]


async def test_a_database_that_is_away_at_the_end_costs_no_second_model_call() -> None:
    bench = Bench(agent(), [say("one")])
    run_id = await bench.start()
    bench.threads.away = True
    with pytest.raises(RetryableError):
        await bench.turn(run_id)
    assert (await bench.meta(run_id)).status is Status.RUNNING
    bench.threads.away = False
    assert await bench.drive(run_id) == "over"
    run = await bench.run(run_id)
    assert (run.status, run.text) == (Status.SUCCESS, "one")
    assert types(await bench.events(run_id)) == PLAIN


async def test_an_answer_that_fits_no_schema_is_asked_for_once_more() -> None:
    bench = Bench(agent(output=Verdict), [say("{}"), say('{"score": 3}')])
    run = await bench.go()
    assert (run.status, run.output) == (Status.SUCCESS, {"score": 3})
    again = bench.model.prompts[1].messages
    assert [m.role for m in again] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert "does not fit" in again[-1].text
    assert again[-1].text.endswith("What is wrong: score: Field required")
    assert [m.role for m in run.messages] == [Role.ASSISTANT, Role.ASSISTANT]


async def test_an_answer_that_fits_no_schema_twice_fails_the_run_and_says_why() -> None:
    bench = Bench(agent(output=Verdict), [say("no"), say("no\0\ud800")])
    run = await bench.go()
    assert run.error is not None
    assert (run.status, run.error.type) == (Status.FAILED, "OutputInvalid")
    assert "schema" in words_of(run)


async def test_a_run_whose_answer_does_not_fit_names_the_field_and_not_the_models_words() -> None:
    bench = Bench(agent(output=Verdict), [say("{}"), say('{"score": "secret"}')])
    run = await bench.go()
    assert run.error is not None
    problem = "the model's answer does not fit the output's schema, twice: score: Input should be"
    assert words_of(run).startswith(problem)
    assert "secret" not in words_of(run)


async def test_tools_may_run_before_a_structured_answer() -> None:
    script = [call("look", what="a"), say('{"score": 1}')]
    run = await Bench(agent(look, output=Verdict), script).go()
    assert run.output == {"score": 1}


async def test_newer_code_with_another_output_fails_the_run_instead_of_its_turns() -> None:
    class Other(BaseModel):
        grade: str

    bench = Bench(agent(output=Verdict), [say('{"score": 1}')])
    run_id = await bench.start()
    bench.threads.away = True
    with pytest.raises(RetryableError):
        await bench.turn(run_id)
    bench.threads.away = False
    bench.agents["helper"] = agent(output=Other)
    await bench.drive(run_id)
    run = await bench.run(run_id)
    assert run.error is not None
    assert run.error.type == "OutputInvalid"


async def test_the_limit_of_steps_ends_the_run_well_with_all_of_it_saved() -> None:
    bench = Bench(agent(look, max_iterations=2), [call("look", what=w) for w in "abc"])
    run = await bench.go()
    assert (run.status, run.finish_reason) == (Status.SUCCESS, FinishReason.MAX_ITERATIONS)
    assert [r for r, _ in told(await bench.stored())] == ["user", *["assistant", "tool"] * 2]
    events = types(await bench.events(run.id))
    assert events[-3:] == ["turn-end", "finish", "agent-end"]


async def test_the_limit_of_steps_counts_over_suspensions() -> None:
    bench = Bench(agent(pay), [call("pay", amount=1), call("pay", amount=2), say("never")])
    run = await bench.go(max_iterations=2)
    for _ in range(2):
        (pending,) = (await bench.run(run.id)).pending
        await bench.answer(run.id, pending.tool_call_id, "approve")
    run = await bench.run(run.id)
    assert (run.finish_reason, len(bench.model.prompts)) == (FinishReason.MAX_ITERATIONS, 2)


async def test_usage_before_and_after_a_suspension_adds_up() -> None:
    bench = Bench(agent(pay), [call("pay", amount=1), say("ok")])
    run = await bench.go()
    assert run.usage.total_tokens == 15
    await bench.answer(run.id, run.pending[0].tool_call_id, "approve")
    assert (await bench.run(run.id)).usage.total_tokens == 30


@pytest.mark.parametrize("reason", ["stop", "length", "content-filter"])
async def test_the_finish_reason_is_the_models(reason: Any) -> None:
    run = await Bench(agent(), [say("x", finish_reason=reason)]).go()
    assert run.finish_reason == reason


async def test_the_events_of_a_plain_run_come_in_the_contracts_order() -> None:
    bench = Bench(agent(), [say("hi")])
    assert types(await bench.events((await bench.go()).id)) == PLAIN


async def test_the_events_of_a_run_with_one_tool_come_in_the_contracts_order() -> None:
    bench = Bench(agent(look), [call("look", what="a"), say("hi")])
    assert types(await bench.events((await bench.go()).id)) == [
        "agent-start",
        "turn-start",
        "tool-execution-start",
        "tool-execution-end",
        "turn-end",
        "turn-start",
        "turn-end",
        "finish",
        "agent-end",
    ]


async def test_a_step_that_suspends_has_no_turn_end_before_it_is_complete() -> None:
    bench = Bench(agent(pay), [call("pay", amount=1), say("ok")])
    run = await bench.go()
    assert types(await bench.events(run.id)) == [
        "agent-start",
        "turn-start",
        "tool-call-suspended",
    ]
    await bench.answer(run.id, run.pending[0].tool_call_id, "approve")
    assert types(await bench.events(run.id))[3:] == [
        "tool-call-decided",
        "tool-execution-start",
        "tool-execution-end",
        "turn-end",
        "turn-start",
        "turn-end",
        "finish",
        "agent-end",
    ]


async def test_a_stream_that_breaks_is_told_by_the_same_turn_start_again() -> None:
    bench = Bench(agent(), [broken("half"), say("whole")])
    run = await bench.go(stream=True)
    events = await bench.events(run.id)
    assert types(events) == ["agent-start", "turn-start", "turn-start", *PLAIN[2:]]
    assert run.text == "whole"


async def test_without_stream_no_delta_is_told() -> None:
    bench = Bench(agent(), [say("a b")])
    events = await bench.events((await bench.go()).id)
    assert not [e for e in events if e.type.endswith("-delta")]


async def test_nothing_is_lost_of_what_was_streamed() -> None:
    text = "one two three four five"
    bench = Bench(agent(), [say(text, reasoning="hm hm")])
    events = await bench.events((await bench.go(stream=True)).id)
    assert "".join(e.text for e in events if e.type == "text-delta") == text
    assert "".join(e.text for e in events if e.type == "reasoning-delta") == "hm hm"


async def test_runs_that_ended_unsaved_one_after_the_other_are_all_saved_in_order() -> None:
    bench = Bench(agent(), [say("one"), say("three")])
    bench.threads.away = True
    await bench.drive(await bench.start("first"))
    second = await bench.start("second")
    await cancel(bench.plain, ANN, second, holder_has_s=0)
    bench.threads.away = False
    await bench.go("third")
    assert told(await bench.stored()) == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("user", "third"),
        ("assistant", "three"),
    ]


async def test_a_cancel_in_the_models_stream_ends_the_run_without_an_error() -> None:
    started = asyncio.Event()

    async def never(prompt: Prompt) -> Reply:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    bench = Bench(agent(), ScriptedModel(never))
    run_id = await bench.start()
    turn = asyncio.create_task(bench.turn(run_id))
    await asyncio.wait_for(started.wait(), 60)
    await bench.plain.journal.commands.request_cancel(ANN, run_id)
    assert (await asyncio.wait_for(turn, 60))["status"] == "over"
    run = await bench.run(run_id)
    assert (run.status, run.finish_reason) == (Status.CANCELLED, FinishReason.CANCELLED)
    assert run.error is None
    assert types(await bench.events(run_id)) == ["agent-start", "turn-start", "finish"]
    assert (await bench.head()).active_run is None


async def test_a_tool_that_ends_soon_after_a_cancel_is_kept_and_no_model_is_asked() -> None:
    running = asyncio.Event()
    noticed: list[bool] = []

    @tool
    async def slow(ctx: ToolContext) -> str:
        """Work until the run is cancelled."""
        running.set()
        while not ctx.cancelled:
            await asyncio.sleep(0.01)
        noticed.append(ctx.cancelled)
        return "tidy"

    bench = Bench(agent(slow), [calls(call("slow"), call("slow"))])
    run_id = await bench.start()
    turn = asyncio.create_task(bench.turn(run_id))
    await asyncio.wait_for(running.wait(), 60)
    await bench.plain.journal.commands.request_cancel(ANN, run_id)
    await asyncio.wait_for(turn, 60)
    run = await bench.run(run_id)
    assert (run.status, noticed) == (Status.CANCELLED, [True])
    assert told(run.messages) == [("assistant", ""), ("tool", "tidy")]
    assert len(bench.model.prompts) == 1


@skipping
async def test_a_tool_that_will_not_end_is_left_behind_within_two_seconds() -> None:
    running, release = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Ignore cancellations."""
        running.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    bench = Bench(agent(stubborn), [call("stubborn")])
    run_id = await bench.start()
    turn = asyncio.create_task(bench.turn(run_id))
    await asyncio.wait_for(running.wait(), 60)
    await bench.plain.journal.commands.request_cancel(ANN, run_id)
    await asyncio.wait_for(turn, 60)
    release.set()
    run = await bench.run(run_id)
    assert run.status is Status.CANCELLED
    assert told(run.messages)[1] == (
        "tool",
        "Cancelled: stubborn may or may not have taken effect",
    )


async def test_a_run_flagged_before_its_first_turn_asks_no_model() -> None:
    bench = Bench(agent(), [])
    run_id = await bench.start()
    await bench.plain.journal.commands.request_cancel(ANN, run_id)
    assert await bench.drive(run_id) == "over"
    assert types(await bench.events(run_id)) == ["finish"]
    assert told(await bench.stored()) == [("user", "hello")]


async def test_the_end_starts_the_next_run_of_the_queue_behind_the_new_leaf() -> None:
    bench = Bench(agent(), answers(say("ok")))
    one = await bench.start("one")
    two = await bench.start("two", on_busy=OnBusy.ENQUEUE)
    assert (await bench.run(two)).status is Status.QUEUED
    await bench.drive(one)
    assert bench.callbacks.started[-1] == (ANN, two, 1)
    await bench.drive(two)
    assert told(await bench.stored()) == [
        ("user", "one"),
        ("assistant", "ok"),
        ("user", "two"),
        ("assistant", "ok"),
    ]
