"""The contract of a model of one's own (`layover.models.Model`), as Layover asks it."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from layover.clock import ManualClock
from layover.declare.agent import Agent
from layover.declare.agents.engine import engine
from layover.errors import ContextLengthExceeded, ModelError
from layover.ports import ChatModel, Model
from layover.values.message import (
    Message,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.prompt import Delta, Prompt, Reply, ToolSpec

LIMIT_S = 60.0
"""Seconds after which a model that does not answer fails a test."""


@dataclass(frozen=True)
class Planned:
    """An answer that the provider behind a model is to give, whatever its protocol.

    Attributes:
        text: The words of the answer.
        calls: Calls of tools: name, arguments and the provider's id, which some protocols do not have.
        status: The HTTP status; 200: it answers.
        message: The provider's words, where it refuses.
        retry_after: Seconds that it asks to wait, where it refuses; None: it does not say.
        breaks: Whether the connection breaks behind `text`.
        hangs: Whether nothing follows `text`, while the connection stays.
    """

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any], str]] = ()
    status: int = 200
    message: str = "no"
    retry_after: float | None = None
    breaks: bool = False
    hangs: bool = False


MakeModel = Callable[..., Model | Awaitable[Model]]
"""Makes a model whose provider gives these answers, one for each request."""
WAITS = "try again later"
TOO_LONG = "This model's maximum context length is 8192 tokens"
CALLS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("refund", {"amount": 40}, "c_1"),
    ("look", {}, "c_2"),
)


def _message(role: Role, *parts: Any, **more: Any) -> Message:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    name = f"msg_{role}_{len(parts)}"
    return Message(id=name, thread_id="thr_1", role=role, content=parts, created_at=at, **more)


_HELLO = _message(Role.USER, TextPart(text="Hello"))
_TOOLS = tuple(
    ToolSpec(name=name, description=f"The tool {name}.", parameters={"type": "object"})
    for name in ("refund", "look")
)
_HISTORY = (
    _HELLO,
    _message(
        Role.ASSISTANT,
        TextPart(text="I look."),
        ToolCallPart(tool_call_id="c_9", tool_name="look", args={"at": "orders"}),
    ),
    _message(
        Role.TOOL,
        ToolResultPart(tool_call_id="c_9", tool_name="look", result={"found": 2}),
    ),
    _message(Role.ASSISTANT, TextPart(text="There are two.")),
    _message(Role.USER, TextPart(text="And now?"), TextPart(text="Well?")),
)


class ModelContract:
    """Layover's demands on a model of one's own, as tests. A test module inherits them and says, in the
    fixture `make`, how to make a model whose provider gives planned answers.

        class TestMyModel(ModelContract):
            @pytest.fixture
            def make(self) -> MakeModel:
                return lambda *plans: MyModel(FakeProvider(plans))

    The model is asked as a run asks it: its passing faults are repeated, and its exceptions are read as
    errors of a provider. A model that repeats them itself (`retries`) is left to it, and is asked with its
    own pauses."""

    pytestmark = pytest.mark.asyncio

    async def test_refusal_is_a_model_error_with_its_status(self, make: MakeModel) -> None:
        chat, prompt = await _ask_as_run(make, Planned(status=401, message="bad key"))
        with pytest.raises(ModelError, match="bad key") as caught:
            await chat.complete(prompt)
        assert caught.value.status == 401

    async def test_prompt_that_is_too_long_is_its_own_error(self, make: MakeModel) -> None:
        chat, prompt = await _ask_as_run(make, Planned(status=400, message=TOO_LONG))
        with pytest.raises(ContextLengthExceeded):
            await chat.complete(prompt)

    async def test_fault_that_passes_is_asked_for_again(self, make: MakeModel) -> None:
        later = Planned(status=429, message=WAITS, retry_after=0)
        chat, prompt = await _ask_as_run(make, later, Planned("fine"))
        assert (await chat.complete(prompt)).text == "fine"

    async def test_stream_that_breaks_begins_again_and_says_so(self, make: MakeModel) -> None:
        chat, prompt = await _ask_as_run(make, Planned("Hel", breaks=True), Planned("Hello you"))
        reply, deltas = await _followed(chat, prompt)
        kinds = [delta.kind for delta in deltas]
        final = deltas[kinds.index("restart") + 1 :] if "restart" in kinds else deltas
        assert "".join(d.text for d in final if d.kind == "text") == reply.text == "Hello you"

    async def test_model_works_again_after_a_refusal(self, make: MakeModel) -> None:
        chat, prompt = await _ask_as_run(make, Planned(status=400), Planned("fine"))
        with pytest.raises(ModelError):
            await chat.complete(prompt)
        assert (await chat.complete(prompt)).text == "fine"

    async def test_model_works_again_after_a_cancel(self, make: MakeModel) -> None:
        chat, prompt = await _ask_as_run(make, Planned("Hel", hangs=True), Planned("fine"))
        first = asyncio.Event()
        stream = prompt.model_copy(update={"stream": True})
        request = asyncio.create_task(chat.complete(stream, lambda _: first.set()))
        with suppress(TimeoutError):  # a model that does not stream tells nothing
            await asyncio.wait_for(first.wait(), 1)
        request.cancel()
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(asyncio.CancelledError):
                await request
            assert (await chat.complete(prompt)).text == "fine"

    async def test_name_is_the_same_each_time(self, make: MakeModel) -> None:
        one, other = await _make(make), await _make(make)
        assert one.name == other.name == Agent("contract", model=one).model

    @pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
    async def test_answer_in_words(self, make: MakeModel, stream: bool) -> None:
        chat, prompt = await _ask_as_run(make, Planned("Hello you"))
        reply = await chat.complete(prompt.model_copy(update={"stream": stream}))
        assert (reply.text, reply.calls, reply.finish_reason) == ("Hello you", (), "stop")
        assert reply.model
        assert reply.usage.total_tokens > 0

    @pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
    async def test_answer_with_calls(self, make: MakeModel, stream: bool) -> None:
        chat, prompt = await _ask_as_run(make, Planned("Both.", CALLS))
        reply = await chat.complete(prompt.model_copy(update={"stream": stream}))
        calls = [(call.name, json.loads(call.args)) for call in reply.calls]
        assert calls == [(name, args) for name, args, _ in CALLS]
        assert (reply.text, reply.finish_reason) == ("Both.", "tool-calls")

    async def test_pieces_add_up_to_the_answer(self, make: MakeModel) -> None:
        chat, prompt = await _ask_as_run(make, Planned("Hello you there", CALLS[:1]))
        reply, deltas = await _followed(chat, prompt)
        assert "".join(d.text for d in deltas if d.kind == "text") == reply.text
        pieces = [d for d in deltas if d.kind == "tool-call"]
        assert "".join(d.text for d in pieces) == reply.calls[0].args
        assert {(d.call, d.tool_name) for d in pieces} == {(0, "refund")}

    async def test_nobody_is_told_of_an_answer_without_a_stream(self, make: MakeModel) -> None:
        chat, prompt = await _ask_as_run(make, Planned("Hello"))
        deltas: list[Delta] = []
        await chat.complete(prompt, deltas.append)
        assert deltas == []

    async def test_history_with_calls_and_results_is_taken(self, make: MakeModel) -> None:
        chat, prompt = await _ask_as_run(make, Planned("fine"))
        prompt = prompt.model_copy(update={"messages": _HISTORY, "system": "Be brief."})
        assert (await chat.complete(prompt)).text == "fine"

    async def test_answers_at_the_same_time_stay_apart(self, make: MakeModel) -> None:
        texts = {f"answer {n}" for n in range(5)}
        chat, prompt = await _ask_as_run(make, *(Planned(text) for text in sorted(texts)))
        replies = await asyncio.gather(*(_followed(chat, prompt) for _ in texts))
        assert {reply.text for reply, _ in replies} == texts
        texts_of_pieces = {"".join(d.text for d in deltas) for _, deltas in replies}
        assert texts_of_pieces == texts


async def _make(make: MakeModel, *plans: Planned) -> Model:
    model = make(*plans)
    return await model if isinstance(model, Awaitable) else model


async def _ask_as_run(make: MakeModel, *plans: Planned) -> tuple[ChatModel, Prompt]:
    """Return a model as a run asks it, with a clock that stands still, and a request."""
    model = await _make(make, *plans)
    agent = Agent("contract", model=model)
    runtime = engine().in_memory_runtime(agent, clock=ManualClock())
    prompt = Prompt(model=model.name, messages=(_HELLO,), tools=_TOOLS)
    return runtime.model_for(agent, model.name), prompt


async def _followed(model: ChatModel, prompt: Prompt) -> tuple[Reply, list[Delta]]:
    deltas: list[Delta] = []
    async with asyncio.timeout(LIMIT_S):
        stream = prompt.model_copy(update={"stream": True})
        return await model.complete(stream, deltas.append), deltas
