"""Spans and metrics for a receiver of OTLP over HTTP. The variables of OpenTelemetry say where it is and what
it wants: `OTEL_EXPORTER_OTLP_*`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`.

Nothing is sent while an invocation works. At its end, all is sent at once, and the invocation waits for it,
but not for long: see `FLUSH_S` and `PAUSE_S`."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage
from opentelemetry.sdk.resources import Resource

from layover.plugins.traces.encoding import encode_attributes, encode_spans
from layover.plugins.traces.measures import Measures
from layover.plugins.traces.receiver import (
    TOO_LARGE,
    DirectSender,
    LibrarySender,
    Receiver,
    Refused,
    is_sent,
    may_pass,
    unspoken,
)
from layover.plugins.traces.recorder import Recorder
from layover.ports import Clock
from layover.values.span import Span, trace_id_of

FLUSH_S = 1.0
"""The most seconds that an invocation waits for the receiver, with all attempts."""
PAUSE_S = 30.0
"""Seconds for which nothing is sent after the receiver has failed: each invocation would wait again."""
METRICS_S = 10.0
"""Seconds between two reports of metrics. Each has the sums since the process began, so the next report has
what this one lacks; the last seconds of a process are lost."""
MAX_KEPT = 2_048
"""Spans that are kept while nothing can be sent. The oldest are dropped first."""
_SAMPLER = "OTEL_TRACES_SAMPLER"
_LIMITS = ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT")
logger = logging.getLogger("layover")


class Sender(Protocol):
    """Sends requests to a receiver."""

    async def post(self, body: bytes) -> None:
        """Send a request. Raises OSError, and Refused."""
        ...

    async def aclose(self) -> None:
        """Close the connection."""
        ...


class Recorded(Recorder):
    """The spans and metrics that wait to be sent.

    Args:
        clock: The time of what no journal has.
        service: The name that the receiver shows, unless `OTEL_SERVICE_NAME` has another.
        variables: The process's variables.
        headers: Headers of each request, which count more than those of the variables.
        flush_s: The most seconds that a request takes.
        monotonic: The time by which pauses are measured, in seconds.
    """

    def __init__(
        self,
        clock: Clock,
        service: str,
        variables: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        flush_s: float = FLUSH_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock)
        self._flush_s = flush_s
        self._variables = variables
        self._headers = headers or {}
        self._monotonic = monotonic
        self._resource = _resource(service)
        self._is_sampled = _sampling(variables)
        self._has_metrics = is_sent("metrics", variables)
        self._max_text = _max_text(variables)
        self._waiting: deque[Span] = deque(maxlen=MAX_KEPT)
        self._measures = Measures(variables)
        self._max_batch, self._dropped = MAX_KEPT, 0
        self._quiet_until = self._metrics_due = -math.inf
        for line in unspoken(variables):
            logger.warning(line)

    def record(self, span: Span) -> None:
        """See `ports.Tracing`."""
        try:
            if self._has_metrics and not span.is_repeated:
                self._measures.add(span)
            if self._is_sampled(span.run_id):
                self._waiting.append(span)
        except Exception:
            logger.warning("a span was not recorded", exc_info=True)

    def _may_send(self) -> bool:
        return self._monotonic() >= self._quiet_until

    def _are_metrics_due(self) -> bool:
        return self._measures.has_news and self._monotonic() >= self._metrics_due

    @contextmanager
    def _batch(self) -> Iterator[list[Span]]:
        """Take spans for one request. Those that were not sent are kept, if they may be taken later, or in
        smaller requests; the others would be sent for ever."""
        count = min(len(self._waiting), self._max_batch)
        spans = [self._waiting.popleft() for _ in range(count)]
        try:
            yield spans
        except BaseException as error:
            is_too_large = isinstance(error, Refused) and error.status == TOO_LARGE and count > 1
            if is_too_large or may_pass(error):
                self._keep(spans)
            else:
                self._dropped += count
            if not is_too_large:
                raise
            self._max_batch = count // 2

    def _encoded(self, spans: list[Span]) -> bytes:
        return encode_spans(spans, self._resource, self._max_text)

    def _reported(self) -> bytes:
        self._metrics_due = self._monotonic() + METRICS_S
        return self._measures.report(self._resource)

    def _keep(self, spans: list[Span]) -> None:
        """Put spans back: the newest, as far as there is room."""
        room = MAX_KEPT - len(self._waiting)
        self._dropped += max(0, len(spans) - room)
        self._waiting.extendleft(reversed(spans[max(0, len(spans) - room) :]))

    def _failed(self, signal: str, error: Exception) -> None:
        """Log what was not sent, without what the receiver or the system said of it."""
        if signal == "traces":
            self._quiet_until = self._monotonic() + PAUSE_S
        cause = str(error) if isinstance(error, Refused) else type(error).__name__
        extra = {"cause": cause, "dropped_spans": self._dropped}
        logger.warning("%s were not sent", signal, extra=extra)


class OtlpTracing(Recorded):
    """`ports.Tracing` of a function, which is frozen between invocations."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._senders: dict[str, Sender] = {}

    async def finish(self) -> None:
        """Send what was recorded. Returns after `flush_s` at the latest, and raises nothing: spans that were
        not sent are kept for the next time."""
        if not self._may_send() or not (self._waiting or self._are_metrics_due()):
            return
        signal = "traces"
        try:
            async with asyncio.timeout(self._flush_s):
                await self._post_spans()
                signal = "metrics"
                if self._are_metrics_due():
                    await self._sender(signal).post(self._reported())
        except Exception as error:
            self._failed(signal, error)

    async def _post_spans(self) -> None:
        while self._waiting:
            with self._batch() as spans:
                await self._sender("traces").post(self._encoded(spans))

    async def aclose(self) -> None:
        """Close the connections. The next request opens another."""
        for sender in self._senders.values():
            await sender.aclose()

    def _sender(self, signal: str) -> Sender:
        """Return what sends `traces` or `metrics`. Raises ValueError for an endpoint that is not a URL."""
        sender = self._senders.get(signal)
        if sender is None:
            receiver = Receiver.of(signal, self._variables, self._headers)
            make = LibrarySender if receiver.needs_library else DirectSender
            sender = self._senders[signal] = make(receiver, self._flush_s)
        return sender


def _resource(service: str) -> ResourceMessage:
    resource = Resource.create()
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": service}))
    return ResourceMessage(attributes=encode_attributes(resource.attributes))


def _sampling(variables: Mapping[str, str]) -> Callable[[str], bool]:
    """Return a function that says of a run if its spans are sent. It follows from the trace's id, so that
    every process decides alike."""
    if not is_sent("traces", variables):
        return lambda run_id: False
    if not variables.get(_SAMPLER):
        return lambda run_id: True
    # Imported only where it is wanted: it takes as long as everything else here.
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import Decision

    sampler = TracerProvider(shutdown_on_exit=False).sampler

    @lru_cache(256)
    def is_sampled(run_id: str) -> bool:
        result = sampler.should_sample(None, trace_id_of(run_id), "")
        return result.decision is Decision.RECORD_AND_SAMPLE

    return is_sampled


def _max_text(variables: Mapping[str, str]) -> int | None:
    """Return the most characters of an attribute, if the variables limit them."""
    if not any(variables.get(name) for name in _LIMITS):
        return None
    from opentelemetry.sdk.trace import SpanLimits

    return SpanLimits().max_span_attribute_length
