"""A user's message as a front end sends it: its id, and its parts before its files are kept."""

import base64
import binascii
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from layover.errors import InvalidRequest
from layover.files.store import Files, thread_file_facts
from layover.runtime import Runtime
from layover.values.base import Json, compact_json
from layover.values.file import MAX_NAME, is_mime_type, max_bytes, true_type
from layover.values.message import (
    CONTEXT,
    DataPart,
    FilePart,
    InputPart,
    Part,
    TextPart,
    is_context,
)
from layover.values.text import sanitise
from layover.values.thread import ThreadHead

_DATA = "data:"
_OWN = "/files/"


@dataclass(frozen=True)
class ClientFile:
    """A file by its address: `https:`, the whole file as a `data:` URL, or `/files/ID`.

    Args:
        url: The address.
        name: The file's name; None: it has none.
        mime_type: Its type; None: that of a `data:` URL, or unknown.
    """

    url: str
    name: str | None = None
    mime_type: str | None = None


ClientPart = TextPart | DataPart | ClientFile


@dataclass(frozen=True)
class ClientMessage:
    """A user's message.

    Args:
        id: The client's own id of it; empty: it has none.
        parts: What it says.
        context: What the client says about itself at this moment: JSON objects.
        passed_over: Names of what came with it and nothing reads.
    """

    id: str
    parts: tuple[ClientPart, ...]
    context: tuple[Any, ...] = ()
    passed_over: tuple[str, ...] = ()

    @property
    def body_hash(self) -> str:
        """The hash of what it says. When it is sent again, its context may be another."""
        return hash_of(map(_facts, self.parts))

    @property
    def text(self) -> str:
        """All texts, a paragraph each, as `Message.text`."""
        texts = [part.text for part in self.parts if isinstance(part, TextPart) and part.text]
        return str(sanitise("\n\n".join(texts)))


def content_hash(content: Iterable[Part]) -> str:
    """Return what `body_hash` is of the message that a client makes of this content."""
    return hash_of(_facts(_client_part(part)) for part in content if not is_context(part))


def hash_of(facts: Iterable[Any]) -> str:
    """Return the hash of JSON values."""
    text = compact_json(sanitise(list(facts)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


async def input_parts(
    runtime: Runtime, head: ThreadHead, message: ClientMessage
) -> list[InputPart]:
    """Return the parts of a run's input. A file that came whole is kept now. Raises InvalidRequest."""
    parts: list[InputPart] = []
    for part in message.parts:
        parts.append(await _keep(runtime, head, part) if isinstance(part, ClientFile) else part)
    context = [DataPart(name=CONTEXT, data=list(message.context))] if message.context else []
    return [*parts, *context]


async def _keep(runtime: Runtime, head: ThreadHead, file: ClientFile) -> FilePart:
    if file.url.startswith(_OWN):
        return FilePart(file_id=file.url.removeprefix(_OWN))
    if not file.url.startswith(_DATA):
        return FilePart(url=file.url, name=file.name, mime_type=file.mime_type or None)
    given_type, data = _decode(file.url)
    mime_type = true_type(next(filter(is_mime_type, (file.mime_type or "", given_type)), ""), data)
    if file.name and not (mime_type or file.mime_type or given_type):
        # Browsers know no type for some endings.
        mime_type = "application/octet-stream"
    title = (file.name or "file").strip()[:MAX_NAME] or "file"
    if not is_mime_type(mime_type) or not title.isprintable() or len(data) > max_bytes(mime_type):
        raise _invalid("a file of this type, name or size cannot be kept")
    id = runtime.ids.new("file")
    facts = thread_file_facts(
        id, head.id, name=title, mime_type=mime_type, data=data, at=runtime.clock.now()
    )
    await Files(runtime.blobs, head.owner).keep(facts, data)
    return FilePart(file_id=id)


def _client_part(part: Part) -> Any:
    if not isinstance(part, FilePart):
        return part
    url = f"{_OWN}{part.file_id}" if part.file_id is not None else part.url or ""
    return ClientFile(url, part.name, part.mime_type)


def _facts(part: Any) -> Json:
    if isinstance(part, ClientFile):
        # A file of the user's has its name and type already.
        about = [] if part.url.startswith(_OWN) else [part.name, part.mime_type or None]
        return ["file", part.url, *about]
    return part.model_dump(mode="json")


def _decode(url: str) -> tuple[str, bytes]:
    """Return the type and the bytes of a `data:` URL."""
    head, comma, data = url.removeprefix(_DATA).partition(",")
    if not comma:
        raise _invalid("this is not a data: URL")
    raw = unquote_to_bytes(data)
    if not head.endswith(";base64"):
        return head, raw
    try:
        return head.removesuffix(";base64"), base64.b64decode(raw, validate=True)
    except binascii.Error as error:
        raise _invalid("the file is not in base64") from error


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest(message, [{"loc": ["body", "messages"], "msg": message, "type": "file"}])
