"""Spans are encoded as the SDK of OpenTelemetry encodes them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as encode_by_sdk
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from layover.plugins.traces.encoding import encode_attributes, encode_spans, nanoseconds
from layover.values.span import RUN, Place, Span, span_id_of, trace_id_of

START = datetime(2026, 11, 27, 8, 30, 15, 123_457, UTC)
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RESOURCE = {"service.name": "shop", "telemetry.sdk.language": "python"}


def span(**more: Any) -> Span:
    given: dict[str, Any] = {
        "run_id": "run_1",
        "place": ("step", "0001"),
        "parent": RUN,
        "name": "chat gpt-5-mini",
        "start": START,
        "end": START + timedelta(seconds=2, microseconds=1),
        "attributes": {"gen_ai.operation.name": "chat"},
        **more,
    }
    return Span(**given)


def of_sdk(span: Span) -> ReadableSpan:
    """The same span as an object of the SDK."""

    def context(place: Place) -> SpanContext:
        ids = trace_id_of(span.run_id), span_id_of(span.run_id, place)
        return SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(1))

    links = []
    if span.link is not None:
        caller = TraceContextTextMapPropagator().extract({"traceparent": span.link})
        found = trace.get_current_span(caller).get_span_context()
        links = [Link(found)] if found.is_valid else []
    return ReadableSpan(
        name=span.name,
        context=context(span.place),
        parent=None if span.parent is None else context(span.parent),
        resource=Resource(RESOURCE),
        attributes={**span.attributes, **({"error.type": span.error} if span.error else {})},
        links=links,
        kind=SpanKind.CLIENT if span.asks_model else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR if span.error else StatusCode.UNSET),
        start_time=nanoseconds(span.start),
        end_time=nanoseconds(span.end),
        instrumentation_scope=InstrumentationScope("layover"),
    )


def encoded(*spans: Span, max_text: int | None = None) -> Any:
    resource = ResourceMessage(attributes=encode_attributes(RESOURCE))
    return ExportTraceServiceRequest.FromString(encode_spans(spans, resource, max_text))


def attributes_of(message: Any) -> dict[str, str]:
    [sent] = message.resource_spans[0].scope_spans[0].spans
    return {each.key: each.value.string_value for each in sent.attributes}


@pytest.mark.parametrize(
    "given",
    [
        span(),
        span(asks_model=True, error="rate_limited"),
        span(place=RUN, parent=None, link=CALLER, name="invoke_agent guide"),
        span(place=RUN, parent=None, link="00-" + "0" * 32 + "-b7ad6b7169203331-01"),
        span(place=RUN, parent=None, link="00-" + "1" * 32 + "-" + "0" * 16 + "-01"),
        span(place=RUN, parent=None, link="no trace"),
        span(attributes={}),
        span(attributes={"true": True, "one": 1, "float": 1.0, "zero": 0, "false": False}),
        span(attributes={"texts": ("stop", "length"), "none": (), "long": "x" * 5_000}),
        span(name="Café 🙂", attributes={"city": "Zürich"}),
    ],
)
def test_a_span_is_the_message_that_the_sdk_makes_of_it(given: Span) -> None:
    assert encoded(given) == encode_by_sdk([of_sdk(given)])


def test_spans_of_several_runs_go_in_one_request_in_their_order() -> None:
    spans = [span(run_id=f"run_{n}", attributes={"n": n}) for n in range(5)]
    assert encoded(*spans) == encode_by_sdk([of_sdk(each) for each in spans])


def test_numbers_that_are_equal_and_of_other_kinds_stay_apart() -> None:
    spans = [span(attributes={"same": value}) for value in (True, 1, 1.0, False, 0, 0.0)]
    assert encoded(*spans) == encode_by_sdk([of_sdk(each) for each in spans])


@pytest.mark.parametrize("value", ["\ud800", ("fine", "\ud800"), 2**70, None, object()])
def test_an_attribute_that_no_receiver_can_read_is_left_out_and_its_span_is_sent(
    value: Any,
) -> None:
    message = encoded(span(attributes={"bad": value, "good": "yes"}))
    assert attributes_of(message) == {"good": "yes"}


def test_a_span_that_no_receiver_can_read_costs_no_other_span(
    caplog: pytest.LogCaptureFixture,
) -> None:
    message = encoded(span(name="\ud800 secret"), span(name="fine"))
    [sent] = message.resource_spans[0].scope_spans[0].spans
    assert sent.name == "fine"
    assert "secret" not in caplog.text


def test_texts_are_cut_where_the_deployer_says() -> None:
    given = span(attributes={"text": "abcdef", "n": "ab"})
    assert attributes_of(encoded(given, max_text=3)) == {"text": "abc", "n": "ab"}
