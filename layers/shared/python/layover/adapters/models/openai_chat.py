"""Any provider that speaks OpenAI's Chat Completions.

The `openai` package brings the connection; bodies, streams and retries are done here, because its own
parameter transforms cost 4 ms at 20 messages, and its stream objects throw the connection away
(docs/performance.md#openai-client)."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from layover.adapters.models import wire
from layover.adapters.models.faults import (
    ProviderFault,
    disconnected,
    from_event,
    from_status,
    invalid,
    shown_url,
    unusable,
)
from layover.adapters.models.replies import Assembly, decoded
from layover.adapters.models.retrying import Sleep, retrying
from layover.adapters.models.sse import EventParser, ServerEvent
from layover.errors import ModelError
from layover.ids import RandomIds
from layover.ports import ChatModel, Ids, OnDelta
from layover.values.prompt import Delta, Prompt, Reply

if TYPE_CHECKING:
    import httpx2
    from openai import APIStatusError, AsyncOpenAI

logger = logging.getLogger("layover")

OPENAI_BASE_URL = "https://api.openai.com/v1"

CONNECT_TIMEOUT_S = 5.0
SILENCE_TIMEOUT_S = 120.0
"""The longest pause between two chunks of a stream."""
PLAIN_TIMEOUT_S = 600.0
"""A plain call is silent until it is done."""
KEEP_ALIVE_S = 120.0
"""Longer than the 5 s of the client's default: a tool may run between two model calls."""
DRAIN_TIMEOUT_S = 0.5
"""How long the end of the body is waited for after `[DONE]`, so that the connection can be used again."""


class OpenAIChat(ChatModel):
    """One client for each event loop; nothing is imported or opened before the first call.

    `prompt_cache_key`: whether to send that field. A provider that refuses an optional field by name is
    not sent it again."""

    def __init__(
        self,
        api_key: str | None,
        base_url: str | None = None,
        *,
        prompt_cache_key: bool = True,
        ids: Ids | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._api_key = api_key or "none"  # servers of one's own often want no key
        self._base_url = base_url or OPENAI_BASE_URL
        self._left_out = frozenset() if prompt_cache_key else frozenset({"prompt_cache_key"})
        self._ids = ids or RandomIds()
        self._sleep = sleep
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = (
            WeakKeyDictionary()
        )

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """One reply; see the port. Deltas are told only where `prompt.stream` asks for a stream."""
        while True:
            request = wire.body(prompt, self._left_out)
            try:
                return await self._complete(prompt, request, on_delta)
            except ModelError as error:
                refused = _refused_fields(error, request)
                if not refused:
                    raise
                self._left_out |= refused

    async def _complete(
        self, prompt: Prompt, request: wire.Body, on_delta: OnDelta | None
    ) -> Reply:
        body = wire.encoded(request)

        async def attempt() -> Reply:
            if prompt.stream:
                return await self._stream(prompt, body, on_delta)
            return await self._plain(prompt, body)

        async def restart(fault: ProviderFault) -> None:
            what = fault.error.status or fault.error.type
            logger.warning(
                "%s at %s: %s; asked again", request["model"], shown_url(self._url()), what
            )
            if fault.started:
                await _tell(on_delta, [Delta(kind="restart")])

        try:
            return await retrying(attempt, self._sleep, restart)
        except ProviderFault as fault:
            fault.name_provider(self._url(), request["model"])
            raise fault.error from fault.__cause__

    async def aclose(self) -> None:
        """Close this event loop's connections; the next call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def _plain(self, prompt: Prompt, body: bytes) -> Reply:
        response = await self._post(prompt, body, PLAIN_TIMEOUT_S, stream=False)
        return self._whole(prompt, response)[0]

    def _whole(self, prompt: Prompt, response: "httpx2.Response") -> tuple[Reply, list[Delta]]:
        assembly = Assembly(self._ids, wire.model(prompt))
        deltas = assembly.add(decoded(response.text))
        return assembly.reply(), deltas

    async def _stream(self, prompt: Prompt, body: bytes, on_delta: OnDelta | None) -> Reply:
        response = await self._post(prompt, body, SILENCE_TIMEOUT_S, stream=True)
        try:
            if not _is_whole(response):
                return await self._assemble(prompt, response, on_delta)
            await _read(response)
            reply, deltas = self._whole(prompt, response)
            await _tell(on_delta, deltas)
            return reply
        finally:
            await response.aclose()

    async def _assemble(
        self, prompt: Prompt, response: "httpx2.Response", on_delta: OnDelta | None
    ) -> Reply:
        assembly = Assembly(self._ids, wire.model(prompt))
        started = False
        events = _events(response)
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    if event.data == "[DONE]":
                        await _drain(events)
                        return assembly.reply()
                    deltas = _taken(assembly, event)
                    started = True
                    await _tell(on_delta, deltas)
            if not assembly.finished:
                raise invalid("The model's stream broke off before its end")
        except ProviderFault as fault:
            if assembly.finished and fault.is_disconnection:
                return assembly.reply()  # all but the usage had come
            fault.started = started
            raise
        return assembly.reply()

    async def _post(
        self, prompt: Prompt, body: bytes, silence_s: float, *, stream: bool
    ) -> "httpx2.Response":
        """The response: read, or open where `stream`. Raises ProviderFault."""
        import httpx2
        from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncStream

        options: Any = {
            "headers": wire.headers(prompt),
            "timeout": httpx2.Timeout(silence_s, connect=CONNECT_TIMEOUT_S),
        }
        try:
            response = await self._client().post(
                "/chat/completions",
                content=body,
                cast_to=httpx2.Response,
                options=options,
                stream=stream,
                stream_cls=AsyncStream[Any] if stream else None,
            )
        except APIStatusError as error:
            raise _refused(error) from error
        except APIConnectionError as error:
            raise disconnected(error, timeout=isinstance(error, APITimeoutError)) from error
        except httpx2.HTTPError as error:
            raise disconnected(error, timeout=False) from error
        except (httpx2.InvalidURL, UnicodeError, ExceptionGroup) as error:
            raise unusable(error) from error
        assert isinstance(response, httpx2.Response)
        return response

    def _url(self) -> str:
        client = self._clients.get(asyncio.get_running_loop())
        return str(client.base_url) if client is not None else self._base_url

    def _client(self) -> "AsyncOpenAI":
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._connect()
        return client

    def _connect(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI

        return AsyncOpenAI(
            api_key=self._api_key,
            base_url=self._base_url,
            max_retries=0,
            http_client=connections(),
        )


def connections() -> "httpx2.AsyncClient":
    """A pool for model calls, of one event loop."""
    import httpx2
    from openai import DefaultAsyncHttpxClient

    limits = httpx2.Limits(
        max_connections=1000, max_keepalive_connections=100, keepalive_expiry=KEEP_ALIVE_S
    )
    return DefaultAsyncHttpxClient(limits=limits)


def _refused_fields(error: ModelError, request: wire.Body) -> frozenset[str]:
    """Some hosts (Mistral, Gemini) refuse fields that they do not know, and name them. A body that was
    sent without the field is refused for something else."""
    if error.status not in (400, 422):
        return frozenset()
    return frozenset(f for f in wire.OPTIONAL if f in request and f in error.message)


async def _events(response: "httpx2.Response") -> AsyncGenerator[ServerEvent, None]:
    """The events of a stream until its end. Raises ProviderFault where the connection breaks."""
    import httpx2

    parser = EventParser()
    try:
        async for chunk in response.aiter_bytes():
            for event in parser.feed(chunk):
                yield event
    except httpx2.HTTPError as error:
        raise disconnected(error, timeout=isinstance(error, httpx2.TimeoutException)) from error
    for event in parser.end():
        yield event


def _taken(assembly: Assembly, event: ServerEvent) -> list[Delta]:
    if event.name == "error":
        raise from_event(_json_or_text(event.data))
    return assembly.add(decoded(event.data)) if event.data.strip() else []


async def _drain(events: AsyncIterator[ServerEvent]) -> None:
    """Read to the end of the body: only then the connection serves the next call."""
    with contextlib.suppress(TimeoutError, ProviderFault):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in events:
                pass


async def _read(response: "httpx2.Response") -> None:
    import httpx2

    try:
        await response.aread()
    except httpx2.HTTPError as error:
        raise disconnected(error, timeout=isinstance(error, httpx2.TimeoutException)) from error


async def _tell(on_delta: OnDelta | None, deltas: Sequence[Delta]) -> None:
    if on_delta is None:
        return
    for delta in deltas:
        told = on_delta(delta)
        if told is not None:
            await told


def _is_whole(response: "httpx2.Response") -> bool:
    """Some servers answer a request for a stream with one document, proxies with a page."""
    kind = response.headers.get("content-type", "")
    return str(kind).startswith(("application/json", "text/html"))


def _refused(error: "APIStatusError") -> ProviderFault:
    response = error.response
    return from_status(response.status_code, _json_or_text(response.text), response.headers)


def _json_or_text(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
