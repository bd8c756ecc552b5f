"""Models that authors bring, as the port that the engine asks (docs/behaviour.md#own-models)."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Generator, Iterator
from typing import Any

from layover.errors import (
    INVALID_RESPONSE,
    ContentFiltered,
    ContextLengthExceeded,
    LayoverError,
    ModelError,
)
from layover.plugins.models.circuit import Circuit
from layover.plugins.models.endpoint import json_or_text
from layover.plugins.models.faults import (
    NETWORK,
    ProviderFault,
    from_status,
    make_disconnect_fault,
    may_pass,
)
from layover.plugins.models.retrying import Requests, Sleep, retrying
from layover.ports import ChatModel, Model, OnDelta, send_deltas
from layover.values.prompt import Delta, Prompt, Reply, deltas_of

logger = logging.getLogger("layover")

_ORDER = ("reasoning", "text", "tool-call")
_TIMEOUT_NAMES = re.compile(r"Timeout")
_NETWORK_NAMES = re.compile(r"Timeout|Connect|(Transport|Network|Protocol)Error$")


class OwnModel(ChatModel):
    """An author's model: its passing faults are repeated, its exceptions are ModelErrors, and followers see
    an answer that it does not stream."""

    def __init__(self, model: Model, sleep: Sleep = asyncio.sleep) -> None:
        self._model = model
        self._sleep = sleep

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Return one reply; see the port."""
        listener = on_delta if prompt.stream else None
        repeats = not getattr(self._model, "retries", False)

        async def attempt() -> Reply:
            return await self._attempt(prompt, listener, repeats=repeats)

        async def restart(fault: ProviderFault) -> None:
            what = fault.error.status or fault.error.type
            logger.warning("the model %s: %s; asked again", self._model.name, what)
            if fault.started:
                await send_deltas(listener, Delta(kind="restart"))

        requests = Requests(prompt.max_requests, asks_again=prompt.asks_again)
        try:
            if not repeats:
                return await attempt()
            reply = await retrying(attempt, self._sleep, requests, Circuit(), restart)
        except ProviderFault as fault:
            if repeats:
                fault.error.requests = requests.made
            else:
                fault.error.passes = fault.is_transient
            raise fault.error from fault.__cause__
        return reply.model_copy(update={"requests": requests.made})

    async def _attempt(self, prompt: Prompt, listener: OnDelta | None, *, repeats: bool) -> Reply:
        """Return the reply of one call. Raises ProviderFault, and LayoverErrors that are not ModelErrors."""
        pieces = _Listener(listener)
        complete: Any = self._model.complete  # an author's may answer anything
        limit = asyncio.timeout(prompt.settings.timeout if repeats else None)
        try:
            async with limit:
                reply = await complete(prompt, pieces.hear if listener else None)
        except Exception as error:
            if isinstance(error, LayoverError) and not isinstance(error, ModelError):
                raise
            if limit.expired():
                late = f"no whole reply within {prompt.settings.timeout:g} s"
                error = TimeoutError(late)
            fault = _fault(error, self._model.name)
            fault.started = bool(pieces.kinds)
            raise fault from (error.__cause__ if isinstance(error, ModelError) else error)
        if not isinstance(reply, Reply):
            message = f"the model {self._model.name} answered {type(reply).__name__}, not a Reply"
            raise ProviderFault(ModelError(message, type=INVALID_RESPONSE), is_transient=False)
        await send_deltas(listener, *pieces.untold(reply))
        # A usage, a price and the provider's own state are found by these.
        names = [field for field in ("model", "asked_model") if not getattr(reply, field)]
        return reply.model_copy(update=dict.fromkeys(names, self._model.name)) if names else reply


class _Listener:
    """Passes on the pieces of an answer, and notes their kinds."""

    def __init__(self, listener: OnDelta | None) -> None:
        self._listener = listener
        self.kinds: set[str] = set()

    def hear(self, delta: Delta) -> Awaitable[None]:
        """Take a piece. An author may await the answer or not."""
        if delta.kind == "restart":
            self.kinds.clear()
        else:
            self.kinds.add(delta.kind)
        awaitable = self._listener(delta) if self._listener else None
        return _Done() if awaitable is None else awaitable

    def untold(self, reply: Reply) -> Iterator[Delta]:
        """Return the kinds of pieces that the author has not told, each as one piece; not thoughts behind a
        text."""
        last = max((_ORDER.index(kind) for kind in self.kinds), default=-1)
        return (delta for delta in deltas_of(reply) if last < _ORDER.index(delta.kind))


class _Done:
    """Awaits nothing."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


def _fault(error: Exception, name: str) -> ProviderFault:
    """Return an exception as the fault of an attempt. Clients of all makers put the HTTP status on it."""
    if isinstance(error, ProviderFault):  # of a ChatReply
        return error
    if isinstance(error, ModelError):
        return ProviderFault(error, is_transient=_may_pass(error), retry_after=error.retry_after)
    response = getattr(error, "response", None)
    status = _status(error) or _status(response)
    if status is not None:
        fault = from_status(status, _body(error, response), _headers(response))
        from layover.values.places import place_within

        fault.error.place = place_within(fault.error.place, ())
        return fault
    if isinstance(error, OSError) or _is_called(error, _NETWORK_NAMES):
        fault = make_disconnect_fault(error, timeout=_is_called(error, _TIMEOUT_NAMES))
        fault.add(f" [model {name}]")
        return fault
    # An author's mistake, as a rule: the log says where.
    logger.warning("the model %s failed", name, exc_info=error)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    message = f"the model {name} failed: {what}"
    return ProviderFault(ModelError(message, type=type(error).__name__), is_transient=False)


def _may_pass(error: ModelError) -> bool:
    if isinstance(error, ContextLengthExceeded | ContentFiltered):
        return False
    return error.type in NETWORK if error.status is None else may_pass(error.status)


def _status(holder: Any) -> int | None:
    """Return an error status that an exception, or the response on it, has."""
    of_holder = [getattr(holder, name, None) for name in ("status_code", "status", "code")]
    of_botocore = _of_botocore(holder).get("ResponseMetadata")
    if isinstance(of_botocore, dict):
        of_holder.append(of_botocore.get("HTTPStatusCode"))
    statuses = (v for v in of_holder if isinstance(v, int) and not isinstance(v, bool))
    return next((value for value in statuses if 400 <= value <= 599), None)


def _body(error: Exception, response: Any) -> object:
    """Return what the provider said: decoded, as the client has it, or as the exception says it."""
    body = getattr(error, "body", None) or _of_botocore(response).get("Error")
    if isinstance(body, dict):
        return {str(name).lower(): value for name, value in body.items()}
    try:
        text = response.text
    except Exception:  # it has none, or was not read
        text = None
    return json_or_text(text) if isinstance(text, str) and text else str(error)


def _of_botocore(response: Any) -> dict[str, Any]:
    """Return the response of an error of botocore's, which is a dictionary."""
    return response if isinstance(response, dict) else {}


def _headers(response: Any) -> dict[str, str]:
    headers: Any = getattr(response, "headers", None)
    items = headers.items() if hasattr(headers, "items") else ()
    return {str(name).lower(): str(value) for name, value in items}


def _is_called(error: Exception, names: re.Pattern[str]) -> bool:
    """Return whether a class of the error has such a name: clients of HTTP do not derive their errors from
    OSError."""
    return any(names.search(each.__name__) for each in type(error).__mro__)
