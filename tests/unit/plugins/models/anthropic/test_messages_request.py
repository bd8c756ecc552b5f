"""A prompt in the words of the Messages API, which `support.providers.messages` checks by its rules."""

from collections.abc import Sequence
from typing import Any

import pytest

from layover.plugins.models.anthropic import request
from layover.plugins.models.anthropic.content import CACHE, CONTENT
from layover.values.message import (
    FilePart,
    Message,
    ProviderState,
    Role,
    TextPart,
)
from layover.values.prompt import OutputSpec, Prompt, ProviderTool
from layover.values.runs.model_settings import ModelSettings
from support.providers.messages import problem
from support.wire_messages import LOOK, asks, message, result, user

CLAUDE, OPUS, OLD = "claude-sonnet-4-5", "claude-opus-4-6", "claude-3-haiku-20240307"
HOST = "api.anthropic.com"
SCHEMA = {"type": "object", "additionalProperties": False}
THOUGHT = {"type": "thinking", "thinking": "", "signature": "s=="}
PNG = "data:image/png;base64,AA=="


def state(*layout: dict[str, Any], model: str = CLAUDE, provider: str = HOST) -> ProviderState:
    return ProviderState(provider=provider, model=model, fields={CONTENT: list(layout)})


def text(length: int) -> dict[str, Any]:
    return {"type": "text", "length": length}


def body(
    *messages: Message, model: str = CLAUDE, left_out: Sequence[str] = (), **more: Any
) -> dict[str, Any]:
    prompt = Prompt(model=f"anthropic/{model}", messages=messages, **more)
    made = request.body(prompt, frozenset(left_out), HOST)
    assert problem(made) is None
    return made


def test_call_without_a_result_is_not_sent() -> None:
    made = body(user("hi"), asks("a", "b"), result("b"), tools=(LOOK,))
    (call,) = made["messages"][1]["content"]
    assert (call["type"], call["id"]) == ("tool_use", "b")
    assert [b["tool_use_id"] for b in made["messages"][2]["content"]] == ["b"]


def test_blank_texts_are_not_sent() -> None:
    made = body(user("hi"), asks("a", text=" \n"), result("a", " "), user("  "), tools=(LOOK,))
    kinds = [b["type"] for turn in made["messages"] for b in turn["content"]]
    assert kinds == ["text", "tool_use", "tool_result"]
    assert made["messages"][2]["content"][0]["content"] == "(no output)"


def test_results_come_first_and_users_speak_first_and_last() -> None:
    made = body(asks("a"), result("a", is_error=True), user("and?"), tools=(LOOK,))
    assert [turn["role"] for turn in made["messages"]] == ["user", "assistant", "user"]
    answer, said = made["messages"][2]["content"]
    assert (answer["type"], answer["is_error"], said["text"]) == ("tool_result", True, "and?")
    made = body(user("hi"), message(Role.ASSISTANT, TextPart(text="Hello")))
    assert made["messages"][-1]["role"] == "user"


def test_thoughts_go_back_to_their_own_model_only() -> None:
    for kept, is_sent in ((state(THOUGHT, {"type": "tool_use"}), True), (state(), False)):
        made = body(user("hi"), asks("a", provider_state=kept), result("a"), tools=(LOOK,))
        assert (THOUGHT in made["messages"][1]["content"]) is is_sent
    for other in (state(THOUGHT, model=OPUS), state(THOUGHT, provider="b.example")):
        made = body(user("hi"), asks("a", provider_state=other), result("a"), tools=(LOOK,))
        assert THOUGHT not in made["messages"][1]["content"]


def test_text_that_a_hook_has_changed_is_sent_as_it_is_now() -> None:
    kept = state(text(9), THOUGHT, text(9), {"type": "tool_use"})
    said = asks("a", text="redacted", provider_state=kept)
    blocks = body(user("hi"), said, result("a"), tools=(LOOK,))["messages"][1]["content"]
    assert [b["type"] for b in blocks] == ["text", "thinking", "tool_use"]
    assert blocks[0]["text"] == "redacted"


def test_thought_behind_which_nothing_is_left_is_not_sent() -> None:
    kept = state(THOUGHT, {"type": "tool_use"})
    made = body(user("hi"), asks("a", provider_state=kept), user("stop"), tools=(LOOK,))
    assert [turn["role"] for turn in made["messages"]] == ["user"]


@pytest.mark.parametrize("half", ["server_tool_use", "web_search_tool_result"])
def test_half_of_a_search_that_was_cut_short_is_not_sent(half: str) -> None:
    id = "id" if half == "server_tool_use" else "tool_use_id"
    kept = state({"type": half, id: "srv_1"}, text(5))
    said = message(Role.ASSISTANT, TextPart(text="Hello"), provider_state=kept)
    made = body(user("hi"), said, user("on"))
    assert [b["type"] for b in made["messages"][1]["content"]] == ["text"]


@pytest.mark.parametrize(
    ("part", "kind", "source"),
    [
        (FilePart(url=PNG, mime_type="image/png"), "image", "base64"),
        (FilePart(url="https://a.example/b.png", mime_type="image/png"), "image", "url"),
        (FilePart(url="data:application/pdf;base64,AA==", name="a.pdf"), "document", "base64"),
        (FilePart(url="https://a.example/b.pdf", mime_type="application/pdf"), "document", "url"),
        (FilePart(url="data:audio/mpeg;base64,AA==", name="a.mp3"), "text", None),
        (FilePart(url="http://a.example/b.png", mime_type="image/png"), "text", None),
    ],
)
def test_files_are_sent_as_what_the_api_has_for_them(
    part: FilePart, kind: str, source: str | None
) -> None:
    (turn,) = body(message(Role.USER, part))["messages"]
    block = turn["content"][0]
    assert block["type"] == kind
    assert block.get("source", {}).get("type") == source
    # A document by itself says nothing.
    assert (turn["content"][-1]["type"] == "text") is (kind != "image")


@pytest.mark.parametrize(
    ("model", "level", "sent"),
    [
        (CLAUDE, "none", {}),
        (CLAUDE, "low", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        ("claude-sonnet-4-0", "low", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (OPUS, "none", {"thinking": {"type": "disabled"}}),
        (
            OPUS,
            "xhigh",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ),
        (OLD, "high", {}),
    ],
)
def test_model_is_told_how_much_to_think_as_its_family_expects(
    model: str, level: Any, sent: dict[str, Any]
) -> None:
    made = body(user("hi"), model=model, settings=ModelSettings(reasoning=level))
    assert {n: made[n] for n in ("thinking", "output_config") if n in made} == sent


def test_thinking_leaves_room_for_an_answer() -> None:
    settings = ModelSettings(reasoning="high", max_tokens=2000)
    made = body(user("hi"), settings=settings)
    assert (made["max_tokens"], made["thinking"]["budget_tokens"]) == (2000, 1500)
    assert "thinking" not in body(
        user("hi"), settings=ModelSettings(reasoning="high", max_tokens=900)
    )


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({}, None),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "look"}, {"type": "tool", "name": "look"}),
        ({"tool_choice": "look", "reasoning": "low"}, None),
        (
            {"parallel_tool_calls": False},
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_calls_are_forced_only_where_the_model_may_be(
    settings: dict[str, Any], sent: dict[str, Any] | None
) -> None:
    made = body(user("hi"), tools=(LOOK,), settings=ModelSettings(**settings))
    assert made.get("tool_choice") == sent


def test_thinking_model_takes_no_other_temperature() -> None:
    words = {"temperature": 0.2, "top_p": 0.5, "stop": "END"}
    made = body(user("hi"), settings=ModelSettings(**words))
    assert (made["temperature"], made["top_p"], made["stop_sequences"]) == (0.2, 0.5, ["END"])
    made = body(user("hi"), settings=ModelSettings(**words, reasoning="low"))
    assert {"temperature", "top_p"}.isdisjoint(made)
    prompt = Prompt(model=CLAUDE, settings=ModelSettings(**words, reasoning="low", seed=1))
    assert request.unsupported_settings(prompt) == {"temperature", "top_p", "seed"}


def test_strict_schema_is_a_format_and_any_other_is_told_in_words() -> None:
    strict = OutputSpec(name="Ticket", json_schema=SCHEMA, strict=True)
    made = body(user("hi"), output=strict)
    assert made["output_config"]["format"] == {"type": "json_schema", "schema": SCHEMA}
    assert "system" not in made
    for output, left_out in (
        (strict, ["response_format"]),
        (OutputSpec(name="Ticket", json_schema=SCHEMA), []),
    ):
        made = body(user("hi"), output=output, left_out=left_out)
        assert "output_config" not in made
        assert "JSON schema" in made["system"][0]["text"]


def test_at_most_four_marks_stand_where_later_requests_begin_alike() -> None:
    thread = (user("old"), asks("a"), result("a"), user("new", run="r"), asks("b", run="r"))
    kept: dict[str, Any] = {
        "system": "You help.",
        "tools": (LOOK,),
        "cache_key": "k",
        "run_id": "r",
    }
    made = body(*thread, result("b"), **kept)
    marked = [b for turn in made["messages"] for b in turn["content"] if "cache_control" in b]
    assert [b["tool_use_id"] for b in marked] == ["a", "b"]
    assert made["system"][0]["cache_control"] == CACHE["cache_control"]
    assert made["tools"][-1]["cache_control"] == CACHE["cache_control"]
    off = body(*thread, result("b"), **{**kept, "settings": ModelSettings(cache="off")})
    assert "cache_control" not in str(off)


def test_same_prompt_is_the_same_bytes() -> None:
    thread = (user("hi"), asks("a"), result("a"))
    assert body(*thread, tools=(LOOK,)) == body(*thread, tools=(LOOK,))


def test_tools_of_anthropic_have_their_types_and_names() -> None:
    tools = (
        ProviderTool(type="web_search", options={"max_uses": 2}),
        ProviderTool(type="bash_20250124"),
    )
    made = body(user("hi"), provider_tools=tools)
    assert made["tools"] == [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
        {"type": "bash_20250124", "name": "bash"},
    ]


def test_tools_of_the_past_are_named_and_not_offered() -> None:
    made = body(user("hi"), asks("a"), result("a"))
    (tool,) = made["tools"]
    assert "do not call it" in tool["description"]
    assert made["tool_choice"] == {"type": "none"}


def test_extra_fields_win_and_features_in_their_trial_are_no_field() -> None:
    settings = ModelSettings(
        max_tokens=10, extra={"anthropic_beta": ["a-1", "b-2"], "service_tier": "auto"}
    )
    made = body(user("hi"), settings=settings)
    assert made["service_tier"] == "auto"
    assert "anthropic_beta" not in made
    assert request.betas(Prompt(model=CLAUDE, settings=settings)) == ["a-1", "b-2"]
