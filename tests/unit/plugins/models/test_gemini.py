"""Gemini by its endpoint for OpenAI's clients: what differs there, in requests and in replies."""

import json
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from layover import ModelSettings, tool
from layover.errors import INVALID_RESPONSE, ContentFiltered, ModelError
from layover.ids import SequentialIds
from layover.plugins.models import wire
from layover.plugins.models.faults import ProviderFault
from layover.plugins.models.google_schema import google_parameters, google_schema
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.providers import Providers, make_model
from layover.plugins.models.refusals import refused_format, refused_settings
from layover.plugins.models.replies import Assembly
from layover.values.deployment.environment import Environment
from layover.values.message import Message, ProviderState, Role, ToolCallPart, ToolResultPart
from layover.values.prompt import Delta, OutputSpec, Prompt, Reply, ToolSpec
from support.providers.openai import FakeOpenAI, document, fail, say, stream

HOST = "generativelanguage.googleapis.com"
MODEL = "gemini-3-pro-preview"
PROMPT = Prompt(model=f"openai/{MODEL}")


def assembled(*chunks: Any, tools: tuple[str, ...] = ("look",)) -> tuple[Reply, list[Delta]]:
    assembly = Assembly(SequentialIds(), MODEL, HOST, tools)
    deltas = [delta for chunk in chunks for delta in assembly.add(chunk)]
    return assembly.reply(), deltas


def call(args: Any, signature: str | None = None, **more: Any) -> dict[str, Any]:
    extra = {"extra_content": {"google": {"thought_signature": signature}}} if signature else {}
    function = {"name": "look", "arguments": json.dumps(args)}
    return {"function": function, "type": "function", **extra, **more}


def chunk(*calls: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {"role": "assistant", "tool_calls": list(calls)} if calls else {}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def plain(*calls: Any, finish: str = "tool_calls", **message: Any) -> dict[str, Any]:
    message = {"role": "assistant", **({"tool_calls": list(calls)} if calls else {}), **message}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}


# Refusals, filters and broken calls


@pytest.mark.parametrize(
    "finish",
    [
        "content_filter",
        "content_filter: SAFETY",
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
    ],
)
@pytest.mark.parametrize("message", [{}, {"message": {"role": "assistant"}}, {"delta": {}}])
def test_a_filter_that_leaves_nothing_is_how_the_answer_ended(
    finish: str, message: dict[str, Any]
) -> None:
    reply, _ = assembled({"choices": [{"index": 0, "finish_reason": finish, **message}]})
    assert (reply.text, reply.finish_reason) == ("", "content-filter")


@pytest.mark.parametrize("name", ["prompt_feedback", "promptFeedback"])
@pytest.mark.parametrize("choices", [{}, {"choices": []}, {"choices": None}])
def test_a_prompt_that_is_blocked_is_a_filters_refusal(name: str, choices: dict[str, Any]) -> None:
    key = "block_reason" if "_" in name else "blockReason"
    with pytest.raises(ProviderFault) as caught:
        assembled({name: {key: "PROHIBITED_CONTENT"}, **choices})
    assert isinstance(caught.value.error, ContentFiltered)
    assert "blocked the prompt (PROHIBITED_CONTENT)" in caught.value.error.message
    assert not caught.value.is_transient


def test_an_answer_without_choices_says_so() -> None:
    with pytest.raises(ProviderFault, match="without any choices"):
        assembled({"choices": [], "usage": {"prompt_tokens": 3, "total_tokens": 3}})


@pytest.mark.parametrize(
    "finish",
    ["function_call_filter: MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"],
)
async def test_a_call_that_it_could_not_read_is_asked_for_again(
    server: FakeOpenAI, finish: str
) -> None:
    async def at_once(_: float) -> None:
        return

    broken = document({"choices": [{"index": 0, "message": {}, "finish_reason": finish}]})
    server.script([broken, say("fine"), *[broken] * 4])
    chat = OpenAIChat("key", server.base_url, sleep=at_once)
    assert (await chat.complete(PROMPT)).text == "fine"
    with pytest.raises(ModelError, match="could not read a call") as caught:
        await chat.complete(PROMPT)
    assert caught.value.type == INVALID_RESPONSE
    await chat.aclose()


@pytest.mark.parametrize(
    ("message", "settings", "left_out"),
    [
        (
            'Invalid value at "reasoning_effort" (TYPE_ENUM), "xhigh"',
            {"reasoning": "xhigh"},
            "reasoning_effort",
        ),
        (
            "Budget 0 is invalid. This model only works in thinking mode.",
            {"reasoning": "none"},
            "reasoning_effort",
        ),
        (
            'Invalid JSON payload received. Unknown name "seed": Cannot find field.',
            {"seed": 1},
            "seed",
        ),
    ],
)
def test_a_setting_that_it_refuses_is_left_out(
    message: str, settings: dict[str, Any], left_out: str
) -> None:
    prompt = PROMPT.model_copy(update={"settings": ModelSettings(**settings)})
    fields = wire.removable(prompt, wire.body(prompt, provider=HOST))
    assert refused_settings(ModelError(message, status=400), fields) == {left_out}


@pytest.mark.parametrize(
    "message",
    [
        "Function calling with a response mime type: 'application/json' is unsupported",
        "Unknown name \"$defs\" at 'generation_config.response_schema': Cannot find field.",
    ],
)
def test_a_format_that_it_refuses_is_told_in_words(message: str) -> None:
    assert refused_format(ModelError(message, status=400), frozenset()) == {wire.JSON_SCHEMA}


# Signatures of thoughts


def thread(reply: Reply) -> list[Message]:
    """The messages of a step as they are stored, with its results."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
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
    step = Message(
        id="a",
        thread_id="t",
        role=Role.ASSISTANT,
        content=tuple(calls),
        created_at=at,
        provider_state=state,
    )
    results = [
        Message(
            id=f"r{n}",
            thread_id="t",
            role=Role.TOOL,
            created_at=at,
            content=(ToolResultPart(tool_call_id=c.id, tool_name=c.name, result="ok"),),
        )
        for n, c in enumerate(reply.calls)
    ]
    return [step, *results]


def sent(reply: Reply, host: str = HOST) -> list[dict[str, Any]]:
    """The calls of a step as the next request has them."""
    prompt = PROMPT.model_copy(update={"messages": tuple(thread(reply))})
    body = wire.body(prompt, provider=host)
    calls: list[dict[str, Any]] = body["messages"][0]["tool_calls"]
    return calls


SIGNATURE = "EjQKMgHfs+/=" * 40


@pytest.mark.parametrize(
    "chunks",
    [
        [plain(call({"n": 1}, SIGNATURE, id="f1"), call({"n": 2}, id="f2"))],
        [
            chunk(call({"n": 1}, SIGNATURE, id="f1")),
            chunk(call({"n": 2}, id="f2")),
            chunk(finish="stop"),
        ],
        [
            chunk(call({"n": 1}, SIGNATURE, id="f1", index=0)),
            chunk(call({"n": 2}, id="f2", index=0), finish="tool_calls"),
        ],
        [chunk(call({"n": 1}, SIGNATURE), call({"n": 2})), chunk(finish="stop")],
        [
            chunk(call({"n": 1}, SIGNATURE, id="", index=0)),
            chunk(call({"n": 2}, id="", index=0), finish="stop"),
        ],
    ],
    ids=["document", "no index", "index 0 each", "no ids", "empty ids"],
)
def test_parallel_calls_stay_apart_and_the_first_keeps_its_signature(chunks: list[Any]) -> None:
    reply, _ = assembled(*chunks)
    assert [json.loads(c.args) for c in reply.calls] == [{"n": 1}, {"n": 2}]
    assert len({c.id for c in reply.calls}) == 2
    assert all(c.id for c in reply.calls)
    assert reply.finish_reason == "tool-calls"
    signatures = [c.get("extra_content") for c in sent(reply)]
    assert signatures == [{"google": {"thought_signature": SIGNATURE}}, None]


def test_a_signature_goes_to_nobody_else() -> None:
    reply, _ = assembled(plain(call({"n": 1}, SIGNATURE, id="f1")))
    assert SIGNATURE not in json.dumps(sent(reply, "openrouter.ai"))


def test_a_whole_call_in_one_piece_is_told_once() -> None:
    _, deltas = assembled(chunk(call({"n": 1}, id="f1", index=0)), chunk(finish="stop"))
    assert [(d.kind, d.text, d.tool_name) for d in deltas] == [("tool-call", '{"n": 1}', "look")]


# Schemas


class Size(BaseModel):
    """How large it is."""

    width: int = Field(gt=0, lt=10)
    unit: Literal["mm", "cm"] = "mm"


class Node(BaseModel):
    """A part that has parts."""

    parts: list["Node"] = []


def parameters(function: Any) -> dict[str, Any]:
    schema: dict[str, Any] = tool(function).parameters
    return schema


KNOWN = {
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
}
"""Fields of Google's `Schema`."""


def check(schema: Any, *, alone: bool = False) -> None:
    """Fail for what Gemini refuses of a schema."""
    assert schema.keys() <= KNOWN, schema
    if "anyOf" in schema:
        assert schema.keys() == {"anyOf"}
        for each in schema["anyOf"]:
            check(each)
        return
    assert isinstance(schema["type"], str)
    assert schema["type"] in ("string", "number", "integer", "boolean", "array", "object")
    assert all(isinstance(each, str) for each in schema.get("enum", ()))
    assert schema.get("enum") is None or schema["type"] == "string"
    assert schema.get("format") in (None, "enum", "date-time", "float", "double", "int32", "int64")
    assert {*schema.get("required", ())} <= {*schema.get("properties", {})}
    for each in schema.get("properties", {}).values():
        check(each)
    if schema["type"] == "array":
        check(schema["items"])


def every_kind(
    size: Size,
    sizes: dict[str, Size],
    when: datetime,
    level: Literal[1, 2],
    node: Node,
    pair: tuple[int, str],
    anything: Any,
    some: list[Any],
    maybe: int | None = None,
    either: int | str | None = None,
    many: set[str] = set(),  # noqa: B006
) -> str:
    """Every kind of argument."""
    return ""


def test_every_kind_of_argument_is_in_the_subset() -> None:
    schema = google_parameters(parameters(every_kind))
    assert schema is not None
    check(schema)
    assert {*schema["properties"]} == {*parameters(every_kind)["properties"]}


@pytest.mark.parametrize(
    ("schema", "rewritten"),
    [
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": [1, 2]}, {"type": "integer", "description": "One of: 1, 2"}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer", "nullable": True}),
        (
            {"oneOf": [{"type": "integer"}, {"type": "string"}], "description": "It."},
            {
                "anyOf": [
                    {"type": "integer", "description": "It."},
                    {"type": "string", "description": "It."},
                ]
            },
        ),
        (
            {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 2},
            {"type": "integer", "minimum": 1},
        ),
        ({"type": "string", "format": "email"}, {"type": "string"}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        (
            {"$defs": {"A": {"type": "boolean"}}, "$ref": "#/$defs/A", "description": "Mine."},
            {"type": "boolean", "description": "Mine."},
        ),
        (
            {"allOf": [{"minLength": 1}, {"maxLength": 3}], "type": "string"},
            {"type": "string", "minLength": 1, "maxLength": 3},
        ),
        ({}, {"type": "string"}),
        (True, {"type": "string"}),
        ({"type": "object", "additionalProperties": False, "$schema": "x"}, {"type": "object"}),
    ],
)
def test_what_it_refuses_is_rewritten_or_dropped(schema: Any, rewritten: Any) -> None:
    result = google_schema(schema)
    assert result == rewritten
    check(result)


def test_a_tool_without_arguments_has_no_parameters() -> None:
    spec = ToolSpec(name="now", description="Now.", parameters={"type": "object", "properties": {}})
    prompt = PROMPT.model_copy(update={"tools": (spec,)})
    (sent_tool,) = wire.body(prompt, provider=HOST)["tools"]
    assert sent_tool == {"type": "function", "function": {"name": "now", "description": "Now."}}


def test_tools_and_outputs_are_in_the_subset_at_google_alone() -> None:
    schema = parameters(every_kind)
    spec = ToolSpec(name="a", description="A.", parameters=schema, strict=True)
    output = OutputSpec(name="o", json_schema=Node.model_json_schema(), strict=True)
    prompt = PROMPT.model_copy(update={"tools": (spec,), "output": output})
    google, other = (wire.body(prompt, provider=host) for host in (HOST, "openrouter.ai"))
    assert other["tools"][0]["function"]["parameters"] == schema
    assert other["response_format"]["json_schema"]["schema"] == output.json_schema
    function = google["tools"][0]["function"]
    check(function["parameters"])
    check(google["response_format"]["json_schema"]["schema"])
    assert "strict" not in function


# The provider


def test_a_key_is_enough_for_names_that_begin_so() -> None:
    variables = {"GEMINI_API_KEY": "AIza"}
    model = make_model(Environment.model_validate(variables), lambda: None, variables, str, _no_aws)
    assert isinstance(model, Providers)
    chat, name = model.chat_of("gemini/gemini-3-pro-preview")
    assert isinstance(chat, OpenAIChat)
    assert name == "openai/gemini-3-pro-preview"
    assert chat.base_url == "https://generativelanguage.googleapis.com/v1beta/openai"


async def test_it_is_asked_at_its_path_with_its_key(server: FakeOpenAI) -> None:
    url = server.base_url.removesuffix("/v1") + "/v1beta/openai/"
    variables = {"GEMINI_API_KEY": "AIza", "GEMINI_BASE_URL": url}
    server.script(
        [stream({"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]})]
    )
    model = make_model(Environment.model_validate(variables), lambda: None, variables, str, _no_aws)
    settings = ModelSettings(reasoning="low")
    prompt = Prompt(model=f"gemini/{MODEL}", stream=True, settings=settings)
    assert (await model.complete(prompt)).text == "Hi"
    (request,) = server.requests
    assert request.path == "/v1beta/openai/chat/completions"
    assert request.headers["authorization"] == "Bearer AIza"
    assert (request.body["model"], request.body["reasoning_effort"]) == (MODEL, "low")
    await model.aclose()


async def test_its_list_of_errors_is_read(server: FakeOpenAI) -> None:
    body = [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}]
    server.script([document(body, status=400), fail(401, "no")])
    chat = OpenAIChat("key", server.base_url)
    with pytest.raises(ModelError, match="API key not valid") as caught:
        await chat.complete(PROMPT)
    assert caught.value.status == 400
    await chat.aclose()


def _no_aws() -> Any:
    raise AssertionError("no AWS here")
