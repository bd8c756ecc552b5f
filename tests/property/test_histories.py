"""A conversation goes on with any model, whichever models answered before: after a fallback, a hand-off, or
with a model of its own."""

import json
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layover.values.message import (
    Message,
    Part,
    ProviderState,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.prompt import Reply
from support.examples import examples
from support.providers.wires import WIRES, Answer, Wire

START = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = [wire.model for wire in WIRES]


class Step(NamedTuple):
    """An answer of one of the models, and whether the user speaks before it."""

    wire: int
    text: str
    calls: int
    asked: bool


class Thread:
    """Messages as the engine makes them of replies."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.say(Role.USER, TextPart(text="Hi."))

    def say(self, role: Role, *parts: Part, **more: object) -> None:
        n = len(self.messages)
        at = START + timedelta(seconds=n)
        message = Message(id=f"m{n}", thread_id="t", role=role, content=parts, created_at=at)
        self.messages.append(message.model_copy(update=more))

    def answer(self, reply: Reply) -> None:
        calls = [
            ToolCallPart(tool_call_id=c.id, tool_name=c.name, args=json.loads(c.args))
            for c in reply.calls
        ]
        state = ProviderState(
            provider=reply.provider,
            model=reply.asked_model,
            fields=reply.state,
            calls={c.id: c.state for c in reply.calls if c.state},
        )
        thoughts = [ReasoningPart(text=reply.reasoning)] if reply.reasoning else []
        texts = [TextPart(text=reply.text)] if reply.text else []
        self.say(Role.ASSISTANT, *thoughts, *texts, *calls, provider_state=state)
        for call in calls:
            part = ToolResultPart(tool_call_id=call.tool_call_id, tool_name="look", result="seen")
            self.say(Role.TOOL, part, model_output="seen")


def refusal(target: Wire, steps: list[Step]) -> str | None:
    thread, own = Thread(), []
    for n, step in enumerate(steps):
        if step.asked and n:
            thread.say(Role.USER, TextPart(text=f"And {n}?"))
        answer = Answer(n, step.text and f"{step.text} {n}", step.calls or int(not step.text))
        thread.answer(WIRES[step.wire].reply(answer))
        if WIRES[step.wire] is target:
            own.append(answer)
    if thread.messages[-1].role is Role.ASSISTANT:
        thread.say(Role.USER, TextPart(text="And now?"))
    return target.refusal(thread.messages, own)


@pytest.mark.parametrize(("before", "after"), [*product(range(len(WIRES)), repeat=2)])
def test_each_model_takes_over_from_each(before: int, after: int) -> None:
    steps = [
        Step(before, "I look.", 2, asked=False),
        Step(after, "", 1, asked=False),
        Step(before, "", 1, asked=False),
        Step(after, "So.", 0, asked=False),
        Step(before, "Done.", 0, asked=True),
    ]
    for target in (before, after):
        for end in range(1, len(steps) + 1):
            assert refusal(WIRES[target], steps[:end]) is None, (NAMES[before], NAMES[after], end)


STEPS = st.builds(
    Step,
    wire=st.integers(0, len(WIRES) - 1),
    text=st.sampled_from(["", "So.", "Grüße 😀"]),
    calls=st.integers(0, 3),
    asked=st.booleans(),
)


@examples(400)
@given(st.integers(0, len(WIRES) - 1), st.lists(STEPS, min_size=1, max_size=8))
def test_each_model_takes_any_history(target: int, steps: list[Step]) -> None:
    assert refusal(WIRES[target], steps) is None
