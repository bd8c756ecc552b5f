"""Models behind a client of the package `openai`: its transport and credentials, with the requests and the
replies of Layover's adapters.

Authors bring the client, so only they import the package at their module's import; nothing here does before a
model is made."""

import asyncio
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pydantic_core import from_json

from layover.adapters.http.client import Response
from layover.errors import DefinitionError
from layover.plugins.models.closing import may_miss_close
from layover.plugins.models.endpoint import (
    Headers,
    Transport,
    json_or_text,
    read,
)
from layover.plugins.models.faults import (
    ProviderFault,
    from_status,
    make_disconnect_fault,
    not_configured,
    redirected,
)
from layover.plugins.models.openai_chat import OpenAIChat
from layover.ports import Model, OnDelta
from layover.values.prompt import Prompt, Reply

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

MAX_IDLE = 100
"""Connections that the client's own pool keeps for later at most."""


class OpenAIModel(OpenAIChat, Model):
    """A model behind any async client of the package `openai` (extra `layover[openai]`): Azure with its
    sign-in, gateways, own transports. Requests, replies and errors are those of names with a provider.

    Args:
        client: An `AsyncOpenAI`, an `AsyncAzureOpenAI`, or a subclass. Its key, headers, base URL and
            transport are used; its own retries are not, since Layover repeats passing faults. Timeouts that
            differ from the package's own hold.
        model: The model's name as the client's server knows it; at Azure, that of the deployment.
        name: The name by which runs, usage and the agent's definition know it, the same in every process;
            None: `model`. Two models of one agent need two names.

    Raises:
        DefinitionError: If the client is not an async one, or a name is empty.

    Example:
        ```python
        import asyncio

        import httpx2
        from openai import AsyncOpenAI

        from layover import Agent
        from layover.models import OpenAIModel


        def answer(request: httpx2.Request) -> httpx2.Response:
            message = {"role": "assistant", "content": "42 euros."}
            return httpx2.Response(200, json={"choices": [{"message": message}]})


        client = AsyncOpenAI(
            base_url="https://gateway.example/v1",
            api_key="a key",
            http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(answer)),
        )
        shop = Agent("shop", model=OpenAIModel(client, "large", name="gateway/large"))
        result = asyncio.run(shop.generate("What does the lamp cost?"))
        assert result.text == "42 euros."
        ```
    """

    retries = True
    """It repeats passing faults itself: nobody else has to."""

    def __init__(self, client: "AsyncOpenAI", model: str, *, name: str | None = None) -> None:
        _check(client, model, name)
        self._wire_name = model
        self.name = name or model
        url = str(client.base_url).rstrip("/")
        super().__init__(None, endpoint=ClientTransport(client), streams_always=may_miss_close(url))

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Return one reply of the client's server.

        Args:
            prompt: The request; the server gets its own name of the model.
            on_delta: Called with each piece of the answer, if the prompt asks for a stream; None: nobody
                follows.

        Raises:
            ModelError: If the server refuses, or stays down.
        """
        # The prefix that the wire cuts, so that the rest is sent as it is.
        of_server = prompt.model_copy(update={"model": f"openai/{self._wire_name}"})
        return await super().complete(of_server, on_delta)


def _check(client: Any, model: Any, name: Any) -> None:
    """Raise DefinitionError if no model can be made of these."""
    try:
        from openai import AsyncOpenAI
    except ModuleNotFoundError as error:
        raise DefinitionError(
            "OpenAIModel needs the package `openai`: install `layover[openai]`; for AWS, list `openai` in "
            "the requirements.txt of the agents"
        ) from error
    if not isinstance(client, AsyncOpenAI):
        raise DefinitionError(
            "OpenAIModel: client must be an async client of the package `openai` (AsyncOpenAI, "
            f"AsyncAzureOpenAI), not of type {type(client).__name__}"
        )
    for what, value in (("model", model), ("name", model if name is None else name)):
        if not isinstance(value, str) or not value.strip():
            raise DefinitionError(f"OpenAIModel: {what} must be a text that is not empty")


class ClientTransport(Transport):
    """Requests by a client that an author has made. It belongs to its author, who closes it."""

    def __init__(self, client: "AsyncOpenAI") -> None:
        self._client = client
        self._pool = _pool_of(client)

    @property
    def base_url(self) -> str:
        """See Transport."""
        return str(self._client.base_url).rstrip("/")

    async def post(
        self, path: str, body: bytes, headers: Headers, silence_s: float, *, stream: bool = False
    ) -> Response:
        """See Transport."""
        response = await self._send(path, body, headers, silence_s)
        if stream:
            return response
        try:
            await read(response)
        finally:
            await response.aclose()
        return response

    async def _send(
        self, path: str, body: bytes, headers: Headers, silence_s: float
    ) -> "ClientResponse":
        """Return the open answer. Raises ProviderFault, for an answer with an error status, too."""
        import openai

        options: Any = {
            "headers": dict(headers),
            "max_retries": 0,
            # Conversations go where the author's client says.
            "follow_redirects": False,
        }
        if self._client.timeout == openai.DEFAULT_TIMEOUT:
            options["timeout"] = openai.Timeout(silence_s, connect=openai.DEFAULT_TIMEOUT.connect)
        try:
            # As an object: Azure's client reads the deployment from it.
            return ClientResponse(await self._open(path, from_json(body), options))
        except openai.APIStatusError as error:
            raise _refusal(error.response) from error
        except openai.APIConnectionError as error:
            is_late = isinstance(error, openai.APITimeoutError)
            raise make_disconnect_fault(error, timeout=is_late) from error
        except Exception as error:
            raise _unsent(error) from error

    async def _open(self, path: str, body: Any, options: Any) -> "httpx2.Response":
        """Return the open answer. The client drops one idle connection of an event loop that has ended with
        each request that comes upon it, and opens a new one in the end."""
        import openai

        self._pool.enter(asyncio.get_running_loop())
        attempts_left = MAX_IDLE
        while True:
            watch = self._pool.watch()
            try:
                with watch:
                    stream = await self._client.post(
                        path,
                        cast_to=object,
                        body=body,
                        options=options,
                        stream=True,
                        stream_cls=openai.AsyncStream[object],
                    )
            except RuntimeError:
                if not watch.is_unsent or not attempts_left:
                    raise
                attempts_left -= 1
            else:
                return stream.response

    def dial(self) -> None:
        """Do nothing: the client connects when it is asked."""

    async def aclose(self) -> None:
        """Do nothing: the client is its author's."""


class _Pool:
    """The connections of a client's transport, which know nothing of event loops: one that was opened in a
    loop that has ended takes a request, sends it, and then fails."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of the newest request."""
        self.has_former = False
        """True if there may be idle connections of another event loop."""

    def enter(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note the event loop of a request."""
        if self._loop is not None and self._loop is not loop:
            self.has_former = True
        self._loop = loop

    def watch(self) -> "_Watch":
        """Return a watch for one request."""
        return _Watch(self)


class _Watch:
    """A context for one request, which is not sent on a connection that may be of a former event loop. The
    pool opens a new one only if no idle one is left: then all of them are gone."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool
        self.may_be_stale = pool.has_former
        self.is_unsent = False
        """True for a request that is ready, and has met connections only of a former event loop."""

    def __enter__(self) -> None:
        self._token = _WATCH.set(self)

    def __exit__(self, *_: object) -> None:
        _WATCH.reset(self._token)

    async def trace(self, event: str, _: Any) -> None:
        """Hear of an event of httpcore's."""
        if event.endswith(("connect_tcp.started", "connect_unix_socket.started")):
            self.may_be_stale = self.is_unsent = self._pool.has_former = False
        elif event.endswith("send_request_headers.started") and self.may_be_stale:
            raise RuntimeError("the connection may be of another event loop")


_WATCH: ContextVar[_Watch | None] = ContextVar("watch", default=None)
_POOLS: WeakKeyDictionary[object, _Pool] = WeakKeyDictionary()


def _pool_of(client: "AsyncOpenAI") -> _Pool:
    """Return the state of a client's connections, which several models and clients may share."""
    http = client._client
    if http not in _POOLS:
        _POOLS[http] = _Pool()
        http.event_hooks["request"].append(_have_watched)
    return _POOLS[http]


async def _have_watched(request: Any) -> None:
    watch = _WATCH.get()
    if watch is not None and watch.may_be_stale:
        watch.is_unsent = True
        request.extensions["trace"] = watch.trace


class ClientResponse(Response):
    """An answer that the client's transport has begun to read."""

    def __init__(self, response: "httpx2.Response") -> None:
        headers = {name.lower(): value for name, value in response.headers.items()}
        super().__init__(response.status_code, headers)
        self._response = response

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """See Response."""
        try:
            async for piece in self._response.aiter_bytes():
                yield piece
        except Exception as error:  # the transport is the author's: its errors are of any kind
            if "Timeout" in type(error).__name__:
                raise TimeoutError(str(error)) from error
            raise ConnectionError(str(error) or type(error).__name__) from error

    async def aclose(self) -> None:
        """See Response."""
        await self._response.aclose()


def _refusal(response: "httpx2.Response") -> ProviderFault:
    """Return the fault of an answer with an error status."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    if response.status_code < 400:
        return redirected(response.status_code, headers.get("location", ""))
    return from_status(response.status_code, json_or_text(response.text), headers)


def _unsent(error: Exception) -> ProviderFault:
    """Return the fault of a request that was not sent: a token that cannot be had, a URL that is none."""
    if isinstance(error, OSError):
        return make_disconnect_fault(error, timeout=isinstance(error, TimeoutError))
    return not_configured(f"The client could not send the request: {type(error).__name__}: {error}")
