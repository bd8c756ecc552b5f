"""Claude's thoughts on Bedrock: they survive whatever a run survives, and go back to Claude alone."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from layover import Agent, ModelSettings, tool
from layover.adapters.aws.services import AwsServices
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.providers import Providers
from layover.values.runs.model_settings import RunChoice
from layover.values.runs.run import Status
from support.examples import share
from support.providers import converse
from support.providers.claude import MODEL, Claude, signature
from support.providers.openai import FakeOpenAI, calls, fail, say
from support.worlds.runs import ANN, Bench, Power, words_of

THINKS = ModelSettings(reasoning="low")


@tool
def look(n: int) -> int:
    """Look."""
    return n


@tool(name="look", needs_approval=True)
def look_if_allowed(n: int) -> int:
    """Look."""
    return n


async def at_once(_: float) -> None:
    return


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as fake:
        fake.respond_with(Claude())
        yield fake


@pytest.fixture
def bedrock(server: FakeOpenAI) -> BedrockChat:
    return BedrockChat(AwsServices(converse.variables_of(server.base_url)), sleep=at_once)


@pytest.fixture
async def models(server: FakeOpenAI, bedrock: BedrockChat) -> AsyncIterator[Providers]:
    """OpenAI's and Bedrock's in one deployment, on one server."""
    own = OpenAIChat("key", server.base_url, sleep=at_once)
    yield Providers(own, {}, lambda _: None, lambda: bedrock)
    await own.aclose()
    await bedrock.aclose()


def bench_of(models: Providers, looks: Any = look, model: Any = MODEL, **options: Any) -> Bench:
    agent = Agent(
        "helper", model=model, tools=[looks], overridable=["model"], model_settings=THINKS
    )
    return Bench(agent, models, **options)


async def test_without_its_thoughts_the_second_step_is_refused(
    server: FakeOpenAI, models: Providers
) -> None:
    """The fake means what it says: a client that forgets is refused."""
    claude = Claude()

    def forgetful(body: Any) -> Any:
        for turn in body["messages"]:
            turn["content"] = [b for b in turn["content"] if "reasoningContent" not in b]
        return claude(body)

    server.respond_with(forgetful)
    run = await bench_of(models).go()
    assert run.error is not None
    assert words_of(run).startswith("Expected `thinking`")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_thoughts_go_back_as_they_came_within_a_run_and_in_its_history(
    server: FakeOpenAI, models: Providers, stream: bool
) -> None:
    bench = bench_of(models)
    for _ in range(2):
        run = await bench.go(stream=stream)
        assert (run.status, run.text) == (Status.SUCCESS, "done"), run.error
    assert len(server.turns) == 6
    assert signature(0) in json.dumps(server.turns[-1].body)


async def test_thoughts_outlive_a_suspension(models: Providers) -> None:
    bench = bench_of(models, look_if_allowed)
    run = await bench.go()
    for _ in range(2):
        assert run.status is Status.SUSPENDED, run.error
        await bench.answer(run.id, run.pending[0].tool_call_id, "approve")
        run = await bench.run(run.id)
    assert (run.status, run.text) == (Status.SUCCESS, "done"), run.error


async def test_thoughts_outlive_a_death_at_any_point(models: Providers) -> None:
    whole = bench_of(models, power=Power())
    assert (await whole.go()).text == "done"
    for point in range(1, whole.power.calls + 1, share(5)):
        run = await bench_of(models, power=Power(point)).go()
        assert (run.status, run.text) == (Status.SUCCESS, "done"), (point, run.error)


async def test_nobody_else_sees_what_is_signed(models: Providers) -> None:
    bench = bench_of(models)
    run = await bench.go(stream=True)
    shown = [run, *await bench.events(run.id), *await bench.stored()]
    assert [s for s in shown if signature(0) in s.model_dump_json()] == []
    snapshot = await bench.plain.journal.runs.snapshot(ANN, run.id)
    assert snapshot is not None
    state = snapshot.steps[0].message.provider_state
    assert state is not None
    assert signature(0) in str(state.fields)


async def test_another_model_does_not_get_them(server: FakeOpenAI, models: Providers) -> None:
    bench = bench_of(models)
    await bench.go()
    server.respond_with(lambda _: say("I see"))
    for model in ("bedrock/anthropic.claude-opus-4-6-v1", "openai/gpt-5-mini"):
        assert (await bench.go(choice=RunChoice(model=model))).text == "I see"
        assert signature(0) not in json.dumps(server.turns[-1].body)


async def test_claude_takes_over_in_the_middle_of_a_run_without_thoughts(
    server: FakeOpenAI, models: Providers
) -> None:
    """It would refuse calls that it has no thoughts of, if it were asked to think."""
    claude, asked = Claude(), 0

    def answer(body: Any) -> Any:
        nonlocal asked
        if "model" not in body:
            return claude(body)
        asked += 1
        return calls(("look", {"n": 0}, "call_0")) if asked == 1 else fail(404, "gone")

    server.respond_with(answer)
    run = await bench_of(models, model=["openai/gpt-5-mini", MODEL]).go()
    assert (run.status, run.text) == (Status.SUCCESS, "done"), run.error
    of_claude = [r.body for r in server.turns if "/converse" in r.path]
    assert "additionalModelRequestFields" not in of_claude[0]


async def test_model_of_openais_takes_over_from_claude(
    server: FakeOpenAI, models: Providers
) -> None:
    def answer(body: Any) -> Any:
        refusal = converse.refuse(429, "ServiceQuotaExceededException", "no more")
        return say("I see") if "model" in body else refusal

    server.respond_with(answer)
    bench = bench_of(models, model=[MODEL, "openai/gpt-5-mini"])
    run = await bench.go()
    assert (run.status, run.text) == (Status.SUCCESS, "I see"), run.error
    events = [e.model_dump(by_alias=True) for e in await bench.events(run.id)]
    (fallback,) = (e for e in events if e["type"] == "model-fallback")
    assert (fallback["from"], fallback["to"]) == (MODEL, "openai/gpt-5-mini")
