"""The bytes of files, put into a prompt just before the model call (docs/behaviour.md#files)."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from layover.batches import batched
from layover.context.results import shown_files
from layover.files.store import Files
from layover.values.file import IMAGES, bare_type, true_type
from layover.values.message import FilePart, Message, Part, Role, TextPart, name_file
from layover.values.prompt import Prompt
from layover.values.runs.model_settings import Input

_OFFICE = "application/vnd.openxmlformats-officedocument"
FILES = frozenset({"application/pdf"})
"""Every model gets files of these types as file parts, whatever its `inputs`."""
DOCUMENTS = frozenset(
    {
        f"{_OFFICE}.wordprocessingml.document",
        f"{_OFFICE}.spreadsheetml.sheet",
        "application/msword",
        "application/vnd.ms-excel",
    }
)
MAX_PROMPT_BYTES = 32 * 1024 * 1024
"""The limit for all files of a prompt, the newest first: a request has to fit into memory, and providers
refuse larger ones."""
MAX_TEXT_BYTES = 16 * 1024
"""The limit for a text file that is shown as text behind its name."""
MAX_LONG_TEXT_BYTES = 512 * 1024
"""The same limit if the model's `inputs` have `text`."""
_MAX_CONCURRENT = 8
"""Files whose sizes are asked for at once."""
_PIECE = 3 * 256 * 1024
"""Bytes that are encoded at once: a multiple of 3, so that only the last piece is padded."""


class Attachments:
    """Files of a run's prompts. Only files that the prompt shows are read, each once as long as later prompts
    show it as well."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._sizes: dict[str, int | None] = {}
        self._loaded: dict[tuple[str, tuple[Input, ...]], Part] = {}

    async def loaded(self, prompt: Prompt) -> Prompt:
        """Return the prompt with the files' bytes in place of references. The same files give the same
        bytes. Raises RetryableError."""
        inputs = prompt.settings.inputs
        if not [p for m in prompt.messages for p in m.content if isinstance(p, FilePart)]:
            return prompt
        parts = [part for m in reversed(prompt.messages) for part in _references(m)]
        if not parts:
            return prompt
        await self._ask_sizes([part for part in parts if _shows_bytes(part, inputs)])
        notes = self._notes(parts, inputs)
        # Before anything is read, so that the files of two prompts are never in memory together.
        ids = {part.file_id for part, note in zip(parts, notes, strict=True) if note is None}
        self._loaded = {key: part for key, part in self._loaded.items() if key[0] in ids}
        contents = [
            note or await self._part(part, inputs) for part, note in zip(parts, notes, strict=True)
        ]
        return prompt.model_copy(update={"messages": _replaced(prompt.messages, contents)})

    async def _ask_sizes(self, parts: Sequence[FilePart]) -> None:
        """Ask for the sizes of these files that are not known yet. Nothing is read."""
        unknown = dict.fromkeys(_id(part) for part in parts if _id(part) not in self._sizes)
        for some in batched(list(unknown), _MAX_CONCURRENT):
            sizes = await asyncio.gather(*map(self._files.data_size, some))
            self._sizes.update(zip(some, sizes, strict=True))

    def _notes(self, parts: Sequence[FilePart], inputs: tuple[Input, ...]) -> list[TextPart | None]:
        """Return for each file the note in its place, None for one that is shown. The first files have
        the room."""
        notes: list[TextPart | None] = []
        room = MAX_PROMPT_BYTES
        for part in parts:
            note = self._note_instead(part, inputs)
            if note is None and _takes(inputs, _kind(part)):
                url_size = _url_size(part, self._sizes[_id(part)] or 0)
                if url_size > room:
                    note = _note(part, "left out, as the files are too large together")
                else:
                    room -= url_size
            notes.append(note)
        return notes

    def _note_instead(self, part: FilePart, inputs: tuple[Input, ...]) -> TextPart | None:
        """Return the note in place of a file that is not shown, whatever the room."""
        if not _shows_bytes(part, inputs):
            return _note(part)
        size = self._sizes[_id(part)]
        if size is None:
            return _note(part, "no longer available")
        if size == 0:
            return _note(part, "empty")
        is_shown = _takes(inputs, _kind(part)) or size <= _max_text(inputs)
        return None if is_shown else _note(part)

    async def _part(self, part: FilePart, inputs: tuple[Input, ...]) -> Part:
        key = _id(part), inputs
        if key not in self._loaded:
            self._loaded[key] = await self._load(part, inputs)
        return self._loaded[key]

    async def _load(self, part: FilePart, inputs: tuple[Input, ...]) -> Part:
        data = await self._files.data(_id(part))
        if data is None:
            self._sizes[_id(part)] = None
            return _note(part, "no longer available")
        if _takes(inputs, _kind(part)):
            part = part.model_copy(update={"mime_type": true_type(part.mime_type, data)})
        if not _takes(inputs, _kind(part)):
            is_short = _may_be_text(part) and len(data) <= _max_text(inputs)
            return _text(part, data) if is_short else _note(part)
        pieces = [_url_prefix(part), *_encoded(data)]
        del data  # A large file, its pieces and its URL would be in memory at once.
        return FilePart(url="".join(pieces), name=part.name, mime_type=_kind(part))


def _refers(part: Part) -> TypeGuard[FilePart]:
    return isinstance(part, FilePart) and part.file_id is not None


def _references(message: Message) -> list[FilePart]:
    """Return the files of a message whose bytes are the run's to load."""
    return [part for part in shown_files(message) if _refers(part)]


def _replaced(messages: Sequence[Message], contents: Sequence[Part]) -> tuple[Message, ...]:
    """Return the messages with these parts in place of their files: the newest message has the first."""
    rest = iter(contents)
    replaced = [
        _with_parts(m, {_id(part): next(rest) for part in parts})
        if (parts := _references(m))
        else m
        for m in reversed(messages)
    ]
    return tuple(reversed(replaced))


def _with_parts(message: Message, parts: Mapping[str, Part]) -> Message:
    """Return the message with these parts in place of its files, by their ids. A file of a result keeps its
    id, by which the result's text tells its place."""
    from layover.context.result_files import with_notes

    is_result = message.role is Role.TOOL
    loaded = {
        id: part.model_copy(update={"file_id": id}) if is_result else part
        for id, part in parts.items()
        if isinstance(part, FilePart)
    }
    notes = {id: part.text for id, part in parts.items() if isinstance(part, TextPart)}
    content = tuple(
        loaded.get(_id(part), part) if _refers(part) else part for part in message.content
    )
    return with_notes(message.with_content(content), notes)


def _id(part: FilePart) -> str:
    return part.file_id or ""


def _kind(part: FilePart) -> str:
    return bare_type(part.mime_type or "")


def _may_be_text(part: FilePart) -> bool:
    """Return whether the bytes may be a text. Types say little: a client that does not know an ending calls
    it `application/octet-stream`."""
    return not _kind(part).startswith(("image/", "audio/", "video/", "font/"))


def _shows_bytes(part: FilePart, inputs: tuple[Input, ...]) -> bool:
    """Return whether a model with these inputs may get more of the file than its name and its type."""
    return _may_be_text(part) or _takes(inputs, _kind(part))


def _max_text(inputs: tuple[Input, ...]) -> int:
    return MAX_LONG_TEXT_BYTES if "text" in inputs else MAX_TEXT_BYTES


def _url_prefix(part: FilePart) -> str:
    return f"data:{_kind(part)};base64,"


def _url_size(part: FilePart, size: int) -> int:
    """Return the characters of the data URL of a file of so many bytes."""
    return len(_url_prefix(part)) + (size + 2) // 3 * 4


def _encoded(data: bytes) -> list[str]:
    """Return the text of a data URL behind its prefix, in pieces."""
    view = memoryview(data)
    pieces = (view[start : start + _PIECE] for start in range(0, len(data), _PIECE))
    return [base64.b64encode(piece).decode() for piece in pieces]


def _note(part: FilePart, more: str = "") -> TextPart:
    return TextPart(text=name_file(part, part.mime_type, more))


def _takes(inputs: tuple[Input, ...], kind: str) -> bool:
    """Return whether a model with these inputs gets the bytes of this type."""
    if kind in IMAGES | FILES or (kind in DOCUMENTS and "document" in inputs):
        return True
    medium = kind.partition("/")[0]
    return medium in ("audio", "video") and medium in inputs


def _text(part: FilePart, data: bytes) -> TextPart:
    """Return the text unchanged; a file whose bytes are not one becomes its name and type."""
    from layover.values.encodings import decode

    try:
        return TextPart(text=f"{_note(part).text}\n{decode(data)}")
    except ValueError:
        return _note(part, "not a text in UTF-8" if _kind(part).startswith("text/") else "")
