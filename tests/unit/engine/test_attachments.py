"""Files in a prompt."""

import base64
import json
import tracemalloc
from collections.abc import Sequence

import pytest

from layover import Agent, tool
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
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.model import call, say
from layover.values.file import MAX_FILE
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


class Measuring(InMemoryBlobs):
    """Counts the bytes that are read. Every read makes a copy, as one from a network does."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    async def get(self, key: str) -> bytes | None:
        data = await super().get(key)
        if data is None:
            return None
        self.sizes.append(len(data))
        return bytes(memoryview(data))


class Losing(Measuring):
    """A store that loses the bytes of a file once their size is known."""

    async def get(self, key: str) -> bytes | None:
        return None


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


@pytest.mark.parametrize("mime_type", ["image/png", "application/pdf", "text/plain"])
async def test_a_file_without_bytes_is_a_note(mime_type: str) -> None:
    blobs = Counting()
    part = await file(blobs, "f", mime_type, b"")
    assert await shown(blobs, part) == (TextPart(text=f"[file: f.x, {mime_type}, empty]"),)
    assert blobs.reads == 0


async def test_a_url_is_passed_on_and_never_fetched() -> None:
    blobs, part = Counting(), FilePart(url="https://a.test/x.png")
    assert await shown(blobs, part) == (part,)
    assert blobs.reads == 0


@pytest.mark.parametrize("mime_type", ["image/heic", "image/svg+xml", "audio/mpeg"])
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
    ("given", "data", "seen"),
    [
        ("image/png", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("image/jpeg", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        ("image/jpg", b"GIF89a", "image/gif"),
        ("image/png", b"%PDF-1.7", "application/pdf"),
        ("application/pdf", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("image/png", b"GIF8", "image/png"),
        ("image/jpg", b"x", "image/jpeg"),
    ],
)
async def test_a_model_gets_the_type_that_the_bytes_tell(
    given: str, data: bytes, seen: str
) -> None:
    blobs = InMemoryBlobs()
    (loaded,) = await shown(blobs, await file(blobs, "f", given, data))
    assert isinstance(loaded, FilePart)
    assert loaded.mime_type == seen
    assert (loaded.url or "").startswith(f"data:{seen};base64,")


async def test_a_text_stays_one_however_it_begins() -> None:
    blobs = InMemoryBlobs()
    (loaded,) = await shown(blobs, await file(blobs, "f", "text/plain", b"GIF89a is a format"))
    assert isinstance(loaded, TextPart)


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


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"x" * (MAX_TEXT_BYTES + 1), ""),
        ("Größe".encode("cp1252"), ", not a text in UTF-8"),
        (b"\xff\xfe\x00", ", not a text in UTF-8"),
        (b"a\0b", ", not a text in UTF-8"),
    ],
    ids=["long", "another encoding", "half a letter", "zeros"],
)
async def test_a_long_text_and_what_is_no_text_are_notes(data: bytes, why: str) -> None:
    blobs = InMemoryBlobs()
    part = await file(blobs, "f", "text/plain", data)
    assert await shown(blobs, part) == (TextPart(text=f"[file: f.x, text/plain{why}]"),)


@pytest.mark.parametrize(
    "mime_type",
    [
        "application/octet-stream",
        "application/vnd.ms-excel",
        "application/json",
        "application/x-sh",
        "application/toml",
    ],
)
@pytest.mark.parametrize("inputs", [[], ["document"]])
async def test_a_text_of_a_type_that_says_little_is_read(mime_type: str, inputs: list[str]) -> None:
    blobs = InMemoryBlobs()
    (loaded,) = await shown(blobs, await file(blobs, "f", mime_type, b"a,b"), inputs=inputs)
    assert isinstance(loaded, TextPart)
    assert loaded.text.endswith("]\na,b")


@pytest.mark.parametrize(
    "data",
    [b"PK\x03\x04\0\0", b"\xd0\xcf\x11\xe0\xa1", b"\x7fELF\0", b"x" * (MAX_TEXT_BYTES + 1)],
    ids=["zip", "office", "program", "long"],
)
async def test_bytes_of_a_type_that_says_little_are_a_note(data: bytes) -> None:
    blobs = InMemoryBlobs()
    part = await file(blobs, "f", "application/octet-stream", data)
    noted = TextPart(text="[file: f.x, application/octet-stream]")
    assert await shown(blobs, part) == (noted,)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
async def test_a_text_is_read_as_its_mark_says(encoding: str) -> None:
    blobs = InMemoryBlobs()
    (loaded,) = await shown(blobs, await file(blobs, "f", "text/csv", "ü,1".encode(encoding)))
    assert loaded == TextPart(text="[file: f.x, text/csv]\nü,1")


async def test_a_sheet_that_is_long_csv_is_a_note_and_no_document() -> None:
    blobs = InMemoryBlobs()
    excel = "application/vnd.ms-excel"
    part = await file(blobs, "f", excel, b"1,2\n" * MAX_TEXT_BYTES)
    (noted,) = await shown(blobs, part, inputs=["document"])
    assert noted == TextPart(text="[file: f.x, text/csv]")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\0\0\0 ftypheic\0\0\0\0mif1heic", "image/heic"),
        (b"\0\0\0 ftypmif1\0\0\0\0", "image/heic"),
        (b"\0\0\0 ftypavif\0\0\0\0", "image/avif"),
        (b"II*\0\x08\0\0\0", "image/tiff"),
    ],
)
async def test_a_picture_that_no_model_sees_is_a_note_whatever_it_is_called(
    data: bytes, kind: str
) -> None:
    blobs = InMemoryBlobs()
    part = await file(blobs, "f", "image/png", data)
    assert await shown(blobs, part) == (TextPart(text=f"[file: f.x, {kind}]"),)


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


async def files_of_history(blobs: InMemoryBlobs, count: int, size: int) -> Prompt:
    """A prompt of so many messages, each with a PDF file of this size."""
    data = bytes(size)
    parts = [await file(blobs, f"f{n}", "application/pdf", data) for n in range(count)]
    return Prompt(model="m", messages=tuple(message(part) for part in parts))


async def test_of_files_too_large_together_only_those_with_room_are_read() -> None:
    blobs = Measuring()
    prompt = await files_of_history(blobs, 20, MAX_FILE)
    loaded = await Attachments(Files(blobs, ANN)).loaded(prompt)
    assert blobs.sizes == [MAX_FILE]
    assert [isinstance(m.content[0], FilePart) for m in loaded.messages] == [False] * 19 + [True]


async def test_a_file_that_has_room_behind_a_larger_one_without_is_read() -> None:
    blobs = Measuring()
    small = await file(blobs, "small", "application/pdf", bytes(10))
    large = [await file(blobs, f, "application/pdf", bytes(MAX_FILE)) for f in ("a", "b")]
    prompt = Prompt(model="m", messages=tuple(message(part) for part in (small, *large)))
    loaded = await Attachments(Files(blobs, ANN)).loaded(prompt)
    assert blobs.sizes == [MAX_FILE, 10]
    assert [isinstance(m.content[0], FilePart) for m in loaded.messages] == [True, False, True]


@pytest.mark.parametrize(("more", "is_sent"), [(0, True), (1, False)])
async def test_the_room_is_measured_as_the_request_has_it(more: int, is_sent: bool) -> None:
    blobs = Measuring()
    prefix = len("data:application/pdf;base64,")
    size = (MAX_PROMPT_BYTES - prefix) // 4 * 3 + more
    part = await file(blobs, "f", "application/pdf", bytes(size))
    (loaded,) = await shown(blobs, part)
    assert blobs.sizes == [size] * is_sent
    assert isinstance(loaded, FilePart) is is_sent
    assert len(getattr(loaded, "url", "")) <= MAX_PROMPT_BYTES


async def test_a_file_that_two_messages_name_takes_room_twice_and_is_read_once() -> None:
    blobs = Measuring()
    part = await file(blobs, "f", "application/pdf", bytes(MAX_FILE))
    prompt = Prompt(model="m", messages=(message(part), message(part)))
    loaded = await Attachments(Files(blobs, ANN)).loaded(prompt)
    assert blobs.sizes == [MAX_FILE]
    assert [isinstance(m.content[0], FilePart) for m in loaded.messages] == [False, True]


@pytest.mark.parametrize(
    ("inputs", "most"), [([], MAX_TEXT_BYTES), (["text"], MAX_LONG_TEXT_BYTES)]
)
async def test_a_text_that_is_too_large_to_be_shown_is_not_read(
    inputs: list[str], most: int
) -> None:
    blobs = Measuring()
    part = await file(blobs, "f", "text/plain", b"x" * (most + 1))
    assert await shown(blobs, part, inputs=inputs) == (TextPart(text="[file: f.x, text/plain]"),)
    assert blobs.sizes == []


async def test_a_file_that_goes_between_the_two_requests_is_a_note() -> None:
    blobs = Losing()
    part = await file(blobs, "f", "application/pdf", b"x")
    noted = TextPart(text="[file: f.x, application/pdf, no longer available]")
    assert await shown(blobs, part) == (noted,)


async def test_files_that_a_later_prompt_leaves_out_stay_in_no_memory() -> None:
    blobs = Measuring()
    prompt = await files_of_history(blobs, 3, MAX_FILE)
    attachments = Attachments(Files(blobs, ANN))
    tracemalloc.start()
    try:
        for each in prompt.messages:
            await attachments.loaded(prompt.model_copy(update={"messages": (each,)}))
        most = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert most < MAX_PROMPT_BYTES


async def test_files_of_a_history_take_little_more_memory_than_a_request_may_have() -> None:
    blobs = Measuring()
    prompt = await files_of_history(blobs, 20, MAX_FILE)
    attachments = Attachments(Files(blobs, ANN))
    tracemalloc.start()
    try:
        await attachments.loaded(prompt)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * MAX_PROMPT_BYTES


async def test_the_input_and_the_history_show_files_first() -> None:
    blobs = InMemoryBlobs()
    made = Bench(Agent("helper", model="m"), [say("one"), say("two"), say("three")], blobs=blobs)
    await made.go()
    part = await file(blobs, "f", "video/mp4", b"x")
    given: list[InputPart] = [TextPart(text="see"), part]
    run_id = await made.start(given)
    await made.drive(run_id)
    await made.go("next")
    note = "[file: f.x, video/mp4]"
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
