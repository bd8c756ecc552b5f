"""State that a provider wants back: it survives whatever a run survives, and no other party sees it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from layover import Agent, tool
from layover.plugins.models.openai_chat import OpenAIChat
from layover.values.runs.model_settings import RunChoice
from layover.values.runs.run import Status
from support.examples import share
from support.providers.openai import FakeOpenAI, fail, say
from support.providers.thinkers import ALL, DEEPSEEK, Thinker
from support.worlds.runs import ANN, Bench, Power, words_of

SECRETS = ("sig0", "enc0", "reasoning_details", "thought_signature", "provider_state")
FORGOTTEN = ("reasoning_content", "reasoning", "reasoning_details", "extra_content")


@tool
def look(n: int) -> int:
    """Look."""
    return n


@tool(name="look", needs_approval=True)
def look_if_allowed(n: int) -> int:
    """Look."""
    return n


@pytest.fixture(params=ALL, ids=lambda thinker: thinker.name)
def thinker(request: pytest.FixtureRequest, server: FakeOpenAI) -> Thinker:
    found: Thinker = request.param
    server.respond_with(found)
    return found


def bench_of(chat: OpenAIChat, looks: Any = look, **options: Any) -> Bench:
    agent = Agent("helper", model="openai/thinker", tools=[looks], overridable=["model"])
    return Bench(agent, chat, **options)


async def test_without_its_state_the_second_step_is_refused(
    server: FakeOpenAI, chat: OpenAIChat, thinker: Thinker
) -> None:
    """The fake means what it says: a client that forgets is refused."""

    def forgetful(body: Any) -> Any:
        for message in body["messages"]:
            for holder in (message, *message.get("tool_calls", ())):
                for field in FORGOTTEN:
                    holder.pop(field, None)
            for call in message.get("tool_calls", ()):
                call["id"] = call["id"].rpartition("_")[2]
        return thinker(body)

    server.respond_with(forgetful)
    run = await bench_of(chat).go()
    assert run.error is not None
    assert words_of(run).startswith(thinker.refusal)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_state_goes_back_as_it_came_within_a_run_and_in_its_history(
    server: FakeOpenAI, chat: OpenAIChat, thinker: Thinker, stream: bool
) -> None:
    bench = bench_of(chat)
    for _ in range(2):
        run = await bench.go(stream=stream)
        assert (run.status, run.text) == (Status.SUCCESS, "done"), run.error
    assert len(server.turns) == 6


async def test_state_outlives_a_suspension(chat: OpenAIChat, thinker: Thinker) -> None:
    bench = bench_of(chat, look_if_allowed)
    run = await bench.go()
    for _ in range(2):
        assert run.status is Status.SUSPENDED, run.error
        await bench.answer(run.id, run.pending[0].tool_call_id, "approve")
        run = await bench.run(run.id)
    assert (run.status, run.text) == (Status.SUCCESS, "done"), run.error


async def test_state_outlives_a_death_at_any_point(server: FakeOpenAI, chat: OpenAIChat) -> None:
    server.respond_with(DEEPSEEK)
    whole = bench_of(chat, power=Power())
    assert (await whole.go()).text == "done"
    for point in range(1, whole.power.calls + 1, share(5)):
        bench = bench_of(chat, power=Power(point))
        run = await bench.go()
        assert (run.status, run.text) == (Status.SUCCESS, "done"), (point, run.error)


async def test_nobody_else_sees_it(chat: OpenAIChat, thinker: Thinker) -> None:
    bench = bench_of(chat)
    run = await bench.go(stream=True)
    events = await bench.events(run.id)
    stored = await bench.stored()
    shown = [run.model_dump_json(), *(e.model_dump_json() for e in events)]
    shown += [m.model_dump_json() for m in stored]
    assert [s for s in SECRETS for text in shown if s in text] == []
    assert "reasoning_content" not in json.dumps(shown)


async def test_another_model_does_not_get_it(server: FakeOpenAI, chat: OpenAIChat) -> None:
    server.respond_with(lambda b: DEEPSEEK(b) if b["model"] == "thinker" else say("I see"))
    bench = bench_of(chat)
    await bench.go()
    assert (await bench.go(choice=RunChoice(model="openai/other"))).text == "I see"
    messages = server.turns[-1].body["messages"]
    assert any("tool_calls" in m for m in messages)
    assert "reasoning_content" not in json.dumps(messages)


async def test_another_provider_does_not_get_it(server: FakeOpenAI, chat: OpenAIChat) -> None:
    server.respond_with(DEEPSEEK)
    bench = bench_of(chat)
    await bench.go()
    elsewhere = OpenAIChat("key", server.base_url.replace("127.0.0.1", "localhost"))
    server.respond_with(lambda _: say("I see"))
    bench.runtime = replace(bench.runtime, model=elsewhere)
    assert (await bench.go()).text == "I see"
    await elsewhere.aclose()
    assert "reasoning_content" not in json.dumps(server.turns[-1].body["messages"])


async def test_model_that_refuses_its_own_state_is_not_sent_it_again(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    def picky(body: Any) -> Any:
        if any("reasoning_content" in m for m in body["messages"]):
            return fail(400, "messages.1: Unexpected field reasoning_content")
        step = sum("tool_calls" in m for m in body["messages"])
        return DEEPSEEK._asked(body, step) if step < 2 else say("done")

    server.respond_with(picky)
    assert (await bench_of(chat).go()).text == "done"
    assert len(server.turns) == 4


@pytest.mark.parametrize(
    "refusal",
    [
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message",
        "Missing `reasoning_content` field in the assistant message at message index 2",
    ],
)
async def test_model_that_wants_thoughts_of_others_gets_a_place_for_them(
    server: FakeOpenAI, chat: OpenAIChat, refusal: str
) -> None:
    def strict(body: Any) -> Any:
        said = [m for m in body["messages"] if m["role"] == "assistant"]
        if body["model"] == "strict" and not all(m.get("reasoning_content") for m in said):
            return fail(400, refusal)
        is_answered = body["messages"][-1]["role"] == "tool"
        return say("done") if is_answered or body["model"] == "strict" else DEEPSEEK(body)

    server.respond_with(strict)
    bench = bench_of(chat)
    await bench.go()
    for _ in range(2):
        run = await bench.go(choice=RunChoice(model="openai/strict"))
        assert (run.status, run.text) == (Status.SUCCESS, "done"), run.error
    of_strict = [r for r in server.turns if r.body["model"] == "strict"]
    assert len(of_strict) == 3  # the second run knows


async def test_model_that_refuses_the_place_for_thoughts_too_fails_with_its_own_words(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    refusal = "The `reasoning_content` in the thinking mode must be passed back to the API."
    server.respond_with(lambda _: fail(400, refusal))
    run = await bench_of(chat).go()
    assert run.error is not None
    assert words_of(run) == refusal
    assert len(server.turns) == 2


async def test_journal_keeps_it_with_its_step(chat: OpenAIChat, thinker: Thinker) -> None:
    bench = bench_of(chat)
    run = await bench.go()
    snapshot = await bench.plain.journal.runs.snapshot(ANN, run.id)
    assert snapshot is not None
    of_message, of_call = thinker.state(0)
    state = snapshot.steps[0].message.provider_state
    assert state is not None
    assert (state.provider, state.model) == ("127.0.0.1", "thinker")
    # Thoughts of a content have a name of their own.
    assert [*state.fields.values()] == [*of_message.values()]
    (part,) = snapshot.steps[0].message.tool_calls
    if thinker.call_id(0) != "call_0":
        of_call = {**of_call, "id": thinker.call_id(0)}
    assert state.calls == ({part.tool_call_id: of_call} if of_call else {})
