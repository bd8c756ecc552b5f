"""Converse as botocore knows it: its own model of the service checks each request, and its client reads the
same answers."""

import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.config import Config
from botocore.model import OperationModel, Shape
from botocore.serialize import create_serializer
from botocore.session import get_session
from botocore.validate import ParamValidator

from layover.adapters.aws.services import AwsServices
from layover.errors import ModelError
from layover.plugins.models.bedrock import faults
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.plugins.models.bedrock.content import REASONING
from layover.values.message import (
    FilePart,
    Message,
    Part,
    ProviderState,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.prompt import OutputSpec, Prompt, Reply, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from support.providers import converse
from support.providers.claude import problem
from support.providers.openai import FakeOpenAI, Raw, Request, Response
from support.wire_messages import message

CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
OPUS = "global.anthropic.claude-opus-4-6-v1"
NOVA, NOVA_2 = "amazon.nova-pro-v1:0", "us.amazon.nova-2-lite-v1:0"
LLAMA = "us.meta.llama3-3-70b-instruct-v1:0"
MODELS = [CLAUDE, OPUS, NOVA, NOVA_2, LLAMA, "mistral.mistral-large-2402-v1:0"]
BYTES = b"\x89PNG \xff\x00"
DATA = b64encode(BYTES).decode()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def called(model: str) -> list[Message]:
    """A step with two calls, one of them failed, and thoughts that the model wants back."""
    kept = {"at": 0, "reasoningText": {"text": "hm", "signature": "sig=="}}
    redacted = {"at": 1, "redactedContent": DATA}
    state = ProviderState(provider="127.0.0.1", model=model, fields={REASONING: [kept, redacted]})
    calls = [
        ToolCallPart(tool_call_id=f"c {n}", tool_name="look up", args={"b": n, "a": None})
        for n in range(2)
    ]
    return [
        message(Role.ASSISTANT, TextPart(text="Both. "), *calls, provider_state=state),
        message(
            Role.TOOL,
            ToolResultPart(tool_call_id="c 0", tool_name="look up", result={"x": 1.5}),
            model_output="seen",
        ),
        message(
            Role.TOOL,
            ToolResultPart(tool_call_id="c 1", tool_name="look up", result="", is_error=True),
        ),
    ]


def files() -> list[Part]:
    kinds = ["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/csv"]
    kinds += ["application/msword", "text/html", "text/plain", "text/markdown", "video/mp4"]
    data: list[Part] = [
        FilePart(url=f"data:{kind};base64,{DATA}", name="my  report_1.pdf", mime_type=kind)
        for kind in kinds
    ]
    return [*data, FilePart(url="https://a.example/b.png", mime_type="image/png")]


def prompts(model: str) -> Iterator[tuple[str, Prompt]]:
    """Every form that a request can take."""
    look = ToolSpec(name="look up", description="", parameters={"type": "object"})
    output = OutputSpec(name="Ticket", json_schema={"type": "object", "properties": {}})
    hello = message(Role.USER, TextPart(text="Grüße 😀"))
    bare = Prompt(model=f"bedrock/{model}", messages=(hello,))
    cached = {"system": "You help.", "cache_key": "k", "run_id": "run_2"}
    full = bare.model_copy(update={**cached, "tools": (look,)})
    history = (hello, *called(model), message(Role.ASSISTANT, TextPart(text="Seen.")))
    again = message(Role.USER, TextPart(text="And now?"), run="run_2")
    for level in ("none", "low", "high"):
        thinks = {"settings": ModelSettings(reasoning=level, max_tokens=6000)}
        yield f"reasoning {level}", full.model_copy(update=thinks)
        waits = {**thinks, "messages": (hello, *called(model))}
        yield f"reasoning {level} with calls", full.model_copy(update=waits)
        yield f"reasoning {level} with output", bare.model_copy(update={**thinks, "output": output})
    settings = ModelSettings(
        max_tokens=9,
        temperature=0.5,
        top_p=0.9,
        stop=("a", "b"),
        extra={"serviceTier": {"type": "flex"}},
    )
    for choice in (None, "auto", "none", "required", "look up"):
        with_choice = ModelSettings(tool_choice=choice)
        yield f"choice {choice}", full.model_copy(update={"settings": with_choice})
    yield "bare", bare
    yield "no messages", bare.model_copy(update={"messages": ()})
    yield "settings", full.model_copy(update={"settings": settings})
    yield "one stop", bare.model_copy(update={"settings": ModelSettings(stop="x", cache="off")})
    yield "files", bare.model_copy(update={"messages": (message(Role.USER, *files()),)})
    yield "output", bare.model_copy(update={"output": output})
    yield "output beside tools", full.model_copy(update={"output": output})
    yield "history", full.model_copy(update={"messages": (*history, again)})
    yield "tools of the past", bare.model_copy(update={"messages": history})
    yield "only the assistant", bare.model_copy(update={"messages": history[1:2]})


@cache
def operation(name: str) -> OperationModel:
    return get_session().get_service_model("bedrock-runtime").operation_model(name)


def structure(found: Any) -> Any:
    """Botocore's types say that an operation may have no shape."""
    assert found is not None
    return found


def params(value: Any, shape: Shape) -> Any:
    """The JSON of a request as botocore's client is given it."""
    if shape.type_name == "blob":
        return b64decode(value)
    if shape.type_name == "structure" and not getattr(shape, "is_document_type", False):
        members = shape.members  # type: ignore[attr-defined]
        assert value.keys() <= members.keys()
        return {name: params(each, members[name]) for name, each in value.items()}
    if shape.type_name == "list":
        return [params(each, shape.member) for each in value]  # type: ignore[attr-defined]
    return value


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as fake:
        yield fake


@pytest.fixture
def address(server: FakeOpenAI) -> str:
    return server.base_url.removesuffix("/v1")


@pytest.fixture
async def ours(server: FakeOpenAI) -> AsyncIterator[BedrockChat]:
    async def at_once(_: float) -> None:
        return

    chat = BedrockChat(AwsServices(converse.variables_of(server.base_url)), sleep=at_once)
    yield chat
    await chat.aclose()


@pytest.fixture
def theirs(address: str) -> BaseClient:
    once = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=20)
    return get_session().create_client(
        "bedrock-runtime",
        region_name="eu-central-1",
        endpoint_url=address,
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=once,
    )


@pytest.mark.parametrize("model", MODELS)
async def test_request_is_what_botocore_would_send(
    server: FakeOpenAI, ours: BedrockChat, model: str
) -> None:
    server.respond_with(lambda _: Response("fine"))
    for name, prompt in prompts(model):
        server.requests.clear()
        await ours.complete(prompt)
        await ours.complete(prompt.model_copy(update={"stream": True}))
        assert problem(server.requests[0].body) is None, name
        for request, asked in zip(server.requests, ("Converse", "ConverseStream"), strict=True):
            known = operation(asked)
            given = {"modelId": model, **params(request.body, structure(known.input_shape))}
            report = ParamValidator().validate(given, structure(known.input_shape))
            assert not report.has_errors(), f"{name}: {report.generate_report()}"
            serializer = create_serializer(known.service_model.metadata["protocol"])
            sent = serializer.serialize_to_request(given, known)
            assert (sent["method"], sent["url_path"]) == ("POST", request.path)
            assert json.loads(sent["body"]) == request.body, name


def read(client: Any, request: Request) -> Reply:
    """Return botocore's reading of the answer to the same request."""
    streams = request.path.endswith("-stream")
    model = operation("ConverseStream" if streams else "Converse")
    given = {"modelId": CLAUDE, **params(request.body, structure(model.input_shape))}
    if not streams:
        answer = client.converse(**given)
        return _reply(answer["output"]["message"]["content"], answer["stopReason"], answer["usage"])
    blocks: dict[int, Any] = {}
    stop, usage = "", {}
    for event in client.converse_stream(**given)["stream"]:
        ((name, payload),) = event.items()
        at = payload.get("contentBlockIndex")
        if name == "contentBlockStart":
            blocks[at] = {"toolUse": {**payload["start"]["toolUse"], "input": ""}}
        elif name == "contentBlockDelta":
            _grow(blocks, at, payload["delta"])
        elif name == "messageStop":
            stop = payload["stopReason"]
        elif name == "metadata":
            usage = payload["usage"]
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
    return _reply(list(blocks.values()), stop, usage)


def _grow(blocks: dict[int, Any], at: int, delta: Any) -> None:
    if "text" in delta:
        blocks.setdefault(at, {"text": ""})["text"] += delta["text"]
    elif "toolUse" in delta:
        blocks[at]["toolUse"]["input"] += delta["toolUse"]["input"]
    else:
        ((name, piece),) = delta["reasoningContent"].items()
        block = blocks.setdefault(at, {"reasoningContent": {}})["reasoningContent"]
        if name == "redactedContent":
            block[name] = block.get(name, b"") + piece
        else:
            text = block.setdefault("reasoningText", {})
            text[name] = text.get(name, "") + piece


def _reply(content: list[Any], stop: str, usage: Any) -> Reply:
    thoughts = [b["reasoningContent"] for b in content if "reasoningContent" in b]
    cached = usage.get("cacheReadInputTokens", 0), usage.get("cacheWriteInputTokens", 0)
    counted = {
        "input_tokens": usage["inputTokens"] + sum(cached),
        "output_tokens": usage["outputTokens"],
        "cached_input_tokens": cached[0],
        "cache_write_input_tokens": cached[1],
    }
    calls = [b["toolUse"] for b in content if "toolUse" in b]
    return Reply.model_validate(
        {
            "text": "".join(b.get("text", "") for b in content),
            "reasoning": "".join(t.get("reasoningText", {}).get("text", "") for t in thoughts),
            "calls": [
                {"id": c["toolUseId"], "name": c["name"], "args": json.dumps(c["input"])}
                for c in calls
            ],
            "finish_reason": "tool-calls" if calls else "stop",
            "usage": counted,
            "state": {"reasoningContent": [_plain(t) for t in thoughts]} if thoughts else {},
        }
    )


def _plain(thought: Any) -> Any:
    if "redactedContent" in thought:
        return {"redactedContent": b64encode(thought["redactedContent"]).decode()}
    return thought


def comparable(reply: Reply) -> Any:
    """Without the place of its thoughts, which botocore has no word for."""
    shown = reply.model_dump(exclude={"model", "provider", "asked_model"})
    for call in shown["calls"]:
        call["args"] = json.loads(call["args"])
    for thought in shown["state"].get(REASONING, ()):
        thought.pop("at", None)
    return shown


ANSWERS: dict[str, Raw] = {
    "text": converse.message({"text": "Grüße "}, {"text": "😀"}, cacheReadInputTokens=7),
    "thoughts": converse.message(
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s=="}}},
        {"reasoningContent": {"redactedContent": DATA}},
        {"text": "So."},
        {"toolUse": {"toolUseId": "c_1", "name": "look", "input": {"n": [1, None, "ä"]}}},
        {"toolUse": {"toolUseId": "c_2", "name": "look", "input": {}}},
        reason="tool_use",
        cacheReadInputTokens=7,
        cacheWriteInputTokens=3,
    ),
    "stream": converse.stream(
        converse.begin(),
        converse.text(0, "Grüße "),
        converse.text(0, "😀"),
        converse.end(0),
        converse.stop(),
        converse.metadata(cacheWriteInputTokens=9),
    ),
    "stream of thoughts": converse.stream(
        converse.begin(),
        converse.thought(0, text="h"),
        converse.thought(0, text="m"),
        converse.thought(0, signature="s=="),
        converse.end(0),
        converse.thought(1, redactedContent=DATA),
        converse.end(1),
        converse.text(2, "So."),
        converse.end(2),
        *converse.call(3, "c_1", "look", '{"n": ', '[1, null, "ä"]}'),
        *converse.call(4, "c_2", "look"),
        converse.stop("tool_use"),
        converse.metadata(),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_answer_is_read_as_botocore_reads_it(
    server: FakeOpenAI, ours: BedrockChat, theirs: BaseClient, name: str
) -> None:
    server.script([ANSWERS[name], ANSWERS[name]])
    hello = message(Role.USER, TextPart(text="hi"))
    prompt = Prompt(model=CLAUDE, messages=(hello,), stream=name.startswith("stream"))
    reply = await ours.complete(prompt)
    assert comparable(reply) == comparable(read(theirs, server.requests[0]))


def test_every_error_that_botocore_knows_is_known() -> None:
    stream = structure(operation("ConverseStream").output_shape).members["stream"]
    named = {
        e.name for name in ("Converse", "ConverseStream") for e in operation(name).error_shapes
    }
    named |= {each.name for each in stream.members.values() if each.metadata.get("exception")}
    assert named <= faults._STATUSES.keys()


def test_every_reason_to_stop_that_botocore_knows_is_read() -> None:
    shape = structure(operation("Converse").output_shape).members["stopReason"]
    told = {
        "max_tokens",
        "model_context_window_exceeded",
        "content_filtered",
        "guardrail_intervened",
    }
    by_the_calls = {"end_turn", "stop_sequence", "tool_use"}
    malformed = {"malformed_model_output", "malformed_tool_use"}
    assert set(shape.enum) == told | by_the_calls | malformed


@pytest.mark.parametrize(
    "raw",
    [
        converse.refuse(400, "ValidationException", "The provided model identifier is invalid."),
        converse.refuse(403, "AccessDeniedException", "You don't have access to the model."),
        converse.refuse(404, "ResourceNotFoundException", "no such model"),
    ],
    ids=["400", "403", "404"],
)
async def test_refusal_has_the_message_and_the_status_that_botocore_has(
    server: FakeOpenAI, ours: BedrockChat, theirs: Any, raw: Raw
) -> None:
    server.script([raw, raw])
    hello = message(Role.USER, TextPart(text="hi"))
    with pytest.raises(ModelError) as caught:
        await ours.complete(Prompt(model=CLAUDE, messages=(hello,)))
    with pytest.raises(theirs.exceptions.ClientError) as known:
        read(theirs, server.requests[0])
    error, about = known.value.response["Error"], known.value.response["ResponseMetadata"]
    assert caught.value.message.startswith(error["Message"])
    assert caught.value.status == about["HTTPStatusCode"]
