"""Files of users: their types, names, encodings and numbers, and what providers take."""

import base64
import json
import re
from typing import Any

import pytest

from functions.api.app import answer
from integration.api.kit import Api, http_event
from layover.adapters.blobs.s3 import _attachment
from layover.engine.attachments import Attachments
from layover.files.store import Files
from layover.plugins.models.bedrock.content import turns
from layover.plugins.models.bedrock.families import family_of
from layover.records.threads import thread_id_of
from layover.values.message import FilePart, Message, Part, Role, TextPart
from layover.values.prompt import Prompt
from reports import Found, report
from support.notices import NOW
from support.worlds.services import ANN
from support.worlds.sockets import SocketBench

HEIC = b"\0\0\0 ftypheic\0\0\0\0mif1MiHEmiafheic"
CONVERSE_NAME = re.compile(r"[A-Za-z0-9()\[\]-]+( [A-Za-z0-9()\[\]-]+)*")


@pytest.fixture
def world() -> SocketBench:
    """A world in which runs of chats can be followed."""
    return SocketBench()


def message(*parts: Part) -> Message:
    """A message of a user's."""
    return Message(id="m", thread_id="t1", role=Role.USER, content=parts, created_at=NOW)


def pdf(name: str) -> FilePart:
    """A document as a prompt has it."""
    kind = "application/pdf"
    return FilePart(url=f"data:{kind};base64,AAAA", name=name, mime_type=kind)


def blocks(*messages: Message) -> list[Any]:
    """The blocks of Converse's request."""
    prompt = Prompt(model="anthropic.claude-sonnet-4-5", messages=messages)
    made = turns(prompt, "bedrock", family_of(prompt.model), frozenset(), caches=False)
    return [block for turn in made for block in turn["content"]]


def documents(*messages: Message) -> list[str]:
    """The names of the documents of Converse's request."""
    return [block["document"]["name"] for block in blocks(*messages) if "document" in block]


def send_file(api: Api, data: bytes, name: str, mime_type: str) -> int:
    """The status of a chat's message with a file."""
    url = f"data:{mime_type};base64,{base64.b64encode(data).decode()}"
    file = {"type": "file", "mediaType": mime_type, "filename": name, "url": url}
    sent = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "look"}, file]}
    body = json.dumps({"id": "c1", "messages": [sent], "trigger": "submit-message"})
    event = http_event("POST", "/chat/support", body, {}, ANN)
    status: int = answer(event, None, api.host, streams=True)["statusCode"]
    return status


def read_by_model(
    api: Api, world: SocketBench, data: bytes, name: str, mime_type: str = ""
) -> tuple[Part, ...]:
    """The parts that a model gets of a chat's message with a file."""
    assert send_file(api, data, name, mime_type) == 200
    page = api.do(world.journal.runs.page_ids(ANN, thread_id_of(ANN, "c1"), 1, None))
    run = api.do(world.journal.runs.get(ANN, page.items[0]))
    assert run is not None
    prompt = Prompt(model="m", messages=(message(*run.input.content),))
    loaded = api.do(Attachments(Files(world.runtime.blobs, ANN)).loaded(prompt))
    return loaded.messages[0].content


@report("aws-samples/generative-ai-use-cases#1685", Found.MENDED)
def test_sixth_document_of_a_thread_takes_the_place_of_the_first() -> None:
    """Converse takes five documents in a request: the newest are sent, and the others are named."""
    history = [message(pdf(f"{n}.pdf"), TextPart(text="read")) for n in range(1, 8)]
    assert documents(*history) == ["3", "4", "5", "6", "7"]
    assert {"text": "[file: 1.pdf, application/pdf]"} in blocks(*history)


@report(
    "Boise-State-Development/agentcore-public-stack#400, maximhq/bifrost#7003, "
    "aws-samples/sample-strands-agent-with-agentcore#290",
    Found.RIGHT,
)
def test_documents_of_one_name_have_several_in_a_request() -> None:
    """A file that comes twice in a thread, and two of one name with other endings, have names that differ."""
    names = documents(message(pdf("report.pdf")), message(pdf("report.pdf"), pdf("report.docx")))
    assert len(set(names)) == 3


@pytest.mark.parametrize(
    "name",
    ["John's report #1.pdf", "テスト　資料.pdf", "a\tb  c.pdf", "résumé.pdf", ".pdf", "x" * 255],
)
@report("vercel/ai#20365, aws-samples/generative-ai-use-cases#1671", Found.RIGHT)
def test_document_of_any_name_has_one_that_converse_takes(name: str) -> None:
    """A document's name with letters and blanks that Converse refuses is written with those that it takes."""
    [taken] = documents(message(pdf(name)))
    assert CONVERSE_NAME.fullmatch(taken)
    assert len(taken) <= 200


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [
        ("notes.md", "application/octet-stream"),
        ("notes.md", ""),
        ("table.csv", "application/vnd.ms-excel"),
        ("feed.xml", "text/xml"),
        ("setup.sh", "application/x-sh"),
    ],
)
@report(
    "different-ai/openwork#3079, epam/ai-dial-chat#5779, aws-samples/generative-ai-use-cases#1139",
    Found.MENDED,
)
def test_text_is_read_whatever_a_browser_calls_it(
    api: Api, world: SocketBench, name: str, mime_type: str
) -> None:
    """A text of a type that the browser does not know, or calls a sheet, is read by the model."""
    parts = read_by_model(api, world, b"a,b\n1,2\n", name, mime_type)
    [shown] = [part.text for part in parts if isinstance(part, TextPart) and part.text != "look"]
    assert shown.endswith("]\na,b\n1,2\n")


@pytest.mark.parametrize(
    ("encoding", "is_read"), [("utf-16", True), ("utf-8-sig", True), ("gbk", False)]
)
@report("langgenius/dify#389, xtekky/gpt4free#2716", Found.MENDED)
def test_text_in_another_encoding_is_read_or_said_to_be_none(
    api: Api, world: SocketBench, encoding: str, is_read: bool
) -> None:
    """A text with a mark is read as the mark says; of another one the model hears that it is not UTF-8."""
    parts = read_by_model(api, world, "价格,1".encode(encoding), "p.csv", "text/csv")
    [shown] = [part.text for part in parts if isinstance(part, TextPart) and part.text != "look"]
    assert shown.endswith("\n价格,1" if is_read else "not a text in UTF-8]")


@pytest.mark.parametrize("mime_type", ["image/heic", "image/heif"])
@report("receptron/mulmoclaude#1996, pingdotgg/t3code#4579", Found.RIGHT)
def test_picture_that_no_model_takes_is_named_and_not_sent(
    api: Api, world: SocketBench, mime_type: str
) -> None:
    """A photo in HEIC goes to no provider, and the model reads that there is one."""
    parts = read_by_model(api, world, HEIC, "IMG_1.HEIC", mime_type)
    assert not [part for part in parts if isinstance(part, FilePart)]
    assert "IMG_1.HEIC, image/hei" in str(parts)


@report("getpaseo/paseo#700", Found.MENDED)
def test_photo_of_a_phone_that_is_called_png_is_not_sent_as_one(
    api: Api, world: SocketBench
) -> None:
    """A photo in HEIC under the type of a PNG is what its bytes say, and goes to no provider."""
    parts = read_by_model(api, world, HEIC, "shot.png", "image/png")
    assert not [part for part in parts if isinstance(part, FilePart)]
    assert "shot.png, image/heic" in str(parts)


@report("getpaseo/paseo#1954, langgenius/dify#19229", Found.RIGHT, held_back=True)
def test_download_of_a_file_whose_name_is_not_ascii_keeps_its_name() -> None:
    """The header of a download is ASCII, and has the whole name for clients that read it."""
    header = _attachment("中文报告 (最终版).txt")
    assert header.isascii()
    assert "filename*=UTF-8''%E4%B8%AD" in header


@report("fazer-ai/chatwoot#522, margince/margince#2062", Found.MENDED, held_back=True)
def test_file_without_bytes_is_refused_or_named(api: Api, world: SocketBench) -> None:
    """A file of no bytes cannot be announced; in a chat the model reads its name, and no provider gets it."""
    body = {"name": "a.pdf", "mime_type": "application/pdf", "size": 0}
    api.post("/files", body).problem(422, "invalid-request")
    parts = read_by_model(api, world, b"", "a.pdf", "application/pdf")
    assert not [part for part in parts if isinstance(part, FilePart)]
