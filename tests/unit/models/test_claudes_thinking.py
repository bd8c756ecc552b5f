"""When Claude may think, at Anthropic and at Bedrock: one that thinks wants its thoughts back with the calls
whose results it reads."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from layover.adapters.models.anthropic import request as anthropic
from layover.adapters.models.anthropic.content import CONTENT
from layover.adapters.models.bedrock import request as bedrock
from layover.adapters.models.bedrock.content import AT, REASONING
from layover.values.message import (
    Message,
    Part,
    ProviderState,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.prompt import Prompt, ToolSpec
from layover.values.runs.model_settings import ModelSettings

LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object"})


@dataclass(frozen=True)
class Api:
    """One of the APIs that serve Claude. `thoughts`: the fields of a message's state with a thought."""

    host: str
    model: str
    thoughts: dict[str, Any]
    body: Callable[[Prompt, frozenset[str], str], dict[str, Any]]

    def thinks(self, *thread: Message) -> bool:
        """Return whether the request asks for thoughts."""
        settings = ModelSettings(reasoning="low")
        prompt = Prompt(model=self.model, messages=thread, tools=(LOOK,), settings=settings)
        sent = self.body(prompt, frozenset(), self.host)
        return "thinking" in {**sent, **sent.get("additionalModelRequestFields", {})}

    def asks(self, id: str, *, with_thought: bool) -> Message:
        """Return an answer with a call. `with_thought`: this model's; otherwise another's."""
        state = ProviderState(provider=self.host, model=self.model, fields=self.thoughts)
        call = ToolCallPart(tool_call_id=id, tool_name="look", args={})
        return message(Role.ASSISTANT, call, provider_state=state if with_thought else None)


APIS = [
    Api(
        "api.anthropic.com",
        "claude-sonnet-4-5",
        {CONTENT: [{"type": "thinking", "thinking": "", "signature": "s=="}, {"type": "tool_use"}]},
        anthropic.body,
    ),
    Api(
        "bedrock-runtime.eu-central-1.amazonaws.com",
        "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
        {REASONING: [{AT: 0, "reasoningText": {"text": "hm", "signature": "s=="}}]},
        bedrock.body,
    ),
]


@pytest.fixture(params=APIS, ids=["anthropic", "bedrock"])
def api(request: pytest.FixtureRequest) -> Api:
    chosen: Api = request.param
    return chosen


def message(role: Role, *content: Part, **more: Any) -> Message:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Message(id="m", thread_id="t", role=role, content=content, created_at=now, **more)


def result(id: str) -> Message:
    return message(Role.TOOL, ToolResultPart(tool_call_id=id, tool_name="look", result="seen"))


ASK = message(Role.USER, TextPart(text="hi"))
AND = message(Role.USER, TextPart(text="and?"))
SO = message(Role.ASSISTANT, TextPart(text="So."))


def test_claude_does_not_think_about_results_of_anothers_calls(api: Api) -> None:
    calls = api.asks("a", with_thought=False)
    assert not api.thinks(ASK, calls, result("a"))


@pytest.mark.parametrize("more", [1, 2])
def test_users_words_behind_results_are_in_the_turn_with_them(api: Api, more: int) -> None:
    calls = api.asks("a", with_thought=False)
    assert not api.thinks(ASK, calls, result("a"), *[AND] * more)


def test_note_that_is_not_sent_hides_no_results(api: Api) -> None:
    calls = api.asks("a", with_thought=False)
    note = message(Role.CUSTOM, TextPart(text="a note"))
    assert not api.thinks(ASK, calls, result("a"), note, AND)


def test_one_step_of_another_model_is_enough(api: Api) -> None:
    foreign, own = api.asks("a", with_thought=False), api.asks("b", with_thought=True)
    assert not api.thinks(ASK, foreign, result("a"), own, result("b"))


def test_claude_thinks_about_results_of_its_own_calls(api: Api) -> None:
    own = api.asks("a", with_thought=True)
    assert api.thinks(ASK, own, result("a"))
    assert api.thinks(ASK, own, result("a"), AND)


def test_claude_thinks_again_in_the_turn_behind_the_answer(api: Api) -> None:
    foreign = api.asks("a", with_thought=False)
    assert api.thinks(ASK, foreign, result("a"), SO, AND)
