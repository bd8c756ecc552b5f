"""A user's message in the words of a protocol, as a chat takes it. A part is used, refused by name, or named
among what was passed over: none is left out without a word."""

from collections.abc import Mapping, Sequence
from typing import Any

from layover.errors import InvalidRequest
from layover.plugins.fronts.chat.parts import ClientFile, ClientMessage, ClientPart
from layover.values.message import DataPart, TextPart

_MEDIA = frozenset({"image", "audio", "video", "document", "binary"})
_ANY_OF_KIND = {kind: f"{kind}/*" for kind in ("image", "audio", "video")}
_FILES = "/files/"


def ui_message(id: str, parts: Sequence[Mapping[str, Any]]) -> ClientMessage:
    """Return a message of the AI SDK."""
    client_parts: list[ClientPart] = []
    passed_over: list[str] = []
    for part in parts:
        kind = str(part.get("type"))
        if kind == "text":
            client_parts.append(TextPart(text=str(part.get("text", ""))))
        elif kind == "file":
            url, name = str(part.get("url", "")), _text(part.get("filename"))
            client_parts.append(ClientFile(url, name, _text(part.get("mediaType"))))
        elif kind.startswith("data-"):
            client_parts.append(DataPart(name=kind.removeprefix("data-"), data=part.get("data")))
        else:
            passed_over.append(f"parts: {kind}")
    return ClientMessage(id, tuple(client_parts), passed_over=tuple(dict.fromkeys(passed_over)))


def ag_ui_message(
    id: str,
    content: str | Sequence[Mapping[str, Any]] | None,
    context: Sequence[Mapping[str, Any]] = (),
) -> ClientMessage:
    """Return a message of AG-UI 1.0, or of the versions before it (`binary`). Raises InvalidRequest."""
    if isinstance(content, str):
        return ClientMessage(id, (TextPart(text=content),), tuple(context))
    client_parts: list[ClientPart] = []
    passed_over: list[str] = []
    for part in content or ():
        kind = str(part.get("type"))
        if kind == "text":
            client_parts.append(TextPart(text=str(part.get("text", ""))))
        elif kind in _MEDIA:
            client_parts.append(_media(kind, part))
        else:
            passed_over.append(f"content: {kind}")
    return ClientMessage(id, tuple(client_parts), tuple(context), tuple(dict.fromkeys(passed_over)))


def _media(kind: str, part: Mapping[str, Any]) -> ClientFile:
    """Return a file. Each version has its own place for the address, the bytes and the name."""
    source, metadata = part.get("source"), part.get("metadata")
    at: Mapping[str, Any] = source if isinstance(source, Mapping) else part
    about: Mapping[str, Any] = metadata if isinstance(metadata, Mapping) else {}
    name = next(filter(None, map(_text, (part.get("filename"), about.get("filename")))), None)
    mime_type = _text(at.get("mimeType")) or _text(part.get("mimeType"))
    data = _text(part.get("data") if at is part else _value(at, "data"))
    url = _text(part.get("url") if at is part else _value(at, "url"))
    if data is not None:
        address = data if data.startswith("data:") else f"data:{mime_type or ''};base64,{data}"
        return ClientFile(address, name, mime_type)
    if url is None:
        raise _unreadable(kind, at)
    has_own_type = url.startswith(("data:", _FILES))
    return ClientFile(url, name, mime_type or (None if has_own_type else _ANY_OF_KIND.get(kind)))


def _value(source: Mapping[str, Any], kind: str) -> Any:
    return source.get("value") if source.get("type") == kind else None


def _unreadable(kind: str, source: Mapping[str, Any]) -> InvalidRequest:
    what = (
        "an id" if source.get("id") or source.get("type") == "file" else "no bytes and no address"
    )
    message = (
        f"a part of the type {kind} has {what}, by which Layover cannot read the file: send its bytes, its "
        "https address, or /files/ID as its address"
    )
    return InvalidRequest(
        message, [{"loc": ["body", "messages"], "msg": message, "type": "unreadable_part"}]
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
