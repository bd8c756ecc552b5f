"""Content that a provider refuses: it is left out and named, and the thread goes on."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from layover import Agent, tool
from layover.context.tokens import estimate
from layover.errors import ContentFiltered, ModelError
from layover.inmemory.model import call, fail, say
from layover.ports import ChatModel, OnDelta
from layover.values.message import FilePart, ProviderState, Role, TextPart
from layover.values.prompt import Prompt, Reply
from layover.values.runs.model_settings import ModelSettings, RunChoice
from layover.values.runs.run import FinishReason, Status
from support.worlds.runs import Bench, types, words_of

SCAN = FilePart(url="https://files.example/scan.png", name="scan.png", mime_type="image/png")
PLAN = FilePart(url="https://files.example/plan.png", name="plan.png", mime_type="image/png")
NOT_READ = "[file: scan.png, could not be read by the model]"

Refuse = Callable[[Prompt], ModelError | None]


class Picky(ChatModel):
    """A model whose provider refuses some requests. It says what it is asked, or what its script says."""

    def __init__(self, refuse: Refuse, *script: Reply) -> None:
        self.refuse = refuse
        self.script = list(script)
        self.prompts: list[Prompt] = []

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        self.prompts.append(prompt)
        error = self.refuse(prompt)
        if error is not None:
            raise error
        if self.script:
            return self.script.pop(0)
        return say(f"You said: {prompt.messages[-1].text}")


def files(prompt: Prompt) -> list[str]:
    return [p.url or "" for m in prompt.messages for p in m.content if isinstance(p, FilePart)]


def words(prompt: Prompt) -> str:
    return json.dumps([[m.text, m.model_output] for m in prompt.messages])


def refusing(part: str, error: Callable[[], ModelError] | None = None) -> Refuse:
    """A provider that refuses each request with this text or file in it."""

    def refuse(prompt: Prompt) -> ModelError | None:
        if part in words(prompt) or any(part in url for url in files(prompt)):
            return error() if error else fail("Invalid request", status=400)
        return None

    return refuse


def filtered() -> ModelError:
    return ContentFiltered("The response was filtered", status=400)


@tool
async def fetch(page: str) -> str:
    """Fetch a page."""
    return f"the words of {page}"


def agent(**options: Any) -> Agent:
    return Agent("desk", overridable=["model"], **{"model": "m", "tools": [fetch], **options})


def bench(refuse: Refuse, *script: Reply, **options: Any) -> Bench:
    return Bench(agent(**options), Picky(refuse, *script))


def about(text: str, *more: FilePart) -> list[Any]:
    return [TextPart(text=text), *more]


@pytest.mark.parametrize("status", [400, 413, 415, 422])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_file_that_is_refused_is_named_instead_in_one_more_request(
    status: int, stream: bool
) -> None:
    world = bench(refusing("/scan.png", lambda: fail("Could not process image", status=status)))
    world.model.refuse = lambda p: fail("no", status=status) if files(p) else None
    run = await world.go(about("What is on it?", SCAN), stream=stream)
    assert (run.status, len(world.model.prompts)) == (Status.SUCCESS, 2)
    assert NOT_READ in words(world.model.prompts[1])
    assert "What is on it?" in words(world.model.prompts[1])
    # The stored message keeps its file: another model may read it.
    assert SCAN in (await world.meta(run.id)).input.content


async def test_a_later_run_of_the_thread_asks_without_the_file_at_once() -> None:
    world = bench(lambda p: fail("no", status=400) if files(p) else None)
    await world.go(about("What is on it?", SCAN))
    run = await world.go("Never mind. What is 2 + 2?")
    assert run.text == "You said: Never mind. What is 2 + 2?"
    assert len(world.model.prompts) == 3
    assert NOT_READ in words(world.model.prompts[2])


async def test_another_model_gets_the_file() -> None:
    world = bench(lambda p: fail("no", status=400) if files(p) and p.model == "m" else None)
    await world.go(about("What is on it?", SCAN))
    run = await world.go("And now?", choice=RunChoice(model="sees"))
    assert run.status is Status.SUCCESS
    assert files(world.model.prompts[-1]) == [SCAN.url]
    assert len(world.model.prompts) == 3


async def test_another_thread_finds_out_by_itself() -> None:
    world = bench(lambda p: fail("no", status=400) if files(p) else None)
    await world.go(about("What is on it?", SCAN), thread="t1")
    await world.go(about("And on this?", SCAN), thread="t2")
    assert [len(files(p)) for p in world.model.prompts] == [1, 0, 1, 0]


async def test_a_refusal_that_the_file_does_not_cause_is_told_and_leaves_nothing_out() -> None:
    world = bench(lambda p: fail("bad schema", status=400))
    run = await world.go(about("What is on it?", SCAN))
    assert run.status is Status.FAILED
    assert run.error is not None
    assert words_of(run) == "bad schema"
    world.model.refuse = lambda p: None
    await world.go("And now?")
    assert files(world.model.prompts[-1]) == [SCAN.url]


@pytest.mark.parametrize(
    "error",
    [
        fail("no key", status=401),
        fail("no", status=403),
        fail("Your credit balance is too low", status=400),
        fail("The model m does not exist", status=400),
    ],
)
async def test_refusals_that_no_content_causes_are_asked_once(error: ModelError) -> None:
    world = bench(lambda p: error)
    run = await world.go(about("What is on it?", SCAN))
    assert run.status is Status.FAILED
    assert len(world.model.prompts) == 1


async def test_only_the_file_that_the_provider_names_is_left_out() -> None:
    def refuse(prompt: Prompt) -> ModelError | None:
        bad = [url for url in files(prompt) if "scan" in url]
        return fail(f"Error while downloading {bad[0]}.", status=400) if bad else None

    world = bench(refuse)
    run = await world.go(about("Compare them", SCAN, PLAN))
    assert run.status is Status.SUCCESS
    assert files(world.model.prompts[-1]) == [PLAN.url]


async def test_a_file_that_the_model_has_read_before_is_not_suspected_first() -> None:
    world = bench(refusing("/scan.png"))
    await world.go(about("Here is the plan", PLAN))
    run = await world.go(about("And the scan", SCAN))
    assert run.status is Status.SUCCESS
    assert files(world.model.prompts[-1]) == [PLAN.url]


async def test_an_address_that_expired_after_it_was_read_is_left_out() -> None:
    world = bench(lambda p: None)
    await world.go(about("What is on it?", SCAN))
    world.model.refuse = refusing("/scan.png", lambda: fail("invalid image", status=400))
    run = await world.go("Are you there?")
    assert run.text == "You said: Are you there?"
    assert len(world.model.prompts) == 3


async def test_a_router_without_a_provider_for_pictures_is_asked_without_them() -> None:
    error = fail("No endpoints found that support image input", status=404)
    world = bench(lambda p: error if files(p) else None)
    run = await world.go(about("What is on it?", SCAN))
    assert run.status is Status.SUCCESS


async def test_a_result_that_is_refused_is_left_out_and_the_step_goes_on() -> None:
    world = bench(refusing("the words of evil"), call("fetch", page="evil"))
    run = await world.go("Fetch it")
    assert run.status is Status.SUCCESS
    assert "[result: could not be read by the model]" in words(world.model.prompts[-1])
    before = len(world.model.prompts)
    await world.go("And now?")
    assert len(world.model.prompts) == before + 1


async def test_a_result_of_a_run_that_died_does_not_kill_the_thread() -> None:
    world = bench(lambda p: None, call("fetch", page="evil"))
    world.model.refuse = lambda p: fail("down", status=401) if "words of" in words(p) else None
    assert (await world.go("Fetch it")).status is Status.FAILED
    world.model.refuse = refusing("the words of evil")
    assert (await world.go("Never mind")).status is Status.SUCCESS


async def test_words_that_no_model_answers_are_left_out_of_later_runs() -> None:
    world = bench(refusing("odd", lambda: fail("Invalid request", status=400)))
    assert (await world.go("something odd")).status is Status.FAILED
    run = await world.go("Hello?")
    assert run.text == "You said: Hello?"
    assert "[message: could not be read by the model]" in words(world.model.prompts[-1])
    before = len(world.model.prompts)
    await world.go("Still there?")
    assert len(world.model.prompts) == before + 1


async def test_calls_that_a_provider_refuses_become_words() -> None:
    world = bench(lambda p: None, call("fetch", page="home"), say("done"))
    await world.go("Fetch it")
    world.model.refuse = lambda p: (
        fail("tool_use blocks need tools", status=400)
        if any(m.tool_calls for m in p.messages)
        else None
    )
    run = await world.go("And now?")
    assert run.status is Status.SUCCESS
    prompt = world.model.prompts[-1]
    assert not any(m.role is Role.TOOL for m in prompt.messages)
    assert '[called fetch: {"page": "home"}]' in prompt.messages[1].text
    assert "[result: the words of home]" in prompt.messages[1].text
    before = len(world.model.prompts)
    await world.go("Again?")
    assert len(world.model.prompts) == before + 1


async def test_a_result_that_was_left_out_stays_out_when_its_call_becomes_words() -> None:
    world = bench(refusing("the words of evil"), call("fetch", page="evil"), say("done"))
    await world.go("Fetch it")
    world.model.refuse = lambda p: (
        fail("no", status=400)
        if any(m.tool_calls for m in p.messages) or "the words of" in words(p)
        else None
    )
    assert (await world.go("And now?")).status is Status.SUCCESS
    assert "[result: [result: could not be read" in words(world.model.prompts[-1])


async def test_history_that_another_model_has_read_does_not_kill_the_thread() -> None:
    world = bench(lambda p: None)
    await world.go("something odd")
    world.model.refuse = refusing("something odd")
    run = await world.go("Hello?", choice=RunChoice(model="other"))
    assert run.text == "You said: Hello?"
    # The refusal may pass: the next run gets its history again.
    world.model.refuse = lambda p: None
    await world.go("And now?", choice=RunChoice(model="other"))
    assert "something odd" in words(world.model.prompts[-1])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_filter_ends_the_run_as_filtered_and_the_thread_goes_on(stream: bool) -> None:
    world = bench(refusing("odd", filtered))
    run = await world.go("something odd", stream=stream)
    assert (run.status, run.finish_reason) == (Status.SUCCESS, FinishReason.CONTENT_FILTER)
    assert run.error is None
    assert len(world.model.prompts) == 1
    run = await world.go("Hello?")
    assert run.text == "You said: Hello?"
    assert len(world.model.prompts) == 2
    assert "odd" not in words(world.model.prompts[1])


def stopped(text: str = "", **more: Any) -> Reply:
    """An answer with status 200 that a filter ended."""
    return Reply(text=text, finish_reason="content-filter", **more)


@pytest.mark.parametrize("partial", ["", "Well, first"])
async def test_an_exchange_that_a_filter_ended_is_in_no_later_prompt(partial: str) -> None:
    world = bench(lambda p: None, stopped(partial))
    run = await world.go("something odd")
    assert (run.status, run.finish_reason) == (Status.SUCCESS, FinishReason.CONTENT_FILTER)
    assert run.text == partial
    for text in ("Hello?", "And now?"):
        assert (await world.go(text)).finish_reason is FinishReason.STOP
        assert text in words(world.model.prompts[-1])
        assert "odd" not in words(world.model.prompts[-1])
        assert "Well" not in words(world.model.prompts[-1])
    assert "could not be read" not in words(world.model.prompts[0])


async def test_a_result_at_which_a_filter_ended_the_answer_is_in_no_later_prompt() -> None:
    world = bench(lambda p: None, call("fetch", page="evil"), stopped())
    await world.go("Fetch it")
    await world.go("Hello?")
    assert "evil" not in words(world.model.prompts[-1])


async def test_another_model_gets_the_exchange_that_a_filter_ended() -> None:
    world = bench(lambda p: None, stopped())
    await world.go("something odd")
    await world.go("Hello?", choice=RunChoice(model="other"))
    assert "something odd" in words(world.model.prompts[-1])


async def test_a_model_that_declines_in_words_may_be_asked_why() -> None:
    world = bench(lambda p: None, stopped("I cannot help with that.", is_refusal=True))
    await world.go("something odd")
    await world.go("Why not?")
    assert "something odd" in words(world.model.prompts[-1])
    assert "I cannot help" in words(world.model.prompts[-1])


@pytest.mark.parametrize("place", ["temperature", "tools", "tool_choice", "model"])
async def test_a_refusal_of_something_else_than_content_is_asked_once(place: str) -> None:
    error = fail("Invalid value", status=400)
    error.place = place
    world = bench(lambda p: error)
    run = await world.go(about("What is on it?", SCAN))
    assert run.error is not None
    assert words_of(run) == "Invalid value"
    assert len(world.model.prompts) == 1


async def test_a_refusal_at_a_message_is_one_of_its_content() -> None:
    error = fail("Invalid image", status=400)
    error.place = "messages[1].content[0].image_url"
    world = bench(lambda p: error if files(p) else None)
    assert (await world.go(about("What is on it?", SCAN))).status is Status.SUCCESS


async def test_a_filter_that_refuses_a_result_lets_the_step_go_on_without_it() -> None:
    world = bench(refusing("the words of evil", filtered), call("fetch", page="evil"))
    run = await world.go("Fetch it")
    assert (run.status, run.finish_reason) == (Status.SUCCESS, FinishReason.STOP)
    assert "[result: could not be read by the model]" in words(world.model.prompts[-1])


async def test_a_filter_that_refuses_what_another_model_has_read_ends_one_run_only() -> None:
    world = bench(lambda p: None)
    await world.go("something odd")
    world.model.refuse = refusing("something odd", filtered)
    run = await world.go("Hello?", choice=RunChoice(model="other"))
    assert run.finish_reason is FinishReason.CONTENT_FILTER
    run = await world.go("Hello again?", choice=RunChoice(model="other"))
    assert (run.finish_reason, run.text) == (FinishReason.STOP, "You said: Hello again?")


async def test_a_long_prompt_that_is_refused_for_no_known_reason_is_shortened() -> None:
    most = 1_200
    world = bench(
        lambda p: fail("Bad request", status=400) if estimate(words(p)) > most else None,
        model_settings=ModelSettings(context_window=2_500),
    )
    for number in range(12):
        run = await world.go(f"{number}: " + "many words " * 40)
        assert run.status is Status.SUCCESS, run.error
    assert "could not be read" not in words(world.model.prompts[-1])


async def test_a_short_prompt_that_is_refused_for_no_known_reason_is_not_shortened() -> None:
    world = bench(lambda p: fail("Bad request", status=400))
    await world.go("Hello")
    assert len(world.model.prompts) == 1


async def test_a_fault_in_the_request_without_the_file_is_that_fault() -> None:
    errors = [fail("no", status=400), fail("down", status=503)]
    world = bench(lambda p: errors.pop(0) if errors else None)
    run = await world.go(about("What is on it?", SCAN))
    assert run.error is not None
    assert words_of(run) == "down"


async def test_the_next_model_of_a_list_gets_the_whole_content() -> None:
    def refuse(prompt: Prompt) -> ModelError | None:
        if prompt.model == "b":
            return None
        return fail("no", status=400) if files(prompt) else fail("down", status=503)

    world = bench(refuse, model=["a", "b"])
    run = await world.go(about("What is on it?", SCAN))
    assert run.status is Status.SUCCESS
    assert files(world.model.prompts[-1]) == [SCAN.url]


async def test_the_events_of_a_stream_tell_that_the_step_began_again() -> None:
    world = bench(lambda p: fail("no", status=400) if files(p) else None)
    run = await world.go(about("What is on it?", SCAN), stream=True)
    assert types(await world.events(run.id)).count("turn-start") == 2


async def test_no_api_and_no_event_tells_what_was_left_out() -> None:
    world = bench(lambda p: fail("no", status=400) if files(p) else None)
    run = await world.go(about("What is on it?", SCAN))
    shown = run.model_dump_json() + "".join(e.model_dump_json() for e in await world.events(run.id))
    assert "left_out" not in shown


def test_a_message_without_left_out_content_is_stored_as_before() -> None:
    assert "left_out" not in ProviderState(provider="p", model="m").model_dump()


def test_an_old_message_is_read_as_one_that_left_nothing_out() -> None:
    state = ProviderState.model_validate({"provider": "p", "model": "m", "fields": {}, "calls": {}})
    assert state.left_out == {}


async def test_an_answer_that_its_provider_cannot_read_is_no_reason_to_leave_anything_out() -> None:
    def unread(prompt: Prompt) -> ModelError:
        return ModelError("Failed to call a function.", status=400, type="InvalidResponse")

    model = Picky(unread)
    bench = Bench(Agent("helper", model="m"), model)
    run = await bench.go([SCAN, TextPart(text="Look at this.")])
    assert run.error is not None
    assert (run.error.type, words_of(run)) == ("InvalidResponse", "Failed to call a function.")
    assert len(model.prompts) == 1
