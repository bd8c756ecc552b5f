"""The part that all providers' adapters share: send the request, repeat passing faults, read the stream, and
leave out what a model refuses."""

import asyncio
import contextlib
import logging
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Container, Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from layover.adapters.http.client import Response
from layover.clock import loop_time
from layover.context.tokens import estimate, total_tokens
from layover.errors import ModelError
from layover.plugins.models import makers, wire
from layover.plugins.models.circuit import Circuit
from layover.plugins.models.endpoint import Transport, broken, json_or_text, read
from layover.plugins.models.faults import (
    ProviderFault,
    from_event,
    invalid,
    make_disconnect_fault,
    shown_url,
)
from layover.plugins.models.first_bytes import (
    PeekedResponse,
    are_events,
    is_document,
    peek,
    reread,
)
from layover.plugins.models.refusals import refused_format, refused_settings, refuses_streams
from layover.plugins.models.replies import decode
from layover.plugins.models.retrying import Requests, Sleep, retrying
from layover.plugins.models.sse import EventParser, ServerEvent
from layover.ports import ChatModel, Ids, OnDelta, send_deltas
from layover.values.json_answer import json_candidates
from layover.values.prompt import Delta, Prompt, Reply
from layover.values.runs.usage import Usage

if TYPE_CHECKING:
    from layover.plugins.models.repetition import Blanks, Repetition

logger = logging.getLogger("layover")

SILENCE_TIMEOUT_S = 120.0
"""The longest pause between two chunks of a stream, from a server that has room for many."""
PLAIN_TIMEOUT_S = 600.0
"""A plain call is silent until it is done."""
MAX_PIECES = 8
"""Deltas of what arrives together, before the rest of its text is one."""
MAX_HEAD = 100
"""Characters of a whole answer that tell its kind."""
USAGE_TIMEOUT_S = 5.0
"""The longest wait behind the end of an answer for its usage while the provider only keeps the connection
alive."""
DRAIN_TIMEOUT_S = 0.5
"""The longest wait for the end of the body after the last event, so that the connection can be reused."""


class Assembly(Protocol):
    """One reply in the making: takes the chunks of a stream, or one plain answer as its only chunk."""

    @property
    def finished(self) -> bool:
        """True once nothing that matters can follow."""

    def add(self, chunk: object) -> list[Delta]:
        """Take a chunk and return what is new. Raises ProviderFault for an error inside it."""

    def reply(self) -> Reply:
        """Return the whole reply. Raises ProviderFault for an empty one."""


class End:
    """Stands in the place of a chunk: the provider said that the one before was the last."""


END = End()


class Alone:
    """Counts how long a provider only keeps a connection alive behind the end of its answer."""

    _since: float | None = None

    def is_long(self, assembly: Assembly) -> bool:
        """Return whether it does so for too long."""
        if not assembly.finished:
            return False
        self._since = loop_time() if self._since is None else self._since
        return loop_time() - self._since >= USAGE_TIMEOUT_S


class HttpChat(ChatModel):
    """A provider behind HTTP; its subclasses know its protocol. One pool of connections for each event loop;
    nothing is opened before the first call. `streams_always`: requests that nobody follows are streams, too,
    since the server notices a cancel only while it writes."""

    def __init__(
        self, endpoint: Transport, ids: Ids, sleep: Sleep, *, streams_always: bool = False
    ) -> None:
        self._endpoint = endpoint
        self._ids = ids
        self._sleep = sleep
        self._streams_always = streams_always
        # Such a server often has one slot and no fast hardware: it reads a long prompt for minutes.
        self._silence_s = PLAIN_TIMEOUT_S if streams_always else SILENCE_TIMEOUT_S
        self._left_out: frozenset[str] = frozenset()
        """Fields that this provider has refused."""
        self._refused: dict[str, frozenset[str]] = {}
        """Settings that a model has refused, by model."""
        self._circuits: dict[str, Circuit] = {}
        """By model: whether it is away."""
        self._said: set[tuple[str, frozenset[str]]] = set()
        """Settings that were not sent, by who takes none of them."""

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Return one reply; see the port. Deltas are reported only if `prompt.stream` asks for a stream."""
        requests = Requests(prompt.max_requests, asks_again=prompt.asks_again)
        try:
            reply = await self.answer(prompt, on_delta, requests)
        except ModelError as error:
            error.requests = requests.made
            raise
        if requests.made == 1:
            return reply
        return reply.model_copy(update={"requests": requests.made})

    async def answer(self, prompt: Prompt, on_delta: OnDelta | None, requests: Requests) -> Reply:
        """Return one reply, within the requests that are left. Raises ModelError."""
        if prompt.stream:
            return await self._ask(prompt, on_delta, requests)
        name = self._name(prompt)
        if not self._streams_always or wire.STREAM in self._refused.get(name, frozenset()):
            return await self._ask(prompt, None, requests)
        reply = await self._ask(prompt.model_copy(update={"stream": True}), None, requests)
        if reply.usage == Usage():
            # Budgets and limits count the usage. A plain answer may have it.
            self._refuse(name, frozenset({wire.STREAM}))
        return reply

    async def _ask(self, prompt: Prompt, on_delta: OnDelta | None, requests: Requests) -> Reply:
        """Return one reply, with arguments by the tools' own names."""
        if not prompt.tools or not makers.takes_few_names(prompt.model):
            return await self._ask_as_it_is(requests, prompt, on_delta)
        # Loaded for one maker's models.
        from layover.plugins.models.argument_names import ask_by_plain_names

        return await ask_by_plain_names(prompt, on_delta, partial(self._ask_as_it_is, requests))

    async def _ask_as_it_is(
        self, requests: Requests, prompt: Prompt, on_delta: OnDelta | None
    ) -> Reply:
        """Return one reply, without what the model has refused so far and refuses now."""
        while True:
            name = self._name(prompt)
            left_out = self._left_out | self._refused.get(name, frozenset())
            request = self._request(prompt, left_out)
            try:
                reply = await self._complete(prompt, request, on_delta, requests)
            except ModelError as error:
                from layover.values.places import place_within

                error.place = place_within(error.place, request)
                unknown = self._unknown_fields(error, request)
                settings = refused_settings(error, self._removable(prompt, request) - left_out)
                if prompt.output is not None and self._has_format(request):
                    settings |= refused_format(error, left_out)
                if not unknown | settings and wire.STREAM in request and refuses_streams(error):
                    settings = frozenset({wire.STREAM})
                if not unknown | settings:
                    raise
                self._left_out |= unknown
                self._refuse(name, settings)
                if requests.are_used_up:
                    raise
            else:
                if self._has_format(request) and ignores_schema(prompt, reply):
                    self._repeat_in_words(name)
                if chooses_freely(prompt, request):
                    return reply.model_copy(update={"chooses_freely": True})
                return reply

    def _name(self, prompt: Prompt) -> str:
        """The model, as the provider calls it."""
        return wire.model(prompt)

    @abstractmethod
    def _request(self, prompt: Prompt, left_out: frozenset[str]) -> wire.Body:
        """The body of the request."""

    @abstractmethod
    def _removable(self, prompt: Prompt, request: wire.Body) -> frozenset[str]:
        """Return the fields of a request that a run can do without if the model refuses them."""

    PATH = ""
    """The path below the endpoint's own, if all requests have the same."""

    def _path(self, prompt: Prompt, *, stream: bool) -> str:
        """The path below the endpoint's own."""
        return self.PATH

    @abstractmethod
    def _assembly(self, prompt: Prompt) -> Assembly:
        """An empty reply."""

    def _chunks(self, response: Response) -> AsyncGenerator[Iterator[object], None]:
        """The chunks of a stream until its end, those together that arrive together. Raises ProviderFault if
        the connection breaks; so does the iterator for a chunk that cannot be read."""
        return server_chunks(response)

    def _headers(self, prompt: Prompt, *, stream: bool) -> dict[str, str]:
        return wire.headers(prompt)

    def _unknown_fields(self, error: ModelError, request: wire.Body) -> frozenset[str]:
        """Return the fields that the provider does not know for any model."""
        return frozenset()

    def _has_format(self, request: wire.Body) -> bool:
        """Return whether the request asks for a structured answer by a format."""
        return False

    def _streams(self, prompt: Prompt, request: wire.Body) -> bool:
        return wire.STREAM in request

    def _refuse(self, model: str, settings: frozenset[str]) -> None:
        if not settings:
            return
        logger.warning("%s takes no %s: not sent to it again", model, ", ".join(sorted(settings)))
        self._refused[model] = self._refused.get(model, frozenset()) | settings

    def _say_unsent(self, taker: str, settings: frozenset[str]) -> None:
        """Log once that a model, or an API, takes none of these settings."""
        if settings and (taker, settings) not in self._said:
            self._said.add((taker, settings))
            logger.warning("%s takes no %s: not sent", taker, ", ".join(sorted(settings)))

    def _repeat_in_words(self, model: str) -> None:
        """Have the schema stand in the text of all later requests to this model."""
        refused = self._refused.get(model, frozenset())
        if wire.UNREAD_SCHEMA not in refused:
            logger.warning("%s does not keep to the schema of its answer: told in words", model)
            self._refused[model] = refused | {wire.UNREAD_SCHEMA}

    async def _complete(
        self, prompt: Prompt, request: wire.Body, on_delta: OnDelta | None, requests: Requests
    ) -> Reply:
        streams = self._streams(prompt, request)
        path = self._path(prompt, stream=streams)
        body = wire.encode(request)
        name = self._name(prompt)
        if (circuit := self._circuits.get(name)) is None:
            circuit = self._circuits[name] = Circuit()

        async def attempt() -> Reply:
            if streams:
                return await _within(prompt, self._stream(prompt, path, body, on_delta))
            return await _within(prompt, self._plain(prompt, path, body, on_delta))

        async def restart(fault: ProviderFault) -> None:
            what = fault.error.status or fault.error.type
            logger.warning("%s at %s: %s; asked again", name, shown_url(self.base_url), what)
            again = Delta(kind="retry", text=fault.error.type)
            await send_deltas(on_delta, Delta(kind="restart") if fault.started else again)

        try:
            return await retrying(attempt, self._sleep, requests, circuit, restart)
        except ProviderFault as fault:
            fault.name_provider(self.base_url, name)
            raise fault.error from fault.__cause__

    @property
    def base_url(self) -> str:
        """The URL that requests go to."""
        return self._endpoint.base_url

    @property
    def _provider(self) -> str:
        """The provider to which its own state may be sent back: the host, whatever its port."""
        try:
            return urlsplit(self.base_url).hostname or ""
        except ValueError:  # the request's own error says what is wrong with it
            return ""

    def dial(self, model: str) -> None:
        """Begin to connect to the provider, unless a connection is idle."""
        self._endpoint.dial()

    async def aclose(self) -> None:
        """Close this event loop's connections; the next call opens new ones."""
        await self._endpoint.aclose()

    async def _plain(
        self, prompt: Prompt, path: str, body: bytes, on_delta: OnDelta | None
    ) -> Reply:
        response = await self._post(prompt, path, body, PLAIN_TIMEOUT_S, stream=False)
        reply, deltas = await self._whole(prompt, response)
        if prompt.stream:  # the model takes no request for a stream
            await send_deltas(on_delta, *deltas)
        return reply

    async def _whole(self, prompt: Prompt, response: Response) -> tuple[Reply, list[Delta]]:
        if are_events(response.text[:MAX_HEAD].encode()):
            return await self._unasked_stream(prompt, response)
        assembly = self._assembly(prompt)
        deltas = assembly.add(decode(response.text))
        return assembly.reply(), deltas

    async def _unasked_stream(
        self, prompt: Prompt, response: Response
    ) -> tuple[Reply, list[Delta]]:
        """Return the reply of a server that streams whatever it is asked for."""
        deltas: list[Delta] = []
        try:
            return await self._assemble(prompt, reread(response), deltas.append), deltas
        except ProviderFault as fault:
            fault.started = False  # nobody was told anything
            raise

    async def _stream(
        self, prompt: Prompt, path: str, body: bytes, on_delta: OnDelta | None
    ) -> Reply:
        response = await self._post(prompt, path, body, self._silence_s, stream=True)
        try:
            answer = await _peeked(response)
            if not is_document(answer):
                return await self._assemble(prompt, answer, on_delta)
            await read(answer)
            reply, deltas = await self._whole(prompt, answer)
            await send_deltas(on_delta, *deltas)
            return reply
        finally:
            await response.aclose()

    async def _assemble(
        self, prompt: Prompt, response: Response, on_delta: OnDelta | None
    ) -> Reply:
        assembly = self._assembly(prompt)
        watch = _watch(prompt, on_delta)
        listener = on_delta if watch is None else watch.add
        started, alone = False, Alone()
        arrivals = self._chunks(response)
        try:
            async with contextlib.aclosing(arrivals):
                async for chunks in arrivals:
                    is_last = await _take(chunks, assembly, listener)
                    started = True
                    if watch is not None and watch.is_stuck and not assembly.finished:
                        return self._stopped(prompt, assembly.reply())
                    if is_last:
                        await _drain(arrivals, response)
                        break
                    if is_last is None and alone.is_long(assembly):
                        break
                else:
                    if not assembly.finished:
                        raise invalid("The model's stream broke off before its end")
        except ProviderFault as fault:
            if not (assembly.finished and fault.is_disconnection):
                fault.started = fault.started or started
                raise
            # All but the usage had come.
        try:
            return assembly.reply()
        except ProviderFault as fault:
            fault.started = started
            raise

    def _stopped(self, prompt: Prompt, reply: Reply) -> Reply:
        """Return a reply that comes no further, as one that its limit cut. The provider says what an answer
        cost at its end, which does not come: it is estimated."""
        logger.warning(
            "%s comes no further: the rest of its answer is not read", self._name(prompt)
        )
        usage = Usage(
            input_tokens=estimate(prompt.system or "") + total_tokens(prompt.messages),
            output_tokens=estimate(reply.reasoning) + estimate(reply.text),
        )
        return reply.model_copy(update={"finish_reason": "length", "usage": usage})

    async def _post(
        self, prompt: Prompt, path: str, body: bytes, silence_s: float, *, stream: bool
    ) -> Response:
        """The response: read, or open where `stream`. Raises ProviderFault."""
        headers = self._headers(prompt, stream=stream)
        return await self._endpoint.post(path, body, headers, silence_s, stream=stream)


def _watch(prompt: Prompt, on_delta: OnDelta | None) -> "Repetition | Blanks | None":
    """Return what notices that a streamed answer comes no further; None if nothing does."""
    if not prompt.stops_repeating and prompt.output is None:
        return None
    from layover.plugins.models.repetition import Blanks, Repetition

    if prompt.stops_repeating and on_delta is None:
        # The lines of a JSON document look alike.
        return Repetition(in_lines=prompt.output is None)
    return None if prompt.output is None else Blanks(on_delta)


async def _take(
    chunks: Iterator[object], assembly: Assembly, on_delta: OnDelta | None
) -> bool | None:
    """Add the chunks of one arrival to the reply; return whether the last one is among them, None if there
    are none. Raises ProviderFault, after what came before it has been sent."""
    deltas: list[Delta] = []
    is_last = None
    try:
        for chunk in chunks:
            if chunk is END:
                return True
            deltas += assembly.add(chunk)
            is_last = False
        return is_last
    except ProviderFault as fault:
        fault.started = bool(deltas)
        raise
    finally:
        await send_deltas(on_delta, *join_burst(deltas))


def join_burst(deltas: list[Delta]) -> list[Delta]:
    """Return the deltas of one arrival, the text or the thoughts in those above MAX_PIECES as one: nobody can
    see them one by one."""
    rest = deltas[MAX_PIECES:]
    if {delta.kind for delta in rest} not in ({"text"}, {"reasoning"}):
        return deltas
    text = "".join([delta.text for delta in rest])
    return [*deltas[:MAX_PIECES], Delta(kind=rest[0].kind, text=text)]


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
        raise make_disconnect_fault(TimeoutError(late), timeout=True) from error


def ignores_schema(prompt: Prompt, reply: Reply) -> bool:
    """Return whether a whole answer is nothing that the schema could have led to."""
    if prompt.output is None or reply.calls or reply.finish_reason != "stop":
        return False
    required = set(prompt.output.json_schema.get("required", ()))
    values = map(json_or_text, json_candidates(reply.text))
    return not any(isinstance(value, dict) and required <= value.keys() for value in values)


def chooses_freely(prompt: Prompt, request: wire.Body) -> bool:
    """Return whether a request lacks the setting that is to force a call, because the model does not take
    it."""
    choice = prompt.settings.tool_choice
    if choice in (None, "auto", "none"):
        return False
    config = request.get("toolConfig")
    if not isinstance(config, dict):
        return "tool_choice" not in request
    # Converse's answer to a schema is a call, too.
    return "toolChoice" not in config or (choice == "required" and prompt.output is not None)


async def server_chunks(response: Response) -> AsyncGenerator[Iterator[object], None]:
    """The JSON of OpenAI's server-sent events until the answer's end; END for `[DONE]`. Raises ProviderFault
    for an event that is an error, or an object that is broken, and if the connection breaks."""
    parser = EventParser()
    async with contextlib.aclosing(receive(response)) as pieces:
        async for piece in pieces:
            yield _decoded(parser.feed(piece))
    yield _decoded(parser.end())


async def typed_chunks(
    response: Response, last: Container[str]
) -> AsyncGenerator[Iterator[object], None]:
    """`server_chunks` of an API whose chunks have a type. `last`: types of those that end an answer; END
    follows."""
    async with contextlib.aclosing(server_chunks(response)) as arrivals:
        async for chunks in arrivals:
            yield _with_end(chunks, last)


def _with_end(chunks: Iterator[object], last: Container[str]) -> Iterator[object]:
    for chunk in chunks:
        yield chunk
        if isinstance(chunk, dict) and chunk.get("type") in last:
            yield END


def _decoded(events: list[ServerEvent]) -> Iterator[object]:
    for name, data in events:
        if name == "error":
            raise from_event(json_or_text(data))
        if data[:1] == "{" and "\n" not in data:
            yield decode(data)
        else:
            yield from _chunks_in(data)


def _chunks_in(data: str) -> Iterator[object]:
    """Yield the chunks in the data of an event. A line that is not an object says nothing: keep-alives come
    as data, too. Some servers end an event with one line feed: then each line is a chunk."""
    text = data.strip()
    if "\n" in text and isinstance(whole := json_or_text(text), str):
        for line in whole.split("\n"):
            yield from _chunks_in(line)
    elif text == "[DONE]":
        yield END
    elif text.startswith("{"):
        yield decode(text)
    elif text.startswith("[") and isinstance(chunks := json_or_text(text), list):
        yield chunks


async def receive(response: Response) -> AsyncGenerator[bytes, None]:
    """The bytes of an answer as they come. Raises ProviderFault if the connection breaks."""
    try:
        async with contextlib.aclosing(response.pieces()) as pieces:
            async for chunk in pieces:
                yield chunk
    except OSError as error:
        raise broken(error) from error


async def _peeked(response: Response) -> PeekedResponse:
    try:
        return await peek(response)
    except OSError as error:
        raise broken(error) from error


async def _drain(arrivals: AsyncIterator[object], response: Response) -> None:
    """Read to the end of the body: only then the connection serves the next call."""
    if response.is_whole:
        return
    with contextlib.suppress(TimeoutError, ProviderFault):
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            async for _ in arrivals:
                pass
