"""Bedrock's Converse and ConverseStream: Claude, Nova, Llama and all other models that it serves."""

import contextlib
import struct
from collections.abc import AsyncGenerator, Iterator
from typing import Any
from urllib.parse import quote

from botocore.eventstream import EventStreamBuffer, EventStreamMessage, ParserError

from layover.adapters.http.client import Response
from layover.plugins.models import wire
from layover.plugins.models.bedrock import request
from layover.plugins.models.bedrock.faults import failed
from layover.plugins.models.bedrock.reply import ConverseReply
from layover.plugins.models.endpoint import json_or_text
from layover.plugins.models.faults import invalid
from layover.plugins.models.http_chat import END, HttpChat, receive
from layover.values.prompt import Prompt

_STREAM = "application/vnd.amazon.eventstream"
_LAST = "metadata"
"""The event after which none follows."""


class ConverseChat(HttpChat):
    """`endpoint`: of `bedrock-runtime`. Models are named by their ids."""

    def _name(self, prompt: Prompt) -> str:
        return prompt.model

    def _request(self, prompt: Prompt, left_out: frozenset[str]) -> wire.Body:
        self._say_unsent(prompt.model, request.unsupported_settings(prompt))
        return request.body(prompt, left_out, self._provider)

    def _removable(self, prompt: Prompt, request_: wire.Body) -> frozenset[str]:
        return request.removable(prompt, request_)

    def _streams(self, prompt: Prompt, request_: wire.Body) -> bool:
        return request.streams(prompt, self._refused.get(prompt.model, frozenset()))

    def _path(self, prompt: Prompt, *, stream: bool) -> str:
        operation = "converse-stream" if stream else "converse"
        return f"/model/{quote(prompt.model, safe='')}/{operation}"

    def _headers(self, prompt: Prompt, *, stream: bool) -> dict[str, str]:
        accept = {"accept": _STREAM} if stream else {}
        return {**super()._headers(prompt, stream=stream), **accept}

    def _assembly(self, prompt: Prompt) -> ConverseReply:
        output = request.output_tool(prompt)
        return ConverseReply(self._ids, prompt.model, self._provider, output)

    async def _chunks(self, response: Response) -> AsyncGenerator[Iterator[object], None]:
        buffer = EventStreamBuffer()
        async with contextlib.aclosing(receive(response)) as pieces:
            async for piece in pieces:
                yield _events(buffer, piece)


def _events(buffer: EventStreamBuffer, piece: bytes) -> Iterator[object]:
    """The events that this piece completes; END after the last one."""
    buffer.add_data(piece)
    try:
        for frame in buffer:
            event = _event(frame)
            yield event
            if _LAST in event:
                yield END
    except (ParserError, KeyError, ValueError, struct.error) as error:
        raise invalid(f"Bedrock's stream cannot be read: {error}") from error


def _event(frame: EventStreamMessage) -> dict[str, object]:
    """`{EVENT: its payload}`. Raises ProviderFault for an error in the place of an event."""
    headers: Any = frame.headers  # botocore-stubs have a number here
    kind = headers.get(":message-type", "event")
    payload = json_or_text(frame.payload.decode("utf-8", "replace"))
    if kind == "exception":
        name = headers.get(":exception-type", "")
        raise failed(name[:1].upper() + name[1:], payload)
    if kind == "error":
        body = {"message": headers.get(":error-message", "")}
        raise failed(headers.get(":error-code", ""), body)
    return {headers.get(":event-type", ""): payload}
