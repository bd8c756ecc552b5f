"""Answers of servers outside as results of several parts (docs/guides/mcp.md#results). Runs that call no such
tool do not import this."""

from collections.abc import Iterator, Sequence
from typing import Any

from layover.declare.context import ToolContext
from layover.declare.schemas.render import Parts, as_text
from layover.declare.tools.served import plain
from layover.ports.tool_servers import (
    BytesContent,
    Content,
    LinkContent,
    ServerAnswer,
    TextContent,
)
from layover.values.base import compact_json, strict_json
from layover.values.file import MAX_NAME, is_mime_type, max_bytes
from layover.values.message import FilePart
from layover.values.text import sanitise

MAX_FILES = 10
"""Files of one result."""
_TOO_MANY = f"[left out: a result has {MAX_FILES} files at most]"


async def parts_of(answer: ServerAnswer, ctx: ToolContext) -> Parts:
    """Return a server's answer as a result: texts, links and files of the run's owner in their order, and its
    data behind them. A text that only repeats the data is left out."""
    data = None if answer.structured is None else sanitise(answer.structured)
    contents = answer.content if data is None else _without_repeated(answer.content, data)
    texts: list[str] = []
    left_out: list[str] = []
    files: list[FilePart] = []
    parts: list[str | FilePart] = []
    for content in contents:
        part: str | FilePart
        if isinstance(content, BytesContent):
            part = await _save(content, ctx) if len(files) < MAX_FILES else _TOO_MANY
            if isinstance(part, str):
                left_out.append(part)
            else:
                files.append(part)
        else:
            part = _text(content)
            texts.append(part)
        parts.append(part)
    named_files = [file.model_dump(mode="json", exclude_none=True) for file in files]
    if data is None:
        value = "\n\n".join([*texts, *left_out])
        with_files = {**({"result": value} if value else {}), "files": named_files}
        return Parts(with_files if files else value, parts, is_error=answer.is_error)
    words = "\n\n".join(filter(None, texts))
    more = {"text": words, "files": named_files, "left_out": left_out}
    more = {name: value for name, value in more.items() if value}
    raw = {"result": data, **more} if more else data
    return Parts(raw, [*parts, as_text(data)], is_error=answer.is_error)


def _text(content: TextContent | LinkContent) -> str:
    if isinstance(content, TextContent):
        return sanitise(content.text)
    return sanitise(f"{content.name}: {content.uri}" if content.name else content.uri)


def _without_repeated(contents: Sequence[Content], data: Any) -> list[Content]:
    """Return what a server says next to its data, without the texts that only repeat it or a part of it, as
    the protocol recommends."""
    if not any(isinstance(content, TextContent) for content in contents):
        return list(contents)
    texts_of_data = frozenset(map(compact_json, _inner(data)))

    def is_repeated(text: str) -> bool:
        try:
            value = strict_json(text)
        except (ValueError, RecursionError):
            value = text
        is_part = (
            isinstance(value, dict) and isinstance(data, dict) and value.items() <= data.items()
        )
        return is_part or not texts_of_data.isdisjoint((compact_json(value), compact_json(text)))

    return [
        content
        for content in contents
        if not isinstance(content, TextContent) or not is_repeated(sanitise(content.text))
    ]


def _inner(data: Any) -> Iterator[Any]:
    """Yield data, its fields and their items: servers repeat it whole or one by one."""
    yield data
    for value in data.values() if isinstance(data, dict) else ():
        yield value
        yield from value if isinstance(value, list) else ()


async def _save(part: BytesContent, ctx: ToolContext) -> FilePart | str:
    """Return the file of a result, or in words why it is not there. The call has taken effect, and what else
    it answered counts."""
    name = " ".join(plain(part.name, MAX_NAME).split()) or "file"
    mime_type = part.mime_type if is_mime_type(part.mime_type) else "application/octet-stream"
    if len(part.data) > max_bytes(mime_type):
        return f"[{name}: larger than a file may be]"
    return await ctx.save_file(name, mime_type, part.data)
