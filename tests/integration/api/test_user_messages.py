"""What a user's message has reaches the run, or is refused or named: no part is left out without a word."""

import base64
import json
from typing import Any

import pytest

from functions.api.user_messages import ag_ui_message, ui_message
from integration.api.kit import Api
from integration.api.test_ag_ui import ask
from integration.api.test_chat import chat
from integration.api.test_chat_ids import runs
from layover.errors import InvalidRequest
from layover.files.store import Files
from layover.plugins.fronts.chat.parts import ClientFile, content_hash
from layover.values.message import CONTEXT, DataPart, FilePart, TextPart
from support.worlds.services import ANN
from support.worlds.sockets import SocketBench

PNG, PDF = b"\x89PNG\r\n\x1a\n..", b"%PDF-1.4 ."
FIRST_BYTES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF....WEBPVP8 ",
    "application/pdf": PDF,
}
URL = "https://files.example/download?id=7"


@pytest.fixture
def world() -> SocketBench:
    return SocketBench()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def asked(api: Api, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An AG-UI request with these parts."""
    text = {"type": "text", "text": "What is it?"}
    messages = [{"id": "m1", "role": "user", "content": [text, *parts]}]
    return ask(api, **{"messages": messages, "state": {}, **more})


def the_file(api: Api, world: SocketBench, chat_id: str = "t1") -> FilePart:
    [run] = runs(api, world, chat_id)
    [part] = [p for p in run.input.content if isinstance(p, FilePart)]
    return part


def first_pieces(api: Api, answered: dict[str, Any]) -> list[Any]:
    """The events before any of the run's."""

    async def first() -> bytes:
        piece: bytes = await anext(answered["body"])
        await answered["body"].aclose()
        return piece

    blocks = api.do(first()).decode().split("\n\n")
    return [json.loads(block.removeprefix("data: ")) for block in blocks if block]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image"},
        {"type": "image", "source": {"type": "file", "value": "file-abc", "provider": "openai"}},
        {"type": "image", "source": {"value": "x", "mimeType": "image/png"}},
        {"type": "image", "source": {"type": "url", "value": "http://files.example/a.png"}},
        {"type": "image", "source": {"type": "url", "value": 7}},
        {"type": "image", "source": {"type": "data", "value": b64(b"nothing that is known")}},
        {"type": "image", "source": {"type": "data", "value": "ä", "mimeType": "image/png"}},
        {"type": "binary", "mimeType": "image/png"},
        {"type": "binary", "mimeType": "image/png", "id": "upload-1"},
        {"type": "binary", "mimeType": "no type", "data": b64(b"?")},
        {"type": "document", "source": {"type": "url", "value": "/files/file_none"}},
    ],
)
def test_part_that_cannot_be_read_is_refused_by_name(
    api: Api, world: SocketBench, part: dict[str, Any]
) -> None:
    refused = asked(api, part)
    assert refused["statusCode"] == 422
    assert "file" in refused["body"] or "URL" in refused["body"]
    assert runs(api, world, "t1") == []


@pytest.mark.parametrize("kind", ["reasoning", "poll", None])
def test_part_of_a_kind_that_is_unknown_is_named(
    api: Api, world: SocketBench, kind: str | None
) -> None:
    answered = asked(api, {"type": kind, "text": "x"})
    assert answered["headers"]["X-Layover-Passed-Over"] == f"content: {kind}"
    started, named = first_pieces(api, answered)
    assert started["type"] == "RUN_STARTED"
    assert (named["name"], named["value"]) == ("layover-passed-over", [f"content: {kind}"])
    assert len(runs(api, world, "t1")) == 1


def test_what_a_client_sends_for_nothing_is_named(api: Api) -> None:
    tools = [{"name": "look_up", "description": "the page's own", "parameters": {}}]
    answered = asked(api, state={"n": 1}, tools=tools, forwardedProps={"x": 1})
    [named] = first_pieces(api, answered)[1:]
    assert named["value"] == ["state", "tools", "forwardedProps"]
    assert answered["headers"]["X-Layover-Passed-Over"] == "state, tools, forwardedProps"


def test_where_nothing_is_passed_over_nothing_is_named(api: Api) -> None:
    answered = asked(api, tools=[], context=[], forwardedProps={})
    assert "X-Layover-Passed-Over" not in answered["headers"]
    assert [event["type"] for event in first_pieces(api, answered)] == ["RUN_STARTED"]


def test_use_chat_is_told_what_is_passed_over(api: Api) -> None:
    parts = [{"type": "text", "text": "hi"}, {"type": "source-url", "url": URL}, {"type": "dä\n"}]
    answered = chat(api, {"id": "u1", "role": "user", "parts": parts})
    assert answered["headers"].get("X-Layover-Passed-Over", "").isascii()
    [named] = first_pieces(api, answered)[1:]
    assert (named["type"], named["transient"]) == ("data-layover-passed-over", True)
    assert named["data"] == ["parts: source-url", "parts: dä\n"]


@pytest.mark.parametrize(("mime_type", "data"), FIRST_BYTES.items(), ids=FIRST_BYTES)
@pytest.mark.parametrize("given", ["the type", "no type", "any image", "a data: URL"])
def test_bytes_are_kept_under_their_type_and_name(
    api: Api, world: SocketBench, mime_type: str, data: bytes, given: str
) -> None:
    named = {"the type": mime_type, "any image": "image/*"}.get(given)
    source = {"type": "data", "value": b64(data), **({"mimeType": named} if named else {})}
    if given == "a data: URL":
        source["value"] = f"data:{mime_type};base64,{source['value']}"
    part = {"type": "document", "source": source, "metadata": {"filename": "offer"}}
    assert asked(api, part)["statusCode"] == 200
    kept = the_file(api, world)
    assert (kept.mime_type, kept.name) == (mime_type, "offer")
    assert api.do(Files(world.runtime.blobs, ANN).data(str(kept.file_id))) == data


@pytest.mark.parametrize(
    ("part", "file"),
    [
        (
            {"type": "binary", "mimeType": "image/png", "url": URL},
            ClientFile(URL, None, "image/png"),
        ),
        (
            {"type": "binary", "mimeType": "audio/wav", "data": "aGk=", "filename": "a.wav"},
            ClientFile("data:audio/wav;base64,aGk=", "a.wav", "audio/wav"),
        ),
        (
            {"type": "image", "source": {"type": "url", "value": URL}},
            ClientFile(URL, None, "image/*"),
        ),
        (
            {"type": "video", "source": {"type": "url", "value": URL}},
            ClientFile(URL, None, "video/*"),
        ),
        ({"type": "document", "source": {"type": "url", "value": URL}}, ClientFile(URL)),
        (
            {"type": "image", "source": {"type": "url", "value": "/files/file_1"}},
            ClientFile("/files/file_1"),
        ),
        (
            {
                "type": "document",
                "source": {"type": "url", "value": URL, "mimeType": "application/pdf"},
                "metadata": {"filename": "a.pdf", "page": 7},
            },
            ClientFile(URL, "a.pdf", "application/pdf"),
        ),
    ],
)
def test_each_version_names_a_file_in_its_own_way(part: dict[str, Any], file: ClientFile) -> None:
    assert ag_ui_message("m1", [part]).parts == (file,)


@pytest.mark.parametrize("more", [{}, {"mediaType": "image/*"}, {"mediaType": ""}])
def test_file_of_use_chat_has_the_type_of_its_bytes(
    api: Api, world: SocketBench, more: dict[str, str]
) -> None:
    file = {"type": "file", "url": f"data:image/png;base64,{b64(PNG)}", **more}
    text = {"type": "text", "text": "hi"}
    assert chat(api, {"id": "u1", "role": "user", "parts": [text, file]})["statusCode"] == 200
    assert the_file(api, world, "chat-1").mime_type == "image/png"


def test_context_comes_with_the_message(api: Api, world: SocketBench) -> None:
    context = [{"description": "The page", "value": "Cart", "more": 1}, {"value": {"items": 3}}]
    assert asked(api, context=context)["statusCode"] == 200
    [run] = runs(api, world, "t1")
    told = [
        {"description": "The page", "value": "Cart"},
        {"description": "", "value": {"items": 3}},
    ]
    assert run.input.content == (TextPart(text="What is it?"), DataPart(name=CONTEXT, data=told))


def test_context_alone_is_no_message(api: Api) -> None:
    messages = [{"id": "m1", "role": "user", "content": ""}]
    context = [{"description": "The page", "value": "Cart"}]
    assert ask(api, messages=messages, context=context)["statusCode"] == 422


def test_message_that_was_read_back_is_the_same_message() -> None:
    parts = (
        TextPart(text="hi"),
        DataPart(name="cart", data={"b": 1, "a": [2]}),
        FilePart(file_id="file_1", name="a.png", mime_type="image/png"),
        FilePart(url=URL, name="b.pdf", mime_type="application/pdf"),
    )
    read = ui_message(
        "u1",
        [
            {"type": "text", "text": "hi", "state": "done"},
            {"type": "data-cart", "data": {"a": [2], "b": 1}},
            {"type": "file", "url": "/files/file_1", "mediaType": "image/png", "filename": "a.png"},
            {"type": "file", "url": URL, "mediaType": "application/pdf", "filename": "b.pdf"},
        ],
    )
    assert read.body_hash == content_hash(parts)
    assert read.body_hash != content_hash(parts[:-1])
    assert content_hash([*parts, DataPart(name=CONTEXT, data=["now"])]) == read.body_hash


def test_unreadable_part_says_what_to_send() -> None:
    with pytest.raises(InvalidRequest, match="its bytes") as refused:
        ag_ui_message("m1", [{"type": "audio", "source": {"type": "file", "value": "secret-id"}}])
    assert "secret-id" not in str(refused.value)
