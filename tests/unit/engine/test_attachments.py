"""Files in a prompt."""

import base64
import json
from collections.abc import Sequence

import pytest

from layover import Agent, tool
from layover.adapters.inmemory.blobs import InMemoryBlobs
from layover.adapters.inmemory.model import call, say
from layover.clock import SystemClock
from layover.context.assembly import estimated_tokens
from layover.context.tokens import with_token_count
from layover.engine.attachments import (
    MAX_LONG_TEXT_BYTES,
    MAX_PROMPT_BYTES,
    MAX_TEXT_BYTES,
    Attachments,
)
from layover.errors import RetryableError
from layover.files.store import Files, thread_file_facts
from layover.values.message import FilePart, InputPart, Message, Part, Role, TextPart
from layover.values.prompt import Prompt
from layover.values.runs.model_settings import ModelSettings
from support.worlds.runs import ANN, Bench, seen

NOW = SystemClock().now()


class Counting(InMemoryBlobs):
    """Counts what is read."""

    reads = 0

    async def get(self, key: str) -> bytes | None:
        self.reads += 1
        return await super().get(key)


class Away(InMemoryBlobs):
    """A store that takes nothing."""

    async def put(self, key: str, data: bytes, content_type: str) -> None:
        raise RetryableError("S3 is away")


async def file(blobs: InMemoryBlobs, file_id: str, mime_type: str, data: bytes) -> FilePart:
    """A file of ANN's in thread `t1`."""
    await Files(blobs, ANN).keep(
        thread_file_facts(file_id, "t1", f"{file_id}.x", mime_type, data, NOW), data
    )
    return FilePart(file_id=file_id, name=f"{file_id}.x", mime_type=mime_type)


def message(*parts: Part) -> Message:
    return Message(id="m", thread_id="t1", role=Role.USER, content=parts, created_at=NOW)


async def shown(blobs: InMemoryBlobs, *parts: Part, inputs: Sequence[str] = ()) -> tuple[Part, ...]:
    """The parts as a model with these inputs gets them."""
    settings = ModelSettings.model_validate({"inputs": inputs})
    prompt = Prompt(model="m", messages=(message(*parts),), settings=settings)
    loaded = await Attachments(Files(blobs, ANN)).loaded(prompt)
    return loaded.messages[0].content


async def test_a_file_that_is_gone_is_a_note() -> None:
    part = FilePart(file_id="f", name="a.png", mime_type="image/png")
    noted = TextPart(text="[file: a.png, image/png, no longer available]")
    assert await shown(InMemoryBlobs(), part) == (noted,)


async def test_a_url_is_passed_on_and_never_fetched() -> None:
    blobs, part = Counting(), FilePart(url="https://a.test/x.png")
    assert await shown(blobs, part) == (part,)
    assert blobs.reads == 0


@pytest.mark.parametrize("mime_type", ["application/zip", "image/svg+xml", "audio/mpeg"])
async def test_a_type_that_no_model_takes_is_a_note(mime_type: str) -> None:
    blobs = Counting()
    part = await file(blobs, "f", mime_type, b"x")
    assert await shown(blobs, part) == (TextPart(text=f"[file: f.x, {mime_type}]"),)
    assert blobs.reads == 0


WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.mark.parametrize(
    ("mime_type", "inputs"),
    [("audio/mpeg", ["audio"]), ("video/mp4", ["text", "video"]), (WORD, ["document"])],
)
async def test_a_type_that_the_model_takes_is_a_data_url(mime_type: str, inputs: list[str]) -> None:
    blobs = InMemoryBlobs()
    part = await file(blobs, "f", mime_type, b"x")
    (loaded,) = await shown(blobs, part, inputs=inputs)
    assert loaded == FilePart(url=f"data:{mime_type};base64,eA==", name="f.x", mime_type=mime_type)


@pytest.mark.parametrize(
    ("mime_type", "inputs"),
    [("audio/mpeg", ["video"]), ("video/mp4", ["audio"]), ("image/svg+xml", ["audio", "document"])],
)
async def test_one_input_opens_no_other_type(mime_type: str, inputs: list[str]) -> None:
    blobs = Counting()
    part = await file(blobs, "f", mime_type, b"x")
    assert await shown(blobs, part, inputs=inputs) == (TextPart(text=f"[file: f.x, {mime_type}]"),)
    assert blobs.reads == 0


@pytest.mark.parametrize(("more", "is_shown"), [(0, True), (1, False)])
async def test_a_model_that_takes_texts_reads_long_ones(more: int, is_shown: bool) -> None:
    blobs = InMemoryBlobs()
    part = await file(blobs, "f", "text/plain", b"x" * (MAX_LONG_TEXT_BYTES + more))
    (loaded,) = await shown(blobs, part, inputs=["text"])
    assert isinstance(loaded, TextPart)
    assert (len(loaded.text) > MAX_LONG_TEXT_BYTES) is is_shown


async def test_a_short_text_is_shown_behind_its_name() -> None:
    blobs = InMemoryBlobs()
    part = await file(blobs, "f", "text/csv; charset=utf-8", "ü,1".encode())
    assert await shown(blobs, part) == (TextPart(text="[file: f.x, text/csv; charset=utf-8]\nü,1"),)


@pytest.mark.parametrize("data", [b"x" * (MAX_TEXT_BYTES + 1), b"\xff\xfe"])
async def test_a_long_text_and_what_is_no_text_are_notes(data: bytes) -> None:
    blobs = InMemoryBlobs()
    part = await file(blobs, "f", "text/plain", data)
    assert await shown(blobs, part) == (TextPart(text="[file: f.x, text/plain]"),)


async def test_the_text_of_a_file_of_an_earlier_message_is_counted() -> None:
    blobs = InMemoryBlobs()
    part = await file(blobs, "f", "text/plain", b"word " * 1_000)
    stored = with_token_count(message(part))
    loaded = await Attachments(Files(blobs, ANN)).loaded(Prompt(model="m", messages=(stored,)))
    assert estimated_tokens(loaded) >= 1_000


async def test_an_image_is_a_data_url_and_read_once() -> None:
    blobs = Counting()
    part = await file(blobs, "f", "image/jpg", b"\xff\xd8")
    prompt = Prompt(model="m", messages=(message(part), message(part)))
    attachments = Attachments(Files(blobs, ANN))
    first, second = await attachments.loaded(prompt), await attachments.loaded(prompt)
    url = "data:image/jpeg;base64," + base64.b64encode(b"\xff\xd8").decode()
    image = FilePart(url=url, name="f.x", mime_type="image/jpeg")
    assert [m.content for m in first.messages] == [(image,), (image,)]
    assert first == second
    assert blobs.reads == 1


async def test_the_oldest_files_are_left_out_where_all_are_too_many() -> None:
    blobs = InMemoryBlobs()
    old, new = [
        await file(blobs, f, "application/pdf", bytes(MAX_PROMPT_BYTES // 2))
        for f in ("old", "new")
    ]
    prompt = Prompt(model="m", messages=(message(old), message(new)))
    loaded = await Attachments(Files(blobs, ANN)).loaded(prompt)
    first, second = (m.content[0] for m in loaded.messages)
    assert isinstance(first, TextPart)
    assert "too large together" in first.text
    assert isinstance(second, FilePart)


async def test_the_input_and_the_history_show_files_first() -> None:
    blobs = InMemoryBlobs()
    made = Bench(Agent("helper", model="m"), [say("one"), say("two"), say("three")], blobs=blobs)
    await made.go()
    part = await file(blobs, "f", "application/zip", b"x")
    given: list[InputPart] = [TextPart(text="see"), part]
    run_id = await made.start(given)  # type: ignore[arg-type]
    await made.drive(run_id)
    await made.go("next")
    note = "[file: f.x, application/zip]"
    texts = [
        [p.text for p in m.content] for m in made.model.prompts[2].messages if m.role == "user"
    ]
    assert texts == [["hello"], [note, "see"], ["next"]]
    assert [p.text for p in made.model.prompts[1].messages[2].content] == [note, "see"]


async def test_a_huge_error_is_cut_as_well() -> None:
    @tool
    async def breaks() -> str:
        """Break."""
        raise ValueError("x" * 300_000)

    made = Bench(Agent("helper", model="m", tools=[breaks]), [call("breaks"), say("done")])
    await made.go()
    assert json.loads(seen(made.model.prompts[1])[0])["_truncated"] is True


async def test_a_result_that_cannot_be_kept_whole_is_not_lost() -> None:
    @tool
    async def dump() -> str:
        """Dump."""
        return "x" * 300_000

    model = [call("dump"), say("done")]
    made = Bench(Agent("helper", model="m", tools=[dump]), model, blobs=Away())
    run = await made.go()
    assert run.status == "success"
    assert json.loads(seen(made.model.prompts[1])[0])["url"] is None
