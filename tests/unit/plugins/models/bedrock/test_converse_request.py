"""A prompt in Converse's words. tests/contract/test_bedrock_reference.py holds them against botocore."""

from collections.abc import Sequence
from typing import Any

import pytest

from layover.plugins.models.bedrock import request
from layover.plugins.models.bedrock.content import CACHE_POINT, REASONING
from layover.values.message import (
    FilePart,
    Message,
    ProviderState,
    Role,
    TextPart,
    ToolCallPart,
)
from layover.values.prompt import OutputSpec, Prompt, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from support.providers.claude import problem
from support.wire_messages import LOOK, asks, message, result, user

CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
OPUS = "anthropic.claude-opus-4-6-v1"
OLD = "anthropic.claude-3-haiku-20240307-v1:0"
NOVA, NOVA_2 = "amazon.nova-pro-v1:0", "amazon.nova-2-lite-v1:0"
LLAMA = "us.meta.llama3-3-70b-instruct-v1:0"
HOST = "bedrock-runtime.eu-central-1.amazonaws.com"
TICKET = OutputSpec(name="Ticket", json_schema={"type": "object"})
THOUGHT = {"reasoningText": {"text": "hm", "signature": "s=="}}


def body(
    *messages: Message, model: str = CLAUDE, left_out: Sequence[str] = (), **more: Any
) -> dict[str, Any]:
    prompt = Prompt(model=model, messages=messages, **more)
    made = request.body(prompt, frozenset(left_out), HOST)
    assert problem(made) is None
    return made


def kept(model: str = CLAUDE, provider: str = HOST, at: int = 0) -> ProviderState:
    return ProviderState(
        provider=provider, model=model, fields={REASONING: [{"at": at, **THOUGHT}]}
    )


def test_call_without_a_result_is_not_sent() -> None:
    made = body(user("hi"), asks("a", "b"), result("b"), tools=(LOOK,))
    (call,) = made["messages"][1]["content"]
    assert call["toolUse"]["toolUseId"] == "b"
    assert [b["toolResult"]["toolUseId"] for b in made["messages"][2]["content"]] == ["b"]


def test_mistral_gets_ids_of_nine_letters_or_digits() -> None:
    thread = (user("hi"), asks("call_1", "toolu_2"), result("call_1"), result("toolu_2"))
    made = body(*thread, model="mistral.pixtral-large-2502-v1:0", tools=(LOOK,))
    called = [b["toolUse"]["toolUseId"] for b in made["messages"][1]["content"]]
    assert [len(i) for i in called] == [9, 9]
    assert [b["toolResult"]["toolUseId"] for b in made["messages"][2]["content"]] == called


def test_id_that_another_could_refuse_goes_back_to_its_own_model() -> None:
    state = ProviderState(provider=HOST, model="moonshot.kimi", calls={"a": {"id": "f.look:0"}})
    thread = (user("hi"), asks("a", provider_state=state), result("a"))
    made = body(*thread, model="moonshot.kimi", tools=(LOOK,))
    assert made["messages"][1]["content"][0]["toolUse"]["toolUseId"] == "f.look:0"
    assert made["messages"][2]["content"][0]["toolResult"]["toolUseId"] == "f.look:0"


def test_blank_texts_are_not_sent() -> None:
    made = body(user("hi"), asks("a", text="  \n"), result("a", " "), user("  "), tools=(LOOK,))
    assert [list(b) for t in made["messages"] for b in t["content"]] == [
        ["text"],
        ["toolUse"],
        ["toolResult"],
    ]
    assert made["messages"][2]["content"][0]["toolResult"]["content"] == [{"text": "(no output)"}]


def test_results_of_one_step_are_one_turn_with_what_the_user_says_next() -> None:
    made = body(user("hi"), asks("a", "b"), result("a"), result("b"), user("and?"), tools=(LOOK,))
    assert [turn["role"] for turn in made["messages"]] == ["user", "assistant", "user"]
    assert [next(iter(b)) for b in made["messages"][2]["content"]] == ["toolResult"] * 2 + ["text"]


def test_conversation_that_begins_with_the_assistant_has_a_beginning() -> None:
    made = body(message(Role.ASSISTANT, TextPart(text="Hello")), user("hi"))
    assert [turn["role"] for turn in made["messages"]] == ["user", "assistant", "user"]


def test_conversation_that_ends_with_the_assistant_goes_on() -> None:
    made = body(user("hi"), message(Role.ASSISTANT, TextPart(text="Hello ")))
    assert made["messages"][1]["content"] == [{"text": "Hello"}]
    assert made["messages"][2]["role"] == "user"


@pytest.mark.parametrize(("model", "says"), [(CLAUDE, True), (NOVA, True), (LLAMA, False)])
def test_error_is_said_to_the_models_that_take_it(model: str, says: bool) -> None:
    failed = result("a", is_error=True)
    made = body(user("hi"), asks("a"), failed, model=model, tools=(LOOK,))
    assert ("status" in made["messages"][2]["content"][0]["toolResult"]) is says


def test_tools_of_the_past_are_named_and_not_offered() -> None:
    made = body(user("hi"), asks("a"), result("a"))
    (tool,) = made["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "look"
    assert "do not call it" in tool["toolSpec"]["description"]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", {"auto": {}}),
        ("required", {"any": {}}),
        ("look", {"tool": {"name": "look"}}),
    ],
)
def test_tool_choice_is_said_in_converses_words(choice: str | None, sent: Any) -> None:
    settings = ModelSettings(tool_choice=choice)
    made = body(user("hi"), tools=(LOOK,), settings=settings)
    assert made["toolConfig"].get("toolChoice") == sent


def test_choice_of_no_tool_offers_none() -> None:
    settings = ModelSettings(tool_choice="none")
    assert "toolConfig" not in body(user("hi"), tools=(LOOK,), settings=settings)


# Structured output


@pytest.mark.parametrize(
    ("tools", "choice"), [((), {"tool": {"name": "Ticket"}}), ((LOOK,), {"any": {}})]
)
def test_structured_answer_is_a_call_that_is_forced(tools: Any, choice: Any) -> None:
    made = body(user("hi"), tools=tools, output=TICKET)
    assert made["toolConfig"]["tools"][-1]["toolSpec"]["name"] == "Ticket"
    assert made["toolConfig"]["toolChoice"] == choice
    assert "system" not in made


@pytest.mark.parametrize("level", ["low", "high"])
@pytest.mark.parametrize("model", [CLAUDE, OPUS])
def test_claude_that_thinks_is_asked_for_its_answer_and_not_forced(model: str, level: Any) -> None:
    settings = ModelSettings(reasoning=level)
    made = body(user("hi"), model=model, output=TICKET, settings=settings)
    assert "toolChoice" not in made["toolConfig"]
    assert "Ticket" in made["system"][-1]["text"]


def test_model_that_is_not_to_be_forced_is_asked() -> None:
    made = body(user("hi"), model=LLAMA, output=TICKET, left_out=["toolChoice"])
    assert "toolChoice" not in made["toolConfig"]
    assert "Ticket" in made["system"][-1]["text"]


def test_tool_of_the_answer_has_a_name_of_its_own() -> None:
    like = ToolSpec(name="Ticket", description="A ticket.", parameters={"type": "object"})
    prompt = Prompt(model=CLAUDE, tools=(like,), output=TICKET)
    assert request.output_tool(prompt) == "Ticket_answer"


# Reasoning


@pytest.mark.parametrize(
    ("model", "level", "sent"),
    [
        (CLAUDE, "none", None),
        (CLAUDE, "minimal", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (CLAUDE, "low", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (CLAUDE, "xhigh", {"thinking": {"type": "enabled", "budget_tokens": 24_576}}),
        (CLAUDE, "high", {"thinking": {"type": "enabled", "budget_tokens": 16384}}),
        (OPUS, "none", {"thinking": {"type": "disabled"}}),
        (OPUS, "medium", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}),
        (
            "global.anthropic.claude-opus-5",
            "low",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        ),
        (
            "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
            "low",
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        ),
        (OLD, "high", None),
        (NOVA, "high", None),
        (OPUS, "minimal", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        (OPUS, "xhigh", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        (
            "global.anthropic.claude-opus-5",
            "xhigh",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}},
        ),
        (NOVA_2, "minimal", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}),
        (NOVA_2, "xhigh", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}),
        (NOVA_2, "none", {"reasoningConfig": {"type": "disabled"}}),
        (NOVA_2, "high", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}),
        (LLAMA, "high", None),
    ],
)
def test_reasoning_is_said_in_the_familys_words(model: str, level: Any, sent: Any) -> None:
    made = body(user("hi"), model=model, settings=ModelSettings(reasoning=level))
    assert made.get("additionalModelRequestFields") == sent


COOL = ModelSettings(temperature=0.2, top_p=0.9, max_tokens=9000)


@pytest.mark.parametrize(
    ("model", "level"), [(CLAUDE, "low"), (OPUS, "medium"), (NOVA_2, "high"), (NOVA_2, "xhigh")]
)
def test_temperature_is_not_sent_beside_thinking(model: str, level: Any) -> None:
    settings = COOL.model_copy(update={"reasoning": level})
    made = body(user("hi"), model=model, settings=settings)
    assert made["inferenceConfig"] == {"maxTokens": 9000}
    ignored = request.unsupported_settings(Prompt(model=model, settings=settings))
    assert ignored == {"temperature", "top_p"}


def test_temperature_that_claude_takes_beside_thinking_is_sent() -> None:
    settings = ModelSettings(temperature=1, top_p=0.95, reasoning="low")
    made = body(user("hi"), settings=settings)
    assert made["inferenceConfig"] == {"temperature": 1, "topP": 0.95}
    assert request.unsupported_settings(Prompt(model=CLAUDE, settings=settings)) == frozenset()


@pytest.mark.parametrize(
    ("model", "level"),
    [(CLAUDE, "none"), (CLAUDE, None), (OPUS, "none"), (NOVA_2, "low"), (LLAMA, "high")],
)
def test_temperature_is_sent_where_a_model_does_not_think(model: str, level: Any) -> None:
    settings = COOL.model_copy(update={"reasoning": level})
    made = body(user("hi"), model=model, settings=settings)
    assert made["inferenceConfig"] == {"maxTokens": 9000, "temperature": 0.2, "topP": 0.9}
    ignored = request.unsupported_settings(Prompt(model=model, settings=settings))
    assert ignored.isdisjoint({"temperature", "top_p"})


def test_temperature_is_sent_while_claude_may_not_think() -> None:
    settings = COOL.model_copy(update={"reasoning": "high"})
    made = body(user("hi"), asks("a"), result("a"), tools=(LOOK,), settings=settings)
    assert made["inferenceConfig"]["temperature"] == 0.2


@pytest.mark.parametrize(("most", "budget"), [(2000, 1500), (1200, 1024), (100_000, 16_384)])
def test_budget_leaves_room_for_the_answer(most: int, budget: int) -> None:
    settings = ModelSettings(reasoning="high", max_tokens=most)
    made = body(user("hi"), settings=settings)
    assert made["additionalModelRequestFields"]["thinking"]["budget_tokens"] == budget


def test_claude_does_not_think_where_no_room_is_left_for_an_answer() -> None:
    made = body(user("hi"), settings=ModelSettings(reasoning="high", max_tokens=1024))
    assert "additionalModelRequestFields" not in made


@pytest.mark.parametrize("setting", ["verbosity", "seed", "parallel_tool_calls", "reasoning"])
def test_settings_without_a_word_are_named(setting: str) -> None:
    values = {"verbosity": "low", "seed": 1, "parallel_tool_calls": False, "reasoning": "high"}
    settings = ModelSettings.model_validate({setting: values[setting]})
    assert request.unsupported_settings(Prompt(model=LLAMA, settings=settings)) == {setting}
    assert request.unsupported_settings(Prompt(model=CLAUDE, settings=settings)) == {setting} - {
        "reasoning"
    }


@pytest.mark.parametrize("at", [0, 1])
def test_thought_goes_back_to_its_place(at: int) -> None:
    step = asks("a", text="So.", provider_state=kept(at=at))
    content = body(user("hi"), step, result("a"), tools=(LOOK,))["messages"][1]["content"]
    assert content[at] == {REASONING: THOUGHT}
    assert [next(iter(b)) for b in content if REASONING not in b] == ["text", "toolUse"]


def test_thoughts_of_one_place_keep_their_order() -> None:
    redacted = {"redactedContent": "AAAA"}
    thoughts = [{"at": 0, **THOUGHT}, {"at": 0, **redacted}, {"at": 1, **THOUGHT}]
    state = ProviderState(provider=HOST, model=CLAUDE, fields={REASONING: thoughts})
    step = asks("a", text="So.", provider_state=state)
    content = body(user("hi"), step, result("a"), tools=(LOOK,))["messages"][1]["content"]
    assert content[:4] == [
        {REASONING: THOUGHT},
        {REASONING: redacted},
        {"text": "So."},
        {REASONING: THOUGHT},
    ]


@pytest.mark.parametrize(
    "state", [kept(model=OPUS), kept(provider="api.openai.com")], ids=["model", "provider"]
)
def test_thought_of_another_is_not_sent(state: ProviderState) -> None:
    made = body(user("hi"), asks("a", provider_state=state), result("a"), tools=(LOOK,))
    assert REASONING not in str(made)


def test_refused_thoughts_are_not_sent_again() -> None:
    step = asks("a", provider_state=kept())
    made = body(user("hi"), step, result("a"), tools=(LOOK,), left_out=[REASONING])
    assert REASONING not in str(made)


# Settings and caches


def test_settings_have_converses_names() -> None:
    settings = ModelSettings(
        max_tokens=9,
        temperature=0.5,
        top_p=0.9,
        stop="END",
        extra={"additionalModelRequestFields": {"top_k": 5}, "inferenceConfig": {"topP": 0.1}},
    )
    made = body(user("hi"), settings=settings)
    assert made["inferenceConfig"] == {
        "maxTokens": 9,
        "temperature": 0.5,
        "topP": 0.1,
        "stopSequences": ["END"],
    }
    assert made["additionalModelRequestFields"] == {"top_k": 5}


@pytest.mark.parametrize(("refused", "gone"), [("top_p", "topP"), ("maxTokens", "maxTokens")])
def test_refused_setting_is_left_out_by_either_of_its_names(refused: str, gone: str) -> None:
    settings = ModelSettings(max_tokens=9, top_p=0.9)
    made = body(user("hi"), settings=settings, left_out=[refused])
    assert gone not in made["inferenceConfig"]


def places(made: dict[str, Any]) -> dict[str, list[int]]:
    """Return the places of the cache points: in the turns by their number."""
    turns = [n for n, t in enumerate(made["messages"]) for b in t["content"] if b == CACHE_POINT]
    tools = made.get("toolConfig", {}).get("tools", [])
    named = {"system": made.get("system", []), "tools": tools}
    return {"turns": turns} | {
        n: [at for at, b in enumerate(v) if b == CACHE_POINT] for n, v in named.items()
    }


def cached(model: str, **more: Any) -> dict[str, Any]:
    run = [
        user("hi"),
        message(Role.ASSISTANT, TextPart(text="Hello")),
        user("today: look", "run_2"),
        asks("a", run="run_2"),
        result("a"),
    ]
    given = {"cache_key": "k", "run_id": "run_2", "system": "You help.", "tools": (LOOK,)}
    return body(*run, model=model, **(given | more))


def test_claudes_cache_ends_with_tools_system_history_and_the_newest_turn() -> None:
    assert places(cached(CLAUDE)) == {"system": [1], "tools": [1], "turns": [1, 4]}


def test_nova_caches_no_tools_and_no_results() -> None:
    assert places(cached(NOVA)) == {"system": [1], "tools": [], "turns": []}
    made = body(user("hi"), model=NOVA, cache_key="k", tools=(LOOK,))
    assert places(made) == {"system": [], "tools": [], "turns": [0]}


@pytest.mark.parametrize(
    ("model", "more"),
    [
        (LLAMA, {}),
        (OLD, {}),
        (CLAUDE, {"cache_key": None}),
        (CLAUDE, {"settings": ModelSettings(cache="off")}),
        (CLAUDE, {"left_out": ["caching"]}),
    ],
)
def test_cache_is_left_alone(model: str, more: dict[str, Any]) -> None:
    assert "cachePoint" not in str(cached(model, **more))


def test_same_prompt_is_the_same_bytes_whatever_the_order_of_stored_keys() -> None:
    def ordered(args: dict[str, int]) -> str:
        call = ToolCallPart(tool_call_id="a", tool_name="look", args=args)
        return str(body(user("hi"), message(Role.ASSISTANT, call), result("a"), tools=(LOOK,)))

    assert ordered({"a": 1, "b": 2}) == ordered({"b": 2, "a": 1})


# Files


def file(kind: str, name: str = "a.bin") -> FilePart:
    return FilePart(url=f"data:{kind};base64,AAAA", name=name, mime_type=kind)


def test_documents_have_names_that_are_taken_and_differ() -> None:
    parts = [
        file("application/pdf", name)
        for name in ("my_report (1).pdf", "my.report (1).pdf", "..pdf")
    ]
    more = message(Role.USER, *parts, file("application/pdf", "my report (1).pdf"))
    content = body(more)["messages"][0]["content"]
    names = [b["document"]["name"] for b in content if "document" in b]
    assert names == ["my report (1)", "my report (1) (2)", "document", "my report (1) (3)"]
    assert "text" in content[-1]


def test_only_the_newest_documents_are_sent_and_every_picture() -> None:
    one, other = file("application/pdf", "one.pdf"), file("text/csv", "other.csv")
    # The same part in several messages counts as often.
    history = [message(Role.USER, one, other, file("image/png")) for _ in range(4)]
    made = body(*history)["messages"]
    content = [block for turn in made for block in turn["content"]]
    names = [block["document"]["name"] for block in content if "document" in block]
    assert names == ["other", "one", "other (2)", "one (2)", "other (3)"]
    assert content[0] == {"text": "[file: one.pdf, application/pdf]"}
    assert sum("image" in block for block in content) == 4


def test_file_elsewhere_is_only_named() -> None:
    part = FilePart(url="https://a.example/b.png", name="b.png", mime_type="image/png")
    (block,) = body(message(Role.USER, part))["messages"][0]["content"]
    assert block == {"text": "[file: b.png, image/png, https://a.example/b.png]"}


def test_file_of_a_kind_that_converse_has_no_block_for_is_only_named() -> None:
    (block,) = body(message(Role.USER, file("application/zip")))["messages"][0]["content"]
    assert block == {"text": "[file: a.bin, application/zip]"}


def test_image_is_sent_as_its_bytes() -> None:
    content = body(message(Role.USER, file("image/png")))["messages"][0]["content"]
    assert content == [{"image": {"format": "png", "source": {"bytes": "AAAA"}}}]
