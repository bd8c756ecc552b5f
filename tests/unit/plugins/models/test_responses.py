"""OpenAI's Responses API: what is asked, what is answered, and what goes wrong on the way."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter

from layover import web_search
from layover.errors import ContextLengthExceeded, ModelError
from layover.plugins.models.call_pieces import CUT
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.responses.request import OUTPUT
from layover.values.message import (
    DataPart,
    FilePart,
    Message,
    Part,
    ProviderState,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.prompt import Delta, OutputSpec, Prompt, Reply, ToolSpec
from layover.values.runs.model_settings import ModelSettings
from support.providers import responses
from support.providers.openai import FakeOpenAI, Raw, call, document, fail, say

if TYPE_CHECKING:
    from openai.types.responses import Response, ResponseStreamEvent

LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object"})
ANNOTATION = {
    "type": "url_citation",
    "url": "https://a.example/b",
    "title": "B",
    "start_index": 0,
    "end_index": 3,
}


def message(role: Role, *content: Part, **more: Any) -> Message:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Message(id="m", thread_id="t", role=role, content=content, created_at=now, **more)


HELLO = message(Role.USER, TextPart(text="Grüße"))
PLAIN = Prompt(model="openai/gpt-5-mini", messages=(HELLO,), api="responses")
STREAM = PLAIN.model_copy(update={"stream": True})
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
THOUGHT = responses.thought("rs_1", "Let me see.", "Now I know.", encrypted="gAAA")
SEARCH = responses.search("ws_1", "the news")


def answer(*items: Any, stream: bool, **more: Any) -> Raw:
    whole = responses.response(*items, **more)
    return responses.stream(*responses.events(whole)) if stream else document(whole)


async def told(chat: OpenAIChat, prompt: Prompt = STREAM) -> tuple[Reply, list[Delta]]:
    deltas: list[Delta] = []
    return await chat.complete(prompt, deltas.append), deltas


@cache
def taken_by_openai() -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    """Return the types of a plain request and of a streamed one. They are made once: that takes a while."""
    # Most of a second: for no worker that only collects.
    from openai.types.responses import response_create_params as params

    plain, streamed = params.ResponseCreateParamsNonStreaming, params.ResponseCreateParamsStreaming
    return TypeAdapter(plain), TypeAdapter(streamed)


async def asked(server: FakeOpenAI, chat: OpenAIChat, prompt: Prompt) -> dict[str, Any]:
    """The body of the request, which openai's own types take."""
    server.script([say("{}"), say("{}")])
    await chat.complete(prompt)
    await chat.complete(prompt.model_copy(update={"stream": True}))
    plain, streamed = (r.body for r in server.requests[-2:])
    for taken, body in zip(taken_by_openai(), (plain, streamed), strict=True):
        taken.validate_python(body)
    assert plain | {"stream": True} == streamed
    found: dict[str, Any] = plain
    return found


def step(state: ProviderState | None = None, ids: Sequence[str] = ("c_1",)) -> list[Message]:
    calls = [ToolCallPart(tool_call_id=i, tool_name="look", args={"b": 1, "a": 2}) for i in ids]
    result = ToolResultPart(tool_call_id="c_1", tool_name="look", result={"n": 1})
    said = message(Role.ASSISTANT, TextPart(text="So."), *calls, provider_state=state)
    return [HELLO, said, message(Role.TOOL, result, model_output="seen")]


ENTRIES = [
    THOUGHT,
    {"type": "message", "id": "msg_1", "phase": "commentary", "length": 3},
    SEARCH,
    {"type": "function_call", "id": "fc_1"},
]


def kept(
    model: str = "gpt-5-mini", provider: str = "127.0.0.1", entries: Sequence[Any] = ENTRIES
) -> ProviderState:
    return ProviderState(provider=provider, model=model, fields={OUTPUT: list(entries)})


# Requests


async def test_nothing_is_kept_there(server: FakeOpenAI, chat: OpenAIChat) -> None:
    prompt = PLAIN.model_copy(update={"system": "You help.", "cache_key": "k", "run_id": "run_1"})
    assert await asked(server, chat, prompt) == {
        "model": "gpt-5-mini",
        "input": [{"role": "user", "content": "Grüße"}],
        "instructions": "You help.",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
    }
    assert server.requests[0].path == "/v1/responses"
    assert server.requests[0].headers["x-layover-run"] == "run_1"


async def test_calls_and_their_results_are_items(server: FakeOpenAI, chat: OpenAIChat) -> None:
    prompt = PLAIN.model_copy(update={"messages": tuple(step()), "tools": (LOOK,)})
    body = await asked(server, chat, prompt)
    assert body["input"][1:] == [
        {"role": "assistant", "content": "So."},
        {
            "type": "function_call",
            "call_id": "c_1",
            "name": "look",
            "arguments": '{"a":2,"b":1}',
        },
        {"type": "function_call_output", "call_id": "c_1", "output": "seen"},
    ]
    (tool,) = body["tools"]
    assert (tool["type"], tool["name"], tool["strict"]) == ("function", "look", False)


async def test_items_go_back_under_their_ids_in_their_order(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    prompt = PLAIN.model_copy(update={"messages": tuple(step(kept())), "tools": (LOOK,)})
    sent = (await asked(server, chat, prompt))["input"]
    said = {
        "type": "message",
        "id": "msg_1",
        "phase": "commentary",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "So.", "annotations": []}],
    }
    called = {"type": "function_call", "id": "fc_1", "call_id": "c_1", "name": "look"}
    assert sent[1:5] == [THOUGHT, said, SEARCH, {**called, "arguments": '{"a":2,"b":1}'}]
    assert sent[5] == {"type": "function_call_output", "call_id": "c_1", "output": "seen"}


LEFT = {"type": "message", "id": "msg_2", "length": 1}


@pytest.mark.parametrize(
    ("state", "ids"),
    [
        (kept(model="gpt-5"), ["c_1"]),
        (kept(provider="api.openai.com"), ["c_1"]),
        (kept(), ["c_1", "lost"]),
        (kept(entries=[*ENTRIES, {"type": "function_call", "id": "fc_2"}]), ["c_1"]),
        (kept(entries=ENTRIES[:3]), ["c_1"]),
        (kept(entries=[*ENTRIES[:3], LEFT, ENTRIES[3]]), ["c_1"]),
        (kept(entries=[THOUGHT, ENTRIES[3]]), ["c_1"]),
    ],
    ids=[
        "another model",
        "another provider",
        "a call is lost",
        "a hook took a call away",
        "a hook added a call",
        "a hook changed one of two texts",
        "a hook added a text",
    ],
)
async def test_answer_goes_back_without_ids_where_it_is_not_what_the_model_said(
    server: FakeOpenAI, chat: OpenAIChat, state: ProviderState, ids: list[str]
) -> None:
    prompt = PLAIN.model_copy(update={"messages": tuple(step(state, ids)), "tools": (LOOK,)})
    said, called, _ = (await asked(server, chat, prompt))["input"][1:]
    assert said == {"role": "assistant", "content": "So."}
    assert called.keys() == {"type", "call_id", "name", "arguments"}


async def test_text_that_a_hook_changed_goes_back_under_the_id_of_the_only_message(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    entries = [THOUGHT, {**ENTRIES[1], "length": 9}, ENTRIES[3]]
    prompt = PLAIN.model_copy(update={"messages": tuple(step(kept(entries=entries)))})
    sent = (await asked(server, chat, prompt))["input"]
    assert [item.get("id") for item in sent[1:4]] == ["rs_1", "msg_1", "fc_1"]
    assert sent[2]["content"][0]["text"] == "So."


async def test_thought_that_led_to_nothing_does_not_go_back(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    entries = [*ENTRIES, {**THOUGHT, "id": "rs_9"}]
    prompt = PLAIN.model_copy(update={"messages": tuple(step(kept(entries=entries)))})
    sent = (await asked(server, chat, prompt))["input"]
    assert [item["type"] for item in sent[4:]] == ["function_call", "function_call_output"]


async def test_thoughts_that_were_stored_without_the_ids_of_others_stay_here(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    """Threads that earlier versions began: OpenAI refuses a thought under its id before an item without
    one."""
    fields = {"items": [{"at": 0, **THOUGHT}, {"at": 1, **SEARCH}]}
    old = ProviderState(provider="127.0.0.1", model="gpt-5-mini", fields=fields)
    prompt = PLAIN.model_copy(update={"messages": tuple(step(old)), "tools": (LOOK,)})
    sent = (await asked(server, chat, prompt))["input"]
    assert [i.get("type", i.get("role")) for i in sent] == [
        "user",
        "assistant",
        "function_call",
        "function_call_output",
    ]
    assert not any("id" in item for item in sent)


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        (400, "Item 'rs_1' of type 'reasoning' was provided without its required following item."),
        (400, "Item 'msg_1' of type 'message' was provided without its required 'reasoning' item"),
        (404, "Item with id 'rs_1' not found. Items are not persisted when `store` is false."),
        (400, "The encrypted content gAAA... could not be verified."),
    ],
)
async def test_thread_goes_on_where_its_items_are_refused(
    server: FakeOpenAI, chat: OpenAIChat, status: int, refusal: str
) -> None:
    server.script([fail(status, refusal), say("fine")])
    prompt = PLAIN.model_copy(update={"messages": tuple(step(kept())), "tools": (LOOK,)})
    assert (await chat.complete(prompt)).text == "fine"
    assert ["rs_1" in json.dumps(r.body) for r in server.requests] == [True, False]


@pytest.mark.parametrize(
    ("messages", "refusal"),
    [
        (tuple(step(kept())), "Invalid value: 'input[0]'"),
        (tuple(step()), "Item 'x' was provided without its required following item."),
    ],
    ids=["another refusal", "nothing to leave out"],
)
async def test_other_refusals_end_the_request(
    server: FakeOpenAI, chat: OpenAIChat, messages: Any, refusal: str
) -> None:
    server.script([fail(400, refusal)])
    with pytest.raises(ModelError, match=refusal.partition("[")[0]):
        await chat.complete(PLAIN.model_copy(update={"messages": messages}))
    assert len(server.requests) == 1


async def test_items_do_not_go_to_the_other_api(server: FakeOpenAI, chat: OpenAIChat) -> None:
    server.script([say("fine")])
    prompt = PLAIN.model_copy(update={"messages": tuple(step(kept())), "api": "chat"})
    await chat.complete(prompt)
    assert "rs_1" not in json.dumps(server.requests[-1].body)


async def test_settings_have_the_names_of_the_api(server: FakeOpenAI, chat: OpenAIChat) -> None:
    settings = ModelSettings(
        max_tokens=99,
        temperature=0.5,
        top_p=0.9,
        reasoning="low",
        verbosity="high",
        tool_choice="look",
        parallel_tool_calls=False,
        extra={"reasoning": {"summary": "auto"}, "service_tier": "flex"},
    )
    output = OutputSpec(name="Ticket", json_schema={"type": "object"}, strict=True)
    body = await asked(
        server,
        chat,
        PLAIN.model_copy(update={"settings": settings, "tools": (LOOK,), "output": output}),
    )
    assert {n: body[n] for n in ("max_output_tokens", "temperature", "top_p", "service_tier")} == {
        "max_output_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.9,
        "service_tier": "flex",
    }
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert body["tool_choice"] == {"type": "function", "name": "look"}
    assert body["parallel_tool_calls"] is False
    assert body["text"] == {
        "verbosity": "high",
        "format": {
            "type": "json_schema",
            "name": "Ticket",
            "schema": {"type": "object"},
            "strict": True,
        },
    }


async def test_files_are_parts(server: FakeOpenAI, chat: OpenAIChat) -> None:
    files = [
        FilePart(url="data:image/png;base64,AAAA", mime_type="image/png"),
        FilePart(url="data:application/pdf;base64,AAAA", name="a.pdf", mime_type="application/pdf"),
        FilePart(url="https://a.example/b.pdf", mime_type="application/pdf"),
        FilePart(url="https://a.example/b.zip", name="b.zip", mime_type="application/zip"),
    ]
    prompt = PLAIN.model_copy(update={"messages": (message(Role.USER, *files),)})
    (item,) = (await asked(server, chat, prompt))["input"]
    kinds = [part["type"] for part in item["content"]]
    assert kinds == ["input_image", "input_file", "input_file", "input_text"]
    assert item["content"][3]["text"] == "[file: b.zip, application/zip, https://a.example/b.zip]"


@pytest.mark.parametrize("kind", ["audio/wav", "video/mp4"])
@BOTH
async def test_sound_and_films_are_refused_before_anything_is_sent(
    server: FakeOpenAI, chat: OpenAIChat, kind: str, stream: bool
) -> None:
    file = FilePart(url=f"data:{kind};base64,AAAA", name="note", mime_type=kind)
    messages = (message(Role.USER, file, TextPart(text="what is this?")),)
    prompt = PLAIN.model_copy(update={"messages": messages, "stream": stream})
    with pytest.raises(ModelError, match=r"Responses API .* audio .*api=\"chat\"") as caught:
        await chat.complete(prompt)
    assert (caught.value.type, caught.value.status) == ("UnsupportedInput", None)
    assert server.requests == []


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
async def test_choice_of_tools_holds_for_the_providers_alone(
    server: FakeOpenAI, chat: OpenAIChat, choice: str
) -> None:
    given = {"provider_tools": (web_search(),), "settings": ModelSettings(tool_choice=choice)}
    body = await asked(server, chat, PLAIN.model_copy(update=given))
    assert body["tool_choice"] == choice


async def test_choice_of_tools_is_not_sent_without_any(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    given = {"settings": ModelSettings(tool_choice="required")}
    assert "tool_choice" not in await asked(server, chat, PLAIN.model_copy(update=given))


async def test_tools_of_the_provider_stand_beside_ours(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    search = web_search(
        allowed_domains=["a.example"], search_context_size="low", user_location={"country": "DE"}
    )
    tools = {"tools": (LOOK,), "provider_tools": (search,)}
    body = await asked(server, chat, PLAIN.model_copy(update=tools))
    assert body["tools"][1] == {
        "type": "web_search",
        "filters": {"allowed_domains": ["a.example"]},
        "search_context_size": "low",
        "user_location": {"type": "approximate", "country": "DE"},
    }


@pytest.mark.parametrize(
    ("refusal", "gone"),
    [
        ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        ("Unsupported parameter: 'text.verbosity' is not supported with this model.", "verbosity"),
        (
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            "reasoning",
        ),
    ],
)
async def test_setting_that_is_refused_is_dropped_and_remembered(
    server: FakeOpenAI, chat: OpenAIChat, refusal: str, gone: str
) -> None:
    settings = ModelSettings(temperature=0.5, verbosity="low", reasoning="low")
    output = OutputSpec(name="Ticket", json_schema={"type": "object"})
    prompt = PLAIN.model_copy(update={"settings": settings, "output": output})
    server.script([fail(400, refusal), say("a"), say("b")])
    assert [(await chat.complete(prompt)).text for _ in range(2)] == ["a", "b"]
    assert [f'"{gone}": ' in json.dumps(r.body) for r in server.requests] == [True, False, False]
    assert server.requests[-1].body["text"]["format"]["name"] == "Ticket"


async def test_model_without_thoughts_is_not_asked_for_them_again(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    refusal = {
        "message": "Encrypted content is not supported with this model.",
        "type": "invalid_request_error",
        "param": "include",
        "code": None,
    }
    server.script([document({"error": refusal}, status=400), say("a")])
    assert (await chat.complete(PLAIN)).text == "a"
    assert ["include" in r.body for r in server.requests] == [True, False]


async def test_setting_without_a_field_is_said_once(
    server: FakeOpenAI, chat: OpenAIChat, caplog: pytest.LogCaptureFixture
) -> None:
    server.respond_with(lambda _: say("fine"))
    for _ in range(2):
        await chat.complete(PLAIN.model_copy(update={"settings": ModelSettings(seed=1, stop="x")}))
    (said,) = (r.message for r in caplog.records if r.name == "layover")
    assert said == "the Responses API takes no seed, stop: not sent"


# Replies


@BOTH
async def test_reply_is_what_openais_own_client_reads(
    server: FakeOpenAI, chat: OpenAIChat, stream: bool
) -> None:
    from openai import AsyncOpenAI
    from openai.types.responses import Response

    items = [
        THOUGHT,
        SEARCH,
        responses.said("Grüße 😀", annotations=[ANNOTATION]),
        responses.call("c_1", "look", '{"n": "ä"}'),
        responses.call("c_2", "look", ""),
    ]
    counted = responses.usage(20, 7, cached=4, reasoning=3)
    server.script([answer(*items, stream=stream, usage=counted)] * 2)
    reply, deltas = await told(chat, PLAIN.model_copy(update={"stream": stream}))
    client = AsyncOpenAI(api_key="k", base_url=server.base_url)
    given = await client.responses.create(model="m", input="x", stream=stream)
    theirs = given if isinstance(given, Response) else await _last(given)
    await client.close()
    assert reply.text == theirs.output_text
    assert [(c.id, c.name, c.args) for c in reply.calls] == [
        (i.call_id, i.name, i.arguments or "{}") for i in theirs.output if i.type == "function_call"
    ]
    assert theirs.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (
        theirs.usage.input_tokens,
        theirs.usage.output_tokens,
    )
    assert (reply.usage.cached_input_tokens, reply.usage.reasoning_tokens) == (4, 3)
    assert (reply.model, reply.finish_reason) == (theirs.model, "tool-calls")
    assert reply.reasoning == "Let me see.\n\nNow I know."
    _adds_up(reply, deltas if stream else [])


async def _last(events: Any) -> "Response":
    found: list[ResponseStreamEvent] = [event async for event in events]
    assert found[-1].type == "response.completed"
    return found[-1].response


def _adds_up(reply: Reply, deltas: list[Delta]) -> None:
    if not deltas:
        return
    said = {k: "".join(d.text for d in deltas if d.kind == k) for k in ("text", "reasoning")}
    assert said == {"text": reply.text, "reasoning": reply.reasoning}
    args = [
        "".join(d.text for d in deltas if d.kind == "tool-call" and d.call == n) for n in (0, 1)
    ]
    assert args == ['{"n": "ä"}', ""]
    ids = {(d.call, d.tool_call_id, d.tool_name) for d in deltas if d.kind == "tool-call"}
    assert ids == {(0, "c_1", "look"), (1, "c_2", "look")}


@BOTH
async def test_what_the_provider_ran_itself_is_data_and_no_call(
    server: FakeOpenAI, chat: OpenAIChat, stream: bool
) -> None:
    said = responses.said("News.", annotations=[ANNOTATION])
    server.script([answer(SEARCH, said, stream=stream)])
    reply = await chat.complete(PLAIN.model_copy(update={"stream": stream}))
    assert (reply.calls, reply.finish_reason) == ((), "stop")
    call = {"tool": "web_search", "id": "ws_1", "status": "completed", "action": SEARCH["action"]}
    source = {name: value for name, value in ANNOTATION.items() if name != "type"}
    assert reply.data == (
        DataPart(name="provider-tool", data=call),
        DataPart(name="citations", data=[source]),
    )


@BOTH
async def test_answer_is_kept_as_it_came(
    server: FakeOpenAI, chat: OpenAIChat, stream: bool
) -> None:
    items = [
        THOUGHT,
        responses.said("Grüße.", phase="commentary"),
        SEARCH,
        responses.call("c", "look", "{}"),
        {**THOUGHT, "id": "rs_2"},
        responses.said("So.", id="msg_2", phase="final_answer"),
    ]
    server.script([answer(*items, stream=stream)])
    reply = await chat.complete(PLAIN.model_copy(update={"stream": stream}))
    assert reply.state[OUTPUT] == [
        THOUGHT,
        {"type": "message", "id": "msg_1", "phase": "commentary", "length": 6},
        SEARCH,
        {"type": "function_call", "id": "fc_c"},
        {**THOUGHT, "id": "rs_2"},
        {"type": "message", "id": "msg_2", "phase": "final_answer", "length": 3},
    ]
    assert (reply.provider, reply.asked_model) == ("127.0.0.1", "gpt-5-mini")


async def test_answer_without_ids_and_thoughts_keeps_nothing(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    said = {k: v for k, v in responses.said("So.").items() if k != "id"}
    server.script([answer(said, stream=False)])
    assert (await chat.complete(PLAIN)).state == {}


async def test_thought_without_its_content_takes_the_ids_of_its_answer_with_it(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    """OpenAI refuses a message under its id without the thought that led to it, too."""
    items = [responses.thought("rs", "hm"), SEARCH, responses.said("So.", phase="final_answer")]
    server.script([answer(*items, responses.call("c", "look", "{}"), stream=False)])
    reply = await chat.complete(PLAIN)
    assert reply.reasoning == "hm"
    assert reply.state[OUTPUT] == [
        {"type": "message", "phase": "final_answer", "length": 3},
        {"type": "function_call"},
    ]
    server.script([answer(responses.thought("rs", "hm"), responses.said("So."), stream=False)])
    assert (await chat.complete(PLAIN)).state == {}


async def test_thought_of_an_open_model_goes_back_in_its_own_words(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    words = {"type": "reasoning_text", "text": "I look."}
    thought = {"type": "reasoning", "id": "r", "summary": [], "content": [words]}
    server.script([answer(thought, responses.call("c_1", "look", "{}"), stream=False)])
    reply = await chat.complete(PLAIN)
    assert reply.reasoning == "I look."
    called = message(
        Role.ASSISTANT,
        ToolCallPart(tool_call_id="c_1", tool_name="look", args={}),
        provider_state=ProviderState(
            provider=reply.provider, model=reply.asked_model, fields=reply.state
        ),
    )
    prompt = PLAIN.model_copy(update={"messages": (HELLO, called, step()[-1])})
    assert (await asked(server, chat, prompt))["input"][1] == thought


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled"])
async def test_answer_that_is_not_there_yet_is_an_error(
    server: FakeOpenAI, chat: OpenAIChat, status: str
) -> None:
    server.script([document(responses.response(status=status))])
    with pytest.raises(ModelError, match=rf"is {status}.*`background`") as caught:
        await chat.complete(PLAIN)
    assert caught.value.type == "InvalidResponse"
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("max_output_tokens", "length"), ("content_filter", "content-filter"), ("other", "stop")],
)
@BOTH
async def test_incomplete_reply_says_why(
    server: FakeOpenAI, chat: OpenAIChat, stream: bool, reason: str, finish: str
) -> None:
    why = {"status": "incomplete", "incomplete_details": {"reason": reason}}
    server.script([answer(responses.said("Hal"), stream=stream, **why)])
    reply = await chat.complete(PLAIN.model_copy(update={"stream": stream}))
    assert (reply.text, reply.finish_reason) == ("Hal", finish)


@BOTH
async def test_call_that_was_cut_before_its_arguments_is_not_one_without_any(
    server: FakeOpenAI, chat: OpenAIChat, stream: bool
) -> None:
    why = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    items = responses.call("c_1", "look", ""), responses.call("c_2", "look", "")
    server.script([answer(*items, stream=stream, **why)])
    reply = await chat.complete(PLAIN.model_copy(update={"stream": stream}))
    assert [c.args for c in reply.calls] == ["{}", CUT]


async def test_call_whose_item_has_no_arguments_has_those_of_its_pieces(
    server: FakeOpenAI, chat: OpenAIChat
) -> None:
    whole = responses.events(responses.response(responses.call("c_1", "look", '{"n": 1}')))
    empty = json.loads(json.dumps(whole).replace('"arguments": "{\\"n\\": 1}"', '"arguments": ""'))
    server.script([responses.stream(*empty)])
    reply, _ = await told(chat)
    assert [c.args for c in reply.calls] == ['{"n": 1}']


async def test_refusal_is_text(server: FakeOpenAI, chat: OpenAIChat) -> None:
    refusal = {"type": "refusal", "refusal": "I will not."}
    said = responses.said("", content=[refusal])
    server.script([answer(said, stream=False)])
    reply = await chat.complete(PLAIN)
    assert (reply.text, reply.finish_reason) == ("I will not.", "content-filter")


# What goes wrong


@pytest.mark.parametrize(
    "last",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "later", "param": None},
        {
            "type": "response.failed",
            "response": responses.response(
                status="failed", error={"code": "server_error", "message": "later"}
            ),
        },
        None,
    ],
    ids=["error", "failed", "ends"],
)
async def test_stream_that_fails_begins_again(
    server: FakeOpenAI, chat: OpenAIChat, last: Any
) -> None:
    begun = responses.events(responses.response(responses.said("Hello")))[:4]
    half = responses.stream(*begun, *([last] if last else []))
    server.script([half, say("Hello")])
    reply, deltas = await told(chat)
    assert [d.kind for d in deltas] == ["text", "restart", "text"]
    assert reply.text == "Hello"


@BOTH
async def test_prompt_that_is_too_long_is_its_own_error(
    server: FakeOpenAI, chat: OpenAIChat, stream: bool
) -> None:
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window"}
    event = {"type": "error", **error, "param": "input"}
    server.script([responses.stream(event) if stream else document({"error": error}, status=400)])
    with pytest.raises(ContextLengthExceeded):
        await chat.complete(PLAIN.model_copy(update={"stream": stream}))


@pytest.mark.parametrize("body", ["{}", "[]", '{"output": 1}', '{"object": "response"}', "null"])
async def test_answer_that_is_none_is_an_error_and_no_accident(
    server: FakeOpenAI, chat: OpenAIChat, body: str
) -> None:
    raw = Raw(200, {"content-type": "application/json"}, (body.encode(),))
    server.respond_with(lambda _: raw)
    if "output" in body:  # an empty one
        assert (await chat.complete(PLAIN)).text == ""
        return
    with pytest.raises(ModelError) as caught:
        await chat.complete(PLAIN)
    assert caught.value.type == "InvalidResponse"


async def test_chat_completions_say_once_that_they_have_no_tools_of_the_providers(
    server: FakeOpenAI, chat: OpenAIChat, caplog: pytest.LogCaptureFixture
) -> None:
    server.respond_with(lambda _: call("look"))
    for _ in range(2):
        given = {"api": "chat", "provider_tools": (web_search(),)}
        await chat.complete(PLAIN.model_copy(update=given))
    assert "tools" not in server.requests[-1].body
    assert len([r for r in caplog.records if "no tools of the provider's" in r.message]) == 1
