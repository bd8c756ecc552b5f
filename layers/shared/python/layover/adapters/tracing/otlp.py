"""Spans and metrics for a receiver of OTLP over HTTP, by the SDK of OpenTelemetry. Its own variables say
where the receiver is and what it wants: `OTEL_EXPORTER_OTLP_*`, `OTEL_RESOURCE_ATTRIBUTES`,
`OTEL_TRACES_SAMPLER`.

In a function, nothing is sent while an invocation works. At its end, all is sent at once, in a thread that
the invocation waits for, but not for long: see `FLUSH_S` and `PAUSE_S`."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from layover.adapters.tracing import attributes as names
from layover.adapters.tracing.recorder import Recorder
from layover.adapters.tracing.session import LeanSession
from layover.ports import Clock
from layover.values.span import Place, Span, span_id_of, trace_id_of

FLUSH_S = 1.0
"""The most seconds that an invocation waits for the receiver, with all attempts."""
PAUSE_S = 30.0
"""Seconds for which nothing is sent after the receiver has failed: each invocation would wait again."""
METRICS_S = 10.0
"""Seconds between two reports of metrics. Each has the sums since the process began, so the next report has
what this one lacks; the last seconds of a process are lost."""
MAX_KEPT = 2_048
"""Spans that are kept while nothing can be sent. The oldest are dropped first."""
SCOPE = "layover"
_DURATIONS = (
    0.01,
    0.02,
    0.04,
    0.08,
    0.16,
    0.32,
    0.64,
    1.28,
    2.56,
    5.12,
    10.24,
    20.48,
    40.96,
    81.92,
)
_TOKENS = (
    1,
    4,
    16,
    64,
    256,
    1024,
    4096,
    16384,
    65536,
    262144,
    1048576,
    4194304,
    16777216,
    67108864,
)
_IN_METRICS = (names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL, names.AGENT, names.TOOL)
"""Attributes of metrics: few values, and never an id."""
logger = logging.getLogger("layover")


class _Ids(IdGenerator):
    """Gives the ids of the span that is made now."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0

    def generate_span_id(self) -> int:
        return self.span_id

    def generate_trace_id(self) -> int:
        return self.trace_id

    def is_trace_id_random(self) -> bool:
        # A hash's bits are as good as random ones, for samplers.
        return True


class _Kept(SpanProcessor):
    """Keeps spans until they are sent."""

    def __init__(self) -> None:
        self.spans: deque[ReadableSpan] = deque(maxlen=MAX_KEPT)

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


class OtlpTracing(Recorder):
    """`ports.Tracing` for a receiver of OTLP.

    Args:
        clock: The time of what no journal has.
        service: The name that the receiver shows, unless `OTEL_SERVICE_NAME` has another.
        headers: Headers of each request, in place of those of the variables.
        in_background: True: a thread sends now and then, and at the process's exit, as in any other program.
            False: `finish` sends, because this process is frozen between invocations.
        flush_s: The most seconds that `finish` takes.
        monotonic: The time by which the pause is measured, in seconds.
    """

    def __init__(
        self,
        clock: Clock,
        service: str,
        *,
        headers: dict[str, str] | None = None,
        in_background: bool = False,
        flush_s: float = FLUSH_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(clock)
        self._monotonic = monotonic
        self._flush_s = flush_s
        self._in_background = in_background
        resource = Resource.create()
        if str(resource.attributes["service.name"]).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": service}))
        self._ids, self._kept = _Ids(), _Kept()
        self._exporter = OTLPSpanExporter(headers=headers, timeout=flush_s, session=LeanSession())
        provider = TracerProvider(
            id_generator=self._ids, resource=resource, shutdown_on_exit=in_background
        )
        processor = BatchSpanProcessor(self._exporter) if in_background else self._kept
        provider.add_span_processor(processor)
        self._sampler = provider.sampler
        self._tracer = provider.get_tracer(SCOPE)
        self._reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(headers=headers, timeout=flush_s, session=LeanSession()),
            export_interval_millis=None if in_background else math.inf,
        )
        meters = MeterProvider([self._reader], resource, shutdown_on_exit=in_background)
        self._measures = _Measures(meters.get_meter(SCOPE))
        self._has_measured = False
        self._thread = ThreadPoolExecutor(1, "layover-otlp")
        self._sending: asyncio.Future[bool] | None = None
        self._quiet_until = self._metrics_due = -math.inf

    def record(self, span: Span) -> None:
        """See `ports.Tracing`."""
        try:
            self._record(span)
            if not span.is_repeated:
                self._has_measured |= self._measures.add(span)
        except Exception:
            logger.warning("a span was not recorded", exc_info=True)

    def _record(self, span: Span) -> None:
        ids = self._ids
        ids.trace_id, ids.span_id = trace_id_of(span.run_id), span_id_of(span.run_id, span.place)
        around = trace.INVALID_SPAN
        if span.parent is not None:
            around = trace.NonRecordingSpan(self._context(span, span.parent))
        sdk_span = self._tracer.start_span(
            span.name,
            trace.set_span_in_context(around),
            SpanKind.CLIENT if span.asks_model else SpanKind.INTERNAL,
            {**span.attributes, **({names.ERROR: span.error} if span.error else {})},
            _links(span),
            _nanoseconds(span.start),
        )
        if span.error:
            sdk_span.set_status(StatusCode.ERROR)
        sdk_span.end(_nanoseconds(span.end))

    def _context(self, span: Span, parent: Place) -> SpanContext:
        trace_id = self._ids.trace_id
        # Whether a run is sampled follows from its trace's id, so that every process decides alike.
        decision = self._sampler.should_sample(None, trace_id, "").decision
        is_dropped = decision is not Decision.RECORD_AND_SAMPLE
        flags = TraceFlags(TraceFlags.DEFAULT if is_dropped else TraceFlags.SAMPLED)
        return SpanContext(
            trace_id, span_id_of(span.run_id, parent), is_remote=True, trace_flags=flags
        )

    async def finish(self) -> None:
        """Send what was recorded. Returns after `flush_s` at the latest, and raises nothing: spans that were
        not sent are kept for the next time."""
        if self._in_background or not self._kept.spans:
            return
        is_sending = self._sending is not None and not self._sending.done()
        if is_sending or self._monotonic() < self._quiet_until:
            return
        self._sending = asyncio.get_running_loop().run_in_executor(self._thread, self._send)
        try:
            is_sent = await asyncio.wait_for(asyncio.shield(self._sending), self._flush_s)
        except Exception as error:
            logger.warning("traces were not sent", extra={"cause": type(error).__name__})
            is_sent = False
        if not is_sent:
            self._quiet_until = self._monotonic() + PAUSE_S

    def _send(self) -> bool:
        """Send everything, and return whether the receiver took the spans."""
        waiting, began = self._kept.spans, time.monotonic()
        spans = [waiting.popleft() for _ in range(len(waiting))]
        if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            waiting.extendleft(reversed(spans[len(waiting) :]))
            return False
        if self._has_measured and self._monotonic() >= self._metrics_due:
            self._metrics_due = self._monotonic() + METRICS_S
            self._has_measured = False
            room = max(0.05, self._flush_s - (time.monotonic() - began))
            self._reader.collect(timeout_millis=room * 1_000)
        return True


class _Measures:
    """The metrics of the conventions."""

    def __init__(self, meter: Any) -> None:
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens of requests to models",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._durations = {
            operation: meter.create_histogram(
                name,
                unit="s",
                description=f"Duration of {operation}",
                explicit_bucket_boundaries_advisory=_DURATIONS,
            )
            for operation, name in (
                ("chat", "gen_ai.client.operation.duration"),
                ("execute_tool", "gen_ai.execute_tool.duration"),
                ("invoke_agent", "gen_ai.invoke_agent.duration"),
            )
        }

    def add(self, span: Span) -> bool:
        """Add a span, and return whether it is measured."""
        histogram = self._durations.get(span.operation)
        if histogram is None:
            return False
        values = {k: span.attributes[k] for k in _IN_METRICS if k in span.attributes}
        values[names.OPERATION] = span.operation
        if span.error:
            values[names.ERROR] = span.error
        histogram.record((span.end - span.start).total_seconds(), values)
        for kind, name in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
            if name in span.attributes:
                self._tokens.record(span.attributes[name], {**values, "gen_ai.token.type": kind})
        return True


def _links(span: Span) -> list[trace.Link]:
    if span.link is None:
        return []
    context = TraceContextTextMapPropagator().extract({"traceparent": span.link})
    caller = trace.get_current_span(context).get_span_context()
    return [trace.Link(caller)] if caller.is_valid else []


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1_000
