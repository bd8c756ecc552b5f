"""When Claude may think, at Anthropic and at Bedrock: one that thinks wants its thoughts back with the calls
whose results it reads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from layover.plugins.models.anthropic import request as anthropic
from layover.plugins.models.anthropic.content import CONTENT
from layover.plugins.models.bedrock import request as bedrock
from layover.plugins.models.bedrock.content import AT, REASONING
from layover.values.message import (
    Message,
    ProviderState,
    Role,
    TextPart,
)
from layover.values.prompt import Prompt
from layover.values.runs.model_settings import ModelSettings
from support.wire_messages import LOOK, asks, message, result, user


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

    def calls(self, id: str, *, with_thought: bool) -> Message:
        """Return an answer with a call. `with_thought`: this model's; otherwise another's."""
        state = ProviderState(provider=self.host, model=self.model, fields=self.thoughts)
        return asks(id, provider_state=state if with_thought else None)


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


ASK, AND = user("hi"), user("and?")
SO = message(Role.ASSISTANT, TextPart(text="So."))


def test_claude_does_not_think_about_results_of_anothers_calls(api: Api) -> None:
    calls = api.calls("a", with_thought=False)
    assert not api.thinks(ASK, calls, result("a"))


@pytest.mark.parametrize("more", [1, 2])
def test_users_words_behind_results_are_in_the_turn_with_them(api: Api, more: int) -> None:
    calls = api.calls("a", with_thought=False)
    assert not api.thinks(ASK, calls, result("a"), *[AND] * more)


def test_note_that_is_not_sent_hides_no_results(api: Api) -> None:
    calls = api.calls("a", with_thought=False)
    note = message(Role.CUSTOM, TextPart(text="a note"))
    assert not api.thinks(ASK, calls, result("a"), note, AND)


def test_answer_of_blanks_separates_no_turns(api: Api) -> None:
    calls = api.calls("a", with_thought=False)
    blanks = message(Role.ASSISTANT, TextPart(text=" \n"))
    assert not api.thinks(ASK, calls, result("a"), blanks, AND)


def test_one_step_of_another_model_is_enough(api: Api) -> None:
    foreign, own = api.calls("a", with_thought=False), api.calls("b", with_thought=True)
    assert not api.thinks(ASK, foreign, result("a"), own, result("b"))


def test_claude_thinks_about_results_of_its_own_calls(api: Api) -> None:
    own = api.calls("a", with_thought=True)
    assert api.thinks(ASK, own, result("a"))
    assert api.thinks(ASK, own, result("a"), AND)


def test_claude_thinks_again_in_the_turn_behind_the_answer(api: Api) -> None:
    foreign = api.calls("a", with_thought=False)
    assert api.thinks(ASK, foreign, result("a"), SO, AND)
