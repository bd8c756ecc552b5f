"""Any provider that speaks OpenAI's Chat Completions.

The `openai` package is the reference of the tests and is not imported here: it costs 0.2 s of a cold start,
its parameter transforms 4 ms at 20 messages, and its stream objects throw the connection away
(docs/performance.md#openai-client)."""

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence, Set
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from layover.adapters.models import opaque, wire
from layover.adapters.models.endpoint import Endpoint, bearer, broken, json_or_text, read
from layover.adapters.models.faults import (
    ProviderFault,
    disconnected,
    from_event,
    invalid,
    shown_url,
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

logger = logging.getLogger("layover")

OPENAI_BASE_URL = "https://api.openai.com/v1"
PATH = "/chat/completions"

SILENCE_TIMEOUT_S = 120.0
"""The longest pause between two chunks of a stream."""
PLAIN_TIMEOUT_S = 600.0
"""A plain call is silent until it is done."""
DRAIN_TIMEOUT_S = 0.5
"""How long the end of the body is waited for after `[DONE]`, so that the connection can be used again."""


class OpenAIChat(ChatModel):
    """One pool of connections for each event loop; nothing is opened before the first call.

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
        # Servers of one's own often want no key.
        self._endpoint = Endpoint(base_url or OPENAI_BASE_URL, bearer(api_key or "none"))
        self._left_out = frozenset() if prompt_cache_key else frozenset({"prompt_cache_key"})
        self._refused: dict[str, frozenset[str]] = {}
        """Settings that a model has refused, by model."""
        self._ids = ids or RandomIds()
        self._sleep = sleep

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """One reply; see the port. Deltas are told only where `prompt.stream` asks for a stream."""
        while True:
            name = wire.model(prompt)
            left_out = self._left_out | self._refused.get(name, frozenset())
            request = wire.body(prompt, left_out, self._provider)
            try:
                return await self._complete(prompt, request, on_delta)
            except ModelError as error:
                unknown = _unknown_fields(error, request)
                sent = request.keys() | (opaque.FIELDS - left_out)
                refused = _refused_settings(error, wire.removable(prompt) & sent)
                if not unknown | refused:
                    raise
                self._left_out |= unknown
                self._refuse(name, refused)

    def _refuse(self, model: str, settings: frozenset[str]) -> None:
        if not settings:
            return
        logger.warning("%s takes no %s: not sent to it again", model, ", ".join(sorted(settings)))
        self._refused[model] = self._refused.get(model, frozenset()) | settings

    async def _complete(
        self, prompt: Prompt, request: wire.Body, on_delta: OnDelta | None
    ) -> Reply:
        body = wire.encoded(request)

        async def attempt() -> Reply:
            if prompt.stream:
                return await _within(prompt, self._stream(prompt, body, on_delta))
            return await _within(prompt, self._plain(prompt, body))

        async def restart(fault: ProviderFault) -> None:
            what = fault.error.status or fault.error.type
            logger.warning(
                "%s at %s: %s; asked again",
                request["model"],
                shown_url(self.base_url),
                what,
            )
            if fault.started:
                await _tell(on_delta, [Delta(kind="restart")])

        try:
            return await retrying(attempt, self._sleep, restart)
        except ProviderFault as fault:
            fault.name_provider(self.base_url, request["model"])
            raise fault.error from fault.__cause__

    @property
    def base_url(self) -> str:
        """Where requests go."""
        return self._endpoint.base_url

    @property
    def _provider(self) -> str:
        """Who may see again what it sent: the host, wherever its port is."""
        try:
            return urlsplit(self.base_url).hostname or ""
        except ValueError:  # the request says what is wrong with it
            return ""

    async def aclose(self) -> None:
        """Close this event loop's connections; the next call opens new ones."""
        await self._endpoint.aclose()

    async def _plain(self, prompt: Prompt, body: bytes) -> Reply:
        response = await self._post(prompt, body, PLAIN_TIMEOUT_S, stream=False)
        return self._whole(prompt, response)[0]

    def _whole(self, prompt: Prompt, response: "httpx2.Response") -> tuple[Reply, list[Delta]]:
        assembly = Assembly(self._ids, wire.model(prompt), self._provider)
        deltas = assembly.add(decoded(response.text))
        return assembly.reply(), deltas

    async def _stream(self, prompt: Prompt, body: bytes, on_delta: OnDelta | None) -> Reply:
        response = await self._post(prompt, body, SILENCE_TIMEOUT_S, stream=True)
        try:
            if not _is_whole(response):
                return await self._assemble(prompt, response, on_delta)
            await read(response)
            reply, deltas = self._whole(prompt, response)
            await _tell(on_delta, deltas)
            return reply
        finally:
            await response.aclose()

    async def _assemble(
        self, prompt: Prompt, response: "httpx2.Response", on_delta: OnDelta | None
    ) -> Reply:
        assembly = Assembly(self._ids, wire.model(prompt), self._provider)
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
        headers = wire.headers(prompt)
        return await self._endpoint.post(PATH, body, headers, silence_s, stream=stream)


async def _within(prompt: Prompt, attempt: Coroutine[Any, Any, Reply]) -> Reply:
    """The attempt's reply, in the time that the settings give it. Raises ProviderFault."""
    limit = asyncio.timeout(prompt.settings.timeout)
    try:
        async with limit:
            return await attempt
    except TimeoutError as error:
        if not limit.expired():
            raise
        late = f"no whole reply within {prompt.settings.timeout:g} s"
        raise disconnected(TimeoutError(late), timeout=True) from error


_UNSUPPORTED = re.compile(
    r"unsupported|(not|n't) (be )?(support|permit|allow|accept|recogni[sz]e|available)"
    r"|unknown|unrecogni[sz]ed|unexpected|extra[ _](forbidden|fields|inputs)|no longer|deprecated"
    r"|cannot find field",
    re.I,
)


def _refused_settings(error: ModelError, settings: Set[str]) -> frozenset[str]:
    """Settings that the provider says it does not support. One that is only wrong (too large) is the
    author's to mend: the error names it."""
    if error.status not in (400, 422) or not _UNSUPPORTED.search(error.message):
        return frozenset()
    named = set(re.findall(r"\w+", error.message))
    return frozenset(settings & named)


def _unknown_fields(error: ModelError, request: wire.Body) -> frozenset[str]:
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
        raise broken(error) from error
    for event in parser.end():
        yield event


def _taken(assembly: Assembly, event: ServerEvent) -> list[Delta]:
    if event.name == "error":
        raise from_event(json_or_text(event.data))
    return assembly.add(decoded(event.data)) if event.data.strip() else []


async def _drain(events: AsyncIterator[ServerEvent]) -> None:
    """Read to the end of the body: only then the connection serves the next call."""
    with contextlib.suppress(TimeoutError, ProviderFault):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in events:
                pass


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
