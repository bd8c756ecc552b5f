"""A prompt on the wire of Chat Completions."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from layover.plugins.models import call_ids, wire
from layover.plugins.models.responses.request import body as responses_body
from layover.values.message import (
    DataPart,
    FilePart,
    Message,
    ProviderState,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.prompt import OutputSpec, Prompt, ToolSpec
from layover.values.runs.model_settings import ModelSettings

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def message(role: Role, *parts: Any, model_output: str | None = None) -> Message:
    content = tuple(TextPart(text=p) if isinstance(p, str) else p for p in parts)
    return Message(
        id="m", thread_id="t", role=role, content=content, created_at=NOW, model_output=model_output
    )


def user(*parts: Any) -> Message:
    return message(Role.USER, *parts)


def assistant(*parts: Any) -> Message:
    return message(Role.ASSISTANT, *parts)


def asks(call_id: str, args: Any = None, name: str = "refund") -> ToolCallPart:
    return ToolCallPart(tool_call_id=call_id, tool_name=name, args={} if args is None else args)


def answer(call_id: str, result: Any = "ok", model_output: str | None = None) -> Message:
    part = ToolResultPart(tool_call_id=call_id, tool_name="refund", result=result)
    return message(Role.TOOL, part, model_output=model_output)


def sent(*thread: Message) -> list[dict[str, Any]]:
    return wire.messages(thread)


def roles(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [m["role"] for m in messages]


def test_a_call_without_a_result_is_left_out_and_its_text_stays() -> None:
    messages = sent(user("hi"), assistant("wait", asks("a"), asks("b")), answer("b"), user("so?"))
    assert roles(messages) == ["user", "assistant", "tool", "user"]
    assert [c["id"] for c in messages[1]["tool_calls"]] == ["b"]
    assert messages[1]["content"] == "wait"


def test_a_message_left_empty_is_dropped() -> None:
    assert roles(sent(user("hi"), assistant(asks("a")), user("again"))) == ["user", "user"]
    assert sent(user(DataPart(name="x", data=1)), assistant(ReasoningPart(text="hm"))) == []


@pytest.mark.parametrize("blanks", [" ", "\n\n", "\u00a0", "\t \r\n"])
def test_an_assistants_blanks_are_no_text(blanks: str) -> None:
    thread = (user("hi"), assistant(blanks, asks("a")), answer("a"), assistant(blanks), user("so?"))
    messages = sent(*thread)
    assert roles(messages) == ["user", "assistant", "tool", "user"]
    assert messages[1]["content"] is None
    items = responses_body(Prompt(model="m", messages=thread), frozenset(), "")["input"]
    kinds = [item.get("role") or item["type"] for item in items]
    assert kinds == ["user", "function_call", "function_call_output", "user"]


def test_a_result_without_its_call_right_before_it_is_left_out() -> None:
    assert roles(sent(answer("a"), user("hi"))) == ["user"]
    assert roles(sent(assistant("x", asks("a")), user("hi"), answer("a"))) == ["assistant", "user"]


def test_results_stand_in_the_order_of_their_calls() -> None:
    messages = sent(assistant(asks("a"), asks("b")), answer("b", "2"), answer("a", "1"))
    assert [m.get("content") for m in messages] == [None, "1", "2"]


def test_the_same_id_in_two_steps_meets_its_own_result() -> None:
    messages = sent(assistant(asks("0")), answer("0", "x"), assistant(asks("0")), answer("0", "y"))
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["x", "y"]


def test_custom_messages_are_never_sent_and_split_no_pair() -> None:
    custom = message(Role.CUSTOM, DataPart(name="card", data={}))
    messages = sent(assistant(asks("a")), custom, answer("a"), custom, user("hi"))
    assert roles(messages) == ["assistant", "tool", "user"]


@pytest.mark.parametrize("bad", ["a.b", "x" * 41, "", "ü", "call 1", "functions.refund:0"])
def test_an_id_that_a_provider_would_refuse_is_mapped_the_same_way_every_time(bad: str) -> None:
    first = sent(assistant(asks(bad)), answer(bad))
    call_id = first[0]["tool_calls"][0]["id"]
    assert call_id != bad
    assert len(call_id) <= 40
    assert call_id.replace("_", "").isalnum()
    assert first[1]["tool_call_id"] == call_id
    assert sent(assistant(asks(bad)), answer(bad)) == first


def test_a_good_id_stays_as_it_is() -> None:
    assert call_ids.safe_id("call_s7oT9jaLAsEqTgvxZTmFh0wB") == "call_s7oT9jaLAsEqTgvxZTmFh0wB"


CACHED = Prompt(
    model="openai/anthropic/claude-sonnet-4.5",
    system="You help.",
    cache_key="k",
    run_id="run_2",
    messages=(
        user("hi"),
        assistant("Hello."),
        user("and?").model_copy(update={"run_id": "run_2"}),
        assistant(asks("a")).model_copy(update={"run_id": "run_2"}),
        answer("a", "ok").model_copy(update={"run_id": "run_2"}),
    ),
)


def cache_points(prompt: Prompt, left_out: frozenset[str] = frozenset()) -> list[str]:
    """The texts that end at a point."""
    contents = [m["content"] for m in wire.body(prompt, left_out)["messages"]]
    parts = [p for c in contents if isinstance(c, list) for p in c]
    assert all(p["cache_control"] == {"type": "ephemeral"} for p in parts if len(p) > 2)
    return [p["text"] for p in parts if "cache_control" in p]


def test_claude_behind_a_gateway_is_told_where_its_cache_ends() -> None:
    assert cache_points(CACHED) == ["You help.", "Hello.", "ok"]
    first_step = CACHED.model_copy(update={"messages": CACHED.messages[:3]})
    assert cache_points(first_step) == ["You help.", "Hello.", "and?"]


def test_first_turn_has_no_point_of_its_history() -> None:
    first = CACHED.model_copy(update={"messages": CACHED.messages[2:3]})
    assert cache_points(first) == ["You help.", "and?"]
    assert cache_points(first.model_copy(update={"system": None})) == ["and?"]


def test_point_stands_after_the_last_part_of_a_message() -> None:
    image = FilePart(url="data:image/png;base64,AAAA", mime_type="image/png")
    prompt = CACHED.model_copy(update={"messages": (user("look", image),), "run_id": None})
    *_, said = wire.body(prompt)["messages"]
    assert [("cache_control" in p) for p in said["content"]] == [False, True]


@pytest.mark.parametrize(
    "other",
    [
        {"model": "openai/gpt-5"},
        {"model": "openai/claudette"},
        {"cache_key": None},
        {"settings": ModelSettings(cache="off")},
    ],
)
def test_no_cache_points_for_others(other: dict[str, Any]) -> None:
    assert "cache_control" not in json.dumps(wire.body(CACHED.model_copy(update=other)))


def test_cache_points_that_are_refused_are_left_out() -> None:
    assert "cache_control" in wire.removable(CACHED, wire.body(CACHED))
    assert cache_points(CACHED, frozenset({"cache_control"})) == []


MISTRALS = [
    ("api.mistral.ai", "magistral-medium-latest"),
    ("api.mistral.ai", "an-alias-of-ours"),
    ("openrouter.ai", "mistralai/mistral-large-2512"),
    ("vllm", "Mixtral-8x7B-Instruct"),
    ("h", "codestral"),
    ("h", "devstral-small"),
]


@pytest.mark.parametrize(("provider", "model"), MISTRALS)
def test_mistral_gets_ids_of_nine_letters_or_digits(provider: str, model: str) -> None:
    ids = ["call_1", "call_2", "D681PevKs", "functions.refund:0", "toolu_01ABCDEFGHIJKLMNOPQRSTUV"]
    thread = [assistant(*map(asks, ids)), *map(answer, ids)]
    first, *results = wire.messages(thread, (provider, model))
    called = [call["id"] for call in first["tool_calls"]]
    assert all(len(i) == 9 and i.isalnum() and i.isascii() for i in called)
    assert len(set(called)) == len(ids)
    assert called[2] == "D681PevKs"
    assert [result["tool_call_id"] for result in results] == called
    assert wire.messages(thread, (provider, model)) == [first, *results]


@pytest.mark.parametrize(("provider", "model"), MISTRALS)
def test_mistral_reads_an_answer_between_a_result_and_the_next_user(
    provider: str, model: str
) -> None:
    thread = [user("hi"), assistant(asks("a")), answer("a"), user("stop"), user("again")]
    sent = wire.messages(thread, (provider, model))
    assert roles(sent) == ["user", "assistant", "tool", "assistant", "user", "user"]
    assert sent[3] == {"role": "assistant", "content": "(No answer.)"}
    assert wire.messages(thread[:3], (provider, model)) == sent[:3]


def test_others_read_the_next_user_right_after_a_result() -> None:
    thread = [user("hi"), assistant(asks("a")), answer("a"), user("stop")]
    assert roles(wire.messages(thread, ("h", "gpt-5"))) == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "google/gemini-3-pro-preview"])
def test_gemini_reads_a_text_and_the_calls_behind_it_as_one_answer(model: str) -> None:
    thread = [user("hi"), assistant("No."), assistant("Wait.", asks("a")), answer("a")]
    sent = wire.messages(thread, ("h", model))
    assert roles(sent) == ["user", "assistant", "tool"]
    assert sent[1]["content"] == "No.\n\nWait."
    assert [c["id"] for c in sent[1]["tool_calls"]] == ["a"]
    assert len(wire.messages(thread, ("h", "gpt-5"))) == 4


@pytest.mark.parametrize("said", ["", " \n"])
def test_a_result_without_a_text_is_said_to_be_one(said: str) -> None:
    messages = sent(user("hi"), assistant(asks("a")), answer("a", model_output=said))
    assert messages[2]["content"] == "(no output)"


@pytest.mark.parametrize("model", ["gpt-5", "central-1", "astral/llama", "mistress"])
def test_others_get_ids_as_they_are(model: str) -> None:
    first, _ = wire.messages([assistant(asks("call_1")), answer("call_1")], ("h", model))
    assert first["tool_calls"][0]["id"] == "call_1"


HOST = ("host.example", "kimi-k2")
GIVEN = {"a": {"id": "functions.refund:0"}}


def own(*parts: Any, fields: Any = None, calls: Any = None, host: Any = HOST) -> Message:
    """An answer that this provider and model gave."""
    state = ProviderState(provider=host[0], model=host[1], fields=fields or {}, calls=calls or {})
    return assistant(*parts).model_copy(update={"provider_state": state})


def ids_in(messages: list[dict[str, Any]]) -> list[str]:
    called = [c["id"] for m in messages for c in m.get("tool_calls", ())]
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == called
    return called


def test_id_goes_back_as_it_came_to_its_own_model_alone() -> None:
    thread = [own(asks("a"), calls=GIVEN), answer("a")]
    assert ids_in(wire.messages(thread, HOST)) == ["functions.refund:0"]
    assert ids_in(wire.messages(thread, (HOST[0], "another"))) == ["a"]
    assert ids_in(wire.messages(thread, ("another.example", HOST[1]))) == ["a"]


def test_ids_that_a_provider_gives_twice_stay_apart() -> None:
    again = {"b": GIVEN["a"]}
    thread = [own(asks("a"), calls=GIVEN), answer("a"), own(asks("b"), calls=again), answer("b")]
    assert ids_in(wire.messages(thread, HOST)) == ["functions.refund:0", "b"]
    both = GIVEN | again
    thread = [own(asks("a"), asks("b"), calls=both), answer("a"), answer("b")]
    assert ids_in(wire.messages(thread, HOST)) == ["functions.refund:0", "b"]


def test_calls_of_another_api_leave_nothing_of_it_in_this_one() -> None:
    state = {"a": {"id": 7, "extra_content": {"x": 1}, "whatever": 1}}
    first, _ = wire.messages([own(asks("a"), calls=state), answer("a")], HOST)
    assert first["tool_calls"][0].keys() == {"id", "type", "function", "extra_content"}
    assert first["tool_calls"][0]["id"] == "a"


@pytest.mark.parametrize(
    "name",
    [
        "gemini-3-pro-preview",
        "google/gemini-3.1-flash",
        "models/gemini-4-pro",
        "gemini-flash-latest",
    ],
)
def test_calls_of_others_have_a_placeholder_for_gemini_where_it_wants_a_signature(
    name: str,
) -> None:
    thread = [assistant(asks("a"), asks("b")), answer("a"), answer("b"), assistant("So.")]
    first, *_, last = wire.messages(thread, ("h", name))
    signature = {"google": {"thought_signature": "skip_thought_signature_validator"}}
    assert [c.get("extra_content") for c in first["tool_calls"]] == [signature, None]
    assert last == {"role": "assistant", "content": "So."}
    left_out = wire.messages(thread, ("h", name), frozenset({"extra_content"}))
    assert "extra_content" not in json.dumps(left_out)


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "closed": True}


def test_thoughts_of_a_content_stand_before_the_text_for_their_own_model_alone() -> None:
    thread = [own("So.", fields={"thinking": [THOUGHT]})]
    text = {"type": "text", "text": "So."}
    assert wire.messages(thread, HOST)[0]["content"] == [THOUGHT, text]
    assert wire.messages(thread, ("h", HOST[1]))[0]["content"] == "So."
    assert wire.messages(thread, HOST, frozenset({"thinking"}))[0]["content"] == "So."
    thread = [own(asks("a"), fields={"thinking": [THOUGHT]}), answer("a")]
    assert wire.messages(thread, HOST)[0]["content"] == [THOUGHT]
    assert wire.messages(thread, HOST, frozenset({"thinking"}))[0]["content"] is None


def test_model_that_refuses_thoughts_in_a_content_can_do_without() -> None:
    prompt = Prompt(model=HOST[1], messages=(own("So.", fields={"thinking": [THOUGHT]}),))
    assert "thinking" in wire.removable(prompt, wire.body(prompt, provider=HOST[0]))
    assert "thinking" not in wire.removable(prompt, wire.body(prompt, provider="h"))


def test_text_with_thoughts_joins_the_calls_behind_it_for_gemini() -> None:
    host = ("h", "gemini-3-pro")
    said = own("One.", fields={"thinking": [THOUGHT]}, host=host)
    calling = own("Two.", asks("a"), fields={"thinking": [THOUGHT]}, host=host)
    assert wire.messages([said, calling, answer("a")], host)[0]["content"] == "One.\n\nTwo."


def test_geminis_own_signature_stays() -> None:
    host = ("h", "gemini-3-pro")
    signed = {"a": {"extra_content": {"google": {"thought_signature": "own"}}}}
    first, _ = wire.messages([own(asks("a"), calls=signed, host=host), answer("a")], host)
    assert first["tool_calls"][0]["extra_content"]["google"]["thought_signature"] == "own"


@pytest.mark.parametrize("name", ["gemini-2.5-pro", "google/gemini-1.5-flash", "gpt-5", "gemma-3"])
def test_others_get_no_signature(name: str) -> None:
    assert "extra_content" not in json.dumps(
        wire.messages([assistant(asks("a")), answer("a")], ("h", name))
    )


@pytest.mark.parametrize("name", ["deepseek-v4-pro", "deepseek/deepseek-v4-flash"])
def test_answers_of_others_have_a_place_for_thoughts_for_deepseek(name: str) -> None:
    host = ("h", name)
    thread = [
        user("hi"),
        assistant("So.", asks("a")),
        answer("a"),
        assistant("Done."),
        own("Mine.", fields={"reasoning_content": "hm"}, host=host),
        own("Mine.", fields={"reasoning_details": [{"text": "hm"}]}, host=host),
    ]
    said = [m for m in wire.messages(thread, host) if m["role"] == "assistant"]
    assert [m.get("reasoning_content") for m in said] == [" ", " ", "hm", None]


@pytest.mark.parametrize("name", ["deepseek-chat", "deepseek-reasoner", "deepseek-v3.2", "glm-5"])
def test_others_get_no_thoughts(name: str) -> None:
    assert sent_to(name)[1] == {"role": "assistant", "content": "Done."}


def sent_to(model: str) -> list[dict[str, Any]]:
    return wire.messages([user("hi"), assistant("Done.")], ("h", model))


@pytest.mark.parametrize(
    ("name", "safe"), [("functions.refund", "functions_refund"), ("", "unnamed")]
)
def test_a_made_up_name_is_sent_back_in_a_form_that_is_accepted(name: str, safe: str) -> None:
    assert (
        sent(assistant(asks("a", name=name)), answer("a"))[0]["tool_calls"][0]["function"]["name"]
        == safe
    )


@pytest.mark.parametrize("args", ['{"amount": 4', [1], 3])
def test_arguments_that_are_no_object_go_out_as_one(args: Any) -> None:
    function = sent(assistant(asks("a", args)), answer("a"))[0]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {"invalid_arguments": args}


def test_the_order_of_keys_in_the_store_changes_no_byte() -> None:
    one = sent(assistant(asks("a", {"x": 1, "b": {"d": 1, "c": 2}})), answer("a"))
    other = sent(assistant(asks("a", {"b": {"c": 2, "d": 1}, "x": 1})), answer("a"))
    assert one == other


def test_a_tool_message_says_what_the_model_saw_the_first_time() -> None:
    assert sent(assistant(asks("a")), answer("a", {"n": 1}, "short"))[1]["content"] == "short"
    assert sent(assistant(asks("a")), answer("a", {"n": "ü"}))[1]["content"] == '{"n": "ü"}'


def test_a_lone_surrogate_does_not_stop_a_request() -> None:
    encoded = wire.encode(wire.body(prompt(user("a\ud83d")), wire.OPTIONAL))
    assert json.loads(encoded)["messages"][0]["content"] == "a?"


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (
            FilePart(url="https://x.test/a", mime_type="image/png"),
            {"type": "image_url", "image_url": {"url": "https://x.test/a"}},
        ),
        (
            FilePart(url="data:image/png;base64,AA", name="a.png"),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        ),
        (
            FilePart(url="data:application/pdf;base64,AA", name="a.pdf"),
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
            },
        ),
        (
            FilePart(url="data:audio/mpeg;base64,AA", name="a.mp3"),
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
        ),
        (
            FilePart(url="data:audio/x-wav;base64,AA", name="a.wav"),
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        ),
        (
            FilePart(url="data:video/mp4;base64,AA", name="a.mp4"),
            {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AA"}},
        ),
    ],
)
def test_files_that_a_model_takes_are_parts_of_their_own(
    file: FilePart, part: dict[str, Any]
) -> None:
    assert sent(user(file, "look"))[0]["content"] == [part, {"type": "text", "text": "look"}]


def test_any_other_file_is_a_note_with_name_and_type() -> None:
    file = FilePart(file_id="f1", name="a.pdf", mime_type="application/pdf")
    assert sent(user(file, "read"))[0]["content"] == "[file: a.pdf, application/pdf]\n\nread"
    linked = FilePart(url="https://x.test/a.pdf", mime_type="application/pdf")
    assert "https://x.test/a.pdf" in sent(user(linked))[0]["content"]
    plain = FilePart(url="http://x.test/a.png", mime_type="image/png")
    assert isinstance(sent(user(plain))[0]["content"], str)


def prompt(*thread: Message, **more: Any) -> Prompt:
    return Prompt(**{"model": "openai/gpt-5-mini", "messages": thread, **more})


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai/gpt-5-mini", "gpt-5-mini"),
        ("openai/openai/gpt-5", "openai/gpt-5"),
        ("anthropic/claude", "anthropic/claude"),
    ],
)
def test_a_leading_openai_is_cut_once(model: str, name: str) -> None:
    assert wire.body(prompt(model=model), wire.OPTIONAL)["model"] == name


def test_a_plain_request_has_no_field_that_was_not_asked_for() -> None:
    body = wire.body(prompt(user("hi"), cache_key="k"), wire.OPTIONAL)
    assert body == {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "hi"}]}


def test_a_full_request_says_everything() -> None:
    schema = {"type": "object"}
    full = prompt(
        user("hi"),
        system="Be kind.",
        tools=(
            ToolSpec(name="a", description="A", parameters=schema, strict=True),
            ToolSpec(name="b", description="B", parameters=schema),
        ),
        output=OutputSpec(name="My Out", json_schema=schema, strict=True),
        stream=True,
        cache_key="k",
    )
    body = wire.body(full)
    assert body["messages"][0] == {"role": "system", "content": "Be kind."}
    assert [t["function"].get("strict") for t in body["tools"]] == [True, None]
    assert body["response_format"]["json_schema"]["name"] == "My_Out"
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["prompt_cache_key"] == "k"


LONG = "Look up an order. " + "It knows what was sent, when, and by whom. " * 40


def spec_of(description: str, parameters: dict[str, Any]) -> ToolSpec:
    return ToolSpec(name="look", description=description, parameters=parameters)


@pytest.mark.parametrize("text", [LONG, LONG.replace(" ", "\n"), "x" * 3000, "é" * 1025])
@pytest.mark.parametrize("api", ["chat completions", "responses"])
def test_a_description_too_long_for_openai_goes_on_in_the_parameters(text: str, api: str) -> None:
    prompt = Prompt(
        model="m", messages=(user("hi"),), tools=(spec_of(text, {"description": "own"}),)
    )
    body = (
        wire.body(prompt) if api == "chat completions" else responses_body(prompt, frozenset(), "")
    )
    (sent_tool,) = body["tools"]
    function = sent_tool.get("function", sent_tool)
    first, rest = function["description"], function["parameters"]["description"]
    assert len(first) <= 1024
    assert first.endswith(" ...")
    assert rest.startswith("...")
    assert rest.endswith("\n\nown")
    assert first.removesuffix(" ...") + rest[3:].removesuffix("\n\nown") == text
    assert first.removesuffix(" ...")[-1] in ".,xé" or text[len(first) - 4].isspace()


@pytest.mark.parametrize("text", ["", "Look.", "x" * 1024])
def test_a_description_that_openai_takes_stays_as_it_is(text: str) -> None:
    spec = spec_of(text, {"type": "object"})
    assert wire.described(spec) == {"description": text, "parameters": spec.parameters}


def test_the_parameters_of_a_tool_are_not_changed_by_sending_them() -> None:
    spec = spec_of(LONG, {"type": "object"})
    wire.described(spec)
    assert spec.parameters == {"type": "object"}


def test_the_headers_name_the_task_and_the_run() -> None:
    assert wire.headers(prompt(task="title")) == {"X-Layover-Task": "title"}
    assert wire.headers(prompt(run_id="run_1"))["X-Layover-Run"] == "run_1"
