"""Spans in the messages of OTLP, by the classes that `opentelemetry-proto` generates from the protocol.

The SDK has its own objects between a span and its message, and makes three objects for each attribute.
Most attributes of a run are the same in all of its spans, so each is made once here: that is a tenth of the
work (docs/performance.md#tracing). `tests/unit/plugins/traces/test_encoding.py` compares with the messages
of the SDK."""

import logging
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, SpanFlags, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from layover.plugins.traces import attributes as names
from layover.values.span import Attribute, Span, span_id_of, trace_id_of

SCOPE = InstrumentationScope(name="layover")
_KEPT_TEXT = 256
"""Longer texts are no ids and no names: they are not kept."""
_UNSET, _FAILED = Status(), Status(code=Status.STATUS_CODE_ERROR)
_KNOWN = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_REMOTE = _KNOWN | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
"""Flags of parents: they may have been made by another process."""
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}.*", re.DOTALL)
_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
logger = logging.getLogger("layover")
_trace_id = lru_cache(64)(trace_id_of)
_span_id = lru_cache(256)(span_id_of)
"""Ids are hashes, and most spans of a turn have the same parent."""


def encode_spans(spans: Iterable[Span], resource: Resource, max_text: int | None = None) -> bytes:
    """Return a request with the spans. `max_text`: the most characters of an attribute; None: no limit."""
    request = ExportTraceServiceRequest()
    of_scope = request.resource_spans.add(resource=resource).scope_spans.add(scope=SCOPE)
    for span in spans:
        try:
            _add(of_scope, span, max_text)
        except (TypeError, ValueError) as error:
            logger.warning("a span was not sent", extra={"cause": type(error).__name__})
    encoded: bytes = request.SerializeToString()
    return encoded


def encode_attributes(attributes: Mapping[str, Any], max_text: int | None = None) -> list[KeyValue]:
    """Return the attributes. One that no receiver could read is left out."""
    encoded = []
    for key, value in attributes.items():
        try:
            encoded.append(_attribute(key, value, max_text))
        except (TypeError, ValueError) as error:
            cause = {"attribute": key, "cause": type(error).__name__}
            logger.warning("an attribute was not sent", extra=cause)
    return encoded


def _add(of_scope: ScopeSpans, span: Span, max_text: int | None) -> None:
    values = {**span.attributes, names.ERROR: span.error} if span.error else span.attributes
    parent = span.parent
    of_scope.spans.add(
        trace_id=_trace_id(span.run_id).to_bytes(16),
        span_id=_span_id(span.run_id, span.place).to_bytes(8),
        parent_span_id=_span_id(span.run_id, parent).to_bytes(8) if parent is not None else None,
        name=span.name,
        kind=SpanMessage.SPAN_KIND_CLIENT if span.asks_model else SpanMessage.SPAN_KIND_INTERNAL,
        start_time_unix_nano=nanoseconds(span.start),
        end_time_unix_nano=nanoseconds(span.end),
        attributes=encode_attributes(values, max_text),
        links=_links(span.link),
        status=_FAILED if span.error else _UNSET,
        flags=_KNOWN if parent is None else _REMOTE,
    )


def _links(traceparent: str | None) -> list[SpanMessage.Link]:
    match = _TRACEPARENT.fullmatch(traceparent or "")
    if match is None:
        return []
    trace_id, span_id = map(bytes.fromhex, match.groups())
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return []
    return [SpanMessage.Link(trace_id=trace_id, span_id=span_id, flags=_REMOTE)]


def _attribute(key: str, value: Attribute, max_text: int | None) -> KeyValue:
    if isinstance(value, str):
        if max_text is not None:
            value = value[:max_text]
        if len(value) > _KEPT_TEXT:
            return KeyValue(key=key, value=AnyValue(string_value=value))
    elif not isinstance(value, int | float):
        value = tuple(each[:max_text] for each in value)
    return _shared(key, value)


@lru_cache(1024, typed=True)
def _shared(key: str, value: str | bool | int | float | tuple[str, ...]) -> KeyValue:
    """Return the one message of this attribute. A request copies it."""
    return KeyValue(key=key, value=_any(value))


def _any(value: str | bool | int | float | tuple[str, ...]) -> AnyValue:
    # A bool is an int as well.
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=[_any(each) for each in value]))


def nanoseconds(moment: datetime) -> int:
    """Return the time since the epoch."""
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1_000
