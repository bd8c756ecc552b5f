"""Spans say nothing of what was said, unless the deployer asks for it, and then what hooks have left."""

from typing import Any

from layover import Agent, Hook, tool
from layover.inmemory.model import call, say
from support.otlp import Receiver
from support.worlds.runs import answers
from support.worlds.traces import TracedBench

SECRET = "4111-1111"
CONTENT = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
)


@tool
def look_up(card: str) -> str:
    """Find a customer by a card."""
    return f"Ann pays with {SECRET}"


class Redaction(Hook):
    """Takes the number out of everything that a model or a log could read."""

    def before_model(self, ctx: Any, request: Any) -> Any:
        messages = [m.model_copy(update=_without(m)) for m in request.messages]
        return request.model_copy(update={"messages": tuple(messages)})

    def after_model(self, ctx: Any, response: Any) -> Any:
        return response.model_copy(update={"text": response.text.replace(SECRET, "[card]")})

    def after_tool(self, ctx: Any, call: Any, result: Any) -> Any:
        value = str(result.value).replace(SECRET, "[card]")
        return result.model_copy(update={"value": value, "model_output": value})


def _without(message: Any) -> dict[str, Any]:
    parts = [
        p.model_copy(update={"text": p.text.replace(SECRET, "[card]")}) if p.type == "text" else p
        for p in message.content
    ]
    return {"content": tuple(parts)}


def agent(*hooks: Hook) -> Agent:
    return Agent("guide", instructions="Be kind.", model="m", tools=[look_up], hooks=hooks)


SCRIPT = (call("look_up", card="the usual"), say(f"It is {SECRET}."))


async def test_without_being_asked_spans_say_nothing_of_what_was_said(receiver: Receiver) -> None:
    bench = TracedBench(agent(), answers(*SCRIPT))
    await bench.go(f"My card is {SECRET}")
    sent = b"".join(receiver.bodies)
    for words in (SECRET, "My card", "Be kind", "the usual", "Ann pays"):
        assert words.encode() not in sent
    assert not any(name in span.attributes for span in receiver.spans for name in CONTENT)


async def test_spans_have_the_content_that_the_deployer_asks_for(receiver: Receiver) -> None:
    bench = TracedBench(agent(), answers(*SCRIPT), content=True)
    await bench.go(f"My card is {SECRET}")
    chats = [s.attributes for s in receiver.spans if s.name == "chat m"]
    assert "My card" in chats[0]["gen_ai.input.messages"]
    assert "Be kind" in chats[0]["gen_ai.system_instructions"]
    assert "tool_call" in chats[0]["gen_ai.output.messages"]
    assert "It is" in chats[1]["gen_ai.output.messages"]
    execution = receiver.named("execute_tool look_up").attributes
    assert execution["gen_ai.tool.call.arguments"] == '{"card":"the usual"}'
    assert "Ann pays" in execution["gen_ai.tool.call.result"]


async def test_content_is_what_the_hooks_have_left_of_it(receiver: Receiver) -> None:
    bench = TracedBench(agent(Redaction()), answers(*SCRIPT), content=True)
    await bench.go(f"My card is {SECRET}")
    sent = b"".join(receiver.bodies)
    assert SECRET.encode() not in sent
    assert sent.count(b"[card]") >= 4


async def test_content_after_a_kill_is_what_the_hooks_have_left_as_well(
    receiver: Receiver,
) -> None:
    bench = TracedBench(agent(Redaction()), answers(*SCRIPT), content=True)
    bench.power.cut_at = 9
    run_id = await bench.start(f"My card is {SECRET}")
    await bench.drive(run_id)
    assert bench.power.cuts
    assert "  recover" in receiver.tree()
    assert SECRET.encode() not in b"".join(receiver.bodies)


async def test_a_text_that_is_too_long_is_left_out_and_the_span_is_not(receiver: Receiver) -> None:
    bench = TracedBench(agent(), answers(say("Hello.")), content=True)
    await bench.go("long " * 50_000)
    chat = receiver.named("chat m").attributes
    assert chat["gen_ai.input.messages"] == '"left out: too long"'
    assert "Hello" in chat["gen_ai.output.messages"]
