"""The bytes of files, put into a prompt just before the model call (docs/behaviour.md#files)."""

import base64
from collections.abc import Sequence

from layover.files.store import Files
from layover.values.file import IMAGES, bare_type
from layover.values.message import FilePart, Message, Part, Role, TextPart
from layover.values.prompt import Prompt
from layover.values.runs.model_settings import Input

_OFFICE = "application/vnd.openxmlformats-officedocument"
FILES = frozenset({"application/pdf"})
"""Every model gets files of these types as file parts, whatever its `inputs`. Of files of other types it
reads only the name and the type."""
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
READABLE = frozenset({"application/json", "application/xml", "application/x-yaml"})
MAX_TEXT_BYTES = 16 * 1024
"""The limit for a text file that is shown as text behind its name."""
MAX_LONG_TEXT_BYTES = 512 * 1024
"""The same limit if the model's `inputs` have `text`."""


class Attachments:
    """Files of a run's prompts. Each is loaded once in an invocation."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._loaded: dict[tuple[str, tuple[Input, ...]], Part] = {}

    async def loaded(self, prompt: Prompt) -> Prompt:
        """Return the prompt with the files' bytes in place of references. The same files give the same
        bytes."""
        if not any(_references(m) for m in prompt.messages if m.role is Role.USER):
            return prompt
        messages = list(prompt.messages)
        room = MAX_PROMPT_BYTES
        for at in range(len(messages) - 1, -1, -1):
            if _references(messages[at]):
                inputs = prompt.settings.inputs
                content, room = await self._content(messages[at].content, room, inputs)
                messages[at] = messages[at].with_content(content)
        return prompt.model_copy(update={"messages": tuple(messages)})

    async def _content(
        self, parts: Sequence[Part], room: int, inputs: tuple[Input, ...]
    ) -> tuple[tuple[Part, ...], int]:
        content: list[Part] = []
        for part in parts:
            if isinstance(part, FilePart) and part.file_id is not None:
                file_content = await self._part(part, part.file_id, inputs)
                size = len(file_content.url or "") if isinstance(file_content, FilePart) else 0
                if size > room:
                    file_content, size = (
                        _note(part, "left out, as the files are too large together"),
                        0,
                    )
                room -= size
                content.append(file_content)
            else:
                content.append(part)
        return tuple(content), room

    async def _part(self, part: FilePart, file_id: str, inputs: tuple[Input, ...]) -> Part:
        key = file_id, inputs
        if key not in self._loaded:
            self._loaded[key] = await self._load(part, file_id, inputs)
        return self._loaded[key]

    async def _load(self, part: FilePart, file_id: str, inputs: tuple[Input, ...]) -> Part:
        kind = bare_type(part.mime_type or "")
        is_text = kind.startswith("text/") or kind in READABLE
        if not is_text and not _takes(inputs, kind):
            return _note(part)
        data = await self._files.data(file_id)
        if data is None:
            return _note(part, "no longer available")
        if is_text:
            return _text(part, data, MAX_LONG_TEXT_BYTES if "text" in inputs else MAX_TEXT_BYTES)
        url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        return FilePart(url=url, name=part.name, mime_type=kind)


def _references(message: Message) -> bool:
    return message.role is Role.USER and any(
        isinstance(p, FilePart) and p.file_id is not None for p in message.content
    )


def _note(part: FilePart, more: str = "") -> TextPart:
    text = ", ".join(t for t in (part.name or "unnamed", part.mime_type, more) if t)
    return TextPart(text=f"[file: {text}]")


def _takes(inputs: tuple[Input, ...], kind: str) -> bool:
    """Return whether a model with these inputs gets the bytes of this type."""
    if kind in IMAGES | FILES or (kind in DOCUMENTS and "document" in inputs):
        return True
    medium = kind.partition("/")[0]
    return medium in ("audio", "video") and medium in inputs


def _text(part: FilePart, data: bytes, most: int) -> TextPart:
    """Return a short text unchanged. A long text, or a file that only claims to be text, becomes its name and
    type."""
    if len(data) > most:
        return _note(part)
    try:
        return TextPart(text=f"{_note(part).text}\n{data.decode()}")
    except UnicodeDecodeError:
        return _note(part)
