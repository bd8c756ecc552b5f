"""A thread can always go on, however full its context was (docs/behaviour.md#prompt-fit)."""

from dataclasses import replace

from layover import Agent, Memory, tool
from layover.testing import call, calls, say, too_long
from layover.values.message import Role
from layover.values.prompt import Prompt
from layover.values.runs.run import Status
from support.worlds.runs import Bench

WINDOW = 20_000


@tool(idempotent=True)
def read(page: int) -> str:
    """A page of a long book."""
    return f"page {page}: " + "words and words " * 1_000


def bench(*script: object, window: int | None = WINDOW) -> Bench:
    agent = Agent("reader", tools=[read], memory=Memory(last_messages=40))
    made = Bench(agent, list(script))
    made.runtime = replace(made.runtime, window=lambda model: window)
    return made


def outputs(prompt: Prompt) -> list[int]:
    """Characters of each tool result that the model sees."""
    return [len(m.model_output or "") for m in prompt.messages if m.role is Role.TOOL]


async def test_a_provider_that_finds_every_prompt_too_long_fails_the_run_and_no_other() -> None:
    stage = bench(too_long(), say("fine"))
    failed = await stage.go("hello")
    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert failed.error.type == "ContextLengthExceeded"
    assert (await stage.go("and now?")).text == "fine"


async def test_a_prompt_that_the_provider_finds_too_long_is_made_smaller_and_asked_again() -> None:
    stage = bench(call("read", page=1), call("read", page=2), too_long(), say("read"))
    run = await stage.go("read two pages")
    assert run.text == "read"
    refused, accepted = [outputs(p) for p in stage.model.prompts[-2:]]
    assert refused[0] == refused[1] == accepted[1], "the last step stays whole"
    assert accepted[0] < 1_000


async def test_no_prompt_is_shortened_for_a_window_that_nobody_knows() -> None:
    steps = [call("read", page=n) for n in range(40)]
    stage = bench(*steps, say("done"), window=None)
    stage.agent.max_iterations = 50
    assert (await stage.go("read it all")).status is Status.SUCCESS
    sizes = outputs(stage.model.prompts[-1])
    assert min(sizes) > 10_000
    assert sum(sizes) / 4 > 128_000


async def test_window_that_turns_out_too_small_is_taken_for_one_of_128_000_tokens() -> None:
    steps = [call("read", page=n) for n in range(60)]
    stage = bench(*steps, too_long(), say("done"), window=None)
    stage.agent.max_iterations = 70
    assert (await stage.go("read it all")).status is Status.SUCCESS
    refused, accepted = [sum(outputs(p)) / 4 for p in stage.model.prompts[-2:]]
    assert refused > 200_000
    assert accepted < 0.7 * 128_000


async def test_old_tool_results_are_shortened_before_anything_is_left_out() -> None:
    steps = [call("read", page=n) for n in range(8)]
    stage = bench(*steps, say("done"))
    run = await stage.go("read it all")
    assert run.status is Status.SUCCESS
    last = stage.model.prompts[-1]
    sizes = outputs(last)
    assert len(sizes) == 8
    assert sizes[0] < 1_000 < sizes[-1]


async def test_results_of_one_step_that_exceed_the_window_together_are_shortened() -> None:
    pages = calls(*(call("read", page=n, tool_call_id=f"c{n}") for n in range(5)))
    stage = bench(pages, call("read", page=5), say("done"))
    run = await stage.go("read five pages at once")
    assert run.status is Status.SUCCESS, run.error
    second, third = [outputs(p) for p in stage.model.prompts[1:]]
    assert [size < 1_000 for size in second] == [True, True, False, False, False]
    assert third[:2] == second[:2]


async def test_an_input_that_alone_exceeds_the_window_fails_its_run_and_the_thread_goes_on() -> (
    None
):
    stage = bench(say("short again"))
    failed = await stage.go("begin " + "x" * WINDOW * 5 + " end")
    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert failed.error.type == "ContextLengthExceeded"
    assert stage.model.prompts == [], "nothing was sent that cannot fit"
    went_on = await stage.go("a short one")
    assert went_on.text == "short again"
    shown = [m.text for m in stage.model.prompts[0].messages]
    assert shown[0].startswith("begin")
    assert shown[0].endswith("end")
    assert len(shown[0]) < 1_000


async def test_a_cancelled_run_leaves_a_thread_that_goes_on() -> None:
    stage = bench(call("read", page=1), say("never"), say("fine"))
    run_id = await stage.start("read")
    await stage.plain.journal.commands.request_cancel("ann", run_id)
    await stage.drive(run_id)
    assert (await stage.run(run_id)).status is Status.CANCELLED
    assert (await stage.go("go on")).status is Status.SUCCESS


async def test_the_providers_own_count_corrects_the_estimate() -> None:
    """A script of which every character is a token: the estimate is four times too small."""
    counted = {"input_tokens": 4_000, "output_tokens": 5}
    first = call("read", page=1)
    first = first.model_copy(update={"usage": first.usage.model_copy(update=counted)})
    second = call("read", page=2)
    usage = second.usage.model_copy(update={"input_tokens": 20_000})
    stage = bench(first, second.model_copy(update={"usage": usage}), say("done"), window=40_000)
    run = await stage.go("x" * 4_000)
    assert run.status is Status.SUCCESS
    sizes = outputs(stage.model.prompts[-1])
    assert sizes[0] < 1_000 < sizes[1], "by our own estimate all of it would have fitted"
